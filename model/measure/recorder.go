// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"fmt"
	"math"

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

// Take gives the set, for Restore, and begins the next one.
func (r *Recorder) Take() (m Moments, encoded string, err error) {
	m, r.moments = r.moments, Moments{}
	if m.Count == 0 {
		return m, "", nil
	}
	text, err := r.histogram.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return m, "", fmt.Errorf("measure: a histogram: %w", err)
	}
	r.histogram.Reset()
	return m, string(text), nil
}
