// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Recorder collects the durations of one set after the other. It is faster than
// Latencies, but takes the memory of its whole range, whatever it holds: one Recorder
// serves all sets of a simproc, and a set that is complete is taken out in encoded form.
type Recorder struct {
	moments   Moments
	histogram *hdrhistogram.Histogram
	longest   int64 // ns
}

// NewRecorder makes a recorder of durations up to longest seconds; for percentiles,
// longer ones count as that long.
func NewRecorder(longest float64) *Recorder {
	nanos := int64(nanosMax)
	if ns := longest * nanosPerSecond; ns < nanosMax {
		nanos = max(int64(ns)+1, nanosPerSecond)
	}
	return &Recorder{histogram: hdrhistogram.New(1, nanos, digits), longest: nanos}
}

// Add adds one duration >= 0 to the set.
func (r *Recorder) Add(seconds float64) error {
	if !(seconds >= 0) {
		return fmt.Errorf("measure: a duration of %v s, want one >= 0", seconds)
	}
	r.moments.Add(seconds)
	nanos := r.longest
	if x := math.Round(seconds * nanosPerSecond); x < float64(r.longest) {
		nanos = int64(x)
	}
	if err := r.histogram.RecordValue(nanos); err != nil {
		return fmt.Errorf("measure: %d ns: %w", nanos, err)
	}
	return nil
}

// Take appends the set as bytes, in the form of Latencies.Append, and begins the next one.
func (r *Recorder) Take(dst []byte) []byte {
	dst = r.moments.append(dst)
	if r.moments.Count == 0 {
		return dst
	}
	buckets := slices.DeleteFunc(r.histogram.Distribution(), func(b hdrhistogram.Bar) bool { return b.Count == 0 })
	dst = binary.AppendUvarint(dst, uint64(len(buckets)))
	last := int64(0)
	for _, b := range buckets {
		dst, last = appendBucket(dst, last, b.From, b.Count), b.From
	}
	r.moments = Moments{}
	r.histogram.Reset()
	return dst
}
