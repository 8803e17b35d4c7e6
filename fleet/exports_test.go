// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"strings"
	"testing"
)

// swept is a step over two axes, of which its points have x and a name.
func swept(export string) (*Step, []Found) {
	s := &Step{Name: "s", Sweep: []string{"cpu=1,2", "policy=fifo,lifo"}, Export: map[string]string{"e": export},
		Points: [][]string{{"cpu=1", "policy=fifo"}, {"cpu=1", "policy=lifo"}, {"cpu=2", "policy=fifo"},
			{"cpu=2", "policy=lifo"}}}
	return s, []Found{
		{"x": 4.0, "cost": 1.0, "who": "disk", "cpu": 1.0, "policy": "fifo"},
		{"x": 2.0, "cost": 2.0, "who": "net", "cpu": 1.0, "policy": "lifo"},
		{"x": 2.0, "cost": 3.0, "who": "cpu", "cpu": 2.0, "policy": "fifo"},
		{"x": 3.0, "cost": 4.0, "who": "cpu", "cpu": 2.0, "policy": "lifo"}}
}

// What a sweep exports is of one of its points, the first where several are least or greatest.
func TestExports(t *testing.T) {
	for _, c := range []struct {
		export  string
		x       float64
		text    string
		figures string
	}{
		{"min x", 2, "", "x"}, {"max x", 4, "", "x"}, {"cost of min x", 2, "", "cost x"},
		{"policy of min x", 0, "lifo", "x"}, {"cpu of max cost", 2, "", "cost"}, {"who of max x", 0, "disk", "who x"},
		{"x at cpu=2,policy=lifo", 3, "", "x"}, {"who at policy=lifo,cpu=1", 0, "net", "who"},
	} {
		s, points := swept(c.export)
		if err := s.checkNamed(); err != nil {
			t.Errorf("%s: %v", c.export, err)
		}
		e := ParseExport(c.export)
		if got := strings.Join(e.Figures(SweepKeys(s.Sweep)), " "); got != c.figures {
			t.Errorf("%s: found the figures %s, want %s", c.export, got, c.figures)
		}
		out, texts, err := s.Exports(points)
		want, words := Outputs{"e": c.x}, Texts(nil)
		if c.text != "" {
			want, words = nil, Texts{"e": c.text}
		}
		if err != nil || !maps.Equal(out, want) || !maps.Equal(texts, words) {
			t.Errorf("%s: found %v, %v, %v", c.export, out, texts, err)
		}
	}
	one := &Step{Points: [][]string{nil}, Export: map[string]string{"a": "x", "b": "who"}}
	out, texts, err := one.Exports([]Found{{"x": 0.5, "who": "me"}})
	if err != nil || out["a"] != 0.5 || texts["b"] != "me" {
		t.Errorf("found %v, %v, %v", out, texts, err)
	}
}

// A point is named by settings as the sweep has them, whatever stands in a value's quotes and brackets.
func TestExportsAt(t *testing.T) {
	s := &Step{Name: "s", Sweep: []string{"K='/a,b','/c',{mean: 20, kind: x},'1 of min 2'", `"p=q".r = 'x at y=1',z`},
		Export: map[string]string{"e": "x"}}
	var points []Found
	for _, k := range []string{"'/a,b'", "'/c'", "{mean: 20, kind: x}", "'1 of min 2'"} {
		for _, r := range []string{"'x at y=1'", "z"} {
			s.Points = append(s.Points, []string{"K=" + k, `"p=q".r=` + r})
			points = append(points, Found{"x": float64(len(points))})
		}
	}
	for export, want := range map[string]float64{
		`x at K='/a,b',"p=q".r=z`: 1, `x at "p=q".r = 'x at y=1', K='/c'`: 2, `x at K={mean: 20, kind: x},"p=q".r=z`: 5,
		`x at K='1 of min 2',"p=q".r='x at y=1'`: 6,
	} {
		s.Export["e"] = export
		out, _, err := s.Exports(points)
		if wrong := s.checkNamed(); wrong != nil || err != nil || out["e"] != want {
			t.Errorf("%s: found %v, %v, %v, want %v", export, out, err, wrong, want)
		}
	}
	if keys := strings.Join(SweepKeys(s.Sweep), " "); keys != `K "p=q".r` {
		t.Errorf("found the keys %s", keys)
	}
	for _, export := range []string{"x at K='/a,b", "x at K=/a", `x at K='/a,b'`} { // the last one has two points
		s.Export["e"] = export
		if err := s.checkNamed(); err == nil || !strings.Contains(err.Error(), "want those of one point of the sweep") {
			t.Errorf("%s: found %v", export, err)
		}
	}
}

// What can't be is said before, as far as it can be known, and else by who puts the parts together.
func TestExportsRefused(t *testing.T) {
	for export, want := range map[string]string{
		"x":          "want min x, max x, KEY of min x for the value of the sweep at that point, or x at KEY=VALUE",
		"x at cpu=3": "want those of one point of the sweep: cpu=1,2 policy=fifo,lifo",
		"x at cpu=1": "want those of one point", // there are two
		"x of min":   "want min x of min",
		"":           "found nothing",
	} {
		s, _ := swept(export)
		if err := s.checkNamed(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: found %v, want %q", export, err, want)
		}
	}
	for _, export := range []string{"min x", "x at cpu=1", "cpu of max x"} {
		s := &Step{Name: "s", Export: map[string]string{"e": export}, Points: [][]string{nil}}
		if err := s.checkNamed(); err == nil || !strings.Contains(err.Error(), "of a step without a sweep") {
			t.Errorf("%q: found %v", export, err)
		}
	}
	for export, want := range map[string]string{"min who": "found no number who at point 1 of 4",
		"y of min x": "found no y at point 2 of 4"} {
		s, points := swept(export)
		if _, _, err := s.Exports(points); err == nil || !strings.Contains(err.Error(), "export: e: "+want) {
			t.Errorf("%q: found %v, want %q", export, err, want)
		}
	}
	s, points := swept("who at cpu=1,policy=fifo")
	if _, _, err := s.Exports(points[:3]); err == nil || !strings.Contains(err.Error(), "3 points, want 4") {
		t.Errorf("found %v", err)
	}
	points[0]["who"] = strings.Repeat("x", maxName+1)
	if _, _, err := s.Exports(points); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("found %v", err)
	}
}
