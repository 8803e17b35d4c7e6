// SPDX-License-Identifier: Apache-2.0

package linktest

import (
	"testing"

	"github.com/disco-sim/disco/envelope"
)

// A full lane stops who sends over it, and nobody else: not the sender's other lanes,
// nor others' lanes to the same worker.
func testFullRing(t *testing.T, f *Factory) {
	r := open(t, f, small(3))
	full := r.fill(t, 0, 1, 200, ErrNoRoom)
	if full == 0 {
		t.Fatal("there was no room for the first event")
	}
	wantErr(t, "full lane", r.try(0, 1, 200), ErrNoRoom)
	r.works(t, 0, 2)
	r.works(t, 2, 0)
	must(t, r.try(2, 1, 200))
	must(t, r.Out[2][1].Flush())
	b := r.inbox[1]
	b.until(t, "the full lane, and the one beside it", func() bool {
		return b.peers[0].events == uint64(full) && b.peers[2].events == 1
	})
	r.works(t, 0, 1)

	// The form that waits goes on as soon as there is room, and not before.
	r.fill(t, 0, 1, 200, ErrNoRoom)
	waits := 0
	r.wait = func(int) error {
		if waits++; waits > 3 {
			b.poll(t)
		}
		return nil
	}
	must(t, r.send(0, 1, 200))
	if waits <= 3 {
		t.Errorf("an event went into a full lane after %d waits", waits)
	}
	r.settle(t, 0, 1)

	// An error of the wait ends the send, and nothing has been sent.
	r.fill(t, 0, 1, 200, ErrNoRoom)
	r.wait = func(int) error { return errStopped }
	wantErr(t, "wait that fails", r.send(0, 1, 200), errStopped)
	promises := uint64(0)
	for err := error(nil); err == nil; promises++ {
		err = r.Out[0][1].SendPromise(&envelope.Promise{Seqnr: promises + 1, NumEvents: r.sent(0, 1)})
		if err != nil || promises > 1000 {
			wantErr(t, "wait that fails", err, errStopped)
			break
		}
	}
	r.settle(t, 0, 1)
}

// Two workers whose lanes to one another are full both go on, because each receives
// while it waits.
func testMutuallyFull(t *testing.T, f *Factory) {
	count := rounds(5000)
	o := small(2)
	o.RingBytes = 1024
	r := open(t, f, o)
	watchdog := r.group.watchdog()
	r.wait = func(w int) error {
		if n, err := r.In[w].Poll(r.inbox[w]); n > 0 || err != nil {
			return err
		}
		return watchdog()
	}
	for w := range 2 {
		r.group.start(func() error {
			for range count {
				if err := r.send(w, 1-w, 200); err != nil {
					return err
				}
			}
			if err := r.Out[w][1-w].Flush(); err != nil {
				return err
			}
			for r.inbox[w].peers[1-w].events != uint64(count) {
				if err := r.wait(w); err != nil {
					return err
				}
			}
			return nil
		})
	}
	r.group.wg.Wait()
}

// A paused peer waits; the others don't, and its bound waits with its events.
func testPause(t *testing.T, f *Factory) {
	r := open(t, f, small(3))
	if _, ok := r.In[1].(Pausing); !ok {
		t.Skip("this kind of link doesn't pause")
	}
	b := r.inbox[1]
	r.works(t, 0, 1)
	r.pause(0, true)
	for range 3 {
		must(t, r.try(0, 1, 20))
	}
	must(t, r.Out[0][1].Promise(4, 0))
	r.works(t, 2, 1)
	b.drain(t)
	if a := b.peers[0]; a.events != 1 || a.bounds != 0 {
		t.Fatalf("%d events and %d bounds of a paused peer, want those from before: 1 and 0", a.events, a.bounds)
	}
	full := r.fill(t, 0, 1, 200, ErrNoRoom)
	if full == 0 {
		t.Error("a paused lane should fill, and not refuse at once")
	}
	r.pause(0, false)
	b.until(t, "the bound behind the pause", func() bool { return b.peers[0].bounds == 1 })
	r.settle(t, 0, 1)

	// A sink may pause the peer whose event it gets; that one is the last.
	b.onto = func(peer int, _ *envelope.Event) error {
		r.pause(peer, true)
		return nil
	}
	before := b.peers[0].events
	for range 5 {
		must(t, r.try(0, 1, 20))
	}
	must(t, r.Out[0][1].Flush())
	b.until(t, "the event that pauses", func() bool { return b.peers[0].events > before })
	b.drain(t)
	if got := b.peers[0].events - before; got != 1 {
		t.Errorf("%d events in spite of the pause at the first, want 1", got)
	}
}
