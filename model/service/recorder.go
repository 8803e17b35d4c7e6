// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/disco-sim/disco/model/measure"
)

// Latencies are kept as whole nanoseconds in a histogram of three significant
// digits: a percentile is off by less than one part in a thousand. Count, mean,
// spread, least and greatest are kept beside it without that loss.
const (
	nanosPerSecond = 1e9
	latencyDigits  = 3
	latencyMax     = 1 << 62 // ns, 146 years: longer ones count as this long
)

// recorder files latencies by the segment of the run in which they end. One dense
// histogram serves all segments in turn: a finished segment is kept in encoded form.
type recorder struct {
	cuts      cuts
	open      int // the segment that is being filled
	moments   measure.Moments
	histogram *hdrhistogram.Histogram
	highest   int64
	done      []segmentPart
}

func newRecorder(c cuts, horizon float64) *recorder {
	highest := int64(latencyMax)
	if ns := horizon * nanosPerSecond; ns < latencyMax {
		highest = max(int64(ns)+1, nanosPerSecond)
	}
	return &recorder{cuts: c, histogram: hdrhistogram.New(1, highest, latencyDigits), highest: highest}
}

func (r *recorder) record(now, latency float64) error {
	if s := r.cuts.segment(now); s != r.open {
		if err := r.finish(s); err != nil {
			return err
		}
	}
	r.moments.Add(latency)
	ns := r.highest
	if x := math.Round(latency * nanosPerSecond); x < float64(r.highest) {
		ns = int64(x)
	}
	if err := r.histogram.RecordValue(ns); err != nil {
		return fmt.Errorf("service: latency %v s: %w", latency, err)
	}
	return nil
}

// finish closes the open segment and opens segment next.
func (r *recorder) finish(next int) error {
	p := segmentPart{Moments: r.moments}
	if r.moments.Count > 0 {
		encoded, err := r.histogram.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		if err != nil {
			return fmt.Errorf("service: latency histogram: %w", err)
		}
		p.Histogram = string(encoded)
		r.histogram.Reset()
	}
	r.done = append(r.done, p)
	for len(r.done) < next {
		r.done = append(r.done, segmentPart{})
	}
	r.moments, r.open = measure.Moments{}, next
	return nil
}

// report closes the accounts: one part a segment, those never reached empty.
func (r *recorder) report() ([]segmentPart, error) {
	if err := r.finish(r.cuts.segments()); err != nil {
		return nil, err
	}
	return r.done, nil
}
