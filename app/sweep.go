package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/disco-sim/disco/launch"
	"github.com/disco-sim/disco/sweep"
)

// checkSweep refuses what doesn't go together with a sweep, or only with one.
func (o *order) checkSweep() error {
	switch {
	case o.compare && o.config.Workers < 2:
		return usage("--compare is about several workers and one: give --workers 2 or more")
	case o.compare && len(o.sweeps) > 0:
		return usage("--compare and --sweep don't go together: compare one point at a time")
	case len(o.sweeps) == 0 && o.csv != "":
		return usage("--csv is for the table of a --sweep: use --json for one run")
	case len(o.sweeps) == 0:
		return nil
	case o.config.Trace != "":
		return usage("--trace and --sweep don't go together: trace one point at a time")
	case o.config.Profiles != "":
		return usage("--cpuprofile and --sweep don't go together: profile one point at a time")
	case o.json == "-" && o.csv == "-":
		return usage("--json and --csv both ask for standard output: give one of them a file")
	}
	return nil
}

// sweepDocument is the JSON of a sweep.
type sweepDocument struct {
	File        string     `json:"file"`
	Sweep       []axisRow  `json:"sweep"`
	Points      int        `json:"points"` // of the whole grid
	Interrupted bool       `json:"interrupted"`
	Rows        []sweepRow `json:"rows"`
}

type axisRow struct {
	Key    string            `json:"key"`
	Values []json.RawMessage `json:"values"`
}

// sweepRow is one run of a sweep: its point, and all that the JSON of one run has.
type sweepRow struct {
	Point map[string]json.RawMessage `json:"point"`
	*document

	at    sweep.Point
	cells []cell // of the table
}

// sweep runs the scenario once for every point of the grid, one after another, each on
// all workers. All points are checked before the first is run.
func (p *program) sweep(ctx context.Context, o *order, screen *screen) error {
	axes, points, err := p.grid(o)
	if err != nil {
		return err
	}
	launches := make([]launch.Config, len(points))
	for i, point := range points {
		if launches[i], err = p.checkPoint(o, point); err != nil {
			return err
		}
	}
	doc := &sweepDocument{File: o.file, Sweep: axes, Points: len(points)}
	for i, cfg := range launches {
		screen.say(fmt.Sprintf("point %d of %d  ", i+1, len(points)))
		row, err := p.runPoint(ctx, o, cfg, points[i])
		screen.clear()
		if err != nil {
			return errors.Join(fmt.Errorf("at %s: %w", points[i], err), p.showSweep(o, doc))
		}
		doc.Rows = append(doc.Rows, *row)
		if doc.Interrupted = row.Interrupted; doc.Interrupted {
			return errors.Join(p.showSweep(o, doc), fmt.Errorf("interrupted at point %d of %d (%s): the table ends there", i+1, len(points), points[i]))
		}
	}
	return p.showSweep(o, doc)
}

// grid reads the --sweep flags.
func (p *program) grid(o *order) ([]axisRow, []sweep.Point, error) {
	var axes []sweep.Axis
	var rows []axisRow
	for _, text := range o.sweeps {
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

// checkPoint makes the scenario of one point and checks it. What is wrong with it is
// told with the point; when it runs, the scenario has the name that it always has.
func (p *program) checkPoint(o *order, point sweep.Point) (launch.Config, error) {
	cfg := o.config
	text, err := sweep.Apply(cfg.File, cfg.Text, point)
	if errors.Is(err, sweep.ErrSweep) {
		return cfg, usage("--sweep %v", err)
	}
	if err != nil {
		return cfg, err
	}
	cfg.Text = text
	told := cfg
	told.File = fmt.Sprintf("%s (%s)", cfg.File, point)
	_, err = launch.Prepare(told)
	return cfg, err
}

// runPoint runs the scenario of one point.
func (p *program) runPoint(ctx context.Context, o *order, cfg launch.Config, point sweep.Point) (*sweepRow, error) {
	l, err := launch.Prepare(cfg)
	if err != nil {
		return nil, err
	}
	out, err := l.Run(ctx)
	if err != nil {
		return nil, err
	}
	row := &sweepRow{Point: make(map[string]json.RawMessage), document: newDocument(o, l, out), at: point}
	for _, s := range point {
		row.Point[s.Key] = jsonValue(s.Value)
	}
	row.cells, err = cellsOf(row)
	return row, err
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
		p.sweepText(doc)
	}
	if o.json != "" {
		text, err := encode(doc)
		if err == nil {
			err = p.write("--json", o.json, text)
		}
		failed = append(failed, err)
	}
	if o.csv != "" {
		text, err := sweepCSV(doc)
		if err == nil {
			err = p.write("--csv", o.csv, text)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}
