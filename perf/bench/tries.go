// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// tries are the samples of one task in all rounds. A job that polls is measured in every round with each of its
// numbers of pauses between two looks, one after the other, and together as long as a job that doesn't.
type tries struct {
	fleet   *Fleet
	task    Task
	pairs   int
	own     func(context.Context, Task) (Result, error) // nil: the fleet measures
	pauses  []int
	samples [][]sample // by number of pauses, then by round
}

// tries prepares the samples of a task; without a job there are none.
func (f *Fleet) tries(t Task, pairs int) tries {
	s := tries{fleet: f, task: t, pairs: max(1, pairs)}
	if s.pauses = f.jobs[t.Job].Pauses; s.pauses == nil {
		s.pauses = []int{t.Pauses}
	}
	s.samples = make([][]sample, len(s.pauses))
	s.task.Time = max(t.Time/time.Duration(len(s.pauses)), time.Microsecond)
	return s
}

// round adds one sample for each number of pauses.
func (s *tries) round(ctx context.Context) error {
	if s.task.Job == "" && s.own == nil {
		return nil
	}
	for i, n := range s.pauses {
		t := s.task
		t.Pauses = n
		one, err := s.fleet.sample(ctx, t, s.pairs, s.own)
		if err != nil {
			return err
		}
		s.samples[i] = append(s.samples[i], one)
	}
	return nil
}

// sample does one measurement.
func (f *Fleet) sample(ctx context.Context, t Task, pairs int, own func(context.Context, Task) (Result, error)) (sample,
	error) {
	if own != nil {
		r, err := own(ctx, t)
		if err != nil {
			return sample{}, err
		}
		return sampleOf([]Result{r})
	}
	tasks := make([]Task, pairs)
	for i := range tasks {
		tasks[i] = t
	}
	results, err := f.Run(ctx, tasks)
	if err != nil {
		return sample{}, err
	}
	return sampleOf(results)
}

// best is the index of the number of pauses with the best median over all rounds. It is one choice for all rounds: the
// best of every single round would be a figure that no loop reaches.
func (s *tries) best() (best int) {
	for i := range s.samples {
		if len(s.samples[i]) > 0 && better(s.samples[i], s.samples[best]) {
			best = i
		}
	}
	return best
}

// better reports whether the samples a are better than b by their medians: shorter round trips, or a higher rate.
func better(a, b []sample) bool {
	if a[0].trips {
		// A try without a round trip isn't the best one.
		p50 := each(a, sample.p50).Median
		return p50 > 0 && (p50 < each(b, sample.p50).Median || each(b, sample.p50).Median == 0)
	}
	return each(a, sample.rate).Median > each(b, sample.rate).Median
}

// text names the figures of all numbers of pauses; "": there is one only.
func (s *tries) text() string {
	if len(s.pauses) < 2 || len(s.samples[0]) == 0 {
		return ""
	}
	var all []string
	for i, n := range s.pauses {
		figure := rateText(each(s.samples[i], sample.rate).Median)
		if s.samples[i][0].trips {
			figure = nanosText(each(s.samples[i], sample.p50).Median)
		}
		all = append(all, fmt.Sprintf("%d: %s", n, figure))
	}
	return strings.Join(all, ", ")
}
