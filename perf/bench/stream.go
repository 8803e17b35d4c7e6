// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"sync/atomic"
	"syscall"
)

// stream cuts a run of events one way into slices and times each.
//
// A machine with other work takes one of the two sides off its core for milliseconds, and what a run then counts
// depends more on that other work than on what is measured: the rate of the limit or of the row falls by a factor
// of ten, at different moments. The kernel counts such moments for each thread. So a slice in which neither side
// was taken off its core is a clean one, and the rate that is reported, of limits and rows alike, is that of the
// median clean slice; the rate over all is printed beside it.
type stream struct {
	end    int64  // when the time is over
	last   int64  // when it is over even if there were few clean slices
	size   uint64 // events of one slice: four rings, so that no slice lives on the ring alone
	from   uint64 // events before the present slice
	since  int64  // when it began
	off    uint64 // how often the two sides had been taken off their cores then
	clean  []float64
	all    []float64
	theirs *atomic.Uint64 // how often the other side was taken off its core; nil: it doesn't matter
}

const (
	slicesMax = 1 << 12 // slices of a run that are kept
	cleanMin  = 16      // clean slices that make a rate
	longer    = 4       // a run with fewer goes on for so many times its time
)

// Stream is Begin for events one way. From then on Tick is called from time to time. theirs is the word in which
// the other side counts how often it was taken off its core.
func (m *Meter) Stream(theirs *atomic.Uint64) {
	t := &m.task
	st := &stream{
		size:   uint64(max(4*t.Ring/(t.Payload+48), 4*blocksPerPool) * max(1, t.Senders)),
		clean:  make([]float64, 0, slicesMax),
		all:    make([]float64, 0, slicesMax),
		theirs: theirs,
	}
	m.stream = st
	m.Begin()
	st.since, st.off = m.result.Nanos, st.taken()
	st.end = st.since + int64(t.Time)
	st.last = st.end + longer*int64(t.Time)
}

// Tick notes how many events have been sent and reports whether to go on.
func (m *Meter) Tick(events uint64) bool {
	st, now := m.stream, m.Now()
	if n := events - st.from; n >= st.size && now > st.since {
		off := st.taken()
		rate := float64(n) * 1e9 / float64(now-st.since)
		if len(st.all) < slicesMax {
			st.all = append(st.all, rate)
			if off == st.off {
				st.clean = append(st.clean, rate)
			}
		}
		st.from, st.since, st.off = events, now, off
	}
	return now < st.end || now < st.last && len(st.clean) < cleanMin
}

// taken is how often the two sides were taken off their cores so far.
func (st *stream) taken() uint64 {
	n := takenOff()
	if st.theirs != nil {
		n += st.theirs.Load()
	}
	return n
}

// steady is the rate of the median clean slice, or of all where none was clean, or 0.
func (st *stream) steady() float64 {
	switch {
	case len(st.clean) > 0:
		return RangeOf(st.clean).Median
	case len(st.all) > 0:
		return RangeOf(st.all).Median
	}
	return 0
}

// rusageThread asks for the calling thread alone.
const rusageThread = 1

// takenOff is how often the kernel took the calling thread off its core although it was runnable. It takes some 0.3
// µs.
func takenOff() uint64 {
	var r syscall.Rusage
	if syscall.Getrusage(rusageThread, &r) != nil {
		return 0
	}
	return uint64(r.Nivcsw)
}

// watch is the following side's count of how often it was taken off its core.
type watch struct {
	word *atomic.Uint64
	due  uint64 // events after which it looks again
	step uint64
}

func (s *Side) newWatch() watch {
	return watch{word: s.Arena.taken(), step: uint64(max(s.Ring/4/(s.Payload+48), blocksPerPool/2))}
}

// look updates the count from time to time.
func (w *watch) look(events uint64) {
	if events >= w.due {
		w.word.Store(takenOff())
		w.due = events + w.step
	}
}
