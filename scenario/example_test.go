// SPDX-License-Identifier: Apache-2.0

package scenario_test

import (
	"fmt"

	"github.com/disco-sim/disco/scenario"
)

// pond is what a model of one's own wants to know.
type pond struct {
	width float64
	fish  []fish
}

type fish struct {
	name   string
	weight float64
}

// readPond reads a file of the form that this model defines. There is no error
// check between the reads: the reader collects.
func readPond(doc *scenario.Document) (*pond, error) {
	r := scenario.NewReader(doc)
	root := r.Root("width", "fish")
	p := &pond{width: root.Field("width").Float(scenario.MoreThan(0).AtMost(1000))}
	for _, item := range root.Field("fish").List() {
		s := item.Section("name", "weight", "diet")
		f := fish{name: s.Field("name").Text(), weight: s.Field("weight").FloatOr(0.5, scenario.MoreThan(0))}
		if s.Field("diet").WordOr("plants", "plants", "fish") == "fish" && f.weight > p.width {
			item.Refuse("a hunter heavier than the pond is wide", "a smaller one", "")
		}
		p.fish = append(p.fish, f)
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return p, nil
}

// A model reads its own sections of a scenario file with a Reader. All that is
// wrong is listed, in the order of the file.
func ExampleReader() {
	good, _ := scenario.Parse("pond.yml", []byte(`
model: pond
width: 12
fish:
  - &small { name: Ada }
  - { <<: *small, name: Bob, weight: 2 }
`))
	p, err := readPond(good)
	fmt.Println(*p, err)

	bad, _ := scenario.Parse("bad.yml", []byte(`model: pond
width: .inf
fishes: []
fish:
  - { name: 7 }
  - { name: Bob, diet: fisch }
`))
	_, err = readPond(bad)
	fmt.Println(err)

	// Output:
	// {12 [{Ada 0.5} {Bob 2}]} <nil>
	// bad.yml:2:8: width: found .inf, which is not finite, want a number > 0 and <= 1000
	// bad.yml:3:1: fishes: found an unknown field, want only the fields model, width, fish; did you mean fish?
	// bad.yml:5:13: fish[0].name: found 7, want text; write "7" in quotes if it is meant as text
	// bad.yml:6:24: fish[1].diet: found the text "fisch", want one of plants, fish; did you mean fish?
}
