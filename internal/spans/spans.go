// SPDX-License-Identifier: Apache-2.0

// Package spans records what a worker was at, and when, in memory of a bounded size.
//
// However long it runs, the whole time is there. Where there are more spans than there is room for, short ones next to
// each other become one, which has how many they were and how long each kind of them took together: nothing is lost but
// their order.
//
// Guarantee: adding to what was recorded doesn't allocate, lock or make a system call, and takes constant time on
// average. Spans of a track begin in order and don't overlap.
//
//	r := spans.NewRecorder(time.Now(), cputime.Monotonic())
//	r.State(spans.OnPeer, peer, now)
//	report := r.Take(now) // what is new since the last Take; it is valid until the next call
//
//	var l = spans.NewLines() // who collects the reports of a worker
//	err := l.Add(&report)
package spans

import (
	"fmt"
	"time"
)

// Kind is what a span is.
type Kind uint8

// Kinds. Those up to Outside are the states of a worker's board, with the same numbers.
const (
	Rest        Kind = iota // between replications
	Work                    // handles events, or looks for some
	OnPeer                  // waits for the bound of a peer
	Full                    // waits for room in the lane to a peer
	Paused                  // was stopped, and waits for the common end
	Gather                  // gathers its results
	Ahead                   // is so far ahead of the others that it waits for them
	Held                    // has come to the end of a leg, as all others have
	Outside                 // a handler waits for an answer of the outside world
	Prepare                 // makes what a replication begins with
	Save                    // makes its part of a checkpoint
	Replication             // Arg is its number
	Parked                  // sleeps in the kernel
	Kinds
)

// Sort is what spans that become one are added up by.
type Sort uint8

// Sorts.
const (
	Handling Sort = iota
	Blocked       // by peers
	AtFull        // waiting for room in a lane
	Other
	Sorts
)

// SortOf is the sort of a kind.
func SortOf(k Kind) Sort {
	switch k {
	case Work:
		return Handling
	case OnPeer, Ahead, Paused, Held:
		return Blocked
	case Full:
		return AtFull
	}
	return Other
}

// Span is one, or several that have become one.
type Span struct {
	Begin, End int64 // nanoseconds of the machine's monotonic clock
	Kind       Kind  // of several: of the first
	Count      uint32
	Arg        int64        // 1 + the peer that is waited for, 0: none; of Replication its number
	Nanos      [Sorts]int64 // of several, by sort
}

// Longest is the sort that has most of it.
func (s *Span) Longest() (most Sort) {
	for c, n := range s.Nanos {
		if n > s.Nanos[most] {
			most = Sort(c)
		}
	}
	return most
}

// take makes one of s and a later one.
func (s *Span) take(o *Span) {
	if s.Count == 1 {
		s.Nanos[SortOf(s.Kind)] = s.End - s.Begin
	}
	if o.Count == 1 {
		s.Nanos[SortOf(o.Kind)] += o.End - o.Begin
	} else {
		for c := range s.Nanos {
			s.Nanos[c] += o.Nanos[c]
		}
	}
	s.End, s.Count = o.End, uint32(min(uint64(s.Count)+uint64(o.Count), 1<<32-1))
}

// Track is spans that don't overlap, in order.
type Track struct {
	spans []Span
	most  int
	short int64 // spans of less than so many nanoseconds become one with their neighbours; 0: none do
}

func newTrack(most int) Track { return Track{spans: make([]Span, 0, most), most: most} }

// All are the spans. They stay the track's.
func (t *Track) All() []Span { return t.spans }

// shortFirst is the first length below which spans become one.
const shortFirst = 1000

// Append adds a span that begins where the last one ends, or later.
func (t *Track) Append(s Span) {
	if len(t.spans) == t.most && !t.merges(&s) {
		t.shorten()
	}
	t.append(&s)
}

// shorten makes more spans one with their neighbours, until half of the room is free. Of two neighbours that are left,
// one is as long as short, or they begin and end so far apart: with twice the length there are half as many, in the end
// one.
func (t *Track) shorten() {
	for len(t.spans) > t.most/2 {
		t.short = max(2*t.short, shortFirst)
		all := t.spans
		t.spans = all[:0]
		for i := range all {
			t.append(&all[i])
		}
	}
}

// merges tells whether a span becomes one with the last one.
func (t *Track) merges(s *Span) bool {
	if len(t.spans) == 0 {
		return false
	}
	last := &t.spans[len(t.spans)-1]
	return last.End-last.Begin < t.short && s.End-s.Begin < t.short && s.End-last.Begin < 2*t.short
}

func (t *Track) append(s *Span) {
	if t.merges(s) {
		t.spans[len(t.spans)-1].take(s)
		return
	}
	t.spans = append(t.spans, *s)
}

// Sample is numbers of a worker at a moment.
type Sample struct {
	At      int64
	Epoch   float64 // simulated seconds
	Events  uint64  // handled in this replication
	Pending uint64
}

// Samples are some of those that there were, at least so far apart as there is room for.
type Samples struct {
	all   []Sample
	most  int
	apart int64 // nanoseconds
}

// All are the samples, in order. They stay the samples'.
func (s *Samples) All() []Sample { return s.all }

// Due tells whether one at a moment would be kept.
func (s *Samples) Due(at int64) bool { return len(s.all) == 0 || at-s.all[len(s.all)-1].At >= s.apart }

// Append adds one, unless it is too near to the last one.
func (s *Samples) Append(x Sample) {
	if !s.Due(x.At) {
		return
	}
	if len(s.all) == s.most {
		for i := range s.most / 2 {
			s.all[i] = s.all[2*i]
		}
		s.all, s.apart = s.all[:s.most/2], 2*s.apart
		if !s.Due(x.At) {
			return
		}
	}
	s.all = append(s.all, x)
}

// How much is kept of a worker: some 3.5 MB.
const (
	statesMax  = 1 << 15
	sleepsMax  = 1 << 13
	runsMax    = 1 << 12
	samplesMax = 1 << 12
	// samplesApart is how far apart samples are at first.
	samplesApart = int64(time.Millisecond)
)

// Lines are all that is recorded of a worker.
type Lines struct {
	States  Track // what it did
	Sleeps  Track // Parked
	Runs    Track // Replication
	Samples Samples
}

// NewLines makes empty ones.
func NewLines() *Lines {
	return &Lines{States: newTrack(statesMax), Sleeps: newTrack(sleepsMax), Runs: newTrack(runsMax),
		Samples: Samples{all: make([]Sample, 0, samplesMax), most: samplesMax, apart: samplesApart}}
}

// Add takes in what a worker has recorded since the part before.
func (l *Lines) Add(p *Report) error {
	for _, t := range []struct {
		to   *Track
		more []Span
	}{{&l.States, p.States}, {&l.Sleeps, p.Sleeps}, {&l.Runs, p.Runs}} {
		for i := range t.more {
			if n := len(t.to.spans); n > 0 && t.more[i].Begin < t.to.spans[n-1].End {
				return fmt.Errorf("spans: found one that begins at %d, want it at %d or later, where the last one "+
					"ended", t.more[i].Begin, t.to.spans[n-1].End)
			}
			t.to.Append(t.more[i])
		}
	}
	for _, s := range p.Samples {
		if n := len(l.Samples.all); n > 0 && s.At < l.Samples.all[n-1].At {
			return fmt.Errorf("spans: found a sample at %d, want it at %d or later, where the last one was", s.At,
				l.Samples.all[n-1].At)
		}
		l.Samples.Append(s)
	}
	return nil
}

// Recorder records a worker. One goroutine uses it.
type Recorder struct {
	lines Lines
	base  time.Time
	began int64 // base on the machine's monotonic clock
	open  Span  // the state that goes on
	run   Span  // the replication that goes on; of count 0: none does
}

// NewRecorder begins to record, at rest. clock is what the machine's monotonic clock says now, in nanoseconds.
func NewRecorder(now time.Time, clock int64) *Recorder {
	return &Recorder{lines: *NewLines(), base: now, began: clock, open: Span{Begin: clock, Kind: Rest, Count: 1}}
}

func (r *Recorder) at(now time.Time) int64 { return r.began + int64(now.Sub(r.base)) }

// Is reports whether a state goes on.
func (r *Recorder) Is(k Kind, peer int) bool { return r.open.Kind == k && r.open.Arg == int64(peer+1) }

// State begins a state, with the peer that it waits for, -1: none; the one before ends.
func (r *Recorder) State(k Kind, peer int, now time.Time) {
	at := max(r.at(now), r.open.Begin)
	if at > r.open.Begin {
		r.open.End = at
		r.lines.States.Append(r.open)
	}
	r.open = Span{Begin: at, Kind: k, Arg: int64(peer + 1), Count: 1}
}

// Slept adds a time asleep.
func (r *Recorder) Slept(began, ended time.Time) {
	r.lines.Sleeps.Append(Span{Begin: r.at(began), End: r.at(ended), Kind: Parked, Count: 1})
}

// Run begins a replication.
func (r *Recorder) Run(number int, now time.Time) {
	r.run = Span{Begin: r.at(now), Kind: Replication, Arg: int64(number), Count: 1}
}

// EndRun ends it.
func (r *Recorder) EndRun(now time.Time) {
	if r.run.Count > 0 {
		r.run.End = r.at(now)
		r.lines.Runs.Append(r.run)
		r.run = Span{}
	}
}

// Sample adds numbers.
func (r *Recorder) Sample(now time.Time, epoch float64, events, pending uint64) {
	r.lines.Samples.Append(Sample{At: r.at(now), Epoch: epoch, Events: events, Pending: pending})
}

// Take gives what was recorded since the last call; the state that goes on is cut in two. It is valid until the next
// call of any method.
func (r *Recorder) Take(now time.Time) Report {
	r.State(r.open.Kind, int(r.open.Arg)-1, now)
	l := &r.lines
	p := Report{States: l.States.spans, Sleeps: l.Sleeps.spans, Runs: l.Runs.spans, Samples: l.Samples.all}
	l.States.spans, l.Sleeps.spans, l.Runs.spans = l.States.spans[:0], l.Sleeps.spans[:0], l.Runs.spans[:0]
	l.Samples.all = l.Samples.all[:0]
	return p
}
