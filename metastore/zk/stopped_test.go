// SPDX-License-Identifier: Apache-2.0

package zk

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/disco-sim/disco/metastore"
)

// leaderEnv makes the test binary a leader that is stopped: it holds the server's address.
const leaderEnv = "DISCO_ZK_TEST_LEADER"

func TestMain(m *testing.M) {
	if addr := os.Getenv(leaderEnv); addr != "" {
		if err := lead(addr); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	storeserver.ParallelTests(6)
	leaktest.Main(m)
}

// lead writes as long as its ephemeral node is there, and says what became of that.
func lead(addr string) error {
	b, err := New(Options{Servers: []string{addr}, TTL: 4 * time.Second})
	if err != nil {
		return err
	}
	defer b.Close()
	ctx := context.Background()
	session, err := b.Session(ctx)
	if err != nil {
		return err
	}
	candidate := metastore.Op{Path: "/c/e", Do: metastore.Create, Value: []byte("1"), Session: session}
	if err := b.Commit(ctx, nil, []metastore.Op{candidate}); err != nil {
		return err
	}
	n, err := b.Get(ctx, "/c/e")
	if err != nil {
		return err
	}
	guard := []metastore.Cond{{Path: "/c/e", Is: metastore.At, Version: n.Version}}
	work := []metastore.Op{{Path: "/c/work", Do: metastore.Set, Value: []byte("old")}}
	for leads := false; err == nil || errors.Is(err, metastore.ErrUnknown); {
		if err = b.Commit(ctx, guard, work); err == nil && !leads {
			fmt.Println("leads")
			leads = true
		}
	}
	var conflict *metastore.ConflictError
	if !errors.As(err, &conflict) {
		return err
	}
	<-session.Lost()
	fmt.Println("refused and lost")
	candidate.Path = "/c/late"
	if err := b.Commit(ctx, nil, []metastore.Op{candidate}); !errors.Is(err, metastore.ErrSessionLost) {
		return fmt.Errorf("an ephemeral node of the lost session: %w", err)
	}
	next, err := b.Session(ctx)
	if err != nil || next.ID() == session.ID() {
		return fmt.Errorf("the next session is %v, %w", next, err)
	}
	fmt.Println("goes on")
	return nil
}

// TestStoppedLeader: a process that is stopped for longer than its session, and wakes up, writes nothing that depends
// on it, and knows that it was lost.
func TestStoppedLeader(t *testing.T) {
	t.Parallel()
	z := start(t, 1)
	b := client(t, Options{Servers: z.Addrs()})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := b.Commit(ctx, nil, []metastore.Op{{Path: "/c", Do: metastore.Set, Value: []byte("d")}}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), leaderEnv+"="+z.Addrs()[0])
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			cancel() // it may go on for ever
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the leader: %v", err)
		}
	}()
	lines := bufio.NewScanner(out)
	said := func(want string) {
		t.Helper()
		if !lines.Scan() || !strings.Contains(lines.Text(), want) {
			t.Fatalf("the leader reports %q, want %q", lines.Text(), want)
		}
	}
	said("leads")
	f := b.Watch("/c/e", metastore.Data)
	defer f.Close()
	if s, err := f.Next(ctx); err != nil || !s.Node.Ephemeral {
		t.Errorf("the candidate is %+v, %v", s, err)
	}
	_ = cmd.Process.Signal(syscall.SIGSTOP)
	if s, err := f.Next(ctx); err != nil || s.Node.Value != nil {
		t.Errorf("the stopped leader's candidate is %+v, %v", s, err)
	}
	over := metastore.Op{Path: "/c/work", Do: metastore.Set, Value: []byte("new")}
	if err := b.Commit(ctx, nil, []metastore.Op{over}); err != nil {
		t.Error(err)
	}
	_ = cmd.Process.Signal(syscall.SIGCONT)
	said("refused and lost")
	said("goes on")
	if n, err := b.Get(ctx, "/c/work"); err != nil || string(n.Value) != "new" {
		t.Errorf("found %q, %v: the stopped leader has overwritten its successor's", n.Value, err)
	}
}

// TestEphemeralsParent: an implicit parent that an ephemeral node has left is missing for everybody, and the first
// who lists it deletes it.
func TestEphemeralsParent(t *testing.T) {
	t.Parallel()
	z := start(t, 1)
	a, b := client(t, Options{Servers: z.Addrs()}), client(t, Options{Servers: z.Addrs()})
	ctx := t.Context()
	session, err := a.Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	op := metastore.Op{Path: "/p/q/e", Do: metastore.Create, Value: []byte("1"), Session: session}
	if err := a.Commit(ctx, nil, []metastore.Op{op}); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	missing := []metastore.Cond{{Path: "/p/q", Is: metastore.Missing}}
	if err := b.Commit(ctx, missing, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get(ctx, "/p/q"); !errors.Is(err, metastore.ErrNoNode) {
		t.Fatalf("Get: found %v, want ErrNoNode", err)
	}
	if names, err := b.Children(ctx, "/p/q"); !errors.Is(err, metastore.ErrNoNode) {
		t.Fatalf("Children: found %q, %v, want ErrNoNode", names, err)
	}
	for _, path := range []string{"/p/q", "/p"} {
		err := b.attempt(ctx, func(c *conn) error {
			look := read(opExists, path, nil)
			_, err := c.do(ctx, look)
			if err == nil && look.code != codeNoNode {
				t.Errorf("%s is still there", path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	// What is left can become an ephemeral node itself.
	err = b.attempt(ctx, func(c *conn) error {
		made := newCall(opCreate, request(opCreate).body(step{op: opCreate, path: "/left"}, b.grants))
		_, err := c.do(ctx, made)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if op.Session, err = b.Session(ctx); err != nil {
		t.Fatal(err)
	}
	op.Path = "/left"
	if err := b.Commit(ctx, nil, []metastore.Op{op}); err != nil {
		t.Fatal(err)
	}
	if n, err := b.Get(ctx, "/left"); err != nil || !n.Ephemeral {
		t.Fatalf("found %+v, %v", n, err)
	}
}
