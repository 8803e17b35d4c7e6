// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"io"
	"strconv"

	"github.com/disco-sim/disco/internal/drawing"
	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/outdir"
	"github.com/disco-sim/disco/scenario"
	"github.com/urfave/cli/v2"
)

// Tables that are made of other things than the JSON of the results (docs/outputs.md).
const (
	seriesTable  = "series"
	figuresTable = "figures"
	sweepTable   = "sweep"
)

// fileFlags ask for results as files that others read.
func fileFlags() []cli.Flag {
	return []cli.Flag{
		textFlag(groupOutput, "out", "none", "write results, tables, and how figures develop over simulated time to "+
			"files in `DIR`, which is empty or has what an earlier run has written there"),
		recordsFlag(),
		textFlag(groupOutput, "report", "none", "write the results to `FILE` as a page of HTML that needs nothing "+
			"else: figures, how they develop over simulated time, how to repeat the run"),
		textFlag(groupOutput, "trace-perfetto", "none", "write what each worker was at, and when, to `FILE`, which "+
			"https://ui.perfetto.dev opens"),
	}
}

// writeOut writes the directory of one run, at its end or before.
func (p *program) writeOut(o *order, w *outdir.Writer, l *launch.Launch, out *launch.Outcome, d *document) error {
	defer w.Abort()
	err := w.Scenario(o.config.Text)
	if serial, ok := out.Summary.(scenario.Serial); ok && err == nil {
		var t *seriesWriter
		if t, err = newSeriesWriter(w, false); err == nil {
			err = t.add(0, serial)
		}
		if !o.config.Series && err == nil && !d.SoFar {
			fmt.Fprintf(p.stderr, "%s: %s has few time series or none: the run was begun without --out, and has not "+
				"recorded them\n", p.name, o.out)
		}
	}
	if drawn, ok := out.Summary.(scenario.Drawn); ok && err == nil {
		err = writeGraph(w, drawn)
	}
	if err == nil {
		err = p.writeOverview(w, o, l, out, d)
	}
	if tabular, ok := l.Scenario().(scenario.Tabular); ok && out.Summary != nil && err == nil {
		err = textTable(w, figuresTable, tabular.Table(out.Summary))
	}
	if err == nil {
		var j *jsonText
		if j, err = newJSON(l, d); err == nil {
			err = w.Result(j.writeTo)
		}
	}
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}

// writeGraph writes what the boxes and links are, where they stand in a picture, and what happened to which.
func writeGraph(w *outdir.Writer, results scenario.Drawn) error {
	d, spans := results.Drawing(), []scenario.Span(nil)
	if e, ok := results.(scenario.Eventful); ok {
		spans = e.Spans()
	}
	return w.JSON(outdir.GraphFile, func(w io.Writer) error { return drawing.WriteJSON(w, d, drawing.Lay(d), spans) })
}

// writeSweepOut writes the directory of a sweep.
func (p *program) writeSweepOut(o *order, doc *sweepDocument) error {
	w := o.outDir.Begin(Version())
	defer w.Abort()
	err := w.Scenario(o.config.Text)
	var t *seriesWriter
	for i := range doc.Rows {
		serial, ok := doc.Rows[i].Results.(scenario.Serial)
		if ok && t == nil && err == nil {
			t, err = newSeriesWriter(w, true)
		}
		if ok && err == nil {
			err = t.add(i+1, serial)
		}
	}
	if err == nil {
		points := newTable(doc)
		err = textTable(w, sweepTable, append([][]string{points.columns}, points.rows...))
	}
	var text []byte
	if err == nil {
		text, err = encode(doc)
	}
	if err == nil {
		err = w.Result((&jsonText{before: text}).writeTo)
	}
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}

// seriesWriter writes the table of all time series: a row for each window of each of them.
type seriesWriter struct {
	table *outdir.Table
	point bool // its first column is the point of a sweep
	cells []any
}

func newSeriesWriter(w *outdir.Writer, point bool) (*seriesWriter, error) {
	columns := []outdir.Column{{Name: "figure", Type: outdir.Text}, {Name: "of", Type: outdir.Text},
		{Name: "unit", Type: outdir.Text}, {Name: "from_s", Type: outdir.Number}, {Name: "to_s", Type: outdir.Number},
		{Name: "value", Type: outdir.Number}}
	if point {
		columns = append([]outdir.Column{{Name: "point", Type: outdir.Int}}, columns...)
	}
	t, err := w.Table(seriesTable, columns)
	return &seriesWriter{table: t, point: point}, err
}

// add writes the series of a run. What is about the whole has nothing in the column of, and a number of no unit nothing
// in unit.
func (t *seriesWriter) add(point int, serial scenario.Serial) (err error) {
	orNil := func(x string) any {
		if x == "" {
			return nil
		}
		return x
	}
	serial.Series(func(s *scenario.Series) bool {
		figure, of, unit := any(s.Name), orNil(s.Of), orNil(s.Unit)
		for k, x := range s.Values {
			t.cells = t.cells[:0]
			if t.point {
				t.cells = append(t.cells, int64(point))
			}
			t.cells = append(t.cells, figure, of, unit, s.Edges[k], s.Edges[k+1], x)
			if err = t.table.Row(t.cells); err != nil {
				return false
			}
		}
		return true
	})
	return err
}

// textTable writes a table that is text, head and rows: columns in which all there is are numbers become such.
func textTable(w *outdir.Writer, name string, rows [][]string) error {
	columns := make([]outdir.Column, len(rows[0]))
	for i := range columns {
		columns[i] = outdir.Column{Name: rows[0][i], Type: outdir.Number}
		for _, row := range rows[1:] {
			if _, err := strconv.ParseFloat(row[i], 64); err != nil && row[i] != "" {
				columns[i].Type = outdir.Text
				break
			}
		}
	}
	t, err := w.Table(name, columns)
	if err != nil {
		return err
	}
	cells := make([]any, len(columns))
	for _, row := range rows[1:] {
		for i, text := range row {
			cells[i] = nil
			if x, err := strconv.ParseFloat(text, 64); columns[i].Type == outdir.Number && err == nil {
				cells[i] = x
			} else if text != "" {
				cells[i] = text
			}
		}
		if err := t.Row(cells); err != nil {
			return err
		}
	}
	return nil
}
