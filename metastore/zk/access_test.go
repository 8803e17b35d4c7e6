// SPDX-License-Identifier: Apache-2.0

package zk

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/disco-sim/disco/metastore"
)

// TestUsers: what one user made is refused to everybody else, and to the same name with another password.
func TestUsers(t *testing.T) {
	z := start(t, 1)
	ctx := t.Context()
	with := func(user, password string) *Backend {
		return client(t, Options{Servers: z.Addrs(), User: user, Password: password})
	}
	ann := with("ann", "secret")
	session, err := ann.Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	set := func(path, value string) []metastore.Op {
		return []metastore.Op{{Path: path, Do: metastore.Set, Value: []byte(value)}}
	}
	ephemeral := metastore.Op{Path: "/u/e", Do: metastore.Create, Value: []byte("1"), Session: session}
	for _, ops := range [][]metastore.Op{set("/u/v", "1"), set("/u/v", "2"), set("/u/a/b", "1"), {ephemeral}} {
		if err := ann.Commit(ctx, nil, ops); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ann.Append(ctx, "/u/q", []byte("1")); err != nil {
		t.Fatal(err)
	}
	if n, err := with("ann", "secret").Get(ctx, "/u/v"); err != nil || string(n.Value) != "2" {
		t.Fatalf("another client of the same user found %q, %v", n.Value, err)
	}
	for _, other := range []*Backend{with("", ""), with("ann", "wrong"), with("bob", "secret")} {
		calls := map[string]func() error{
			"Get":      func() error { _, err := other.Get(ctx, "/u/v"); return err },
			"Children": func() error { _, err := other.Children(ctx, "/u"); return err },
			"Tree":     func() error { _, err := other.Tree(ctx, "/u"); return err },
			"Set":      func() error { return other.Commit(ctx, nil, set("/u/v", "3")) },
			"Create":   func() error { return other.Commit(ctx, nil, set("/u/new", "3")) },
			"Delete": func() error {
				return other.Commit(ctx, nil, []metastore.Op{{Path: "/u/v", Do: metastore.Delete}})
			},
			"DeleteTree": func() error {
				return other.Commit(ctx, nil, []metastore.Op{{Path: "/u", Do: metastore.DeleteTree}})
			},
			"Append": func() error { _, err := other.Append(ctx, "/u/q", []byte("1")); return err },
			"Watch":  func() error { _, err := other.Watch("/u/v", metastore.Data).Next(ctx); return err },
			"Names":  func() error { _, err := other.Watch("/u", metastore.Names).Next(ctx); return err },
		}
		for name, call := range calls {
			err := call()
			if !errors.Is(err, metastore.ErrDenied) || strings.Contains(err.Error(), "secret") {
				t.Errorf("user %q: %s: found %v, want ErrDenied", other.o.User, name, err)
			}
		}
	}
	if n, err := ann.Get(ctx, "/u/v"); err != nil || string(n.Value) != "2" {
		t.Fatalf("after what was refused: found %q, %v", n.Value, err)
	}
}

// TestTLS: a client with certificates works; one without them, and one that speaks no TLS, never gets a session.
func TestTLS(t *testing.T) {
	certificates, err := storeserver.NewCertificates(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	config, err := certificates.Client()
	if err != nil {
		t.Fatal(err)
	}
	z := startWith(t, 1, storeserver.ZKOptions{TLS: certificates})
	b := client(t, Options{Servers: z.Addrs(), TLS: config, User: "ann", Password: "secret"})
	ctx := t.Context()
	large := make([]byte, metastore.MaxValue)
	large[0] = 'x'
	if err := b.Commit(ctx, nil, []metastore.Op{{Path: "/t/v", Do: metastore.Set, Value: large}}); err != nil {
		t.Fatal(err)
	}
	if n, err := b.Get(ctx, "/t/v"); err != nil || len(n.Value) != len(large) {
		t.Fatalf("found %d bytes, %v", len(n.Value), err)
	}
	strange := config.Clone()
	strange.Certificates = nil
	foreign := config.Clone()
	foreign.RootCAs = nil
	others := map[string]*tls.Config{"no TLS": nil, "no certificate": strange, "a foreign server": foreign}
	for name, config := range others {
		b := client(t, Options{Servers: z.Addrs(), TLS: config, TTL: time.Second})
		ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		_, err := b.Get(ctx, "/t/v")
		cancel()
		if !errors.Is(err, metastore.ErrUnavailable) {
			t.Errorf("%s: found %v, want ErrUnavailable", name, err)
		}
		if name == "a foreign server" && !strings.Contains(err.Error(), "x509") {
			t.Errorf("%s: %v doesn't say why", name, err)
		}
	}
}
