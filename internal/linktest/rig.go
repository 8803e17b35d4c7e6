// SPDX-License-Identifier: Apache-2.0

package linktest

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// errStopped ends the sends of a test that is over.
var errStopped = errors.New("linktest: the test is over")

// group are the goroutines of one test. They end before the mesh is taken down, also
// when the test fails half-way.
type group struct {
	t    testing.TB
	stop atomic.Bool
	wg   sync.WaitGroup
}

// newGroup makes the group of a mesh; open calls it once the mesh is there, so that its
// clean-up comes first.
func newGroup(t testing.TB) *group {
	c := &group{t: t}
	t.Cleanup(func() {
		c.stop.Store(true)
		c.wg.Wait()
	})
	return c
}

// start runs f in a goroutine. Its error fails the test.
func (c *group) start(f func() error) {
	c.wg.Add(1)
	go func() {
		defer c.wg.Done()
		if err := f(); err != nil && !errors.Is(err, errStopped) {
			c.t.Error(err)
		}
	}()
}

// watchdog makes a check that loops outside the test's own goroutine call while they
// get nowhere: it yields, and after a long time, or when the test is over, it is an
// error.
func (c *group) watchdog() func() error {
	deadline := time.Now().Add(limit)
	return func() error {
		if c.stop.Load() {
			return errStopped
		}
		if time.Now().After(deadline) {
			return errors.New("linktest: nothing happens any more")
		}
		runtime.Gosched()
		return nil
	}
}

// rig is what most tests work with: a mesh, a group, and an inbox and outboxes for each
// worker.
type rig struct {
	*Ends
	group *group
	inbox []*inbox
	out   [][]outbox // [from][to]

	// wait is what sends do while there is no room, and is called by the sending
	// worker's goroutine. The default yields.
	wait func(worker int) error

	trying []bool // by worker: it sends, and doesn't wait; owned by its goroutine
}

// small is a mesh of a few workers with narrow lanes.
func small(workers int) Options {
	return Options{Workers: workers, RingBytes: 4096, InlineMax: 256, Blocks: 8, BlockBytes: 8192}
}

// open makes the rig for a test.
func open(t testing.TB, f *Factory, o Options) *rig {
	t.Helper()
	r := &rig{}
	o = r.options(f, o)
	r.adopt(t, f.Open(t, o), o.Workers)
	return r
}

// openVictim makes the rig for a test in which worker 0 dies.
func openVictim(t testing.TB, f *Factory, o Options) (*rig, Victim) {
	t.Helper()
	r := &rig{}
	o = r.options(f, o)
	r.trying[0] = true // a victim doesn't wait
	m, v := f.OpenVictim(t, o, 0)
	r.adopt(t, m, o.Workers)
	return r, v
}

func (r *rig) options(f *Factory, o Options) Options {
	if f.NoBlocks {
		o.Blocks = 0
	}
	r.trying = make([]bool, o.Workers)
	o.Wait = func(worker int) error {
		if r.trying[worker] {
			return ErrNoRoom
		}
		return r.wait(worker)
	}
	return o
}

func (r *rig) adopt(t testing.TB, m *Ends, workers int) {
	r.Ends, r.group = m, newGroup(t)
	watchdog := r.group.watchdog()
	r.wait = func(int) error { return watchdog() }
	r.out = make([][]outbox, workers)
	for w := range workers {
		r.inbox = append(r.inbox, newInbox(m, w))
		for to := range workers {
			r.out[w] = append(r.out[w], outbox{from: w, to: to})
		}
	}
}

// reclaim takes back what a dead peer held of a worker's.
func (r *rig) reclaim(worker, peer int) int { return r.Out[worker][peer].(Survivor).Reclaim() }

// pause stops and resumes what worker 1 takes in from a peer.
func (r *rig) pause(peer int, on bool) { r.In[1].(Pausing).Pause(peer, on) }

// try sends the next event of a lane, or returns ErrNoRoom.
func (r *rig) try(from, to, size int) error {
	o := &r.out[from][to]
	r.trying[from] = true
	err := r.Out[from][to].SendEvent(o.next(size))
	r.trying[from] = false
	if err != nil {
		o.unsent()
	}
	return err
}

// send sends the next event of a lane and waits while there is no room.
func (r *rig) send(from, to, size int) error {
	o := &r.out[from][to]
	err := r.Out[from][to].SendEvent(o.next(size))
	if err != nil {
		o.unsent()
	}
	return err
}

// sent is the number of events sent over a lane.
func (r *rig) sent(from, to int) uint64 { return r.out[from][to].number }

// fill sends until an error says that there is no room, and returns how many went.
func (r *rig) fill(t testing.TB, from, to, size int, full error) (events int) {
	t.Helper()
	for ; events < 1<<20; events++ {
		if err := r.try(from, to, size); err != nil {
			wantErr(t, "lane that is filled", err, full)
			return events
		}
	}
	t.Fatal("a lane that nobody reads never fills up")
	return 0
}

// settle polls a worker until everything sent over a lane to it has come.
func (r *rig) settle(t testing.TB, from, to int) {
	t.Helper()
	must(t, r.Out[from][to].Flush())
	b := r.inbox[to]
	b.until(t, "all that was sent", func() bool { return b.peers[from].events == r.sent(from, to) })
}

// works fails unless a lane still carries events.
func (r *rig) works(t testing.TB, from, to int) {
	t.Helper()
	must(t, r.try(from, to, 10))
	r.settle(t, from, to)
}
