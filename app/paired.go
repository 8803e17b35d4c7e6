// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	untilrule "github.com/disco-sim/disco/internal/until"
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/scenario"
)

// figuresMost bounds how many figures of a run are kept, figuresAll how many of all its replications together, and
// figuresJSON how many of these are written.
const (
	figuresMost = 10_000
	figuresAll  = 1 << 24
	figuresJSON = 1 << 20
)

// figures are the numbers among a run's results, of each replication by itself: by them two runs with common random
// numbers are compared.
type figures struct {
	scenario scenario.Scenario
	most     int
	until    *until   // is shown them, too; nil: nothing ends by them
	named    []string // those that are kept, as --until calls them; empty: all
	lacks    []error  // about those that a replication doesn't have
	names    []string // in the order of the results
	of       map[string][]float64
	count    int // of replications
}

func newFigures(replications int) *figures {
	return &figures{of: map[string][]float64{}, most: max(1, min(figuresMost, figuresAll/replications))}
}

// figures are those of a run whose JSON has them, or that ends by them; nil: it doesn't need them.
func (o *order) figures() *figures {
	shown := o.json != "" || o.report != ""
	if (!shown || o.config.Replications < 2 || o.compare) && o.until == nil && len(o.named) == 0 {
		return nil
	}
	f := newFigures(o.config.Replications)
	f.named = o.named
	f.most = max(1, min(f.most, figuresJSON/o.config.Replications))
	if f.until = o.until; o.until != nil {
		o.config.Enough = o.until.enough
		if !shown {
			f.most = 0
		}
	}
	o.config.Each = f.add
	return f
}

// begin says whose results they are of; f may be nil.
func (f *figures) begin(s scenario.Scenario) {
	if f != nil {
		f.scenario = s
	}
}

// notFigures are ends of names of what says how good a figure is.
var notFigures = []string{".half_width", ".low", ".high", ".samples"}

// isFigure reports whether a number of that name among the results is about the model.
func isFigure(name string) bool {
	return !slices.ContainsFunc(notFigures, func(end string) bool { return strings.HasSuffix(name, end) })
}

// figureRow is a figure of each replication by itself, in their order.
type figureRow struct {
	Name   string        `json:"name"`
	Values []figureValue `json:"values"`
}

// figureValue is NaN, null in JSON, for a replication that has no such figure.
type figureValue float64

// MarshalJSON writes a number or null.
func (x figureValue) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(x)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(x))
}

// UnmarshalJSON reads what MarshalJSON has written.
func (x *figureValue) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*x = figureValue(math.NaN())
		return nil
	}
	return json.Unmarshal(text, (*float64)(x))
}

// rows are all figures; none where there is only one replication, whose figures are the results, unless some are named.
func (f *figures) rows() (rows []figureRow) {
	if f == nil || f.count < 2 && len(f.named) == 0 {
		return nil
	}
	for _, name := range f.names {
		row := figureRow{Name: name}
		for i := range f.count {
			x := math.NaN()
			if i < len(f.of[name]) {
				x = f.of[name][i]
			}
			row.Values = append(row.Values, figureValue(x))
		}
		rows = append(rows, row)
	}
	return rows
}

// add takes in the results of one replication (launch.Config.Each).
func (f *figures) add(rep scenario.Replication) error {
	a := f.scenario.Accumulate()
	if err := a.Add(rep); err != nil {
		return err
	}
	s, err := a.Summary()
	if err != nil {
		return err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return jsonError(err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	tree, err := readTree(dec)
	if err != nil {
		return err
	}
	var flat flattener
	flat.flatten("", tree)
	if rep.Index == 0 { // also of a run that has gone back to its begin
		f.lacks = nil
		f.names, f.of, f.count = nil, map[string][]float64{}, 0
	}
	if f.until != nil && rep.Reached == rep.Horizon {
		f.until.look(rep.Index, flat.cells)
	}
	names := f.wanted(flat.cells)
	for _, c := range flat.cells {
		x, err := strconv.ParseFloat(c.text, 64)
		if err != nil || !c.number || !isFigure(c.name) || names != nil && !slices.Contains(names, c.name) {
			continue
		}
		all, known := f.of[c.name]
		if !known {
			if len(f.names) == f.most {
				continue
			}
			f.names = append(f.names, c.name)
		}
		for len(all) < f.count {
			all = append(all, math.NaN()) // replications that don't have it
		}
		f.of[c.name] = append(all, x)
	}
	f.count++
	return nil
}

// wanted are the names of the figures of a replication that are kept; nil: all are.
func (f *figures) wanted(cells []cell) (names []string) {
	for _, figure := range f.named {
		names = append(names, untilrule.Names(figure)...)
		if untilrule.NameOf(figure, figureAmong(cells)) == "" && len(f.lacks) < len(f.named) {
			f.lacks = append(f.lacks, noFigure("--figure", figure, "", cells, isNumber))
		}
	}
	return names
}

// lacking says which of the named figures a replication doesn't have.
func (f *figures) lacking() (texts []string) {
	if f != nil {
		for _, err := range f.lacks {
			texts = append(texts, err.Error())
		}
	}
	return texts
}

// pairedRow is how much greater a figure is in a variant than in the base, in the mean of the replications.
type pairedRow struct {
	Name       string           `json:"name"`
	Difference measure.Interval `json:"difference"`
}

// differences are those of the figures of a variant that aren't the same in all replications.
func (f *figures) differences(variant *figures) (all []pairedRow) {
	for _, name := range f.names {
		was, is := f.of[name], variant.of[name]
		var pairs []measure.Series
		differs := false
		for i := range min(len(was), len(is)) {
			d := is[i] - was[i]
			if math.IsNaN(d) {
				continue // one of them hasn't got it
			}
			differs = differs || d != 0
			pairs = append(pairs, measure.Series{Y: []float64{d}, X: []float64{1}})
		}
		if !differs {
			continue
		}
		if i, ok := measure.Ratio(pairs); ok {
			all = append(all, pairedRow{name, i})
		}
	}
	return all
}

// differencesText writes how variants differ from the base, of the figures that the table shows.
func (p *program) differencesText(doc *sweepDocument) error {
	if doc.Variant == nil || len(doc.Rows) < 2 {
		return nil
	}
	t := newTable(doc)
	shown, err := t.chosen(doc.columns)
	if err != nil {
		return err
	}
	if shown == nil {
		shown, _ = t.differing()
	}
	fmt.Fprintf(p.stdout, "\ndifferences from the first row, in the mean of %s with common random numbers; the truth "+
		"lies between from\nand to with a probability of %g %%\n", count(doc.Rows[0].Replications, "replication"),
		100*measure.Confidence)
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	for i := range t.keys {
		fmt.Fprintf(w, "%s\t", t.shortKey(i))
	}
	fmt.Fprintln(w, "figure\tdifference\tfrom\tto\t")
	for i, row := range doc.Rows {
		for _, d := range row.Differences {
			if k := slices.Index(t.columns, d.Name); k >= 0 && slices.Contains(shown, k) {
				for key := range t.keys {
					fmt.Fprintf(w, "%s\t", t.rows[i][key])
				}
				fmt.Fprintf(w, "%s\t%s\n", d.Name, d.text())
			}
		}
	}
	_ = w.Flush() // the writer behind it keeps its errors
	return nil
}

// text is the difference in three cells.
func (d *pairedRow) text() string {
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }
	i := &d.Difference
	if !i.Known() {
		return fmt.Sprintf("%s\t-\t-\t", number(i.Mean))
	}
	return fmt.Sprintf("%s\t%s\t%s\t", number(i.Mean), number(i.Low), number(i.High))
}
