// SPDX-License-Identifier: Apache-2.0

package calls

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/seed"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// The bytes are those of docs/format/checkpoint.md, and come back.
func TestEncode(t *testing.T) {
	want := Chunk{Stream{1.5, [32]byte{31: 9}, 3}, 77, []byte{1, 2, 3, 4}}
	chunk := Encode([]byte("before"), &want)[len("before"):]
	if got := hex.EncodeToString(chunk); got != "02000000"+"03000000"+"000000000000f83f"+"4d00000000000000"+
		strings.Repeat("00", 31)+"09"+"01020304" {
		t.Errorf("found %s", got)
	}
	if n, ok := Count(int64(len(chunk))); n != 2 || !ok {
		t.Errorf("%d bytes are %d calls, %v", len(chunk), n, ok)
	}
	got, err := Decode(chunk)
	if err != nil || got.Stream != want.Stream || got.Before != 77 || !bytes.Equal(got.Hashes, want.Hashes) {
		t.Errorf("it comes back as %+v, %v", got, err)
	}
}

// What isn't a chunk is refused with what was found.
func TestDecodeRefuses(t *testing.T) {
	good := Encode(nil, &Chunk{Hashes: []byte{1, 2, 3, 4}})
	for _, c := range []struct {
		chunk []byte
		want  string
	}{
		{nil, "a chunk of 0 bytes"},
		{good[:56], "a chunk of 56 bytes"},
		{good[:59], "a chunk of 59 bytes"},
		{make([]byte, 56+2*(Most+1)), "a chunk of 2097210 bytes"},
		{append([]byte{1}, good[1:]...), "a chunk of version 1"},
		{Encode(nil, &Chunk{Stream: Stream{Begin: math.NaN()}, Hashes: good[:2]}), "begins at NaN"},
		{Encode(nil, &Chunk{Stream: Stream{Begin: math.Inf(1)}, Hashes: good[:2]}), "begins at +Inf"},
		{Encode(nil, &Chunk{Stream: Stream{Begin: -1}, Hashes: good[:2]}), "begins at -1"},
	} {
		if _, err := Decode(c.chunk); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d bytes: %v, want %q", len(c.chunk), err, c.want)
		}
	}
}

// whole is calls as node.CallLog has them.
func whole(calls []Call) (b []byte) {
	for _, c := range calls {
		b = binary.LittleEndian.AppendUint32(b, c.Simproc)
		b = binary.LittleEndian.AppendUint32(b, c.Hash)
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(c.Epoch))
	}
	return b
}

// Whole calls come back; what is out of bounds is refused.
func TestWhole(t *testing.T) {
	all := []Call{{1, 2, 3}, {4, 5, 6}}
	got, err := AppendWhole(all[:1:1], whole(all), Limits{5, 3, 7})
	if err != nil || !slices.Equal(got, []Call{all[0], all[0], all[1]}) {
		t.Errorf("found %v, %v", got, err)
	}
	for _, c := range []struct {
		data   []byte
		bounds Limits
		want   string
	}{
		{whole(all)[:31], Limits{5, 0, 9}, "found 31 bytes"},
		{whole(all), Limits{4, 0, 9}, "found a call of simproc 4"},
		{whole(all), Limits{5, 3.5, 9}, "at epoch 3, want"},
		{whole(all), Limits{5, 0, 6}, "at epoch 6, want"},
		{whole([]Call{{0, 0, math.NaN()}}), Limits{5, 0, math.Inf(1)}, "at epoch NaN"},
	} {
		if _, err := AppendWhole(nil, c.data, c.bounds); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.bounds, err, c.want)
		}
	}
}

// layoutOf is the layout of simprocs in classes; below 0: it isn't here.
func layoutOf(classes []int) []byte {
	var w LayoutWriter
	for id, class := range classes {
		if class >= 0 {
			w.Add(uint32(id), class)
		}
	}
	return w.Chunk(nil)
}

// number gives random classes the numbers that they get by their first simprocs.
func number(classes []int) []int {
	numbers := map[int]int{}
	for i, c := range classes {
		if c < 0 {
			continue
		}
		if _, ok := numbers[c]; !ok {
			numbers[c] = len(numbers)
		}
		classes[i] = numbers[c]
	}
	return classes
}

// Which simprocs are in which class comes back, whatever it is; the memory of a layout serves for the next one.
func TestLayout(t *testing.T) {
	rng := seed.Rand(t)
	var w LayoutWriter
	var chunk []byte
	for range 2000 {
		want := make([]int, 1+rng.IntN(300))
		most := 1 + rng.IntN(5)
		for i := range want {
			if want[i] = rng.IntN(most+1) - 1; i > 0 && rng.IntN(2) == 0 {
				want[i] = want[i-1]
			}
		}
		for id, class := range number(want) {
			if class >= 0 {
				w.Add(uint32(id), class)
			}
		}
		if chunk = w.Chunk(chunk); chunk == nil {
			if slices.Max(want) >= 0 {
				t.Fatalf("%v has no layout", want)
			}
			continue
		}
		l, err := DecodeLayout(chunk, len(want))
		if err != nil || l.Classes != slices.Max(want)+1 {
			t.Fatalf("%v: %v", want, err)
		}
		got := slices.Repeat([]int{-1}, len(want))
		for _, r := range l.runs {
			for id := r.first; id < r.end; id++ {
				got[id] = int(r.class)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("found %v, want %v", got, want)
		}
	}
	if got := hex.EncodeToString(layoutOf([]int{-1, -1, 0, 0, 0, 1, -1, 0})); got != "01000000"+"020200"+"000001"+
		"010000" {
		t.Errorf("found %s", got)
	}
}

// What isn't a layout is refused.
func TestLayoutRefuses(t *testing.T) {
	head := []byte{1, 0, 0, 0}
	for _, c := range []struct {
		chunk []byte
		want  string
	}{
		{nil, "begins with"},
		{head[:3], "begins with 01 00 00"},
		{[]byte{2, 0, 0, 0, 0, 0, 0}, "begins with 02"},
		{head, "without simprocs"},
		{append(head[:4:4], 0, 0), "byte 6 of a layout"},
		{append(head[:4:4], 0x80, 0, 0, 0), "byte 4 of a layout"},
		{append(head[:4:4], 0xff, 0xff, 0xff, 0xff, 0x1f, 0, 0), "byte 4 of a layout"},
		{append(head[:4:4], 0, 5, 0), "simprocs 0 to 5"},
		{append(head[:4:4], 5, 0, 0), "simprocs 5 to 5"},
		{append(head[:4:4], 0, 1, 0, 0, 3, 0), "simprocs 2 to 5"},
		{append(head[:4:4], 0, 0, 1), "of class 1"},
		{append(head[:4:4], 0xff, 0xff, 0xff, 0xff, 0x0f, 0xff, 0xff, 0xff, 0xff, 0x0f, 0), "of class 0"},
	} {
		if _, err := DecodeLayout(c.chunk, 5); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("% x: %v, want %q", c.chunk, err, c.want)
		}
	}
}

// Any bytes are a layout or an error, and a layout is written as it was read but for runs that could be one.
func FuzzLayout(f *testing.F) {
	f.Add(layoutOf([]int{0, 0, 1, -1, 0}))
	f.Add([]byte{1, 0, 0, 0, 0xff, 0xff, 3, 0, 0})
	f.Fuzz(func(t *testing.T, chunk []byte) {
		const simprocs = 1 << 20
		l, err := DecodeLayout(chunk, simprocs)
		if err != nil {
			return
		}
		var w LayoutWriter
		for _, r := range l.runs {
			w.Add(r.first, int(r.class))
			w.count += r.end - r.first - 1
		}
		again, err := DecodeLayout(w.Chunk(nil), simprocs)
		if err != nil || again.Classes != l.Classes || len(again.runs) > len(l.runs) {
			t.Errorf("%x is read as %v, and then as %v, %v", chunk, l, again, err)
		}
	})
}

// Any bytes are a chunk or an error.
func FuzzDecode(f *testing.F) {
	f.Add(Encode(nil, &Chunk{Stream{1.5, [32]byte{9}, 3}, 77, []byte{1, 2, 3, 4}}))
	f.Fuzz(func(t *testing.T, chunk []byte) {
		got, err := Decode(chunk)
		if err == nil && !bytes.Equal(Encode(nil, &got), chunk) {
			t.Errorf("%x is read as %+v", chunk, got)
		}
	})
}
