// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/certs"
	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/etcd"
	"github.com/disco-sim/disco/metastore/zk"
)

// certified is a server that knows users by certificates, and the folders with these.
type certified struct {
	*guarded
	dir   string
	peers func(user string, config *tls.Config) (metastore.Backend, error)
}

func (c *certified) in(name string) string { return filepath.Join(c.dir, name) }

// config is how the owner of a folder reaches the server, who trusts the authority of machines.
func (c *certified) config(folder string) *tls.Config {
	c.t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(c.in(folder), certs.CertificateFile),
		filepath.Join(c.in(folder), certs.KeyFile))
	c.done("the certificate of "+folder, err)
	text, err := os.ReadFile(filepath.Join(c.in("h1"), certs.AuthorityFile))
	c.done("the authority", err)
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool(),
		Certificates: []tls.Certificate{pair}}
	config.RootCAs.AppendCertsFromPEM(text)
	return config
}

// issues makes the authorities, and certificates of a machine and of users.
func issues(t *testing.T) *certified {
	c := &certified{guarded: &guarded{t: t}, dir: t.TempDir()}
	for _, dir := range []string{"authority", "foreign"} {
		c.done(dir, certs.Init(c.in(dir), certs.Period(2)))
	}
	c.done("h1", certs.Issue(c.in("authority"), c.in("h1"), []string{"127.0.0.1"}, certs.Period(1)))
	c.done("ann's machine", certs.Issue(c.in("authority"), c.in("machine"), []string{"ann"}, certs.Period(1)))
	for _, user := range []string{"root", "ann", "bob", "eve"} {
		c.done(user, certs.IssueUser(c.in("authority"), c.in(user), user, certs.Period(1)))
	}
	c.done("the stranger", certs.IssueUser(c.in("foreign"), c.in("stranger"), "ann", certs.Period(1)))
	return c
}

// onCertified runs a test on each engine, with users known by certificates.
func onCertified(t *testing.T, run func(t *testing.T, c *certified)) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	t.Run("etcd", func(t *testing.T) {
		c := issues(t)
		c.done("the password", os.WriteFile(c.in("password"), []byte(adminPassword), 0o600))
		h1 := func(name string) string { return filepath.Join(c.in("h1"), name) }
		e, err := storeserver.StartEtcds(ctx, t.TempDir(), 1, "--password-file", c.in("password"), "--cert",
			h1(certs.CertificateFile), "--key", h1(certs.KeyFile), "--ca", h1(certs.AuthorityFile), "--users-ca",
			h1(certs.UsersFile))
		storeserver.Need(t, err)
		t.Cleanup(e.Close)
		c.name = "etcd"
		c.peers = func(user string, config *tls.Config) (metastore.Backend, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			password := ""
			if user != "" {
				password = passwordOf(user)
			}
			return etcd.New(ctx, etcd.Options{Endpoints: e.Addrs(), TLS: config, User: user, Password: password})
		}
		run(t, c)
	})
	t.Run("zk", func(t *testing.T) {
		c := issues(t)
		h1 := func(name string) string { return filepath.Join(c.in("h1"), name) }
		join := func(out string, names ...string) string {
			var all []byte
			for _, name := range names {
				text, err := os.ReadFile(h1(name))
				c.done(name, err)
				all = append(all, text...)
			}
			c.done(out, os.WriteFile(c.in(out), all, 0o600))
			return c.in(out)
		}
		e, err := storeserver.StartEnsemble(ctx, t.TempDir(), 1, storeserver.ZKOptions{TLS: &storeserver.Certificates{
			CA: join("both-authorities", certs.AuthorityFile, certs.UsersFile), Cert: h1(certs.CertificateFile),
			Key: h1(certs.KeyFile), Both: join("both", certs.KeyFile, certs.CertificateFile)}})
		storeserver.Need(t, err)
		t.Cleanup(e.Close)
		c.name = "zk"
		c.peers = func(user string, config *tls.Config) (metastore.Backend, error) {
			o := zk.Options{Servers: e.Addrs(), TLS: config, User: user}
			if user != "" {
				o.Password = passwordOf(user)
			}
			return zk.New(o)
		}
		run(t, c)
	})
}

// by is a user's client, who shows the certificate of a folder alone.
func (c *certified) by(folder string) *Client {
	c.t.Helper()
	b, err := c.peers("", c.config(folder))
	if err != nil {
		c.t.Fatalf("%s: %v", folder, err)
	}
	return c.of(folder, b)
}

// of is the client of an open store.
func (c *certified) of(folder string, b metastore.Backend) *Client {
	c.t.Helper()
	s, err := metastore.New(c.t.Context(), b, metastore.Options{Group: "g", Base: Base(), Existing: folder != "root"})
	if err != nil {
		c.t.Fatalf("%s: %v", folder, err)
	}
	c.t.Cleanup(func() { _ = s.Close() })
	client, err := New(c.t.Context(), s, Options{By: "somebody", From: "the test"})
	if err != nil {
		c.t.Fatal(err)
	}
	return client
}

// TestCertificates: who has a certificate is that user at the store, and nobody else's keys can be written by it; a
// machine's certificate, one of another authority, and one of a user without a role are good for nothing.
func TestCertificates(t *testing.T) {
	onCertified(t, func(t *testing.T, c *certified) {
		ctx := t.Context()
		root := c.by("root")
		grants := Grants{Roles: map[string]UserRole{"ann": Submit, "bob": Submit, "op": Operate},
			Beside: []string{"/g-parts"}, Certificates: true, Passwords: map[string]string{"op": passwordOf("op")}}
		if changed, err := root.SetRoles(ctx, grants); err != nil || len(changed) < 4 {
			t.Fatalf("found %q changed, %v", changed, err)
		}
		if changed, err := root.SetRoles(ctx, grants); err != nil || len(changed) > 0 {
			t.Errorf("the second time: found %q changed, %v", changed, err)
		}
		ann, bob := c.by("ann"), c.by("bob")
		b, err := c.peers("op", c.config("eve")) // the password counts, not the certificate
		c.done("op comes by its password", err)
		op := c.of("op", b)
		id, _, err := ann.Submit(ctx, shop("night"))
		if err != nil || Owner(id) != "ann" {
			t.Fatalf("ann's submission: %q, %v", id, err)
		}
		_, _, err = bob.Submit(ctx, shop("night"))
		c.done("bob's submission", err)
		_, err = bob.Cancel(ctx, id, "")
		c.refused("bob cancels ann's", err)
		c.refused("bob writes an entry of ann's", write(bob, metastore.Create, keyAudit+"/ann/forged"))
		c.refused("bob changes ann's experiment", write(bob, metastore.Set, wishKey(id)))
		_, err = ann.Pause(ctx, id, "")
		c.done("ann pauses hers", err)
		_, err = op.Cancel(ctx, id, "")
		c.done("op cancels hers", err)
		c.unexpected()
		deeds, malformed, err := op.Audit(ctx)
		var found []string
		for _, d := range deeds {
			if d.ID == id {
				found = append(found, d.User+" "+d.What)
			}
		}
		if want := []string{"ann submit", "ann pause", "op cancel"}; err != nil || len(malformed) > 0 ||
			!slices.Equal(found, want) {
			t.Errorf("found %q, %v, %v, want %q", found, malformed, err, want)
		}
		grants.Roles = map[string]UserRole{"bob": ""}
		_, err = root.SetRoles(ctx, grants)
		c.done("bob's role is taken away", err)
		_, _, err = bob.Submit(ctx, shop("later"))
		c.refused("bob submits", err)
	})
}

// unexpected: these certificates are good for nothing.
func (c *certified) unexpected() {
	for _, folder := range []string{"eve", "machine", "stranger"} {
		ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
		b, err := c.peers("", c.config(folder))
		if err == nil {
			_, err = b.Get(ctx, "/g/"+keyFormat)
			err = errors.Join(err, b.Close())
		}
		cancel()
		if denied := errors.Is(err, metastore.ErrDenied); err == nil || folder != "stranger" && !denied ||
			folder == "stranger" && c.name == "zk" && !errors.Is(err, metastore.ErrUnavailable) {
			c.t.Errorf("%s: found %v, want a refusal", folder, err)
		}
		if folder == "machine" && c.name == "etcd" && !strings.Contains(err.Error(), "doesn't go by the certificate") {
			c.t.Errorf("%s: found %v, want why", folder, err)
		}
	}
}
