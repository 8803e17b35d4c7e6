// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/launch"
	tables "github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/scenario"
	"github.com/urfave/cli/v2"
)

func warmupFlag() cli.Flag {
	return textFlag(groupWhat, scenario.WarmupField, "the scenario's own", "simulated `SECONDS` before which nothing "+
		"is counted; "+scenario.WarmupAuto+": as many as a pilot replication shows to be needed")
}

// warmupSetting is --warmup as a setting of the scenario; none where it isn't given, or the command hasn't got it.
func warmupSetting(c *cli.Context) []scenario.Setting {
	if !c.IsSet(scenario.WarmupField) {
		return nil
	}
	return []scenario.Setting{{Key: scenario.WarmupField, Value: c.String(scenario.WarmupField)}}
}

// checkWarmup refuses what is no time, before it is put into a file.
func checkWarmup(c *cli.Context) error {
	text := c.String(scenario.WarmupField)
	if !c.IsSet(scenario.WarmupField) || text == scenario.WarmupAuto {
		return nil
	}
	if x, err := strconv.ParseFloat(text, 64); err != nil || !(x >= 0) || math.IsInf(x, 1) {
		return usage("--%s: found %q, want a finite number of simulated seconds, 0 or more, or %s",
			scenario.WarmupField, text, scenario.WarmupAuto)
	}
	return nil
}

// warmupRow is a warm-up that was found, in JSON.
type warmupRow struct {
	Seconds float64 `json:"seconds"`
	Method  string  `json:"method"`
	By      string  `json:"by"` // the course that took longest to settle
	Pilot   struct {
		Seed    uint64  `json:"seed"`
		Windows int     `json:"windows"` // of that course
		Seconds float64 `json:"window_s"`
	} `json:"pilot"`
}

// stored is what run.json says of it.
func (r *warmupRow) stored() *checkpoint.Warmup {
	if r == nil {
		return nil
	}
	return &checkpoint.Warmup{Seconds: r.Seconds, Method: r.Method, By: r.By, Seed: r.Pilot.Seed,
		Windows: int64(r.Pilot.Windows), Window: r.Pilot.Seconds}
}

// storedWarmup is the warm-up that a run has found, by its run.json; nil: it was given, or there is none.
func storedWarmup(run *checkpoint.Run) *warmupRow {
	w := run.Warmup
	if w == nil {
		return nil
	}
	row := &warmupRow{Seconds: w.Seconds, Method: w.Method, By: w.By}
	row.Pilot.Seed, row.Pilot.Windows, row.Pilot.Seconds = w.Seed, int(w.Windows), w.Window
	return row
}

// foundBefore is the warm-up that was found by the run that this one goes on with or from, or is put together from
// parts of: what goes on may have no other one.
func (o *order) foundBefore() *warmupRow {
	switch {
	case o.merging != nil && len(o.merging.parts) > 0:
		return storedWarmup(o.merging.parts[0].Run())
	case o.whatIf != nil:
		return storedWarmup(o.whatIf.repo.Run())
	case o.saving != nil && o.saving.resumed != nil:
		return storedWarmup(o.saving.repo.Run())
	}
	return nil
}

// findsWarmup reports whether the value of a field is that by which a run finds its warm-up.
func findsWarmup(s scenario.Setting) bool {
	return s.Key == scenario.WarmupField && strings.Trim(s.Value, ` "'`) == scenario.WarmupAuto
}

// String says in a line what was found, and how.
func (r *warmupRow) String() string {
	return fmt.Sprintf("warm-up of %s, by MSER-5 on the course of %s in a pilot replication (seed %d, %s of %s)",
		tables.Seconds(r.Seconds), r.By, r.Pilot.Seed, tables.Plural(r.Pilot.Windows, "window"),
		tables.Seconds(r.Pilot.Seconds))
}

// settles reports whether the warm-up of a scenario is still to be found.
func settles(s scenario.Scenario) bool {
	w, ok := s.(scenario.Settler)
	return ok && w.Settles()
}

// settle finds the warm-up of a scenario that leaves it to a look at a replication: it runs a pilot, which has a seed
// of its own, so that no replication that is counted has had a say in what is counted of it. What was found is put into
// the scenario as --set would, so that workers, checkpoints and runs that go on have it as they have any setting.
func (o *order) settle(ctx context.Context, cfg *launch.Config, l *launch.Launch, screen *screen) (*launch.Launch,
	*warmupRow, error) {
	if !settles(l.Scenario()) {
		return l, o.foundBefore(), nil
	}
	pilot := *cfg
	pilot.Seed, pilot.Replications, pilot.Series, pilot.LastThere = pilotSeed(cfg.Seed), 1, true, false
	pilot.Only = nil // a part of a run counts from when on the run does: its pilot is the same
	pilot.Trace, pilot.Records, pilot.Journal, pilot.Profiles = "", nil, nil, ""
	pilot.Checkpoint, pilot.Resume, pilot.Legs, pilot.Each, pilot.Ready, pilot.Answers = nil, nil, nil, nil, nil, nil
	pilot.Enough, pilot.SoFar, pilot.Phases = nil, nil, nil
	first, err := prepare(pilot)
	if err != nil {
		return nil, nil, err
	}
	out, err := simulate(ctx, first, cfg.Stop, screen)
	screen.clear()
	if err != nil {
		return nil, nil, fmt.Errorf("the pilot replication for the warm-up: %w", err)
	}
	if out.Interrupted {
		return nil, nil, fmt.Errorf("%w in the pilot replication for the warm-up, before anything was counted",
			errInterrupted)
	}
	row, err := settled(first.Scenario().(scenario.Settler), out.Summary.(scenario.Serial))
	if err != nil {
		return nil, nil, err
	}
	row.Pilot.Seed = pilot.Seed
	value := strconv.FormatFloat(row.Seconds, 'g', -1, 64)
	cfg.Set = append(slices.DeleteFunc(slices.Clone(cfg.Set), func(s scenario.Setting) bool {
		return s.Key == scenario.WarmupField
	}), scenario.Setting{Key: scenario.WarmupField, Value: value})
	l, err = prepare(*cfg)
	screen.clear()
	return l, row, err
}

// errUnsettled is about a pilot replication that goes on to change.
var errUnsettled = errors.New("the warm-up can't be found: the run is too short for it")

// settled is the warm-up behind which all courses are steady: the time series of a scenario that tell how long it takes
// to forget how it began.
func settled(s scenario.Settler, results scenario.Serial) (*warmupRow, error) {
	row := &warmupRow{Method: "MSER-5", Seconds: -1}
	var unsettled []string
	results.Series(func(c *scenario.Series) bool {
		if len(c.Values) == 0 || !s.Course(c) {
			return true
		}
		name := c.Name
		if c.Of != "" {
			name = c.Of + "/" + name
		}
		cut, ok := measure.MSER(unbroken(c.Values))
		if !ok {
			unsettled = append(unsettled, name)
		} else if at := c.Edges[cut]; at > row.Seconds {
			row.Seconds, row.By = at, name
			row.Pilot.Windows, row.Pilot.Seconds = len(c.Values), c.Edges[1]-c.Edges[0]
		}
		return true
	})
	const shown = 3
	switch {
	case len(unsettled) > 0:
		return nil, fmt.Errorf("%w: in the pilot replication %s went on to change in the second half; give a longer "+
			"--horizon, or a time for --warmup", errUnsettled,
			strings.Join(unsettled[:min(shown, len(unsettled))], ", "))
	case row.Seconds < 0:
		return nil, fmt.Errorf("%w: the model measures nothing in which it could be seen; give a time for --warmup",
			errUnsettled)
	}
	return row, nil
}

// unbroken gives windows without a value that of the one before, 0 at first.
func unbroken(values []float64) []float64 {
	all, last := make([]float64, len(values)), 0.0
	for i, x := range values {
		if !math.IsNaN(x) {
			last = x
		}
		all[i] = last
	}
	return all
}

// pilotSeed is the seed of the pilot replication of a run: another one, which the run's own gives (the mix of
// SplitMix64: G. L. Steele, D. Lea and C. H. Flood, Fast splittable pseudorandom number generators, OOPSLA 2014).
func pilotSeed(seed uint64) uint64 {
	z := seed + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
