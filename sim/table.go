// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strconv"

	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/scenario"
)

// tableHead is the head of the results as a table. at is where a stretch of time or a bin of a histogram begins.
var tableHead = []string{"statistic", "kind", "unit", "node", "figure", "at", "value", "low", "high"}

// Table implements scenario.Tabular: one row for each figure of each statistic, of the group and of its nodes.
func (m *Model) Table(results scenario.Summary) [][]string {
	rows := [][]string{tableHead}
	r, ok := results.(*Results)
	if !ok {
		return rows
	}
	for _, s := range r.Statistics {
		t := &rowsOf{rows: rows, start: []string{s.Name, s.Kind, s.Unit, ""}}
		t.statistic(s)
		for i, f := range s.PerNode.values {
			t.start = []string{s.Name, s.Kind, s.Unit, s.PerNode.names[i]}
			t.node(f)
		}
		rows = t.rows
	}
	return rows
}

// rowsOf makes the rows of a statistic, or of it at one node.
type rowsOf struct {
	rows  [][]string
	start []string
}

func (t *rowsOf) add(figure, at string, values ...*float64) {
	row := append(t.start[:len(t.start):len(t.start)], figure, at)
	for _, x := range values {
		row = append(row, cellText(x))
	}
	for len(row) < len(tableHead) {
		row = append(row, "")
	}
	t.rows = append(t.rows, row)
}

func cellText(x *float64) string {
	if x == nil {
		return ""
	}
	return strconv.FormatFloat(*x, 'g', -1, 64)
}

// number adds a row where there is a number.
func (t *rowsOf) number(figure string, x *float64) {
	if x != nil {
		t.add(figure, "", x)
	}
}

// whole is number for counts.
func (t *rowsOf) whole(figure string, x *int64) {
	if x != nil {
		value := float64(*x)
		t.add(figure, "", &value)
	}
}

func (t *rowsOf) interval(figure string, i *measure.Interval) {
	if i != nil {
		t.add(figure, "", &i.Mean, finite(i.Low), finite(i.High))
	}
}

func (t *rowsOf) statistic(s *Statistic) {
	t.number("total", s.Total)
	t.interval("rate_per_s", s.Rate)
	t.whole("count", s.Count)
	t.interval("mean", s.Mean)
	t.number("stddev", s.StdDev)
	t.number("min", s.Min)
	t.number("max", s.Max)
	t.number("end", s.End)
	for i, p := range s.Percentiles.values {
		t.interval(s.Percentiles.names[i], p)
	}
	if d := s.OverTime; d != nil {
		for k, x := range d.Values {
			at := d.From + float64(k)*d.Step
			t.add("over_time", cellText(&at), x)
		}
	}
	if h := s.Histogram; h != nil {
		t.whole("histogram_below", &h.Below)
		for k, count := range h.Counts {
			at, value := h.Low+(h.High-h.Low)/float64(len(h.Counts))*float64(k), float64(count)
			t.add("histogram", cellText(&at), &value)
		}
		t.whole("histogram_above", &h.Above)
	}
}

func (t *rowsOf) node(f *NodeFigures) {
	t.number("total", f.Total)
	t.number("rate_per_s", f.Rate)
	t.whole("count", f.Count)
	t.number("mean", f.Mean)
	t.number("stddev", f.StdDev)
	t.number("min", f.Min)
	t.number("max", f.Max)
	t.number("end", f.End)
}
