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
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/model/overview"
	"github.com/disco-sim/disco/scenario"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// evil is text from outside that would be more than text.
const evil = `</title><script>alert(1)</script>"' onload="x&<b>`

// page has text from outside in all places, two series of the whole, and ten of single things.
func page() *Page {
	o := &overview.Page{Alarm: evil, Notes: []string{evil}, Remarks: []string{evil}}
	o.Figures = overview.Block{Heads: []string{evil, "value", "nothing"}}
	o.Figures.Row(evil, overview.Num("/a", 3, overview.Count, evil).BadIf(true), overview.Said(overview.None))
	p := &Page{Title: evil, Facts: []Fact{{evil, evil}}, Overview: o, Repeat: []string{evil}, File: evil,
		Scenario: evil, Spans: []scenario.Span{{Name: evil, From: 1, To: 2}}}
	edges, values := []float64{0, 1, 2, 3, 4}, []float64{1, math.NaN(), 3, 2}
	p.AddSeries(&scenario.Series{Name: "latency_mean", Unit: evil, Edges: edges, Values: values})
	p.AddSeries(&scenario.Series{Name: "latency_p99", Unit: evil, Edges: edges, Values: values})
	for i := range 10 {
		p.AddSeries(&scenario.Series{Name: "utilisation", Of: fmt.Sprint("box ", i, evil), Edges: edges,
			Values: []float64{float64(i), 0, 0, 0}})
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
	if n := strings.Count(s, "<svg "); n != 2 {
		t.Errorf("found %d charts, want 2", n)
	}
	for _, want := range []string{"the 6 with the greatest mean, of 10", "box 9", ">latency (", `class="span"`,
		`class="bad">3`} {
		if !strings.Contains(s, want) {
			t.Errorf("found no %q", want)
		}
	}
	if strings.Contains(s, "box 3") || strings.Contains(s, ">nothing<") {
		t.Error("found a line that is none of the greatest, a column of nothing, or a chart of nothing")
	}
	for _, svg := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(s, -1) {
		for d := xml.NewDecoder(strings.NewReader(svg)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in %s", err, svg)
			}
		}
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("found what is no number in %s", svg)
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
	if len(s) > BytesMax || !strings.Contains(s, "too long for a page") || !strings.Contains(s, "and 801 more") {
		t.Errorf("found %d bytes, want at most %d, and what was left out", len(s), BytesMax)
	}
	p.Facts = []Fact{{"x", strings.Repeat("x", BytesMax)}}
	if err := Write(io.Discard, p); err == nil {
		t.Error("a page that is too large was written")
	}
}
