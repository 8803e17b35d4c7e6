// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"strings"
	"testing"
)

func parse(t *testing.T, text string) *Document {
	t.Helper()
	d, err := Parse("pond.yml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const pond = `model: pond
depth: 3
fish:
  - &pike { name: pike, food: { mean: 1 }, hours: [1, 2] }
  - { <<: *pike, name: perch }
`

func TestVary(t *testing.T) {
	vary := Vary("depth", "fish[].food", "weed.height", "rods.*.price")
	for _, c := range []struct{ key, value, want string }{
		{"depth", "4", ""},
		{"fish.pike.food.mean", "2", ""},
		{"fish.perch.food", "{ mean: 2, deviation: 1 }", ""},
		{"fish.pike.hours[0]", "1.0", ""}, // the same
		{"weed", "null", ""},
		{"fish.pike.food", "2", "pond.yml (fish.pike.food=2):4:31: fish[0].food: found 2, want a mapping, as in the " +
			"run that was saved; a state can't go on with another one: begin a new run"},
		{"depth", "deep", ""}, // which Load refuses
		{"fish.perch.name", "carp", `fish[1].name: found the text "carp", want the text "perch", as in the run`},
		{"fish.perch.hours", "[1]", "fish[1].hours: found a list of 1, want one of 2, as in the run that was saved"},
		{"fish.perch.hours[1]", "3", "fish[1].hours[1]: found 3, want 2, as in the run that was saved"},
		{"weed", "{}", ""}, // as good as none
		{"weed", "{ height: 2, kind: { name: x } }", "weed.kind.name: found the text \"x\", want nothing: the run"},
		{"weed", "{ height: 2 }", ""},
		{"rods", "{ a: { price: 1, length: 2 } }", "rods.a.length: found 2, want nothing: the run"},
		{"rods", "{ a: { price: 1 }, b: { price: 2 } }", ""},
		{"weed", "1", "weed: found 1, want nothing: the run that was saved leaves it out"},
		{"model", "null", `model: found nothing, want the text "pond"`},
		{"fish", "{}", "fish: found a mapping, want a list, as in"},
	} {
		before := parse(t, pond)
		after, err := before.With([]Setting{{c.key, c.value}})
		if err != nil {
			t.Fatal(err)
		}
		err = vary(before, after)
		var problems Problems
		switch {
		case c.want == "" && err != nil, c.want != "" && !errors.As(err, &problems):
			t.Errorf("%s=%s: %v, want %q", c.key, c.value, err, c.want)
		case c.want != "" && (len(problems) != 1 || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s=%s: %v, want %q", c.key, c.value, err, c.want)
		}
	}
}

// What is left out is refused where it would stand; each difference is a problem of its own.
func TestVaryAll(t *testing.T) {
	other := strings.ReplaceAll(strings.ReplaceAll(pond, "depth: 3\n", ""), "[1, 2]", "[2, 1]")
	err := Vary()(parse(t, pond), parse(t, other))
	for _, want := range []string{": depth: found nothing, want 3, as in", "fish[0].hours[0]: found 2, want 1",
		"fish[0].hours[1]: found 1, want 2"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := Vary()(parse(t, pond), parse(t, pond)); err != nil {
		t.Errorf("a document differs from itself: %v", err)
	}
}

// Of a kind without Varies nothing may change, nor the kind itself.
func TestRegistryVaries(t *testing.T) {
	load := func(*Document, Options) (Scenario, error) { return nil, nil }
	r, err := NewRegistry(Kind{Name: "pond", Load: load, Varies: Vary("depth")}, Kind{Name: "lake", Load: load})
	if err != nil {
		t.Fatal(err)
	}
	deep := strings.ReplaceAll(pond, "depth: 3", "depth: 4")
	lake := func(text string) string { return strings.ReplaceAll(text, "model: pond", "model: lake") }
	for _, c := range []struct{ before, after, want string }{
		{pond, deep, ""},
		{lake(pond), lake(pond), ""},
		{lake(pond), lake(deep), "depth: found 4, want 3"},
		{lake(pond), pond, `model: found the text "pond", want the text "lake"`},
		{pond, strings.ReplaceAll(pond, "model: pond", "model: sea"), "a model that this program does not know"},
		{strings.ReplaceAll(pond, "model: pond", "model: sea"), pond, "a model that this program does not know"},
	} {
		err := r.Varies(parse(t, c.before), parse(t, c.after))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
