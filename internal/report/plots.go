// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/disco-sim/disco/model/overview"
)

// plane is the axes of a plot: numbers to places.
type plane struct {
	x0, x1, y0, y1 float64
	b              strings.Builder
	top, bottom    float64
	left           float64
	letter         float64 // how wide one is on a phone
	taken          float64 // up to where the axis of x has texts
}

func (p *plane) px(x float64) float64 { return p.left + (x-p.x0)/(p.x1-p.x0)*(right-p.left) }
func (p *plane) py(y float64) float64 { return p.bottom - (y-p.y0)/(p.y1-p.y0)*(p.bottom-p.top) }

// begin begins the picture with the grid of y.
func (p *plane) begin(title string, high float64, ys []float64) {
	fmt.Fprintf(&p.b, `<svg viewBox="0 0 %d %.0f" role="img" aria-label="%s"><title>%s</title>`, width, high,
		html.EscapeString(title), html.EscapeString(title))
	for i, text := range numbers(ys) {
		y := ys[i]
		fmt.Fprintf(&p.b, `<path class="grid" d="M%.0f %.1fH%d"/><text x="%.0f" y="%.1f" text-anchor="end">%s</text>`,
			p.left, p.py(y), right, p.left-6, p.py(y)+4, text)
	}
}

// xText marks a place of the axis of x, from left to right, unless its text would run into the one before.
func (p *plane) xText(x float64, text string) {
	half := p.letter * float64(utf8.RuneCountInString(text)) / 2
	at, anchor, begin := p.px(x), "middle", p.px(x)-half
	if at+half > width-2 {
		at, anchor, begin = width-2, "end", width-2-2*half
	}
	if begin < p.taken+p.letter/2 {
		return
	}
	p.taken = begin + 2*half
	fmt.Fprintf(&p.b, `<path class="grid" d="M%.1f %.0fV%.0f"/><text x="%.1f" y="%.0f" text-anchor="%s">%s</text>`,
		p.px(x), p.top, p.bottom, at, p.bottom+18, anchor, html.EscapeString(text))
}

// newPlane has axes around values.
func newPlane(x0, x1, low, high float64) (*plane, []float64) {
	if !(high > low) {
		low, high = low-math.Abs(low)/10, high+math.Abs(high)/10
	}
	if !(high > low) {
		high = low + 1
	}
	ticks := ticksOf(low, high)
	if !(x1 > x0) {
		x0, x1 = x0-0.5, x1+0.5
	}
	return &plane{x0: x0, x1: x1, y0: min(low, ticks[0]), y1: max(high, ticks[len(ticks)-1]), top: top, bottom: bottom,
		left: left, letter: 11}, ticks
}

// percentTexts are the marks of an axis of percentiles.
var percentTexts = []struct {
	percent float64
	text    string
}{{0, "0"}, {50, "50 %"}, {90, "90 %"}, {99, "99 %"}, {99.9, "99.9 %"}, {99.99, "99.99 %"}, {99.999, "99.999 %"}}

// tail is where a percentile stands: each 9 is as wide as the one before it.
func tail(percent float64) float64 { return -math.Log10(1 - percent/100) }

// spreadFigure draws values by percentile, up to where a single one decides.
func spreadFigure(s *overview.Distribution) figure {
	if s.Count < 20 {
		return figure{}
	}
	most := min(math.Log10(float64(s.Count)), tail(99.999))
	var xs, ys []float64
	low, high := 0.0, 0.0
	for k := 0; ; k++ {
		t := min(float64(k)*0.05, most)
		y := s.At(100 * (1 - math.Pow(10, -t)))
		if !math.IsNaN(y) {
			xs, ys = append(xs, t), append(ys, y)
			low, high = min(low, y), max(high, y)
		}
		if t == most {
			break
		}
	}
	unit := ""
	if s.Unit != "" {
		unit = " (" + s.Unit + ")"
	}
	p, ticks := newPlane(0, most, low, high)
	p.begin(s.Name+unit+" by percentile", height, ticks)
	for _, m := range percentTexts {
		if t := tail(m.percent); t <= most {
			p.xText(t, m.text)
		}
	}
	p.line(0, xs, ys)
	p.b.WriteString("</svg>")
	return figure{Title: s.Name + unit + " by percentile", Note: "of " + number(float64(s.Count)) +
		"; where the curve is at 99 %, one of a hundred took longer", SVG: template.HTML(p.b.String())}
}

// line is a curve.
func (p *plane) line(k int, xs, ys []float64) {
	fmt.Fprintf(&p.b, `<path class="line l%d" d="`, k)
	gap, mark := true, map[bool]byte{true: 'M', false: 'L'}
	for i := range xs {
		if math.IsNaN(ys[i]) {
			gap = true
			continue
		}
		fmt.Fprintf(&p.b, "%c%.1f %.1f", mark[gap], p.px(xs[i]), p.py(ys[i]))
		gap = false
	}
	p.b.WriteString(`"/>`)
}

// rowStep is the distance of two rows of dots.
const (
	rowStep  = 24
	rowsLeft = 210
)

// rows is a plane of rows, one below the other.
func rows(title string, n int, low, high float64) *plane {
	p, _ := newPlane(low, high, 0, 1)
	p.left, p.top, p.bottom, p.letter = rowsLeft, top, top+float64(n*rowStep), 6.7 // it scrolls on a phone
	p.begin(title, p.bottom+30, nil)
	ticks := ticksOf(p.x0, p.x1)
	for i, text := range numbers(ticks) {
		if x := ticks[i]; x >= p.x0-1e-12 && x <= p.x1+1e-12 {
			p.xText(x, text)
		}
	}
	return p
}

// row is a name, an interval where there is one, and a dot.
func (p *plane) row(i int, name string, x, low, high float64, class string) {
	y := p.top + float64(i*rowStep) + rowStep/2
	short := []rune(name)
	if len(short) > 30 {
		short = append(short[:29:29], '…')
	}
	fmt.Fprintf(&p.b, `<text x="%.0f" y="%.1f" text-anchor="end">%s</text>`, p.left-10, y+4,
		html.EscapeString(string(short)))
	if low <= high {
		fmt.Fprintf(&p.b, `<path class="bar %s" d="M%.1f %.1fH%.1fM%.1f %.1fv8M%.1f %.1fv8"/>`, class, p.px(low), y,
			p.px(high), p.px(low), y-4, p.px(high), y-4)
	}
	if !math.IsNaN(x) {
		fmt.Fprintf(&p.b, `<circle class="dot %s" cx="%.1f" cy="%.1f" r="4"/>`, class, p.px(x), y)
	}
}

// theoryFigure draws what was observed in units of what theory says.
func theoryFigure(all []overview.Theory) figure {
	var list []overview.Theory
	low, high := 1.0, 1.0
	for _, t := range all {
		if !(t.Known > 0) || !(t.Observed >= 0) {
			continue
		}
		t.Observed, t.Low, t.High = t.Observed/t.Known, t.Low/t.Known, t.High/t.Known
		low, high = min(low, t.Observed), max(high, t.Observed)
		if t.Low <= t.High {
			low, high = min(low, t.Low), max(high, t.High)
		}
		list = append(list, t)
	}
	if len(list) == 0 {
		return figure{}
	}
	low, high = max(low, 0), min(high, 3)
	room := max(0.02, 0.05*(high-low))
	p := rows("observed over theory", len(list), low-room, high+room)
	fmt.Fprintf(&p.b, `<path class="truth" d="M%.1f %.0fV%.0f"/>`, p.px(1), p.top, p.bottom)
	outside := 0
	for i, t := range list {
		class := "l0"
		if t.Low <= t.High && !(t.Low <= 1 && t.High >= 1) {
			class = "l1"
			outside++
		}
		t.Observed, t.Low, t.High = min(t.Observed, high), max(t.Low, low), min(t.High, high)
		p.row(i, t.Name, t.Observed, t.Low, t.High, class)
	}
	p.b.WriteString(`</svg><ul class="legend"><li class="k0">95 % interval that holds what theory says</li>` +
		`<li class="k1">that doesn't</li></ul>`)
	note := "the line at 1 is theory"
	if outside > 0 {
		note += fmt.Sprintf("; %d of %d intervals don't hold it: one of 20 does that by chance", outside, len(list))
	}
	return figure{Title: "observed, over what theory says", Note: note, SVG: template.HTML(p.b.String()), Large: true}
}

// replicationsMost is how many replications have a dot each.
const replicationsMost = 2000

// replicationFigures draw each figure of the first screen that has an interval and values of single replications.
func replicationFigures(o *overview.Page, values map[string][]float64) (all []figure) {
	for _, r := range o.Figures.Rows {
		if len(r.Cells) < 3 || len(r.Cells[0].Terms) != 1 || len(r.Cells[1].Terms) != 1 || len(r.Cells[2].Terms) != 1 {
			continue
		}
		mean, low, high := r.Cells[0].Terms[0], r.Cells[1].Terms[0], r.Cells[2].Terms[0]
		name := strings.ReplaceAll(strings.TrimPrefix(mean.At, "/"), "/", ".")
		list := values[name]
		if len(list) < 2 || low.As == nil || high.As == nil {
			continue
		}
		all = append(all, replicationFigure(r.Name, list, mean, low.Value, high.Value))
	}
	return all
}

// replicationFigure is a row of dots: each replication, and the interval of the mean above them.
func replicationFigure(name string, list []float64, mean overview.Term, low, high float64) figure {
	least, most := min(low, mean.Value), max(high, mean.Value)
	for _, x := range list {
		if !math.IsNaN(x) {
			least, most = min(least, x), max(most, x)
		}
	}
	room := 0.03 * (most - least)
	p := rows(name+" by replication", 2, least-room, most+room)
	p.row(0, "all, with 95 % interval", mean.Value, low, high, "l1")
	p.row(1, fmt.Sprintf("%d replications", len(list)), math.NaN(), math.NaN(), math.NaN(), "")
	y := p.top + rowStep + rowStep/2
	for i, x := range list[:min(len(list), replicationsMost)] {
		if !math.IsNaN(x) {
			fmt.Fprintf(&p.b, `<circle class="dot l0 thin" cx="%.1f" cy="%.1f" r="3.5"/>`, p.px(x), y+float64(i*5%11-5))
		}
	}
	p.b.WriteString("</svg>")
	return figure{Title: name, Note: "each dot is a replication", SVG: template.HTML(p.b.String()), Large: true}
}
