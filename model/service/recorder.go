// SPDX-License-Identifier: Apache-2.0

package service

import (
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/model/timeline"
)

// recorder keeps latencies by the span of the run in which they end. One
// measure.Recorder serves all spans in turn.
type recorder struct {
	spans     timeline.Cursor
	open      int // the span that is being filled
	latencies *measure.Recorder
	done      []spanPart
}

func newRecorder(c timeline.Spans, horizon float64) *recorder {
	return &recorder{spans: c.Cursor(), latencies: measure.NewRecorder(horizon)}
}

func (r *recorder) record(now, latency float64) error {
	if s := r.spans.At(now); s != r.open {
		if err := r.finish(s); err != nil {
			return err
		}
	}
	return r.latencies.Add(latency)
}

// finish closes the open span and opens span next.
func (r *recorder) finish(next int) (err error) {
	var p spanPart
	if p.Moments, p.Histogram, err = r.latencies.Take(); err != nil {
		return err
	}
	r.done = append(r.done, p)
	for len(r.done) < next {
		r.done = append(r.done, spanPart{})
	}
	r.open = next
	return nil
}

// report closes the accounts: one part a span, those never reached empty.
func (r *recorder) report() ([]spanPart, error) {
	if err := r.finish(r.spans.Count()); err != nil {
		return nil, err
	}
	return r.done, nil
}
