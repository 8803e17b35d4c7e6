// SPDX-License-Identifier: Apache-2.0

// Package report writes what a run has found out as one page of HTML, for somebody who didn't write the scenario: what
// ran, the figures that matter, how figures develop over simulated time with outages shaded, the worst boxes and links,
// how to repeat it, and the scenario.
//
// Guarantee: a page needs no other file, no script and no network, and its policy lets a browser load none; text from
// outside is escaped; it has at most BytesMax bytes, whatever the model is, and the same content gives the same bytes.
//
//	p := &report.Page{Title: "mini", Overview: page, Scenario: text}
//	p.AddSeries(&series)
//	err := report.Write(w, p)
package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"

	"github.com/disco-sim/disco/model/overview"
	"github.com/disco-sim/disco/scenario"
)

// Bounds of a page.
const (
	BytesMax      = 2 << 20
	chartsMax     = 40        // of the whole, and as many of single things
	linesMax      = 6         // of a chart
	scenarioBytes = 256 << 10 // that are shown
	rowsMax       = 200       // of a block
)

// Page is what is written.
type Page struct {
	Title    string
	Facts    []Fact         // what ran
	Overview *overview.Page // nil: there is only Text
	Text     string         // of results that have no overview
	Spans    []scenario.Span
	Repeat   []string // command lines
	File     string   // of the scenario
	Scenario string

	Drawing      *scenario.Drawing    // nil: it can't be drawn
	Replications map[string][]float64 // each one's figures, by where the JSON has them: latency_s.mean
	Sweep        *Sweep               // nil: it is about one run, and has all the above

	whole []*chart
	each  []*chart
}

// Fact is something about the run.
type Fact struct{ Name, Value string }

// AddSeries adds a time series: those of the whole stand with others of their unit and first word, such as latency_p50
// and latency_p99, in one chart, those of single things with the others of their name, of which the greatest are shown.
func (p *Page) AddSeries(s *scenario.Series) {
	list, name := &p.each, s.Name
	if s.Of == "" {
		list = &p.whole
		name, _, _ = strings.Cut(s.Name, "_")
	}
	var c *chart
	for _, other := range *list {
		if other.group == name && other.unit == s.Unit {
			c = other
		}
	}
	if c == nil {
		if len(*list) == chartsMax {
			return
		}
		c = &chart{group: name, title: strings.ReplaceAll(s.Name, "_", " "), unit: s.Unit, spans: p.Spans}
		*list = append(*list, c)
	} else if s.Of == "" {
		c.title = name
	}
	label := s.Of
	if label == "" {
		label = strings.ReplaceAll(s.Name, "_", " ")
	}
	c.add(line{label: label, edges: s.Edges, values: s.Values})
}

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// block is a table of the page.
type block struct {
	Heads []string
	Rows  []row
	More  int
}

type row struct {
	Name  string
	Cells []cell
}

type cell struct {
	Text string
	Bad  bool
}

// newBlock leaves out columns in which nothing exists.
func newBlock(b *overview.Block) (out block) {
	out.More = b.More
	columns := 0
	for _, r := range b.Rows {
		columns = max(columns, len(r.Cells))
	}
	used := make([]bool, columns)
	for _, r := range b.Rows {
		for i, c := range r.Cells {
			used[i] = used[i] || c.String() != overview.None && c.String() != ""
		}
	}
	for i, h := range b.Heads {
		if i == 0 || i-1 < columns && used[i-1] {
			out.Heads = append(out.Heads, h)
		}
	}
	for n, r := range b.Rows {
		if n == rowsMax {
			out.More += len(b.Rows) - n
			break
		}
		one := row{Name: r.Name}
		for i := range columns {
			switch {
			case !used[i]:
			case i < len(r.Cells):
				one.Cells = append(one.Cells, cell{r.Cells[i].String(), r.Cells[i].Bad})
			default:
				one.Cells = append(one.Cells, cell{})
			}
		}
		out.Rows = append(out.Rows, one)
	}
	return out
}

// figure is a chart of the page.
type figure struct {
	Title string
	Note  string
	Large bool          // it is too fine for the width of a phone, and scrolls there
	SVG   template.HTML // of this package's making: what it has of others is escaped there
}

func figures(list []*chart) (all []figure) {
	for _, c := range list {
		if f := c.figure(); f.SVG != "" {
			all = append(all, f)
		}
	}
	return all
}

// Write writes the page.
func Write(w io.Writer, p *Page) error {
	data := struct {
		*Page
		Blocks      []block
		Whole, Each []figure
		Picture     figure
		Spreads     []figure
		Theory      figure
		Single      []figure // figures by replication
		Swept       []figure
		Cut         bool
	}{Page: p, Whole: figures(p.whole), Each: figures(p.each), Picture: drawPicture(p.Drawing)}
	if s := p.Sweep; s != nil {
		data.Swept = s.figures()
		data.Blocks = []block{s.block()}
	}
	if o := p.Overview; o != nil {
		for i := range o.Distributions {
			if f := spreadFigure(&o.Distributions[i]); f.SVG != "" {
				data.Spreads = append(data.Spreads, f)
			}
		}
		data.Theory, data.Single = theoryFigure(o.Theories), replicationFigures(o, p.Replications)
		for _, b := range append([]overview.Block{o.Figures}, o.Blocks...) {
			if len(b.Rows) > 0 {
				data.Blocks = append(data.Blocks, newBlock(&b))
			}
		}
	}
	if len(p.Scenario) > scenarioBytes {
		short := *p
		short.Scenario, data.Cut = strings.ToValidUTF8(p.Scenario[:scenarioBytes], ""), true
		data.Page = &short
	}
	var text bytes.Buffer
	if err := pageTemplate.Execute(&text, data); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if text.Len() > BytesMax && (data.Each != nil || len(data.Scenario) > 0 || data.Picture.SVG != "") {
		// Texts of outside may be escaped in several bytes each.
		short := *data.Page
		data.Page, data.Each, data.Cut, short.Scenario, data.Picture = &short, nil, true, "", figure{}
		text.Reset()
		if err := pageTemplate.Execute(&text, data); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	if text.Len() > BytesMax {
		return fmt.Errorf("report: found a page of %d bytes, want at most %d: the results have too much text",
			text.Len(), BytesMax)
	}
	_, err := w.Write(text.Bytes())
	return err
}

// mean is that of the values that exist, -Inf of none.
func mean(values []float64) float64 {
	sum, n := 0.0, 0
	for _, x := range values {
		if !math.IsNaN(x) {
			sum, n = sum+x, n+1
		}
	}
	if n == 0 {
		return math.Inf(-1)
	}
	return sum / float64(n)
}
