package app

import (
	"context"
	"fmt"
	"slices"

	"github.com/disco-sim/disco/launch"
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
}

// compare runs the scenario on one worker and as l has it, in turn, and returns the
// outcome of the last parallel run. A trace and profiles are written by that run only.
// Both must give the same answer.
func compare(ctx context.Context, cfg launch.Config, l *launch.Launch) (*launch.Outcome, *comparison, error) {
	parallel := cfg
	parallel.Trace, parallel.Profiles = "", ""
	sequential := parallel
	sequential.Workers, sequential.Pins, sequential.Partition, sequential.Spread = 1, nil, "", ""
	c := &comparison{Rounds: compareRounds}
	for round := range compareRounds {
		one, err := prepare(sequential)
		if err != nil {
			return nil, nil, err
		}
		a, err := one.Run(ctx)
		if err != nil || a.Interrupted {
			return a, nil, err
		}
		many := l
		if round < compareRounds-1 {
			if many, err = prepare(parallel); err != nil {
				return nil, nil, err
			}
		}
		b, err := many.Run(ctx)
		if err != nil || b.Interrupted {
			return b, nil, err
		}
		if a.TraceHash != b.TraceHash {
			return nil, nil, fmt.Errorf("1 worker gives trace hash %s, %d workers give %s: a model whose handlers use anything but their events and random streams, or a defect of disco", a.TraceHash, many.Workers(), b.TraceHash)
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
	d.Comparison, d.Speedup = c, &c.Median
}

// comparison writes one line for people.
func (p *program) comparison(d *document) {
	if c := d.Comparison; c != nil {
		fmt.Fprintf(p.stdout, "%.2f times as fast as one worker (%.2f to %.2f in %d rounds)\n", c.Median, c.Min, c.Max, c.Rounds)
	}
}
