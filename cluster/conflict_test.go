// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// around is an engine that calls a function instead of a commit, which makes it by do.
type around struct {
	metastore.Backend
	commit func(ops []metastore.Op, do func() error) error
}

func (b around) Commit(ctx context.Context, conds []metastore.Cond, ops []metastore.Op) error {
	return b.commit(ops, func() error { return b.Backend.Commit(ctx, conds, ops) })
}

// around makes a store whose commits that change a key are made by commit, when its function is called.
func (f *fixture) around(key string, commit func(do func() error) error) *metastore.Store {
	f.Helper()
	_, b := f.server.client(f.T)
	changes := func(op metastore.Op) bool { return strings.HasSuffix(op.Path, "/"+key) }
	return f.open(around{b, func(ops []metastore.Op, do func() error) error {
		if slices.ContainsFunc(ops, changes) {
			return commit(do)
		}
		return do()
	}})
}

// left writes what a process that is dead has left: a member, and its server. It returns the process' number.
func (f *fixture) left(name string) (pid int) {
	f.Helper()
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		f.Fatal(err)
	}
	if err := f.store.Put(f.ctx, dirMembers+"/"+name, Member{Name: name, Status: Up, Layout: Layout, Version: "v1",
		Incarnation: "before", Pid: gone.Process.Pid, Origin: origin(), Slots: 1}); err != nil {
		f.Fatal(err)
	}
	f.server0(name+"-0", Status{State: Active, Incarnation: "before"})
	return gone.Process.Pid
}

// triers are the calls that try again where others have changed what they read, each with the key that it changes.
var triers = map[string]struct {
	key string
	try func(ctx context.Context, f *fixture, store *metastore.Store, pid int) error
}{
	"Join": {dirMembers + "/h1", func(ctx context.Context, f *fixture, store *metastore.Store, _ int) error {
		options, _ := f.options("h1", 1)
		m, err := Join(ctx, store, options)
		if err != nil {
			return err
		}
		return m.Leave(ctx)
	}},
	"Remove": {dirMembers + "/h1", func(ctx context.Context, _ *fixture, store *metastore.Store, pid int) error {
		return Remove(ctx, store, "h1", pid)
	}},
	"Request": {dirDesired + "/h1-0", func(ctx context.Context, f *fixture, store *metastore.Store, _ int) error {
		v, err := Open(ctx, store)
		if err != nil {
			return err
		}
		defer v.Close()
		_, err = v.Request(ctx, "h1-0", Exited, nil, "test")
		return err
	}},
}

// TestAlwaysChanged: a call whose key others change all the time tries again with pauses, until its context ends.
func TestAlwaysChanged(t *testing.T) {
	for name, c := range triers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setUp(t)
			pid, tries := f.left("h1"), atomic.Int64{}
			store := f.around(c.key, func(func() error) error {
				tries.Add(1)
				return &metastore.ConflictError{Cond: metastore.Cond{Path: "/" + f.group + "/" + c.key}}
			})
			over := errors.New("the test's time is over")
			ctx, cancel := context.WithTimeoutCause(f.ctx, 500*time.Millisecond, over)
			defer cancel()
			if err := c.try(ctx, f, store, pid); err == nil || ctx.Err() == nil {
				t.Errorf("ended with %v before its time", err)
			}
			if n := tries.Load(); n < 2 || n > 200 { // some 20; without pauses tens of thousands
				t.Errorf("tried %d times in half a second", n)
			}
		})
	}
}

// TestUnknownOnce: a call that isn't told whether one of its commits was made does all it should, either way. Each
// commit of the call is tried, until there is none of its number.
func TestUnknownOnce(t *testing.T) {
	for name, c := range triers {
		for _, done := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for lost, made := int64(1), int64(1); lost <= made; lost++ {
					f := setUp(t)
					pid, times := f.left("h1"), atomic.Int64{}
					store := f.around(c.key, func(do func() error) error {
						if times.Add(1) != lost {
							return do()
						}
						if done {
							if err := do(); err != nil {
								return err
							}
						}
						return metastore.ErrUnknown
					})
					if err := c.try(f.ctx, f, store, pid); err != nil {
						t.Fatalf("commit %d: %v", lost, err)
					}
					if made = times.Load(); name != "Request" {
						f.empty()
						continue
					}
					v, err := f.store.Get(f.ctx, c.key)
					var r Request
					if err := errors.Join(err, v.Decode(&r)); err != nil || r.Replaces != "" {
						t.Errorf("%+v, %v: want a request that replaces none", r, err)
					}
				}
			})
		}
	}
}

// TestOvertaken: who waits for an answer that later ones have overwritten is told so, and waits on where the answer is
// still to come.
func TestOvertaken(t *testing.T) {
	const id, later = "life.2.x", "life.3.y"
	for _, c := range []struct {
		name string
		ack  Ack
		want Phase // "" is ErrOvertaken, and waiting waits
	}{
		{"a later one's", Ack{Request: later, Phase: Applied, Seen: 3}, ""},
		{"one without a number", Ack{Request: "by hand", Phase: Refused, Seen: 2}, ""},
		{"of one that names it", Ack{Request: later, Phase: Accepted, Supersedes: id, Seen: 3}, Superseded},
		{"its own", Ack{Request: id, Phase: Failed, Seen: 3}, Failed},
		{"its first", Ack{Request: id, Phase: Accepted, Seen: 2}, "waits"},
		{"one that is refused meanwhile", Ack{Request: later, Phase: Refused, Pending: id, Seen: 3}, "waits"},
		{"one before it", Ack{Request: "life.1.z", Phase: Applied, Seen: 1}, "waits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := setUp(t)
			c.ack.State = Available
			f.server0("h1-0", Status{State: Available, Incarnation: "life", Ack: &c.ack})
			f.await("it is there", func() bool { return len(f.view.Servers()) == 1 })
			ctx, cancel := context.WithTimeout(f.ctx, 20*time.Second)
			if c.want == "waits" {
				ctx, cancel = context.WithTimeout(f.ctx, 50*time.Millisecond)
			}
			defer cancel()
			ack, err := f.view.AwaitAck(ctx, "h1-0", id)
			if c.want == "" && errors.Is(err, ErrOvertaken) || c.want == "waits" && errors.Is(err, ctx.Err()) ||
				err == nil && ack.Phase == c.want {
				return
			}
			t.Errorf("%+v, %v", ack, err)
		})
	}
}

// TestManyAsk: of many who ask one server at the same time each is answered, or told that its answer is gone.
func TestManyAsk(t *testing.T) {
	f := setUp(t)
	f.join("h1", 1)
	ctx, cancel := context.WithTimeout(f.ctx, 30*time.Second)
	defer cancel()
	phases, mu := map[Phase]int{}, sync.Mutex{}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			a := &Assignment{"e", "1", i}
			for range 20 {
				for _, s := range []State{Reserved, Ready, Terminated} {
					ack, err := f.view.Ask(ctx, "h1-0", s, a, "test")
					if err != nil && !errors.Is(err, ErrOvertaken) {
						t.Error(err)
						return
					}
					mu.Lock()
					phases[ack.Phase]++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	t.Logf("answers: %v", phases)
}
