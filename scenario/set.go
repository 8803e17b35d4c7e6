// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/internal/printable"
	"go.yaml.in/yaml/v3"
)

// Setting puts a value into a scenario file.
type Setting struct {
	Key   string `json:"key"`   // path of the field, e.g. servers.web-1.cores or servers[0].cores
	Value string `json:"value"` // YAML: one value, or a list or mapping in brackets
}

// String is key=value, in one line.
func (s Setting) String() string { return oneLine(s.Key + "=" + printable.Short(s.Value)) }

// oneLine is text with line ends and tabs as escapes: it stands within messages.
func oneLine(text string) string {
	return strings.NewReplacer("\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(text)
}

// SettingError is a Setting at fault: its key leads to no value, or its value is none.
type SettingError struct{ text string }

// Error is the key, what was found and what is wanted.
func (e *SettingError) Error() string { return e.text }

func settingError(key, format string, args ...any) error {
	return &SettingError{printable.Short(key) + ": " + fmt.Sprintf(format, args...)}
}

// ParseSetting reads "key=value". Its errors are *SettingError.
func ParseSetting(text string) (Setting, error) {
	key, value, ok := SplitKey(text)
	if !ok || key == "" {
		return Setting{},
			&SettingError{fmt.Sprintf("found %q, want KEY=VALUE: the path of a field, and what it is to be",
				printable.Short(text))}
	}
	return Setting{key, value}, nil
}

// With is the document with other values in place. Exactly the fields that the settings
// name are different: what an alias or a merge key shares is copied before it is changed,
// and stays what it was for all others. A field that the file leaves out is added. Text
// and File stay those of the file; messages name the settings behind it, with the lines
// at which the values would stand.
//
// An item of a list is named by its number, or by the text of one of its fields id, name,
// event_id and endpoint_name. The error is a *SettingError. The new document has no
// attachments: it may refer to other files.
func (d *Document) With(settings []Setting) (*Document, error) {
	if len(settings) == 0 {
		return d, nil
	}
	changed := &Document{file: d.file, text: d.text, root: d.root, set: slices.Clip(d.set)}
	e := &editor{d: changed, set: make(map[*yaml.Node]bool)}
	names := make([]string, len(settings))
	for i, s := range settings {
		names[i] = s.String()
		changed.set = append(changed.set, s.Key)
		steps, err := parseKey(s.Key)
		if err != nil {
			return nil, settingError(s.Key, "found %v", err)
		}
		value, err := parseValue(s)
		if err != nil {
			return nil, err
		}
		e.key = s.Key
		if changed.root, err = e.put(changed.root, steps, value, ""); err != nil {
			return nil, err
		}
		e.mark(value)
	}
	changed.shownAs = fmt.Sprintf("%s (%s)", d.file, strings.Join(names, " "))
	return changed, nil
}

// Sets reports whether With has put a value at this key, rather than at one around it.
func (d *Document) Sets(key string) bool { return slices.Contains(d.set, key) }

// parseValue reads the value of a setting, bounded as a file is.
func parseValue(s Setting) (*yaml.Node, error) {
	const want = "want one value (a number, a text, true or false), or a list or mapping in brackets"
	doc, err := Parse("value", []byte(s.Value))
	var problems Problems
	switch {
	case strings.TrimSpace(s.Value) == "":
		return nil, settingError(s.Key, "found an empty value, %s", want)
	case errors.As(err, &problems):
		return nil, settingError(s.Key, "found %q, %s; put a text in quotes", printable.Short(s.Value), want)
	case err != nil:
		return nil, err
	case doc.root.Kind != yaml.ScalarNode && doc.root.Style&yaml.FlowStyle == 0, strange(doc.root):
		return nil, settingError(s.Key, "found %q, %s; put a text in quotes", printable.Short(s.Value), want)
	}
	return doc.root, nil
}

// strange finds anchors and aliases: a value stands for itself.
func strange(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || n.Anchor != "" || slices.ContainsFunc(n.Content, strange)
}

// editor puts values into a tree by copying the way to them: nodes of the file are never
// changed, so what an alias elsewhere stands for stays what it was.
type editor struct {
	d   *Document
	key string              // of the setting at hand
	set map[*yaml.Node]bool // nodes of values that were put there
}

// mark notes the nodes of a value.
func (e *editor) mark(n *yaml.Node) {
	e.set[n] = true
	for _, c := range n.Content {
		e.mark(c)
	}
}

// put gives a copy of n with the value at the end of the steps. at is the path so far.
func (e *editor) put(n *yaml.Node, steps []step, value *yaml.Node, at string) (*yaml.Node, error) {
	if e.set[n] || len(steps) == 0 && e.holdsSet(n) {
		return nil, settingError(e.key, "another setting has put a value for %s, or into it: give one of them",
			placeText(at))
	}
	if len(steps) == 0 {
		stamp(value, follow(n))
		return value, nil
	}
	s, here := steps[0], follow(n)
	switch {
	case here.Kind == yaml.MappingNode && s.index < 0:
		return e.putField(here, steps, value, at)
	case here.Kind == yaml.SequenceNode:
		return e.putItem(here, steps, value, at)
	case isNull(here) && s.index < 0:
		return e.putField(&yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: n.Line, Column: n.Column}, steps,
			value, at)
	}
	return nil, settingError(e.key, "%s:%d: %s is %s and has no %s%s", e.d.file, here.Line, placeText(at),
		describe(here), s, e.fromDatabase(at))
}

// fromDatabase says of a list that items come to it which aren't in the file, and so can't be set; "": none do.
func (e *editor) fromDatabase(at string) string {
	g := e.d.graphOf()
	if g == nil {
		return ""
	}
	for _, f := range g.lists {
		path := ""
		for _, name := range f.steps {
			path += "." + KeyStep(name)
		}
		if path == "."+at {
			return "; items that " + graphField + " adds to it can't be set"
		}
	}
	return ""
}

// holdsSet reports whether n holds a value that another setting has put there.
func (e *editor) holdsSet(n *yaml.Node) bool {
	return len(e.set) > 0 && (e.set[n] || slices.ContainsFunc(n.Content, e.holdsSet))
}

// putField goes on through a field of a mapping; one that isn't there is added.
func (e *editor) putField(n *yaml.Node, steps []step, value *yaml.Node, at string) (*yaml.Node, error) {
	name := steps[0].name
	below, own := fieldOf(n, name)
	if below == nil {
		below = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: n.Line, Column: n.Column}
	}
	child, err := e.put(below, steps[1:], value, strings.TrimPrefix(at+"."+KeyStep(name), "."))
	if err != nil {
		return nil, err
	}
	copied := shallow(n)
	if own {
		for i := 0; i+1 < len(copied.Content); i += 2 {
			if isField(copied.Content[i], name) {
				copied.Content[i+1] = child
				return copied, nil
			}
		}
	}
	key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name, Line: below.Line, Column: below.Column}
	copied.Content = append(copied.Content, key, child)
	return copied, nil
}

// putItem goes on through an item of a list.
func (e *editor) putItem(n *yaml.Node, steps []step, value *yaml.Node, at string) (*yaml.Node, error) {
	s := steps[0]
	index, names, again := itemOf(n, s)
	if again >= 0 {
		return nil, settingError(e.key, "%s:%d: items %d and %d of %s are both named %s: write the number", e.d.file,
			n.Line, index, again, placeText(at), s)
	}
	if index < 0 {
		const shown = 12
		list := names
		if len(list) > shown {
			list = append(slices.Clone(list[:shown]), "…")
		}
		todo := Suggest(s.name, names)
		if todo != "" {
			todo = "; " + todo
		}
		return nil, settingError(e.key, "%s:%d: found no %s in %s, want an item that stands there (%s)%s%s", e.d.file,
			n.Line, s, placeText(at), strings.Join(list, ", "), todo, e.fromDatabase(at))
	}
	child, err := e.put(n.Content[index], steps[1:], value, at+"["+strconv.Itoa(index)+"]")
	if err != nil {
		return nil, err
	}
	copied := shallow(n)
	copied.Content[index] = child
	return copied, nil
}

// shallow copies a mapping or a list, but not what is in it.
func shallow(n *yaml.Node) *yaml.Node {
	c := *n
	c.Anchor, c.Content = "", slices.Clone(n.Content)
	return &c
}

// stamp gives a value the position of what it replaces.
func stamp(n, at *yaml.Node) {
	n.Line, n.Column = at.Line, at.Column
	for _, c := range n.Content {
		stamp(c, at)
	}
}

func isField(key *yaml.Node, name string) bool {
	key = follow(key)
	return key.Kind == yaml.ScalarNode && key.ShortTag() == "!!str" && key.Value == name
}

// fieldOf is a mapping's field of that name, nil where there is none; own reports whether it
// stands in the mapping itself, and not in what a merge key takes over.
func fieldOf(n *yaml.Node, name string) (value *yaml.Node, own bool) {
	if n = follow(n); n.Kind == yaml.SequenceNode { // of a merge key
		for _, c := range n.Content {
			if value, _ = fieldOf(c, name); value != nil {
				return value, false
			}
		}
	}
	if n.Kind != yaml.MappingNode {
		return nil, false
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if isField(n.Content[i], name) {
			return n.Content[i+1], true
		}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if isMerge(n.Content[i]) {
			value, _ = fieldOf(n.Content[i+1], name)
			return value, false
		}
	}
	return nil, false
}

// nameOf is what an item of a list is called: by a field of its own, by one that it takes
// over with a merge key, or by its number.
func nameOf(item *yaml.Node, number int) string {
	taken := ""
	for _, key := range itemNames {
		v, own := fieldOf(item, key)
		switch {
		case v == nil || follow(v).Kind != yaml.ScalarNode:
		case own:
			return follow(v).Value
		case taken == "":
			taken = follow(v).Value
		}
	}
	if taken != "" {
		return taken
	}
	return strconv.Itoa(number)
}

// itemOf is the number of the item that a step leads to, -1 where there is none, and what
// the items are called; again is a second item of that name, -1 where there is none.
func itemOf(n *yaml.Node, s step) (index int, names []string, again int) {
	index, again = -1, -1
	for i, c := range n.Content {
		name := nameOf(c, i)
		names = append(names, KeyStep(name))
		switch {
		case s.index >= 0 || name != s.name:
		case index < 0:
			index = i
		case again < 0:
			again = i
		}
	}
	number := s.index
	if k, err := strconv.Atoi(s.name); number < 0 && index < 0 && err == nil {
		number = k
	}
	if index < 0 && number >= 0 && number < len(n.Content) {
		index = number
	}
	return index, names, again
}

func placeText(at string) string {
	if at == "" {
		return "the file's top level"
	}
	return at
}
