// SPDX-License-Identifier: Apache-2.0

package storeserver

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// TestEnsemble: three servers have one leader, another after that one is killed, and are three again after its
// restart; a stopped one serves again when it goes on.
func TestEnsemble(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	z, err := StartEnsemble(ctx, t.TempDir(), 3, ZKOptions{})
	if errors.Is(err, ErrAbsent) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	first := z.Leader()
	if first == nil {
		t.Fatal("no leader among servers that serve")
	}
	first.Kill()
	if mode := first.Mode(); mode != "" {
		t.Errorf("the killed server is %q", mode)
	}
	for z.Leader() == nil && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	if err := errors.Join(first.Start(), z.Ready(ctx)); err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err == nil {
		t.Error("a server that runs was started")
	}
	last := z.Servers[2]
	last.Signal(syscall.SIGSTOP)
	if mode := last.Mode(); mode != "" {
		t.Errorf("the stopped server is %q", mode)
	}
	last.Signal(syscall.SIGCONT)
	if err := z.Ready(ctx); err != nil {
		t.Fatal(err)
	}
}

// echo is a server that sends back what it gets.
func echo(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 64)
				for n, err := c.Read(b); err == nil; n, err = c.Read(b) {
					_, _ = c.Write(b[:n])
				}
			}()
		}
	}()
	return l.Addr().String()
}

// answered sends a byte and tells whether the answer came within d.
func answered(t *testing.T, c net.Conn, d time.Duration) bool {
	t.Helper()
	if _, err := c.Write([]byte("x")); err != nil {
		return false
	}
	_ = c.SetReadDeadline(time.Now().Add(d))
	_, err := c.Read(make([]byte, 1))
	return err == nil
}

// TestProxy: traffic passes, is held back by a cut and comes after it; a reset ends connections.
func TestProxy(t *testing.T) {
	p, err := NewProxy(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !answered(t, c, time.Minute) {
		t.Fatal("no answer through the proxy")
	}
	p.Isolate()
	if answered(t, c, 50*time.Millisecond) {
		t.Error("an answer through a cut")
	}
	p.Heal()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Errorf("what was held back didn't come: %v", err)
	}
	if !answered(t, c, time.Minute) {
		t.Error("no answer after the cut")
	}
	p.Reset()
	if answered(t, c, time.Minute) {
		t.Error("an answer after the reset")
	}
	p.Isolate() // Close ends it with connections that wait
	if late, err := net.Dial("tcp", p.Addr()); err == nil {
		defer late.Close()
	}
}
