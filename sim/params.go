// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/sim/dist"
)

// keyLengthMax bounds the name of an entry, in characters.
const keyLengthMax = 200

// fields are the parameters' names at the top level of the file.
func (p *paramPlan) fields() []string { return p.root.names() }

// names are those of a section's fields, without the key.
func (p *param) names() (all []string) {
	for _, c := range p.parts {
		if !c.isKey {
			all = append(all, c.name)
		}
	}
	return all
}

// read reads the parameters from the top level of a file into a struct, to which into points. What is wrong is noted
// with the reader.
func (p *paramPlan) read(r *scenario.Reader, root scenario.Section, into any) {
	p.root.readParts(root, reflect.ValueOf(into).Elem(), pathOf)
}

// pathOf is what distributions are named after.
func pathOf(v scenario.Value) string { return v.Path() }

// readParts reads the fields of a section. name gives the names of distributions.
func (p *param) readParts(s scenario.Section, into reflect.Value, name func(scenario.Value) string) {
	for _, c := range p.parts {
		if !c.isKey {
			c.readOr(s.Field(c.name), into.Field(c.index), name)
		}
	}
}

// readOr reads a field, or takes its default where the file leaves it out.
func (p *param) readOr(v scenario.Value, into reflect.Value, name func(scenario.Value) string) {
	switch {
	case v.Present() || p.required:
		p.readValue(v, into, name)
	case p.form == formSection:
		for _, c := range p.parts {
			c.fill(into.Field(c.index), name(v)+"."+c.name)
		}
	default:
		p.fill(into, name(v))
	}
}

// fill gives a field its default.
func (p *param) fill(into reflect.Value, name string) {
	if p.form == formSection {
		for _, c := range p.parts {
			c.fill(into.Field(c.index), name+"."+c.name)
		}
		return
	}
	if err := p.readDefault(into, name); err != nil {
		panic(p.fault("its default, which was good, is at fault: %v", err))
	}
}

// readDefault reads the default, anew each time, so that no two structs share a list.
func (p *param) readDefault(into reflect.Value, name string) error {
	if p.value == nil {
		into.SetZero()
		return nil
	}
	r := scenario.NewReader(p.value)
	p.readValue(r.Root("value").Field("value"), into, func(v scenario.Value) string {
		return name + strings.TrimPrefix(v.Path(), "value")
	})
	return r.Err()
}

// readValue reads what stands in the file.
func (p *param) readValue(v scenario.Value, into reflect.Value, name func(scenario.Value) string) {
	switch p.form {
	case formBool:
		into.SetBool(v.Bool())
	case formInt:
		if x := v.Int(p.allowed); into.CanUint() {
			into.SetUint(uint64(x))
		} else {
			into.SetInt(int64(x))
		}
	case formFloat:
		into.SetFloat(v.Float(p.allowed))
	case formText:
		if p.choices != nil {
			into.SetString(v.Word(p.choices...))
		} else {
			into.SetString(v.Text())
		}
	case formDist:
		if d := dist.Read(v); d.IsSet() && p.holds(v, d) {
			into.Set(reflect.ValueOf(d.Named(name(v))))
		}
	case formRate:
		if r := dist.ReadRate(v); r.IsSet() {
			into.Set(reflect.ValueOf(r.Named(name(v))))
		}
	case formSection:
		p.readParts(v.Section(p.names()...), into, name)
	case formList, formArray:
		p.readItems(v, into, name)
	}
}

// holds reports whether all that a distribution can give is in the bounds, and refuses it otherwise.
func (p *param) holds(v scenario.Value, d dist.Dist) bool {
	least, most := d.Min(), d.Max()
	found, want := "", ""
	switch {
	case p.min != nil && least < *p.min:
		found, want = atLeast(d, least), "no number below "+number(*p.min)
	case p.above != nil && least <= *p.above:
		found, want = atLeast(d, least), "only numbers above "+number(*p.above)
	case p.max != nil && most > *p.max:
		found = fmt.Sprintf("%s, which goes up to %s", d, number(most))
		if math.IsInf(most, 1) {
			found = fmt.Sprintf("%s, which has no largest number", d)
		}
		want = "no number above " + number(*p.max)
	default:
		return true
	}
	v.Refuse(found, want, "write a mapping with min, max or at_least, or add a constant")
	return false
}

func atLeast(d dist.Dist, least float64) string {
	if math.IsInf(least, -1) {
		return fmt.Sprintf("%s, which has no least number", d)
	}
	return fmt.Sprintf("%s, which goes down to %s", d, number(least))
}

// readItems reads a list, or the entries of a mapping where the elements have a key.
func (p *param) readItems(v scenario.Value, into reflect.Value, name func(scenario.Value) string) {
	if p.form == formList && p.keyed() {
		p.readEntries(v, into, name)
		return
	}
	items := v.List()
	if p.form == formList {
		into.Set(reflect.MakeSlice(p.typ, len(items), len(items)))
	} else if n := p.typ.Len(); v.IsList() && len(items) != n {
		v.Refuse(fmt.Sprintf("a list of %d", len(items)), fmt.Sprintf("one of %d", n), "")
		return
	}
	for i, item := range items {
		p.of.readValue(item, into.Index(i), name)
	}
}

func (p *param) readEntries(v scenario.Value, into reflect.Value, name func(scenario.Value) string) {
	entries := v.Entries()
	into.Set(reflect.MakeSlice(p.typ, len(entries), len(entries)))
	for i, e := range entries {
		element := into.Index(i)
		if e.Name == "" || len([]rune(e.Name)) > keyLengthMax {
			e.Value.Refuse(fmt.Sprintf("a name of %d characters", len([]rune(e.Name))),
				fmt.Sprintf("one of 1 to %d", keyLengthMax), "")
		}
		for _, c := range p.of.parts {
			if c.isKey {
				element.Field(c.index).SetString(e.Name)
			}
		}
		p.of.readValue(e.Value, element, name)
	}
}

// references lists the files that a document's parameters refer to, for scenario.Kind.
func (p *paramPlan) references(doc *scenario.Document) []scenario.Reference {
	root := scenario.NewReader(doc).Root(append(p.fields(), reserved...)...)
	return p.root.refer(nil, root)
}

func (p *param) refer(all []scenario.Reference, s scenario.Section) []scenario.Reference {
	for _, c := range p.parts {
		if !c.isKey {
			all = c.referValue(all, s.Field(c.name))
		}
	}
	return all
}

func (p *param) referValue(all []scenario.Reference, v scenario.Value) []scenario.Reference {
	switch {
	case p.form == formDist:
		all = append(all, dist.References(v)...)
	case p.form == formSection && v.IsMapping():
		all = p.refer(all, v.Section(p.names()...))
	case p.of != nil && v.IsList():
		for _, item := range v.List() {
			all = p.of.referValue(all, item)
		}
	case p.of != nil && v.IsMapping():
		for _, e := range v.Entries() {
			all = p.of.referValue(all, e.Value)
		}
	}
	return all
}
