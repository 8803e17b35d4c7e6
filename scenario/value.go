// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/disco-sim/disco/internal/printable"
	"go.yaml.in/yaml/v3"
)

// place is where in the tree a value lies; the root has none.
type place struct {
	parent *place
	name   string // field of a mapping, or
	index  int    // index in a list, where name is empty and item is set
	item   bool
	entry  bool   // of a field whose name the file chooses
	reused string // see Value.Reused
	fill   *fill  // of an item that comes of a database
	row    int    // of the fill
	from   *filler
}

// path is e.g. "edges[2].latency.mean".
func (p *place) path() string { return p.text(false) }

// text is the path, in messages with what an item is about that comes of a database.
func (p *place) text(message bool) string {
	if p == nil {
		return ""
	}
	above := p.parent.text(message)
	if p.fill != nil && message {
		return fmt.Sprintf("%s[%d: %s]", above, p.index, p.fill.origin(p.from.data,
			&p.from.request.Fills[p.fill.rows], p.row))
	}
	if p.item {
		return above + "[" + strconv.Itoa(p.index) + "]"
	}
	// The file may choose the name: a path stays short, and on one line.
	name := KeyStep(printable.Short(p.name))
	if above == "" {
		return name
	}
	return above + "." + name
}

// Value is one place in the file, where something stands or is left out. Its
// reading methods state what they expect there; each notes a problem with its
// Reader, and gives a zero value, where something else stands. The methods without
// "Or" refuse a value that is left out; those with "Or" give the default then.
//
// A Value is immutable and lives as long as its Reader.
type Value struct {
	r            *Reader
	place        *place
	node         *yaml.Node // nil: left out
	line, column int        // of the value's key or, where it is left out, of the mapping around it
	refused      bool       // something around it was refused
}

// Path names the value the way problems do, e.g. edges[2].latency.mean.
func (v Value) Path() string { return v.place.path() }

// Reader is the reader that v belongs to, for its Refusals.
func (v Value) Reader() *Reader { return v.r }

// Line is the line of the value's key, or of the mapping that leaves it out.
func (v Value) Line() int { return v.line }

// Present reports whether anything stands in the file for the value.
func (v Value) Present() bool { return v.node != nil && !v.refused }

// IsMapping reports whether a mapping stands there, for fields that take several forms.
func (v Value) IsMapping() bool {
	v.askedShape(aMapping)
	return v.Present() && follow(v.node).Kind == yaml.MappingNode
}

// IsList reports whether a list stands there.
func (v Value) IsList() bool {
	v.askedShape(aList)
	return v.Present() && follow(v.node).Kind == yaml.SequenceNode
}

// IsText reports whether text stands there, for fields that take several forms. A number beyond float64 is none.
func (v Value) IsText() bool {
	v.askedShape(aText)
	if !v.Present() {
		return false
	}
	n := follow(v.node)
	_, beyond := float(n)
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" && !beyond
}

// OrNull is v, but left out where the file says null or nothing, for the fields in
// which null is allowed.
func (v Value) OrNull() Value {
	if rd := v.at(); rd != nil {
		rd.null = true
	}
	if v.Present() && isNull(follow(v.node)) {
		v.node = nil
	}
	return v
}

// Refuse notes that v is wrong: what was found, what is wanted, and what to do ("":
// the former two say it). Models use it for the rules that no single read checks.
func (v Value) Refuse(found, want, todo string) {
	if v.refused || v.waits() {
		v.r.refusals++
		return
	}
	v.noteRefusal()
	line, column := v.position()
	if v.place.within() {
		v.r.strays++
	}
	v.r.refuse(Problem{File: v.r.doc.shownAs, Line: line, Column: column, Field: v.place.text(true),
		Found: found, Want: want,
		ToDo: todo})
}

// Note keeps a remark about v for the person who wrote the file. It is no problem.
func (v Value) Note(text string) {
	if !v.refused {
		line, column := v.position()
		v.r.note(note{file: v.r.doc.shownAs, line: line, column: column, field: v.place.text(true), text: text})
	}
}

// position is where to look for what is wrong with v: at what stands there, and
// with an alias at what it names. A value that is left out, or is nothing, has no
// place of its own.
func (v Value) position() (line, column int) {
	if v.node != nil {
		if n := follow(v.node); !isNull(n) || n.Value != "" {
			return n.Line, n.Column
		}
	}
	return v.line, v.column
}

// Section opens a mapping that has no other fields than these.
func (v Value) Section(fields ...string) Section {
	v.asked(ask{form: formSection})
	if rd := v.at(); rd != nil {
		rd.allowed = append(rd.allowed, fields...)
	}
	if !v.Present() && !v.refused {
		v.missing("a mapping with " + strings.Join(fields, ", "))
		v.refused = true
		return Section{at: v, allowed: fields}
	}
	s := v.r.open(v)
	s.allowed = fields
	s.refuseUnknown()
	return s
}

// Entry is one field of a mapping whose field names the file chooses.
type Entry struct {
	Name  string
	Value Value
}

// Entries opens a mapping whose field names the file chooses, in its order.
func (v Value) Entries() []Entry {
	v.asked(ask{form: formEntries})
	s := v.r.open(v)
	entries := make([]Entry, 0, len(s.order))
	for _, f := range s.order {
		value := s.value(f.name)
		value.place.entry = true
		entries = append(entries, Entry{f.name, value})
	}
	return entries
}

// List gives the items of a list, which may be empty.
func (v Value) List() []Value {
	v.asked(ask{form: formList})
	n, ok := v.take("a list", yaml.SequenceNode)
	if !ok {
		return nil
	}
	items := make([]Value, len(n.Content))
	for i, c := range n.Content {
		items[i] = Value{r: v.r, place: &place{parent: v.place, index: i, item: true}, node: c, line: c.Line,
			column: c.Column}
	}
	return v.withFills(items)
}

// Float reads a finite number in the range.
func (v Value) Float(rng Range) float64 {
	v.asked(ask{form: formNumber, rng: rng.plain()})
	x, _ := v.number(rng, rng.String())
	return x
}

// FloatOr is Float, or def where the value is left out.
func (v Value) FloatOr(def float64, rng Range) float64 {
	v.asked(ask{form: formNumber, rng: rng.plain()})
	v.defaults(def)
	if !v.Present() && !v.refused {
		return def
	}
	return v.Float(rng)
}

// intMax is the largest whole number that no other rounds to as a float64.
const intMax = 1<<53 - 1

// Int reads a whole number in the range. 4.0 is one, 4.5 is not.
func (v Value) Int(rng Range) int {
	v.asked(ask{form: formWhole, rng: rng.plain()})
	if rng.max > intMax {
		rng.max = intMax
	}
	if rng.min < -intMax {
		rng.min = -intMax
	}
	want := wholeNumber(rng)
	x, ok := v.number(rng, want)
	if ok && x != math.Trunc(x) {
		v.Refuse(describe(follow(v.node)), want, "")
		return 0
	}
	return int(x)
}

// IntOr is Int, or def where the value is left out.
func (v Value) IntOr(def int, rng Range) int {
	v.asked(ask{form: formWhole, rng: rng.plain()})
	v.defaults(def)
	if !v.Present() && !v.refused {
		return def
	}
	return v.Int(rng)
}

// Bool reads true or false.
func (v Value) Bool() bool {
	v.asked(ask{form: formBool})
	n, ok := v.take("true or false", yaml.ScalarNode)
	if !ok {
		return false
	}
	if n.ShortTag() != "!!bool" {
		v.Refuse(describe(n), "true or false", "")
		return false
	}
	return strings.EqualFold(n.Value, "true")
}

// BoolOr is Bool, or def where the value is left out.
func (v Value) BoolOr(def bool) bool {
	v.asked(ask{form: formBool})
	v.defaults(def)
	if !v.Present() && !v.refused {
		return def
	}
	return v.Bool()
}

// Text reads text that is not empty.
func (v Value) Text() string {
	v.asked(ask{form: formText})
	return v.text("text", "text of 1 character or more")
}

// text is Text, with what is wanted instead of something else, and of nothing between quotes.
func (v Value) text(want, some string) string {
	n, ok := v.take(want, yaml.ScalarNode)
	if !ok {
		return ""
	}
	if n.ShortTag() != "!!str" {
		todo := ""
		if !isNull(n) {
			todo = fmt.Sprintf("write %q in quotes if it is meant as text", printable.Short(n.Value))
		}
		v.Refuse(describe(n), want, todo)
		return ""
	}
	if n.Value == "" {
		v.Refuse("empty text", some, "")
	}
	return n.Value
}

// ID reads the name of something: text of at most so many characters, all of them
// printable.
func (v Value) ID(most int) string {
	v.asked(ask{form: formText, most: most})
	want := fmt.Sprintf("text of 1 to %d printable characters", most)
	id := v.text("text", want)
	at := 0
	for _, c := range id {
		if at++; !unicode.IsPrint(c) {
			v.Refuse(fmt.Sprintf("an id whose character %d is %U, which is not printable", at, c), want, "")
			return ""
		}
	}
	if at > most {
		v.Refuse(fmt.Sprintf("an id of %d characters", at), want, "")
		return ""
	}
	return id
}

// TextOr is Text, or def where the value is left out.
func (v Value) TextOr(def string) string {
	v.asked(ask{form: formText})
	v.defaults(def)
	if !v.Present() && !v.refused {
		return def
	}
	return v.Text()
}

// Word reads one of the given words.
func (v Value) Word(words ...string) string {
	v.askedWord(words)
	n, ok := v.take(oneOf(words), yaml.ScalarNode)
	if !ok {
		return ""
	}
	if n.ShortTag() == "!!str" && slices.Contains(words, n.Value) {
		return n.Value
	}
	v.Refuse(describe(n), oneOf(words), Suggest(n.Value, words))
	return ""
}

// WordOr is Word, or def where the value is left out.
func (v Value) WordOr(def string, words ...string) string {
	v.askedWord(words)
	v.defaults(def)
	if !v.Present() && !v.refused {
		return def
	}
	return v.Word(words...)
}

// take gives what stands at v, aliases followed, if it is of the kind wanted.
func (v Value) take(want string, kind yaml.Kind) (*yaml.Node, bool) {
	if v.refused {
		v.r.refusals++
		return nil, false
	}
	if v.node == nil {
		v.missing(want)
		return nil, false
	}
	n := follow(v.node)
	if tag := n.ShortTag(); !knownTag(tag) {
		v.Refuse("a value with the tag "+printable.Short(tag), want, "remove the tag")
		return nil, false
	}
	if n.Kind != kind {
		v.Refuse(describe(n), want, "")
		return nil, false
	}
	return n, true
}

func (v Value) missing(want string) {
	if rd := v.at(); rd != nil {
		rd.missing = true
	}
	v.Refuse("nothing", want, "add the field "+v.place.name)
}
