// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// straysMax is the number of problems with items of a database after which further items aren't looked at: a column of
// the wrong form has one in every row.
const straysMax = 50

// filled reports whether p is an item that comes of a database.
func (p *place) filled() bool { return p != nil && p.fill != nil }

// within reports whether p is such an item, or lies in one.
func (p *place) within() bool {
	for ; p != nil; p = p.parent {
		if p.fill != nil {
			return true
		}
	}
	return false
}

// depth is the number of steps to a place.
func (p *place) depth() (n int) {
	for ; p != nil; p = p.parent {
		n++
	}
	return n
}

// names is the path of a place, without those of lists' items; "": it lies in an item.
func (p *place) names() string {
	var names []string
	for ; p != nil; p = p.parent {
		if p.item {
			return ""
		}
		names = append(names, p.name)
	}
	slices.Reverse(names)
	return strings.Join(names, pathSeparator)
}

// fills are those of the list at v, and of lists below it.
func (v Value) fills() []*fill {
	if v.r == nil || v.r.graph == nil || v.place == nil || v.place.parent != nil && v.place.parent.item {
		return nil
	}
	return v.r.graph.below[v.place.names()]
}

// filled is v, which the file leaves out, as an empty list that is to be filled, or an empty mapping around such a one.
func (v Value) filled() Value {
	fills := v.fills()
	if fills == nil {
		return v
	}
	if v.r.graph.data == nil {
		return v.unfilled()
	}
	at := follow(fills[0].list.node)
	v.node = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: at.Line, Column: at.Column}
	if v.place.depth() == len(fills[0].steps) {
		v.node.Kind, v.node.Tag = yaml.SequenceNode, "!!seq"
	}
	v.line, v.column = at.Line, at.Column
	return v
}

// refuseUnfilled refuses lists that a section is to fill, and that lie in the mapping at v, which has no such field.
func (v Value) refuseUnfilled(allowed []string) {
	n := v.place.depth()
	for _, f := range v.fills() {
		if len(f.steps) > n && !slices.Contains(allowed, f.steps[n]) {
			f.refuse(v.r, fmt.Sprintf("and %s has no %s", strings.Join(f.steps[:n], "."), f.steps[n]),
				allowedFields(allowed), Suggest(f.steps[n], allowed))
		}
	}
}

// waits reports whether v is a list, or a mapping around one, that a section was to fill which is at fault: what is
// missing there only follows from it.
func (v Value) waits() bool { return v.fills() != nil && v.r.graph.data == nil }

// unfilled is v as the file has it, refused where no list is that a section fills. It is refused without a word where
// the section is at fault: that was said, and what is missing here only follows from it.
func (v Value) unfilled() Value {
	fills := v.fills()
	if fills == nil {
		return v
	}
	here := v.place.depth() == len(fills[0].steps)
	switch {
	case v.r.graph.data == nil && (v.node == nil || here):
		v.node, v.refused = nil, true
	case v.node != nil && here:
		if n := follow(v.node); n.Kind != yaml.SequenceNode && !isNull(n) {
			fills[0].refuse(v.r, "where the file has "+describe(n), "the path of a list, or of what the file leaves "+
				"out", "")
			v.node, v.refused = nil, true
		}
	}
	return v
}

// withFills appends to the items of a list those that come of a database. Each is made when it is opened, so that a
// long list takes little memory.
func (v Value) withFills(items []Value) []Value {
	for _, f := range v.fills() {
		if len(f.steps) != v.place.depth() {
			continue // it lies below, where there is a mapping to be
		}
		f.read.Store(true)
		data, stub := v.r.graph.data, *f.item.node
		stub.Content, stub.Anchor = nil, ""
		n := data.Fills[f.rows].Len
		items = slices.Grow(items, n)
		for row := range n {
			p := &place{parent: v.place, index: len(items), item: true, fill: f, row: row, from: v.r.graph}
			node := &stub
			if f.item.node.Kind != yaml.MappingNode {
				if node = p.made(v.r); node == nil {
					continue
				}
			}
			items = append(items, Value{r: v.r, place: p, node: node, line: stub.Line, column: stub.Column})
		}
	}
	return items
}

// made is the node of an item that comes of a database.
func (p *place) made(r *Reader) *yaml.Node { return p.fill.item.make(r.graph.data, p.fill.rows, p.row) }
