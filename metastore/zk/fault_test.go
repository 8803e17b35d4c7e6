// SPDX-License-Identifier: Apache-2.0

package zk

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/disco-sim/disco/metastore"
)

// lossy passes connections on. With drop set, the next answer of the server is lost, and the connection with it.
type lossy struct {
	net.Listener
	mu   sync.Mutex
	drop bool
}

func startLossy(t *testing.T, to string) *lossy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &lossy{Listener: l}
	var all sync.WaitGroup
	t.Cleanup(func() { l.Close(); all.Wait() })
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.serve(client, to) })
		}
	})
	return p
}

func (p *lossy) serve(client net.Conn, to string) {
	defer client.Close()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		server.Close()
	}()
	b := make([]byte, 64<<10)
	for {
		n, err := server.Read(b)
		p.mu.Lock()
		drop := p.drop
		p.drop = false
		p.mu.Unlock()
		if err != nil || drop {
			return
		}
		if _, err := client.Write(b[:n]); err != nil {
			return
		}
	}
}

// TestUnknownIsNotTriedAgain: a write whose answer got lost was done once, and is reported as unknown.
func TestUnknownIsNotTriedAgain(t *testing.T) {
	z := start(t, 1)
	p := startLossy(t, z.Servers[0].Addr())
	b := client(t, Options{Servers: []string{p.Addr().String()}})
	ctx := t.Context()
	set := []metastore.Op{{Path: "/q/keep", Do: metastore.Set, Value: []byte("1")}}
	if err := b.Commit(ctx, nil, set); err != nil {
		t.Fatal(err)
	}
	unknown := 0
	for range 10 {
		before := count(ctx, t, b, "/q")
		s := step{op: opCreate, path: "/q/n", value: []byte("1"), flags: flagSequence}
		err := b.attempt(ctx, func(c *conn) error {
			p.mu.Lock()
			p.drop = true // or the answer to the session's own question is lost, before this is sent
			p.mu.Unlock()
			return b.write(ctx, c, newCall(opCreate, request(opCreate).body(s, false)))
		})
		if errors.Is(err, metastore.ErrUnknown) {
			unknown++
		} else if err != nil {
			t.Fatal(err)
		}
		if after := count(ctx, t, b, "/q"); after != before+1 {
			t.Fatalf("one create, which ended with %v, made %d nodes", err, after-before)
		}
	}
	if unknown == 0 {
		t.Fatal("no answer got lost")
	}
}

func count(ctx context.Context, t *testing.T, b *Backend, path string) int {
	t.Helper()
	names, err := b.Children(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// TestWipedServer: a server comes back without its files. Clients go on with new sessions, and feeds with what is there
// now, even where it has the version of what was there before.
func TestWipedServer(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	z, err := storeserver.StartEnsemble(ctx, dir, 1, storeserver.ZKOptions{})
	if errors.Is(err, storeserver.ErrAbsent) {
		t.Skipf("SKIPPED: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	b := client(t, Options{Servers: z.Addrs(), TTL: 2 * time.Second})
	set := func(value string) {
		t.Helper()
		op := metastore.Op{Path: "/v", Do: metastore.Set, Value: []byte(value)}
		if err := b.Commit(ctx, nil, []metastore.Op{op}); err != nil {
			t.Fatal(err)
		}
	}
	f := b.Watch("/v", metastore.Data)
	defer f.Close()
	next := func(want string) metastore.Version {
		t.Helper()
		s, err := f.Next(ctx)
		if err != nil || string(s.Node.Value) != want {
			t.Fatalf("a feed: found %q, %v, want %q", s.Node.Value, err, want)
		}
		return s.Node.Version
	}
	set("old")
	before := next("old")
	session, err := b.Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	z.Servers[0].Kill()
	if err := os.RemoveAll(filepath.Join(dir, "1", "version-2")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(z.Servers[0].Start(), z.Ready(ctx)); err != nil {
		t.Fatal(err)
	}
	<-session.Lost()
	set("new")
	for {
		s, err := f.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if string(s.Node.Value) == "new" {
			t.Logf("version %v, was %v", s.Node.Version, before)
			break
		}
	}
}
