package service

import (
	"fmt"
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latencies are kept as whole nanoseconds in a histogram of three significant
// digits: a percentile is off by less than one part in a thousand. Count, mean,
// spread, least and greatest are kept beside it without that loss.
const (
	nanosPerSecond = 1e9
	latencyDigits  = 3
	latencyMax     = 1 << 62 // ns, 146 years: longer ones count as this long
)

// moments are count, mean, sum of squared deviations, least and greatest of a set
// of numbers, added one by one (Welford 1962) or set by set (Chan, Golub and
// LeVeque 1979).
type moments struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	M2    float64 `json:"m2"`
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
}

func (m *moments) add(x float64) {
	if m.Count == 0 {
		m.Min, m.Max = x, x
	}
	m.Count++
	d := x - m.Mean
	m.Mean += d / float64(m.Count)
	m.M2 += d * (x - m.Mean)
	m.Min, m.Max = min(m.Min, x), max(m.Max, x)
}

func (m *moments) merge(o *moments) {
	if o.Count == 0 {
		return
	}
	if m.Count == 0 {
		*m = *o
		return
	}
	d, n := o.Mean-m.Mean, float64(m.Count+o.Count)
	m.Mean += d * float64(o.Count) / n
	m.M2 += o.M2 + d*d*float64(m.Count)*float64(o.Count)/n
	m.Count += o.Count
	m.Min, m.Max = min(m.Min, o.Min), max(m.Max, o.Max)
}

// stddev is the standard deviation of the set itself.
func (m *moments) stddev() float64 {
	if m.Count == 0 {
		return 0
	}
	return math.Sqrt(m.M2 / float64(m.Count))
}

// recorder files latencies by the segment of the run in which they end. One dense
// histogram serves all segments in turn: a finished segment is kept in encoded form.
type recorder struct {
	cuts      cuts
	open      int // the segment that is being filled
	moments   moments
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
	r.moments.add(latency)
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
	p := segmentPart{moments: r.moments}
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
	r.moments, r.open = moments{}, next
	return nil
}

// report closes the accounts: one part a segment, those never reached empty.
func (r *recorder) report() ([]segmentPart, error) {
	if err := r.finish(r.cuts.segments()); err != nil {
		return nil, err
	}
	return r.done, nil
}
