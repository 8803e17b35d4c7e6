// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/disco-sim/disco/shm"
)

// Task is one side's part in one measurement. It travels to worker processes as JSON.
type Task struct {
	Job     string        `json:"job"`
	Pair    int           `json:"pair"`    // which arena
	Side    int           `json:"side"`    // 0 leads and measures, 1 follows
	Payload int           `json:"payload"` // bytes
	Batch   int           `json:"batch"`   // events that are published together
	Wait    string        `json:"wait"`    // spin, yield, park or adaptive
	Ring    int           `json:"ring"`    // bytes of the rings
	CPU     int           `json:"cpu"`     // processor to bind to, -1: none
	Pauses  int           `json:"pauses"`  // PAUSE instructions between two looks, of a job that has Pauses
	Time    time.Duration `json:"time"`    // how long to measure
	Senders int           `json:"senders"` // to one Receiver
	Dir     string        `json:"dir"`     // for sockets, of a job that has Sockets
	Shared  bool          `json:"shared"`  // both sides are threads of one process
	Address string        `json:"address"` // where the other side listens, for peers over a network
}

// Result is what one side found.
type Result struct {
	Events    uint64  `json:"events"`    // transferred over: one way, or round trips
	Trips     bool    `json:"trips"`     // events are round trips
	Nanos     int64   `json:"nanos"`     // from the first to the last
	Steady    float64 `json:"steady"`    // events per second while both sides had their cores; 0: not known
	CPU       float64 `json:"cpu"`       // seconds of this side's process
	Mallocs   uint64  `json:"mallocs"`   // of this side's process
	Histogram []byte  `json:"histogram"` // of round trips in ns, encoded; empty: none
	// of round trips, from programs that report only this; what they don't report is 0
	RTT *RTT `json:"rtt"`
}

// Job is one way to send payloads from a leading side to a following one.
type Job struct {
	// Name in Task.Job.
	Name string
	// Format lays out the arena before the two sides open. nil: nothing to do.
	Format func(a *Arena, t Task) error
	// Open prepares a run. The following side opens first.
	Open func(s *Side) (*Run, error)
	// Pauses are the numbers of PAUSE instructions between two looks of a side that polls, of which one run after
	// the other tries each. nil: the job takes no such number.
	Pauses []int
	// Sockets gives the sides a directory of the fleet's, which no other user may enter.
	Sockets bool
}

// Side is what a job's side works with.
type Side struct {
	Task
	Arena *Arena

	abort *atomic.Bool
}

// ErrAborted is what a run returns when it was stopped: the other side has died, or the user has interrupted it.
var ErrAborted = errors.New("bench: aborted")

// Aborted reports whether the run should end. It costs one load of private memory: loops
// ask it where they find nothing to do.
func (s *Side) Aborted() bool { return s.abort.Load() }

// WhenAborted calls wake, at most once and from another goroutine, soon after the run was aborted, for a side that
// sleeps where it can't look at Aborted. The caller calls the function that it returns when the run has ended.
func (s *Side) WhenAborted(wake func()) (stop func()) {
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for !s.Aborted() {
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
		wake()
	}()
	return func() { close(done) }
}

// pause passes the time between two looks.
func (s *Side) pause() {
	for range s.Pauses {
		shm.Pause()
	}
}

// Lead reports whether this side leads.
func (s *Side) Lead() bool { return s.Side == 0 }

// Run is a side that is ready.
type Run struct {
	// Address is where this side listens; the other one finds it in its Task.
	Address string
	// Do runs to the end, on a thread of its own, and fills the meter in.
	Do func(m *Meter) error
	// Close frees what Open took. nil: nothing.
	Close func()
}

// histogramMax is the longest time that a histogram tells apart, ns: 100 s.
const histogramMax = 100_000_000_000

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, histogramMax, 3) }

// Meter measures a run. Begin and End enclose what is measured.
type Meter struct {
	task      Task
	histogram *hdrhistogram.Histogram
	base      time.Time
	usage     usage
	result    Result

	warm uint64 // round trips before it counts
	laps uint64 // round trips that counted
	lap  int64  // when the last one ended
	end  int64  // when it is over

	stream *stream // nil: round trips, or nothing of which slices could be cut
}

func newMeter(t Task) *Meter { return &Meter{task: t, base: time.Now()} }

// Begin starts the clocks.
func (m *Meter) Begin() {
	m.usage = usageNow()
	m.result.Nanos = m.Now()
}

// End stops them, after so many events.
func (m *Meter) End(events uint64) {
	m.result.Nanos = m.Now() - m.result.Nanos
	used := usageNow().since(m.usage)
	if m.task.Shared && (m.task.Side != 0 || m.task.Pair != 0) {
		used = usage{} // the first side counts for the whole process
	}
	m.result.Events, m.result.CPU, m.result.Mallocs = events, used.cpu, used.mallocs
}

// Now is the meter's clock in ns. It reads the monotonic clock only: some 20 ns.
func (m *Meter) Now() int64 { return int64(time.Since(m.base)) }

// Trips declares that the events of this run are round trips. From then on Lap is called once in each, and warm of
// them are made before anything counts: caches, page tables and the branch predictor have then settled.
func (m *Meter) Trips(warm uint64) {
	m.histogram, m.result.Trips = newHistogram(), true
	m.warm, m.end = warm, m.Now()+int64(m.task.Time)
}

// Lap ends one round trip and reports whether it was the last one. It is best called
// while the next one is under way already, because then it costs nothing.
func (m *Meter) Lap() (last bool) {
	now := m.Now()
	if m.warm == 0 {
		_ = m.histogram.RecordValue(now - m.lap)
		m.lap = now
		m.laps++
		return now >= m.end
	}
	if m.warm--; m.warm == 0 || now >= m.end {
		m.warm = 0
		m.Begin()
		m.lap = m.Now()
		m.end = m.lap + int64(m.task.Time)
	}
	return false
}

// Laps is how many round trips have counted.
func (m *Meter) Laps() uint64 { return m.laps }

// finish gives the result.
func (m *Meter) finish() (Result, error) {
	if m.histogram != nil && m.histogram.TotalCount() > 0 {
		text, err := m.histogram.EncodeV2()
		if err != nil {
			return Result{}, fmt.Errorf("bench: histogram: %w", err)
		}
		m.result.Histogram = text
	}
	if m.stream != nil {
		m.result.Steady = m.stream.steady()
	}
	return m.result, nil
}

// damaged is the error of a payload that didn't arrive as it was sent.
func damaged(job string, got, want, events uint64) error {
	return fmt.Errorf("bench: %s: the sum over %d payloads is %#x, want %#x: what was read is not what was written",
		job, events, got, want)
}
