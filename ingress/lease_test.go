// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/ring"
	"github.com/disco-sim/disco/shm"
)

var twoBlocks = setup{lane: lane.Config{RingBytes: 4096}, inline: 100, blocks: []shm.BlockSize{{BlockBytes: 1000,
	Count: 2}}}

// leased sends one large event and returns its lease and a look at its data.
func (w *way) leased(t testing.TB, number int) (lease uint64, data []byte) {
	t.Helper()
	must(t, w.out.TrySend(event(number, 500)))
	must(t, w.out.Flush())
	s := &sink{}
	s.onto = func(ev *envelope.Event, _ uint64) error { data = ev.Data; return nil }
	w.poll(t, s)
	if s.events != 1 || s.lease == 0 {
		t.Fatalf("%d events, lease %#x", s.events, s.lease)
	}
	return s.lease, data
}

// The number of a lease holds all that Release needs, at the largest values as well.
func TestLeaseIDs(t *testing.T) {
	seen := map[uint64]bool{0: true} // 0 is no lease
	for _, index := range []int{0, 1, LanesMax - 1} {
		for _, block := range []uint32{0, 1, lane.BlocksMax - 1} {
			for _, seq := range []uint64{1, 3, 1<<leaseSeqBits - 1} {
				id := leaseID(index, block, seq)
				if seen[id] {
					t.Errorf("lane %d, block %d, seq %d: lease %#x again", index, block, seq, id)
				}
				seen[id] = true
				if int(id>>(leaseBlockBits+leaseSeqBits))-1 != index ||
					uint32(id>>leaseSeqBits&(1<<leaseBlockBits-1)) != block {
					t.Errorf("lane %d, block %d, seq %d can't be read from lease %#x", index, block, seq, id)
				}
			}
		}
	}
	if leaseID(0, 0, 1) != leaseID(0, 0, 1+1<<leaseSeqBits) {
		t.Error("only the low bits of seq fit")
	}
}

// Whatever isn't out can't be released.
func TestReleaseMisusePanics(t *testing.T) {
	w := twoBlocks.open(t)
	lease, _ := w.leased(t, 0)
	for what, id := range map[string]uint64{
		"lane that isn't there":  leaseID(1, 0, 1),
		"no lane":                lease & (1<<(leaseBlockBits+leaseSeqBits) - 1),
		"block that isn't out":   leaseID(0, 1, 1),
		"block that isn't there": leaseID(0, 2, 1),
		"last block":             leaseID(0, lane.BlocksMax-1, 1),
		"other loan":             lease + 2,
		"all bits":               ^uint64(0),
	} {
		mustPanic(t, what, func() { _ = w.in.Release(id) })
	}
	must(t, w.in.Release(lease))
	mustPanic(t, "released twice", func() { _ = w.in.Release(lease) })
	must(t, w.out.Flush())
	again, _ := w.leased(t, 1)
	if again == lease {
		t.Error("the next loan has the same lease")
	}
	mustPanic(t, "lease of the loan before", func() { _ = w.in.Release(lease) })
	must(t, w.in.Release(again))
}

// A peer that lends a block which is being read, or one that isn't there, or to a lane
// without blocks, breaks its lane.
func TestBadReferences(t *testing.T) {
	ref := func(block, length uint32, seq uint64) []byte {
		ev := event(0, 0)
		ev.InBlock, ev.Block = true, envelope.BlockRef{Block: block, Length: length, Seq: seq}
		return encoded(ev)
	}
	for _, c := range []struct {
		what, want string
		record     func(w *way, b shm.Block) []byte
	}{
		{"block not lent", "stale", func(_ *way, b shm.Block) []byte { return ref(b.Number, 10, b.Seq+2) }},
		{"free block", "stale", func(_ *way, b shm.Block) []byte { return ref(1-b.Number, 10, 0) }},
		{"one byte too many", "501 bytes", func(_ *way, b shm.Block) []byte { return ref(b.Number, 501, b.Seq) }},
		{"most bytes", "bytes of block", func(_ *way, b shm.Block) []byte {
			return ref(b.Number, envelope.DataMax, b.Seq)
		}},
		{"no such block", "no such block", func(_ *way, b shm.Block) []byte { return ref(2, 10, b.Seq) }},
		{"last block", "no such block", func(_ *way, b shm.Block) []byte { return ref(1<<32-1, 10, b.Seq) }},
		{"lent twice", "not been given back", func(w *way, b shm.Block) []byte {
			raw(t, w.ring, ref(b.Number, 500, b.Seq))
			w.poll(t, &sink{})
			return ref(b.Number, 500, b.Seq)
		}},
	} {
		w := twoBlocks.open(t)
		block, err := w.pool.Alloc(500)
		must(t, err)
		raw(t, w.ring, c.record(w, block))
		_, err = w.in.Poll(&sink{})
		isEnd(t, c.what, err, ErrProtocol, 0)
		if err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", c.what, err, c.want)
		}
	}
	w := setup{lane: lane.Config{RingBytes: 4096}, inline: 100}.open(t)
	raw(t, w.ring, ref(0, 1, 1))
	_, err := w.in.Poll(&sink{})
	isEnd(t, "no pool", err, ErrProtocol, 0)
	if !strings.Contains(err.Error(), "no pool") {
		t.Errorf("%v", err)
	}
}

// After the news of a peer's death everything it had made visible is handed on, then
// the end; its leases stay readable, and releasing them touches its memory no more.
func TestPeerDead(t *testing.T) {
	w := twoBlocks.open(t)
	lease, data := w.leased(t, 0)
	s := &sink{}
	must(t, w.out.TrySend(event(1, 500)))
	must(t, w.out.Promise(1, 0))
	must(t, w.out.TrySend(event(2, 10))) // not visible
	w.in.PeerDead(0)
	w.in.PeerDead(0)
	n, err := w.in.Poll(s)
	isEnd(t, "dead", err, ErrPeerDead, 0)
	if n != 2 || s.events != 1 || s.bounds != 1 || s.event.Number != 1 {
		t.Errorf("%d envelopes, %d events and %d bounds of the dead, want 2, 1 and 1", n, s.events, s.bounds)
	}
	if n, err := w.in.Poll(s); n != 0 || err != nil {
		t.Errorf("afterwards: %d, %v", n, err)
	}
	if got := w.in.Leases(0); got != 2 {
		t.Errorf("%d leases of the dead, want 2", got)
	}
	if len(data) != 500 {
		t.Errorf("leased data of %d bytes", len(data))
	}
	must(t, w.in.Release(lease))
	must(t, w.in.Release(s.lease))
	if got := w.in.Leases(0); got != 0 {
		t.Errorf("%d leases left, want 0", got)
	}
	status, err := lane.Inspect(w.mem)
	must(t, err)
	if status.Return.Tail != status.Return.Start {
		t.Error("a block was returned to the dead")
	}
}

// A paused lane is read to its end only when the pause is over, dead or not.
func TestPeerDeadWhilePaused(t *testing.T) {
	w := twoBlocks.open(t)
	s := &sink{}
	must(t, w.out.TrySend(event(0, 10)))
	must(t, w.out.Flush())
	w.in.Pause(0, true)
	w.in.PeerDead(0)
	for range 3 {
		if n := w.poll(t, s); n != 0 {
			t.Errorf("%d envelopes in spite of the pause", n)
		}
	}
	w.in.Pause(0, false)
	n, err := w.in.Poll(s)
	isEnd(t, "dead", err, ErrPeerDead, 0)
	if n != 1 {
		t.Errorf("%d envelopes of the dead, want 1", n)
	}
}

// A lease can be given back after either side has closed; the owner, if it has gone,
// wants nothing back.
func TestReleaseAfterClosing(t *testing.T) {
	w := twoBlocks.open(t)
	first, _ := w.leased(t, 0)
	second, _ := w.leased(t, 1)
	w.out.Close()
	_, err := w.in.Poll(&sink{})
	isEnd(t, "closed", err, ErrClosed, 0)
	must(t, w.in.Release(first))
	w.in.Close()
	must(t, w.in.Release(second))
	must(t, w.out.ReturnBlocks())
	if s := w.pool.Stats().Total; s.InFlight != 0 || s.Returned != 2 {
		t.Errorf("%+v", s)
	}
}

// A release rings for a peer that waits for a block.
func TestBellForBlocks(t *testing.T) {
	b := twoBlocks
	b.bell = true
	w := b.open(t)
	lease, _ := w.leased(t, 0)
	w.bell.Arm()
	must(t, w.in.Release(lease))
	if w.bell.Armed() {
		t.Error("a block came back and nobody rang")
	}
}

// Reset sends every block home: leased, unread, and behind a pause; a kept bound is
// forgotten.
func TestResetGivesEverythingBack(t *testing.T) {
	many := setup{lane: lane.Config{RingBytes: 4096}, inline: 100, records: 1,
		blocks: []shm.BlockSize{{BlockBytes: 1000,
			Count: 4}}}
	w := many.open(t)
	for replication := range 3 {
		s := &sink{}
		lease, _ := w.leased(t, 0)
		for n := range 3 {
			must(t, w.out.TrySend(event(n, 500)))
		}
		must(t, w.out.SendPromise(&envelope.Promise{Seqnr: 1}))
		must(t, w.out.Promise(5, 5))
		w.poll(t, s) // one event; the bound is kept
		w.in.Pause(0, true)
		w.out.Reset()
		must(t, w.in.Reset())
		if got := w.in.Leases(0); got != 0 {
			t.Errorf("replication %d: %d leases after the reset", replication, got)
		}
		mustPanic(t, "lease of the last replication", func() { _ = w.in.Release(lease) })
		must(t, w.out.ReturnBlocks())
		if st := w.pool.Stats().Total; st.InFlight != 0 {
			t.Errorf("replication %d: %+v", replication, st)
		}
		if n := w.poll(t, s); n != 0 || s.bounds != 0 {
			t.Errorf("replication %d: %d envelopes and %d bounds of the last one", replication, n, s.bounds)
		}
		must(t, w.out.TrySend(event(0, 10)))
		must(t, w.out.Promise(1, 0)) // below the last replication's
		if n := w.poll(t, s); n != 2 || s.epoch != 1 {
			t.Errorf("replication %d: %d envelopes, want the event and the bound 1", replication, n)
		}
		w.out.Reset()
		must(t, w.in.Reset())
	}
}

// What is found broken while resetting is an end like any other.
func TestResetFindsDamage(t *testing.T) {
	for what, record := range map[string][]byte{
		"no envelope":  []byte("damage"),
		"broken event": {1, 0, 0, 0},
		"bad block": func() []byte {
			ev := event(0, 0)
			ev.InBlock, ev.Block = true, envelope.BlockRef{Block: 77}
			return encoded(ev)
		}(),
	} {
		w := twoBlocks.open(t)
		raw(t, w.ring, record)
		err := w.in.Reset()
		isEnd(t, what, err, ErrProtocol, 0)
		if n, err := w.in.Poll(&sink{}); n != 0 || err != nil {
			t.Errorf("%s: after the reset %d, %v", what, n, err)
		}
	}
	w := twoBlocks.open(t)
	w.out.Close()
	isEnd(t, "closed", w.in.Reset(), ErrClosed, 0)
}

// A peer that publishes while the run is at rest, as fast as it can, doesn't hold Reset up
// for longer than one ring's worth takes.
func TestResetEndsBesideAPeerThatPublishes(t *testing.T) {
	w := setup{lane: lane.Config{RingBytes: 1 << 12}, noEgress: true}.open(t)
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			rec, err := w.ring.Claim(envelope.EventHeaderBytes)
			if err != nil {
				runtime.Gosched()
				continue
			}
			(&envelope.Event{Epoch: 1}).Encode(rec)
			w.ring.Commit()
			w.ring.Publish()
		}
	}()
	for range 200 {
		before := w.in.inputs[0].ring.Position()
		must(t, w.in.Reset())
		if read := w.in.inputs[0].ring.Position() - before; read > 1<<12 {
			t.Errorf("Reset read %d bytes of a ring of %d", read, 1<<12)
		}
	}
	stop.Store(true)
	<-done
}

// Records that were overwritten with zeros, as if they had never been published, break
// the lane as soon as a bound says that they were: nobody waits for them.
func TestRecordsThatVanish(t *testing.T) {
	w := setup{lane: lane.Config{RingBytes: 1 << 12}, inline: 64}.open(t)
	sink := &sink{}
	must(t, w.out.TrySend(&envelope.Event{Epoch: 1}))
	must(t, w.out.Flush())
	if n, err := w.in.Poll(sink); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	must(t, w.out.TrySend(&envelope.Event{Epoch: 2, Number: 1}))
	must(t, w.out.Flush())
	const at = 256 + ring.ControlBytes // the data area of the forward ring
	clear(w.mem[at : at+1<<12])
	if n, err := w.in.Poll(sink); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	must(t, w.out.Promise(3, 0))
	_, err := w.in.Poll(sink)
	isEnd(t, "vanished records", err, ErrProtocol, 0)
	if sink.bounds != 0 || sink.events != 1 {
		t.Errorf("%d bounds and %d events handed on, want 0 and 1", sink.bounds, sink.events)
	}
}
