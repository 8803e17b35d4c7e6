// SPDX-License-Identifier: Apache-2.0

// Package overview renders what a run has found out as one screen, the same way for every kind of scenario: what ran,
// the figures that matter with their intervals, what each outage did, the worst boxes and links. Models hand it rows;
// what doesn't fit is in their tables, of which the screen names the ones that there are. docs/results.md says what a
// screen shows and how the kinds choose it.
//
// Guarantee: a screen is at most as many lines and columns as it is given, and each of its numbers says where the JSON
// results have it. The text depends on nothing but what it is given.
//
//	p := &overview.Page{Figures: overview.Block{Heads: []string{"figures", "", "95 % from", "to"}}}
//	p.Figures.Estimate("throughput", overview.Num("/throughput_rps", 8.683, overview.Plain, "/s"), "", nil)
//	lines := overview.Render(p, overview.Limits{Lines: 40, Columns: 80})
package overview

import (
	"bufio"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/scenario"
)

// Lines is how many a screen has at most, all together.
const Lines = 40

// Shower is a scenario.Scenario whose results are shown on one screen, with tables behind it. Of others the screen
// shows what WriteText of their results writes, as far as it fits.
type Shower interface {
	// TableNames are those of the Tables of each Page, in their order.
	TableNames() []string

	// Overview is about what the Accumulator of this scenario has made.
	Overview(results scenario.Summary) *Page
}

// Page is what a model says of a run. What ran, how fast, and the trace hash are said by who shows it.
type Page struct {
	Notes   []string // what the figures are about, or aren't; short lines
	Alarm   string   // "INTERRUPTED …"; "": nothing
	Figures Block    // three to six that matter
	Blocks  []Block  // what outages did, the worst boxes and links
	Remarks []string // what the reader may do about it
	Tables  []Table  // all that there is

	// For pictures, beside the rows.
	Distributions []Distribution
	Theories      []Theory
}

// Distribution is how values are distributed, such as latencies.
type Distribution struct {
	Name, Unit string
	Count      int64                         // > 0
	At         func(percent float64) float64 // 0 to 100
}

// Theory is a figure that theory knows, beside the interval that was observed.
type Theory struct {
	Name                string
	Known               float64
	Observed, Low, High float64 // Low and High NaN: there is no interval
}

// Table is one of the tables behind a screen. Write writes nothing where there are no rows.
type Table struct {
	Name  string
	Write func(b *bufio.Writer)
}

// WriteTables writes all tables, one behind the other.
func WriteTables(w io.Writer, tables []Table) error {
	b := bufio.NewWriter(w)
	for _, t := range tables {
		t.Write(b)
	}
	return b.Flush()
}

// Block is a few rows under one head. Columns in which nothing exists are left out, and those that don't fit from the
// right.
type Block struct {
	Heads []string // of the columns; the first is what the rows are
	Rows  []Row
	More  int    // rows that aren't here
	Table string // that has all
}

// Row is one line of a Block.
type Row struct {
	Name  string
	Cells []Cell
}

// Cell is a number or a text, or several with something between them.
type Cell struct {
	Terms []Term
	Join  string
	Bad   bool // something is wrong with it
}

// Form writes a number with enough digits to show a step, or its usual digits where that is 0.
type Form func(x, step float64) string

// Term is a figure of the results, or a text that is none.
type Term struct {
	At    string // where the JSON results have the figure: a JSON pointer (RFC 6901)
	Value float64
	As    Form    // nil: a text
	Step  float64 // the width of its interval; 0: none
	Text  string  // the text, or what stands behind the number, with a space in front
}

// String is the number with its unit, or the text.
func (p Term) String() string {
	if p.As == nil {
		return p.Text
	}
	return p.As(p.Value, p.Step) + p.Text
}

// At is a JSON pointer: names of fields and of items, and numbers of items in lists.
func At(steps ...any) string {
	var b strings.Builder
	for _, step := range steps {
		b.WriteByte('/')
		switch s := step.(type) {
		case int:
			b.WriteString(strconv.Itoa(s))
		case string:
			b.WriteString(strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1"))
		}
	}
	return b.String()
}

// The Forms of numbers.
var (
	Count   Form = func(x, _ float64) string { return table.Count(int64(x)) } // whole ones
	Plain   Form = table.NumberStep                                           // any: four digits
	Seconds Form = table.SecondsStep                                          // durations, in the unit that suits them
	Share   Form = table.PercentStep                                          // of 1, as a percentage
)

// Num is one number.
func Num(at string, x float64, as Form, unit string) Cell {
	return Cell{Terms: []Term{{At: at, Value: x, As: as, Text: unit}}}
}

// Maybe is a number that may not exist.
func Maybe(at string, x *float64, as Form, unit string) Cell {
	if x == nil {
		return Said(None)
	}
	return Num(at, *x, as, unit)
}

// None stands for a number that doesn't exist.
const None = "-"

// Said is a text.
func Said(text string) Cell { return Cell{Terms: []Term{{Text: text}}} }

// Joined is cells one behind the other.
func Joined(join string, cells ...Cell) Cell {
	all := Cell{Join: join}
	for _, c := range cells {
		all.Terms = append(all.Terms, c.Terms...)
		all.Bad = all.Bad || c.Bad
	}
	return all
}

// Change is what was before, while and after something happened.
func Change(before, during, after Cell) Cell { return Joined(" → ", before, during, after) }

// BadIf marks a cell where something is wrong with it.
func (c Cell) BadIf(bad bool) Cell {
	c.Bad = bad
	return c
}

// String is its numbers and texts.
func (c Cell) String() string {
	parts := make([]string, len(c.Terms))
	for i, p := range c.Terms {
		parts[i] = p.String()
	}
	return strings.Join(parts, c.Join)
}

// Row adds a row.
func (b *Block) Row(name string, cells ...Cell) { b.Rows = append(b.Rows, Row{name, cells}) }

// Estimate adds a row with a number, and the ends of its interval where there is one, which the JSON has at so and so.
func (b *Block) Estimate(name string, c Cell, at string, i *measure.Interval, more ...Cell) {
	b.Row(name, append(Interval(c, at, i), more...)...)
}

// Interval is a number and the ends of its interval.
func Interval(c Cell, at string, i *measure.Interval) []Cell {
	low, high := Said(None), Said(None)
	if i != nil && i.Known() && len(c.Terms) == 1 && c.Terms[0].As != nil {
		p := &c.Terms[0]
		p.Step = i.Width()
		end := func(field string, x float64) Cell {
			return Cell{Terms: []Term{{At: at + field, Value: x, As: p.As, Step: p.Step}}}
		}
		low, high = end("/low", i.Low), end("/high", i.High)
	}
	return []Cell{c, low, high}
}

// Names are those of tables.
func Names(tables []Table) []string {
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = t.Name
	}
	return names
}

// Top keeps the rows of the greatest of many things, without sorting all: its rows are the numbers of these.
type Top struct {
	most   int
	values []float64
	Items  []int // greatest first; of equal ones the first that was added first
}

// NewTop keeps so many.
func NewTop(most int) *Top { return &Top{most: most} }

// Add takes in thing i, unless its value is NaN.
func (t *Top) Add(i int, value float64) {
	if math.IsNaN(value) {
		return
	}
	k := len(t.values)
	for k > 0 && t.values[k-1] < value {
		k--
	}
	if k == t.most {
		return
	}
	t.values = append(t.values[:k], append([]float64{value}, t.values[k:]...)...)
	t.Items = append(t.Items[:k], append([]int{i}, t.Items[k:]...)...)
	t.values, t.Items = t.values[:min(t.most, len(t.values))], t.Items[:min(t.most, len(t.Items))]
}
