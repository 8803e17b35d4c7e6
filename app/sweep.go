// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/sweep"
	"github.com/disco-sim/disco/model/overview"
	"github.com/disco-sim/disco/scenario"
)

// checkSweep refuses what doesn't go together with a sweep, or only with one.
func (o *order) checkSweep() error {
	switch {
	case o.compare && o.config.Workers < 2 && (o.elsewhere == nil || o.elsewhere.workers == 1):
		return usage("--compare is about several workers and one: give --workers 2 or more")
	case o.compare && len(o.sweeps) > 0:
		return usage("--compare and --sweep don't go together: compare one point at a time")
	case o.records != nil && (o.compare || len(o.sweeps) > 0):
		return usage("--records goes with one run: found it with %s, want to record one point at a time",
			map[bool]string{true: "--compare", false: "--sweep"}[o.compare])
	case o.json == "-" && o.csv == "-":
		return usage("--json and --csv both ask for standard output: give one of them a file")
	case len(o.sweeps) == 0 && o.columns != "":
		return usage("--columns is for the table of a --sweep: --json has all results of one run")
	case o.tables != nil && o.quiet():
		return usage("--tables: found it with %s, want it without: standard output has nothing else then",
			map[bool]string{true: "--json -", false: "--csv -"}[o.json == "-"])
	case len(o.sweeps) == 0:
		return nil
	case o.tables != nil:
		return usage("--tables and --sweep don't go together: a sweep has one table, --columns chooses its columns")
	case o.config.Trace != "":
		return usage("--trace and --sweep don't go together: trace one point at a time")
	case o.config.Perfetto != "":
		return usage("--trace-perfetto and --sweep don't go together: trace one point at a time")
	case o.phases:
		return usage("--phases and --sweep don't go together: --json has the phases of each point")
	case o.config.Profiles != "":
		return usage("--cpuprofile and --sweep don't go together: profile one point at a time")
	}
	return nil
}

// checkCSV refuses --csv for one run of a scenario whose results are no table.
func (o *order) checkCSV(s scenario.Scenario) error {
	if _, ok := s.(scenario.Tabular); o.csv != "" && !ok {
		return usage("--csv is for the table of a --sweep: use --json for one run")
	}
	return nil
}

// sweepDocument is the JSON of a sweep.
type sweepDocument struct {
	File        string      `json:"file"`
	Sweep       []axisRow   `json:"sweep"`
	Points      int         `json:"points"` // of the whole grid
	Interrupted bool        `json:"interrupted"`
	Variant     *variantRow `json:"variant,omitempty"` // of variants: what they go on from; the first row is the base
	Rows        []sweepRow  `json:"rows"`

	columns string // asked for
}

type axisRow struct {
	Key    string            `json:"key"`
	Values []json.RawMessage `json:"values"`
}

// sweepRow is one run of a sweep: its point, and all that the JSON of one run has.
type sweepRow struct {
	Point map[string]json.RawMessage `json:"point"`
	*document
	Differences []pairedRow `json:"differences,omitempty"` // of a variant, from the base

	at    sweep.Point
	cells []cell   // of the table
	left  []string // lists that have no columns

	figures *figures       // of each replication; nil: they aren't needed
	shown   overview.Block // figures of the first screen
}

// sweep runs the scenario once for every point of the grid, one after another, each on
// all workers. All points are checked before the first is run.
func (p *program) sweep(ctx context.Context, o *order, doc *scenario.Document, screen *screen) error {
	axes, points, err := gridOf(o.sweeps)
	if err == nil && o.whatIf != nil {
		points, err = p.withBase(o, points)
	}
	if err != nil {
		return err
	}
	launches, points, err := p.checkPoints(o, doc, points)
	if err != nil {
		return err
	}
	all := &sweepDocument{File: o.file, Sweep: axes, Points: len(points), columns: o.columns}
	var base *figures
	for i, one := range launches {
		screen.next(fmt.Sprintf("point %d of %d  ", i+1, len(points)), len(all.Rows) > 0)
		one.config.LastThere = i == len(launches)-1
		row, err := p.runOne(ctx, o, one, points[i], screen)
		if row != nil && row.figures != nil {
			all.Variant = row.Variant
			if base == nil {
				base = row.figures
			} else if !row.Interrupted {
				row.Differences = base.differences(row.figures)
			}
			row.figures = nil
		}
		screen.clear()
		if row != nil {
			all.Rows = append(all.Rows, *row)
		}
		if err != nil {
			all.Interrupted = errors.Is(err, errInterrupted) || errors.Is(err, launch.ErrEnded) ||
				errors.Is(err, launch.ErrUnresponsive)
			if all.Interrupted && len(all.Rows) == 0 { // whatever is in the files for results stays
				return fmt.Errorf("at %s: %w", points[i], err)
			}
			return errors.Join(fmt.Errorf("at %s: %w", points[i], err), p.showSweep(o, all))
		}
		if i == 0 {
			// The columns are known with the first results.
			if _, err := newTable(all).chosen(all.columns); err != nil {
				return err
			}
			for _, list := range row.left {
				fmt.Fprintf(p.stderr, "%s: %s is not in the table, but --json FILE has it\n", p.name, list)
			}
		}
		if all.Interrupted = row.Interrupted; all.Interrupted {
			screen.end()
			return errors.Join(p.showSweep(o, all),
				fmt.Errorf("%w at point %d of %d (%s): the table ends there", errInterrupted, i+1, len(points),
					points[i]))
		}
	}
	screen.end()
	return errors.Join(p.showSweep(o, all), unmet(all.Rows...))
}

// pointRun is what is run at a point: a configuration, or parts that are put together.
type pointRun struct {
	config launch.Config
	parts  *merging // nil: it is simulated
}

// checkPoints makes the scenarios of all points and checks them. Of a sweep that is put together those are left out
// that have no parts; each is checked when its turn has come.
func (p *program) checkPoints(o *order, doc *scenario.Document, points []sweep.Point) (runs []pointRun,
	those []sweep.Point, err error) {
	for i, point := range points {
		if o.merging != nil {
			if of := o.merging.points[i]; len(of.dirs) > 0 {
				runs, those = append(runs, pointRun{parts: of}), append(those, point)
			}
			continue
		}
		cfg, err := p.checkPoint(o, doc, point)
		if err != nil {
			return nil, nil, err
		}
		runs, those = append(runs, pointRun{config: cfg}), append(those, point)
	}
	return runs, those, nil
}

// gridOf reads the --sweep flags.
func gridOf(sweeps []string) ([]axisRow, []sweep.Point, error) {
	var axes []sweep.Axis
	var rows []axisRow
	for _, text := range sweeps {
		a, err := sweep.ParseAxis(text)
		if err != nil {
			return nil, nil, usage("--sweep: %v", err)
		}
		axes = append(axes, a)
		row := axisRow{Key: a.Key}
		for _, v := range a.Values {
			row.Values = append(row.Values, jsonValue(v))
		}
		rows = append(rows, row)
	}
	points, err := sweep.Grid(axes)
	if err != nil {
		return nil, nil, usage("--sweep: %v", err)
	}
	return rows, points, nil
}

// checkPoint makes the scenario of one point and checks it. Messages name the point.
func (p *program) checkPoint(o *order, doc *scenario.Document, point sweep.Point) (launch.Config, error) {
	cfg := o.config
	var err error
	if o.whatIf != nil {
		cfg.Set, _, err = p.varied(o, "sweep", point)
	} else {
		cfg.Set = append(cfg.Set[:len(cfg.Set):len(cfg.Set)], point...)
		_, err = changed(doc, "sweep", cfg.Set)
	}
	if err != nil {
		return cfg, err
	}
	l, err := prepare(cfg)
	if err == nil && o.whatIf != nil {
		err = o.checkStored(l)
	}
	return cfg, err
}

// runPoint runs the scenario of one point.
func (p *program) runPoint(
	ctx context.Context, o *order, cfg launch.Config, point sweep.Point, screen *screen,
) (*sweepRow, error) {
	var each *figures
	if o.whatIf != nil {
		each = newFigures(cfg.Replications)
		cfg.Each = each.add
	}
	l, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	l, found, err := o.settle(ctx, &cfg, l, screen)
	if err != nil {
		return nil, err
	}
	if each != nil {
		each.scenario = l.Scenario()
	}
	run := l.Run
	if o.merging != nil {
		run = l.Merge
	}
	out, failed := simulateBy(ctx, run, cfg.Stop, screen)
	if out == nil {
		return nil, failed
	}
	if len(out.Replications) == 0 {
		return nil, errors.Join(interruption(l, out), failed)
	}
	row := &sweepRow{Point: make(map[string]json.RawMessage), document: newDocument(o, l, out), at: point,
		figures: each}
	row.Warmup = found
	for _, s := range point {
		row.Point[s.Key] = jsonValue(s.Value)
	}
	if shower, ok := l.Scenario().(overview.Shower); ok && o.report != "" {
		row.shown = shower.Overview(out.Summary).Figures
	}
	row.cells, row.left, err = cellsOf(row)
	if err == nil {
		err = o.required(row)
	}
	return row, errors.Join(failed, err)
}

// jsonValue is a value of YAML as JSON: numbers, true and false stay what they are.
func jsonValue(value string) json.RawMessage {
	if json.Valid([]byte(value)) && value != "null" {
		return json.RawMessage(value)
	}
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("app: %q as JSON: %v", value, err)) // texts always can
	}
	return text
}

// showSweep writes the table in the forms that were asked for.
func (p *program) showSweep(o *order, doc *sweepDocument) error {
	var failed []error
	if !o.quiet() && len(doc.Rows) > 0 {
		if doc.Variant != nil {
			fmt.Fprintf(p.stdout, "%v\n\n", doc.Variant)
		}
		failed = append(failed, p.sweepText(doc), p.differencesText(doc))
	}
	if o.out != "" {
		failed = append(failed, p.writeSweepOut(o, doc))
	}
	if o.report != "" && len(doc.Rows) > 0 {
		failed = append(failed, p.writeSweepPage(o, doc))
	}
	if o.json != "" {
		text, err := encode(doc)
		if err == nil {
			err = p.write("--json", o.json, (&jsonText{before: text}).writeTo)
		}
		failed = append(failed, err)
	}
	if o.csv != "" {
		text, err := sweepCSV(doc)
		if err == nil {
			err = p.write("--csv", o.csv, (&jsonText{before: text}).writeTo)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}
