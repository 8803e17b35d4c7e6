// SPDX-License-Identifier: Apache-2.0

package spans

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/seed"
	"github.com/disco-sim/disco/internal/wire"
)

// totals are how many spans there were, and the time of each sort.
func totals(all []Span) (count uint64, nanos [Sorts]int64) {
	for _, s := range all {
		count += uint64(s.Count)
		if s.Count == 1 {
			nanos[SortOf(s.Kind)] += s.End - s.Begin
			continue
		}
		for c := range nanos {
			nanos[c] += s.Nanos[c]
		}
	}
	return count, nanos
}

// checkOrder finds spans that overlap, or that go in time behind their end.
func checkOrder(t *testing.T, all []Span) {
	t.Helper()
	for i, s := range all {
		if s.End < s.Begin || i > 0 && s.Begin < all[i-1].End {
			t.Fatalf("span %d is %+v, behind %+v", i, s, all[max(0, i-1)])
		}
	}
}

// Whatever the lengths are, a track that is full keeps the time of each sort and how many spans there were, and covers
// all the time.
func TestTrackFull(t *testing.T) {
	rnd := seed.Rand(t)
	for name, length := range map[string]func(i int) int64{
		"equal":       func(int) int64 { return 700 },
		"none":        func(int) int64 { return 0 },
		"long, short": func(i int) int64 { return []int64{50_000_000, 3}[i%2] },
		"any":         func(int) int64 { return int64(rnd.ExpFloat64() * float64(uint64(1)<<rnd.IntN(30))) },
	} {
		track := newTrack(64)
		var want [Sorts]int64
		at := int64(12345)
		const n = 20_000
		for i := range n {
			at += int64(rnd.IntN(2)) * length(i)
			s := Span{Begin: at, End: at + length(i), Kind: Kind(i % int(Parked)), Count: 1}
			at = s.End
			want[SortOf(s.Kind)] += s.End - s.Begin
			track.Append(s)
			if len(track.spans) > 64 || cap(track.spans) != 64 {
				t.Fatalf("%s: %d spans, want at most 64", name, len(track.spans))
			}
		}
		count, got := totals(track.spans)
		if count != n || got != want {
			t.Errorf("%s: %d spans of %v, want %d of %v", name, count, got, n, want)
		}
		checkOrder(t, track.spans)
		if last := track.spans[len(track.spans)-1]; last.End != at {
			t.Errorf("%s: the last one ends at %d, want %d", name, last.End, at)
		}
		if name == "any" && len(track.spans) < 16 {
			t.Errorf("%s: %d are left of %d, want a quarter of the room used at least", name, len(track.spans), 64)
		}
	}
}

// A track that has room keeps every span as it is.
func TestTrackRoom(t *testing.T) {
	track := newTrack(8)
	for i := range int64(8) {
		track.Append(Span{Begin: 10 * i, End: 10*i + 4, Kind: Work, Count: 1, Arg: i})
	}
	for i, s := range track.All() {
		if want := (Span{Begin: 10 * int64(i), End: 10*int64(i) + 4, Kind: Work, Count: 1, Arg: int64(i)}); s != want {
			t.Errorf("span %d is %+v, want %+v", i, s, want)
		}
	}
}

// Samples that are too many are thinned out evenly, over all the time.
func TestSamplesFull(t *testing.T) {
	s := Samples{all: make([]Sample, 0, 16), most: 16, apart: 10}
	for at := range int64(10_000) {
		s.Append(Sample{At: at, Events: uint64(at)})
		if cap(s.all) != 16 {
			t.Fatal("more memory was taken")
		}
	}
	for i := 1; i < len(s.all); i++ {
		if d := s.all[i].At - s.all[i-1].At; d < s.apart || d > 2*s.apart {
			t.Errorf("%d ns between two samples, want %d to %d", d, s.apart, 2*s.apart)
		}
	}
	if s.all[0].At != 0 || len(s.all) < 8 {
		t.Errorf("%d samples from %d on, want 8 at least, from 0 on", len(s.all), s.all[0].At)
	}
}

// record has a recorder see what a worker does in a few replications.
func record(t *testing.T, rnd *rand.Rand, r *Recorder, now *time.Time, steps int) {
	t.Helper()
	for i := range steps {
		*now = now.Add(time.Duration(2 + rnd.IntN(3000)))
		switch i % 50 {
		case 0:
			r.Run(i/50, *now)
		case 49:
			r.EndRun(*now)
		}
		r.State(Kind(rnd.IntN(int(Outside)+1)), rnd.IntN(4)-1, *now)
		r.Slept(*now, now.Add(1))
		r.Sample(*now, float64(i), uint64(i), 5)
	}
}

// What a recorder gives part by part is, with who collects the parts, what it saw; and recording takes no memory.
func TestRecorder(t *testing.T) {
	rnd := seed.Rand(t)
	now := time.Now()
	r := NewRecorder(now, 1<<40)
	began, first := r.began, now
	l := NewLines()
	for range 30 {
		record(t, rnd, r, &now, 5000)
		p := r.Take(now)
		bytes, err := wire.Append(nil, p.Fields)
		if err != nil {
			t.Fatal(err)
		}
		var got Report
		if err := wire.Decode(bytes, got.Fields); err != nil || !reflect.DeepEqual(got, p) {
			t.Fatalf("a part has changed on its way: %v", err)
		}
		if err := l.Add(&got); err != nil {
			t.Fatal(err)
		}
	}
	for name, track := range map[string]*Track{"states": &l.States, "sleeps": &l.Sleeps, "replications": &l.Runs} {
		checkOrder(t, track.All())
		count, nanos := totals(track.All())
		sum := int64(0)
		for _, n := range nanos {
			sum += n
		}
		switch name {
		case "states":
			if want := int64(now.Sub(first)); sum != want || track.All()[0].Begin != began {
				t.Errorf("the states took %d ns from %d on, want %d from %d on", sum, track.All()[0].Begin, want, began)
			}
		case "replications":
			if count != 30*100 {
				t.Errorf("%d replications, want %d", count, 30*100)
			}
		case "sleeps":
			if count != 30*5000 || sum != 30*5000 {
				t.Errorf("slept %d times for %d ns, want %d of 1 ns", count, sum, 30*5000)
			}
		}
	}
	if n := testing.AllocsPerRun(5, func() {
		record(t, rnd, r, &now, 60_000)
		r.Take(now)
	}); n > 0 {
		t.Errorf("recording has taken memory %v times", n)
	}
}

// A part that no worker can have sent is refused.
func TestBadPart(t *testing.T) {
	ok := Span{Begin: 5, End: 7, Kind: Work, Count: 1}
	for _, c := range []struct {
		part Report
		want string
	}{
		{Report{States: []Span{{Begin: 5, End: 4, Count: 1}}}, "found the span"},
		{Report{Sleeps: []Span{ok, {Begin: 6, End: 8, Count: 1}}}, "want it to begin at 7 or later"},
		{Report{Runs: []Span{{End: 1, Kind: Kinds, Count: 1}}}, "kind 0 to 12"},
		{Report{Runs: []Span{{End: 1}}}, "count 1 or more"},
		{Report{States: []Span{{End: 1, Count: 1, Arg: -1}}}, "for whom it waits"},
		{Report{Runs: make([]Span, runsMax+1)}, "found 4097 spans, want at most 4096"},
		{Report{Samples: []Sample{{At: 3}, {At: 2}}}, "want it at 3 or later"},
		{Report{Samples: make([]Sample, samplesMax+1)}, "found 4097 samples"},
	} {
		bytes, err := wire.Append(nil, c.part.Fields)
		if err != nil {
			t.Fatal(err)
		}
		var got Report
		if err := wire.Decode(bytes, got.Fields); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	l := NewLines()
	if err := l.Add(&Report{States: []Span{ok}, Samples: []Sample{{At: 9}}}); err != nil {
		t.Fatal(err)
	}
	for want, p := range map[string]*Report{"where the last one ended": {States: []Span{{Begin: 6, End: 9, Count: 1}}},
		"where the last one was": {Samples: []Sample{{At: 8}}}} {
		if err := l.Add(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func BenchmarkState(b *testing.B) {
	now := time.Now()
	r := NewRecorder(now, 0)
	for i := 0; b.Loop(); i++ {
		now = now.Add(300)
		r.State(Kind(i&1)+Work, 1, now)
	}
}
