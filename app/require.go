// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/scenario"
	"github.com/urfave/cli/v2"
)

func requireFlag() cli.Flag {
	return &cli.StringSliceFlag{Category: groupOutput, Name: "require", DefaultText: "nothing",
		Usage: "end with exit status 3 where the results aren't as they are to be: `COMPARISON` of a figure's name, " +
			"as the columns of a sweep have it, with a number, such as 'latency_s.p99 < 0.2'; may be given several " +
			"times"}
}

// requirement is what --require wants of one figure of the results.
type requirement struct {
	figure string // name of a column, as a sweep's table has it
	op     string // one of requireOps
	bound  float64
}

var requireOps = []string{"<", "<=", ">", ">="}

func (r *requirement) String() string {
	return fmt.Sprintf("%s %s %s", r.figure, r.op, strconv.FormatFloat(r.bound, 'g', -1, 64))
}

// requirementForm is a figure's name, which may hold anything but comparisons, one of them, and a number.
var requirementForm = regexp.MustCompile(`^\s*([^<>=]*[^<>=\s])\s*(<=?|>=?)\s*([^<>=\s]+)\s*$`)

// requirements reads --require.
func (v *values) requirements() (all []requirement) {
	for _, text := range v.c.StringSlice("require") {
		m := requirementForm.FindStringSubmatch(text)
		if m == nil {
			v.refuse("require", strconv.Quote(text), "FIGURE, one of "+strings.Join(requireOps, " ")+
				", and a number, such as 'latency_s.p99 < 0.2'")
			continue
		}
		bound, err := strconv.ParseFloat(m[3], 64)
		if err != nil || math.IsNaN(bound) || math.IsInf(bound, 0) {
			v.refuse("require", strconv.Quote(m[3])+" in "+strconv.Quote(text),
				"a finite number, in the figure's own unit")
			continue
		}
		all = append(all, requirement{m[1], m[2], bound})
	}
	return all
}

// met reports whether a figure is as it is to be.
func (r *requirement) met(x float64) bool {
	switch r.op {
	case "<":
		return x < r.bound
	case "<=":
		return x <= r.bound
	case ">":
		return x > r.bound
	}
	return x >= r.bound
}

// requirementRow is what came of a requirement.
type requirementRow struct {
	Require string  `json:"require"`
	Value   float64 `json:"value"`
	Met     bool    `json:"met"`
}

// required looks at the results of a run. What the results don't have is a mistake of the command line.
func (o *order) required(row *sweepRow) (err error) {
	if len(o.requires)+len(o.exports) == 0 || row.Interrupted {
		return nil
	}
	if row.cells == nil {
		if row.cells, _, err = cellsOf(row); err != nil {
			return err
		}
	}
	for i := range o.requires {
		r := &o.requires[i]
		x, err := row.figure("--require", r.figure)
		if err != nil {
			return err
		}
		row.Requirements = append(row.Requirements, requirementRow{r.String(), x, r.met(x)})
	}
	return row.export(o.exports)
}

// exportFlag names figures that a step of a pipeline exports.
const exportFlag = "export"

// ofMachine are figures that depend on the machine: what has them among its inputs wouldn't be the same again.
var ofMachine = []string{"wall_s", "events_per_s"}

// ofRun are fields of a run's JSON that say how it was simulated: no model has results of such names.
var ofRun = []string{"scenario", "seed", "workers", "transport", "so_far", "ended", "file", "set", "graph_digest",
	"version", "activations", "setup_s", "spread", "placement", "per_replication", "per_worker", "workers_wanted",
	"processors", "phases", "machines", "only", "missing", "checkpoints", "resumed", "variant", "rebalance",
	"recoveries", "no_figures", "requirements", "exports", "until", "speedup_vs_sequential", "compare", "tuning",
	"results", "replications", "interrupted", "simprocs_per_node"}

// checkExports refuses names that no step can export, whatever its model.
func checkExports(names []string) error {
	for _, name := range names {
		switch {
		case slices.Contains(ofMachine, name):
			return usage("--%s: found %s, which isn't the same on each machine: want a figure of the model", exportFlag,
				name)
		case slices.Contains(ofRun, name):
			return usage("--%s: found %s, which says how the run was simulated: want a figure of the model, or "+
				"trace_hash", exportFlag, name)
		}
	}
	return nil
}

// isExport reports whether a value of the results may be exported.
func isExport(c cell) bool {
	return (isFigure(c.name) || !c.number) && checkExports([]string{c.name}) == nil
}

// export fills in the figures that are exported.
func (row *sweepRow) export(names []string) error {
	if err := checkExports(names); err != nil {
		return err
	}
	for _, name := range names {
		x, err := row.exported(name)
		if err != nil {
			return err
		}
		if row.Exports == nil {
			row.Exports = map[string]any{}
		}
		row.Exports[name] = x
	}
	return nil
}

// exported is a figure, or what else the results have under a name that is one value, as text.
func (row *sweepRow) exported(name string) (any, error) {
	for _, c := range row.cells {
		if c.name == name && !c.number {
			return c.text, nil
		}
	}
	return row.figure("--"+exportFlag, name)
}

// isNumber reports whether a value of the results is a figure.
func isNumber(c cell) bool { return c.number && isFigure(c.name) }

// figure is the figure of a name that a flag has.
func (row *sweepRow) figure(flag, name string) (float64, error) {
	for _, c := range row.cells {
		if c.name == name && c.number {
			return strconv.ParseFloat(c.text, 64)
		}
	}
	are := isNumber
	if flag == "--"+exportFlag {
		are = isExport
	}
	return 0, noFigure(flag, name, row.of(), row.cells, are)
}

// figuresNamed is how many figures an error names.
const figuresNamed = 12

// noFigure is the error about a flag that names a figure that there isn't, with those that the flag takes.
func noFigure(flag, name, of string, cells []cell, are func(cell) bool) error {
	var names []string
	for _, c := range cells {
		if are(c) {
			names = append(names, c.name)
		}
	}
	hint := scenario.Suggest(name, names)
	if k := slices.IndexFunc(cells, func(c cell) bool { return c.name == name }); k >= 0 && !cells[k].number {
		hint = fmt.Sprintf("%s is %q, and no number", name, cells[k].text)
	} else if hint == "" {
		shown := min(len(names), figuresNamed)
		hint = "there are " + strings.Join(names[:shown], ", ")
		if more := len(names) - shown; more > 0 {
			hint += fmt.Sprintf(" and %d more, which --json shows; names are joined by dots", more)
		}
	}
	return usage("%s: the results have no figure %s%s: %s", flag, name, of, hint)
}

// of names a row in messages: the point of a sweep.
func (row *sweepRow) of() string {
	if row.at == nil {
		return ""
	}
	return fmt.Sprintf(" with %s", row.at)
}

// unmetError is about results that aren't as they are to be.
type unmetError struct {
	of   int // requirements
	text []string
}

func (e *unmetError) Error() string {
	return fmt.Sprintf("%d of %s not met: %s", len(e.text), count(e.of, "requirement"), strings.Join(e.text, "; "))
}

// unmet is the error about the requirements that results don't meet; nil: they meet all.
func unmet(rows ...sweepRow) error {
	e := &unmetError{}
	for i := range rows {
		row := &rows[i]
		for _, r := range row.Requirements {
			if e.of++; !r.Met {
				e.text = append(e.text, fmt.Sprintf("%s: it is %s%s", r.Require,
					strconv.FormatFloat(r.Value, 'g', -1, 64), row.of()))
			}
		}
	}
	if len(e.text) == 0 {
		return nil
	}
	return e
}

// onlyUnmet reports whether nothing is wrong but that results don't meet requirements.
func onlyUnmet(err error) bool {
	switch e := err.(type) {
	case *unmetError, *unreachedError:
		return true
	case interface{ Unwrap() error }:
		return onlyUnmet(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if !onlyUnmet(one) {
				return false
			}
		}
		return true
	}
	return false
}
