// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// closing is what calls work with whose store is closed while they last.
type closing struct {
	*fixture                  // of a group of its own, without a view
	other    *metastore.Store // of somebody else, who leads "led", and has the server h-0, whose Initialize lasts
	store    *metastore.Store // that is closed
	client   client           // of that store
	view     *View            // of that store
	stays    *member          // by that store, with one server whose Initialize lasts
	leaves   *member          // another one
	calls    atomic.Int64
}

// closingCall is a call of Store or of this package. It is made again and again until it fails, which it has to with
// ErrClosed.
type closingCall struct {
	name string
	call func(ctx context.Context, c *closing) error
}

// closeEndsCalls closes a store during all kinds of calls at once, while the servers can be reached, and while they
// can't.
func closeEndsCalls(f *fixture) {
	for i, after := range []time.Duration{0, 5 * time.Millisecond, 50 * time.Millisecond, 50 * time.Millisecond} {
		away := i == 3
		f.Run(fmt.Sprintf("%v,away=%v", after, away), func(t *testing.T) {
			t.Parallel()
			c := newClosing(&fixture{T: t, ctx: f.ctx, server: f.server, group: "test-" + rand.Text()})
			if away {
				c.client.Disconnect()
				t.Cleanup(c.client.Reconnect)
			}
			c.closeAfter(after, away)
		})
	}
}

func newClosing(f *fixture) *closing {
	c := &closing{fixture: f}
	c.other, _ = f.client()
	c.store, c.client = f.client()
	c.hosts("h", c.other)
	c.stays, c.leaves = c.hosts("stays", c.store), c.hosts("leaves", c.store)
	var err error
	if c.view, err = Open(c.ctx, c.store); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(c.view.Close)
	if _, err := c.other.Campaign(c.ctx, "led", "other"); err != nil {
		f.Fatal(err)
	}
	if _, err := c.other.Enqueue(c.ctx, "held", 1); err != nil {
		f.Fatal(err)
	}
	return c
}

// closeAfter makes all calls, closes the store, and waits for their ends, and those of the members.
func (c *closing) closeAfter(after time.Duration, away bool) {
	type end struct {
		name string
		err  error
	}
	ended, left := make(chan end), map[string]bool{}
	for _, k := range slices.Concat(storeCalls, storeWaits, clusterCalls) {
		left[k.name] = true
		go func() {
			var err error
			for err == nil {
				err = k.call(c.ctx, c)
			}
			ended <- end{k.name, err}
		}()
	}
	time.Sleep(after)
	if err := c.store.Close(); err != nil && !away {
		c.Errorf("Close: %v", err)
	}
	late := time.After(20 * time.Second)
	for len(left) > 0 {
		select {
		case e := <-ended:
			if delete(left, e.name); !errors.Is(e.err, metastore.ErrClosed) {
				c.Errorf("%s ends with %v, want ErrClosed", e.name, e.err)
			}
		case <-late:
			stacks := make([]byte, 1<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			c.Fatalf("don't end: %v\n%s", slices.Sorted(maps.Keys(left)), stacks)
		}
	}
	for _, m := range []*member{c.stays, c.leaves} {
		select {
		case <-m.Done():
		case <-late:
			c.Fatal("a member doesn't end")
		}
	}
}

// hosts joins a member with one server, whose Initialize lasts.
func (c *closing) hosts(name string, store *metastore.Store) *member {
	o, m := c.options(name, 1)
	o.Report = func(err error) {
		if strings.Contains(err.Error(), "lost its session") {
			select {
			case <-store.Closed():
				c.Errorf("%s reports what was asked for: %v", name, err)
			default: // it is away
			}
		}
	}
	var err error
	if m.Membership, err = Join(c.ctx, store, o); err != nil {
		c.Fatal(err)
	}
	m.workers[0].hold = make(chan struct{})
	c.Cleanup(func() { _ = m.Leave(c.ctx) })
	return m
}

// joinClosed: the store is closed between the registrations of a member and of its servers.
func joinClosed(f *fixture) {
	store, _ := f.client()
	o, _ := f.options("j", 1)
	runner := o.Runner
	o.Runner = func(slot int, r *Reporter) Runner {
		if err := store.Close(); err != nil {
			f.Error(err)
		}
		return runner(slot, r)
	}
	ctx, cancel := context.WithTimeout(f.ctx, 20*time.Second)
	defer cancel()
	if _, err := Join(ctx, store, o); !errors.Is(err, metastore.ErrClosed) {
		f.Errorf("found %v, want ErrClosed", err)
	}
}

// key is another one for each call.
func (c *closing) key(dir string) string { return fmt.Sprintf("%s/%d", dir, c.calls.Add(1)) }

// watched waits for the end of a watch, which has no error of its own.
func watched(w *metastore.Watch, err error) error {
	if err == nil {
		<-w.Done()
		err = metastore.ErrClosed
	}
	return err
}

// second is the error of a call with two results.
func second[T any](_ T, err error) error { return err }

// none makes nothing of an error that a call may give before the end.
func none(err, what error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}

func never() bool { return false }

// storeCalls are the calls of Store that wait for an answer only.
var storeCalls = []closingCall{
	{"Get", func(ctx context.Context, c *closing) error { return second(c.store.Get(ctx, dirMembers)) }},
	{"Contains", func(ctx context.Context, c *closing) error { return second(c.store.Contains(ctx, "none")) }},
	{"Members", func(ctx context.Context, c *closing) error { return second(c.store.Members(ctx, "")) }},
	{"Put", func(ctx context.Context, c *closing) error { return c.store.Put(ctx, "put", 1) }},
	{"Delete", func(ctx context.Context, c *closing) error { return c.store.Delete(ctx, "put") }},
	{"DeleteTree", func(ctx context.Context, c *closing) error { return c.store.DeleteTree(ctx, "put") }},
	{"DeleteOwned", func(ctx context.Context, c *closing) error { return c.store.DeleteOwned(ctx, ^uint64(0)) }},
	{"Ensure", func(ctx context.Context, c *closing) error { return c.store.Ensure(ctx, c.key("dir")) }},
	{"Commit", func(ctx context.Context, c *closing) error {
		return c.store.Commit(ctx, nil, []metastore.Op{{Path: "put", Do: metastore.Delete}})
	}},
	{"Update", func(ctx context.Context, c *closing) error {
		return c.store.Update(ctx, "update", func(metastore.Value) (any, error) { return 1, nil })
	}},
	{"Session", func(ctx context.Context, c *closing) error { return second(c.store.Session(ctx)) }},
	{"PutEphemeral", func(ctx context.Context, c *closing) error {
		_, _, err := c.store.PutEphemeral(ctx, c.key("ephemeral"), 1)
		return err
	}},
	{"PutTree", func(ctx context.Context, c *closing) error {
		return c.store.PutTree(ctx, "tree", map[string]any{"a": 1, c.key("b")[2:]: 2}, nil, true)
	}},
	{"GetTree", func(ctx context.Context, c *closing) error { return second(c.store.GetTree(ctx, "cluster", nil)) }},
	{"Walk", func(ctx context.Context, c *closing) error { return second(c.store.Walk(ctx, "")) }},
	{"Leader", func(ctx context.Context, c *closing) error { return second(c.store.Leader(ctx, "led")) }},
	{"Enqueue", func(ctx context.Context, c *closing) error { return second(c.store.Enqueue(ctx, "queue", 1)) }},
	{"TryDequeue", func(ctx context.Context, c *closing) error {
		q, err := c.store.Queue("empty")
		if err == nil {
			err = none(second(q.TryDequeue(ctx)), metastore.ErrEmpty)
		}
		return err
	}},
}

// storeWaits are the calls of Store that wait for others, and what holds a session.
var storeWaits = []closingCall{
	{"Dequeue", func(ctx context.Context, c *closing) error { return second(c.store.Dequeue(ctx, "empty")) }},
	{"Consume", func(ctx context.Context, c *closing) error {
		if _, err := c.other.Enqueue(ctx, "items", 1); err != nil {
			return err
		}
		item, err := c.store.Dequeue(ctx, "items")
		if err != nil {
			return err
		}
		return none(item.Consume(ctx, nil), metastore.ErrSessionLost) // by Close
	}},
	{"Item.Lost", func(ctx context.Context, c *closing) error {
		item, err := c.store.Dequeue(ctx, "held")
		if err == nil {
			<-item.Lost()
		}
		return err
	}},
	{"Campaign", func(ctx context.Context, c *closing) error { return second(c.store.Campaign(ctx, "led", 1)) }},
	{"Resign", func(ctx context.Context, c *closing) error {
		l, err := c.store.Campaign(ctx, "resign", 1)
		if err == nil {
			err = l.Resign(ctx)
		}
		return err
	}},
	{"Lead.Lost", func(ctx context.Context, c *closing) error {
		l, err := c.store.Campaign(ctx, "lost", 1)
		if err == nil {
			<-l.Lost()
		}
		return err
	}},
	{"Watch", func(ctx context.Context, c *closing) error {
		return watched(c.store.Watch(ctx, "watch", func(metastore.Value, string) bool { return true }))
	}},
	{"WatchMembers", func(ctx context.Context, c *closing) error {
		return watched(c.store.WatchMembers(ctx, "watch", func([]string, string) bool { return true }))
	}},
	{"Follow", func(_ context.Context, c *closing) error {
		return watched(c.store.Follow("follow", func(metastore.Value, string) bool { return true }))
	}},
}

// clusterCalls are the calls of this package.
var clusterCalls = []closingCall{
	{"Open", func(ctx context.Context, c *closing) error {
		v, err := Open(ctx, c.store)
		if err == nil {
			v.Close()
		}
		return err
	}},
	{"Join", func(ctx context.Context, c *closing) error {
		o, _ := c.options("j", 2)
		o.Report = nil
		m, err := Join(ctx, c.store, o)
		if err == nil {
			err = m.Leave(ctx)
		}
		return err
	}},
	{"Leave", func(ctx context.Context, c *closing) error {
		if err := c.leaves.Leave(ctx); err != nil {
			return err
		}
		return metastore.ErrClosed // it may succeed
	}},
	{"Done", func(_ context.Context, c *closing) error { <-c.stays.Done(); return metastore.ErrClosed }},
	{"Lead", func(ctx context.Context, c *closing) error {
		l, err := c.stays.Lead(ctx)
		if err == nil {
			<-l.Lost()
		}
		return err
	}},
	{"Ask", func(ctx context.Context, c *closing) error {
		_, err := c.view.Ask(ctx, "h-0", Reserved, &Assignment{"e", "1", 0}, "test")
		if err == nil {
			_, err = c.view.Ask(ctx, "h-0", Ready, &Assignment{"e", "1", 0}, "test")
		}
		return none(err, ErrOvertaken) // by Request
	}},
	{"Request", func(ctx context.Context, c *closing) error {
		return second(c.view.Request(ctx, "h-0", Paused, nil, "test"))
	}},
	{"AwaitAck", func(ctx context.Context, c *closing) error {
		return second(c.view.AwaitAck(ctx, "h-0", "nobody's"))
	}},
	{"Await", func(ctx context.Context, c *closing) error { return c.view.Await(ctx, never) }},
	{"AwaitMembers", func(ctx context.Context, c *closing) error { return c.view.AwaitMembers(ctx, "", 9) }},
	{"AwaitAvailable", func(ctx context.Context, c *closing) error {
		since, err := c.view.AwaitAvailable(ctx, 0)
		for err == nil {
			since, err = c.view.AwaitAvailable(ctx, since)
		}
		return err
	}},
	{"Next", func(ctx context.Context, c *closing) error {
		events := c.view.Subscribe()
		defer events.Close()
		for {
			if _, err := events.Next(ctx); err != nil {
				return err
			}
		}
	}},
	{"WatchLeader", func(ctx context.Context, c *closing) error {
		return watched(c.view.WatchLeader(ctx, func() {}))
	}},
	{"View.Leader", func(ctx context.Context, c *closing) error {
		_, _, err := c.view.Leader(ctx)
		return err
	}},
	{"Drain", func(ctx context.Context, c *closing) error { return Drain(ctx, c.store, "h", "test") }},
	{"Resume", func(ctx context.Context, c *closing) error { return Resume(ctx, c.store, "h") }},
	{"Remove", func(ctx context.Context, c *closing) error { return Remove(ctx, c.store, "h", 1) }},
	{"ReadDeadLetters", func(ctx context.Context, c *closing) error {
		_, _, err := ReadDeadLetters(ctx, c.store)
		return err
	}},
}
