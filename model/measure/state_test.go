// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/seed"
	"github.com/disco-sim/disco/state"
)

// stated is something that can be saved, and used: add puts a number into it, seen are bytes of all that it tells.
type stated interface {
	State(c *state.Codec)
	add(rnd *rand.Rand)
	seen() []byte
}

type (
	statedMoments   struct{ *Moments }
	statedLatencies struct{ *Latencies }
	statedRecorder  struct{ *Recorder }
	statedValues    struct{ *Values }
	statedBatches   struct {
		*Batches
		now float64
	}
)

func (s statedMoments) add(rnd *rand.Rand)   { s.Add(rnd.NormFloat64()) }
func (s statedMoments) seen() []byte         { return s.append(nil) }
func (s statedLatencies) add(rnd *rand.Rand) { _ = s.Add(math.Exp(20 * rnd.NormFloat64())) }
func (s statedLatencies) seen() []byte       { return s.Append(nil) }
func (s statedRecorder) add(rnd *rand.Rand)  { _ = s.Add(math.Exp(4 * rnd.NormFloat64())) }
func (s statedRecorder) seen() []byte        { return s.Take(nil) }
func (s statedValues) add(rnd *rand.Rand)    { _ = s.Add(math.Exp(9*rnd.NormFloat64()) - 1) }
func (s statedValues) seen() []byte          { return s.Append(nil) }

func (s *statedBatches) add(rnd *rand.Rand) {
	from := s.now
	s.now += rnd.ExpFloat64()
	s.At(s.now, 1)
	s.Over(from, s.now, rnd.Float64())
}

func (s *statedBatches) seen() (b []byte) {
	b = binary.AppendVarint(b, int64(s.Doublings()))
	for _, x := range append(s.Sums(), s.length) {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b
}

// newStated are empty ones of each kind.
func newStated() []stated {
	return []stated{statedMoments{&Moments{}}, statedLatencies{&Latencies{}}, statedRecorder{NewRecorder(100)},
		statedValues{&Values{}}, &statedBatches{Batches: NewBatches(3, 1000, 8)}}
}

func save(t testing.TB, s stated) []byte {
	t.Helper()
	b, err := state.Append(nil, 1, s.State)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Wherever a set or series is saved, and whatever the one had that loads it, both go on alike to the bit.
func TestStateGoesOn(t *testing.T) {
	rnd := seed.Rand(t)
	for range 50 {
		for k, one := range newStated() {
			other := newStated()[k]
			for range rnd.IntN(4) {
				other.add(rnd)
			}
			for range rnd.IntN(300) * rnd.IntN(2) {
				one.add(rnd)
			}
			b := save(t, one)
			if err := state.Decode(b, 1, false, other.State); err != nil {
				t.Fatalf("%T: %v", one, err)
			}
			if again := save(t, other); !bytes.Equal(again, b) {
				t.Fatalf("%T: %x is written again as %x", one, b, again)
			}
			if o, ok := other.(*statedBatches); ok {
				o.now = one.(*statedBatches).now
			}
			number := rnd.Uint64()
			for _, s := range []stated{one, other} {
				rnd := rand.New(rand.NewPCG(number, 2))
				for range 100 {
					s.add(rnd)
				}
			}
			if a, b := save(t, one), save(t, other); !bytes.Equal(a, b) {
				t.Fatalf("%T: %x, want %x", one, b, a)
			}
			if a, b := one.seen(), other.seen(); !bytes.Equal(a, b) {
				t.Fatalf("%T: gives %x, want %x", one, b, a)
			}
		}
	}
}

// words are a state of these numbers.
func words(numbers ...any) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 1)
	for _, x := range numbers {
		b, _ = binary.Append(b, binary.LittleEndian, x)
	}
	return b
}

func TestStateRefused(t *testing.T) {
	one := func(v float64) []any { return []any{v, 0.0, v, v} } // the moments of v, without their count
	moments, latencies, recorder, values, batches := 0, 1, 2, 3, 4
	least := orderedKey(1) << keyShift
	for _, c := range []struct {
		kind int
		in   []byte
		want string
	}{
		{moments, words(int64(-1), 0.0, 0.0, 0.0, 0.0), "found -1 numbers"},
		{moments, words(int64(2), 0.0, 0.0, 2.0, 1.0), "found 2 numbers from 2 to 1"},
		{moments, words(int64(2), 0.0, -1.0, 1.0, 2.0), "a sum of squares of -1"},
		{moments, words(int64(0), 1.0), "8 bytes behind the last field"},
		{latencies, words(append(append([]any{int64(1)}, one(1)...), uint32(0))...), "found 0 of 1 durations"},
		{latencies, words(int64(0), uint32(1), int64(5), int64(1)), "found 1 durations of 5 ns, want 1 to 0"},
		{latencies, words(append(append([]any{int64(2)}, one(1)...), uint32(2), int64(9), int64(1), int64(9),
			int64(1))...), "found a bucket of 9 ns behind one of 9 ns"},
		{latencies, words(append(append([]any{int64(2)}, one(1)...), uint32(1), int64(2049), int64(2))...),
			"where a bucket begins"},
		{latencies, words(append(append([]any{int64(2)}, one(1)...), uint32(1), int64(-1), int64(2))...), "of -1 ns"},
		{latencies, words(append(append([]any{int64(2)}, one(1)...), uint32(1), int64(1<<62+1<<52), int64(2))...),
			"at most 4611686018427387904 ns"},
		{latencies, words(append(append([]any{int64(2)}, one(1)...), uint32(1), int64(3), int64(-2))...),
			"found -2 durations of 3 ns, want 1 to 2"},
		{latencies, words(int64(0), uint32(1<<31)), "found a length of 2147483648, want at most 0"},
		{recorder, words(append(append([]any{int64(1)}, one(1)...), uint32(1), int64(1<<40), int64(1))...),
			"at most 100000000001 ns"},
		{values, words(append(append([]any{int64(1)}, one(math.Inf(1))...), uint32(0))...), "found 1 values from +Inf"},
		{values, words(append(append([]any{int64(1 << 50)}, one(1)...), uint32(0))...), "want at most 4398046511103"},
		{values, words(append(append([]any{int64(1)}, one(1)...), uint32(0))...), "found 0 of 1 values"},
		{values, words(append(append([]any{int64(2)}, one(1)...), uint32(2), least+1, least+1)...),
			"want 1 to 1 in one of"},
		{values, words(append(append([]any{int64(1)}, one(2)...), uint32(1), least+1)...), "found 1 values in bucket"},
		{values, words(int64(0), uint32(1), least+1), "want 1 to 0"},
		{batches, words(int64(finest+1), uint32(0)), "found batches that may double 31 times, want 0 to 30"},
		{batches, words(int64(finest), uint32(1), 0.0), "found 1 batches, want 8"},
	} {
		err := state.Decode(c.in, 1, false, newStated()[c.kind].State)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%x: %v, want %q", c.in, err, c.want)
		}
	}
}

// Whatever the bytes are, they are refused, or a set or series that is written again with the same bytes and can be
// used.
func FuzzState(f *testing.F) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for k, s := range newStated() {
		f.Add(uint8(k), save(f, s))
		for range 20 {
			s.add(rnd)
		}
		f.Add(uint8(k), save(f, s))
	}
	f.Fuzz(func(t *testing.T, k uint8, in []byte) {
		all := newStated()
		s := all[int(k)%len(all)]
		if state.Decode(in, 1, false, s.State) != nil {
			return
		}
		if out := save(t, s); !bytes.Equal(out, in) {
			t.Fatalf("%T: %x is read, and written as %x", s, in, out)
		}
		if b, ok := s.(*statedBatches); ok {
			b.now = 900
		}
		s.add(rnd)
		s.seen()
		switch s := s.(type) {
		case statedLatencies:
			s.Summary()
		case statedValues:
			s.P(50)
		}
	})
}
