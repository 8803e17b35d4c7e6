// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/internal/graphdata"
	"github.com/disco-sim/disco/internal/printable"
	"go.yaml.in/yaml/v3"
)

// template is a value of a file in which $words stand for what is known of a vertex or an edge.
type template struct {
	node   *yaml.Node // as the file has it
	fixed  bool       // no word is in it or below: node itself is the value
	parts  []part     // of a scalar with words
	below  []template // of a list; of a mapping: of its values
	keys   []*yaml.Node
	spread int      // one field for each edge that leaves the vertex: the fill of these edges; -1: it is none
	each   []column // of them: the target's name
}

// part is text, or a column in its place.
type part struct {
	text string
	column
}

// column is one of a fill; number -1: none.
type column struct{ number int }

// compiler makes a template, and asks for the columns that it needs.
type compiler struct {
	g    *graphSection
	rows int // the fill
}

// compile makes a template of what stands at v.
func (c *compiler) compile(v Value) template { return c.node(v, follow(v.node)) }

func (c *compiler) node(v Value, n *yaml.Node) template {
	t := template{node: n, fixed: true, spread: -1}
	switch n.Kind {
	case yaml.ScalarNode:
		if n.ShortTag() == "!!str" && strings.Contains(n.Value, "$") {
			v.node = n
			t.fixed, t.parts = false, c.parts(v, n.Value)
		}
		return t
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if name := follow(key).Value; strings.HasPrefix(name, "$") {
				t.below = append(t.below, c.outgoing(v, key, follow(n.Content[i+1])))
			} else {
				t.below = append(t.below, c.node(v, follow(n.Content[i+1])))
			}
			t.keys = append(t.keys, key)
		}
	case yaml.SequenceNode:
		for _, item := range n.Content {
			t.below = append(t.below, c.node(v, follow(item)))
		}
	}
	t.fixed = !slices.ContainsFunc(t.below, func(t template) bool { return !t.fixed })
	return t
}

// outgoing is $out(LAYER) as a field's name: a field for each edge that leaves the vertex, with the target's name.
func (c *compiler) outgoing(v Value, key, value *yaml.Node) template {
	v.node = follow(key)
	ask := c.g.request.Fills[c.rows]
	inside, ok := strings.CutPrefix(strings.TrimSuffix(follow(key).Value, ")"), "$out(")
	layer, err := strconv.ParseInt(inside, 10, 32)
	if !ok || err != nil || ask.Of != graphdata.Vertices || len(c.g.request.Fills) > graphdata.FillsMax {
		v.Refuse(fmt.Sprintf("the name %q of a field", printable.Short(follow(key).Value)),
			"a name without $, or, for vertices, $out(LAYER): a field for each edge that leaves the vertex", "")
		return template{fixed: true, node: value, spread: -1}
	}
	edges := compiler{g: c.g, rows: len(c.g.request.Fills)}
	c.g.request.Fills = append(c.g.request.Fills, graphdata.Fill{Of: graphdata.Edges, Layer: int(layer),
		Vertices: ask.Vertices})
	t := edges.node(v, value)
	return template{node: value, below: []template{t}, spread: edges.rows,
		each: []column{edges.column(graphdata.Column{What: "target"})}}
}

// parts takes text with $words apart.
func (c *compiler) parts(v Value, text string) (all []part) {
	for text != "" {
		before, rest, found := strings.Cut(text, "$")
		if before != "" || !found {
			all = append(all, part{before, column{-1}})
		}
		if !found {
			break
		}
		if strings.HasPrefix(rest, "$") {
			all, text = append(all, part{"$", column{-1}}), rest[1:]
			continue
		}
		end := strings.IndexFunc(rest, func(c rune) bool { return c != '_' && (c < 'a' || c > 'z') })
		if end < 0 {
			end = len(rest)
		}
		col := graphdata.Column{What: rest[:end]}
		text = rest[end:]
		if strings.HasPrefix(text, "(") {
			inside, behind, closed := strings.Cut(text[1:], ")")
			if !closed {
				v.Refuse(fmt.Sprintf("%q, a parenthesis without its end", printable.Short(text)), "both", "")
				return nil
			}
			col.Of, text = inside, behind
		}
		if !c.known(v, col) {
			return nil
		}
		all = append(all, part{"", c.column(col)})
	}
	return all
}

// known refuses a word that there isn't, or one that needs something else.
func (c *compiler) known(v Value, col graphdata.Column) bool {
	ask := c.g.request.Fills[c.rows]
	words := graphdata.Words[ask.Of]
	of, ok := words[col.What]
	if !ok || of != (col.Of != "") {
		list := slices.Sorted(maps.Keys(words))
		shown := make([]string, len(list))
		for i, word := range list {
			shown[i] = "$" + word
			if words[word] {
				shown[i] += "(…)"
			}
		}
		v.Refuse(fmt.Sprintf("%q", printable.Short(col.String())), "one of "+strings.Join(shown, ", ")+" for "+ask.Of,
			"write $$ where a dollar is meant")
		return false
	}
	if col.What == "column" && ask.Table.Name == "" {
		v.Refuse(fmt.Sprintf("%q without a table", printable.Short(col.String())), "the field table beside item", "")
		return false
	}
	return true
}

// column asks for a column, once.
func (c *compiler) column(col graphdata.Column) column {
	ask := &c.g.request.Fills[c.rows]
	k := slices.Index(ask.Columns, col)
	if k < 0 {
		k = len(ask.Columns)
		ask.Columns = append(ask.Columns, col)
	}
	return column{k}
}

// make is the value of one row; nil: it is left out, since what it stands for is NULL or missing.
func (t *template) make(data *graphdata.Data, rows, row int) *yaml.Node {
	if t.fixed {
		return t.node
	}
	if t.parts != nil {
		return t.scalar(&data.Fills[rows], row)
	}
	n := *t.node
	n.Anchor, n.Content = "", make([]*yaml.Node, 0, len(t.node.Content))
	for i := range t.below {
		b := &t.below[i]
		if b.spread >= 0 {
			n.Content = b.fields(n.Content, t.keys[i], data, data.Fills[rows].First[row])
			continue
		}
		value := b.make(data, rows, row)
		if value == nil {
			continue
		}
		if t.keys != nil {
			n.Content = append(n.Content, t.keys[i])
		}
		n.Content = append(n.Content, value)
	}
	return &n
}

// fields appends a field for each edge that leaves a vertex.
func (t *template) fields(to []*yaml.Node, key *yaml.Node, data *graphdata.Data, vertex uint32) []*yaml.Node {
	edges := &data.Fills[t.spread]
	first := sort.Search(edges.Len, func(i int) bool { return edges.First[i] >= vertex })
	for row := first; row < edges.Len && edges.First[row] == vertex; row++ {
		value := t.below[0].make(data, t.spread, row)
		name := &edges.Columns[t.each[0].number]
		if value == nil || !name.Has(row) {
			continue
		}
		to = append(to, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name.Text(row), Line: key.Line,
			Column: key.Column}, value)
	}
	return to
}

// madeStyle tells text that words stand for from text that stands in the file.
const madeStyle = yaml.LiteralStyle

// scalar is a text with its words replaced, or, where a single word is all of it, the value of the column.
func (t *template) scalar(rows *graphdata.Rows, row int) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Line: t.node.Line, Column: t.node.Column,
		Style: madeStyle}
	if len(t.parts) == 1 && t.parts[0].number >= 0 {
		v := &rows.Columns[t.parts[0].number]
		switch {
		case !v.Has(row):
			return nil
		case v.Kind == graphdata.Int:
			n.Tag, n.Style = "!!int", 0
		case v.Kind == graphdata.Float:
			n.Tag, n.Style = "!!float", 0
		}
		n.Value = valueText(v, row)
		return n
	}
	var b strings.Builder
	for _, p := range t.parts {
		if p.number < 0 {
			b.WriteString(p.text)
		} else if v := &rows.Columns[p.number]; v.Has(row) {
			b.WriteString(valueText(v, row))
		} else {
			return nil
		}
	}
	n.Value = b.String()
	return n
}

func valueText(v *graphdata.Values, row int) string {
	switch v.Kind {
	case graphdata.Int:
		return strconv.FormatInt(v.Int(row), 10)
	case graphdata.Float:
		return strconv.FormatFloat(v.Float(row), 'g', -1, 64)
	}
	return v.Text(row)
}

// origin says for messages what a row is about.
func (f *fill) origin(data *graphdata.Data, ask *graphdata.Fill, row int) string {
	rows := &data.Fills[f.rows]
	named := func(what string, number uint32) string {
		k := slices.Index(ask.Columns, graphdata.Column{What: what})
		if k < 0 || !rows.Columns[k].Has(row) {
			return strconv.FormatUint(uint64(number), 10)
		}
		return strconv.Quote(printable.Short(rows.Columns[k].Text(row)))
	}
	switch f.of {
	case graphdata.Vertices:
		return "vertex " + named("name", rows.First[row])
	case graphdata.Edges:
		return fmt.Sprintf("edge %s>%s of layer %d", named("source", rows.First[row]),
			named("target", rows.Second[row]), ask.Layer)
	}
	return "node " + named("node", rows.First[row])
}
