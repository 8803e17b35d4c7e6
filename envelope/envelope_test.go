// SPDX-License-Identifier: Apache-2.0

package envelope

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

func someEvent() Event {
	return Event{Epoch: 12.5, Number: 7, Target: 3, Sender: 9, Headers: []byte{1, 0, 1, 0, 'a', 'b'},
		Data: []byte("payload")}
}

func encodeEvent(e Event) []byte {
	dst := make([]byte, e.Size())
	if n := e.Encode(dst); n != len(dst) {
		panic("Encode and Size disagree")
	}
	return dst
}

func encodePromise(p Promise) []byte {
	dst := make([]byte, PromiseBytes)
	p.Encode(dst)
	return dst
}

// sameEvent compares what travels: empty and nil slices are the same on the wire.
func sameEvent(a, b Event) bool {
	return math.Float64bits(a.Epoch) == math.Float64bits(b.Epoch) && a.Number == b.Number && a.Target == b.Target &&
		a.Sender == b.Sender && bytes.Equal(a.Headers, b.Headers) && bytes.Equal(a.Data, b.Data) &&
		a.Block == b.Block && a.InBlock == b.InBlock
}

func TestEventRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	epochs := []float64{0, math.SmallestNonzeroFloat64, 1, 1e-9, math.MaxFloat64}
	for i := range 2000 {
		e := Event{
			Epoch:  epochs[rng.IntN(len(epochs))],
			Number: rng.Uint64(),
			Target: rng.Uint32(),
			Sender: rng.Uint32(),
		}
		if rng.IntN(2) == 0 {
			e.Headers = random(rng.IntN(100))
		}
		if rng.IntN(3) == 0 {
			e.InBlock, e.Block = true, BlockRef{Block: rng.Uint32(), Length: rng.Uint32N(DataMax + 1),
				Seq: rng.Uint64()}
		} else {
			e.Data = random(rng.IntN(200))
		}
		got, err := DecodeEvent(encodeEvent(e))
		if err != nil || !sameEvent(e, got) {
			t.Fatalf("seed %d, event %d: sent %+v, got %+v, %v", seed, i, e, got, err)
		}
	}
}

func TestEventAtTheLimits(t *testing.T) {
	e := Event{Headers: make([]byte, HeadersMax)}
	if got, err := DecodeEvent(encodeEvent(e)); err != nil || len(got.Headers) != HeadersMax {
		t.Errorf("event with %d header bytes: %d, %v", HeadersMax, len(got.Headers), err)
	}
	e = Event{InBlock: true, Block: BlockRef{Length: DataMax}}
	if got, err := DecodeEvent(encodeEvent(e)); err != nil || got.Block.Length != DataMax {
		t.Errorf("reference to %d bytes: %d, %v", DataMax, got.Block.Length, err)
	}
	mustPanic(t, "headers too long", func() {
		e := Event{Headers: make([]byte, HeadersMax+1)}
		e.Encode(make([]byte, e.Size()))
	})
	mustPanic(t, "buffer too short", func() {
		e := someEvent()
		e.Encode(make([]byte, e.Size()-1))
	})
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", what)
		}
	}()
	f()
}

// What is decoded aliases the source and can't grow into its neighbour.
func TestDecodedSlicesAliasAndAreClipped(t *testing.T) {
	src := encodeEvent(someEvent())
	got, err := DecodeEvent(src)
	if err != nil {
		t.Fatal(err)
	}
	if &got.Data[0] != &src[len(src)-len(got.Data)] || &got.Headers[0] != &src[EventHeaderBytes] {
		t.Error("headers or data were copied")
	}
	if cap(got.Headers) != len(got.Headers) || cap(got.Data) != len(got.Data) {
		t.Errorf("capacities %d and %d, want them clipped to %d and %d", cap(got.Headers), cap(got.Data),
			len(got.Headers), len(got.Data))
	}
}

// Minus zero and plus zero are equal times, so they must have equal bytes.
func TestZeroHasOneForm(t *testing.T) {
	minus := math.Copysign(0, -1)
	plus, signed := Event{}, Event{Epoch: minus}
	if !bytes.Equal(encodeEvent(plus), encodeEvent(signed)) {
		t.Error("events at 0 and -0 have different bytes")
	}
	if !bytes.Equal(encodePromise(Promise{}), encodePromise(Promise{Epoch: minus})) {
		t.Error("promises at 0 and -0 have different bytes")
	}
}

func TestMalformedEvents(t *testing.T) {
	good := encodeEvent(someEvent())
	block := encodeEvent(Event{InBlock: true, Block: BlockRef{Block: 1, Length: 2, Seq: 3}})
	parts := encodeEvent(Event{Epoch: 1, Parts: 5})
	put64 := func(src []byte, at int, v uint64) []byte {
		out := bytes.Clone(src)
		binary.LittleEndian.PutUint64(out[at:], v)
		return out
	}
	put32 := func(src []byte, at int, v uint32) []byte {
		out := bytes.Clone(src)
		binary.LittleEndian.PutUint32(out[at:], v)
		return out
	}
	put8 := func(src []byte, at int, v byte) []byte {
		out := bytes.Clone(src)
		out[at] = v
		return out
	}
	for _, c := range []struct {
		field string
		src   []byte
		text  string
	}{
		{"nothing at all", nil, "event of 0 bytes"},
		{"header cut short", good[:EventHeaderBytes-1], "event of 31 bytes"},
		{"kind zero", put8(good, 0, 0), "kind 0"},
		{"kind promise", put8(good, 0, 2), "kind 2"},
		{"kind unknown", put8(good, 0, 0xFF), "kind 255"},
		{"both flags", put8(good, 1, 3), "flags 0x3"},
		{"unknown flag", put8(good, 1, 4), "flags 0x4"},
		{"flag without length", put8(good, 1, 2), "parts of 7 bytes"},
		{"length in parts zero", put64(parts, EventHeaderBytes, 0), "0 data bytes in parts"},
		{"length in parts over the limit", put64(parts, EventHeaderBytes, DataMax+1), "1073741825 data bytes in parts"},
		{"length in parts cut short", put32(parts[:len(parts)-1], 4, 7), "parts of 7 bytes"},
		{"all flags", put8(good, 1, 0xFF), "flags 0xff"},
		{"headers too long", put8(good, 2, 7), "7 header"},
		{"headers too short", put8(good, 2, 5), "5 header"},
		{"headers longest", put8(put8(good, 2, 0xFF), 3, 0xFF), "65535 header"},
		{"data too long", put32(good, 4, 8), "8 data"},
		{"data too short", put32(good, 4, 6), "6 data"},
		{"data over the limit", put32(good, 4, DataMax+1), "1073741825 data"},
		{"data longest", put32(good, 4, math.MaxUint32), "4294967295 data"},
		{"lengths whose sum wraps", put32(put8(good, 2, 0xFF), 4, 0xFFFF_FF00), "data bytes"},
		{"record one byte long", append(bytes.Clone(good), 0), "46 bytes"},
		{"record one byte short", good[:len(good)-1], "44 bytes"},
		{"epoch NaN", put64(good, 8, math.Float64bits(math.NaN())), "epoch NaN"},
		{"epoch +Inf", put64(good, 8, math.Float64bits(math.Inf(1))), "epoch +Inf"},
		{"epoch -Inf", put64(good, 8, math.Float64bits(math.Inf(-1))), "epoch -Inf"},
		{"epoch negative", put64(good, 8, math.Float64bits(-1)), "epoch -1"},
		{"epoch minus zero", put64(good, 8, 1<<63), "epoch -0"},
		{"epoch all ones", put64(good, 8, math.MaxUint64), "epoch NaN"},
		{"flag without reference", put8(good, 1, 1), "reference of 7 bytes"},
		{"reference over the limit", put32(block, EventHeaderBytes+4, DataMax+1), "1073741825 data bytes"},
		{"reference cut short", put32(block[:len(block)-1], 4, 15), "reference of 15 bytes"},
		{"reference too long", put32(append(bytes.Clone(block), 0), 4, 17), "reference of 17 bytes"},
	} {
		got, err := DecodeEvent(c.src)
		if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: error %v, want ErrMalformed with %q", c.field, err, c.text)
		}
		if !reflect.DeepEqual(got, Event{}) {
			t.Errorf("%s: a refused event still gave %+v", c.field, got)
		}
	}
}

func TestPromiseRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 2))
	for _, epoch := range []float64{0, 0.5, math.MaxFloat64, math.Inf(1)} {
		want := Promise{Epoch: epoch, Seqnr: rng.Uint64(), NumEvents: rng.Uint64(), Level: rng.Uint32(),
			Target: rng.Uint32(), Sender: WholeLane}
		got, err := DecodePromise(encodePromise(want))
		if err != nil || got != want {
			t.Errorf("seed %d: sent %+v, got %+v, %v", seed, want, got, err)
		}
	}
}

func TestMalformedPromises(t *testing.T) {
	good := encodePromise(Promise{Epoch: 1, Seqnr: 2, NumEvents: 3, Level: 4, Target: 5, Sender: 6})
	with := func(at int, v byte) []byte {
		out := bytes.Clone(good)
		out[at] = v
		return out
	}
	epoch := func(f float64) []byte {
		out := bytes.Clone(good)
		binary.LittleEndian.PutUint64(out[8:], math.Float64bits(f))
		return out
	}
	for _, c := range []struct {
		field string
		src   []byte
		text  string
	}{
		{"nothing at all", nil, "0 bytes"},
		{"one byte short", good[:PromiseBytes-1], "39 bytes"},
		{"one byte long", append(bytes.Clone(good), 0), "41 bytes"},
		{"kind zero", with(0, 0), "0x0"},
		{"kind event", with(0, 1), "0x1"},
		{"byte 1 set", with(1, 1), "0x102"},
		{"byte 2 set", with(2, 1), "0x10002"},
		{"byte 3 set", with(3, 1), "0x1000002"},
		{"epoch NaN", epoch(math.NaN()), "epoch NaN"},
		{"epoch negative", epoch(-0.5), "epoch -0.5"},
		{"epoch minus zero", epoch(math.Copysign(0, -1)), "epoch -0"},
		{"epoch -Inf", epoch(math.Inf(-1)), "epoch -Inf"},
	} {
		got, err := DecodePromise(c.src)
		if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: error %v, want ErrMalformed with %q", c.field, err, c.text)
		}
		if got != (Promise{}) {
			t.Errorf("%s: a refused promise still gave %+v", c.field, got)
		}
	}
}

func TestKinds(t *testing.T) {
	for b := range 256 {
		k, err := KindOf([]byte{byte(b), 9, 9})
		if known := b >= 1 && b <= 3; known != (err == nil) || (err != nil && !errors.Is(err, ErrMalformed)) {
			t.Errorf("KindOf(%d) = %v, %v", b, k, err)
		}
	}
	if _, err := KindOf(nil); !errors.Is(err, ErrMalformed) {
		t.Errorf("KindOf(nil): %v", err)
	}
	for k, want := range map[Kind]string{KindEvent: "event", KindPromise: "promise", KindPart: "part", 9: "kind(9)"} {
		if k.String() != want {
			t.Errorf("Kind(%d) = %q, want %q", k, k, want)
		}
	}
}

func TestStrings(t *testing.T) {
	e := someEvent()
	if got, want := e.String(), "event 9->3 #7 @12.5 7 bytes"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	e.InBlock, e.Block = true, BlockRef{Block: 4, Length: 5000}
	if got, want := e.String(), "event 9->3 #7 @12.5 block 4 (5000 bytes)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	p := Promise{Epoch: 2, Seqnr: 1, NumEvents: 3, Level: 4, Target: 5, Sender: 6}
	if got, want := p.String(), "promise 6->5 seqnr 1 @(2,4) after 3 events"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestNothingAllocates(t *testing.T) {
	e, p := someEvent(), Promise{Epoch: 1}
	dst := make([]byte, 256)
	var gotEvent Event
	var gotPromise Promise
	if n := testing.AllocsPerRun(100, func() {
		size := e.Encode(dst[:e.Size()])
		gotEvent, _ = DecodeEvent(dst[:size])
		p.Encode(dst)
		gotPromise, _ = DecodePromise(dst[:PromiseBytes])
	}); n != 0 {
		t.Errorf("%v allocations per event and promise, want 0", n)
	}
	if gotEvent.Number != e.Number || gotPromise.Epoch != p.Epoch {
		t.Error("the round trip was lost")
	}
}
