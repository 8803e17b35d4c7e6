// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/etcd"
	"github.com/disco-sim/disco/metastore/zk"
)

// three is a store of three servers. Its clients are nowhere cut off.
type three struct {
	engine
	addrs []string
	name  string
	fail  func(server int, s syscall.Signal) // SIGKILL, or SIGSTOP
	mend  func(t *testing.T, server int, s syscall.Signal)
}

func (e *three) ttl() time.Duration { return 5 * time.Second }

func (e *three) client(t *testing.T) (client, metastore.Backend) {
	var b metastore.Backend
	var err error
	if e.name == "etcd" {
		b, err = etcd.New(t.Context(), etcd.Options{Endpoints: e.addrs, TTL: e.ttl()})
	} else {
		b, err = zk.New(zk.Options{Servers: e.addrs, TTL: e.ttl()})
	}
	if err != nil {
		t.Fatal(err)
	}
	return nil, b
}

// startThree starts three servers, or skips the test.
func startThree(t *testing.T, name string) *three {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	e := &three{name: name}
	var servers []*storeserver.Process
	var err error
	if name == "etcd" {
		var z *storeserver.Etcds
		if z, err = storeserver.StartEtcds(ctx, t.TempDir(), 3); err == nil {
			t.Cleanup(z.Close)
			e.addrs = z.Addrs()
			for _, s := range z.Servers {
				servers = append(servers, s.Process)
			}
		}
	} else {
		var z *storeserver.Ensemble
		if z, err = storeserver.StartEnsemble(ctx, t.TempDir(), 3, storeserver.ZKOptions{}); err == nil {
			t.Cleanup(z.Close)
			for _, s := range z.Servers {
				e.addrs, servers = append(e.addrs, s.Addr()), append(servers, s.Process)
			}
		}
	}
	storeserver.Need(t, err)
	e.fail = func(i int, s syscall.Signal) {
		if servers[i].Signal(s); s == syscall.SIGKILL {
			servers[i].Kill()
		}
	}
	e.mend = func(t *testing.T, i int, s syscall.Signal) {
		if s == syscall.SIGSTOP {
			servers[i].Signal(syscall.SIGCONT)
		} else if err := servers[i].Start(); err != nil {
			t.Error(err)
		}
	}
	return e
}

// TestServersFail kills each of three servers, and stops each, while members come and go, change states, lead, and
// take items of a queue. All of that goes on without the server; every item is consumed once, no leader writes after
// its successor, and the view equals the store. With -short one is killed and one is stopped.
func TestServersFail(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"etcd", "zk"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := startThree(t, name)
			f := setUpOn(t, e)
			f.ctx = context.Background() // goesOn limits each step; how long all of them take depends on the machine
			w := &work{fixture: f}
			w.begin()
			signals := []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP}
			for server := range 3 {
				for i, s := range signals {
					if testing.Short() && server != i {
						continue
					}
					w.goesOn(fmt.Sprintf("before %v of server %d", s, server))
					e.fail(server, s)
					w.goesOn(fmt.Sprintf("after %v of server %d", s, server))
					e.mend(t, server, s)
				}
			}
			w.goesOn("at the end")
			w.end()
		})
	}
}

// work is what goes on meanwhile.
type work struct {
	*fixture
	cancel             context.CancelFunc
	running            sync.WaitGroup
	joins, acks, terms atomic.Int64 // done so far
	items              atomic.Int64 // that were certainly put into the queue
}

func (w *work) begin() {
	ctx, cancel := context.WithCancel(w.ctx)
	w.cancel = cancel
	w.join("h1", 1)
	w.running.Go(func() { w.comeAndGo(ctx) })
	w.running.Go(func() { w.changeStates(ctx) })
	w.running.Go(func() { w.lead(ctx) })
	w.running.Go(func() { w.fill(ctx) })
	w.running.Go(func() { w.take(ctx) })
}

// comeAndGo has a member join and leave.
func (w *work) comeAndGo(ctx context.Context) {
	store, _ := w.client()
	for ctx.Err() == nil {
		o, _ := w.options("h2", 1)
		m, err := Join(w.ctx, store, o)
		if err != nil {
			time.Sleep(100 * time.Millisecond) // its former life may not have ended
			continue
		}
		if m.Leave(w.ctx) == nil { // else its session ends
			w.joins.Add(1)
		}
	}
}

// changeStates leads h1-0 through its states. Its life may be over, and another begin, at any time.
func (w *work) changeStates(ctx context.Context) {
	for ctx.Err() == nil {
		for _, s := range []State{Reserved, Ready, Active, Terminated} {
			short, cancel := context.WithTimeout(ctx, 20*time.Second)
			if ack, err := w.view.Ask(short, "h1-0", s, &Assignment{"e", "1", 0}, "test"); err == nil &&
				ack.Phase == Applied {
				w.acks.Add(1)
			}
			cancel()
		}
	}
}

// lead leads, writes as the leader, and resigns.
func (w *work) lead(ctx context.Context) {
	for ctx.Err() == nil {
		lead, err := w.store.Campaign(ctx, "chair", "me")
		if err != nil {
			continue
		}
		value, err := w.store.Encode(lead.Token())
		if err == nil {
			err = w.store.Commit(w.ctx, []metastore.Cond{lead.Guard()}, []metastore.Op{{Path: "led", Do: metastore.Set,
				Value: value}})
		}
		if err == nil {
			w.terms.Add(1)
		}
		_ = lead.Resign(w.ctx)
	}
}

// fill puts numbers into the queue. One whose outcome isn't known may be there or not.
func (w *work) fill(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		if _, err := w.store.Enqueue(w.ctx, "work", n); err == nil {
			w.items.Add(1)
		} else if !errors.Is(err, metastore.ErrUnknown) {
			w.Errorf("enqueue: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// take consumes items, and notes each in the same commit: twice would be a conflict.
func (w *work) take(ctx context.Context) {
	for {
		item, err := w.store.Dequeue(ctx, "work")
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			continue
		}
		var n int
		if err := item.Value.Decode(&n); err != nil {
			w.Error(err)
		}
		value, err := w.store.Encode(n)
		if err == nil {
			err = item.Consume(w.ctx, nil,
				metastore.Op{Path: fmt.Sprint("taken/", n), Do: metastore.Create, Value: value})
		}
		var conflict *metastore.ConflictError
		if errors.As(err, &conflict) && strings.Contains(err.Error(), "taken/") {
			w.Errorf("item %d was consumed before: %v", n, err)
		}
	}
}

// goesOn waits until some more of everything has been done.
func (w *work) goesOn(when string) {
	w.Helper()
	counts := []*atomic.Int64{&w.joins, &w.acks, &w.terms, &w.items}
	names := []string{"joining", "changing states", "leading", "enqueueing"}
	began := time.Now()
	for i, c := range counts {
		for from := c.Load(); c.Load() < from+3; time.Sleep(5 * time.Millisecond) {
			if time.Since(began) > time.Minute {
				stacks := make([]byte, 1<<20)
				stacks = stacks[:runtime.Stack(stacks, true)]
				w.Fatalf("%s: %s doesn't go on; what runs:\n%s", when, names[i], stacks)
			}
		}
	}
}

// end ends it, and looks at what is there.
func (w *work) end() {
	w.Helper()
	w.cancel()
	w.running.Wait()
	taken, err := w.store.Members(w.ctx, "taken")
	left, err2 := w.store.Members(w.ctx, "work/items")
	if errors.Join(err, err2) != nil || int64(len(taken)+len(left)) < w.items.Load() || len(taken) == 0 {
		w.Errorf("%d items were taken and %d are left, of at least %d: %v, %v", len(taken), len(left), w.items.Load(),
			err, err2)
	}
	w.await("h1 is there, and h2 isn't", func() bool {
		return len(w.view.Members()) == 1 && w.incarnation("h1") != "none"
	})
	second, err := Open(w.ctx, w.store)
	if err != nil {
		w.Fatal(err)
	}
	defer second.Close()
	w.equalsStore()
	w.Logf("%d joins, %d acks, %d terms, %d items", w.joins.Load(), w.acks.Load(), w.terms.Load(), w.items.Load())
}
