// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/disco-sim/disco/scenario"
)

// SeriesReplications is how many replications the series of CompareSeries are of.
const SeriesReplications = 3

// CompareSeries holds what time series promise: that they are the same, to the bit, over 1, 2, 3, 4 and 7 engines, from
// what was packed, and over legs between which all was saved, loaded and spread anew; that results are the same with
// and without them; and that each of them has as many values as windows, up to the horizon. make makes the scenario.
// It returns the results of replications and their series by name, with a space and what they are about behind it.
func CompareSeries(t testing.TB, k scenario.Kind, make func(series bool) scenario.Scenario, seed uint64) (
	scenario.Summary, map[string]*scenario.Series) {
	t.Helper()
	s := make(true)
	want := ComparePlacements(t, s, seed)
	got, err := Run(s, Config{Seed: seed, Workers: 7})
	if err == nil {
		err = want.differs(s, got)
	}
	if err != nil {
		t.Fatalf("seed %d, 7 engines: %v", seed, err)
	}
	if p, ok := s.(scenario.Packer); ok {
		ComparePacked(t, k, p, seed)
	}
	ResumeEverywhere(t, s, seed)
	with := Summarize(t, s, seed, SeriesReplications)
	without := Summarize(t, make(false), seed, SeriesReplications)
	one, err := json.Marshal(with)
	if err != nil {
		t.Fatal(err)
	}
	other, err := json.Marshal(without)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one, other) {
		t.Errorf("results differ where time series are asked for:\n%s\n%s", one, other)
	}
	for one := range without.(scenario.Serial).Series {
		t.Fatalf("%q, which wasn't asked for", one.Name)
	}
	all := seriesOf(t, with, s.Horizon())
	if d, ok := with.(scenario.Drawn); ok {
		compareDrawing(t, d, all)
	}
	return with, all
}

// compareDrawing holds that a drawing is the same when it is made again, that its links join boxes and its ids are
// unique, that all series are about something in it, and that events are.
func compareDrawing(t testing.TB, results scenario.Drawn, all map[string]*scenario.Series) {
	t.Helper()
	d := results.Drawing()
	if again := results.Drawing(); fmt.Sprint(again) != fmt.Sprint(d) || len(d.Boxes) == 0 {
		t.Errorf("found a drawing of %d boxes, and another one when it was made again", len(d.Boxes))
	}
	boxes, links, groups := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, b := range d.Boxes {
		if boxes[b.ID] || b.ID == "" || b.Kind == "" || b.Of == "" && !math.IsNaN(b.Share) {
			t.Errorf("found the box %+v, or two of its name", b)
		}
		boxes[b.ID], groups[b.Group] = true, true
	}
	for _, l := range d.Links {
		if links[l.ID] || l.ID == "" || min(l.From, l.To) < 0 || max(l.From, l.To) >= len(d.Boxes) {
			t.Errorf("found the link %+v, or two of its name, with %d boxes", l, len(d.Boxes))
		}
		links[l.ID] = true
	}
	for _, s := range all {
		if s.Of != "" && !boxes[s.Of] && !links[s.Of] && !groups[s.Of] {
			t.Errorf("found the series %q of %q, which isn't drawn", s.Name, s.Of)
		}
	}
	if e, ok := results.(scenario.Eventful); ok {
		for _, s := range e.Spans() {
			for _, id := range s.Targets {
				if !boxes[id] && !links[id] {
					t.Errorf("found the span %q of %q, which isn't drawn", s.Name, id)
				}
			}
		}
	}
}

func seriesOf(t testing.TB, sum scenario.Summary, horizon float64) map[string]*scenario.Series {
	t.Helper()
	all := make(map[string]*scenario.Series)
	before := ""
	for again := range 2 { // what was yielded once is yielded again
		text := ""
		for s := range sum.(scenario.Serial).Series {
			name := s.Name
			if s.Of != "" {
				name += " " + s.Of
			}
			if again == 0 && all[name] != nil {
				t.Errorf("two series %q", name)
			}
			all[name] = s
			text += fmt.Sprintln(*s)
			n := len(s.Values)
			if n == 0 || len(s.Edges) != n+1 || s.Edges[n] != horizon {
				t.Errorf("%q has %d values, and windows %v, up to %v", name, n, s.Edges, horizon)
				continue
			}
			for i, x := range s.Values {
				if math.IsInf(x, 0) || !(s.Edges[i+1] > s.Edges[i]) {
					t.Errorf("%q: window %d from %v to %v has %v", name, i, s.Edges[i], s.Edges[i+1], x)
				}
			}
		}
		if again == 1 && text != before {
			t.Error("series differ when they are asked for again")
		}
		before = text
	}
	if len(all) == 0 {
		t.Error("no series")
	}
	return all
}

// Near holds that a series adds up to a number, but for rounding.
func Near(t testing.TB, all map[string]*scenario.Series, name string, want float64) {
	t.Helper()
	if all[name] == nil {
		t.Errorf("no series %q", name)
	} else if got := Integral(all[name]); !(math.Abs(got-want) <= 1e-9*math.Abs(want)) || want == 0 {
		t.Errorf("%q adds up to %v, want %v, and that isn't 0", name, got, want)
	}
}

// Integral is the sum of a series' values, each times the length of its window: of a rate, how much there was.
func Integral(s *scenario.Series) (sum float64) {
	for i, x := range s.Values {
		if !math.IsNaN(x) {
			sum += x * (s.Edges[i+1] - s.Edges[i])
		}
	}
	return sum
}
