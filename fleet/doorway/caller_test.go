// SPDX-License-Identifier: Apache-2.0

package doorway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/certs"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/mem"
)

// withRoles is a door at whose home roles were given, and the folders of those who come.
type withRoles struct {
	*served
	dir string
	ca  []byte // the authority of machines
}

// tokenOf is a user's token.
func tokenOf(user string) string { return user + "-token-of-many-characters" }

// openWithRoles opens a door: ann and bob submit, eve looks, op operates; tim is known by a token alone.
func openWithRoles(t *testing.T) *withRoles {
	s := &served{T: t, homeAt: mem.NewServer(time.Minute), away: mem.NewServer(time.Minute)}
	w := &withRoles{s, t.TempDir(), nil}
	w.must(certs.Init(w.in("authority"), certs.Period(30)))
	w.must(certs.Init(w.in("foreign"), certs.Period(30)))
	w.must(certs.Issue(w.in("authority"), w.in("h1"), []string{"127.0.0.1"}, certs.Period(30)))
	for _, user := range []string{"ann", "bob", "eve", "op", "nobody"} {
		w.must(certs.IssueUser(w.in("authority"), w.in(user), user, certs.Period(30)))
	}
	for _, user := range []string{"ann", "tim"} {
		w.must(os.WriteFile(w.in(user+".token"), []byte(tokenOf(user)+"\n"), 0o600))
	}
	w.must(os.Mkdir(w.in("ca"), 0o700)) // what somebody with a token needs
	var err error
	w.ca, err = os.ReadFile(filepath.Join(w.in("h1"), certs.AuthorityFile))
	w.must(err)
	w.must(os.WriteFile(filepath.Join(w.in("ca"), certs.AuthorityFile), w.ca, 0o600))
	for at, into := range map[*mem.Server]**fleet.Client{w.homeAt: &w.home, w.away: &w.site} {
		store, err := metastore.New(t.Context(), at.NewClient(), metastore.Options{Group: "g", Base: fleet.Base()})
		w.must(err)
		t.Cleanup(func() { _ = store.Close() })
		*into, err = fleet.New(t.Context(), store, fleet.Options{By: "door"})
		w.must(err)
	}
	w.give(map[string]fleet.UserRole{"ann": fleet.Submit, "bob": fleet.Submit, "eve": fleet.See, "op": fleet.Operate,
		"tim": fleet.Submit})
	w.serves(Security{Folder: w.in("h1"), Tokens: true})
	return w
}

func (w *withRoles) in(name string) string { return filepath.Join(w.dir, name) }

// give gives roles at the home.
func (w *withRoles) give(roles map[string]fleet.UserRole) {
	w.Helper()
	_, err := w.home.SetRoles(w.Context(), fleet.Grants{Roles: roles, Beside: []string{"/g-parts"}, Doors: true,
		Tokens: map[string]string{"ann": tokenOf("ann"), "tim": tokenOf("tim")}})
	w.must(err)
}

// as is a user's client, by the certificate.
func (w *withRoles) as(user string) (*fleet.Client, *Client) {
	w.Helper()
	return w.client(Security{Folder: w.in(user)})
}

// comes is what somebody is told who comes so.
func (w *withRoles) comes(s Security) error {
	w.Helper()
	b, err := Dial(w.at, s)
	w.must(err)
	defer b.Close()
	ctx, cancel := context.WithTimeout(w.Context(), 2*time.Second)
	defer cancel()
	return b.Who(ctx)
}

// deniedWith checks a refusal.
func (w *withRoles) deniedWith(what string, err error, want string) {
	w.Helper()
	if !errors.Is(err, metastore.ErrDenied) || !strings.Contains(err.Error(), want) {
		w.Errorf("%s: found %v, want ErrDenied with %q", what, err, want)
	}
}

// What a role allows is done, in the user's own name; what it doesn't is refused, and so is what is another's. The
// audit says who did what, and from where.
func TestDoorRoles(t *testing.T) {
	w := openWithRoles(t)
	ctx := t.Context()
	ann, _ := w.as("ann")
	bob, _ := w.as("bob")
	eve, _ := w.as("eve")
	op, _ := w.as("op")
	tim, _ := w.client(Security{Folder: w.in("ca"), TokenFile: w.in("tim.token")})
	id, _, err := ann.Submit(ctx, sent("k"))
	w.must(err)
	if fleet.Owner(id) != "ann" {
		t.Errorf("found the id %s, want ann's", id)
	}
	if again, duplicate, err := ann.Submit(ctx, sent("k")); again != id || !duplicate || err != nil {
		t.Errorf("the same again: found %s, %v, %v", again, duplicate, err)
	}
	if other, duplicate, err := bob.Submit(ctx, sent("k")); fleet.Owner(other) != "bob" || duplicate || err != nil {
		t.Errorf("bob's, under the same key: found %s, %v, %v", other, duplicate, err)
	}
	if other, _, err := tim.Submit(ctx, sent("t")); fleet.Owner(other) != "tim" || err != nil {
		t.Errorf("tim's, by his token: found %s, %v", other, err)
	}
	_, err = bob.Cancel(ctx, id, "")
	w.deniedWith("bob cancels ann's", err, "user bob may submit")
	_, err = eve.Cancel(ctx, id, "")
	w.deniedWith("eve cancels", err, "user eve may see")
	_, _, err = eve.Submit(ctx, sent("e"))
	w.deniedWith("eve submits", err, "user eve may see")
	if all, err := eve.List(ctx); err != nil || len(all) != 3 {
		t.Errorf("eve sees %d experiments, %v", len(all), err)
	}
	_, err = ann.Pause(ctx, id, "lunch")
	w.must(err)
	_, err = op.SetPriority(ctx, id, fleet.High, "") // the wish stays ann's, who has had it paused
	w.must(err)
	_, err = op.Cancel(ctx, id, "the machines are needed")
	w.must(err)
	deeds, malformed, err := eve.Audit(ctx)
	if err != nil || len(malformed) > 0 {
		t.Fatalf("found %v, %v", malformed, err)
	}
	var found []string
	for _, d := range deeds {
		if d.ID == id {
			found = append(found, d.By+" "+d.What+" "+d.Why)
			if !d.Known || d.User != d.By || !strings.Contains(d.From, "a test") ||
				!strings.Contains(d.From, "by a door, from 127.0.0.1:") {
				t.Errorf("found %+v, want who it was and from where", d)
			}
		}
	}
	if want := "ann submit |ann pause lunch|op priority high |op cancel the machines are needed"; strings.Join(found,
		"|") != want {
		t.Errorf("found %q, want %q", found, want)
	}
}

// Who isn't known is told so, by what was shown: no certificate, another authority's, an expired one, a machine's, one
// of a user without a role, a token that is nobody's, and a token of somebody else.
func TestDoorRefuses(t *testing.T) {
	w := openWithRoles(t)
	w.must(certs.IssueUser(w.in("foreign"), w.in("stranger"), "ann", certs.Period(30)))
	now := time.Now()
	w.must(os.WriteFile(w.in("wrong.token"), []byte("a-token-that-is-nobodys\n"), 0o600))
	for what, c := range map[string]struct {
		security Security
		want     string
	}{
		"a machine":                {Security{Folder: w.in("h1")}, "is that of a machine"},
		"nobody's role":            {Security{Folder: w.in("nobody")}, "user nobody has no role"},
		"a token of somebody else": {Security{Folder: w.in("bob"), TokenFile: w.in("tim.token")}, "want both of one"},
		"nobody's token":           {Security{Folder: w.in("ca"), TokenFile: w.in("wrong.token")}, "is no user's here"},
	} {
		w.deniedWith(what, w.comes(c.security), c.want)
	}
	w.must(w.comes(Security{Folder: w.in("ann"), TokenFile: w.in("ann.token")}))
	if _, _, err := (&Security{Folder: w.in("ann")}).Serves("127.0.0.1:0"); err == nil || !strings.Contains(err.Error(),
		"want that of a machine") {
		t.Errorf("a door with a user's certificate: found %v", err)
	}
	if err := w.comes(Security{Folder: w.in("stranger")}); err == nil || !strings.Contains(err.Error(),
		"was signed by another authority") {
		t.Errorf("ann of another authority: found %v", err)
	}
	w.must(os.WriteFile(filepath.Join(w.in("stranger"), certs.AuthorityFile), w.ca, 0o600)) // trusts the door
	if err := w.comes(Security{Folder: w.in("stranger")}); err == nil || !strings.Contains(err.Error(),
		"is of an authority that it doesn't know") {
		t.Errorf("ann of another authority, who trusts this one: found %v", err)
	}
	if err := w.comes(plain); err == nil || !strings.Contains(err.Error(), "it speaks TLS") {
		t.Errorf("without TLS: found %v", err)
	}
	w.must(certs.IssueUser(w.in("authority"), w.in("old"), "ann",
		certs.Validity{From: now.Add(-2 * time.Hour), Until: now.Add(-time.Hour)}))
	if _, err := Dial(w.at, Security{Folder: w.in("old")}); err == nil || !strings.Contains(err.Error(),
		"is valid from") {
		t.Errorf("an expired certificate: found %v", err)
	}
	r, err := (&Security{Folder: w.in("h1")}).reaches(w.at)
	w.must(err)
	r.config.GetClientCertificate = nil // shows none, and no token
	status, body := w.raw(&http.Transport{TLSClientConfig: r.config}, nil, "who")
	if status != http.StatusOK || !strings.Contains(body, "who is this?") {
		t.Errorf("nobody: found %d %s", status, body)
	}
}

// raw sends a request by hand.
func (w *withRoles) raw(transport *http.Transport, head http.Header, do string) (int, string) {
	w.Helper()
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(w.Context(), http.MethodPost, "https://"+w.at+"/v1",
		strings.NewReader(`{"do":"`+do+`"}`))
	w.must(err)
	r.Header = head.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set(header, version)
	answer, err := transport.RoundTrip(r)
	w.must(err)
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 10_000))
	w.must(err)
	return answer.StatusCode, string(body)
}

// Headers that are too large or too many are refused, and what isn't a token as well.
func TestDoorHeaders(t *testing.T) {
	w := openWithRoles(t)
	r, err := (&Security{Folder: w.in("ca"), TokenFile: w.in("tim.token")}).reaches(w.at)
	w.must(err)
	transport := func() *http.Transport { return &http.Transport{TLSClientConfig: r.config.Clone()} }
	bearer := "Bearer " + tokenOf("tim")
	for what, c := range map[string]struct {
		head   http.Header
		status int
		want   string
	}{
		"the token":          {http.Header{"Authorization": {bearer}}, 200, `"user":"tim"`},
		"a huge header":      {http.Header{"Authorization": {bearer}, "X": {strings.Repeat("x", 30_000)}}, 431, ""},
		"a huge token":       {http.Header{"Authorization": {"Bearer " + strings.Repeat("x", 1_000)}}, 200, "want one"},
		"two tokens":         {http.Header{"Authorization": {bearer, bearer}}, 200, "found 2 headers"},
		"a token of no kind": {http.Header{"Authorization": {tokenOf("tim")}}, 200, "Bearer TOKEN"},
		"a short token":      {http.Header{"Authorization": {"Bearer x"}}, 200, "Bearer TOKEN"},
	} {
		if status, body := w.raw(transport(), c.head, "who"); status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s: found %d %s, want %d %q", what, status, body, c.status, c.want)
		}
	}
}

// forged are requests of bob's by hand, past all that a client of ours checks. Names that aren't his, acts without an
// entry, entries without their act, and what was sent once before are refused.
func TestDoorForgeries(t *testing.T) {
	w := openWithRoles(t)
	ctx := t.Context()
	ann, _ := w.as("ann")
	bob, b := w.as("bob")
	annID, _, err := ann.Submit(ctx, sent("k"))
	w.must(err)
	id, _, err := bob.Submit(ctx, sent("k"))
	w.must(err)
	e, err := bob.Show(ctx, id)
	w.must(err)
	wishAt := metastore.Cond{Path: "/home/fleet/experiments/" + id + "/wish", Is: metastore.At, Version: e.WishAt}
	op := func(do metastore.OpKind, key string, value any) metastore.Op {
		if do == metastore.Delete {
			return metastore.Op{Do: do, Path: "/home/fleet/" + key}
		}
		raw, err := metastore.EncodeRaw(value)
		w.must(err)
		return metastore.Op{Do: do, Path: "/home/fleet/" + key, Value: raw}
	}
	wish := *e.Wish
	wish.Number, wish.Want, wish.By = 2, fleet.WantCancel, "bob"
	asAnn := wish
	asAnn.By = "ann"
	entry := func(by, what, id string) metastore.Op {
		return op(metastore.Create, "audit/bob/261128-200000.000000-abcdef", fleet.Deed{By: by, What: what, ID: id})
	}
	set := func(w fleet.Wish) metastore.Op { return op(metastore.Set, "experiments/"+id+"/wish", w) }
	theirs := op(metastore.Create, "audit/ann/261128-200000.000000-abcdef", fleet.Deed{By: "ann", What: "x"})
	spec := *e.Spec
	spec.User, spec.ID = "ann", "bob.261128-200000-abcdef"
	for what, ops := range map[string][]metastore.Op{
		"an entry of ann's":      {theirs},
		"an entry of nobody's":   {op(metastore.Create, "audit/x", fleet.Deed{By: "bob"})},
		"an entry about nothing": {entry("bob", "cancel", id)},
		"ann's wish": {op(metastore.Set, "experiments/"+annID+"/wish", wish),
			entry("bob", "cancel", annID)},
		"a wish without an entry": {set(wish)},
		"a wish in ann's name":    {set(asAnn), entry("bob", "cancel", id)},
		"an entry in ann's name":  {set(wish), entry("ann", "cancel", id)},
		"an entry that lies":      {set(wish), entry("bob", "pause", id)},
		"an entry about another":  {set(wish), entry("bob", "cancel", annID)},
		"two entries": {set(wish), entry("bob", "cancel", id),
			op(metastore.Create, "audit/bob/x", fleet.Deed{By: "bob", What: "cancel", ID: id})},
		"a wish of no experiment": {op(metastore.Create, "experiments/bob.x/wish", wish)},
		"a specification as ann's": {op(metastore.Create, "experiments/"+spec.ID+"/spec", spec),
			entry("bob", "submit", spec.ID)},
		"ann's experiment": {op(metastore.Create, "experiments/ann.x/spec", spec),
			entry("bob", "submit", "ann.x")},
		"ann's idempotency key": {op(metastore.Create, "submitted/ann/x", "x")},
		"ann's account":         {op(metastore.Set, "users/ann/x", "x")},
		"an entry's removal":    {op(metastore.Delete, "audit/bob/261128-200000.000000-abcdef", nil)},
		"roles":                 {{Do: metastore.Set, Path: "/home/.disco/access/list", Value: []byte("j{}")}},
	} {
		w.deniedWith(what, b.Commit(ctx, []metastore.Cond{wishAt}, ops), "")
	}
	conflict := (*metastore.ConflictError)(nil)
	good := []metastore.Op{set(wish), entry("bob", "cancel", id)}
	if err := b.Commit(ctx, nil, good); !errors.As(err, &conflict) || conflict.Cond != wishAt {
		t.Errorf("a wish without its condition: found %v", err)
	}
	w.must(b.Commit(ctx, []metastore.Cond{wishAt}, good))
	if err := b.Commit(ctx, []metastore.Cond{wishAt}, good); !errors.As(err, &conflict) {
		t.Errorf("the same request once more: found %v, want a conflict", err)
	}
	if e, err := ann.Show(ctx, annID); err != nil || e.Wish.Number != 1 {
		t.Errorf("ann's: found %+v, %v", e.Wish, err)
	}
}

// A token that another one has taken the place of is good for a day more, unless the role was taken away meanwhile.
func TestDoorChangesTokens(t *testing.T) {
	w := openWithRoles(t)
	old := Security{Folder: w.in("ca"), TokenFile: w.in("tim.token")}
	grants := fleet.Grants{Roles: map[string]fleet.UserRole{"tim": fleet.Submit}, Beside: []string{"/g-parts"},
		Doors: true, Tokens: map[string]string{"tim": "another-token-of-tims"}}
	changed, err := w.home.SetRoles(t.Context(), grants)
	if err != nil || len(changed) != 1 || changed[0] != "a token for tim" {
		t.Fatalf("found %q, %v", changed, err)
	}
	w.must(os.WriteFile(w.in("new.token"), []byte("another-token-of-tims\n"), 0o600))
	w.must(w.comes(Security{Folder: w.in("ca"), TokenFile: w.in("new.token")}))
	w.must(w.comes(old))
	a, _, err := metastore.ReadAccess(t.Context(), w.homeAt.NewClient(), "/g")
	w.must(err)
	for after, good := range map[time.Duration]bool{23 * time.Hour: true, 25 * time.Hour: false} {
		if u := withToken(a, tokenOf("tim"), time.Now().Add(after)); (u != nil) != good {
			t.Errorf("after %v: found %+v", after, u)
		}
	}
	w.give(map[string]fleet.UserRole{"tim": ""})
	_, err = w.home.SetRoles(t.Context(), grants)
	w.must(err)
	w.deniedWith("the old token, behind a revocation", w.comes(old), "is no user's here")
}

// A role that is taken away is away from the next request on, for whoever watches too; by which users are known isn't
// shown to anybody.
func TestDoorTakesAway(t *testing.T) {
	w := openWithRoles(t)
	tim, b := w.client(Security{Folder: w.in("ca"), TokenFile: w.in("tim.token")})
	following := make(chan error, 1)
	go func() {
		following <- tim.FollowAudit(t.Context(), func(fleet.Deed) error { return nil }, func(error) {})
	}()
	for _, path := range []string{"/home/.disco/access/list", "/home/.disco", "/home", "/home-parts"} {
		leaves, err := b.Tree(t.Context(), path)
		w.must(err)
		all, err := json.Marshal(leaves)
		w.must(err)
		for _, l := range leaves {
			all = append(all, l.Value...)
		}
		if bytes.Contains(all, []byte(`"token"`)) {
			t.Errorf("%s has %s", path, all)
		}
	}
	n, err := b.Get(t.Context(), "/home/.disco/access/list")
	if err != nil || !bytes.Contains(n.Value, []byte(`"tim"`)) || bytes.Contains(n.Value, []byte(`"token"`)) {
		t.Errorf("found %s, %v", n.Value, err)
	}
	w.give(map[string]fleet.UserRole{"tim": ""})
	_, err = tim.List(t.Context())
	w.deniedWith("tim lists", err, "is no user's here, or not any more")
	w.deniedWith("tim follows", <-following, "is no user's here, or not any more")
}
