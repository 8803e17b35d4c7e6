// SPDX-License-Identifier: Apache-2.0

package linktest

import (
	"errors"
	"math"
	"testing"

	"github.com/disco-sim/disco/internal/invariants"
)

// A bound comes after everything that was sent before it, and makes it visible.
func testPromises(t *testing.T, f *Factory) {
	r := open(t, f, small(3))
	out, b := r.Out[0][1], r.inbox[1]
	a := &b.peers[0]
	must(t, out.Promise(0, 5)) // before any event
	b.until(t, "a bound without events", func() bool { return a.level == 5 })
	for n := 1; n <= 100; n++ {
		must(t, r.try(0, 1, sizeOf(f, n)))
		must(t, out.Promise(float64(n), 1))
		if n%3 == 0 {
			must(t, out.Promise(float64(n), 2)) // the level alone rises
		}
		if n%5 == 0 {
			b.until(t, "the newest bound", func() bool {
				return a.epoch == float64(n) && a.events == uint64(n) && a.level == 1+uint32(1-min(n%3, 1))
			})
		}
	}
	bounds := a.bounds
	must(t, out.Promise(100, 1)) // the same again is nothing new
	b.drain(t)
	if a.bounds != bounds {
		t.Error("a bound that didn't rise was handed on")
	}
	if b.peers[2].bounds != 0 {
		t.Error("a bound came from a worker that made none")
	}
	must(t, out.Promise(math.Inf(1), math.MaxUint32))
	b.onlyBounds = true // "nothing follows" is more than was sent
	b.until(t, "the last bound", func() bool { return math.IsInf(a.epoch, 1) })
}

// Bounds also come while the lane never runs empty and a poll never reads all of it.
func testPromisesUnderLoad(t *testing.T, f *Factory) {
	o := small(2)
	o.RecordsMax = 4
	count := rounds(20000)
	r := open(t, f, o)
	r.group.start(func() error {
		for n := range count {
			if err := r.send(0, 1, n%60); err != nil {
				return err
			}
			if err := r.Out[0][1].Promise(float64(n+1), 0); err != nil {
				return err
			}
		}
		return nil
	})
	b := r.inbox[1]
	a := &b.peers[0]
	b.until(t, "the last bound", func() bool { return a.epoch == float64(count) })
	// A lane holds at most a few hundred of these, and each ring full brings a bound.
	if a.bounds < count/200 {
		t.Errorf("%d bounds with %d events: they starve", a.bounds, count)
	}
}

// After a reset of both ends a replication starts from scratch: no old events, no old
// bounds, and all blocks at home.
func testReset(t *testing.T, f *Factory) {
	o := small(2)
	r := open(t, f, o)
	for range 4 {
		b := newInbox(r.Ends, 1)
		b.hold = true
		r.inbox[1] = b
		r.out[0][1].number = 0
		for n := range 30 {
			must(t, r.try(0, 1, n))
		}
		if !f.NoBlocks {
			must(t, r.try(0, 1, 1000)) // held when the replication ends
		}
		must(t, r.Out[0][1].Promise(5, 5))
		r.settle(t, 0, 1)
		b.until(t, "the bound", func() bool { return b.peers[0].bounds == 1 })
		r.pause(0, true)
		for n := range 10 { // never read
			must(t, r.try(0, 1, n))
		}
		if !f.NoBlocks {
			for range o.Blocks - 1 {
				must(t, r.try(0, 1, 1000))
			}
		}
		must(t, r.Out[0][1].Promise(7, 7))
		r.Out[0][1].Reset()
		must(t, r.In[1].Reset())
		if n := b.poll(t); n != 0 {
			t.Fatalf("%d envelopes of the last replication after the reset", n)
		}
	}
}

// Neither sending nor receiving allocates, small and large.
func testAllocs(t *testing.T, f *Factory) {
	if invariants.Enabled {
		t.Skip("the checks of the checked build allocate")
	}
	r := open(t, f, small(2))
	in, b := r.In[1], r.inbox[1]
	out := &r.out[0][1]
	var failed error
	try := func(err error) { failed = errors.Join(failed, err) }
	out.buf, b.buf = make([]byte, 8192), make([]byte, 8192)
	// So many rounds that memory which a link takes once, while it gets going, is less than one allocation a round.
	runs := testing.AllocsPerRun(3000, func() {
		for _, size := range []int{0, 40, 256} {
			try(r.Out[0][1].SendEvent(out.next(size)))
		}
		if !f.NoBlocks {
			try(r.Out[0][1].SendEvent(out.next(4000)))
		}
		try(r.Out[0][1].Promise(float64(out.number), 0))
		for want := out.number; failed == nil && b.peers[0].events < want; {
			_, err := in.Poll(b)
			try(err)
		}
	})
	if failed != nil || runs != 0 {
		t.Errorf("%v allocations, want 0; errors: %v", runs, failed)
	}
}
