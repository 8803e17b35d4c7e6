// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/model/overview"
	"github.com/disco-sim/disco/scenario"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// evil is text from outside that would be more than text.
const evil = `</title><script>alert(1)</script>"' onload="x&<b>`

// page has text from outside in all places, two series of the whole, and ten of single things.
func page() *Page {
	o := &overview.Page{Alarm: evil, Notes: []string{evil}, Remarks: []string{evil}}
	o.Figures = overview.Block{Heads: []string{evil, "value", "from", "to", "nothing"}}
	o.Figures.Row(evil, overview.Num("/a", 3, overview.Count, evil).BadIf(true), overview.Said(overview.None),
		overview.Said(overview.None), overview.Said(overview.None))
	p := &Page{Title: evil, Facts: []Fact{{evil, evil}}, Overview: o, Repeat: []string{evil}, File: evil,
		Scenario: evil, Spans: []scenario.Span{{Name: evil, From: 1, To: 2}}}
	edges, values := []float64{0, 1, 2, 3, 4}, []float64{1, math.NaN(), 3, 2}
	p.AddSeries(&scenario.Series{Name: "latency_mean", Unit: evil, Edges: edges, Values: values})
	p.AddSeries(&scenario.Series{Name: "latency_p99", Unit: evil, Edges: edges, Values: values})
	for i := range 10 {
		p.AddSeries(&scenario.Series{Name: "utilisation", Of: fmt.Sprint("box ", i, evil), Edges: edges,
			Values: []float64{float64(i), 0, 0, 0}})
	}
	o.Distributions = []overview.Distribution{{Name: evil, Unit: evil, Count: 1e6,
		At: func(p float64) float64 { return 1 / (101 - p) }}}
	o.Theories = []overview.Theory{{Name: evil, Known: 2, Observed: 2.1, Low: 2.05, High: 2.2},
		{Name: "in", Known: 2, Observed: 2, Low: 1, High: 3}, {Name: "none", Known: 2, Observed: 1, Low: math.NaN(),
			High: math.NaN()}, {Name: "zero"}}
	o.Figures.Estimate("seven", overview.Num("/a/b", 7, overview.Plain, ""), "/i", &measure.Interval{Mean: 7, Low: 6,
		High: 8, HalfWidth: 1, N: 3})
	p.Replications = map[string][]float64{"a.b": {6, math.NaN(), 8}, "a.c": {1, 2}}
	p.Drawing = &scenario.Drawing{}
	p.Drawing.AddBox(scenario.Box{ID: evil, Kind: evil, Load: scenario.Load{Share: 0.5, Of: evil}})
	p.Drawing.AddBox(scenario.Box{ID: "Zürich", Kind: "box", Load: scenario.NoLoad})
	for i := range 3 {
		p.Drawing.AddLink(scenario.Link{ID: evil, From: i / 2, To: i % 2, Load: scenario.Load{Share: 1, Of: evil},
			Amount: 3, Unit: evil})
	}
	p.AddSeries(&scenario.Series{Name: "nothing", Edges: edges[:2], Values: []float64{math.NaN()}})
	return p
}

func text(t *testing.T, p *Page) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, p); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestPage: what is on a page, and that text from outside stays text.
func TestPage(t *testing.T) {
	s := text(t, page())
	if text(t, page()) != s {
		t.Error("the same content gives other bytes")
	}
	for _, bad := range []string{"<script", "<b>", ` onload="`, "http:", "https:", "url(", "src=", "href="} {
		if strings.Contains(s, bad) {
			t.Errorf("found %q", bad)
		}
	}
	if !strings.Contains(s, `content="default-src 'none'; style-src 'unsafe-inline'"`) {
		t.Error("there is no policy")
	}
	if n := strings.Count(s, "<svg "); n != 6 {
		t.Errorf("found %d pictures, want 6", n)
	}
	for _, want := range []string{"the 6 with the greatest mean, of 10", "box 9", ">latency (", `class="span"`,
		`class="bad">3`, "1 of 3 intervals don&#39;t hold it", "by percentile", "by replication",
		`class="box q2"`, `class="box qn"`, `class="edge q4"`, "links by", "99.999"} {
		if !strings.Contains(s, want) {
			t.Errorf("found no %q", want)
		}
	}
	if strings.Contains(s, "box 3") || strings.Contains(s, ">nothing<") {
		t.Error("found a line that is none of the greatest, a column of nothing, or a chart of nothing")
	}
	wellFormed(t, s)
}

// wellFormed holds that all pictures of a page are XML, and of numbers.
func wellFormed(t *testing.T, page string) {
	t.Helper()
	for _, svg := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1) {
		for d := xml.NewDecoder(strings.NewReader(svg)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in %s", err, svg)
			}
		}
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("found what is no number in %.2000s", svg)
		}
	}
}

// TestPictures: there is one of any number of boxes, with links or without, and it fits on a page.
func TestPictures(t *testing.T) {
	for _, n := range []int{1, 2, 300, 2000, scenario.BoxesMax} {
		for _, links := range []int{0, 1, 2 * n, scenario.LinksMax} {
			p := page()
			p.Drawing = &scenario.Drawing{Flow: links == 1}
			for i := range n + 1 {
				p.Drawing.AddBox(scenario.Box{ID: fmt.Sprint(evil, i), Kind: "node", Load: scenario.Load{
					Share: float64(i) / float64(n), Of: "utilisation"}, Placed: links == 0, Latitude: float64(i % 90),
					Longitude: float64(i % 360)})
			}
			for i := range links {
				p.Drawing.AddLink(scenario.Link{ID: fmt.Sprint("link ", i), From: i % n, To: (i*i + i/7) % n,
					Load: scenario.NoLoad, Amount: math.NaN()})
			}
			s := text(t, p)
			if wellFormed(t, s); len(s) > BytesMax || !strings.Contains(s, `class="box q4"`) {
				t.Errorf("%d boxes, %d links: a page of %d bytes, or no picture", n, links, len(s))
			}
		}
		if testing.Short() && n > 300 {
			break
		}
	}
}

// TestSweep: one key gives curves with intervals, two give heat maps, and what isn't a number or is more a table alone.
func TestSweep(t *testing.T) {
	for _, c := range []struct {
		keys, values, want string
		pictures           int
	}{
		{"a", "1 2 4 1000", `class="band"`, 2},
		{"a", "-1 0.5", `class="band"`, 2},
		{"a", "7", "<td>7</td>", 0},
		{"a b", "1,1 1,2 3,1 3,2", `style="fill:#f4e446"`, 2},
		{"a b", "1,x 2,x", "<td>x</td>", 0},
		{"a b c", "1,2,3 2,2,3", "<td>3</td>", 0},
	} {
		s := &Sweep{Keys: strings.Fields(c.keys)}
		s.Heads = s.Keys
		for i, at := range strings.Fields(c.values) {
			point := Point{At: strings.Split(at, ",")}
			x := float64(i*i) + 1
			point.Figures.Estimate(evil, overview.Num("/x", x, overview.Plain, ""), "/i", &measure.Interval{Mean: x,
				Low: x - 1, High: x + 1, HalfWidth: 1, N: 3})
			point.Figures.Row("y", overview.Num("/y", 5, overview.Count, ""))
			point.Figures.Row("words", overview.Said("no request"))
			s.Points, s.Rows = append(s.Points, point), append(s.Rows, point.At)
		}
		page := text(t, &Page{Title: "sweep", Sweep: s})
		wellFormed(t, page)
		if n := strings.Count(page, "<svg "); n != c.pictures || !strings.Contains(page, c.want) {
			t.Errorf("%s=%s: found %d pictures, want %d, and %s", c.keys, c.values, n, c.pictures, c.want)
		}
		if strings.Contains(page, "<script") {
			t.Error("text from outside is more than text")
		}
	}
}

// TestPath: a line has a step for each window, and a gap where there is no value.
func TestPath(t *testing.T) {
	l := line{edges: []float64{0, 1, 2, 3, 4}, values: []float64{1, math.NaN(), 3, 2}}
	same := func(x float64) float64 { return x }
	if got, want := l.path(same, same), "M0.0 1.0H1.0M2.0 3.0H3.0V2.0H4.0"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
}

// TestTicks: there are a few, round ones, around all values.
func TestTicks(t *testing.T) {
	for _, c := range [][2]float64{{0, 1}, {0, 0.37}, {-3, 17}, {0, 1e9}, {0, 1e-9}, {100, 600}, {0, 255.9}} {
		list := ticksOf(c[0], c[1])
		if n := len(list); n < 3 || n > 9 || list[0] > c[0] || list[n-1] < c[1] {
			t.Errorf("%v: found %v", c, list)
		}
	}
	for x, want := range map[float64]string{0: "0", 0.25: "0.25", 1234: "1234", 15000: "15k", 2.5e6: "2.5M",
		3e9: "3G"} {
		if got := number(x); got != want {
			t.Errorf("%v: found %s, want %s", x, got, want)
		}
	}
}

// xTexts are what stands at the axis of x of a figure, on a phone, where letters are largest: from where to where.
func xTexts(t *testing.T, f figure) (texts []string, ends [][2]float64) {
	t.Helper()
	letter := 20 * 0.55
	if f.Large {
		letter = 12 * 0.55
	}
	for _, m := range regexp.MustCompile(`<path class="grid" d="M[\d.]+ \d+V\d+"/><text x="([\d.]+)" y="\d+" `+
		`text-anchor="(\w+)">([^<]*)`).FindAllStringSubmatch(string(f.SVG), -1) {
		x, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		wide := letter * float64(len(m[3]))
		if m[2] == "middle" {
			x += wide / 2
		}
		texts, ends = append(texts, m[3]), append(ends, [2]float64{x - wide, x})
	}
	return texts, ends
}

// TestAxes: no two texts of an axis are the same, or run into each other or over the edge, however many values there
// are and wherever they lie.
func TestAxes(t *testing.T) {
	var all []figure
	for _, count := range []int64{20, 21, 99, 100, 101, 999, 1000, 1001, 1122, 9999, 10000, 10050, 99999, 100000, 1e9} {
		all = append(all, spreadFigure(&overview.Distribution{Name: "latency", Count: count,
			At: func(percent float64) float64 { return percent }}))
	}
	for _, at := range []float64{0, 1, 1e3, 12345.6, 1e6, -1e6} {
		for _, step := range []float64{1e-4, 0.3, 7, 1e5} {
			list := []float64{at, at + step, at + 2*step}
			all = append(all, replicationFigure("x", list, overview.Term{Value: at}, at, at+step))
			f := swept{name: "x"}
			for k := range 40 {
				x := at + float64(k)*step
				f.samples = append(f.samples, sample{x: x, value: x, low: x, high: x})
			}
			all = append(all, f.curve("key"))
		}
	}
	for i, f := range all {
		texts, ends := xTexts(t, f)
		if len(texts) < 2 {
			t.Errorf("%d, %s: found the texts %q, want two or more", i, f.Title, texts)
		}
		for k := range texts {
			if ends[k][1] > width || k > 0 && (texts[k] == texts[k-1] || ends[k][0] < ends[k-1][1]) {
				t.Errorf("%d, %s: found the texts %q at %.0f, want different ones apart", i, f.Title, texts, ends)
				break
			}
		}
	}
}

// TestBounded: whatever a model has, a page has at most so many bytes, and says what was left out.
func TestBounded(t *testing.T) {
	p := page()
	p.Scenario = strings.Repeat("<&>\"ü", 2<<20)
	edges, values := make([]float64, 257), make([]float64, 256)
	for i := range edges {
		edges[i] = float64(i) / 3
	}
	for i := range values {
		values[i] = float64(i*i%997) / 7
	}
	for i := range 200 {
		for _, of := range []string{"", "a", "b", "c", "d", "e", "f", "g"} {
			p.AddSeries(&scenario.Series{Name: fmt.Sprintf("figure%d", i), Of: of, Edges: edges, Values: values})
		}
	}
	for range 1000 {
		p.Overview.Figures.Row(strings.Repeat("x", 100), overview.Said("1"))
	}
	s := text(t, p)
	if len(s) > BytesMax || !strings.Contains(s, "too long for a page") || !strings.Contains(s, "and 802 more") {
		t.Errorf("found %d bytes, want at most %d, and what was left out", len(s), BytesMax)
	}
	p.Facts = []Fact{{"x", strings.Repeat("x", BytesMax)}}
	if err := Write(io.Discard, p); err == nil {
		t.Error("a page that is too large was written")
	}
}
