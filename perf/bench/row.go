// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Row is one line of results. Its JSON form is the one that other programs read.
type Row struct {
	Bench          string  `json:"bench"`
	PayloadBytes   int     `json:"payload_bytes"`
	Batch          int     `json:"batch"`     // events published together; 0: the row has no batches
	Wait           string  `json:"wait"`      // "": no side waits
	Processes      int     `json:"processes"` // 1: the sides were threads
	RTT            *RTT    `json:"rtt_ns"`    // null: not a round trip
	RatePerSecond  float64 `json:"rate_per_s"`
	BytesPerSecond float64 `json:"bytes_per_s"`
	CPUSeconds     float64 `json:"cpu_s"`
	Allocs         float64 `json:"allocs_per_event"`
	Limit          string  `json:"limit"`
	Ratio          *Range  `json:"ratio_to_limit"`
	// CPUNanos is the CPU time that an event takes, or a round trip, of all processes, in the median round. CPURatio is
	// what that is through the limit's, by round; nil: there is no limit that was measured in the same rounds.
	CPUNanos float64 `json:"cpu_ns_per_event"`
	CPURatio *Range  `json:"cpu_ratio_to_limit"`
	// LimitPauses is the number of PAUSE instructions between two looks with which the limit was best; null: the limit
	// doesn't poll.
	LimitPauses *int `json:"limit_pauses"`
	// Disco is what disco did in the same rounds; null: the row is disco's own, or a limit.
	Disco *Disco `json:"disco,omitempty"`
	// Remark is what a reader must know of the row.
	Remark string `json:"remark,omitempty"`
	// Note says why a row has no figures; then all of them are 0 or null.
	Note string `json:"note,omitempty"`

	spec      Spec
	rounds    []sample
	limits    []sample
	pauses    string // the limit's figures by its number of pauses
	histogram *hdrhistogram.Histogram
}

// RTT is the distribution of round trips over all rounds, ns.
type RTT struct {
	P50  int64 `json:"p50"`
	P90  int64 `json:"p90"`
	P99  int64 `json:"p99"`
	P999 int64 `json:"p999"`
	Max  int64 `json:"max"`
}

// Disco is disco's figures beside a row of another way.
type Disco struct {
	RTT           *RTT    `json:"rtt_ns"` // null: not a round trip
	RatePerSecond float64 `json:"rate_per_s"`
	// Ratio is disco's median round trip, or rate, through that of the row.
	Ratio Range `json:"ratio_to_row"`
}

// Range is the least, the median and the greatest value over the rounds.
type Range struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

// sample is the result of one measurement.
type sample struct {
	events    uint64 // events one way, or round trips
	trips     bool
	nanos     int64
	steady    float64 // events per second in the median slice; 0: there is none
	cpu       float64
	mallocs   uint64
	histogram *hdrhistogram.Histogram // nil: none
	rtt       *RTT                    // nil: none, or the histogram has it
}

// rate is events per second in the median slice, or round trips per second.
func (s sample) rate() float64 {
	if s.steady > 0 {
		return s.steady
	}
	return s.overall()
}

// overall is events, or round trips, per second of the whole run, including the time in which the machine ran other
// things.
func (s sample) overall() float64 {
	if s.nanos == 0 {
		return 0
	}
	return float64(s.events) * 1e9 / float64(s.nanos)
}

// transferred is the number of events that went from one side to the other.
func (s sample) transferred() float64 {
	if s.trips {
		return 2 * float64(s.events)
	}
	return float64(s.events)
}

// cpuNanos is the CPU time of an event, or of a round trip, ns; 0: there was none.
func (s sample) cpuNanos() float64 {
	if s.events == 0 {
		return 0
	}
	return s.cpu * 1e9 / float64(s.events)
}

// p50 is the median round trip, ns; 0: there is none.
func (s sample) p50() float64 {
	switch {
	case s.histogram != nil:
		return float64(s.histogram.ValueAtPercentile(50))
	case s.rtt != nil:
		return float64(s.rtt.P50)
	}
	return 0
}

// sampleOf adds the results of all pairs up.
func sampleOf(results []Result) (sample, error) {
	s := sample{trips: results[0].Trips}
	for _, r := range results {
		s.events += r.Events
		s.nanos = max(s.nanos, r.Nanos)
		s.steady += r.Steady
		s.cpu += r.CPU
		s.mallocs += r.Mallocs
		s.rtt = r.RTT
		if len(r.Histogram) == 0 {
			continue
		}
		h, err := hdrhistogram.Decode(r.Histogram)
		if err != nil {
			return s, fmt.Errorf("bench: a side's histogram: %w", err)
		}
		if s.histogram == nil {
			s.histogram = h
		} else {
			s.histogram.Merge(h)
		}
	}
	return s, nil
}

// RangeOf is the least, the middle and the greatest of some values.
func RangeOf(values []float64) Range {
	v := slices.Clone(values)
	slices.Sort(v)
	n := len(v)
	return Range{Min: v[0], Median: (v[(n-1)/2] + v[n/2]) / 2, Max: v[n-1]}
}

// each applies f to all rounds.
func each(rounds []sample, f func(sample) float64) Range {
	values := make([]float64, len(rounds))
	for i, s := range rounds {
		values[i] = f(s)
	}
	return RangeOf(values)
}

// newRow makes the row of a spec whose rounds have been measured.
func newRow(spec Spec, processes int, row, limit *tries, disco []sample) (Row, error) {
	r := rowOf(spec, processes)
	rounds := row.samples[row.best()]
	r.rounds, r.limits = rounds, limit.samples[limit.best()]
	for _, t := range []*tries{row, limit} { // one of them polls, the row only if it is a limit
		if text := t.text(); text != "" {
			r.pauses, r.LimitPauses = text, &t.pauses[t.best()]
		}
	}
	ratio, err := r.ratios()
	if err != nil {
		return Row{}, err
	}
	r.Ratio = &ratio
	r.sum()
	if len(disco) > 0 {
		r.Disco, err = r.beside(disco)
	}
	return r, err
}

// beside compares disco with the row, round by round.
func (r *Row) beside(disco []sample) (*Disco, error) {
	ratios := make([]float64, len(disco))
	for k, d := range disco {
		var err error
		if ratios[k], err = through(r.spec.By, "disco", d, r.Bench, r.rounds[k]); err != nil {
			return nil, err
		}
	}
	_, rtt := merged(disco)
	return &Disco{RTT: rtt, RatePerSecond: each(disco, sample.rate).Median, Ratio: RangeOf(ratios)}, nil
}

// merged is the distribution of round trips over all rounds; nil: there are none.
func merged(rounds []sample) (h *hdrhistogram.Histogram, rtt *RTT) {
	for _, s := range rounds {
		if s.histogram == nil {
			continue
		}
		if h == nil {
			h = newHistogram()
		}
		h.Merge(s.histogram)
	}
	switch {
	case h != nil:
		rtt = &RTT{P50: h.ValueAtPercentile(50), P90: h.ValueAtPercentile(90), P99: h.ValueAtPercentile(99),
			P999: h.ValueAtPercentile(99.9), Max: h.Max()}
	case rounds[0].rtt != nil:
		rtt = medianRTT(rounds)
	}
	return h, rtt
}

// ratios compares every round of the row with the limit of that round.
func (r *Row) ratios() (Range, error) {
	ratios := make([]float64, len(r.rounds))
	for k := range r.rounds {
		var limit sample
		if len(r.limits) > 0 {
			limit = r.limits[k]
		}
		var err error
		if ratios[k], err = r.spec.ratio(r.rounds[k], limit); err != nil {
			return Range{}, err
		}
	}
	return RangeOf(ratios), nil
}

// sum fills in what all rounds give together.
func (r *Row) sum() {
	rounds := r.rounds
	r.RatePerSecond = each(rounds, sample.rate).Median
	r.BytesPerSecond = r.bytes(r.RatePerSecond)
	r.CPUNanos, r.CPURatio = each(rounds, sample.cpuNanos).Median, r.cpuRatio()
	var transferred float64
	for _, s := range rounds {
		r.CPUSeconds += s.cpu
		r.Allocs += float64(s.mallocs)
		transferred += s.transferred()
	}
	if transferred > 0 {
		r.Allocs /= transferred
	}
	r.histogram, r.RTT = merged(rounds)
}

// cpuRatio is how much more CPU time an event takes than one of the limit in the same round.
func (r *Row) cpuRatio() *Range {
	if len(r.limits) != len(r.rounds) {
		return nil
	}
	ratios := make([]float64, len(r.rounds))
	for k, s := range r.rounds {
		limit := r.limits[k].cpuNanos()
		if limit == 0 {
			return nil
		}
		ratios[k] = s.cpuNanos() / limit
	}
	all := RangeOf(ratios)
	return &all
}

// medianRTT is the median of the rounds' figures.
func medianRTT(rounds []sample) *RTT {
	of := func(f func(*RTT) int64) int64 {
		return int64(each(rounds, func(s sample) float64 { return float64(f(s.rtt)) }).Median)
	}
	return &RTT{
		P50: of(func(r *RTT) int64 { return r.P50 }), P90: of(func(r *RTT) int64 { return r.P90 }),
		P99: of(func(r *RTT) int64 { return r.P99 }), P999: of(func(r *RTT) int64 { return r.P999 }),
		Max: of(func(r *RTT) int64 { return r.Max }),
	}
}

// rowOf is the part of a row that is known before it is measured.
func rowOf(spec Spec, processes int) Row {
	return Row{Bench: spec.Bench, PayloadBytes: spec.Row.Payload, Batch: spec.Row.Batch, Wait: spec.Row.Wait,
		Processes: processes, Limit: spec.LimitName, Note: spec.Absent, Remark: spec.Remark, spec: spec}
}

// bytes is the payload that a rate moves each second. A round trip carries the
// payload there and back, but for the row whose answer is empty.
func (r *Row) bytes(rate float64) float64 {
	b := rate * float64(r.PayloadBytes)
	if r.spec.Row.Job == JobLoan {
		b = rate * float64(min(r.PayloadBytes, tipBytes)) // no more was written and read
	}
	if len(r.rounds) > 0 && r.rounds[0].trips && r.spec.Row.Job != JobLoanTouch && r.spec.Row.Job != LimitTouch {
		b *= 2
	}
	return b
}

// WriteJSON writes the rows as one JSON list.
func WriteJSON(w io.Writer, rows []Row) error {
	if rows == nil {
		rows = []Row{}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(rows); err != nil {
		return fmt.Errorf("bench: writing JSON: %w", err)
	}
	return nil
}

// ReadJSON reads what WriteJSON wrote.
func ReadJSON(r io.Reader) ([]Row, error) {
	var rows []Row
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&rows); err != nil {
		return nil, fmt.Errorf("bench: reading JSON: %w: want the list of rows that --json writes", err)
	}
	return rows, nil
}
