// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"cmp"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Reader reads the values of one document and collects what is wrong with them.
// A read that fails notes a problem and gives a zero value, so that code which
// reads a whole file needs no error checks between: it asks Err at the end, and
// Refusals where it must know whether a part was good. What lies below a refused
// value is refused silently: one mistake is one problem.
//
// A Reader is for one goroutine.
type Reader struct {
	doc      *Document
	watch    *watch // nil: nobody watches
	problems Problems
	seen     map[Problem]bool // one place can be read through many aliases
	refusals int
	further  int // problems beyond ProblemsMax
	notes    []note
	noted    map[note]bool

	graph  *filler // what fills lists; nil: nothing does
	strays int     // problems of items that came from there
}

// note is a remark that is no problem.
type note struct {
	file         string
	line, column int
	field, text  string
}

// NewReader makes a reader for doc.
func NewReader(doc *Document) *Reader {
	return &Reader{doc: doc, watch: doc.watch, seen: make(map[Problem]bool), noted: make(map[note]bool)}
}

// Root opens the top level of the document, which must be a mapping of the given
// fields; `model` and `graph` are allowed besides. What `graph` fills is among the
// lists that are read afterwards.
func (r *Reader) Root(fields ...string) Section {
	all := append([]string{"model"}, fields...)
	if slices.Contains(fields, graphField) { // the kind's own
		return r.Whole().Section(all...)
	}
	if v, err := r.doc.top(graphField); err == nil && (v.Present() || r.watch != nil) {
		s := r.Whole().Section(append(all, graphField)...)
		g := s.Field(graphField)
		if g.asked(ask{form: formSection}); g.Present() {
			r.readGraph(g, fields)
		}
		return s
	}
	return r.Whole().Section(all...)
}

// Err is nil when all that was read so far is good, and a Problems otherwise.
func (r *Reader) Err() error {
	if len(r.problems) == 0 {
		return nil
	}
	all := append(Problems(nil), r.problems...)
	all.Sort()
	if r.further > 0 {
		all = append(all, Problem{File: r.doc.shownAs,
			Found: fmt.Sprintf("%d more problems, which are not listed", r.further)})
	}
	return all
}

// Refusals counts the reads that have failed so far. Two equal counts mean that
// everything read between them is good.
func (r *Reader) Refusals() int { return r.refusals }

// Notes are the remarks that were made with Value.Note, in the order of the file:
// file:line:column: field: text.
func (r *Reader) Notes() []string {
	all := slices.Clone(r.notes)
	slices.SortStableFunc(all, func(a, b note) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column))
	})
	var lines []string
	for _, n := range all {
		lines = append(lines, fmt.Sprintf("%s:%d:%d: %s: %s", n.file, n.line, n.column, n.field, n.text))
	}
	return lines
}

func (r *Reader) note(n note) {
	key := n
	key.field = "" // as for problems
	if !r.noted[key] && len(r.notes) < ProblemsMax {
		r.noted[key] = true
		r.notes = append(r.notes, n)
	}
}

// Whole is the whole document: Root for files that are no scenarios, and have no field "model".
func (r *Reader) Whole() Value {
	return Value{r: r, node: r.doc.root, line: r.doc.root.Line, column: r.doc.root.Column}
}

func (r *Reader) refuse(p Problem) {
	r.refusals++
	key := p
	key.Field = "" // the same text may stand for several fields
	if r.seen[key] {
		return
	}
	if len(r.problems) >= ProblemsMax {
		r.further++
		return
	}
	r.seen[key] = true
	r.problems = append(r.problems, p)
}

// field is one entry of a mapping.
type field struct {
	name       string
	key, value *yaml.Node
}

// Section is a mapping that was opened: its fields are read by name. It is
// immutable and lives as long as its Reader.
type Section struct {
	at      Value
	allowed []string // nil: every name is
	fields  map[string]field
	order   []field // own fields in the order of the file, then merged ones
}

// At is the section itself, to refuse or to note something about it.
func (s Section) At() Value { return s.at }

// Field is the value of one of the fields that Section was given. A field that the
// file leaves out is an absent Value.
func (s Section) Field(name string) Value {
	if s.allowed != nil && !slices.Contains(s.allowed, name) {
		panic(fmt.Sprintf("scenario: field %q is read but not among those of its section: %q", name, s.allowed))
	}
	v := s.value(name)
	v.at()
	return v
}

func (s Section) value(name string) Value {
	v := Value{r: s.at.r, place: &place{parent: s.at.place, name: name}, line: s.at.line, column: s.at.column,
		refused: s.at.refused}
	f, ok := s.fields[name]
	if v.refused {
		return v
	}
	if !ok {
		return v.filled()
	}
	v.node, v.line, v.column = f.value, f.key.Line, f.key.Column
	return v.unfilled()
}

// open takes v apart as a mapping: own fields, then those of its merge keys (<<).
// A key that is no text, or that stands there twice, is refused.
func (r *Reader) open(v Value) Section {
	s := Section{at: v, fields: make(map[string]field)}
	n, ok := v.take("a mapping of fields", yaml.MappingNode)
	if ok && v.place.filled() && r.strays > straysMax {
		r.refusals++
		ok = false
	}
	if !ok {
		s.at.refused = true
		return s
	}
	if v.place.filled() {
		n = v.place.made(r)
	}
	s.at.line, s.at.column = n.Line, n.Column
	var merges []*yaml.Node
	merge := (*yaml.Node)(nil)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := follow(n.Content[i]), n.Content[i+1]
		at := Value{r: r, place: v.place, node: key, line: n.Content[i].Line, column: n.Content[i].Column}
		if isMerge(key) {
			if merge != nil {
				at.Refuse(fmt.Sprintf("a second merge key << (the first is on line %d)", merge.Line), "one",
					"give it a list: <<: [*a, *b]")
				continue
			}
			merge, merges = key, append(merges, value)
			continue
		}
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
			at.Refuse(describe(key)+" as the name of a field", "text", "")
			continue
		}
		if first, ok := s.fields[key.Value]; ok {
			at.place = &place{parent: v.place, name: key.Value}
			at.Refuse(fmt.Sprintf("the field a second time (the first is on line %d)", first.key.Line),
				"every field once", "remove one of them")
			continue
		}
		f := field{name: key.Value, key: n.Content[i], value: value}
		s.fields[key.Value] = f
		s.order = append(s.order, f)
	}
	for _, m := range merges {
		r.merge(&s, m)
	}
	return s
}

// merge adds to s the fields of a mapping, or of a list of mappings, that s does
// not have yet; what comes earlier wins. The recursion ends because the shape of
// the document was checked.
func (r *Reader) merge(s *Section, n *yaml.Node) {
	target := follow(n)
	if target.Kind == yaml.SequenceNode {
		for _, c := range target.Content {
			r.merge(s, c)
		}
		return
	}
	at := Value{r: r, place: &place{parent: s.at.place, name: "<<"}, node: n, line: n.Line, column: n.Column}
	if target.Kind != yaml.MappingNode {
		at.Refuse(describe(target), "an alias of a mapping, or a list of such", "")
		return
	}
	for _, f := range r.open(at).order {
		if _, ok := s.fields[f.name]; !ok {
			s.fields[f.name] = f
			s.order = append(s.order, f)
		}
	}
}

// refuseUnknown notes every field that is not allowed.
func (s Section) refuseUnknown() {
	for _, f := range s.order {
		if slices.Contains(s.allowed, f.name) {
			continue
		}
		v := s.value(f.name)
		v.node = nil // the name is what is wrong, so the problem points there
		v.Refuse("an unknown field", allowedFields(s.allowed), Suggest(f.name, s.allowed))
	}
	s.at.refuseUnfilled(s.allowed)
}
