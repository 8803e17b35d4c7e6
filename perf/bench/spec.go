// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
)

// Spec describes how one row is measured, and against what.
type Spec struct {
	Bench     string // the row's name
	Row       Task   // what is measured; Payload, Batch and Wait are the row's
	Pairs     int    // pairs that do it at the same time; 0: 1
	Processes int    // that take part; 0: two in each pair
	Remark    string // what a reader must know of the row; "": nothing
	Limit     Task   // what it is measured against; no Job: the row is a limit itself
	LimitName string // as the row prints it
	Limits    int    // pairs that measure the limit at the same time; 0: 1
	By        Compare
	Goal      Goal
	// Disco is what disco does in the place of the row, measured in the same rounds; no Job: nothing.
	Disco Task
	// Measure, if not nil, does a round of the row in its own way. An error is why the row is absent, as programs of
	// other projects may be, unless MeasureLimit does the limit's round in the same way.
	Measure      func(ctx context.Context, t Task) (Result, error)
	MeasureLimit func(ctx context.Context, t Task) (Result, error)
	// Absent is the reason why the row can't be measured here. "": it can.
	Absent string
}

// Compare selects the figures of a ratio.
type Compare uint8

const (
	// ByTrip: median round trip of the row through that of the limit; less is better.
	ByTrip Compare = iota
	// ByRate: events per second of the row through those of the limit; more is better.
	ByRate
	// ByCore: CPU seconds through seconds; less is better.
	ByCore
)

// better describes which direction of a ratio is better.
func (c Compare) better() string {
	if c == ByRate {
		return "more is better"
	}
	return "less is better"
}

// Goal is what a row should reach. A field that is 0 sets no goal.
type Goal struct {
	RatioMax float64 // the median ratio is at most this
	RatioMin float64 // or at least this
	RateMin  float64 // events per second
	BytesMin float64 // bytes per second
}

// check reports whether a row reaches the goal, and the goal in words.
func (g Goal) check(r *Row) (met bool, text string) {
	met = true
	add := func(ok bool, format string, args ...any) {
		if text != "" {
			text += " and "
		}
		text += fmt.Sprintf(format, args...)
		met = met && ok
	}
	if g.RatioMax > 0 {
		add(r.Ratio.Median <= g.RatioMax, "at most %.4g x", g.RatioMax)
	}
	if g.RatioMin > 0 {
		add(r.Ratio.Median >= g.RatioMin, "at least %.4g x", g.RatioMin)
	}
	if g.RateMin > 0 {
		add(r.RatePerSecond >= g.RateMin, "%s", rateText(g.RateMin))
	}
	if g.BytesMin > 0 {
		add(r.BytesPerSecond >= g.BytesMin, "%s", bytesText(g.BytesMin))
	}
	return met, text
}

// Measure measures a row and its limit in turn: limit, row, limit, row, …; with Spec.Disco: limit, row, disco, limit,
// row, disco, …
func Measure(ctx context.Context, f *Fleet, spec Spec, rounds int) (Row, error) {
	processes := 1
	if f.cfg.Processes {
		if processes = spec.Processes; processes == 0 {
			processes = 2 * max(1, spec.Pairs)
		}
	}
	if spec.Absent != "" {
		return rowOf(spec, processes), nil
	}
	limit, row, disco := f.tries(spec.Limit, spec.Limits), f.tries(spec.Row, spec.Pairs), f.tries(spec.Disco, 0)
	row.own, limit.own = spec.Measure, spec.MeasureLimit
	foreign := spec.Measure != nil && spec.MeasureLimit == nil
	for range rounds {
		if err := limit.round(ctx); err != nil {
			return Row{}, fmt.Errorf("%s, its limit: %w", spec.Bench, err)
		}
		err := row.round(ctx)
		if err != nil && foreign && ctx.Err() == nil {
			spec.Absent = err.Error() // a program of another project: the other rows continue
			return rowOf(spec, processes), nil
		}
		if err != nil {
			return Row{}, fmt.Errorf("%s: %w", spec.Bench, err)
		}
		if err := disco.round(ctx); err != nil {
			return Row{}, fmt.Errorf("%s, disco beside it: %w", spec.Bench, err)
		}
	}
	r, err := newRow(spec, processes, &row, &limit, disco.samples[0])
	if err != nil && foreign {
		spec.Absent = err.Error()
		return rowOf(spec, processes), nil
	}
	return r, err
}

// ratio compares a row with the limit of its round.
func (spec *Spec) ratio(row, limit sample) (float64, error) {
	if spec.By == ByCore && row.nanos > 0 {
		return row.cpu / (float64(row.nanos) / 1e9), nil
	}
	if spec.Limit.Job == "" {
		return 1, nil
	}
	return through(spec.By, spec.Bench, row, spec.LimitName, limit)
}

// through is a figure of a, a round trip or a rate, divided by that of b.
func through(by Compare, nameA string, a sample, nameB string, b sample) (float64, error) {
	if by == ByTrip {
		if a.p50() == 0 || b.p50() == 0 {
			return 0, fmt.Errorf("bench: %s: no round trip was timed: give it more --time", nameA)
		}
		return a.p50() / b.p50(), nil
	}
	if b.rate() <= 0 {
		return 0, fmt.Errorf("bench: %s: %s beside it came to nothing: give it more --time", nameA, nameB)
	}
	return a.rate() / b.rate(), nil
}
