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
	done      int    // spans that are in encoded
	encoded   []byte // their latencies, one span behind the other
}

func newRecorder(c timeline.Spans, horizon float64) *recorder {
	return &recorder{spans: c.Cursor(), latencies: measure.NewRecorder(horizon)}
}

func (r *recorder) record(now, latency float64) error {
	if s := r.spans.At(now); s != r.open {
		r.finish(s)
	}
	return r.latencies.Add(latency)
}

// finish closes the open span and opens span next.
func (r *recorder) finish(next int) {
	r.encoded = r.latencies.Take(r.encoded)
	for r.done++; r.done < next; r.done++ {
		r.encoded = r.latencies.Take(r.encoded) // a span without latencies
	}
	r.open = next
}

// report closes the accounts: the latencies of every span, those never reached empty.
func (r *recorder) report() []byte {
	r.finish(r.spans.Count())
	return r.encoded
}
