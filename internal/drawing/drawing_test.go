// SPDX-License-Identifier: Apache-2.0

package drawing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/disco-sim/disco/scenario"
)

// graphOf is a drawing of n boxes with links.
func graphOf(n int, flow bool, links ...[2]int) *scenario.Drawing {
	d := &scenario.Drawing{Flow: flow}
	for i := range n {
		d.AddBox(scenario.Box{ID: fmt.Sprintf("<b&%d> Zürich 東京", i), Kind: "box", Load: scenario.NoLoad})
	}
	for i, l := range links {
		d.AddLink(scenario.Link{ID: fmt.Sprint("link ", i), From: l[0], To: l[1], Load: scenario.NoLoad,
			Amount: math.NaN()})
	}
	return d
}

// shapes are drawings of all sorts.
func shapes() map[string]*scenario.Drawing {
	ring, star, grid, random, tree, wide := [][2]int{}, [][2]int{}, [][2]int{}, [][2]int{}, [][2]int{}, [][2]int{}
	for i := range 2000 {
		ring, star = append(ring, [2]int{i, (i + 1) % 2000}), append(star, [2]int{i, 0})
		tree = append(tree, [2]int{i / 3, i + 1})
		wide = append(wide, [2]int{1, i + 2}, [2]int{i + 2, 0})
		if i%50 < 49 {
			grid = append(grid, [2]int{i, i + 1}, [2]int{i + 1, i})
		}
		if i+50 < 2000 {
			grid = append(grid, [2]int{i, i + 50})
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range scenario.LinksMax {
		random = append(random, [2]int{r.IntN(scenario.BoxesMax), r.IntN(scenario.BoxesMax)})
	}
	places := graphOf(5, false, [2]int{0, 1}, [2]int{1, 2}, [2]int{2, 0})
	for i, p := range [][2]float64{{35, 139}, {37, -122}, {37, -122}, {-41, 174}} {
		b := &places.Boxes[i]
		b.Placed, b.Latitude, b.Longitude = true, p[0], p[1]
	}
	return map[string]*scenario.Drawing{
		"none": graphOf(0, true), "one": graphOf(1, false, [2]int{0, 0}),
		"two":   graphOf(2, false, [2]int{0, 1}, [2]int{1, 0}),
		"parts": graphOf(60, false, [2]int{0, 1}, [2]int{1, 0}, [2]int{5, 6}, [2]int{6, 7}, [2]int{7, 5}, [2]int{8, 8}),
		"ring":  graphOf(2000, false, ring...), "ring flow": graphOf(2000, true, ring...),
		"star": graphOf(2000, false, star...), "grid": graphOf(2000, false, grid...),
		"random":      graphOf(scenario.BoxesMax, false, random...),
		"random flow": graphOf(scenario.BoxesMax, true, random...),
		"tree":        graphOf(2001, false, tree...), "wide": graphOf(2002, true, wide...),
		"apart":  graphOf(5000, false),
		"places": places,
	}
}

// TestLay: all places are in the picture, the same each time, and hardly two boxes stand at one.
func TestLay(t *testing.T) {
	for name, d := range shapes() {
		l := Lay(d)
		if again := Lay(d); !reflect.DeepEqual(l, again) {
			t.Errorf("%s: found other places the second time", name)
		}
		same, seen := 0, map[[2]float64]bool{}
		for i := range d.Boxes {
			at := [2]float64{l.X[i], l.Y[i]}
			if !(at[0] >= 0 && at[0] <= 1 && at[1] >= 0 && at[1] <= 1) {
				t.Fatalf("%s: box %d is at %v", name, i, at)
			}
			if seen[at] {
				same++
			}
			seen[at] = true
		}
		if len(l.X) != len(d.Boxes) || same > len(d.Boxes)/100 || !(l.Aspect >= 0.25 && l.Aspect <= 4) {
			t.Errorf("%s: found %d places of %d boxes, %d twice, aspect %v", name, len(l.X), len(d.Boxes), same,
				l.Aspect)
		}
	}
}

// TestFlow: links lead to the right, but those that close a cycle, and a layer is as wide as it must be.
func TestFlow(t *testing.T) {
	l := Lay(graphOf(6, true, [2]int{0, 1}, [2]int{1, 2}, [2]int{2, 3}, [2]int{2, 4}, [2]int{3, 1},
		[2]int{4, 1}, [2]int{5, 4}))
	if l.Form != Flow || !(l.X[0] < l.X[1] && l.X[1] < l.X[2] && l.X[2] < l.X[3] && l.X[3] == l.X[4]) ||
		l.X[5] != l.X[2] {
		t.Errorf("found %+v", l)
	}
	if l := Lay(graphOf(3, false, [2]int{0, 1}, [2]int{1, 2})); l.Form != Flow {
		t.Errorf("found %s, want a flow where nothing leads back", l.Form)
	}
	// 0 → 2, 3; 1 → 4, 5, drawn in an order in which links would cross.
	l = Lay(graphOf(7, true, [2]int{6, 0}, [2]int{6, 1}, [2]int{0, 3}, [2]int{0, 5}, [2]int{1, 2}, [2]int{1, 4}))
	if max(l.Y[3], l.Y[5]) > min(l.Y[2], l.Y[4]) && max(l.Y[2], l.Y[4]) > min(l.Y[3], l.Y[5]) {
		t.Errorf("links cross: %v", l.Y)
	}
}

// TestForces: neighbours of a ring and a grid stand nearer to each other than others do. What flows through far more
// boxes than a picture has columns is drawn so, too.
func TestForces(t *testing.T) {
	all := shapes()
	for _, name := range []string{"ring", "ring flow", "grid"} {
		d := all[name]
		l := Lay(d)
		at := func(i int) point { return point{l.X[i] * l.Aspect, l.Y[i]} }
		apart := func(i, k int) float64 { return math.Hypot(at(i).x-at(k).x, at(i).y-at(k).y) }
		linked, others := 0.0, 0.0
		for i, k := range d.Links {
			linked += apart(k.From, k.To) / float64(len(d.Links))
			others += apart(i%2000, (i*7919+13)%2000) / float64(len(d.Links))
		}
		if l.Form != Forces || linked > 0.25*others {
			t.Errorf("%s, by %s: links are %.3g long, others %.3g apart", name, l.Form, linked, others)
		}
	}
}

// TestMap: north is up, east is right, across the date line too; a box without a place stands below all.
func TestMap(t *testing.T) {
	l := Lay(shapes()["places"]) // Tokyo, twice near San Francisco, Wellington, nowhere
	if l.Form != Map || !(l.X[0] < l.X[3] && l.X[3] < l.X[1]) || !(l.Y[0] < l.Y[3] && l.Y[3] < l.Y[4]) {
		t.Errorf("found %+v", l)
	}
	if l.X[1] == l.X[2] && l.Y[1] == l.Y[2] {
		t.Error("two boxes at one place stand on each other")
	}
}

// TestJSON: graph.json is JSON whatever names are, and leaves out what isn't known.
func TestJSON(t *testing.T) {
	d := graphOf(2, false, [2]int{0, 1}, [2]int{1, 1})
	d.Boxes[0].Load, d.Boxes[1].Share = scenario.Load{Share: 0.5, Of: "utilisation"}, math.Inf(1)
	d.Links[0].Amount, d.Links[0].Unit, d.OmittedLinks = 3, "units/s", 7
	var b bytes.Buffer
	if err := WriteJSON(&b, d, Lay(d), []scenario.Span{{Name: "</script>", From: 1, To: 2, Targets: []string{"x"}},
		{Name: "y"}}); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Layout  string
		Boxes   []map[string]any
		Links   []map[string]any
		Spans   []map[string]any
		Omitted map[string]int
	}
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Layout != Flow || doc.Boxes[0]["id"] != d.Boxes[0].ID || doc.Boxes[0]["load"] != 0.5 ||
		doc.Links[0]["from"] != d.Boxes[0].ID || doc.Links[1]["to"] != d.Boxes[1].ID || doc.Links[0]["amount"] != 3.0 ||
		doc.Spans[0]["targets"].([]any)[0] != "x" || doc.Spans[1]["targets"] == nil || doc.Omitted["links"] != 7 {
		t.Errorf("found %s", b.String())
	}
	if _, has := doc.Boxes[1]["load"]; has || doc.Links[1]["unit"] != nil || doc.Boxes[0]["latitude"] != nil {
		t.Errorf("found what isn't known in %s", b.String())
	}
}

// TestOmitted: what is beyond the bounds is counted.
func TestOmitted(t *testing.T) {
	d := graphOf(scenario.BoxesMax+3, true, [2]int{0, scenario.BoxesMax}, [2]int{0, 1})
	for range scenario.LinksMax {
		d.AddLink(scenario.Link{From: 0, To: 1})
	}
	if len(d.Boxes) != scenario.BoxesMax || d.OmittedBoxes != 3 || len(d.Links) != scenario.LinksMax ||
		d.OmittedLinks != 2 {
		t.Errorf("found %d boxes and %d omitted, %d links and %d", len(d.Boxes), d.OmittedBoxes, len(d.Links),
			d.OmittedLinks)
	}
}

// BenchmarkLay is the most that a drawing may have.
func BenchmarkLay(b *testing.B) {
	for name, d := range shapes() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Lay(d)
			}
		})
	}
}
