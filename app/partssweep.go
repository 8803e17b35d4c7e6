// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/sweep"
)

// mergePoints tells which parts are those of which point of a sweep: the ones whose run has the point's settings. The
// sweep's file is that of all.
func (o *order) mergePoints() error {
	_, points, err := gridOf(o.sweeps)
	if err != nil {
		return err
	}
	m := o.merging
	for range points {
		m.points = append(m.points, &merging{resumed: m.resumed, partial: m.partial})
	}
	for _, part := range m.parts {
		at := -1
		for i, point := range points {
			if hasPoint(part.Run(), point) {
				at = i
			}
		}
		if at < 0 {
			return usage("%v: found a part of no point of the sweep, want parts of points of --sweep", part)
		}
		m.points[at].parts = append(m.points[at].parts, part)
	}
	for i, of := range m.points {
		if len(of.parts) == 0 && !m.partial {
			return fmt.Errorf("there are no parts of the point %v, the %d. of %d: simulate it, or merge those that "+
				"are there with --partial", points[i], i+1, len(points))
		}
	}
	o.file = m.parts[0].Run().File
	return nil
}

// hasPoint tells whether a run has the settings of a point: the last one of a field counts.
func hasPoint(run *checkpoint.Run, point sweep.Point) bool {
	set := map[string]string{}
	for _, s := range run.Settings {
		set[s.Key] = s.Value
	}
	for _, s := range point {
		if value, ok := set[s.Key]; !ok || value != s.Value {
			return false
		}
	}
	return true
}

// mergePoint is the run of one point, made of its parts; false: there are none. first is that of the first point that
// has some.
func (p *program) mergePoint(ctx context.Context, o *order, m *merging, first *launch.Config) (cfg launch.Config,
	ok bool, err error) {
	if len(m.parts) == 0 {
		return cfg, false, nil
	}
	one := *o
	one.merging = m
	if err := one.mergeParts(ctx); err != nil {
		return cfg, false, err
	}
	cfg = one.config
	if first.Replications == 0 {
		*first = cfg
	}
	if cfg.Replications != first.Replications || cfg.Seed != first.Seed {
		return cfg, false, usage("%v: found a part of %d replications with seed %d, others are of %d with seed %d: "+
			"want parts of one sweep", m.parts[0], cfg.Replications, cfg.Seed, first.Replications, first.Seed)
	}
	l, err := prepare(cfg)
	if err == nil {
		err = one.checkStored(l)
	}
	return cfg, err == nil, err
}
