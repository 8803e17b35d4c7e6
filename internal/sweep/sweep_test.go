// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"errors"
	"strings"
	"testing"
)

func TestGrid(t *testing.T) {
	a, err := ParseAxis("a.b = 1, 2")
	if err != nil {
		t.Fatal(err)
	}
	b, err := ParseAxis(`c="x,y",z`)
	if err != nil {
		t.Fatal(err)
	}
	points, err := Grid([]Axis{a, b})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range points {
		got = append(got, p.String())
	}
	if want := `a.b=1 c="x,y"|a.b=1 c=z|a.b=2 c="x,y"|a.b=2 c=z`; strings.Join(got, "|") != want {
		t.Errorf("points %q, want %q", got, want)
	}
	if points, err := Grid(nil); err != nil || len(points) != 1 {
		t.Errorf("no axes: %v, %v; want one point without settings", points, err)
	}
	large := Axis{Key: "x", Values: make([]string, 101)}
	other := Axis{Key: "y", Values: make([]string, 100)}
	if _, err := Grid([]Axis{large, other}); !errors.Is(err, ErrSweep) {
		t.Errorf("10100 points: %v", err)
	}
	if _, err := Grid([]Axis{{Key: "a.0", Values: []string{"1"}}, {Key: "a.0", Values: []string{"2"}}}); !errors.Is(err,
		ErrSweep) {
		t.Errorf("one field twice: %v", err)
	}
}

func TestParseAxis(t *testing.T) {
	for text, want := range map[string]string{
		"a=1,2":                    "a|1|2",
		`"a=b".c = x , "y,z"`:      `"a=b".c|x|"y,z"`,
		"a=[1,2],[3],{b: 1, c: 2}": "a|[1,2]|[3]|{b: 1, c: 2}",
		"a='it,s',],2":             "a|'it,s'|]|2",
	} {
		a, err := ParseAxis(text)
		if got := strings.Join(append([]string{a.Key}, a.Values...), "|"); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
}

func TestParseAxisRefuses(t *testing.T) {
	for _, text := range []string{"", "a", "=1", "a=", "a=1,,2", "a=1,1", "a=\"x", "\"a=1"} {
		if a, err := ParseAxis(text); !errors.Is(err, ErrSweep) {
			t.Errorf("%q: %v, %v; want ErrSweep", text, a, err)
		}
	}
}
