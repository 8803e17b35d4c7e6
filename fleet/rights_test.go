// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/etcd"
	"github.com/disco-sim/disco/metastore/zk"
)

// adminPassword is that of user root; those of other users begin with their names.
const adminPassword = "the administrator's password"

func passwordOf(user string) string {
	if user == "root" {
		return adminPassword
	}
	return user + "'s own long password"
}

// guarded are clients of one server that asks who they are.
type guarded struct {
	t    *testing.T
	name string
	open func(user, password string) (metastore.Backend, error)
}

// onGuarded runs a test on each engine that knows users.
func onGuarded(t *testing.T, run func(t *testing.T, g *guarded)) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	t.Run("etcd", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(file, []byte(adminPassword), 0o600); err != nil {
			t.Fatal(err)
		}
		e, err := storeserver.StartEtcds(ctx, t.TempDir(), 1, "--password-file", file)
		storeserver.Need(t, err)
		t.Cleanup(e.Close)
		run(t, &guarded{t, "etcd", func(user, password string) (metastore.Backend, error) {
			return etcd.New(t.Context(), etcd.Options{Endpoints: e.Addrs(), User: user, Password: password})
		}})
	})
	t.Run("zk", func(t *testing.T) {
		e, err := storeserver.StartEnsemble(ctx, t.TempDir(), 1, storeserver.ZKOptions{})
		storeserver.Need(t, err)
		t.Cleanup(e.Close)
		run(t, &guarded{t, "zk", func(user, password string) (metastore.Backend, error) {
			return zk.New(zk.Options{Servers: e.Addrs(), User: user, Password: password})
		}})
	})
}

// as is a client that is closed with the test. Only root makes the group.
func (g *guarded) as(user string) *Client {
	g.t.Helper()
	b, err := g.open(user, passwordOf(user))
	if err != nil {
		g.t.Fatal(err)
	}
	s, err := metastore.New(g.t.Context(), b, metastore.Options{Chroot: "org", Group: "g", Base: Base(),
		Existing: user != "root"})
	if err != nil {
		g.t.Fatalf("user %s: %v", user, err)
	}
	g.t.Cleanup(func() { _ = s.Close() })
	c, err := New(g.t.Context(), s, Options{By: user + "@h1", From: "the test"})
	if err != nil {
		g.t.Fatal(err)
	}
	return c
}

// give gives roles, and returns what was changed.
func (g *guarded) give(root *Client, roles map[string]UserRole) []string {
	g.t.Helper()
	passwords, steps := map[string]string{}, 0
	for user := range roles {
		passwords[user] = passwordOf(user)
	}
	changed, err := root.SetRoles(g.t.Context(), Grants{Roles: roles, Beside: []string{"/org/g-parts"},
		Passwords: passwords, Step: func() { steps++ }})
	if err != nil {
		g.t.Fatal(err)
	}
	if steps < len(roles) {
		g.t.Errorf("found %d steps for %d users, want one each at least, since each is given a time", steps, len(roles))
	}
	return changed
}

// refused checks that the store refuses something.
func (g *guarded) refused(what string, err error) {
	g.t.Helper()
	if !errors.Is(err, metastore.ErrDenied) {
		g.t.Errorf("%s: found %v, want ErrDenied", what, err)
	}
}

// done checks that something was done.
func (g *guarded) done(what string, err error) {
	g.t.Helper()
	if err != nil {
		g.t.Errorf("%s: %v", what, err)
	}
}

// explained checks what a user is told of a refusal.
func (g *guarded) explained(c *Client, do string, err error, want string) {
	g.t.Helper()
	text := Explain(g.t.Context(), c.store, "g", do, err).Error()
	if !strings.Contains(text, want) || strings.Contains(text, "etcdserver") || strings.Contains(text, "ZooKeeper") {
		g.t.Errorf("%s: found %q, want %q and nothing of the engine", do, text, want)
	}
}

func TestRoles(t *testing.T) {
	onGuarded(t, func(t *testing.T, g *guarded) {
		ctx := t.Context()
		root := g.as("root")
		roles := map[string]UserRole{"ann": Submit, "bob": Submit, "eve": See, "op": Operate}
		if changed := g.give(root, roles); len(changed) < 4 {
			t.Errorf("the first time: found %q changed", changed)
		}
		if changed := g.give(root, roles); len(changed) != 0 {
			t.Errorf("the second time: found %q changed, want nothing", changed)
		}
		ann, bob, eve, op := g.as("ann"), g.as("bob"), g.as("eve"), g.as("op")
		s := shop("night")
		id, duplicate, err := ann.Submit(ctx, s)
		if err != nil || duplicate || Owner(id) != "ann" {
			t.Fatalf("ann's submission: %q %v %v", id, duplicate, err)
		}
		if again, duplicate, err := ann.Submit(ctx, s); again != id || !duplicate {
			t.Errorf("again: %q %v %v, want %q", again, duplicate, err, id)
		}
		if other, duplicate, err := bob.Submit(ctx, s); duplicate || Owner(other) != "bob" {
			t.Errorf("bob, under the same key: %q %v %v", other, duplicate, err)
		}
		g.looks(eve, id)
		g.forges(bob, op, id)
		_, err = ann.Pause(ctx, id, "lunch")
		g.done("ann pauses hers", err)
		_, err = op.Cancel(ctx, id, "the machine is needed")
		g.done("op cancels hers", err)
		g.audited(eve, id)
		g.ends(op, id)
		g.takesAway(root, bob, eve, ann)
	})
}

// looks: who may see sees all, and changes nothing.
func (g *guarded) looks(eve *Client, id string) {
	ctx := g.t.Context()
	all, err := eve.List(ctx)
	if err != nil || len(all) != 2 || all[0].Spec == nil || all[0].Spec.User != "ann" {
		g.t.Errorf("eve sees %d experiments, %v", len(all), err)
	}
	_, _, err = eve.Submit(ctx, shop("eve's"))
	g.refused("eve submits", err)
	g.explained(eve, "submit", err, "user eve may see: submit needs the role submit, which user root gives")
	_, err = eve.Cancel(ctx, id, "")
	g.refused("eve cancels", err)
}

// write makes a commit past all that a client checks.
func write(c *Client, do metastore.OpKind, key string) error {
	op := metastore.Op{Path: key, Do: do}
	if do == metastore.Set || do == metastore.Create {
		op.Value = []byte("j7")
	}
	return c.store.Commit(context.Background(), nil, []metastore.Op{op})
}

// forges: nobody acts in another's name.
func (g *guarded) forges(bob, op *Client, id string) {
	ctx := g.t.Context()
	_, err := bob.Cancel(ctx, id, "")
	g.refused("bob cancels ann's", err)
	g.explained(bob, "cancel", err, "may submit, and change experiments of bob alone: cancel needs the role operate")
	g.done("bob's own entry", bob.note(ctx, "bob's"))
	names, err := op.names(ctx, keyAudit+"/ann")
	if err != nil || len(names) != 1 {
		g.t.Fatalf("ann's entries: %q, %v", names, err)
	}
	for _, c := range []*Client{bob, op} {
		who := c.user
		g.refused(who+" writes an entry of ann's", write(c, metastore.Create, keyAudit+"/ann/forged"))
		g.refused(who+" changes an entry of ann's", write(c, metastore.Set, keyAudit+"/ann/"+names[0]))
		g.refused(who+" deletes an entry of ann's", write(c, metastore.Delete, keyAudit+"/ann/"+names[0]))
		g.refused(who+" deletes ann's entries", write(c, metastore.DeleteTree, keyAudit+"/ann"))
		flat := keyAudit + "/260101-000000.000000-abcdef"
		g.refused(who+" writes an entry of nobody's", write(c, metastore.Create, flat))
	}
	g.refused("bob takes ann's idempotency key", write(bob, metastore.Create, keySubmitted+"/ann/x"))
	g.refused("bob changes ann's experiment", write(bob, metastore.Set, wishKey(id)))
	g.refused("bob deletes ann's experiment", write(bob, metastore.Delete, specKey(id)))
	g.refused("bob drains machines", write(bob, metastore.Set, "cluster/drained/h1"))
	g.refused("bob writes pieces", write(bob, metastore.Set, pieceKey(id, PieceID{})))
	g.done("op drains machines", write(op, metastore.Set, "cluster/drained/h1"))
	g.refused("bob makes an experiment in ann's name", write(bob, metastore.Create, keyExperiments+"/ann.forged/x"))
	g.raw(op)
	g.forgesByHand(op)
}

// forgesByHand: ZooKeeper says who may make nodes, and not which, and whoever makes one says who may use it. So a
// client that isn't ours can take a name for an experiment that is another user's; its entry in the audit it can't
// make.
func (g *guarded) forgesByHand(op *Client) {
	access, err := op.store.Access(g.t.Context())
	if err != nil {
		g.t.Fatal(err)
	}
	b, err := g.open("bob", passwordOf("bob"))
	if err != nil {
		g.t.Fatal(err)
	}
	defer b.Close()
	access.Find("bob").Rights = access.Find("op").Rights // what it makes looks as if bob might
	b.(metastore.Guarded).Abide(access)
	forge := func(path string, do metastore.OpKind) error {
		op := metastore.Op{Path: path, Do: do}
		if do == metastore.Create {
			op.Value = []byte("j7")
		}
		return b.Commit(g.t.Context(), nil, []metastore.Op{op})
	}
	g.refused("bob's own client makes an entry of ann's", forge("/org/g/"+keyAudit+"/ann/forged", metastore.Create))
	spec := "/org/g/" + specKey("ann.forged")
	if err := forge(spec, metastore.Create); g.name == "etcd" {
		g.refused("bob's own client makes an experiment in ann's name", err)
	} else {
		g.done("bob's own client makes an experiment in ann's name", err)
		g.done("op removes it", write(op, metastore.DeleteTree, keyExperiments+"/ann.forged"))
	}
}

// raw: who operates gives no roles, with what client whatever.
func (g *guarded) raw(op *Client) {
	b, err := g.open("op", passwordOf("op"))
	if err != nil {
		g.t.Fatal(err)
	}
	defer b.Close()
	list, dir := metastore.AccessPath("/org/g")+"/list", metastore.AccessPath("/org/g")
	for _, o := range []metastore.Op{{Path: list, Do: metastore.Set, Value: []byte("j{}")},
		{Path: list, Do: metastore.Delete}, {Path: dir, Do: metastore.DeleteTree},
		{Path: dir + "/x", Do: metastore.Create, Value: []byte("j{}")}} {
		g.refused("op gives roles", b.Commit(g.t.Context(), nil, []metastore.Op{o}))
	}
	_, err = op.SetRoles(g.t.Context(), Grants{Roles: map[string]UserRole{"op": Operate}})
	if err == nil || !strings.Contains(err.Error(), "roles are given by root here") {
		g.t.Errorf("op gives roles: found %v", err)
	}
}

// audited: each entry is its user's.
func (g *guarded) audited(c *Client, id string) {
	deeds, malformed, err := c.Audit(g.t.Context())
	if err != nil || len(malformed) > 0 {
		g.t.Errorf("the audit: %v %v", malformed, err)
	}
	var found []string
	for _, d := range deeds {
		if d.User != d.By || d.From != "the test by "+d.By+"@h1" {
			g.t.Errorf("found %+v, want it by its user", d)
		}
		if d.ID == id {
			found = append(found, d.User+" "+d.What+" "+d.Why)
		}
	}
	want := []string{"ann submit ", "ann pause lunch", "op cancel the machine is needed"}
	if !slices.Equal(found, want) {
		g.t.Errorf("found %q, want %q", found, want)
	}
}

// ends: who operates writes what a leader writes, and removes what has ended.
func (g *guarded) ends(op *Client, id string) {
	ctx := g.t.Context()
	e, err := op.Show(ctx, id)
	if err != nil {
		g.t.Fatal(err)
	}
	at := e.Spec.Submitted
	g.done("op's standing", op.SetStanding(ctx, id, metastore.Version{}, Standing{Status: StatusCanceled, Ended: true,
		EndedAt: &at}))
	g.done("op removes it", op.RemoveExperiment(ctx, id))
	if _, err := op.Show(ctx, id); !errors.Is(err, ErrGone) {
		g.t.Errorf("afterwards: %v, want ErrGone", err)
	}
	if names, err := op.names(ctx, keySubmitted+"/ann"); err != nil || len(names) != 0 {
		g.t.Errorf("ann's idempotency keys: %q, %v", names, err)
	}
}

// takesAway: who has no role any more may do nothing, at once.
func (g *guarded) takesAway(root, bob, eve, ann *Client) {
	ctx := g.t.Context()
	changed := g.give(root, map[string]UserRole{"bob": "", "ann": See})
	if len(changed) < 2 {
		g.t.Errorf("found %q changed", changed)
	}
	_, err := bob.List(ctx)
	g.refused("bob looks without a role", err)
	g.explained(bob, "list", err, "user bob has no role in the group g")
	_, _, err = ann.Submit(ctx, shop("another"))
	g.refused("ann submits, who may see", err)
	if _, err := eve.List(ctx); err != nil {
		g.t.Errorf("eve looks: %v", err)
	}
	if g.name == "etcd" { // ZooKeeper takes every name and password
		again, err := g.open("bob", passwordOf("bob"))
		if g.refused("bob comes again", err); err == nil {
			_ = again.Close()
		}
	}
	nobody, err := g.open("", "")
	if err == nil {
		_, err = nobody.Get(ctx, "/org/g/fleet/changed")
		_ = nobody.Close()
	}
	g.refused("nobody looks", err)
}
