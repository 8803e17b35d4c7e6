// SPDX-License-Identifier: Apache-2.0

package calls

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/seed"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// raw is calls as node.CallLog has them.
func raw(calls []Call) (b []byte) {
	for _, c := range calls {
		b = binary.LittleEndian.AppendUint32(b, c.Simproc)
		b = binary.LittleEndian.AppendUint32(b, c.Hash)
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(c.Epoch))
	}
	return b
}

func random(rng *rand.Rand, n, simprocs int) (calls []Call) {
	for range n {
		calls = append(calls, Call{uint32(rng.IntN(simprocs)), rng.Uint32(), rng.ExpFloat64()})
	}
	return calls
}

// Whatever is packed comes back, with the least epoch; the bytes are those of docs/format/checkpoint.md.
func TestEncode(t *testing.T) {
	rng := seed.Rand(t)
	for n := 1; n < 100; n++ {
		want := random(rng, n, 7)
		chunk, from := Encode([]byte("before"), raw(want))
		chunk = chunk[len("before"):]
		if k, ok := Count(int64(len(chunk))); !ok || k != int64(n) {
			t.Fatalf("%d bytes are %d calls, %v", len(chunk), k, ok)
		}
		if least := slices.MinFunc(want, func(a, b Call) int { return cmp.Compare(a.Epoch, b.Epoch) }); from !=
			least.Epoch {
			t.Errorf("least epoch %v, want %v", from, least.Epoch)
		}
		for i, b := range raw(want) {
			if got := chunk[8+i%16*n+i/16]; got != b {
				t.Fatalf("%d calls: byte %d of call %d is %x, want %x", n, i%16, i/16, got, b)
			}
		}
		got, err := Decode(nil, chunk, Limits{7, 0, math.Inf(1)})
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%d calls come back as %v, %v", n, got, err)
		}
	}
}

// What isn't a chunk, or has calls out of bounds, is refused with what was found.
func TestDecodeRefuses(t *testing.T) {
	all := []Call{{1, 2, 3}, {4, 5, 6}}
	good, _ := Encode(nil, raw(all))
	for _, c := range []struct {
		chunk  []byte
		bounds Limits
		want   string
	}{
		{nil, Limits{5, 0, 9}, "a chunk of 0 bytes"},
		{good[:8], Limits{5, 0, 9}, "a chunk of 8 bytes"},
		{good[:len(good)-1], Limits{5, 0, 9}, "a chunk of 39 bytes"},
		{append(slices.Clone(good), make([]byte, 16)...), Limits{5, 0, 9}, "version 1 with 2 calls"},
		{append([]byte{2}, good[1:]...), Limits{5, 0, 9}, "a chunk of version 2"},
		{good, Limits{4, 0, 9}, "call 1: found simproc 4"},
		{good, Limits{5, 3.5, 9}, "at epoch 3, want"},
		{good, Limits{5, 0, 6}, "at epoch 6, want"},
	} {
		if _, err := Decode(nil, c.chunk, c.bounds); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.bounds, err, c.want)
		}
	}
	nan, _ := Encode(nil, raw([]Call{{0, 0, math.NaN()}}))
	if _, err := Decode(nil, nan, Limits{5, 0, math.Inf(1)}); err == nil {
		t.Error("an epoch that is no number is taken")
	}
}

// dumb is Compare as one would say it: all keys of both sides, in the total order, the first one that isn't the same.
func dumb(was, is []Call, level func(uint32) uint32) *Difference {
	type key struct {
		epoch          float64
		level, simproc uint32
	}
	sides := [2]map[key]Call{{}, {}}
	var keys []key
	for i, side := range [][]Call{was, is} {
		for _, c := range side {
			k := key{c.Epoch, level(c.Simproc), c.Simproc}
			keys, sides[i][k] = append(keys, k), c
		}
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.level, b.level), cmp.Compare(a.simproc, b.simproc))
	})
	for _, k := range keys {
		a, thereA := sides[0][k]
		b, thereB := sides[1][k]
		if thereA && thereB && a == b {
			continue
		}
		d := &Difference{Simproc: k.simproc, Epoch: k.epoch}
		if thereA {
			d.Was = &a
		}
		if thereB {
			d.Is = &b
		}
		return d
	}
	return nil
}

func same(a, b *Difference) bool {
	equal := func(a, b *Call) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }
	return (a == nil) == (b == nil) && (a == nil || a.Simproc == b.Simproc && a.Epoch == b.Epoch &&
		equal(a.Was, b.Was) && equal(a.Is, b.Is))
}

// Compare finds what the dumb one finds, for all small cases: each side has any of the calls of two simprocs at two
// epochs with two hashes, in both orders.
func TestCompareSmall(t *testing.T) {
	const places = 4 // simproc × epoch, each of which is absent or has hash 0 or 1
	var sides [][]Call
	for code := range 81 {
		var side []Call
		for p, rest := 0, code; p < places; p, rest = p+1, rest/3 {
			if h := rest % 3; h > 0 {
				side = append(side, Call{uint32(p % 2), uint32(h), float64(p / 2)})
			}
		}
		reversed := slices.Clone(side)
		slices.Reverse(reversed)
		sides = append(sides, side, reversed)
	}
	for _, levels := range [][]uint32{{0, 0}, {0, 1}, {1, 0}} {
		level := func(s uint32) uint32 { return levels[s] }
		c := &Comparer{Simprocs: 2, Level: level}
		for _, was := range sides {
			for _, is := range sides {
				got, err := c.Compare(was, is)
				if want := dumb(was, is, level); err != nil || !same(got, want) {
					t.Fatalf("levels %v, %v and %v: found %+v, %v, want %+v", levels, was, is, got, err, want)
				}
			}
		}
	}
}

// The same for large random ones, in any order, with few differences.
func TestCompareRandom(t *testing.T) {
	rng := seed.Rand(t)
	level := func(s uint32) uint32 { return s % 3 }
	for range 200 {
		simprocs := 1 + rng.IntN(50)
		c := &Comparer{Simprocs: simprocs, Level: level}
		was := random(rng, rng.IntN(2000), simprocs)
		is := slices.Clone(was)
		for range rng.IntN(3) {
			if len(is) == 0 {
				break
			}
			switch at := rng.IntN(len(is)); rng.IntN(3) {
			case 0:
				is[at].Hash++
			case 1:
				is = slices.Delete(is, at, at+1)
			case 2:
				is = append(is, Call{is[at].Simproc, 1, is[at].Epoch + 1e-9})
			}
		}
		rng.Shuffle(len(is), func(i, j int) { is[i], is[j] = is[j], is[i] })
		got, err := c.Compare(was, is)
		if want := dumb(was, is, level); err != nil || !same(got, want) {
			t.Fatalf("found %+v, %v, want %+v", got, err, want)
		}
	}
}

// A side that has a call twice is refused, whichever it is.
func TestCompareTwice(t *testing.T) {
	c := &Comparer{Simprocs: 3, Level: func(uint32) uint32 { return 0 }}
	once, twice := []Call{{2, 1, 7}}, []Call{{2, 1, 7}, {1, 1, 7}, {2, 1, 7}}
	if _, err := c.Compare(twice, once); err == nil || err.Error() !=
		"the journal has two calls of simproc 2 at 7 s, want one" {
		t.Error(err)
	}
	if _, err := c.Compare(once, twice); err == nil || !strings.HasPrefix(err.Error(), "the replay has two calls") {
		t.Error(err)
	}
}

// Any bytes are a chunk or an error.
func FuzzDecode(f *testing.F) {
	good, _ := Encode(nil, raw([]Call{{1, 2, 3}, {4, 5, 6}}))
	f.Add(good)
	f.Fuzz(func(t *testing.T, chunk []byte) {
		got, err := Decode(nil, chunk, Limits{5, 0, 10})
		if err != nil {
			return
		}
		if again, _ := Encode(nil, raw(got)); !slices.Equal(again, chunk) {
			t.Errorf("%x is read as %v, which is written as %x", chunk, got, again)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	calls := raw(random(rand.New(rand.NewPCG(1, 2)), 130_000, 1024))
	b.SetBytes(int64(len(calls)))
	var chunk []byte
	for b.Loop() {
		chunk, _ = Encode(chunk[:0], calls)
	}
}
