// SPDX-License-Identifier: Apache-2.0

package zk

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/disco-sim/disco/metastore"
)

// TestUsers: what one user made is refused to everybody else, and to the same name with another password; also where
// all show the same certificate.
func TestUsers(t *testing.T) {
	t.Parallel()
	certificates, err := storeserver.NewCertificates(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	config, err := certificates.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("plain", func(t *testing.T) { users(t, nil, nil) })
	t.Run("one certificate", func(t *testing.T) { users(t, certificates, config) })
}

func users(t *testing.T, certificates *storeserver.Certificates, config *tls.Config) {
	t.Parallel()
	z := startWith(t, 1, storeserver.ZKOptions{Tick: 500 * time.Millisecond, TLS: certificates})
	ctx := t.Context()
	with := func(user, password string) *Backend {
		return client(t, Options{Servers: z.Addrs(), TLS: config, User: user, Password: password})
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
	item, err := ann.Append(ctx, "/u/q", []byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/u", "/u/v", "/u/a", "/u/a/b", "/u/e", "/u/q", "/u/q/" + item} {
		want := `31 digest "ann:` // and nobody else
		if acl := readACL(t, ann, path); len(acl) != 1 || !strings.HasPrefix(acl[0], want) {
			t.Errorf("%s is for %s, want one entry that begins with %s", path, acl, want)
		}
	}
	madeBefore(t, ann, "/u/old")
	if n, err := with("ann", "secret").Get(ctx, "/u/v"); err != nil || string(n.Value) != "2" {
		t.Fatalf("another client of the same user found %q, %v", n.Value, err)
	}
	for _, other := range []*Backend{with("", ""), with("ann", "wrong"), with("bob", "secret")} {
		denied(t, other)
	}
	if n, err := ann.Get(ctx, "/u/v"); err != nil || string(n.Value) != "2" {
		t.Fatalf("after what was refused: found %q, %v", n.Value, err)
	}
	refusedFeed(t, ann, with("bob", "secret"))
}

// denied: another client can do nothing with what ann has made.
func denied(t *testing.T, other *Backend) {
	t.Helper()
	ctx := t.Context()
	commit := func(path string, do metastore.OpKind) func() error {
		op := metastore.Op{Path: path, Do: do}
		if do == metastore.Set {
			op.Value = []byte("3")
		}
		return func() error { return other.Commit(ctx, nil, []metastore.Op{op}) }
	}
	for name, call := range map[string]func() error{
		"Get":        func() error { _, err := other.Get(ctx, "/u/v"); return err },
		"Children":   func() error { _, err := other.Children(ctx, "/u"); return err },
		"Tree":       func() error { _, err := other.Tree(ctx, "/u"); return err },
		"Append":     func() error { _, err := other.Append(ctx, "/u/q", []byte("1")); return err },
		"Set":        commit("/u/v", metastore.Set),
		"Create":     commit("/u/new", metastore.Set),
		"Delete":     commit("/u/v", metastore.Delete),
		"DeleteTree": commit("/u", metastore.DeleteTree),
	} {
		if err := call(); !errors.Is(err, metastore.ErrDenied) || strings.Contains(err.Error(), "secret") {
			t.Errorf("user %q: %s: found %v, want ErrDenied", other.o.User, name, err)
		}
	}
}

// readACL reads who may use a node, on a connection of its own: "PERMISSIONS SCHEME ID" each.
func readACL(t *testing.T, b *Backend, path string) (list []string) {
	t.Helper()
	const opGetACL = 6
	l := &link{ttl: b.o.TTL, secret: make([]byte, 16), lost: make(chan struct{})}
	c, r, err := b.dial(t.Context(), b.o.Servers[0], l, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.net.Close()
	p := request(opGetACL).text(path)
	p.seal(1)
	if _, err := c.net.Write(p); err != nil {
		t.Fatal(err)
	}
	frame, err := readFrame(r)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{rest: frame}
	a.take(4 + 8) // request's number, change's number
	if code := code(a.int32()); code != codeOK {
		t.Fatalf("%s: error %d", path, code)
	}
	for n := a.int32(); n > 0 && !a.bad; n-- {
		list = append(list, fmt.Sprintf("%d %s %q", a.int32(), a.bytes(), a.bytes()))
	}
	return list
}

// madeBefore makes a node as clients before this one did, by the scheme "auth". Its user can use it.
func madeBefore(t *testing.T, b *Backend, path string) {
	t.Helper()
	p := request(opCreate).text(path).bytes([]byte("1")).int32(1).int32(31).text("auth").text("").int32(0)
	err := b.attempt(t.Context(), func(c *conn) error {
		made := newCall(opCreate, p)
		_, err := c.do(t.Context(), made)
		return errors.Join(err, refused(path, made.code))
	})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := b.Get(t.Context(), path); err != nil || string(n.Value) != "1" {
		t.Errorf("a node made by the scheme auth: found %q, %v", n.Value, err)
	}
}

// refusedFeed: a feed of what a user may not read waits, as for a server that is out of reach, until he may.
func refusedFeed(t *testing.T, ann, bob *Backend) {
	data, names := bob.Watch("/u/v", metastore.Data), bob.Watch("/u", metastore.Names)
	defer data.Close()
	defer names.Close()
	for _, f := range []metastore.Feed{data, names} {
		short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if s, err := f.Next(short); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, metastore.ErrDenied) {
			t.Errorf("a refused feed: found %+v, %v, want the context's error", s, err)
		}
		cancel()
	}
	ops := []metastore.Op{{Path: "/u", Do: metastore.DeleteTree}}
	if err := ann.Commit(t.Context(), nil, ops); err != nil {
		t.Fatal(err)
	}
	ops = []metastore.Op{{Path: "/u/v", Do: metastore.Set, Value: []byte("b")}}
	if err := bob.Commit(t.Context(), nil, ops); err != nil {
		t.Fatal(err)
	}
	if s, err := data.Next(t.Context()); err != nil || string(s.Node.Value) != "b" {
		t.Errorf("found %+v, %v", s, err)
	}
	if s, err := names.Next(t.Context()); err != nil || len(s.Names) != 1 {
		t.Errorf("found %+v, %v", s, err)
	}
}

// TestTLS: a client with certificates works; one without them, and one that speaks no TLS, never gets a session.
func TestTLS(t *testing.T) {
	t.Parallel()
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
	err = metastore.ErrUnknown
	for errors.Is(err, metastore.ErrUnknown) { // a busy server may take longer for 1 MB than a client waits
		err = b.Commit(ctx, nil, []metastore.Op{{Path: "/t/v", Do: metastore.Set, Value: large}})
	}
	if err != nil {
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
		var err error
		for range 20 { // until a busy server has shown its certificate
			ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
			_, err = b.Get(ctx, "/t/v")
			cancel()
			if name != "a foreign server" || err == nil || strings.Contains(err.Error(), "x509") {
				break
			}
		}
		if !errors.Is(err, metastore.ErrUnavailable) {
			t.Errorf("%s: found %v, want ErrUnavailable", name, err)
		}
		if name == "a foreign server" && !strings.Contains(err.Error(), "x509") {
			t.Errorf("%s: %v doesn't say why", name, err)
		}
	}
}
