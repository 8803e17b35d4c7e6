// SPDX-License-Identifier: Apache-2.0

// Package storetest is what every engine of the metadata store passes: each rule of metastore.Backend is a case.
//
// Guarantee: an engine that passes with all hooks given may stand below a metastore.Store. A case that needs a hook
// which is missing is skipped, saying so.
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, func(t testing.TB, failing bool) storetest.Engine { return storetest.Engine{New: …} })
//	}
package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// Engine is how the suite reaches an engine. All clients reach one store, whose nodes begin with no "/st-". Hooks may
// fail the test that they get; nil ones are those that the engine doesn't have.
type Engine struct {
	// New makes a client with a session of its own, once the store can be reached. The suite closes it.
	New func(t testing.TB) metastore.Backend
	// Disconnect makes the store unreachable for one client of New, and Reconnect undoes that.
	Disconnect, Reconnect func(t testing.TB, client metastore.Backend)
	// Expire ends a client's session at the server, which the client didn't ask for.
	Expire func(t testing.TB, client metastore.Backend)
	// Servers is how many there are; one of three may fail.
	Servers int
	// Kill ends a server without warning (SIGKILL), and Restart starts it again with its files.
	Kill, Restart func(t testing.TB, server int)
	// Pause stops a server (SIGSTOP), and Continue lets it go on.
	Pause, Continue func(t testing.TB, server int)
	// Timeout is when a case that doesn't end is ended; 1 minute if 0.
	Timeout time.Duration
}

// needs names a hook of an engine.
type needs uint8

const (
	disconnect needs = 1 << iota
	expire
	kill
	pause
)

// has tells whether the engine has all hooks, or what is missing.
func (e Engine) has(n needs) (missing string) {
	switch {
	case n&disconnect != 0 && (e.Disconnect == nil || e.Reconnect == nil):
		return "disconnecting a client"
	case n&expire != 0 && e.Expire == nil:
		return "ending a session at the server"
	case n&kill != 0 && (e.Kill == nil || e.Restart == nil):
		return "killing a server"
	case n&pause != 0 && (e.Pause == nil || e.Continue == nil):
		return "stopping a server"
	}
	return ""
}

// testCase is one rule.
type testCase struct {
	name  string
	needs needs
	run   func(e *env)
}

// Run runs all cases, in three groups at the same time, each with an engine that start makes: Rules are about the
// Backend and the Store above it, and run at the same time; Faults are about servers that fail; Histories are several
// clients with random operations, while servers are killed and stopped and clients cut off as far as there are hooks:
// what they have seen must be linearizable, and feeds and watches never go back and end with what is there. The seed of
// a history is logged; -storetest.seed gives the same operations and faults again, although not at the same moments.
// Where failing is true, sessions should be short; where it isn't they should survive that the machine is busy.
func Run(t *testing.T, start func(t testing.TB, failing bool) Engine) {
	rules := slices.Concat(nodeCases, commitCases, limitCases, appendCases, ephemeralCases, feedCases, closeCases,
		storeCases, treeCases, watchCases, queueCases, leadCases, lateCases)
	t.Run("Histories", func(t *testing.T) { t.Parallel(); run(t, start(t, true), false, historyCases) })
	t.Run("Faults", func(t *testing.T) { t.Parallel(); RunFaults(t, start(t, true)) })
	t.Run("Rules", func(t *testing.T) { t.Parallel(); run(t, start(t, false), true, rules) })
}

// RunFaults runs only the group of that name.
func RunFaults(t *testing.T, engine Engine) { run(t, engine, false, faultCases) }

// run runs cases one after the other, or together: at the same time.
func run(t *testing.T, engine Engine, together bool, cases []testCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if missing := engine.has(c.needs); missing != "" {
				t.Skipf("SKIPPED: there is no hook for %s", missing)
			}
			if together {
				t.Parallel()
			}
			c.run(newEnv(t, engine))
		})
	}
}

// env is what a case works with: a part of the tree for itself, and clients.
type env struct {
	testing.TB
	engine Engine
	root   string
	ctx    context.Context

	mu   sync.Mutex
	over bool // what a callback finds that runs on after the case is nobody's
}

// Error fails the case, unless it is over.
func (e *env) Error(args ...any) {
	e.Helper()
	e.Errorf("%s", fmt.Sprint(args...))
}

// Errorf fails the case, unless it is over.
func (e *env) Errorf(format string, args ...any) {
	e.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.TB.Errorf(format, args...)
	}
}

func newEnv(t testing.TB, engine Engine) *env {
	if engine.Timeout == 0 {
		engine.Timeout = time.Minute
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), engine.Timeout,
		errors.New("the case's own time is over: something waits that nothing ends"))
	e := &env{TB: t, engine: engine, root: "/st-" + strings.ToLower(rand.Text()[:10]), ctx: ctx}
	t.Cleanup(func() {
		cancel()
		e.mu.Lock()
		e.over = true
		e.mu.Unlock()
	})
	return e
}

// client makes a client that is closed with the test.
func (e *env) client() metastore.Backend {
	b := e.engine.New(e)
	e.Cleanup(func() {
		if err := b.Close(); err != nil {
			e.Errorf("Close: %v", err)
		}
	})
	return b
}

// path is a key's path in the case's part of the tree.
func (e *env) path(key string) string { return e.root + "/" + key }

// op makes an operation that gives data.
func (e *env) op(do metastore.OpKind, key, value string) metastore.Op {
	op := metastore.Op{Path: e.path(key), Do: do}
	if value != "" {
		op.Value = []byte(value)
	}
	return op
}

// commit must succeed.
func (e *env) commit(b metastore.Backend, ops ...metastore.Op) {
	e.Helper()
	if err := b.Commit(e.ctx, nil, ops); err != nil {
		e.Fatalf("Commit(%s): %v", ops[0].Path, err)
	}
}

func (e *env) set(b metastore.Backend, key, value string) {
	e.Helper()
	e.commit(b, e.op(metastore.Set, key, value))
}

func (e *env) create(b metastore.Backend, key, value string) {
	e.Helper()
	e.commit(b, e.op(metastore.Create, key, value))
}

func (e *env) delete(b metastore.Backend, key string) {
	e.Helper()
	e.commit(b, e.op(metastore.Delete, key, ""))
}

// session is that of a client.
func (e *env) session(b metastore.Backend) metastore.Session {
	e.Helper()
	s, err := b.Session(e.ctx)
	if err != nil {
		e.Fatalf("Session: %v", err)
	}
	return s
}

// ephemeral makes an ephemeral node, below a directory that holds data.
func (e *env) ephemeral(b metastore.Backend, key, value string) metastore.Session {
	e.Helper()
	if i := strings.LastIndexByte(key, '/'); i > 0 {
		e.set(b, key[:i], "d")
	}
	s := e.session(b)
	op := e.op(metastore.Create, key, value)
	op.Session = s
	e.commit(b, op)
	return s
}

// get reads a node that must be there.
func (e *env) get(b metastore.Backend, key string) metastore.Node {
	e.Helper()
	n, err := b.Get(e.ctx, e.path(key))
	if err != nil {
		e.Fatalf("Get(%s): %v", key, err)
	}
	return n
}

// holds checks a node's value; "" is a node without data.
func (e *env) holds(b metastore.Backend, key, want string) metastore.Node {
	e.Helper()
	n := e.get(b, key)
	if string(n.Value) != want || (n.Value == nil) != (want == "") ||
		(n.Version == metastore.Version{}) != (want == "") {
		e.Fatalf("Get(%s): found %q, version %v; want %q", key, n.Value, n.Version, want)
	}
	return n
}

// gone checks that there is no node.
func (e *env) gone(b metastore.Backend, key string) {
	e.Helper()
	if n, err := b.Get(e.ctx, e.path(key)); !errors.Is(err, metastore.ErrNoNode) {
		e.Fatalf("Get(%s): found %q, %v; want ErrNoNode", key, n.Value, err)
	}
	if names, err := b.Children(e.ctx, e.path(key)); !errors.Is(err, metastore.ErrNoNode) {
		e.Fatalf("Children(%s): found %q, %v; want ErrNoNode", key, names, err)
	}
}

// children checks the names of a node's children.
func (e *env) children(b metastore.Backend, key string, want ...string) {
	e.Helper()
	names, err := b.Children(e.ctx, e.path(key))
	if err != nil || !slices.Equal(names, want) {
		e.Fatalf("Children(%s): found %q, %v; want %q", key, names, err, want)
	}
}

// fails checks a commit's error, and that it is none that the engine may try again.
func (e *env) fails(b metastore.Backend, want error, conds []metastore.Cond, ops ...metastore.Op) {
	e.Helper()
	if err := b.Commit(e.ctx, conds, ops); !errors.Is(err, want) {
		e.Fatalf("Commit: found %v, want %v", err, want)
	}
}

// conflicts checks which condition of a commit fails.
func (e *env) conflicts(b metastore.Backend, want metastore.Cond, conds []metastore.Cond, ops ...metastore.Op) {
	e.Helper()
	err := b.Commit(e.ctx, conds, ops)
	var conflict *metastore.ConflictError
	if !errors.As(err, &conflict) || conflict.Cond != want {
		e.Fatalf("Commit: found %v, want a conflict in %v", err, want)
	}
}

// cond makes a condition.
func (e *env) cond(key string, is metastore.CondKind) metastore.Cond {
	return metastore.Cond{Path: e.path(key), Is: is}
}

// at is the condition that a node hasn't changed.
func (e *env) at(key string, v metastore.Version) metastore.Cond {
	return metastore.Cond{Path: e.path(key), Is: metastore.At, Version: v}
}

// parallel runs f for 0 to n-1 at the same time, and waits. What fails is reported by the error.
func (e *env) parallel(n int, f func(i int) error) {
	e.Helper()
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- f(i) }()
	}
	for range n {
		if err := <-errs; err != nil {
			e.Error(err)
		}
	}
	if e.Failed() {
		e.FailNow()
	}
}
