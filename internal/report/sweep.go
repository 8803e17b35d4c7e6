// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/model/overview"
)

// Sweep is runs of one scenario with other values of some fields.
type Sweep struct {
	Keys   []string // fields
	Points []Point
	Heads  []string // of a table of all points
	Rows   [][]string
}

// Point is one of the runs.
type Point struct {
	At      []string // values of the keys
	Figures overview.Block
}

// sample is a figure at a point.
type sample struct {
	x, y             float64 // values of the first two keys
	value, low, high float64 // NaN: there are none
	text             string
}

// swept is a figure at all points that have it.
type swept struct {
	name    string
	samples []sample
}

// swept are the figures, in the order of the first screen. ok is false where the keys have values that aren't numbers,
// or are more than two: then the table is all there is.
func (s *Sweep) swept() (all []*swept, ok bool) {
	if len(s.Keys) == 0 || len(s.Keys) > 2 {
		return nil, false
	}
	for _, p := range s.Points {
		at := [2]float64{}
		for k, text := range p.At {
			x, err := strconv.ParseFloat(text, 64)
			if at[k] = x; err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
				return nil, false
			}
		}
		for _, r := range p.Figures.Rows {
			if len(r.Cells) == 0 || len(r.Cells[0].Terms) != 1 || r.Cells[0].Terms[0].As == nil {
				continue
			}
			one := sample{x: at[0], y: at[1], value: r.Cells[0].Terms[0].Value, text: r.Cells[0].String(),
				low: math.NaN(), high: math.NaN()}
			if len(r.Cells) > 2 && len(r.Cells[1].Terms) == 1 && strings.HasSuffix(r.Cells[1].Terms[0].At, "/low") {
				one.low, one.high = r.Cells[1].Terms[0].Value, r.Cells[2].Terms[0].Value
			}
			i := slices.IndexFunc(all, func(f *swept) bool { return f.name == r.Name })
			if i < 0 {
				i = len(all)
				all = append(all, &swept{name: r.Name})
			}
			all[i].samples = append(all[i].samples, one)
		}
	}
	return all[:min(len(all), chartsMax)], true
}

// figures are curves over one key, or heat maps over two.
func (s *Sweep) figures() (list []figure) {
	all, ok := s.swept()
	if !ok || len(s.Points) < 2 {
		return nil
	}
	for _, f := range all {
		if len(s.Keys) == 1 {
			list = append(list, f.curve(s.Keys[0]))
		} else {
			list = append(list, f.heat(s.Keys))
		}
	}
	return list
}

// curve is the figure over the key, with its intervals; over its logarithm where it has values of all sizes.
func (f *swept) curve(key string) figure {
	list := slices.Clone(f.samples)
	slices.SortStableFunc(list, func(a, b sample) int { return cmp.Compare(a.x, b.x) })
	first, last := list[0].x, list[len(list)-1].x
	axis, over := func(x float64) float64 { return x }, key
	if first > 0 && last/first > 30 {
		axis, over = math.Log10, key+", on a scale of its logarithm"
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, s := range list {
		for _, y := range []float64{s.value, s.low, s.high} {
			if !math.IsNaN(y) {
				low, high = min(low, y), max(high, y)
			}
		}
	}
	if low > 0 && low < high/2 {
		low = 0
	}
	p, ticks := newPlane(axis(first), axis(last), low, high)
	p.begin(f.name+" over "+key, height, ticks)
	values := make([]float64, len(list))
	for i, s := range list {
		values[i] = s.x
	}
	for i, text := range numbers(values) {
		p.xText(axis(values[i]), text)
	}
	var xs, ys []float64
	band, back := "", ""
	for _, s := range list {
		xs, ys = append(xs, axis(s.x)), append(ys, s.value)
		if s.low <= s.high {
			band += fmt.Sprintf("L%.1f %.1f", p.px(axis(s.x)), p.py(s.high))
			back = fmt.Sprintf("L%.1f %.1f", p.px(axis(s.x)), p.py(s.low)) + back
		}
	}
	note := ""
	if band != "" {
		fmt.Fprintf(&p.b, `<path class="band" d="M%sZ"/>`, (band + back)[1:])
		note = "with 95 % intervals; "
	}
	p.line(0, xs, ys)
	for i, s := range list {
		fmt.Fprintf(&p.b, `<circle class="dot l0" cx="%.1f" cy="%.1f" r="3.5"><title>%s</title></circle>`, p.px(xs[i]),
			p.py(ys[i]), html.EscapeString(key+" = "+number(s.x)+": "+s.text))
	}
	p.b.WriteString("</svg>")
	return figure{Title: f.name, Note: note + "over " + over, SVG: template.HTML(p.b.String())}
}

// cellTexts is up to how many columns a heat map has numbers in its cells.
const cellTexts = 9

// heat is a cell for each pair of values.
func (f *swept) heat(keys []string) figure {
	var xs, ys []float64
	low, high := math.Inf(1), math.Inf(-1)
	for _, s := range f.samples {
		xs, ys = append(xs, s.x), append(ys, s.y)
		low, high = min(low, s.value), max(high, s.value)
	}
	slices.Sort(xs)
	slices.Sort(ys)
	xs, ys = slices.Compact(xs), slices.Compact(ys)
	const from, to, start = 90.0, 712.0, 10.0
	w, h := (to-from)/float64(len(xs)), min(34, max(6, 340/float64(len(ys))))
	end := start + h*float64(len(ys))
	var b strings.Builder
	title := html.EscapeString(fmt.Sprintf("%s over %s and %s", f.name, keys[0], keys[1]))
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %.0f" role="img" aria-label="%s"><title>%s</title>`, width, end+24, title,
		title)
	for _, s := range f.samples {
		i, _ := slices.BinarySearch(xs, s.x)
		k, _ := slices.BinarySearch(ys, s.y)
		x, y := from+w*float64(i), end-h*float64(k+1)
		share := 0.5
		if high > low {
			share = (s.value - low) / (high - low)
		}
		fill, ink := ramp(share)
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" style="fill:%s"><title>%s</title></rect>`,
			x, y, w, h, fill, html.EscapeString(fmt.Sprintf("%s = %s, %s = %s: %s%s", keys[0], number(s.x), keys[1],
				number(s.y), s.text, s.interval())))
		if len(xs) <= cellTexts && h > 16 {
			fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle" style="fill:%s">%s</text>`, x+w/2, y+h/2+4,
				ink, html.EscapeString(s.text))
		}
	}
	room := 0.0
	for i, text := range numbers(xs) {
		if at := from + w*(float64(i)+0.5); at > room {
			fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, at, end+16, text)
			room = at + 44
		}
	}
	for k, text := range numbers(ys) {
		if every := int(math.Ceil(16 / h)); k%every == 0 {
			fmt.Fprintf(&b, `<text x="%.0f" y="%.1f" text-anchor="end">%s</text>`, from-8, end-h*(float64(k)+0.5)+4,
				text)
		}
	}
	b.WriteString("</svg>")
	return figure{Title: f.name, Note: fmt.Sprintf("to the right %s, upwards %s; from %s, dark, to %s, bright", keys[0],
		keys[1], number(low), number(high)), SVG: template.HTML(b.String()), Large: true}
}

// interval is what stands behind a value.
func (s *sample) interval() string {
	if !(s.low <= s.high) {
		return ""
	}
	return ", 95 % from " + number(s.low) + " to " + number(s.high)
}

// ramp is a colour from dark blue by green to yellow, whose lightness grows evenly, so that it is read without colours
// too, and one for text on it.
func ramp(share float64) (fill, ink string) {
	stops := [][3]float64{{46, 30, 92}, {44, 84, 138}, {33, 137, 141}, {77, 187, 107}, {244, 228, 70}}
	at := min(max(share, 0), 1) * float64(len(stops)-1)
	i := min(int(at), len(stops)-2)
	part := at - float64(i)
	c := [3]int{}
	for k := range c {
		c[k] = int(math.Round(stops[i][k]*(1-part) + stops[i+1][k]*part))
	}
	ink = "#fff"
	if share > 0.55 {
		ink = "#111"
	}
	return fmt.Sprintf("#%02x%02x%02x", c[0], c[1], c[2]), ink
}

// block is the table of all points.
func (s *Sweep) block() (b block) {
	b.Heads = s.Heads
	for n, r := range s.Rows {
		if n == rowsMax {
			b.More = len(s.Rows) - n
			break
		}
		one := row{Name: r[0]}
		for _, text := range r[1:] {
			one.Cells = append(one.Cells, cell{Text: text})
		}
		b.Rows = append(b.Rows, one)
	}
	return b
}
