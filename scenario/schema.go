// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Draft is the JSON Schema that Schema is written in.
const Draft = "https://json-schema.org/draft/2020-12/schema"

// Schema describes the kind's files as a JSON Schema, draft 2020-12: what Load accepts is valid, and what Load refuses
// for its form (unknown fields, what is missing, numbers out of range, words that aren't among those allowed) is not,
// but for what hangs on several fields at once. It is made by watching what Load reads of documents that are made up
// (explore.go), so the two can't differ. Fields(FieldsSchema) of a kind that has Fields.
func (k Kind) Schema() []byte {
	if k.Fields != nil {
		return k.Fields(FieldsSchema)
	}
	s := drawer{x: explore(k), about: k.About, flags: k.Flags, count: map[string]int{}, names: map[string]string{},
		defs: map[string]any{}}
	s.countSame("")
	root := s.object("")
	root["$schema"], root["title"] = Draft, "disco scenario: "+k.Name
	s.exceptFilled(root)
	if len(s.defs) > 0 {
		root["$defs"] = s.defs
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(root); err != nil {
		panic(fmt.Sprintf("scenario: the schema of %s: %v", k.Name, err)) // it is made of maps, texts and numbers
	}
	return b.Bytes()
}

// Schema is Kind.Schema of a kind by its name, in which the field `model` is required where files without it are of
// another kind; nil: there is none of this name.
func (r Registry) Schema(name string) []byte {
	i := slices.IndexFunc(r.kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return nil
	}
	k := r.kinds[i]
	if load := k.Load; i > 0 && k.Fields == nil {
		k.Load = func(doc *Document, opt Options) (Scenario, error) {
			if v, err := doc.top("model"); err == nil && !v.Present() {
				v.r = NewReader(doc)
				v.Word(name)
			}
			return load(doc, opt)
		}
	}
	return k.Schema()
}

// Described lists the fields that Schema has, each as its path with [] for an item of a list and * for a name that the
// file chooses, and what About says of it; empty: nothing.
func (k Kind) Described() map[string]string {
	s := drawer{x: explore(k), about: k.About, flags: k.Flags}
	all := map[string]string{}
	for pattern := range s.x.spots {
		if pattern != "" && s.reachable(pattern) {
			all[pattern] = s.describe(pattern)
		}
	}
	return all
}

// drawer writes what an explorer has learned.
type drawer struct {
	x     *explorer
	about map[string]string
	flags []Flag            // of a kind whose fields are flags, too
	count map[string]int    // how often a part stands in the whole, by its text
	names map[string]string // of parts that stand there more than once
	defs  map[string]any
}

// shareBytes is the length from which a part that stands in a schema several times is written once.
const shareBytes = 400

// reachable reports whether a pattern is of a field that files can have.
func (d *drawer) reachable(pattern string) bool {
	if strings.HasSuffix(pattern, "[]") {
		return false // described by its list
	}
	at := strings.LastIndexByte(pattern, '.')
	parent := d.x.spots[pattern[:max(0, at)]]
	if parent == nil {
		return false
	}
	if pattern[at+1:] == "*" {
		return parent.asks[ask{form: formEntries}] && !parent.asks[ask{form: formSection}]
	}
	return parent.allowed[pattern[at+1:]]
}

// describe is the text about a field: that of its path, or of the longest end of it that has one.
func (d *drawer) describe(pattern string) string {
	for rest, found := pattern, true; found; _, rest, found = strings.Cut(rest, ".") {
		if text, ok := d.about[rest]; ok {
			return text
		}
	}
	for _, f := range d.flags {
		if f.Name == pattern {
			return strings.ReplaceAll(f.Usage, "`", "")
		}
	}
	return commonAbout[pattern]
}

// inside is what the patterns of places below one begin with.
func (s *spot) inside(pattern string) string {
	if s.reused != "" {
		return reusedMark + s.reused
	}
	return pattern
}

// countSame counts parts.
func (d *drawer) countSame(pattern string) {
	d.names = nil
	var walk func(pattern string)
	walk = func(pattern string) {
		s := d.x.spots[pattern]
		if s == nil {
			return
		}
		if len(s.asks) > 0 {
			d.count[text(d.value(pattern))]++
		}
		inside := s.inside(pattern)
		for name := range d.x.spots[inside].allowed {
			walk(below(inside, name))
		}
		walk(inside + "[]")
		if !s.asks[ask{form: formSection}] {
			walk(below(inside, "*"))
		}
	}
	walk(pattern)
	d.names = map[string]string{}
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("scenario: %v", err)) // maps, texts and numbers
	}
	return string(b)
}

// property is a field with its description and its default.
func (d *drawer) property(pattern string) map[string]any {
	p := d.shared(pattern)
	if about := d.describe(pattern); about != "" {
		p["description"] = about
	}
	s := d.x.spots[pattern]
	if s == nil || len(s.defs) != 1 || s.def == "" {
		return p
	}
	if x, ok := asNumber(s.def); ok {
		takes := func(a ask) bool { return a.numeric() && a.rng.Holds(x) }
		if !slices.ContainsFunc(s.order, takes) || math.Abs(x) > 1e15 {
			return p // it means that there is none
		}
	}
	p["default"] = s.def
	return p
}

func asNumber(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// shared is value, or where that is long and stands there several times, a reference to it.
func (d *drawer) shared(pattern string) map[string]any {
	if d.names == nil {
		return d.value(pattern)
	}
	names := d.names
	d.names = nil
	whole := text(d.value(pattern))
	d.names = names
	if d.count[whole] < 2 || len(whole) < shareBytes {
		return d.value(pattern)
	}
	name, ok := d.names[whole]
	if !ok {
		last := cmp.Or(d.x.spots[pattern].reused, pattern[strings.LastIndexByte(pattern, '.')+1:])
		name = strings.Trim(last, "[]*")
		for n := 2; d.defs[name] != nil; n++ {
			name = fmt.Sprint(strings.Trim(last, "[]*"), n)
		}
		d.names[whole], d.defs[name] = name, true
		d.defs[name] = d.value(pattern)
	}
	return map[string]any{"$ref": "#/$defs/" + name}
}

// value is what a place takes. The keywords of one type say nothing of values of others, so that several types need no
// alternatives; words do.
func (d *drawer) value(pattern string) map[string]any {
	s := d.x.spots[pattern]
	if s == nil || len(s.asks) == 0 {
		return map[string]any{}
	}
	v, types := map[string]any{}, []string{}
	add := func(name string, more map[string]any) {
		types = append(types, name)
		maps.Copy(v, more)
	}
	has := func(f form) bool { return slices.ContainsFunc(s.order, func(a ask) bool { return a.form == f }) }
	switch {
	case has(formNumber):
		add("number", bounds(s.asks))
	case has(formWhole):
		add("integer", bounds(s.asks))
	}
	if has(formBool) {
		add("boolean", nil)
	}
	if has(formText) {
		add("string", texts(s.asks))
	} else if s.shapes[aText] && !s.refused[aText] && !has(formWord) {
		add("string", nil)
	}
	switch {
	case has(formSection):
		add("object", d.object(s.inside(pattern)))
	case has(formEntries):
		add("object", map[string]any{"additionalProperties": d.property(below(s.inside(pattern), "*"))})
	case s.shapes[aMapping] && !s.refused[aMapping]:
		add("object", nil)
	}
	if has(formList) {
		add("array", map[string]any{"items": d.shared(s.inside(pattern) + "[]")})
		if s.empty[0] && !s.empty[1] && s.longer && !d.fillable(pattern) {
			v["minItems"] = 1
		}
	} else if s.shapes[aList] && !s.refused[aList] {
		add("array", nil)
	}
	if s.null {
		types = append(types, "null")
	}
	if len(types) == 1 {
		v["type"] = types[0]
	} else if len(types) > 1 {
		v["type"] = types
	}
	if !has(formWord) || has(formText) {
		return v
	}
	words := map[string]any{"enum": words(s.asks)}
	if len(types) == 0 {
		return words
	}
	return map[string]any{"anyOf": []any{words, v}}
}

func words(asks map[ask]bool) (all []string) {
	for a := range asks {
		if a.form == formWord {
			all = append(all, a.wordList()...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// texts bounds the length where all reads do so alike.
func texts(asks map[ask]bool) map[string]any {
	most := -1
	for a := range asks {
		switch {
		case a.form != formText:
		case most >= 0 && a.most != most:
			return map[string]any{"minLength": 1}
		default:
			most = a.most
		}
	}
	if most > 0 {
		return map[string]any{"minLength": 1, "maxLength": most}
	}
	return map[string]any{"minLength": 1}
}

// bounds are those limits of a number that all reads have.
func bounds(asks map[ask]bool) map[string]any {
	low, high := map[Range]bool{}, map[Range]bool{}
	for a := range asks {
		if a.numeric() {
			low[Range{min: a.rng.min, openMin: a.rng.openMin}] = true
			high[Range{max: a.rng.max}] = true
		}
	}
	b := map[string]any{}
	if len(low) == 1 {
		for r := range low {
			switch {
			case r.min <= -math.MaxFloat64:
			case r.openMin:
				b["exclusiveMinimum"] = r.min
			default:
				b["minimum"] = r.min
			}
		}
	}
	if len(high) == 1 {
		for r := range high {
			if r.max < math.MaxFloat64 {
				b["maximum"] = r.max
			}
		}
	}
	return b
}

// object is a section: its fields, and what a word of one of them says of the others.
func (d *drawer) object(pattern string) map[string]any {
	s := d.x.spots[pattern]
	properties := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(s.allowed)) { // shared parts get their names in this order
		properties[name] = d.property(below(pattern, name))
	}
	o := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if !d.x.covered(pattern) {
		o["$comment"] = "left open: not every word was tried"
		return o
	}
	if need := d.required(pattern, choice{}); len(need) > 0 {
		o["required"] = need
	}
	if all := d.byWord(pattern, s); len(all) > 0 {
		o["allOf"] = all
	}
	return o
}

// required are the fields without which no document was complete, as long as a field has a certain word. A list that a
// graph section can fill isn't among them: exceptFilled adds it.
func (d *drawer) required(pattern string, chosen choice) (need []string) {
	for name, c := range d.x.spots[pattern].children[chosen] {
		if c.needed && !c.spared && !d.fillable(below(pattern, name)) {
			need = append(need, name)
		}
	}
	slices.Sort(need)
	return need
}

// fillable reports whether a graph section may take the place of a value: it fills lists that are no items' own.
func (d *drawer) fillable(pattern string) bool {
	s := d.x.spots[pattern]
	if s == nil || strings.ContainsAny(pattern, "[*") || !d.x.spots[""].allowed[graphField] ||
		strings.HasPrefix(pattern, graphField) {
		return false
	}
	if s.asks[ask{form: formList}] {
		return true
	}
	for name := range s.allowed {
		if d.fillable(below(pattern, name)) {
			return true
		}
	}
	return false
}

// exceptFilled adds which lists are required where no graph section fills any.
func (d *drawer) exceptFilled(root map[string]any) {
	if lists := d.lists(""); len(lists) > 0 {
		root["if"], root["else"] = map[string]any{"required": []string{graphField}}, lists
	}
}

func (d *drawer) lists(pattern string) map[string]any {
	s := d.x.spots[pattern]
	o, inside := map[string]any{}, map[string]any{}
	var need []string
	for name := range s.allowed {
		path := below(pattern, name)
		if !d.fillable(path) {
			continue
		}
		if c := s.children[choice{}][name]; c != nil && c.needed && !c.spared {
			need = append(need, name)
		}
		if of := d.lists(path); len(of) > 0 {
			inside[name] = of
		}
	}
	if slices.Sort(need); len(need) > 0 {
		o["required"] = need
	}
	if len(inside) > 0 {
		o["properties"] = inside
	}
	return o
}

// byWord is what the words of one field say of the others: of the fields that have words, the one that says most.
func (d *drawer) byWord(pattern string, s *spot) (best []any) {
	most := 0
	for _, name := range slices.Sorted(maps.Keys(s.allowed)) {
		var all []any
		said := 0
		of := d.x.spots[below(pattern, name)]
		if of == nil {
			continue
		}
		for _, word := range words(of.asks) {
			then, n := d.then(pattern, s, choice{name, word})
			if n == 0 {
				continue
			}
			said += n
			when := map[string]any{"properties": map[string]any{name: map[string]any{"const": word}}}
			if of.def != word {
				when["required"] = []string{name}
			}
			all = append(all, map[string]any{"if": when, "then": then})
		}
		if said > most {
			best, most = all, said
		}
	}
	return best
}

// then is what one word says of other fields, and of how many.
func (d *drawer) then(pattern string, s *spot, chosen choice) (then map[string]any, said int) {
	whatever := s.children[choice{}]
	then = map[string]any{}
	properties := map[string]any{}
	for name, c := range s.children[chosen] {
		whole := d.x.spots[below(pattern, name)]
		switch {
		case name == chosen.field || whole == nil:
		case !c.allowed || c.unwanted && !c.asked && whatever[name].asked:
			properties[name] = false
		case len(c.asks) > 0:
			own := bounds(c.asks)
			if all := bounds(whole.asks); len(own) > 0 && text(own) != text(all) {
				properties[name] = own
			}
		}
	}
	need := slices.DeleteFunc(d.required(pattern, chosen), func(name string) bool {
		return slices.Contains(d.required(pattern, choice{}), name)
	})
	if said = len(properties) + len(need); len(properties) > 0 {
		then["properties"] = properties
	}
	if len(need) > 0 {
		then["required"] = need
	}
	return then, said
}

// commonAbout describes what any kind of file can have.
var commonAbout = map[string]string{
	"model":                 "the kind of scenario",
	WarmupField:             "simulated seconds that aren't counted, or auto",
	"graph":                 "takes items of lists from a database (docs/scenario-graph.md)",
	"graph.scenario":        "name of the scenario in the database",
	"graph.digest":          "of what is to be read there, 64 hexadecimal digits",
	"graph.nodes":           "which vertices are one node",
	"graph.nodes.distinct":  "labels by which nodes differ",
	"graph.nodes.same":      "labels that the vertices of a node share",
	"graph.together":        "label whose nodes are to be on one worker",
	"graph.fill":            "lists, and what their items are made of",
	"graph.fill[].list":     "path of the list",
	"graph.fill[].vertices": "an item for each of these vertices: all, or labels with their values",
	"graph.fill[].nodes":    "an item for each of these nodes: all, or labels with their values",
	"graph.fill[].edges":    "an item for each edge of this layer",
	"graph.fill[].from":     "of vertices with these labels",
	"graph.fill[].to":       "to vertices with these labels",
	"graph.fill[].table":    "a table of your own: an item for each of its rows",
	"graph.fill[].schema":   "its schema",
	"graph.fill[].item":     "the item, with $words in the place of what is known",
}
