package sweep

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/disco-sim/disco/scenario"
	"go.yaml.in/yaml/v3"
)

// edit replaces text[from:to].
type edit struct {
	from, to int
	value    string
}

// Apply is the text of a scenario file with the values of p. file stands for it in
// messages. Errors unwrap to ErrSweep, or are scenario.Problems where the file itself
// is no YAML.
func Apply(file string, text []byte, p Point) ([]byte, error) {
	root, err := parse(file, text)
	if err != nil {
		return nil, err
	}
	edits := make([]edit, 0, len(p))
	for _, s := range p {
		n, err := find(file, root, s)
		if err != nil {
			return nil, err
		}
		from, to, err := extent(text, n)
		if err != nil {
			return nil, refuse("%s: %s:%d: %w", s.Key, file, n.Line, err)
		}
		edits = append(edits, edit{from, to, s.Value})
	}
	slices.SortFunc(edits, func(a, b edit) int { return b.from - a.from })
	out := bytes.Clone(text)
	for i, e := range edits {
		if i > 0 && e.to > edits[i-1].from {
			return nil, refuse("%s: two of the swept fields are one and the same value", p)
		}
		out = slices.Concat(out[:e.from], []byte(e.value), out[e.to:])
	}
	return out, check(file, out, p)
}

// parse bounds a file as all scenario files are bounded, and gives its tree.
func parse(file string, text []byte) (*yaml.Node, error) {
	if _, err := scenario.Parse(file, text); err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, refuse("%s: %w", file, err)
	}
	return doc.Content[0], nil
}

// check sees that every new value is one value, in its place.
func check(file string, text []byte, p Point) error {
	for _, s := range p {
		var want yaml.Node
		if err := yaml.Unmarshal([]byte(s.Value), &want); err != nil || len(want.Content) != 1 || want.Content[0].Kind != yaml.ScalarNode {
			return refuse("%s: found %s, want one value: a number, a text, true or false", s.Key, s.Value)
		}
		root, err := parse(file, text)
		if err != nil {
			return refuse("%s: the value %s doesn't fit where it would stand: put it in quotes", s.Key, s.Value)
		}
		got, err := find(file, root, s)
		if err != nil || got.Value != want.Content[0].Value || got.Tag != want.Content[0].Tag {
			return refuse("%s: the value %s doesn't fit where it would stand: put it in quotes", s.Key, s.Value)
		}
	}
	return nil
}

// find follows a path to its value.
func find(file string, root *yaml.Node, s Setting) (*yaml.Node, error) {
	n, at := root, ""
	for _, step := range s.path {
		var next *yaml.Node
		var names []string
		what := "a field"
		switch n.Kind {
		case yaml.MappingNode:
			next, names = field(n, step)
		case yaml.SequenceNode:
			what = "an item"
			next, names = item(n, step)
		default:
			return nil, refuse("%s: %s:%d: %s is one value and has no %s", s.Key, file, n.Line, at, step)
		}
		if next == nil {
			return nil, refuse("%s: %s:%d: found no %s in %s, want %s that stands there (%s)%s", s.Key, file, n.Line, step, place(at), what, strings.Join(shorten(names), ", "), hint(step, names))
		}
		n, at = next, strings.TrimPrefix(at+"."+step, ".")
	}
	if n.Kind == yaml.AliasNode {
		return nil, refuse("%s: %s:%d: found the alias *%s, want a value that stands there itself", s.Key, file, n.Line, n.Value)
	}
	if n.Kind != yaml.ScalarNode {
		_, names := field(n, "")
		if n.Kind == yaml.SequenceNode {
			_, names = item(n, "")
		}
		return nil, refuse("%s: %s:%d: found %s, want one value: go on with one of %s", s.Key, file, n.Line, describe(n), strings.Join(shorten(names), ", "))
	}
	return n, nil
}

func place(at string) string {
	if at == "" {
		return "the file's top level"
	}
	return at
}

func hint(step string, names []string) string {
	if text := scenario.Suggest(step, names); text != "" {
		return "; " + text
	}
	return ""
}

// shorten bounds a list of names in a message.
func shorten(names []string) []string {
	const most = 12
	if len(names) <= most {
		return names
	}
	return append(names[:most:most], "…")
}

// field is a mapping's value of that name, nil where there is none, and its names.
func field(n *yaml.Node, name string) (value *yaml.Node, names []string) {
	for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
		if n.Content[i].Value == name {
			value = n.Content[i+1]
		}
		names = append(names, n.Content[i].Value)
	}
	return value, names
}

// item is a list's item of that number, id or name, nil where there is none, and what
// its items are called.
func item(n *yaml.Node, step string) (value *yaml.Node, names []string) {
	for i, it := range n.Content {
		name := strconv.Itoa(i)
		for _, key := range []string{"name", "id"} {
			if v, _ := field(it, key); v != nil && v.Kind == yaml.ScalarNode {
				name = v.Value
			}
		}
		if name == step || strconv.Itoa(i) == step && value == nil {
			value = it
		}
		names = append(names, name)
	}
	return value, names
}

func describe(n *yaml.Node) string {
	if n.Kind == yaml.MappingNode {
		return "a mapping"
	}
	return "a list"
}

// extent is where a scalar stands in the text.
func extent(text []byte, n *yaml.Node) (from, to int, err error) {
	from = offset(text, n.Line, n.Column)
	rest := text[from:]
	const want = "want a value on one line, without tag and anchor"
	switch {
	case n.Anchor != "" || n.Style&yaml.TaggedStyle != 0:
		return 0, 0, fmt.Errorf("found a value with a tag or an anchor, %s", want)
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return 0, 0, fmt.Errorf("found a text block, %s", want)
	case n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		end := quoted(rest)
		if end < 0 {
			return 0, 0, fmt.Errorf("found a text over several lines, %s", want)
		}
		return from, from + end, nil
	case n.Value == "" || !bytes.HasPrefix(rest, []byte(n.Value)):
		return 0, 0, fmt.Errorf("found nothing, or a value over several lines, %s", want)
	}
	return from, from + len(n.Value), nil
}

// offset turns a line and a column, both from 1, the latter in characters, into bytes.
func offset(text []byte, line, column int) int {
	at := 0
	for ; line > 1; line-- {
		at += bytes.IndexByte(text[at:], '\n') + 1
	}
	for ; column > 1 && at < len(text); column-- {
		_, size := utf8.DecodeRune(text[at:])
		at += size
	}
	return at
}

// quoted is the length of the quoted text that begins here, -1 when it doesn't end on
// its line.
func quoted(text []byte) int {
	quote := text[0]
	for i := 1; i < len(text) && text[i] != '\n'; i++ {
		switch {
		case text[i] == '\\' && quote == '"':
			i++
		case text[i] == quote && quote == '\'' && i+1 < len(text) && text[i+1] == quote:
			i++
		case text[i] == quote:
			return i + 1
		}
	}
	return -1
}
