// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/model/overview"
)

// rowsMax bounds each table of the text: a page for people. The JSON has all.
const rowsMax = 40

// percentilesMax bounds the columns of percentiles likewise.
const percentilesMax = 8

// WriteText implements scenario.Summary: a table for each kind of statistic.
func (r *Results) WriteText(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "%s: %s of %s", r.Model, table.Plural(r.Replications, "replication"),
		table.Seconds(r.HorizonSeconds))
	if r.WarmupSeconds > 0 {
		fmt.Fprintf(b, ", the first %s not counted", table.Seconds(r.WarmupSeconds))
	}
	if r.Antithetic {
		fmt.Fprintf(b, ", %s of antithetic ones", table.Plural(r.Samples, "sample"))
	}
	if r.Interrupted {
		b.WriteString(", INTERRUPTED")
	}
	if len(r.Statistics) == 0 {
		b.WriteString("\nthe model declares no statistics\n")
		return b.Flush()
	}
	fmt.Fprintf(b, "\nthe truth lies between from and to with a probability of %s\n", table.Percent(r.Confidence))
	for _, t := range r.tables() {
		t.Write(b)
	}
	if r.tooShort() {
		b.WriteString(tooShort + "\n")
	}
	if r.hasPercentiles() {
		b.WriteString(r.onPercentiles())
	}
	return b.Flush()
}

// tooShort is the remark about intervals that don't exist.
const tooShort = "Too short for some intervals: simulate longer, or use 10 replications."

// tooShort reports whether a longer run would have intervals that this one has not.
func (r *Results) tooShort() bool {
	return r.Samples == 1 && slices.ContainsFunc(r.Statistics, (*Statistic).short)
}

// tables are all that there is to show, by kind of statistic.
func (r *Results) tables() []overview.Table {
	shown := r.shownPercentiles()
	tallies := []string{"count", "mean", "from", "to", "stddev", "min"}
	for _, p := range shown {
		tallies = append(tallies, percentileName(p))
	}
	table := func(name string, k kind, heads ...string) overview.Table {
		return overview.Table{Name: name, Write: func(b *bufio.Writer) {
			t := table.New(rowsMax, append([]string{name}, heads...)...)
			for _, s := range r.Statistics {
				if s.Kind == kindNames[k] {
					t.Row(s.row(shown)...)
				}
			}
			t.Write(b)
		}}
	}
	return []overview.Table{
		table("counters", counterKind, "total", "per s", "from", "to"),
		table("tallies", tallyKind, append(tallies, "max")...),
		table("gauges", gaugeKind, "mean", "from", "to", "min", "max", "at the end"),
	}
}

// shownPercentiles are the columns of the text: what tallies ask for with Percentiles, but for the extremes, which have
// columns of their own; of a tally that asks for none 50, 95 and 99.
func (r *Results) shownPercentiles() []float64 {
	var shown []float64
	for _, s := range r.Statistics {
		for _, p := range s.shown {
			if len(shown) < percentilesMax && p > 0 && p < 100 && !slices.Contains(shown, p) {
				shown = append(shown, p)
			}
		}
	}
	slices.Sort(shown)
	return shown
}

// hasPercentiles reports whether the text shows any.
func (r *Results) hasPercentiles() bool {
	return slices.ContainsFunc(r.Statistics, func(s *Statistic) bool { return len(s.Percentiles.names) > 0 })
}

// onPercentiles says where the intervals of percentiles are, or why there are none: one histogram is kept of a whole
// replication, and its values depend on each other, so it can't tell how far off its percentiles are.
func (r *Results) onPercentiles() string {
	if r.Samples == 1 {
		return "Percentiles of one sample have no interval, because its values depend on each other: use 10 " +
			"replications.\n"
	}
	return "The intervals of percentiles are in --json and --csv.\n"
}

// title is the statistic's name with the number of its nodes and its unit.
func (s *Statistic) title() string {
	name := s.Name
	if s.Nodes > 1 {
		name += fmt.Sprintf(" ×%d", s.Nodes)
	}
	if s.Unit != "" {
		name += ", " + s.Unit
	}
	return name
}

// estimate is the mean, or the rate of a counter.
func (s *Statistic) estimate() *measure.Interval {
	if s.Kind == kindNames[counterKind] {
		return s.Rate
	}
	return s.Mean
}

// short reports whether there is a mean and no interval. What never happened has none, and a longer run may not change
// that.
func (s *Statistic) short() bool {
	i := s.estimate()
	return i != nil && !i.Known() && (s.Total == nil || *s.Total != 0)
}

// row is that of the statistic in the table of its kind.
func (s *Statistic) row(percentiles []float64) []string {
	mean, low, high := interval(s.estimate())
	switch s.Kind {
	case kindNames[counterKind]:
		if *s.Total == 0 {
			low = "-"
		}
		return []string{s.title(), digits(*s.Total, 0, 6), mean, low, high}
	case kindNames[tallyKind]:
		row := []string{s.title(), table.Count(*s.Count), mean, low, high}
		if *s.Count > 0 {
			row = append(row, digits(*s.StdDev, 0, 4), digits(*s.Min, 0, 4))
			for _, p := range percentiles {
				row = append(row, s.percentile(p))
			}
			row = append(row, digits(*s.Max, 0, 4))
		}
		return row
	}
	return []string{s.title(), mean, low, high, digits(*s.Min, 0, 4), digits(*s.Max, 0, 4), digits(*s.End, 0, 4)}
}

func (s *Statistic) percentile(p float64) string {
	if i := s.Percentile(p); i != nil {
		return digits(i.Mean, 0, 4)
	}
	return "-"
}

// interval is a mean with its ends.
func interval(i *measure.Interval) (mean, low, high string) {
	switch {
	case i == nil:
		return "-", "-", "-"
	case !i.Known():
		return digits(i.Mean, 0, 4), "too short", "-"
	}
	step := i.Width()
	return digits(i.Mean, step, 4), digits(i.Low, step, 4), digits(i.High, step, 4)
}

// digits writes so many of them, or more where it takes more to see a step, the width of an interval.
func digits(x, step float64, least int) string {
	return strconv.FormatFloat(x, 'g', table.Significant(x, step, least), 64)
}
