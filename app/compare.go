// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/disco-sim/disco/internal/launch"
)

// compareRounds is how often --compare runs each of the two.
const compareRounds = 5

// comparison is one worker beside several: wall times of the rounds, in their order, and
// how many times faster several were in each.
type comparison struct {
	Rounds     int       `json:"rounds"`
	Sequential []float64 `json:"sequential_wall_s"`
	Parallel   []float64 `json:"parallel_wall_s"`
	Min        float64   `json:"speedup_min"`
	Median     float64   `json:"speedup_median"`
	Max        float64   `json:"speedup_max"`
	TooShort   bool      `json:"too_short"` // then there are no speedups: they are 0
}

// comparedSeconds is how long a run must take at least to be compared: below, the result depends on when the system
// schedules the processes.
const comparedSeconds = 0.1

// compare runs the scenario on one worker and as configured in l, alternately, and returns the outcome of the last
// parallel run. Traces and profiles are written by that run only. Both must give the same results.
func compare(ctx context.Context, cfg launch.Config, l *launch.Launch, screen *screen) (*launch.Outcome, *comparison,
	error) {
	parallel := cfg
	parallel.Trace, parallel.Perfetto, parallel.Profiles, parallel.LastThere = "", "", "", false
	sequential := parallel
	sequential.Workers, sequential.Pins, sequential.Partition, sequential.Spread = 1, nil, "", ""
	c := &comparison{Rounds: compareRounds}
	for round := range compareRounds {
		screen.next("", false)
		one, err := prepare(sequential)
		if err != nil {
			return nil, nil, err
		}
		a, err := simulate(ctx, one, cfg.Stop, screen)
		if err != nil || a.Interrupted {
			return a, nil, err
		}
		screen.next("", false)
		many := l
		if round < compareRounds-1 {
			if many, err = prepare(parallel); err != nil {
				return nil, nil, err
			}
		}
		b, err := simulate(ctx, many, cfg.Stop, screen)
		if err != nil || b.Interrupted {
			return b, nil, err
		}
		if a.TraceHash != b.TraceHash {
			return nil, nil, fmt.Errorf("1 worker gives trace hash %s, %d workers give %s: a model whose handlers "+
				"use anything but their events and random streams, or a defect of disco", a.TraceHash, many.Workers(),
				b.TraceHash)
		}
		c.Sequential, c.Parallel = append(c.Sequential, a.WallSeconds), append(c.Parallel, b.WallSeconds)
		if round == compareRounds-1 {
			c.conclude()
			return b, c, nil
		}
	}
	panic("app: compare has no last round")
}

func (c *comparison) conclude() {
	if c.TooShort = min(slices.Min(c.Sequential), slices.Min(c.Parallel)) < comparedSeconds; c.TooShort {
		return
	}
	ratios := make([]float64, len(c.Parallel))
	for i := range ratios {
		ratios[i] = c.Sequential[i] / c.Parallel[i]
	}
	slices.Sort(ratios)
	c.Min, c.Median, c.Max = ratios[0], ratios[len(ratios)/2], ratios[len(ratios)-1]
}

// add puts the comparison into the document; nil adds nothing.
func (d *document) add(c *comparison) {
	if c == nil {
		return
	}
	d.Comparison = c
	if !c.TooShort {
		d.Speedup = &c.Median
	}
}

// comparisonLine writes one line of text.
func comparisonLine(w io.Writer, d *document) {
	c := d.Comparison
	switch {
	case c == nil:
	case c.TooShort:
		fmt.Fprintf(w, "too short to compare: one worker took %s, %d workers %s; each should take %g s or "+
			"more: simulate a longer time\n",
			span(c.Sequential), d.Workers, span(c.Parallel), comparedSeconds)
	default:
		fmt.Fprintf(w, "%.2f times as fast as one worker (%.2f to %.2f in %d rounds)\n", c.Median, c.Min, c.Max,
			c.Rounds)
	}
}

// span is the least and the largest of some times.
func span(seconds []float64) string {
	return fmt.Sprintf("%.2g to %.2g s", slices.Min(seconds), slices.Max(seconds))
}
