// SPDX-License-Identifier: Apache-2.0

// Package drawing says where the boxes of a scenario's drawing stand in a picture, and writes both as graph.json, which
// docs/outputs.md describes.
//
// Guarantee: the same drawing has the same places, to the bit, whatever it is: one box, none, thousands, parts without
// a link between them, links that lead back to where they begin. All places are from 0 to 1. The work is bounded by the
// numbers of boxes and links, and is about a second for the most that a drawing may have.
//
// Boxes that have places on Earth stand on a map of it. What flows is laid out in layers from left to right, by the
// steps that Sugiyama, Tagawa and Toda (1981) give: cycles are broken, boxes get the length of the longest way to them
// as their layer, and the order in a layer is by the mean place of the neighbours in others. All else is laid out by
// forces (Fruchterman and Reingold, 1991), from a start by distances to a few boxes (Brandes and Pich, Eigensolver
// methods for progressive multidimensional scaling of large data, 2006), which needs few steps then. Parts are laid out
// each by itself, and put beside each other.
//
// gonum's graph/layout was looked at: it has no layers; its forces begin at random, drive parts without a link apart
// without end, and have no place for two boxes that meet; its other method takes the cube of the number of boxes.
//
//	l := drawing.Lay(d)
//	err := drawing.WriteJSON(w, d, l, spans)
package drawing

import (
	"cmp"
	"encoding/json"
	"io"
	"math"
	"slices"

	"github.com/disco-sim/disco/scenario"
)

// Forms of layouts.
const (
	Map    = "map"
	Flow   = "flow"
	Forces = "forces"
)

// Layout is where boxes stand: X and Y from 0 to 1, Y downwards.
type Layout struct {
	X, Y   []float64
	Form   string
	Aspect float64 // width over height of a picture in which both have one scale
}

// point is a place in the plane.
type point struct{ x, y float64 }

// Lay lays out a drawing.
func Lay(d *scenario.Drawing) *Layout {
	placed := 0
	for i := range d.Boxes {
		if onEarth(&d.Boxes[i]) {
			placed++
		}
	}
	if placed > 0 && 2*placed >= len(d.Boxes) {
		return normal(onMap(d), Map)
	}
	g := newGraph(d)
	form, parts := Forces, g.parts()
	if d.Flow || g.acyclic() {
		form = Flow
	}
	for _, p := range parts {
		if form == Flow && p.layers() {
			continue
		}
		p.forces()
		if len(p.boxes) > 1 {
			form = Forces // the largest parts come first
		}
	}
	return normal(beside(parts, len(d.Boxes)), form)
}

// normal puts places between 0 and 1.
func normal(all []point, form string) *Layout {
	l := &Layout{Form: form, Aspect: 1}
	low, high := point{math.Inf(1), math.Inf(1)}, point{math.Inf(-1), math.Inf(-1)}
	for _, p := range all {
		low, high = point{min(low.x, p.x), min(low.y, p.y)}, point{max(high.x, p.x), max(high.y, p.y)}
	}
	w, h := high.x-low.x, high.y-low.y
	scale := func(x, from, size float64) float64 {
		if !(size > 0) {
			return 0.5
		}
		return math.Round((x-from)/size*1e4) / 1e4
	}
	for _, p := range all {
		l.X, l.Y = append(l.X, scale(p.x, low.x, w)), append(l.Y, scale(p.y, low.y, h))
	}
	if len(all) > 0 && (w > 0 || h > 0) {
		l.Aspect = math.Round(min(max(w/h, 0.25), 4)*1e4) / 1e4
	}
	return l
}

func onEarth(b *scenario.Box) bool {
	return b.Placed && math.Abs(b.Latitude) <= 90 && math.Abs(b.Longitude) <= 1080
}

// onMap is the plane of longitude and latitude, whose scale is right in the middle. It begins behind the widest stretch
// of longitudes without a box. Boxes at one place stand in a small circle, those without one in a row below all.
func onMap(d *scenario.Drawing) []point {
	var east []float64
	south, north := 90.0, -90.0
	turn := func(degrees float64) float64 { return math.Mod(math.Mod(degrees, 360)+360, 360) }
	for i := range d.Boxes {
		if b := &d.Boxes[i]; onEarth(b) {
			east = append(east, turn(b.Longitude))
			south, north = min(south, b.Latitude), max(north, b.Latitude)
		}
	}
	slices.Sort(east)
	gap, start := 360-east[len(east)-1]+east[0], east[0]
	for i := 1; i < len(east); i++ {
		if east[i]-east[i-1] > gap {
			gap, start = east[i]-east[i-1], east[i]
		}
	}
	narrow := max(0.2, math.Cos((south+north)/2*math.Pi/180))
	wide, high := (360-gap)*narrow, north-south
	size := max(wide, high, 1e-3)
	all, same := make([]point, len(d.Boxes)), map[point]int{}
	aside, beside := 0, len(d.Boxes)-len(east)
	for i := range d.Boxes {
		b := &d.Boxes[i]
		all[i] = point{turn(turn(b.Longitude)-start) * narrow, north - b.Latitude}
		if !onEarth(b) {
			all[i] = point{(float64(aside) + 0.5) / float64(beside) * size, high + 0.1*size}
			aside++
		}
		same[all[i]]++
	}
	radius, seen := 0.01*size, map[point]int{}
	for i, p := range all {
		if k := float64(same[p]); k > 1 {
			sin, cos := math.Sincos(2 * math.Pi * float64(seen[p]) / k)
			all[i] = point{p.x + radius*cos, p.y + radius*sin}
			seen[p]++
		}
	}
	return all
}

// graph is a drawing's links, each pair of boxes once in each direction that it has.
type graph struct {
	out, in [][]int32
}

func newGraph(d *scenario.Drawing) *graph {
	n := len(d.Boxes)
	g := &graph{out: make([][]int32, n), in: make([][]int32, n)}
	for i := range d.Links {
		if from, to := d.Links[i].From, d.Links[i].To; from != to {
			g.out[from] = append(g.out[from], int32(to))
		}
	}
	for from := range g.out {
		slices.Sort(g.out[from])
		g.out[from] = slices.Compact(g.out[from])
		for _, to := range g.out[from] {
			g.in[to] = append(g.in[to], int32(from))
		}
	}
	return g
}

// acyclic reports whether no way leads back to where it begins.
func (g *graph) acyclic() bool {
	before, next := make([]int, len(g.in)), []int32{}
	for i := range g.in {
		if before[i] = len(g.in[i]); before[i] == 0 {
			next = append(next, int32(i))
		}
	}
	for i := 0; i < len(next); i++ {
		for _, to := range g.out[next[i]] {
			if before[to]--; before[to] == 0 {
				next = append(next, to)
			}
		}
	}
	return len(next) == len(g.in)
}

// part is boxes that links join, with where they stand in a plane of their own; two boxes should be about 1 apart.
type part struct {
	boxes   []int32   // of the drawing, rising
	out, in [][]int32 // by box of the part
	at      []point
}

// parts are those of the graph, the largest first.
func (g *graph) parts() []*part {
	n := len(g.out)
	place := make([]int32, n) // in its part
	of := make([]int, n)      // 1 + its part
	var all []*part
	for first := range n {
		if of[first] > 0 {
			continue
		}
		p := &part{boxes: []int32{int32(first)}}
		all = append(all, p)
		of[first] = len(all)
		for i := 0; i < len(p.boxes); i++ {
			for _, list := range [][]int32{g.out[p.boxes[i]], g.in[p.boxes[i]]} {
				for _, to := range list {
					if of[to] == 0 {
						of[to] = len(all)
						p.boxes = append(p.boxes, to)
					}
				}
			}
		}
		slices.Sort(p.boxes)
		for i, b := range p.boxes {
			place[b] = int32(i)
		}
		own := func(list []int32) []int32 {
			mine := make([]int32, len(list))
			for i, b := range list {
				mine[i] = place[b]
			}
			return mine
		}
		for _, b := range p.boxes {
			p.out, p.in = append(p.out, own(g.out[b])), append(p.in, own(g.in[b]))
		}
		p.at = make([]point, len(p.boxes))
	}
	slices.SortStableFunc(all, func(a, b *part) int { return cmp.Compare(len(b.boxes), len(a.boxes)) })
	return all
}

// beside puts parts on shelves, one below the other, of a picture that is wider than high.
func beside(parts []*part, n int) []point {
	area, widest := 0.0, 0.0
	low, size := make([]point, len(parts)), make([]point, len(parts))
	for i, p := range parts {
		a, z := p.at[0], p.at[0]
		for _, q := range p.at {
			a, z = point{min(a.x, q.x), min(a.y, q.y)}, point{max(z.x, q.x), max(z.y, q.y)}
		}
		low[i], size[i] = a, point{z.x - a.x + 1, z.y - a.y + 1}
		area, widest = area+float64(size[i].x*size[i].y), max(widest, size[i].x)
	}
	width := max(widest, math.Sqrt(area*1.6))
	all, at, height := make([]point, n), point{}, 0.0
	for i, p := range parts {
		if at.x > 0 && at.x+size[i].x > width*1.001 {
			at, height = point{0, at.y + height}, 0
		}
		for k, b := range p.boxes {
			all[b] = point{at.x + p.at[k].x - low[i].x, at.y + p.at[k].y - low[i].y}
		}
		at.x, height = at.x+size[i].x, max(height, size[i].y)
	}
	return all
}

// Types of graph.json; what isn't known is left out.
type jsonBox struct {
	ID        string   `json:"id"`
	Kind      string   `json:"kind"`
	Group     string   `json:"group,omitempty"`
	Load      *float64 `json:"load,omitempty"`
	LoadOf    string   `json:"load_of,omitempty"`
	X         float64  `json:"x"`
	Y         float64  `json:"y"`
	Latitude  *float64 `json:"latitude,omitempty"`
	Longitude *float64 `json:"longitude,omitempty"`
}

type jsonLink struct {
	ID     string   `json:"id"`
	From   string   `json:"from"`
	To     string   `json:"to"`
	Load   *float64 `json:"load,omitempty"`
	LoadOf string   `json:"load_of,omitempty"`
	Amount *float64 `json:"amount,omitempty"`
	Unit   string   `json:"unit,omitempty"`
}

type jsonSpan struct {
	Name    string   `json:"name"`
	Targets []string `json:"targets"`
	From    float64  `json:"from_s"`
	To      float64  `json:"to_s"`
}

type jsonOmitted struct {
	Boxes int `json:"boxes"`
	Links int `json:"links"`
}

// WriteJSON writes graph.json.
func WriteJSON(w io.Writer, d *scenario.Drawing, l *Layout, spans []scenario.Span) error {
	doc := struct {
		Layout  string      `json:"layout"`
		Aspect  float64     `json:"aspect"`
		Boxes   []jsonBox   `json:"boxes"`
		Links   []jsonLink  `json:"links"`
		Spans   []jsonSpan  `json:"spans"`
		Omitted jsonOmitted `json:"omitted"`
	}{l.Form, l.Aspect, make([]jsonBox, len(d.Boxes)), make([]jsonLink, len(d.Links)), make([]jsonSpan, len(spans)),
		jsonOmitted{d.OmittedBoxes, d.OmittedLinks}}
	for i := range d.Boxes {
		b := &d.Boxes[i]
		j := jsonBox{ID: b.ID, Kind: b.Kind, Group: b.Group, Load: known(b.Share), LoadOf: b.Of, X: l.X[i], Y: l.Y[i]}
		if b.Placed {
			j.Latitude, j.Longitude = known(b.Latitude), known(b.Longitude)
		}
		doc.Boxes[i] = j
	}
	for i := range d.Links {
		k := &d.Links[i]
		j := jsonLink{ID: k.ID, From: d.Boxes[k.From].ID, To: d.Boxes[k.To].ID, Load: known(k.Share), LoadOf: k.Of,
			Amount: known(k.Amount)}
		if j.Amount != nil {
			j.Unit = k.Unit
		}
		doc.Links[i] = j
	}
	for i, s := range spans {
		doc.Spans[i] = jsonSpan{s.Name, append([]string{}, s.Targets...), s.From, s.To}
	}
	text, err := json.MarshalIndent(doc, "", " ")
	if err == nil {
		_, err = w.Write(append(text, '\n'))
	}
	return err
}

// known is x, nil where there is no number.
func known(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}
