// SPDX-License-Identifier: Apache-2.0

package linktest

import (
	"math/rand/v2"
	"testing"

	"github.com/disco-sim/disco/envelope"
)

// rounds is n, and less in a short run.
func rounds(n int) int {
	if testing.Short() {
		return max(1, n/10)
	}
	return n
}

// sizeOf gives the payload of the n-th event of a stream: mostly small, sometimes the
// largest inline one, sometimes a block's.
func sizeOf(f *Factory, n int) int {
	switch {
	case n%97 == 5 && !f.NoBlocks:
		return 257 + n%5000
	case n%31 == 3:
		return 256
	}
	return n % 80
}

// stream sends count events with a promise record after each hundredth and a bound
// after each tenth, while the test's goroutine receives.
func stream(t *testing.T, f *Factory, o Options, count int) {
	r := open(t, f, o)
	promises := 0
	r.group.start(func() error {
		for n := range count {
			if err := r.send(0, 1, sizeOf(f, n)); err != nil {
				return err
			}
			if n%100 == 99 {
				p := envelope.Promise{Seqnr: uint64(n/100 + 1), NumEvents: r.sent(0, 1), Target: envelope.WholeLane,
					Sender: envelope.WholeLane}
				if err := r.Out[0][1].SendPromise(&p); err != nil {
					return err
				}
			}
			if n%10 == 9 {
				if err := r.Out[0][1].Promise(float64(n+1), uint32(n)); err != nil {
					return err
				}
			}
		}
		return r.Out[0][1].Flush()
	})
	promises = count / 100
	b := r.inbox[1]
	a := &b.peers[0]
	b.until(t, "the whole stream", func() bool { return a.events == uint64(count) && a.promises == uint64(promises) })
	b.until(t, "the last bound", func() bool { return a.epoch == float64(count/10*10) })
	b.drain(t)
	if a.bounds == 0 || a.events != uint64(count) {
		t.Errorf("%d events and %d bounds, want %d and some", a.events, a.bounds, count)
	}
}

func testOrder(t *testing.T, f *Factory) { stream(t, f, small(2), rounds(20000)) }

// Positions start shortly before the places where some part of them wraps around: the
// ring's index, 32 bits of words, the sign, and all 64 bits.
func testOrderAtWrap(t *testing.T, f *Factory) {
	for _, wrap := range []uint64{1 << 20, 1 << 32, 1 << 34, 1 << 35, 1 << 63, 0} {
		for _, before := range []uint64{8, 4096, 20000} {
			o := small(2)
			o.Start = wrap - before
			stream(t, f, o, rounds(1000))
		}
	}
}

// Everybody sends to everybody, in random sizes, and receives while it waits.
func testManyLanes(t *testing.T, f *Factory) {
	const workers = 5
	count := rounds(1000)
	r := open(t, f, small(workers))
	watchdog := r.group.watchdog()
	r.wait = func(w int) error {
		for _, out := range r.Out[w] {
			if out != nil {
				if err := out.Flush(); err != nil {
					return err
				}
			}
		}
		if n, err := r.In[w].Poll(r.inbox[w]); n > 0 || err != nil {
			return err
		}
		return watchdog()
	}
	for w := range workers {
		r.group.start(func() error { return chatter(f, r, w, count) })
	}
	r.group.wg.Wait()
	for w, b := range r.inbox {
		for peer, a := range b.peers {
			if peer != w && (a.events != uint64(count) || a.epoch != float64(count)) {
				t.Errorf("worker %d got %d events and the bound %v from worker %d, want %d", w, a.events, a.epoch, peer,
					count)
			}
		}
	}
}

// chatter is the life of one worker of testManyLanes.
func chatter(f *Factory, r *rig, w, count int) error {
	random := rand.New(rand.NewPCG(uint64(w), 1))
	for n := range count {
		for to, out := range r.Out[w] {
			if out == nil {
				continue
			}
			if err := r.send(w, to, sizeOf(f, random.IntN(1<<20))); err != nil {
				return err
			}
			if random.IntN(16) == 0 {
				if err := out.Promise(float64(n+1), 0); err != nil {
					return err
				}
			}
		}
	}
	for _, out := range r.Out[w] {
		if out != nil {
			if err := out.Promise(float64(count), 1); err != nil {
				return err
			}
		}
	}
	for {
		left := 0
		for peer := range r.inbox[w].peers {
			// Epoch and level are stored one after the other: a reader may see the newer
			// level with the older epoch, which is a bound that holds too.
			if a := &r.inbox[w].peers[peer]; peer != w && (a.events != uint64(count) || a.epoch != float64(count) ||
				a.level != 1) {
				left++
			}
		}
		if left == 0 {
			return nil
		}
		if err := r.wait(w); err != nil {
			return err
		}
	}
}

// What is sent stays invisible until enough has come together, or a flush.
func testBatches(t *testing.T, f *Factory) {
	for _, batch := range []int{1, 2, 7} {
		o := small(2)
		o.PublishRecords = batch
		r := open(t, f, o)
		b := r.inbox[1]
		for n := 1; n <= 50; n++ {
			must(t, r.try(0, 1, n%40))
			b.drain(t)
			if got, want := int(b.peers[0].events), n/batch*batch; got != want {
				t.Fatalf("batches of %d: %d of %d events are visible, want %d", batch, got, n, want)
			}
		}
		must(t, r.Out[0][1].Flush())
		b.drain(t)
		if b.peers[0].events != 50 {
			t.Errorf("batches of %d: %d events after the flush, want 50", batch, b.peers[0].events)
		}
	}
}

// A sender that never flushes must not keep its peer waiting for ever: neither in a wide
// lane nor in one that is full.
func testNoStarvation(t *testing.T, f *Factory) {
	for _, ring := range []int{1024, 1 << 20} {
		o := small(2)
		o.RingBytes, o.InlineMax = ring, 64
		r := open(t, f, o)
		b := r.inbox[1]
		for range 1000 {
			if err := r.try(0, 1, 32); err != nil {
				wantErr(t, "sending without end", err, ErrNoRoom)
				break
			}
		}
		b.until(t, "something that was never flushed", func() bool { return b.peers[0].events > 0 })
	}
}
