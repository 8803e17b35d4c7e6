// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/disco-sim/disco/internal/chart"
	"github.com/disco-sim/disco/internal/infile"
	"github.com/urfave/cli/v2"
)

// plot draws one page: from files, or from rows that it measures itself.
func (p *program) plot(c *cli.Context, o Options) error {
	name := c.String("out")
	ext := strings.ToLower(filepath.Ext(name))
	if ext != ".svg" && ext != ".html" {
		return usagef("plot: --out %s: want a name that ends in .svg or .html", name)
	}
	page, err := p.page(c, o)
	if err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return usagef("plot: --out: %w", err)
	}
	draw := chart.SVG
	if ext == ".html" {
		draw = chart.HTML
	}
	if err := errors.Join(draw(f, page.title, page.charts()), f.Close()); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	fmt.Fprintf(p.stdout, "%s: %d curves of round trips, and beside their limits %d round trips and %d rates\n", name,
		len(page.curves), len(page.rowsOf(true)), len(page.rowsOf(false)))
	return nil
}

// page is what is drawn.
type page struct {
	title  string
	curves []curve
	rows   []Row
}

func (p *program) page(c *cli.Context, o Options) (page, error) {
	var pg page
	if from := c.String("from"); from != "" {
		rows, err := readRows(from)
		if err != nil {
			return pg, usageError{err}
		}
		pg.title, pg.rows = "disco-bench: "+filepath.Base(from), rows
		if pg.curves, err = curvesIn(c.String("hgrm")); err != nil {
			return pg, usageError{err}
		}
	} else {
		specs := append(specsLatency(o), specsWake(o)...)
		specs = append(specs, specsPayload(o)...)
		rows, err := p.rows(specs, o, func(*Row) {})
		if err != nil {
			return pg, err
		}
		pg.title, pg.rows = "disco-bench: "+Conditions(o), rows
		for i := range rows {
			if r := &rows[i]; r.histogram != nil {
				pg.curves = append(pg.curves, curveOf(strings.TrimSuffix(hgrmName(r), ".hgrm"), r.histogram))
			}
		}
		if dir := c.String("hgrm"); dir != "" {
			if _, err := WriteHgrm(dir, rows); err != nil {
				return pg, err
			}
		}
	}
	if len(pg.charts()) == 0 {
		return pg, usagef("plot: there is nothing to draw: no curves (--hgrm DIR), and no rows with figures but " +
			"limits (--from FILE)")
	}
	return pg, nil
}

// rowsKind is a file of rows, of which 64 MiB are some 50,000.
var rowsKind = infile.Kind{Name: "rows that --json wrote", BytesMax: 64 << 20}

func readRows(name string) ([]Row, error) {
	text, err := infile.Read(name, rowsKind)
	if err != nil {
		return nil, usagef("plot: --from: %w", err)
	}
	rows, err := ReadJSON(bytes.NewReader(text))
	if err != nil {
		return nil, usagef("plot: --from %s: found something else than rows, want the list that --json of disco-bench "+
			"writes", name)
	}
	return rows, nil
}

// curvesIn reads all .hgrm files of a directory, in the order of their names.
func curvesIn(dir string) (curves []curve, err error) {
	if dir == "" {
		return nil, nil
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.hgrm"))
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("plot: --hgrm %s: there are no .hgrm files in it", dir)
	}
	sort.Strings(names)
	for _, name := range names {
		c, err := readCurve(name)
		if err != nil {
			return nil, err
		}
		curves = append(curves, c)
	}
	return curves, nil
}
