// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/shm"
)

// fuzzed is a lane and a pool, small enough that a fuzzer reaches every byte.
var fuzzed = setup{lane: lane.Config{RingBytes: 512}, inline: 100, parts: true,
	blocks: []shm.BlockSize{{BlockBytes: 120, Count: 2}, {BlockBytes: 200, Count: 1}}, records: 3}

// FuzzIngress lays arbitrary bytes over a lane and its pool and polls: no panic, no
// endless loop, nothing outside the lane's or the pool's memory, only typed errors, and
// a lane that has ended stays so.
func FuzzIngress(f *testing.F) {
	f.Add(uint64(0), uint16(0), []byte{}, uint16(0), []byte{}, uint8(0))
	for _, start := range []uint64{0, 1<<64 - 128, 1<<35 - 64} {
		laneBytes, poolBytes := fuzzSeed(f, start)
		f.Add(start, uint16(24), laneBytes[24:], uint16(0), poolBytes, uint8(0b101))
		f.Add(start, uint16(128), laneBytes[128:160], uint16(640), poolBytes[640:660], uint8(0xFF))
	}
	f.Fuzz(func(t *testing.T, start uint64, laneAt uint16, laneOver []byte, poolAt uint16, poolOver []byte, how uint8) {
		s := fuzzed
		s.lane.Start = start &^ 7
		w := s.open(t)
		for n := range 3 {
			must(t, w.out.TrySend(event(n, n*60)))
			must(t, w.out.Promise(float64(n), 1))
		}
		// The identity is read when a lane is opened, and has its own tests.
		const identity = 24
		mem := w.mem
		if invariants.Enabled {
			// The checked build asserts of its own words that nobody else has changed
			// them, so there the return ring, which the receiver writes, is spared.
			mem = mem[:256+384+fuzzed.lane.RingBytes]
		}
		copy(mem[min(len(mem), identity+int(laneAt)%len(mem)):], laneOver)
		copy(w.body[int(poolAt)%len(w.body):], poolOver)
		fuzzPoll(t, w, how)
	})
}

// fuzzPoll polls a damaged lane until nothing comes, in a manner given by the bits of
// how.
func fuzzPoll(t *testing.T, w *way, how uint8) {
	s := &sink{}
	var leases []uint64
	s.onto = func(ev *envelope.Event, lease uint64) error {
		if !inside(w.mem, ev.Headers) || lease == 0 && !inside(w.mem, ev.Data) &&
			!inside(w.in.inputs[0].parts[:cap(w.in.inputs[0].parts)], ev.Data) || lease != 0 && !inside(w.body,
			ev.Data) {
			t.Fatalf("%v with lease %#x lies outside the lane and the pool", ev, lease)
		}
		if ev.InBlock || ev.Epoch < 0 || ev.Epoch != ev.Epoch {
			t.Fatalf("%v was handed on", ev)
		}
		if how&1 != 0 {
			return fuzzErr(t, w.in.Release(lease))
		}
		leases = append(leases, lease)
		return nil
	}
	var end error
	for polls := 0; ; polls++ {
		// 512 bytes of ring hold at most 64 records, and each poll takes some.
		if polls > 70 {
			t.Fatal("a ring of 512 bytes never ends")
		}
		if how&2 != 0 && polls == 2 {
			w.in.PeerDead(0)
		}
		n, err := w.in.Poll(s)
		if end != nil && (n != 0 || err != nil) {
			t.Fatalf("%d envelopes and %v after %v", n, err, end)
		}
		if err != nil {
			end = fuzzErr(t, err)
		}
		if n == 0 && (how&2 == 0 || polls > 2) {
			break
		}
	}
	if how&4 != 0 {
		fuzzErr(t, w.in.Reset())
	} else {
		for _, lease := range leases {
			fuzzErr(t, w.in.Release(lease))
		}
	}
	if n := w.in.Leases(0); n < 0 || n != 0 && w.in.Err(0) == nil {
		t.Fatalf("%d leases are left", n)
	}
}

// fuzzErr passes typed errors on and fails on others.
func fuzzErr(t *testing.T, err error) error {
	for _, kind := range []error{nil, ErrClosed, ErrPeerDead, ErrProtocol, ErrRefused} {
		if errors.Is(err, kind) {
			return err
		}
	}
	t.Fatalf("an error of no kind: %v", err)
	return nil
}

// inside reports whether part lies within whole.
func inside(whole, part []byte) bool {
	if len(part) == 0 {
		return true
	}
	for i := range whole {
		if &whole[i] == &part[0] {
			return len(part) <= len(whole)-i
		}
	}
	return false
}

// fuzzSeed is a lane and a pool with an event of each kind under way.
func fuzzSeed(f *testing.F, start uint64) (laneBytes, poolBytes []byte) {
	s := fuzzed
	s.lane.Start = start
	w := s.open(f)
	must(f, w.out.TrySend(event(0, 20)))
	must(f, w.out.TrySend(event(1, 120)))
	must(f, w.out.SendPromise(&envelope.Promise{Epoch: 1, Seqnr: 1, NumEvents: 2}))
	must(f, w.out.Promise(1, 2))
	return append([]byte(nil), w.mem...), append([]byte(nil), w.body...)
}

// The fuzz target must be able to fail: with a canary that it can't miss it does.
func TestFuzzPollSeesDamage(t *testing.T) {
	w := fuzzed.open(t)
	must(t, w.out.TrySend(event(0, 20)))
	must(t, w.out.Flush())
	const firstRecord = 256 + 384 + 8 // docs/format/lane.md, ring.md
	binary.LittleEndian.PutUint64(w.mem[firstRecord:], 0xFFFF)
	_, err := w.in.Poll(&sink{})
	isEnd(t, "damaged record", err, ErrProtocol, 0)
	if inside(w.mem, make([]byte, 1)) || inside(w.mem, w.mem[:len(w.mem):len(w.mem)]) == false {
		t.Error("inside can't tell inside from outside")
	}
}
