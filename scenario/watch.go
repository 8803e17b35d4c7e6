// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// watch is what the readers of a document have asked of it, place by place: Schema is made of that, so that it holds
// what a kind's Load does and not what somebody has written beside it. Documents of files have none.
type watch struct {
	readings map[string]*reading // by place
	order    []*reading
	key      []byte // of the place that was looked up last
}

// form is what a read wants.
type form uint8

const (
	formNumber form = iota
	formWhole
	formBool
	formText
	formWord
	formSection
	formEntries
	formList
)

// ask is one read of a value.
type ask struct {
	form  form
	rng   Range  // of numbers
	most  int    // characters of a name; 0: any
	words string // of a word, with wordSeparator between
}

const wordSeparator = "\x00"

func (a ask) wordList() []string { return strings.Split(a.words, wordSeparator) }

// numeric reports whether a number is wanted.
func (a ask) numeric() bool { return a.form == formNumber || a.form == formWhole }

// reading is what was asked about one place.
type reading struct {
	steps   []step
	pattern string // the path with [] for any item, and .* for a field whose name the file chooses
	reused  string // see Value.Reused
	asks    []ask
	allowed []string // of a section
	def     any      // what stands for a value that is left out; nil: unknown
	null    bool     // null is allowed
	shapes  [shapes]bool
	missing bool
	blank   bool // the placeholder stands there, and something was asked of it
	refused bool
}

// inside is what the patterns of places below begin with.
func (rd *reading) inside() string {
	if rd.reused != "" {
		return reusedMark + rd.reused
	}
	return rd.pattern
}

// shape is what a value may look like, for fields that take several forms.
type shapeOf uint8

const (
	aMapping shapeOf = iota
	aList
	aText
	shapes
)

// tagBlank is the tag of a placeholder: no read takes it.
const tagBlank = "!blank"

// at is what is known of the place of v; nil: nobody watches.
func (v Value) at() *reading {
	if v.r == nil || v.r.watch == nil {
		return nil
	}
	w := v.r.watch
	w.key = v.place.appendKey(w.key[:0])
	rd, ok := w.readings[string(w.key)]
	if !ok {
		rd = &reading{pattern: v.place.pattern()}
		for p := v.place; p != nil; p = p.parent {
			if p.item {
				rd.steps = append(rd.steps, step{index: p.index})
			} else {
				rd.steps = append(rd.steps, step{name: p.name, index: -1})
			}
		}
		slices.Reverse(rd.steps)
		w.readings[string(w.key)] = rd
		w.order = append(w.order, rd)
	}
	return rd
}

// appendKey appends what no other place has; one field may be read as a field and as an entry.
func (p *place) appendKey(b []byte) []byte {
	switch {
	case p == nil:
		return b
	case p.item:
		return strconv.AppendInt(append(p.parent.appendKey(b), '['), int64(p.index), 10)
	case p.entry:
		return append(append(p.parent.appendKey(b), '*'), p.name...)
	}
	return append(append(p.parent.appendKey(b), '.'), p.name...)
}

func (p *place) pattern() string {
	switch {
	case p == nil:
		return ""
	case p.item:
		return p.parent.inside() + "[]"
	case p.entry:
		return below(p.parent.inside(), "*")
	}
	return below(p.parent.inside(), p.name)
}

// inside is what the patterns of places below p begin with.
func (p *place) inside() string {
	if p != nil && p.reused != "" {
		return reusedMark + p.reused
	}
	return p.pattern()
}

// reusedMark stands before the name of such a reader in patterns.
const reusedMark = "#"

// Reused names what is read at v and below by one function that reads it in the same way wherever it stands, such as a
// distribution: Kind.Schema has it once.
func (v Value) Reused(name string) Value {
	if rd := v.at(); rd != nil && v.place != nil {
		p := *v.place
		p.reused = name
		v.place, rd.reused = &p, name
	}
	return v
}

// below is the pattern of a field.
func below(pattern, name string) string {
	if pattern == "" {
		return name
	}
	return pattern + "." + name
}

// asked notes a read.
func (v Value) asked(a ask) {
	if rd := v.at(); rd != nil && !v.refused && !slices.Contains(rd.asks, a) {
		rd.asks = append(rd.asks, a)
	}
}

func (v Value) askedWord(words []string) {
	if v.r != nil && v.r.watch != nil {
		v.asked(ask{form: formWord, words: strings.Join(words, wordSeparator)})
	}
}

// defaults notes what stands for v where it is left out.
func (v Value) defaults(def any) {
	if rd := v.at(); rd != nil {
		rd.def = def
	}
}

// askedShape notes that what is read next depends on what v looks like.
func (v Value) askedShape(s shapeOf) {
	if rd := v.at(); rd != nil {
		rd.shapes[s] = true
	}
}

// noteRefusal notes that v was refused.
func (v Value) noteRefusal() {
	if rd := v.at(); rd != nil {
		rd.refused = true
		rd.blank = rd.blank || v.node != nil && v.node.Tag == tagBlank
	}
}

// sample is a value of a document that is made up.
type sample struct {
	node yaml.Kind // yaml.ScalarNode, MappingNode or SequenceNode
	tag  string
	text string
	keys []string // of a mapping
	of   []*sample
}

func blank() *sample { return scalar(tagBlank, "blank") }

func scalar(tag, text string) *sample { return &sample{node: yaml.ScalarNode, tag: tag, text: text} }

func list(of ...*sample) *sample { return &sample{node: yaml.SequenceNode, tag: "!!seq", of: of} }

func mapping() *sample { return &sample{node: yaml.MappingNode, tag: "!!map"} }

func (s *sample) field(name string) *sample {
	if i := slices.Index(s.keys, name); i >= 0 {
		return s.of[i]
	}
	return nil
}

// yaml is the sample as the tree of a document.
func (s *sample) yaml() *yaml.Node {
	n := &yaml.Node{Kind: s.node, Tag: s.tag, Value: s.text, Line: 1, Column: 1}
	for i, c := range s.of {
		if s.node == yaml.MappingNode {
			n.Content = append(n.Content, scalar("!!str", s.keys[i]).yaml())
		}
		n.Content = append(n.Content, c.yaml())
	}
	return n
}

// with is a copy of s with another value at a place, and the rest shared; nil removes what is there. Fields that are on
// the way are there already.
func (s *sample) with(steps []step, value *sample) *sample {
	if len(steps) == 0 {
		return value
	}
	c := *s
	c.keys, c.of = slices.Clone(s.keys), slices.Clone(s.of)
	i := steps[0].index
	if i < 0 {
		if i = slices.Index(c.keys, steps[0].name); i < 0 {
			if s.node != yaml.MappingNode || value == nil {
				return s
			}
			c.keys, c.of = append(c.keys, steps[0].name), append(c.of, nil)
			i = len(c.of) - 1
		}
	}
	if i >= len(c.of) || c.of[i] == nil && len(steps) > 1 {
		return s
	}
	if len(steps) == 1 && value == nil {
		c.of = slices.Delete(c.of, i, i+1)
		if s.node == yaml.MappingNode {
			c.keys = slices.Delete(c.keys, i, i+1)
		}
		return &c
	}
	if len(steps) == 1 {
		c.of[i] = value
	} else {
		c.of[i] = c.of[i].with(steps[1:], value)
	}
	return &c
}

// get is what stands at a place; nil: nothing.
func (s *sample) get(steps []step) *sample {
	for _, st := range steps {
		switch {
		case s == nil:
			return nil
		case st.index < 0:
			s = s.field(st.name)
		case st.index < len(s.of):
			s = s.of[st.index]
		default:
			return nil
		}
	}
	return s
}
