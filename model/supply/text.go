// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/model/overview"
	"github.com/disco-sim/disco/scenario"
)

// rowsMax bounds a table of the text: a page for people. JSON and CSV have all.
const rowsMax = 60

// WriteText writes the results for people.
func (r *Results) WriteText(w io.Writer) error { return overview.WriteTables(w, r.tables()) }

// tables are all that there is to show, in the order of tableNames.
func (r *Results) tables() []overview.Table {
	return []overview.Table{{Name: "stages", Write: r.writeStages}, {Name: "stocks", Write: r.writeStocks}}
}

func (r *Results) writeStages(b *bufio.Writer) {
	fmt.Fprintf(b, "supply network %s: %s of %s, the first %s not counted", r.name,
		table.Plural(r.Replications, "replication"), table.Seconds(r.HorizonSeconds), table.Seconds(r.WarmupSeconds))
	if r.Interrupted {
		b.WriteString(", INTERRUPTED")
	}
	b.WriteString("\n")
	if r.Samples > 1 {
		fmt.Fprintf(b, "the truth lies between from and to with a probability of %s\n", table.Percent(r.Confidence))
	} else {
		b.WriteString("one replication has no intervals: use --replications 10, or more\n")
	}
	t := table.New(rowsMax, "", "observed", "from", "to")
	for _, s := range r.Stages {
		name := "stage " + strconv.Itoa(s.Stage)
		if s.Stage == 0 {
			name += ", where demand is"
		}
		writeFigures(t, fmt.Sprintf("%s (%s)", name, table.Plural(s.Points, "stock")), s.Figures)
	}
	writeFigures(t, fmt.Sprintf("all (%s)", table.Plural(r.all, "stock")), r.Total)
	t.Write(b)
}

func (r *Results) writeStocks(b *bufio.Writer) {
	t := table.New(rowsMax, "stock", "stage", "fill rate", "on hand", "backlog", "on order", "bullwhip", "cost /s")
	for _, p := range r.Points {
		stage := "-"
		if p.Stage != nil {
			stage = strconv.Itoa(*p.Stage)
		}
		row := []string{p.Location + " " + p.Product, stage}
		for _, name := range []string{"fill_rate", "stock", "backlog", "on_order", "bullwhip", "cost_per_s"} {
			row = append(row, digits(p.Figures[name]))
		}
		t.Row(row...)
	}
	t.Write(b)
	if len(r.Points) < r.all {
		fmt.Fprintf(b, "\n%s: each in the table that --csv writes\n", table.Plural(r.all, "stock"))
	}
}

func writeFigures(t *table.Table, head string, all Figures) {
	t.Row(head)
	for i := range figureList {
		f := &figureList[i]
		x := all[f.name]
		if f.text == "" || x == nil {
			continue
		}
		low, high := "-", "-"
		if x.Known() {
			low, high = number(x.Low, x.Width()), number(x.High, x.Width())
		}
		t.Row("  "+f.text, digits(x), low, high)
	}
}

// digits writes an estimate.
func digits(x *measure.Interval) string {
	if x == nil {
		return "-"
	}
	return number(x.Mean, x.Width())
}

// number writes four digits, or more where it takes more to see a step, the width of an interval.
func number(x, step float64) string {
	return strconv.FormatFloat(x, 'g', table.Significant(x, step, 4), 64)
}

// tableHead is that of Table.
var tableHead = []string{"location", "product", "stage", "figure", "value", "low", "high"}

// Table implements scenario.Tabular: a row for each figure of all, of each stage and of each point.
func (m *Model) Table(results scenario.Summary) [][]string {
	r := results.(*Results)
	rows := [][]string{tableHead}
	rows = appendRows(rows, r.Total, "", "", "")
	for _, s := range r.Stages {
		rows = appendRows(rows, s.Figures, "", "", strconv.Itoa(s.Stage))
	}
	n := 0
	m.spec.eachPoint(func(loc *Location, p *Point) {
		stage := ""
		if p.Stage != NoStage {
			stage = strconv.Itoa(int(p.Stage))
		}
		all := Figures(nil)
		if r.sums != nil {
			all = figures(r.sums[n : n+1])
		} else {
			all = r.Points[n].Figures
		}
		n++
		rows = appendRows(rows, all, loc.ID, m.spec.Products[p.Product], stage)
	})
	return rows
}

func appendRows(rows [][]string, all Figures, location, product, stage string) [][]string {
	write := func(x float64) string {
		if math.IsInf(x, 0) {
			return ""
		}
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	for i := range figureList {
		if x := all[figureList[i].name]; x != nil {
			rows = append(rows, []string{location, product, stage, figureList[i].name, write(x.Mean), write(x.Low),
				write(x.High)})
		}
	}
	return rows
}
