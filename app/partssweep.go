// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/sweep"
	"github.com/disco-sim/disco/scenario"
)

// mergePoints tells which parts are those of which point of a sweep: points says it of some, and else they are those
// whose run has the point's settings. The sweep's file is that of all.
func (p *program) mergePoints(ctx context.Context, o *order, points []int) error {
	_, grid, err := gridOf(o.sweeps)
	if err != nil {
		return err
	}
	m := o.merging
	for range grid {
		m.points = append(m.points, &merging{resumed: m.resumed, partial: m.partial, file: m.file})
	}
	for i, dir := range m.dirs {
		at := points[i]
		if at == unknownPoint || i == 0 {
			run, err := p.runAt(ctx, dir)
			if err != nil {
				return err
			}
			if i == 0 {
				o.file = cmp.Or(m.file, run.File)
			}
			if at == unknownPoint {
				at = pointOf(run, grid)
			}
		}
		if at < 0 || at >= len(grid) {
			return usage("%v: found a part of no point of the sweep, want parts of points of --sweep", dir)
		}
		m.points[at].dirs = append(m.points[at].dirs, dir)
	}
	for i, of := range m.points {
		if len(of.dirs) == 0 && !m.partial {
			return fmt.Errorf("there are no parts of the point %v, the %d. of %d: simulate it, or merge those that "+
				"are there with --partial", grid[i], i+1, len(grid))
		}
	}
	return nil
}

// runAt is the run of a part.
func (p *program) runAt(ctx context.Context, dir string) (run *checkpoint.Run, err error) {
	m := &merging{dirs: []string{dir}}
	leave, err := p.openParts(ctx, m)
	if err == nil {
		run = m.parts[0].Run()
	}
	return run, errors.Join(err, leave())
}

// pointOf is the point of a grid whose settings a run has.
func pointOf(run *checkpoint.Run, grid []sweep.Point) int {
	for i, point := range slices.Backward(grid) {
		if hasPoint(run, point) {
			return i
		}
	}
	return unknownPoint
}

// hasPoint tells whether a run has the settings of a point: the last one of a field counts. One that has found its
// warm-up has that in the place of what asked for it; with the same one as a given time it is at another point.
func hasPoint(run *checkpoint.Run, point sweep.Point) bool {
	set := map[string]string{}
	for _, s := range run.Settings {
		set[s.Key] = s.Value
	}
	for _, s := range point {
		value, ok := set[s.Key]
		same := ok && value == s.Value
		if s.Key == scenario.WarmupField && run.Warmup != nil {
			same = findsWarmup(s)
		}
		if !same {
			return false
		}
	}
	return true
}

// runOne runs what is at a point, or puts its parts together.
func (p *program) runOne(ctx context.Context, o *order, run pointRun, point sweep.Point, screen *screen) (
	row *sweepRow, err error) {
	if run.parts == nil {
		return p.runPoint(ctx, o, run.config, point, screen)
	}
	cfg, leave, err := p.mergePoint(ctx, o, run.parts, point)
	if err == nil {
		cfg.LastThere = run.config.LastThere
		one := *o
		one.merging = run.parts
		row, err = p.runPoint(ctx, &one, cfg, point, screen)
	}
	return row, errors.Join(err, leave())
}

// mergePoint is the run of one point, made of its parts, which are open until leave is called.
func (p *program) mergePoint(ctx context.Context, o *order, m *merging, point sweep.Point) (cfg launch.Config,
	leave func() error, err error) {
	leave, err = p.openParts(ctx, m)
	if err != nil {
		return cfg, leave, err
	}
	for _, part := range m.parts {
		if !hasPoint(part.Run(), point) {
			return cfg, leave, usage("%v: found a part of another point than %v", part, point)
		}
	}
	one := *o
	one.merging = m
	if err := one.mergeParts(ctx); err != nil {
		return cfg, leave, err
	}
	cfg = one.config
	first := &o.merging.first
	if first.Replications == 0 {
		*first = cfg
		first.Resume = nil
		o.config.Replications, o.config.Seed, o.config.Horizon = first.Replications, first.Seed, first.Horizon
		o.config.File, o.config.Text = first.File, first.Text
	}
	if cfg.Replications != first.Replications || cfg.Seed != first.Seed {
		return cfg, leave, usage("%v: found a part of %d replications with seed %d, others are of %d with seed %d: "+
			"want parts of one sweep", m.parts[0], cfg.Replications, cfg.Seed, first.Replications, first.Seed)
	}
	l, err := prepare(cfg)
	if err == nil {
		err = one.checkStored(l)
	}
	return cfg, leave, err
}
