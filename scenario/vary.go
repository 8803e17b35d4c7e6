// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Vary makes a Kind's Varies of the paths of the fields that may change, each with all that is below it: such as
// servers[].cores, where [] is any item of a list, and prices.* any field of a mapping. What may change keeps its form:
// a number doesn't become a mapping. Numbers that are written in another way haven't changed. Without paths nothing
// may change.
func Vary(may ...string) func(before, after *Document) error {
	v := variation{may: make(map[string]bool, len(may)), any: map[string]bool{}}
	for _, path := range may {
		v.may[path] = true
		for at, c := range path {
			if c == '*' && at > 0 {
				v.any[path[:at-1]] = true
			}
		}
	}
	return func(before, after *Document) error {
		r := NewReader(after)
		v.compare(NewReader(before).Whole(), r.Whole(), "")
		return r.Err()
	}
}

// VaryLoaded makes a Kind's Varies of one by paths, as Vary gives it, and of what the loaded scenarios say: check
// compares them, and refuses fields of after, which r reads.
func VaryLoaded[M any](paths func(before, after *Document) error, load func(*Document, Options) (M, error),
	check func(r *Reader, was, is M)) func(before, after *Document) error {
	return func(before, after *Document) error {
		if err := paths(before, after); err != nil {
			return err
		}
		was, err := load(before, Options{})
		if err != nil {
			return err
		}
		is, err := load(after, Options{})
		if err != nil {
			return err
		}
		r := NewReader(after)
		check(r, was, is)
		return r.Err()
	}
}

// variation is which fields may change.
type variation struct {
	may map[string]bool
	any map[string]bool // mappings whose fields stand in may as *
}

// compare refuses what differs; path has no numbers of items. Both documents were loaded.
func (v *variation) compare(before, after Value, path string) {
	before, after = before.OrNull(), after.OrNull()
	if !before.Present() && !after.Present() {
		return
	}
	switch {
	case !after.Present():
		if !v.may[path] {
			after.Refuse("nothing", before.as(), whatIf)
		}
	case !before.Present():
		if after.IsMapping() && !v.may[path] {
			v.fields(before, after, path)
		} else if !v.may[path] {
			after.Refuse(describe(after.node), "nothing: the run that was saved leaves it out", whatIf)
		}
	case follow(before.node).Kind != follow(after.node).Kind:
		after.Refuse(describe(after.node), before.as(), whatIf)
	case v.may[path]:
	case after.IsMapping():
		v.fields(before, after, path)
	case after.IsList():
		was, is := before.List(), after.List()
		if len(was) != len(is) {
			after.Refuse(fmt.Sprintf("a list of %d", len(is)), fmt.Sprintf("one of %d, as in the run that was saved",
				len(was)), whatIf)
			return
		}
		for i := range is {
			v.compare(was[i], is[i], path+"[]")
		}
	case !same(follow(before.node), follow(after.node)):
		after.Refuse(describe(after.node), before.as(), whatIf)
	}
}

// whatIf is what to do about a field that may not change.
const whatIf = "a state can't go on with another one: begin a new run"

// as is what a field must stay.
func (v Value) as() string { return describe(v.node) + ", as in the run that was saved" }

// fields compares two mappings, or one with nothing, which is as good as one without fields.
func (v *variation) fields(before, after Value, path string) {
	below := func(name string) string {
		if v.any[path] {
			name = "*"
		}
		return strings.TrimPrefix(path+"."+name, ".")
	}
	is, was := after.r.open(after), Section{}
	if before.Present() {
		was = before.r.open(before)
	}
	for _, f := range is.order {
		v.compare(was.value(f.name), is.value(f.name), below(f.name))
	}
	for _, f := range was.order {
		if _, both := is.fields[f.name]; !both {
			v.compare(was.value(f.name), is.value(f.name), below(f.name))
		}
	}
}

// same reports whether two scalars mean the same.
func same(a, b *yaml.Node) bool {
	x, number := float(a)
	if y, too := float(b); number && too {
		return x == y
	}
	return a.ShortTag() == b.ShortTag() && a.Value == b.Value
}
