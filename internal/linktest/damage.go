// SPDX-License-Identifier: Apache-2.0

package linktest

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/disco-sim/disco/envelope"
)

// badRecords are records that no correct peer writes.
func badRecords() map[string][]byte {
	event := func(ev envelope.Event, change func(rec []byte)) []byte {
		rec := make([]byte, ev.Size())
		ev.Encode(rec)
		if change != nil {
			change(rec)
		}
		return rec
	}
	inline := Event(0, 1, 1, []byte("some data"))
	block := func(ref envelope.BlockRef) []byte {
		ev := Event(0, 1, 1, nil)
		ev.InBlock, ev.Block = true, ref
		return event(ev, nil)
	}
	promise := make([]byte, envelope.PromiseBytes)
	(&envelope.Promise{Epoch: 1, Seqnr: 1}).Encode(promise)
	nan := append([]byte(nil), promise...)
	binary.LittleEndian.PutUint64(nan[8:], math.Float64bits(math.NaN()))
	return map[string][]byte{
		"empty":                   {},
		"one byte":                {1},
		"kind 0":                  event(inline, func(rec []byte) { rec[0] = 0 }),
		"kind 3":                  event(inline, func(rec []byte) { rec[0] = 3 }),
		"unknown flags":           event(inline, func(rec []byte) { rec[1] = 2 }),
		"headers longer than all": event(inline, func(rec []byte) { rec[2], rec[3] = 0xFF, 0xFF }),
		"data longer than all":    event(inline, func(rec []byte) { rec[7] = 0xFF }),
		"data shorter than all":   event(inline, func(rec []byte) { rec[4]-- }),
		"epoch NaN": event(inline, func(rec []byte) {
			binary.LittleEndian.PutUint64(rec[8:], math.Float64bits(math.NaN()))
		}),
		"epoch below zero":        event(inline, func(rec []byte) { rec[15] |= 0x80 }),
		"event cut short":         event(inline, nil)[:envelope.EventHeaderBytes-1],
		"promise cut short":       promise[:envelope.PromiseBytes-1],
		"promise of NaN":          nan,
		"block never lent":        block(envelope.BlockRef{Block: 0, Length: 1, Seq: 1 << 40}),
		"no such block":           block(envelope.BlockRef{Block: 1 << 30, Length: 1, Seq: 1}),
		"block of too many bytes": block(envelope.BlockRef{Block: 0, Length: envelope.DataMax, Seq: 1}),
		"reference cut short":     event(inline, func(rec []byte) { rec[1] = 1 }),
	}
}

// A bad record ends its lane, with an error that names the peer. What came before it
// has been handed on, and other lanes don't notice.
func testBadRecords(t *testing.T, f *Factory) {
	for what, rec := range badRecords() {
		r := open(t, f, small(3))
		if r.SendRaw == nil {
			t.Skip("this link carries no raw records")
		}
		must(t, r.try(0, 1, 30))
		must(t, r.Out[0][1].Flush())
		r.SendRaw(t, 0, 1, rec)
		b := r.inbox[1]
		ended(t, what, b.end(t, what), 0, f.Errors.Protocol)
		if b.peers[0].events != 1 {
			t.Errorf("%s: %d events before it, want 1", what, b.peers[0].events)
		}
		b.drain(t)
		r.works(t, 2, 1)
		r.works(t, 0, 2)
		r.fill(t, 0, 1, 200, f.Errors.Closed)
	}
}

// Whatever is written over a lane, nobody panics or hangs, and only that lane breaks.
func testDamagedLane(t *testing.T, f *Factory) {
	seed := rand.Uint64()
	defer func() {
		if t.Failed() {
			t.Logf("seed %#x", seed)
		}
	}()
	random := rand.New(rand.NewPCG(seed, 0))
	r := open(t, f, small(2))
	if r.Lane == nil {
		t.Skip("this link has no memory to be damaged")
	}
	broken := 0
	// A short run may meet only bytes that nobody reads any more; then it goes on.
	for n := 0; n < rounds(300) || broken == 0 && n < 3000; n++ {
		if damagedOnce(t, f, random) {
			broken++
		}
	}
	if broken == 0 {
		t.Error("no damage was ever noticed: the test doesn't do what it should")
	}
}

// damagedOnce damages one lane once, and reports whether that was noticed.
func damagedOnce(t *testing.T, f *Factory, random *rand.Rand) (noticed bool) {
	o := small(3)
	o.RingBytes, o.InlineMax = 1024, 128
	o.Start = random.Uint64() &^ 7
	r := open(t, f, o)
	b := r.inbox[1]
	b.until(t, "nothing", func() bool { return true })
	for n := range random.IntN(20) {
		must(t, r.try(0, 1, n*30))
		must(t, r.Out[0][1].Promise(float64(n+1), 0))
		if n%3 == 0 {
			b.drain(t)
		}
	}
	mem := r.Lane(0, 1)
	for range 1 + random.IntN(8) {
		damage(mem, random)
	}
	var end, sendErr error
	for range 200 {
		if end == nil {
			_, end = b.in.Poll(b)
		}
		if sendErr == nil {
			if err := r.try(0, 1, random.IntN(400)); err != ErrNoRoom {
				sendErr = err
			}
		}
	}
	check := func(what string, err error, kinds ...error) {
		for _, k := range kinds {
			if errors.Is(err, k) {
				return
			}
		}
		if err != nil {
			t.Errorf("%s of a damaged lane: %v, want none or one of %v", what, err, kinds)
		}
	}
	check("receiver", end, f.Errors.Protocol, f.Errors.Refused, f.Errors.Closed)
	check("sender", sendErr, f.Errors.Protocol, f.Errors.Closed)
	r.works(t, 2, 1)
	r.works(t, 1, 2)
	return end != nil || sendErr != nil
}

// damage changes something somewhere, mostly in the words that matter.
func damage(mem []byte, random *rand.Rand) {
	const words = 8
	at := random.IntN(len(mem)/words) * words
	if random.IntN(2) == 0 {
		at = random.IntN(1024/words) * words // identity, promise and control of the ring
	}
	word := binary.LittleEndian.Uint64(mem[at:])
	switch random.IntN(5) {
	case 0:
		word = random.Uint64()
	case 1:
		word ^= 1 << random.IntN(64)
	case 2:
		word += uint64(random.IntN(64)) * 8
	case 3:
		word -= uint64(random.IntN(64)) * 8
	case 4:
		word = 0
	}
	binary.LittleEndian.PutUint64(mem[at:], word)
}
