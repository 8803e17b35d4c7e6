// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/disco-sim/disco/internal/cputime"
)

// span is the least, the median and the greatest value over the rounds.
type span struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

// spanOf is the span of some values.
func spanOf(values []float64) *span {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return &span{Min: v[0], Median: (v[(n-1)/2] + v[n/2]) / 2, Max: v[n-1]}
}

func (s *span) String() string { return fmt.Sprintf("%.3g (%.3g to %.3g)", s.Median, s.Min, s.Max) }

// row is one line of results. Times are seconds, processor time that of a server's processes, too.
type row struct {
	Bench    string `json:"bench"`
	Engine   string `json:"engine"`
	Rounds   int    `json:"rounds"`
	Wall     *span  `json:"wall_s,omitempty"`
	CPU      *span  `json:"cpu_s,omitempty"`
	BareWall *span  `json:"bare_wall_s,omitempty"`
	BareCPU  *span  `json:"bare_cpu_s,omitempty"`
	Ratio    *span  `json:"wall_ratio,omitempty"` // ours through bare, round by round
	CPURatio *span  `json:"cpu_ratio,omitempty"`
	Bytes    *span  `json:"bytes_per_edge,omitempty"`
	Goal     string `json:"goal,omitempty"`
	Reached  *bool  `json:"reached,omitempty"` // by the median
	Note     string `json:"note,omitempty"`    // why there are no figures
}

// String is a line of text.
func (r *row) String() string {
	text := fmt.Sprintf("%-8s %-14s ", r.Engine, r.Bench)
	switch {
	case r.Bytes != nil:
		text += fmt.Sprintf("%v bytes an edge", r.Bytes)
	case r.Ratio != nil:
		text += fmt.Sprintf("%v s, cpu %v s; bare %v s, cpu %v s; ratio %v, cpu %v", r.Wall, r.CPU, r.BareWall,
			r.BareCPU, r.Ratio, r.CPURatio)
	}
	if r.Goal != "" {
		text += fmt.Sprintf("; goal %s: %s", r.Goal, map[bool]string{true: "reached", false: "MISSED"}[*r.Reached])
	}
	return text
}

// goal is what a row's median should be at most: seconds of wall time, a ratio of processor times, or bytes.
type goal struct {
	seconds, ratio, bytes float64
	wall                  bool // the ratio of wall times: a server does the work
}

// job is what is measured: a side of ours and a bare one, which starts and stops the watch around what counts.
type job struct {
	name       string
	ours, bare func(context.Context, *watch) error
	bytes      func() float64 // in place of both
	server     func() float64
	goal       goal
}

// watch measures what is between its start and its stop.
type watch struct {
	wall, cpu float64
	began     time.Time
	cpuBegan  float64
	server    func() float64 // processor time of a server, nil: there is none
}

func (w *watch) processors() float64 {
	if w.server == nil {
		return cputime.Self()
	}
	return cputime.Self() + w.server()
}

func (w *watch) start() { w.began, w.cpuBegan = time.Now(), w.processors() }

func (w *watch) stop() {
	w.wall, w.cpu = w.wall+time.Since(w.began).Seconds(), w.cpu+w.processors()-w.cpuBegan
}

// timed is a side of which all counts.
func timed(do func(context.Context) error) func(context.Context, *watch) error {
	return func(ctx context.Context, w *watch) error {
		w.start()
		defer w.stop()
		return do(ctx)
	}
}

// measure makes a row, in rounds in which both sides take turns.
func measure(ctx context.Context, rounds int, engine string, j *job) (*row, error) {
	r := &row{Bench: j.name, Engine: engine, Rounds: rounds}
	if j.bytes != nil {
		r.Bytes = spanOf([]float64{j.bytes()})
	} else {
		var values [6][]float64
		for n := range rounds {
			took := [2]watch{{server: j.server}, {server: j.server}}
			for k := range 2 {
				side := (n + k) % 2
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				runtime.GC() // what the side before has left
				if err := []func(context.Context, *watch) error{j.ours, j.bare}[side](ctx, &took[side]); err != nil {
					return nil, err
				}
			}
			ours, bare := took[0], took[1]
			for i, x := range []float64{ours.wall, ours.cpu, bare.wall, bare.cpu, ours.wall / bare.wall,
				ratio(ours.cpu, bare.cpu)} {
				values[i] = append(values[i], x)
			}
		}
		for i, to := range []**span{&r.Wall, &r.CPU, &r.BareWall, &r.BareCPU, &r.Ratio, &r.CPURatio} {
			*to = spanOf(values[i])
		}
	}
	r.hold(j.goal)
	return r, nil
}

// ratio is that of two times by a clock of processors that may not have moved.
func ratio(a, b float64) float64 { return math.Max(a, 1e-6) / math.Max(b, 1e-6) }

// hold holds a row against its goal.
func (r *row) hold(g goal) {
	var is bool
	switch {
	case g.seconds > 0:
		r.Goal, is = fmt.Sprintf("at most %v s", g.seconds), r.Wall.Median <= g.seconds
	case g.ratio > 0:
		of := r.CPURatio
		if g.wall {
			of = r.Ratio
		}
		r.Goal, is = fmt.Sprintf("at most %v x bare", g.ratio), of.Median <= g.ratio
	case g.bytes > 0:
		r.Goal, is = fmt.Sprintf("at most %v bytes", g.bytes), r.Bytes.Median <= g.bytes
	default:
		return
	}
	r.Reached = &is
}
