// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// memberEnv has, for a process of TestMain that is a member: engine, address, group, and the number of the commit at
// which it kills itself (0: none), with a minus before the commit is made and without one behind it.
const memberEnv = "DISCO_TEST_MEMBER"

// mortal is a backend whose process dies at one of its commits.
type mortal struct {
	metastore.Backend
	at int64
	n  atomic.Int64
}

func (b *mortal) Commit(ctx context.Context, conds []metastore.Cond, ops []metastore.Op) error {
	n := b.n.Add(1)
	if n == -b.at {
		die()
	}
	err := b.Backend.Commit(ctx, conds, ops)
	if n == b.at {
		die()
	}
	return err
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// beMember is the process: it joins, leads, takes an item of a queue, writes as the leader what it has taken, says
// what it has done, and waits until it is told to end. One that doesn't kill itself goes on writing.
func beMember(args []string) error {
	ctx := context.Background()
	backend, err := dialers[args[0]](args[1], sessions)
	if err != nil {
		return err
	}
	at, err := strconv.ParseInt(args[3], 10, 64)
	if err != nil {
		return err
	}
	report := func(err error) { fmt.Println("report:", err) }
	store, err := metastore.New(ctx, &mortal{Backend: backend, at: at}, metastore.Options{Group: args[2],
		Base:   Base(),
		Report: report})
	if err != nil {
		return err
	}
	m, err := Join(ctx, store, Options{Name: "h1", Version: "v1", Slots: 1, Report: report,
		Runner: func(_ int, r *Reporter) Runner { return &worker{Reporter: r} }})
	if err != nil {
		return err
	}
	lead, err := m.Lead(ctx)
	if err != nil {
		return err
	}
	item, err := store.Dequeue(ctx, "work")
	if err != nil {
		return err
	}
	done, err := store.Encode("h1")
	if err == nil {
		err = item.Consume(ctx, []metastore.Cond{lead.Guard()},
			metastore.Op{Path: "done", Do: metastore.Create, Value: done})
	}
	if err != nil {
		return err
	}
	fmt.Println("working")
	go func() {
		for at == 0 {
			time.Sleep(20 * time.Millisecond)
			var conflict *metastore.ConflictError
			err := store.Commit(ctx, []metastore.Cond{lead.Guard()}, []metastore.Op{{Path: "led", Do: metastore.Set,
				Value: done}})
			if errors.As(err, &conflict) {
				fmt.Println("refused")
				return
			}
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
	return errors.Join(m.Leave(ctx), store.Close())
}

// other is a member in a process of its own.
type other struct {
	*exec.Cmd
	lines chan string // closed at its end
	stdin io.Closer
}

// await waits for a line; it tells whether it came.
func (o *other) await(line string) bool {
	for l := range o.lines {
		if l == line {
			return true
		}
	}
	return false
}

// startMember starts the process.
func (f *fixture) startMember(at int) *other {
	f.Helper()
	p := f.server.(*process)
	o := &other{Cmd: exec.Command(os.Args[0]), lines: make(chan string, 1000)}
	o.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s %d", memberEnv, p.name, p.addr, f.group, at))
	o.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	o.Stderr = os.Stderr
	out, err := o.StdoutPipe()
	if err == nil {
		o.stdin, err = o.StdinPipe()
	}
	if err == nil {
		err = o.Start()
	}
	if err != nil {
		f.Fatal(err)
	}
	go func() {
		defer close(o.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			o.lines <- s.Text()
		}
	}()
	f.Cleanup(func() { _ = o.Process.Kill(); _ = o.Wait() })
	return o
}

// withWork is a fixture with an item in the queue.
func withWork(t *testing.T, p *process) *fixture {
	f := setUpOn(t, p)
	if _, err := f.store.Enqueue(f.ctx, "work", 1); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestKilledAtEveryStep kills a member at each of its commits (with -short at every fifth), just before and just
// behind it, while others ask its server for states. Then the view equals the store, its supervisor has its name
// free at once, the next of its name leads, and the item was consumed or can be taken, not both.
func TestKilledAtEveryStep(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 5
	}
	onProcesses(t, func(t *testing.T, p *process) {
		killedAtEveryStep(t, 12, step, func(t *testing.T, at int) bool { return withWork(t, p).kill(at) })
	})
}

// killedAtEveryStep calls kill for every by-th step of a process, just before it (-at) and just behind it (at): for
// batch steps at the same time, and then for the next ones, until a process does all its steps: kill returns false.
func killedAtEveryStep(t *testing.T, batch, by int, kill func(t *testing.T, at int) (killed bool)) {
	for first := 1; ; first += batch * by {
		ended := atomic.Int64{}
		t.Run("", func(t *testing.T) {
			for at := first; at < first+batch*by; at += by {
				for _, at := range []int{-at, at} {
					t.Run(strconv.Itoa(at), func(t *testing.T) {
						t.Parallel()
						if !kill(t, at) {
							ended.Add(1)
						}
					})
				}
			}
		})
		if ended.Load() > 0 || t.Failed() {
			return
		}
	}
}

// kill is one of them. It tells whether the member was killed.
func (f *fixture) kill(at int) bool {
	o := f.startMember(at)
	asking, cancel := context.WithCancel(f.ctx)
	asked := make(chan struct{})
	go func() { // all states, as far as they get
		defer close(asked)
		for _, s := range []State{Reserved, Ready, Active, Paused, Terminated} {
			for {
				if _, err := f.view.Ask(asking, "h1-0", s, &Assignment{"e", "1", 0}, "test"); err == nil {
					break
				}
				if sleep(asking, 5*time.Millisecond) != nil {
					return
				}
			}
		}
	}()
	working, over := o.await("working"), make(chan struct{})
	go func() { // a server that is dead answers nothing
		defer close(over)
		if working {
			o.await("") // its end
		}
		cancel()
	}()
	<-asked // the writing of these may be where it is killed
	_ = o.stdin.Close()
	<-over
	killed := o.Wait() != nil
	if killed {
		if at%2 == 0 { // else its session's end or its successor removes the keys
			if err := Remove(f.ctx, f.store, "h1", o.Process.Pid); err != nil {
				f.Error(err)
			}
		}
	}
	m := f.join("h1", 1)
	lead, err := m.Lead(f.ctx)
	if err != nil {
		f.Fatal(err)
	}
	switch done, err := f.store.Contains(f.ctx, "done"); {
	case err != nil:
		f.Error(err)
	case done:
		if names, err := f.store.Members(f.ctx, "work/items"); err != nil || len(names) > 0 {
			f.Errorf("the item was consumed, and is there: %v, %v", names, err)
		}
	default:
		item, err := m.store.Dequeue(f.ctx, "work")
		if err == nil {
			err = item.Consume(f.ctx, []metastore.Cond{lead.Guard()})
		}
		if err != nil {
			f.Error("nobody has consumed the item, and it can't be taken: ", err)
		}
	}
	f.activate("h1-0", &Assignment{"e", "2", 1})
	second, err := Open(f.ctx, f.store)
	if err != nil {
		f.Fatal(err)
	}
	defer second.Close()
	f.await("the view equals a new one", func() bool {
		return reflect.DeepEqual(f.view.Servers(), second.Servers()) &&
			reflect.DeepEqual(f.view.Members(), second.Members())
	})
	f.equalsStore()
	if err := lead.Resign(f.ctx); err != nil {
		f.Error(err)
	}
	return killed
}

// TestStoppedMember: a member that is stopped for so long that its session ends isn't there; when it goes on it comes
// back in another life, and what it writes as the leader that it was is refused.
func TestStoppedMember(t *testing.T) {
	onProcesses(t, func(t *testing.T, p *process) {
		f := withWork(t, p)
		o := f.startMember(0)
		if !o.await("working") {
			t.Fatal("the member has ended")
		}
		f.await("it is up", func() bool { return f.incarnation("h1") != "none" })
		before := f.incarnation("h1")
		if err := o.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		f.await("it is gone", func() bool { return len(f.view.Members()) == 0 })
		m := f.join("h2", 0)
		lead, err := m.Lead(f.ctx)
		if err != nil {
			t.Fatal(err)
		}
		mine, err := f.store.Encode("h2")
		if err == nil {
			err = f.store.Commit(f.ctx, []metastore.Cond{lead.Guard()},
				[]metastore.Op{{Path: "led", Do: metastore.Set, Value: mine}})
		}
		if err = errors.Join(err, o.Process.Signal(syscall.SIGCONT)); err != nil {
			t.Fatal(err)
		}
		f.await("it is back", func() bool { i := f.incarnation("h1"); return i != before && i != "none" })
		if !o.await("refused") {
			t.Error("the former leader wasn't refused")
		}
		var who string
		if v, err := f.store.Get(f.ctx, "led"); err != nil || v.Decode(&who) != nil || who != "h2" {
			t.Errorf("the key was written by %q: %v", who, err)
		}
		_ = o.stdin.Close()
		f.await("it has left", func() bool { return f.incarnation("h1") == "none" })
		if err := o.Wait(); err != nil {
			t.Error(err)
		}
	})
}
