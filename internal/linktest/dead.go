// SPDX-License-Identifier: Apache-2.0

package linktest

import (
	"errors"
	"testing"
)

// The tests of dead peers: worker 0 dies, 1 and 2 survive. Whatever it was doing, its
// peers get what it had made visible and then the news, take back what it held, and go
// on with one another.

// bury tells worker 1 that worker 0 is dead, and checks what it gets from it: so many
// events, then the end.
func bury(t *testing.T, f *Factory, r *rig, events uint64) {
	t.Helper()
	b := r.inbox[1]
	r.In[1].(Bereaved).PeerDead(0)
	ended(t, "dead peer", b.end(t, "the end of a dead peer's lane"), 0, f.Errors.PeerDead)
	if b.peers[0].events != events {
		t.Errorf("%d events of the dead peer, want %d", b.peers[0].events, events)
	}
	b.drain(t)
	lifeGoesOn(t, f, r)
}

// lifeGoesOn checks the lanes between the survivors, and that nobody waits for the dead.
func lifeGoesOn(t *testing.T, f *Factory, r *rig) {
	t.Helper()
	r.works(t, 1, 2)
	r.works(t, 2, 1)
	for w := 1; w <= 2; w++ {
		r.reclaim(w, 0)
		wantErr(t, "try to send to the dead", r.try(w, 0, 10), f.Errors.PeerDead)
		wantErr(t, "send to the dead", r.send(w, 0, 10), f.Errors.PeerDead)
		wantErr(t, "promise to the dead", r.Out[w][0].Promise(1e9, 0), f.Errors.PeerDead)
		if n := r.reclaim(w, 0); n != 0 {
			t.Errorf("%d blocks came back from the dead a second time", n)
		}
		r.Out[w][0].Close() // nobody is there to be told
	}
}

func testDiesClaiming(t *testing.T, f *Factory) {
	r, v := openVictim(t, f, small(3))
	v.Send(1, 3, 40)
	v.Claim(1, 100)
	v.Kill()
	bury(t, f, r, 3)
}

func testDiesUnpublished(t *testing.T, f *Factory) {
	r, v := openVictim(t, f, small(3))
	v.Send(1, 3, 40)
	v.Stage(1, 5, 40)
	v.Kill()
	bury(t, f, r, 3)
}

func testDiesPublished(t *testing.T, f *Factory) {
	r, v := openVictim(t, f, small(3))
	v.Send(1, 7, 40)
	if f.NoBlocks {
		v.Kill()
		bury(t, f, r, 7)
		return
	}
	v.Send(1, 2, 3000)
	v.Kill()
	bury(t, f, r, 9)
}

// What a survivor reads of the dead peer's memory stays readable until it lets go.
func testDiesLending(t *testing.T, f *Factory) {
	r, v := openVictim(t, f, small(3))
	b := r.inbox[1]
	b.hold = true
	v.Send(1, 2, 5000)
	b.until(t, "the first blocks", func() bool { return len(b.leases) == 2 })
	v.Send(1, 1, 5000)
	v.Kill()
	bury(t, f, r, 3)
	for _, h := range b.leases {
		want := make([]byte, len(h.data))
		Payload(want, 0, 1, h.event)
		if string(want) != string(h.data) {
			t.Errorf("the data of event %d changed when their sender died", h.event)
		}
		must(t, r.In[1].Release(h.lease))
	}
}

// The dead peer's leases, and what it never looked at, come home.
func testDiesHolding(t *testing.T, f *Factory) {
	o := small(3)
	o.Blocks = 6
	r, v := openVictim(t, f, o)
	for range 3 {
		must(t, r.try(1, 0, 1000))
	}
	must(t, r.Out[1][0].Flush())
	v.Lease(3)
	for range 2 {
		must(t, r.try(1, 0, 1000))
	}
	must(t, r.try(1, 2, 1000))
	wantErr(t, "all blocks are out", r.try(1, 2, 1000), ErrNoRoom)
	v.Kill()
	if n := r.reclaim(1, 0); n != 5 {
		t.Errorf("%d blocks came back from the dead peer, want 5", n)
	}
	for range 5 {
		must(t, r.try(1, 2, 1000))
	}
	r.settle(t, 1, 2)
	bury(t, f, r, 0)
}

// Who waits for room in the dead peer's lane stops waiting when it is told.
func testDiesAwaited(t *testing.T, f *Factory) {
	r, v := openVictim(t, f, small(3))
	r.fill(t, 1, 0, 200, ErrNoRoom)
	waits := 0
	r.wait = func(w int) error {
		switch waits++; waits {
		case 3:
			v.Kill()
		case 4:
			r.reclaim(w, 0)
		case 100:
			return errors.New("the peer is dead, but the send goes on waiting")
		}
		return nil
	}
	wantErr(t, "send while the peer dies", r.send(1, 0, 200), f.Errors.PeerDead)
	bury(t, f, r, 0)
}

// It dies somewhere in the midst of sending and receiving.
func testDiesStreaming(t *testing.T, f *Factory) {
	for round := range rounds(20) {
		o := small(3)
		r, v := openVictim(t, f, o)
		b := r.inbox[1]
		v.Stream(1, 500)
		after := uint64(round * round * 3)
		b.until(t, "the stream", func() bool {
			err := r.try(1, 0, int(b.peers[0].events)%500)
			if err == nil {
				err = r.Out[1][0].Flush()
			} else if errors.Is(err, ErrNoRoom) {
				err = nil
			}
			must(t, err)
			return b.peers[0].events >= after
		})
		v.Kill()
		r.In[1].(Bereaved).PeerDead(0)
		ended(t, "stream of a dead peer", b.end(t, "the end of the stream"), 0, f.Errors.PeerDead)
		lifeGoesOn(t, f, r)
		if !f.NoBlocks {
			for range o.Blocks {
				must(t, r.try(1, 2, 1000)) // nothing is missing from the pool
			}
			r.settle(t, 1, 2)
		}
	}
}
