// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// explorer finds out what a kind's Load reads. It gives Load documents that are made up: at first an empty one, to
// which it adds what Load misses until nothing is; then it changes one thing at a time, to each form, word and shape
// that Load has asked for there, and to nothing. A document in which something new was asked is one from which it goes
// on. So every branch that hangs on one field is taken, whatever else the branch needs before; what isn't seen to be
// refused is left open (schema.go).
type explorer struct {
	kind  Kind
	spots map[string]*spot // by pattern
	tried map[string]bool
	queue []*sample
	fresh bool // something was learned since it was last set to false
}

// spot is what was learned of all places with one pattern.
type spot struct {
	reused   string // see Value.Reused: that has what is below
	asks     map[ask]bool
	order    []ask
	def      any
	defs     map[any]bool
	null     bool
	shapes   [shapes]bool // asked for
	refused  [shapes]bool // and refused where it was there
	empty    [2]bool      // an empty list was refused, and taken
	longer   bool         // one with items was taken
	allowed  map[string]bool
	children map[choice]map[string]*child // of a section, by the word of one of its fields, by field
}

// choice is a word of one field of a section; the empty one is any section.
type choice struct{ field, word string }

// child is a field of a section, as long as another has a certain word.
type child struct {
	allowed  bool // the section has it
	needed   bool // it was missing in one document at least
	spared   bool // and left out in one from which nothing was missing
	present  bool // it was there in one document at least
	asked    bool // something other than whether it is there
	unwanted bool // it was refused itself
	asks     map[ask]bool
}

// Limits of the exploration, far above what any kind needs: a Load whose answers change by themselves ends too.
const (
	repairsMax    = 200
	variationsMax = 200_000
	patternMax    = 400
)

func explore(kind Kind) *explorer {
	x := &explorer{kind: kind, spots: map[string]*spot{}, tried: map[string]bool{}}
	x.learn(mapping())
	for len(x.tried) < variationsMax && len(x.queue) > 0 {
		doc := x.queue[0]
		x.queue = x.queue[1:]
		x.vary(doc)
	}
	return x
}

// run has Load read a document.
func (x *explorer) run(doc *sample) *watch {
	w := &watch{readings: map[string]*reading{}}
	d := &Document{file: "schema.yml", shownAs: "schema.yml", root: doc.yaml(), watch: w}
	_, _ = x.kind.Load(d, Options{}) // what is wrong with it is in w
	return w
}

// learn adds to a document what is missing, takes in all that was asked meanwhile, and queues it where that is new.
func (x *explorer) learn(doc *sample) {
	x.fresh = false
	for range repairsMax {
		w := x.run(doc)
		repaired := doc
		for _, rd := range w.order {
			x.note(rd, doc)
			if (rd.missing || rd.blank) && len(rd.asks) > 0 && len(rd.pattern) < patternMax {
				repaired = repaired.with(rd.steps, samples(rd.asks[0])[0])
			}
		}
		complete := repaired == doc
		for _, rd := range w.order {
			if slices.Contains(rd.asks, ask{form: formSection}) {
				x.noteSection(rd, doc, w, complete)
			}
		}
		if complete {
			break
		}
		doc = repaired
	}
	if x.fresh {
		x.queue = append(x.queue, doc)
	}
}

func (x *explorer) spot(pattern string) *spot {
	s, ok := x.spots[pattern]
	if !ok {
		s = &spot{asks: map[ask]bool{}, defs: map[any]bool{}, allowed: map[string]bool{},
			children: map[choice]map[string]*child{}}
		x.spots[pattern] = s
		x.fresh = true
	}
	return s
}

// learned sets one of what is known, and that it is new.
func (x *explorer) learned(known *bool, now bool) {
	if now && !*known {
		*known, x.fresh = true, true
	}
}

// note takes in what was asked of one place.
func (x *explorer) note(rd *reading, doc *sample) {
	s := x.spot(rd.pattern)
	s.reused = cmp.Or(rd.reused, s.reused)
	inside := x.spot(rd.inside())
	for _, a := range rd.asks {
		if !s.asks[a] {
			s.asks[a], x.fresh = true, true
			s.order = append(s.order, a)
		}
	}
	if rd.def != nil {
		s.def = rd.def
		s.defs[rd.def] = true
	}
	x.learned(&s.null, rd.null)
	at := doc.get(rd.steps)
	for k := range shapes {
		x.learned(&s.shapes[k], rd.shapes[k])
		if rd.refused && at != nil && at.has(k) {
			s.refused[k] = true
		}
	}
	if at != nil && at.node == yaml.SequenceNode && slices.Contains(rd.asks, ask{form: formList}) {
		s.empty[0] = s.empty[0] || len(at.of) == 0 && rd.refused
		s.empty[1] = s.empty[1] || len(at.of) == 0 && !rd.refused
		s.longer = s.longer || len(at.of) > 0 && !rd.refused
	}
	for _, name := range rd.allowed {
		if !inside.allowed[name] {
			inside.allowed[name], x.fresh = true, true
		}
	}
}

func (s *sample) has(k shapeOf) bool {
	switch k {
	case aMapping:
		return s.node == yaml.MappingNode
	case aList:
		return s.node == yaml.SequenceNode
	}
	return s.node == yaml.ScalarNode && s.tag == "!!str"
}

// noteSection takes in which fields of one section were missing, spared, read and refused, as long as others have the
// words that they have.
func (x *explorer) noteSection(rd *reading, doc *sample, w *watch, complete bool) {
	at := doc.get(rd.steps)
	if at == nil || at.node != yaml.MappingNode {
		return
	}
	s := x.spot(rd.inside())
	below := fieldsOf(rd, w)
	words := []choice{{}}
	for name, c := range below {
		words = append(words, x.wordOf(c, name, at)...)
	}
	for _, chosen := range words {
		if s.children[chosen] == nil {
			s.children[chosen], x.fresh = map[string]*child{}, true
		}
		for name := range s.allowed {
			x.noteChild(s, chosen, slices.Contains(rd.allowed, name), name, below[name], at.field(name) != nil,
				complete, len(rd.steps) == 0)
		}
	}
}

// noteChild takes in one field of a section; c is nil where nothing looked at it.
func (x *explorer) noteChild(s *spot, chosen choice, allowed bool, name string, c *reading, present,
	complete, root bool) {
	known, ok := s.children[chosen][name]
	if !ok {
		known = &child{asks: map[ask]bool{}}
		s.children[chosen][name] = known
	}
	x.learned(&known.allowed, allowed)
	if chosen == (choice{}) {
		x.learned(&known.present, present)
	}
	known.spared = known.spared || complete && !present && (c != nil || !root)
	if c == nil {
		return
	}
	known.needed = known.needed || c.missing
	known.unwanted = known.unwanted || c.refused && present
	x.learned(&known.asked, len(c.asks) > 0)
	for _, a := range c.asks {
		if !known.asks[a] {
			known.asks[a], x.fresh = true, true
		}
	}
}

// fieldsOf are the readings of the fields of a section.
func fieldsOf(section *reading, w *watch) map[string]*reading {
	fields := map[string]*reading{}
	for _, rd := range w.order {
		n := len(section.steps)
		if len(rd.steps) == n+1 && rd.steps[n].index < 0 && slices.Equal(rd.steps[:n], section.steps) &&
			strings.HasPrefix(rd.pattern, section.inside()) {
			name, own := rd.steps[n].name, *rd
			if known := fields[name]; known != nil { // read as an entry, and as a field
				own.asks = append(slices.Clone(known.asks), own.asks...)
			}
			fields[name] = &own
		}
	}
	return fields
}

// wordOf is the word that a field of a section has, if it is one of several.
func (x *explorer) wordOf(rd *reading, name string, section *sample) []choice {
	word := ""
	if v := section.field(name); v != nil {
		word = v.text
	} else if def, ok := rd.def.(string); ok {
		word = def
	}
	for _, a := range rd.asks {
		if list := a.wordList(); a.form == formWord && len(list) > 1 && slices.Contains(list, word) {
			return []choice{{name, word}}
		}
	}
	return nil
}

// vary tries each change of one thing in a document.
func (x *explorer) vary(doc *sample) {
	w := x.run(doc)
	for _, rd := range w.order {
		if len(rd.steps) == 0 || len(rd.pattern) >= patternMax {
			continue
		}
		if strings.HasSuffix(rd.pattern, ".*") && w.hasField(rd) {
			continue // it is read as a field, too
		}
		s, last := x.spot(rd.pattern), len(rd.steps)-1
		alone := doc
		if rd.steps[last].index < 0 { // without what only others need
			alone = doc.with(rd.steps[:last], mapping())
		}
		words, around := context(doc, rd.steps)
		try := func(what, context string, changed *sample) {
			key := rd.pattern + "|" + what + "|" + context
			if !x.tried[key] && changed != doc {
				x.tried[key] = true
				x.learn(changed)
			}
		}
		if alone != doc {
			try("nothing", around, doc.with(rd.steps, nil))
		}
		if len(s.asks) == 0 {
			try("blank", around, doc.with(rd.steps, blank()))
			try("blank alone", around, alone.with(rd.steps, blank()))
		}
		if s.null {
			try("null", words, doc.with(rd.steps, scalar("!!null", "null")))
		}
		for k, f := range []form{formSection, formList, formText} {
			if s.shapes[k] {
				try(fmt.Sprint("shape", k), around, doc.with(rd.steps, samples(ask{form: f})[0]))
				try("number", around, doc.with(rd.steps, scalar("!!int", "1")))
			}
		}
		for _, a := range s.order {
			for i, v := range samples(a) {
				context := words
				if i == 0 && a.form != formWord {
					context = around
				}
				try(fmt.Sprint(a, i), context, doc.with(rd.steps, v))
				if a.form == formWord {
					try(fmt.Sprint(a, i, "alone"), words, alone.with(rd.steps, v))
				}
			}
		}
	}
}

// hasField reports whether what was read as an entry was read as a field, too.
func (w *watch) hasField(entry *reading) bool {
	return slices.ContainsFunc(w.order, func(rd *reading) bool {
		return rd.pattern != entry.pattern && slices.Equal(rd.steps, entry.steps)
	})
}

// covered reports whether a section was seen with each word of each of its fields.
func (x *explorer) covered(pattern string) bool {
	s := x.spots[pattern]
	for name := range s.allowed {
		of := x.spots[below(pattern, name)]
		if of == nil {
			continue
		}
		if list := words(of.asks); len(list) > 1 {
			for _, word := range list {
				if s.children[choice{name, word}] == nil {
					return false
				}
			}
		}
	}
	return true
}

// context is what else stands in the section around a place: the words there, and these and all other fields.
func context(doc *sample, steps []step) (words, around string) {
	n := len(steps) - 1
	for n > 0 && steps[n].index >= 0 {
		n--
	}
	section := doc.get(steps[:n])
	if section == nil {
		return "", ""
	}
	var with, without []string
	for i, name := range section.keys {
		if name == steps[n].name {
			continue
		}
		if v := section.of[i]; v.node == yaml.ScalarNode && v.tag == "!!str" {
			with = append(with, name+"="+v.text)
		} else {
			without = append(without, fmt.Sprint(name, ":", v.node))
		}
	}
	for n--; n >= 0; n-- { // and the words of the section around that, which may say what this one is to have
		if steps[n].index >= 0 {
			continue
		}
		outer := doc.get(steps[:n])
		for i, name := range outer.keys {
			if v := outer.of[i]; v.node == yaml.ScalarNode && v.tag == "!!str" {
				with = append(with, "^"+name+"="+v.text)
			}
		}
		break
	}
	slices.Sort(with)
	slices.Sort(without)
	words = strings.Join(with, ",")
	return words, words + "," + strings.Join(without, ",")
}

// samples are values that an ask may take, the plainest first.
func samples(a ask) (all []*sample) {
	switch a.form {
	case formNumber, formWhole:
		tag := "!!float"
		if a.form == formWhole {
			tag = "!!int"
		}
		for _, n := range a.rng.some(a.form == formWhole) {
			all = append(all, scalar(tag, number(n)))
		}
	case formBool:
		all = []*sample{scalar("!!bool", "true"), scalar("!!bool", "false")}
	case formText:
		all = []*sample{scalar("!!str", "a"), scalar("!!str", "b")}
	case formWord:
		for _, word := range a.wordList() {
			all = append(all, scalar("!!str", word))
		}
	case formSection:
		all = []*sample{mapping()}
	case formEntries:
		all = []*sample{mapping().with([]step{{name: "a", index: -1}}, blank()), mapping()}
	case formList:
		all = []*sample{list(blank()), list(), list(blank(), blank()), list(blank(), blank(), blank())}
	}
	return all
}

// some are two numbers of the range, or one where it holds no more that are easy to find.
func (r Range) some(whole bool) (all []float64) {
	for _, n := range []float64{1, 2, 0.5, r.min, r.max, r.min + (r.max-r.min)/2} {
		if r.Holds(n) && len(all) < 2 && !slices.Contains(all, n) && (!whole || n == float64(int64(n))) {
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		all = []float64{1}
	}
	return all
}
