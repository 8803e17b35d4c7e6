// SPDX-License-Identifier: Apache-2.0

package calls

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/seed"
)

func level(s uint32) uint32 { return s % 3 }

func order(a, b Call) int {
	return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(level(a.Simproc), level(b.Simproc)),
		cmp.Compare(a.Simproc, b.Simproc))
}

// random is calls of a run, in the total order, whose hashes differ in their low halves.
func random(rng *rand.Rand, n, simprocs int) (calls []Call) {
	has := map[Call]bool{}
	for _, h := range rng.Perm(1 << 16)[:n] {
		c := Call{Simproc: uint32(rng.IntN(simprocs)), Epoch: float64(rng.IntN(4 * n))}
		if has[c] {
			continue
		}
		has[c] = true
		c.Hash = rng.Uint32()<<16 | uint32(h)
		calls = append(calls, c)
	}
	slices.SortFunc(calls, order)
	return calls
}

// recording is a run that is recorded, in legs that have layouts of their own.
type recording struct {
	c       *Comparer
	layouts map[[32]byte][]byte
	begins  []float64
	of      [][]int // by leg, by simproc: its worker and class, worker × 4 + class
	chunks  []recorded
}

type recorded struct {
	Chunk
	from float64
}

// record records a run as random workers and classes do.
func record(rng *rand.Rand, was []Call, simprocs int) *recording {
	r := &recording{layouts: map[[32]byte][]byte{}, begins: []float64{0}}
	r.c = &Comparer{Simprocs: simprocs, Level: level, Layout: func(d [32]byte) (*Layout, error) {
		return DecodeLayout(r.layouts[d], simprocs)
	}}
	for len(was) > 0 && rng.IntN(3) > 0 {
		r.begins = append(r.begins, was[rng.IntN(len(was))].Epoch+rng.Float64()*float64(rng.IntN(2)))
	}
	slices.Sort(r.begins)
	r.begins = slices.Compact(r.begins)
	workers := 1 + rng.IntN(3)
	for i, begin := range r.begins {
		of := make([]int, simprocs)
		for s := range of {
			of[s] = rng.IntN(workers)*4 + rng.IntN(1+rng.IntN(3))
		}
		if i > 0 && rng.IntN(2) == 0 {
			of = r.of[i-1] // nothing has moved
		}
		r.of = append(r.of, of)
		end := math.Inf(1)
		if i+1 < len(r.begins) {
			end = r.begins[i+1]
		}
		for w := range workers {
			r.worker(rng, was, w, of, begin, end)
		}
	}
	slices.SortStableFunc(r.chunks, func(a, b recorded) int { return cmp.Compare(a.from, b.from) })
	return r
}

// worker records what a worker has handled in a leg.
func (r *recording) worker(rng *rand.Rand, was []Call, w int, of []int, begin, end float64) {
	classes := make([]int, len(of))
	for s := range of {
		if classes[s] = -1; of[s]/4 == w {
			classes[s] = of[s] % 4
		}
	}
	number(classes)
	layout := layoutOf(classes)
	if layout == nil {
		return
	}
	digest := [32]byte{byte(len(r.layouts)), byte(len(r.layouts) >> 8)}
	r.layouts[digest] = layout
	for class := range slices.Max(classes) + 1 {
		chunk := recorded{Chunk: Chunk{Stream: Stream{begin, digest, uint32(class)}}}
		for _, c := range was {
			if c.Epoch < begin || c.Epoch >= end || classes[c.Simproc] != class {
				continue
			}
			if len(chunk.Hashes) == 0 {
				chunk.from = c.Epoch
			}
			chunk.Hashes = binary.LittleEndian.AppendUint16(chunk.Hashes, uint16(c.Hash))
			if rng.IntN(20) == 0 {
				r.chunks = append(r.chunks, chunk)
				chunk.Before, chunk.Hashes = chunk.Before+uint64(len(chunk.Hashes)/2), nil
			}
		}
		if len(chunk.Hashes) > 0 {
			r.chunks = append(r.chunks, chunk)
		}
	}
}

// compare compares in parts that end at random epochs, with calls in the order in which random workers have them. The
// epochs at which recorded legs end may be known, or not.
func (r *recording) compare(rng *rand.Rand, is []Call) (found *Found, n uint64, err error) {
	var ends []float64
	for len(is) > 0 && rng.IntN(3) > 0 {
		ends = append(ends, is[rng.IntN(len(is))].Epoch+float64(rng.IntN(2)))
	}
	for _, b := range r.begins[1:] {
		if rng.IntN(2) == 0 {
			ends = append(ends, b)
		}
	}
	slices.Sort(ends)
	ends = append(slices.Compact(ends), math.Inf(1))
	last := 0.0
	for _, end := range ends {
		if end == 0 {
			continue
		}
		var part []Call
		for worker := range 2 {
			for _, c := range is {
				if c.Epoch >= last && c.Epoch < end && int(c.Simproc%2) == worker {
					part = append(part, c)
				}
			}
		}
		var batch []recorded
		for len(r.chunks) > 0 && r.chunks[0].from < end {
			batch, r.chunks = append(batch, r.chunks[0]), r.chunks[1:]
		}
		rng.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
		for _, c := range batch {
			if err := r.c.Add(c.Chunk); err != nil {
				return nil, n, err
			}
		}
		over := math.IsInf(end, 1) || slices.Contains(r.begins, end)
		f, same, err := r.c.Compare(part, end, over)
		if n += same; f != nil || err != nil {
			return f, n, err
		}
		last = end
	}
	return nil, n, nil
}

// Whatever classes and workers a run has, and whoever replays it in whatever parts: what is the same is equal.
func TestCompareEqual(t *testing.T) {
	rng := seed.Rand(t)
	for range 300 {
		simprocs := 1 + rng.IntN(40)
		was := random(rng, rng.IntN(1500), simprocs)
		found, n, err := record(rng, was, simprocs).compare(rng, was)
		if err != nil || found != nil || n != uint64(len(was)) {
			t.Fatalf("found %+v, %d calls, %v, want %d equal ones", found, n, err, len(was))
		}
	}
}

// fault is one way in which a replay isn't as the run that was recorded.
type fault struct {
	kind   int
	at     Call   // as the run has it that has it
	stream string // recorded stream
}

// streamOf is the recorded stream of a call.
func (r *recording) streamOf(c Call) string {
	leg, ok := slices.BinarySearch(r.begins, c.Epoch)
	if !ok {
		leg--
	}
	return fmt.Sprint(leg, " ", r.of[leg][c.Simproc])
}

// open tells whether a call is missing from a stream in which none comes behind it before a part of the replay ends:
// then that it is missing isn't known yet.
func (r *recording) open(is []Call, f fault, until float64) bool {
	return f.kind == Missing && !slices.ContainsFunc(is, func(c Call) bool {
		return r.streamOf(c) == f.stream && order(c, f.at) > 0 && c.Epoch < until
	})
}

// spoil makes a replay that has a fault in each of some streams, and a call whose hash differs for some simprocs behind
// their first fault, as chained hashes have it.
func (r *recording) spoil(rng *rand.Rand, was []Call, faults int) (is []Call, list []fault) {
	has := map[Call]bool{}
	for _, c := range was {
		has[Call{c.Simproc, 0, c.Epoch}] = true
	}
	is = slices.Clone(was)
	from := map[uint32]Call{} // by simproc: behind which its hashes differ
	for range faults {
		c := was[rng.IntN(len(was))]
		f := fault{kind: 1 + rng.IntN(3), at: c}
		i := slices.IndexFunc(is, func(x Call) bool { return x.Simproc == c.Simproc && x.Epoch == c.Epoch })
		if f.kind == Extra {
			f.at.Epoch += 0.5
			f.at.Hash = rng.Uint32()
		}
		f.stream = r.streamOf(f.at)
		if i < 0 || slices.ContainsFunc(list, func(o fault) bool { return o.stream == f.stream }) {
			continue
		}
		switch f.kind {
		case Changed:
			is[i].Hash += 1 << 15
		case Missing:
			is = slices.Delete(is, i, i+1)
		case Extra:
			if is = append(is, f.at); has[Call{c.Simproc, 0, f.at.Epoch}] {
				panic("twice")
			}
		}
		list = append(list, f)
		if b, ok := from[c.Simproc]; !ok || order(f.at, b) < 0 {
			from[c.Simproc] = f.at
		}
	}
	slices.SortFunc(is, order)
	for i := range is {
		if f, ok := from[is[i].Simproc]; ok && order(is[i], f) > 0 && rng.IntN(4) > 0 {
			is[i].Hash ^= 1 << 14
		}
	}
	slices.SortFunc(list, func(a, b fault) int { return order(a.at, b.at) })
	return is, list
}

// covers tells whether a call is where a difference may be.
func (d *Difference) covers(c Call) bool {
	high := *d.high()
	return order(*d.low(), c) <= 0 && (c.Epoch < high.Epoch || high.Simproc != math.MaxUint32 && order(c, high) <= 0)
}

// The first fault of all is where the first difference is, or one of those that may be before it; most are told for
// what they are, and what has changed or is extra to the very call.
func TestCompareFinds(t *testing.T) {
	rng := seed.Rand(t)
	told, all := map[int]int{}, map[int]int{}
	for range 700 {
		simprocs := 2 + rng.IntN(60)
		was := random(rng, 50+rng.IntN(1500), simprocs)
		r := record(rng, was, simprocs)
		is, list := r.spoil(rng, was, 1+rng.IntN(3))
		found, _, err := r.compare(rng, is)
		if err != nil || found == nil {
			t.Fatalf("%+v: found %+v, %v", list, found, err)
		}
		first := list[0]
		if f := &found.First; !f.covers(first.at) && !slices.ContainsFunc(found.Earlier, func(d Difference) bool {
			return d.covers(first.at)
		}) && len(found.Earlier) < earlierMost && !r.open(is, first, f.Until) {
			t.Fatalf("faults %+v: found %+v", list, found)
		}
		if len(list) > 1 {
			continue
		}
		all[first.kind]++
		if f := &found.First; f.Kind == first.kind {
			told[first.kind]++
			if f.Kind != Missing && (f.Call.Simproc != first.at.Simproc || f.Call.Epoch != first.at.Epoch) {
				t.Fatalf("%+v was found as %+v", list, f)
			}
			if want := uint16(first.at.Hash); f.Kind != Extra && f.Was != want {
				t.Fatalf("%+v: found recorded hash %x, want %x", list, f.Was, want)
			}
		} else if f.Kind != Unclear && len(found.Earlier) == 0 && f.Number == 1 && !f.covers(first.at) {
			t.Fatalf("%+v was found as %+v", list, f)
		}
	}
	for kind, n := range all {
		if n < 50 || told[kind] < n/2 {
			t.Errorf("of %d faults of kind %d %d were told for what they are, want most", n, kind, told[kind])
		}
	}
}

// What each kind of fault comes to, with the calls around it.
func TestCompareKinds(t *testing.T) {
	const a, b = 0, 3 // of one level
	var was []Call
	for i := range 40 {
		was = append(was, Call{[]uint32{a, b}[i%2], uint32(i)*257 + 5, float64(i)})
	}
	without := func(from, to int) []Call { return slices.Delete(slices.Clone(was), from, to) }
	with := func(calls ...Call) []Call { return append(slices.Clone(was), calls...) }
	changed := slices.Clone(was)
	changed[7].Hash++
	other := slices.Clone(was)
	for i := 20; i < 40; i++ {
		other[i].Hash += 1 << 15
	}
	at := func(i int) *Call { return &was[i] }
	low := func(i int) uint16 { return uint16(was[i].Hash) }
	extra := []Call{{a, 9, 3.5}, {b, 9, 3.6}}
	end := math.Inf(1)
	for name, c := range map[string]struct {
		is   []Call
		want Difference
	}{
		"changed": {changed, Difference{Kind: Changed, Number: 1, Was: low(7), Call: changed[7],
			After: at(6)}},
		"missing": {without(9, 10), Difference{Kind: Missing, Number: 1, Was: low(9), After: at(8),
			Behind: at(10)}},
		"several": {without(9, 15), Difference{Kind: Missing, Number: 6, Was: low(9), After: at(8),
			Behind: at(15)}},
		"first": {without(0, 1), Difference{Kind: Missing, Number: 1, Was: low(0), Behind: at(1)}},
		"last":  {without(39, 40), Difference{Kind: Missing, Number: 1, Was: low(39), After: at(38)}},
		"last but one": {without(38, 39), Difference{Kind: Missing, Number: 1, Was: low(38), After: at(37),
			Behind: at(39)}},
		"none": {nil, Difference{Kind: Missing, Number: 40, Was: low(0)}},
		"extra": {with(extra[0]), Difference{Kind: Extra, Number: 1, Was: low(4), Call: extra[0],
			After: at(3)}},
		"extras": {with(extra...), Difference{Kind: Extra, Number: 2, Was: low(4), Call: extra[0],
			After: at(3)}},
		"behind the end": {with(Call{a, 1, 50}), Difference{Kind: Extra, Number: 1, Call: Call{a, 1, 50},
			After: at(39)}},
		"of another": {with(Call{1, 1, 5}), Difference{Kind: Extra, Number: 1, Call: Call{1, 1, 5}}},
		"all behind": {other, Difference{Kind: Unclear, Number: 1, Was: low(20), Call: other[20],
			After: at(19)}},
		"then": {slices.DeleteFunc(slices.Clone(changed), func(c Call) bool { return c.Epoch == 4 }),
			Difference{Kind: Missing, Number: 1, Was: low(4), After: at(3), Behind: at(5),
				Then: &changed[7]}},
	} {
		layout := layoutOf([]int{0, -1, -1, 0})
		m := &Comparer{Simprocs: 4, Level: level, Layout: func([32]byte) (*Layout, error) {
			return DecodeLayout(layout, 4)
		}}
		var hashes []byte
		for _, w := range was {
			hashes = binary.LittleEndian.AppendUint16(hashes, uint16(w.Hash))
		}
		if err := m.Add(Chunk{Hashes: hashes}); err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(c.is, order)
		found, _, err := m.Compare(c.is, end, true)
		if err != nil || found == nil || len(found.Earlier) > 0 {
			t.Fatalf("%s: %+v, %v", name, found, err)
		}
		c.want.Until = end
		got, want := found.First, c.want
		for _, p := range [][2]*Call{{got.After, want.After}, {got.Behind, want.Behind}, {got.Then, want.Then}} {
			if (p[0] == nil) != (p[1] == nil) || p[0] != nil && *p[0] != *p[1] {
				t.Errorf("%s: found %v, want %v: %+v", name, p[0], p[1], got)
			}
		}
		for id, is := range []bool{true, false, false, true} {
			if is = is && name != "of another"; got.Has(uint32(id)) != is { // which has no stream
				t.Errorf("%s: simproc %d in its stream: %v, want %v", name, id, !is, is)
			}
		}
		got.stream = nil
		got.After, got.Behind, got.Then, want.After, want.Behind, want.Then = nil, nil, nil, nil, nil, nil
		if got != want {
			t.Errorf("%s: found %+v, want %+v", name, got, want)
		}
	}
}

// What is recorded and can't be is refused: parts that are missing or there twice, layouts that have a simproc twice,
// classes that aren't there. So is a replay that has a call twice.
func TestCompareRefuses(t *testing.T) {
	layout, other := [32]byte{1}, [32]byte{2}
	lost := errors.New("it is gone")
	chunk := func(of [32]byte, class, before int, n int) Chunk {
		return Chunk{Stream{0, of, uint32(class)}, uint64(before), make([]byte, 2*n)}
	}
	for _, c := range []struct {
		chunks []Chunk
		is     []Call
		want   string
	}{
		{[]Chunk{chunk(layout, 0, 1, 1)}, nil, "from number 1 of a stream on, want number 0"},
		{[]Chunk{chunk(layout, 0, 0, 2), chunk(layout, 0, 1, 1)}, nil, "from number 1 of a stream on, want number 2"},
		{[]Chunk{chunk(layout, 0, 0, 2), chunk(layout, 0, 0, 2)}, nil, "number 0 of a stream on, want number 2"},
		{[]Chunk{chunk(layout, 2, 0, 1)}, nil, "found calls of class 2, want 0 to 1"},
		{[]Chunk{chunk(layout, 0, 0, 1), chunk(other, 0, 0, 1)}, nil, "found simproc 1 on two workers"},
		{[]Chunk{chunk([32]byte{3}, 0, 0, 1)}, nil, "it is gone"},
		{[]Chunk{chunk(layout, 0, 0, 1)}, []Call{{0, 0, 7}, {0, 1, 7}}, "the replay has two calls of simproc 0 at 7 s"},
	} {
		m := &Comparer{Simprocs: 2, Level: level, Layout: func(d [32]byte) (*Layout, error) {
			switch d {
			case layout:
				return DecodeLayout(layoutOf([]int{0, 1}), 2)
			case other:
				return DecodeLayout(layoutOf([]int{-1, 0}), 2)
			}
			return nil, lost
		}}
		var err error
		for _, chunk := range c.chunks {
			if err == nil {
				err = m.Add(chunk)
			}
		}
		if err == nil {
			_, _, err = m.Compare(c.is, 9, true)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.chunks, err, c.want)
		}
	}
}

// One difference in 65,536 isn't seen at its call, but at the next one of the simproc.
func TestCompareChance(t *testing.T) {
	m := &Comparer{Simprocs: 1, Level: level, Layout: func([32]byte) (*Layout, error) {
		return DecodeLayout(layoutOf([]int{0}), 1)
	}}
	if err := m.Add(Chunk{Hashes: []byte{1, 0, 2, 0, 3, 0}}); err != nil {
		t.Fatal(err)
	}
	found, n, err := m.Compare([]Call{{0, 1, 1}, {0, 2 + 7<<16, 2}, {0, 9, 3}}, 9, true)
	if err != nil || found == nil || n != 2 || found.First.Call != (Call{0, 9, 3}) {
		t.Errorf("found %+v, %d equal, %v", found, n, err)
	}
}
