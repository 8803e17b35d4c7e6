// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/scenario"
)

// A chart is lines over simulated time. Colours are those of the page's style, light or dark.
type chart struct {
	group string // what its lines have in common
	title string
	unit  string
	lines []line // of each thing the greatest by mean
	more  int    // that aren't here
	spans []scenario.Span
}

type line struct {
	label  string
	edges  []float64
	values []float64
	mean   float64
}

// add adds a line, in the place of a lesser one where there are enough.
func (c *chart) add(l line) {
	if l.mean = mean(l.values); math.IsInf(l.mean, -1) {
		return
	}
	c.lines = append(c.lines, l)
	if len(c.lines) > linesMax {
		least := 0
		for i := range c.lines {
			if c.lines[i].mean < c.lines[least].mean {
				least = i
			}
		}
		c.lines = slices.Delete(c.lines, least, least+1)
		c.more++
	}
}

// The plane of a chart, in the units of its picture.
const (
	width, height = 720, 220
	left, right   = 58, 712
	top, bottom   = 12, 190
)

// figure draws it; without lines there is nothing.
func (c *chart) figure() figure {
	if len(c.lines) == 0 {
		return figure{}
	}
	from, until, low, high := c.lines[0].edges[0], 0.0, 0.0, 0.0
	for _, l := range c.lines {
		from, until = min(from, l.edges[0]), max(until, l.edges[len(l.edges)-1])
		for _, x := range l.values {
			if !math.IsNaN(x) {
				low, high = min(low, x), max(high, x)
			}
		}
	}
	if high == low {
		high = low + 1
	}
	ticks := ticksOf(low, high)
	low, high = min(low, ticks[0]), max(high, ticks[len(ticks)-1])
	px := func(t float64) float64 { return left + (t-from)/(until-from)*(right-left) }
	py := func(x float64) float64 { return bottom - (x-low)/(high-low)*(bottom-top) }
	var b strings.Builder
	unit := c.unit
	if unit != "" {
		unit = " (" + unit + ")"
	}
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s"><title>%s</title>`, width, height,
		html.EscapeString(c.title+unit+" over simulated time"), html.EscapeString(c.title+unit))
	for _, s := range c.spans {
		a, z := px(max(from, s.From)), px(min(until, s.To))
		if z > a {
			fmt.Fprintf(&b, `<rect class="span" x="%.1f" y="%d" width="%.1f" height="%d"><title>%s</title></rect>`, a,
				top, z-a, bottom-top, html.EscapeString(s.Name))
		}
	}
	for i, text := range numbers(ticks) {
		fmt.Fprintf(&b, `<path class="grid" d="M%d %.1fH%d"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`, left,
			py(ticks[i]), right, left-6, py(ticks[i])+4, text)
	}
	times := ticksOf(from, until)
	texts := numbers(times)
	for i, t := range times {
		if t >= from && t <= until {
			text := texts[i]
			if i == len(times)-1 || times[i+1] > until {
				text += " s"
			}
			x, anchor := px(t), "middle"
			if x > right-24 {
				x, anchor = width-2, "end"
			}
			fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="%s">%s</text>`, x, bottom+18, anchor, text)
		}
	}
	for i, l := range c.lines {
		fmt.Fprintf(&b, `<path class="line l%d" d="%s"/>`, i, l.path(px, py))
	}
	b.WriteString("</svg>")
	if len(c.lines) > 1 || c.lines[0].label != c.title {
		b.WriteString(`<ul class="legend">`)
		for i, l := range c.lines {
			fmt.Fprintf(&b, `<li class="k%d">%s</li>`, i, html.EscapeString(l.label))
		}
		b.WriteString("</ul>")
	}
	note := ""
	if c.more > 0 {
		note = fmt.Sprintf("the %d with the greatest mean, of %d", len(c.lines), len(c.lines)+c.more)
	}
	return figure{Title: c.title + unit, Note: note, SVG: template.HTML(b.String())}
}

// path is the line in steps, with gaps where there is no value.
func (l *line) path(px, py func(float64) float64) string {
	var b strings.Builder
	gap := true
	for k, x := range l.values {
		if math.IsNaN(x) {
			gap = true
			continue
		}
		a, z, y := px(l.edges[k]), px(l.edges[k+1]), py(x)
		if gap {
			fmt.Fprintf(&b, "M%.1f %.1f", a, y)
		} else {
			fmt.Fprintf(&b, "V%.1f", y)
		}
		fmt.Fprintf(&b, "H%.1f", z)
		gap = false
	}
	return b.String()
}

// ticksOf are some four to eight round numbers from about low to at least high.
func ticksOf(low, high float64) (list []float64) {
	step := math.Pow10(int(math.Floor(math.Log10((high - low) / 4))))
	for _, m := range []float64{1, 2, 5, 10} {
		if (high-low)/(m*step) <= 6 {
			step *= m
			break
		}
	}
	for k := math.Floor(low / step); len(list) < 12; k++ {
		list = append(list, k*step)
		if k*step >= high {
			break
		}
	}
	return list
}

// number is a number in few letters.
func number(x float64) string { return rounded(x, 4) }

// numbers are what stands at an axis: with as many digits as it takes that different numbers look different.
func numbers(list []float64) (texts []string) {
	for digits := 4; digits <= 17; digits++ {
		texts = texts[:0]
		same := false
		for i, x := range list {
			texts = append(texts, rounded(x, digits))
			same = same || i > 0 && texts[i] == texts[i-1] && x != list[i-1]
		}
		if !same {
			break
		}
	}
	return texts
}

// rounded is a number with so many digits.
func rounded(x float64, digits int) string {
	for _, p := range []struct {
		from float64
		text string
	}{{1e9, "G"}, {1e6, "M"}, {1e4, "k"}} {
		if scale := map[string]float64{"G": 1e9, "M": 1e6, "k": 1e3}[p.text]; math.Abs(x) >= p.from {
			return strconv.FormatFloat(x/scale, 'g', digits, 64) + p.text
		}
	}
	return strconv.FormatFloat(x, 'g', digits, 64)
}
