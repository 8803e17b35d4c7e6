// SPDX-License-Identifier: Apache-2.0

// Package overviewtest holds what every first screen must be.
//
// Guarantee: a screen that passes has few figures, fits into the room that there is, and has no number that isn't that
// of the JSON results.
//
//	overviewtest.Check(t, s, modeltest.Summarize(t, s, 1, 3))
package overviewtest

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/disco-sim/disco/model/overview"
	"github.com/disco-sim/disco/scenario"
)

// Figures that a screen has. A model that has declared fewer has those.
const (
	figuresLeast = 3
	figuresMost  = 6
)

// Check holds the first screen of results against the rules, and against their JSON. It returns how many figures it has
// compared.
func Check(t testing.TB, s scenario.Scenario, sum scenario.Summary) (figures int) {
	t.Helper()
	shower, ok := s.(overview.Shower)
	if !ok {
		t.Fatalf("%T has no first screen", s)
	}
	page := shower.Overview(sum)
	if n := len(page.Figures.Rows); n < figuresLeast || n > figuresMost {
		t.Errorf("%s: %d figures, want %d to %d", s.Name(), n, figuresLeast, figuresMost)
	}
	if names := overview.Names(page.Tables); !slices.Equal(names, shower.TableNames()) {
		t.Errorf("%s: tables %q, announced are %q", s.Name(), names, shower.TableNames())
	}
	text, err := json.Marshal(sum)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	for _, b := range append([]overview.Block{page.Figures}, page.Blocks...) {
		if len(b.Rows) > 0 && b.More > 0 {
			for name := range strings.SplitSeq(b.Table, ",") {
				if !slices.Contains(shower.TableNames(), name) {
					t.Errorf("%s: %q has more in a table %q, which isn't there", s.Name(), b.Heads[0], name)
				}
			}
		}
		for _, row := range b.Rows {
			if len(row.Cells) >= len(b.Heads) {
				t.Errorf("%s: %q has %d cells under %d heads", s.Name(), row.Name, len(row.Cells), len(b.Heads))
			}
			for _, c := range row.Cells {
				figures += cell(t, tree, s.Name()+": "+b.Heads[0]+": "+row.Name, c)
			}
		}
	}
	fits(t, page)
	return figures
}

// cell compares the figures of a cell with the JSON.
func cell(t testing.TB, tree any, where string, c overview.Cell) (figures int) {
	t.Helper()
	for _, p := range c.Terms {
		if p.As == nil {
			if strings.ContainsAny(p.Text, "0123456789") {
				t.Errorf("%s: the text %q has a number that nothing is compared with", where, p.Text)
			}
			continue
		}
		figures++
		found, ok := at(tree, p.At).(json.Number)
		if !ok {
			t.Errorf("%s: %s is no number of the JSON: %v", where, p.At, at(tree, p.At))
			continue
		}
		if x, err := found.Float64(); err != nil || x != p.Value {
			t.Errorf("%s: found %v, %s of the JSON is %s", where, p.Value, p.At, found)
		}
	}
	return figures
}

// at is what a JSON pointer leads to, nil where that is nothing.
func at(tree any, pointer string) any {
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		switch v := tree.(type) {
		case map[string]any:
			tree = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			tree = v[i]
		default:
			return nil
		}
	}
	return tree
}

// fits renders the page into rooms of several sizes.
func fits(t testing.TB, page *overview.Page) {
	t.Helper()
	for _, columns := range []int{60, 80, 120} {
		for _, most := range []int{12, 25, overview.Lines} {
			lines := overview.Render(page, overview.Limits{Lines: most, Columns: columns, Wrap: true})
			if len(lines) > most {
				t.Errorf("%d lines, want at most %d", len(lines), most)
			}
			for _, line := range lines {
				if n := utf8.RuneCountInString(line.Text()); n > columns {
					t.Errorf("%d columns, want at most %d: %q", n, columns, line.Text())
				}
			}
		}
	}
}
