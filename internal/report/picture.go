// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/disco-sim/disco/internal/drawing"
	"github.com/disco-sim/disco/scenario"
)

// Bounds of a picture of boxes and links.
const (
	pictureWidth  = 720
	pictureMargin = 40
	heightLeast   = 140
	heightMost    = 560
	heightOfBox   = 40   // a picture of few boxes is no higher than they need
	labelsMost    = 40   // boxes up to which all have their names
	labelsFew     = 12   // names where there are more: those of the greatest loads
	singleMost    = 300  // links up to which each is a curve of its own
	titledMost    = 2500 // boxes up to which each says its name when it is pointed at
	loadClasses   = 5
)

// picture is boxes and links, coloured by load.
type picture struct {
	d      *scenario.Drawing
	l      *drawing.Layout
	height float64
	radius float64
	most   float64 // greatest amount of a link
}

// drawPicture draws the boxes and links; nothing where there is no box.
func drawPicture(d *scenario.Drawing) figure {
	if d == nil || len(d.Boxes) == 0 {
		return figure{}
	}
	p := &picture{d: d, l: drawing.Lay(d)}
	p.height = min(max((pictureWidth-2*pictureMargin)/p.l.Aspect+2*pictureMargin, heightLeast), heightMost,
		heightLeast+heightOfBox*float64(len(d.Boxes)))
	p.radius = min(max(90/math.Sqrt(float64(len(d.Boxes))), 1.8), 9)
	for i := range d.Links {
		if a := d.Links[i].Amount; a > p.most {
			p.most = a
		}
	}
	var b strings.Builder
	name := fmt.Sprintf("%d boxes and %d links, coloured by load", len(d.Boxes), len(d.Links))
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %.0f" role="img" aria-label="%s"><title>%s</title>`, pictureWidth, p.height,
		name, name)
	if len(d.Links) <= singleMost {
		for i := range d.Links {
			p.link(&b, &d.Links[i])
		}
	} else {
		p.allLinks(&b)
	}
	for i := range d.Boxes {
		p.box(&b, i)
	}
	p.labels(&b)
	b.WriteString("</svg>")
	p.legend(&b)
	return figure{Title: p.title(), Note: p.note(), SVG: template.HTML(b.String()), Large: true}
}

// at is the place of a box. A map keeps its scale in both directions.
func (p *picture) at(i int) (x, y float64) {
	w, h := float64(pictureWidth-2*pictureMargin), p.height-2*pictureMargin
	if p.l.Form != drawing.Flow {
		w, h = min(w, h*p.l.Aspect), min(h, w/p.l.Aspect)
	}
	return pictureWidth/2 + (p.l.X[i]-0.5)*w, p.height/2 + (p.l.Y[i]-0.5)*h
}

// class is the colour of a load.
func class(l scenario.Load) string {
	if math.IsNaN(l.Share) {
		return "qn"
	}
	return fmt.Sprintf("q%d", min(int(l.Share*loadClasses), loadClasses-1))
}

// wide is how wide a link is drawn.
func (p *picture) wide(l *scenario.Link) float64 {
	if !(l.Amount > 0) {
		return 0.8
	}
	return 0.8 + 2.7*math.Sqrt(l.Amount/p.most)
}

// path is a link's curve: bent to its right, so that two directions lie beside each other; a loop from a box to itself.
func (p *picture) path(l *scenario.Link) string {
	x0, y0 := p.at(l.From)
	x1, y1 := p.at(l.To)
	r := p.radius
	switch {
	case l.From == l.To:
		return fmt.Sprintf("M%.1f %.1fc%.1f %.1f %.1f %.1f 0 0", x0, y0, -3*r, -4*r, 3*r, -4*r)
	case p.l.Form == drawing.Flow && x1 > x0:
		return fmt.Sprintf("M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f", x0, y0, (x0+x1)/2, y0, (x0+x1)/2, y1, x1, y1)
	case p.l.Form == drawing.Flow:
		down := min(p.height-6, max(y0, y1)+30+0.1*(x0-x1))
		return fmt.Sprintf("M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f", x0, y0, x0, down, x1, down, x1, y1)
	}
	bend := 0.06
	return fmt.Sprintf("M%.1f %.1fQ%.1f %.1f %.1f %.1f", x0, y0, (x0+x1)/2-bend*(y1-y0), (y0+y1)/2+bend*(x1-x0), x1, y1)
}

func (p *picture) link(b *strings.Builder, l *scenario.Link) {
	text := l.ID
	if !math.IsNaN(l.Share) {
		text += fmt.Sprintf(": %s %.3g %%", l.Of, 100*l.Share)
	}
	if !math.IsNaN(l.Amount) {
		text += fmt.Sprintf(", %s %s", number(l.Amount), l.Unit)
	}
	back := ""
	if p.l.Form == drawing.Flow && p.l.X[l.To] < p.l.X[l.From] {
		back = " back"
	}
	fmt.Fprintf(b, `<path class="edge %s%s" style="stroke-width:%.1f" d="%s"><title>%s</title></path>`, class(l.Load),
		back, p.wide(l), p.path(l), html.EscapeString(text))
}

// allLinks draws them as straight lines, those of one class as one path, the least loaded first, without those that
// lead back where something flows.
func (p *picture) allLinks(b *strings.Builder) {
	paths := map[string]*strings.Builder{}
	order := []string{"qn", "q0", "q1", "q2", "q3", "q4"}
	for _, c := range order {
		paths[c] = &strings.Builder{}
	}
	for i := range p.d.Links {
		l := &p.d.Links[i]
		if p.l.Form == drawing.Flow && p.l.X[l.To] < p.l.X[l.From] {
			continue
		}
		x0, y0 := p.at(l.From)
		x1, y1 := p.at(l.To)
		fmt.Fprintf(paths[class(l.Load)], "M%.0f %.0fL%.0f %.0f", x0, y0, x1, y1)
	}
	wide := min(max(800/float64(len(p.d.Links)), 0.25), 1)
	for _, c := range order {
		if d := paths[c].String(); d != "" {
			fmt.Fprintf(b, `<path class="edge %s" style="stroke-width:%.2f" d="%s"/>`, c, wide, d)
		}
	}
}

func (p *picture) box(b *strings.Builder, i int) {
	x, y := p.at(i)
	at := &p.d.Boxes[i]
	if len(p.d.Boxes) > titledMost {
		fmt.Fprintf(b, `<circle class="box %s" cx="%.1f" cy="%.1f" r="%.1f"/>`, class(at.Load), x, y, p.radius)
		return
	}
	text := at.ID + ", " + at.Kind
	if !math.IsNaN(at.Share) {
		text += fmt.Sprintf(": %s %.3g %%", at.Of, 100*at.Share)
	}
	fmt.Fprintf(b, `<circle class="box %s" cx="%.1f" cy="%.1f" r="%.1f"><title>%s</title></circle>`, class(at.Load), x,
		y, p.radius, html.EscapeString(text))
}

// labels are the names of all boxes where there are few, those of the greatest loads otherwise, as far as there is room
// for them.
func (p *picture) labels(b *strings.Builder) {
	order, most := make([]int, len(p.d.Boxes)), len(p.d.Boxes)
	for i := range order {
		order[i] = i
	}
	if most > labelsMost {
		most = labelsFew
		slices.SortStableFunc(order, func(i, k int) int {
			return cmp.Compare(p.d.Boxes[k].Share, p.d.Boxes[i].Share) // NaN is the least
		})
	}
	type area struct{ x0, x1, y float64 }
	var taken []area
	for _, i := range order[:most] {
		name := []rune(p.d.Boxes[i].ID)
		if len(name) > 24 {
			name = append(name[:23:23], '…')
		}
		half := 3.3 * float64(len(name))
		x, y := p.at(i)
		x = min(max(x, half+2), pictureWidth-half-2)
		for _, dy := range []float64{p.radius + 13, -p.radius - 5} {
			at := area{x - half, x + half, y + dy}
			free := at.y > 8 && at.y < p.height-2 && !slices.ContainsFunc(taken, func(o area) bool {
				return at.x0 < o.x1 && o.x0 < at.x1 && math.Abs(at.y-o.y) < 13
			})
			if free {
				taken = append(taken, at)
				fmt.Fprintf(b, `<text class="name" x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, x, at.y,
					html.EscapeString(string(name)))
				break
			}
		}
	}
}

func (p *picture) legend(b *strings.Builder) {
	b.WriteString(`<ul class="legend loads">`)
	for c := range loadClasses {
		fmt.Fprintf(b, `<li class="q%d">%d–%d %%</li>`, c, 100*c/loadClasses, 100*(c+1)/loadClasses)
	}
	b.WriteString(`<li class="qn">no load</li></ul>`)
}

// title says what loads are.
func (p *picture) title() string {
	what := func(of map[string]bool) string {
		var list []string
		for name := range of {
			if name != "" {
				list = append(list, name)
			}
		}
		slices.Sort(list)
		if len(list) > 2 {
			return "load"
		}
		return strings.Join(list, ", ")
	}
	boxes, links := map[string]bool{}, map[string]bool{}
	for i := range p.d.Boxes {
		boxes[p.d.Boxes[i].Of] = true
	}
	for i := range p.d.Links {
		links[p.d.Links[i].Of] = true
	}
	var list []string
	if of := what(boxes); of != "" {
		list = append(list, "boxes by "+of)
	}
	if of := what(links); of != "" {
		list = append(list, "links by "+of)
	}
	if list == nil {
		return "what there is"
	}
	return "colours: " + strings.Join(list, ", ")
}

// note says what isn't there.
func (p *picture) note() string {
	var list []string
	switch p.l.Form {
	case drawing.Map:
		list = append(list, "north is up")
	case drawing.Flow:
		list = append(list, "from left to right, as what flows comes to them")
	}
	if len(p.d.Links) > singleMost {
		if p.l.Form == drawing.Flow {
			list = append(list, "links that lead back aren't here")
		}
	} else if p.most > 0 {
		list = append(list, "a link is as wide as what it carried")
	}
	if n := p.d.OmittedBoxes; n > 0 {
		list = append(list, fmt.Sprintf("%d more boxes aren't here", n))
	}
	if n := p.d.OmittedLinks; n > 0 {
		list = append(list, fmt.Sprintf("%d more links aren't here", n))
	}
	return strings.Join(list, "; ")
}
