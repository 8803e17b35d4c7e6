// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/groupcall"
	"github.com/disco-sim/disco/internal/table"
	"github.com/urfave/cli/v2"
)

// figuresMost is how many figures are shown to people: a sweep has them of each point.
const figuresMost = 20

// figureFlag chooses among the figures that machines report.
func figureFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "figure", DefaultText: "all of submit's --until and --figure",
		Usage: "show this figure, `NAME`; may be repeated"}
}

// figuresOf are the figures of an experiment that --figure asks for, of the pieces that have begun.
func figuresOf(c *app.Call, e *fleet.Experiment, begun []shownPiece) (all []fleet.Figure, err error) {
	pieces := make(map[fleet.PieceID]fleet.PieceAt, len(begun))
	for _, p := range begun {
		pieces[p.ID] = fleet.PieceAt{Piece: p.Piece}
	}
	all = fleet.FiguresOf(e, pieces)
	wanted := c.StringSlice("figure")
	for _, name := range wanted {
		if slices.ContainsFunc(all, func(f fleet.Figure) bool { return f.Asked == name }) {
			continue
		}
		var there []string
		for _, f := range all {
			if !slices.Contains(there, f.Asked) {
				there = append(there, f.Asked)
			}
		}
		if len(there) == 0 {
			return nil, app.Usage("--figure: found %.200q, and machines report no figures of %s: `submit --figure` "+
				"has them do so", name, e.ID)
		}
		return nil, app.Usage("--figure: found %.200q, want one that machines report of %s: %s", name, e.ID,
			strings.Join(there, ", "))
	}
	if len(wanted) == 0 {
		return all, nil
	}
	return slices.DeleteFunc(all, func(f fleet.Figure) bool { return !slices.Contains(wanted, f.Asked) }), nil
}

// figures shows what is known of them: the mean of the replications that are there, and how sure it is.
func (s *shownExperiment) figures(out *strings.Builder) {
	if len(s.Figures) == 0 {
		return
	}
	var none []string // of which there is nothing
	rows := [][]string{{"figure", "replications", "mean", "±", "of it", "until", "settings"}}
	for _, f := range s.Figures[:min(len(s.Figures), figuresMost)] {
		at := fleet.PieceID{Step: f.Step, Point: f.Point}
		row := []string{f.Asked, strconv.Itoa(f.Interval.N), "-", "-", "-", "", strings.Join(settings(s.Spec, at), " ")}
		if f.Name != "" {
			row[0] = f.Name
		}
		if f.Interval.N > 0 {
			row[2] = table.Number(f.Interval.Mean)
		}
		if f.Interval.Known() {
			row[3] = table.Number(f.Interval.HalfWidth)
			if f.Interval.Mean != 0 {
				row[4] = table.Number(100*f.Interval.HalfWidth/math.Abs(f.Interval.Mean)) + " %"
			}
		}
		if f.Until != "" {
			row[5] = "± " + strings.TrimPrefix(f.Until, f.Asked+" ± ") + map[bool]string{true: ": reached"}[f.Reached]
		}
		if f.Name == "" && f.Looked > 0 && !slices.Contains(none, f.Asked) {
			none = append(none, f.Asked)
		}
		rows = append(rows, row)
	}
	fmt.Fprintln(out)
	groupcall.Columns(out, rows)
	for _, name := range none {
		fmt.Fprintf(out, "%s: no replication that has finished has such a figure; `results %s --partial --json FILE` "+
			"has the names of all that there are\n", name, s.ID)
	}
	if more := len(s.Figures) - figuresMost; more > 0 {
		fmt.Fprintf(out, "and %d more: --json shows all\n", more)
	}
}

// lineOf is a figure behind an experiment in a line.
func lineOf(f *fleet.Figure) string {
	if f.Name == "" && f.Looked > 0 {
		return fmt.Sprintf(", no %s", f.Asked)
	}
	if !f.Interval.Known() {
		return fmt.Sprintf(", %s of %d", f.Asked, f.Interval.N)
	}
	return fmt.Sprintf(", %s %s ± %s of %d", f.Asked, table.Number(f.Interval.Mean),
		table.Number(f.Interval.HalfWidth), f.Interval.N)
}

// rule says what becomes of a step that ends by its rule.
func (s *shownExperiment) rule(out *strings.Builder) {
	if s.Spec == nil || s.Standing == nil {
		return
	}
	for i, step := range s.Spec.Steps {
		enough := 0
		for _, e := range s.Standing.Enough {
			if e.Step == i {
				enough = e.Replications
			}
		}
		switch {
		case len(step.Until) == 0:
		case enough > 0:
			fmt.Fprintf(out, "the first %d replications are enough, and those that count: %s\n", enough,
				strings.Join(step.Until, "; "))
		case s.Ended && s.Status == fleet.StatusFinished:
			fmt.Fprintf(out, "with %s it isn't reached: %s\n", table.Plural(step.Replications, "replication"),
				strings.Join(step.Until, "; "))
		}
	}
}

// cutLines cuts lines of a text that are wider than a terminal, and leaves out those that are below its end, but for a
// line that says how many these are. A size of 0 isn't known.
func cutLines(text string, width, height int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if shown := height - 2; height > 2 && len(lines) > height-1 { // the cursor is below what is shown
		more := fmt.Sprintf("… and %d more lines: `show` has them all", len(lines)-shown)
		lines = append(lines[:shown:shown], more)
	}
	if width <= 0 {
		return strings.Join(lines, "\n") + "\n"
	}
	for i, line := range lines {
		if runes := []rune(line); len(runes) > width {
			lines[i] = string(runes[:width-1]) + "…"
		}
	}
	return strings.Join(lines, "\n") + "\n"
}
