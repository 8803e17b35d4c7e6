// SPDX-License-Identifier: Apache-2.0

package service

import (
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/model/timeline"
)

// recorder keeps latencies by the segment of the run in which they end. One
// measure.Recorder serves all segments in turn.
type recorder struct {
	cuts      timeline.Cursor
	open      int // the segment that is being filled
	latencies *measure.Recorder
	done      []segmentPart
}

func newRecorder(c timeline.Cuts, horizon float64) *recorder {
	return &recorder{cuts: c.Cursor(), latencies: measure.NewRecorder(horizon)}
}

func (r *recorder) record(now, latency float64) error {
	if s := r.cuts.Segment(now); s != r.open {
		if err := r.finish(s); err != nil {
			return err
		}
	}
	return r.latencies.Add(latency)
}

// finish closes the open segment and opens segment next.
func (r *recorder) finish(next int) (err error) {
	var p segmentPart
	if p.Moments, p.Histogram, err = r.latencies.Take(); err != nil {
		return err
	}
	r.done = append(r.done, p)
	for len(r.done) < next {
		r.done = append(r.done, segmentPart{})
	}
	r.open = next
	return nil
}

// report closes the accounts: one part a segment, those never reached empty.
func (r *recorder) report() ([]segmentPart, error) {
	if err := r.finish(r.cuts.Segments()); err != nil {
		return nil, err
	}
	return r.done, nil
}
