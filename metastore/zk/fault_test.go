// SPDX-License-Identifier: Apache-2.0

package zk

import (
	"context"
	"errors"
	"io"
	"net"
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
	t.Parallel()
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
			return b.write(ctx, c, newCall(opCreate, request(opCreate).body(s, b.grants)))
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

// TestWipedServer: a server comes back without its files, or with older ones. The session is lost, and calls and feeds
// end: what the client knows may stand for something else there.
func TestWipedServer(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*storeserver.ZK) error{
		"wiped":    func(s *storeserver.ZK) error { return s.Wipe() },
		"restored": func(s *storeserver.ZK) error { return s.Restore() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			z := start(t, 1)
			s := z.Servers[0]
			change := func(f func() error) {
				t.Helper()
				s.Kill()
				if err := errors.Join(f(), s.Start(), z.Ready(ctx)); err != nil {
					t.Fatal(err)
				}
			}
			b := client(t, Options{Servers: z.Addrs()})
			set := func(value string) error {
				op := metastore.Op{Path: "/v", Do: metastore.Set, Value: []byte(value)}
				return b.Commit(ctx, nil, []metastore.Op{op})
			}
			f := b.Watch("/v", metastore.Data)
			defer f.Close()
			for _, value := range []string{"older", "old"} {
				if err := set(value); err != nil {
					t.Fatal(err)
				}
				if now, err := f.Next(ctx); err != nil || string(now.Node.Value) != value {
					t.Fatalf("a feed: found %q, %v, want %q", now.Node.Value, err, value)
				}
				if value == "older" {
					change(s.Save) // the session goes on
				}
			}
			for range 50 { // more than a server makes by itself
				if err := set("newer"); err != nil {
					t.Fatal(err)
				}
			}
			for now := (metastore.State{}); now.Node.Version.Changed < 51; {
				var err error
				if now, err = f.Next(ctx); err != nil {
					t.Fatal(err)
				}
			}
			session, err := b.Session(ctx)
			if err != nil {
				t.Fatal(err)
			}
			change(func() error { return lose(s) })
			<-session.Lost()
			if now, err := f.Next(ctx); !errors.Is(err, metastore.ErrWrongCluster) {
				t.Errorf("a feed: found %q, %v, want ErrWrongCluster", now.Node.Value, err)
			}
			if err := set("new"); !errors.Is(err, metastore.ErrWrongCluster) {
				t.Errorf("Commit: found %v, want ErrWrongCluster", err)
			}
			if _, err := b.Session(ctx); !errors.Is(err, metastore.ErrWrongCluster) {
				t.Errorf("Session: found %v, want ErrWrongCluster", err)
			}
		})
	}
}
