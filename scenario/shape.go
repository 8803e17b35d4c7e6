// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// extent is what a value amounts to with all its aliases followed.
type extent struct {
	values int // itself and everything below; at most ValuesMax+1
	depth  int // 1 for a scalar
	open   bool
}

// shape walks a document once, in the order of the text. An alias always names
// something that began earlier: either its extent is known, or the alias lies
// inside of what it names, which is a cycle.
type shape struct {
	d       *Document
	anchors map[*yaml.Node]*extent
	err     error
}

// checkShape refuses alias cycles and trees that are too large or too deep.
func (d *Document) checkShape() error {
	s := &shape{d: d, anchors: make(map[*yaml.Node]*extent)}
	s.measure(d.root, 1)
	return s.err
}

// measure gives the extent of n, which lies at the given depth. The first thing
// that is wrong ends the walk.
func (s *shape) measure(n *yaml.Node, depth int) extent {
	if n.Kind == yaml.AliasNode {
		return s.alias(n, depth)
	}
	if depth > DepthMax {
		s.refuse(n, fmt.Sprintf("lists and mappings nested more than %d deep", DepthMax))
	}
	e := &extent{values: 1, depth: 1, open: true}
	if n.Anchor != "" {
		s.anchors[n] = e
	}
	for _, c := range n.Content {
		if s.err != nil {
			break
		}
		child := s.measure(c, depth+1)
		e.values += child.values
		e.depth = max(e.depth, child.depth+1)
		if e.values > ValuesMax {
			s.refuse(c, fmt.Sprintf("more than %d values, every alias counted with all that it stands for", ValuesMax))
		}
	}
	e.open = false
	return *e
}

func (s *shape) alias(n *yaml.Node, depth int) extent {
	e, ok := s.anchors[n.Alias]
	switch {
	case !ok:
		panic(fmt.Sprintf("scenario: alias *%s at %s:%d names a value that comes after it", n.Value, s.d.file, n.Line))
	case e.open:
		s.refuse(n, fmt.Sprintf("the alias *%s inside of what it stands for", n.Value))
	case depth+e.depth-1 > DepthMax:
		s.refuse(n, fmt.Sprintf("lists and mappings nested more than %d deep, with what *%s stands for", DepthMax,
			n.Value))
	}
	return *e
}

func (s *shape) refuse(n *yaml.Node, found string) {
	if s.err == nil {
		s.err = s.d.fault(n.Line, n.Column, found, "", "docs/scenario.md lists the limits")
	}
}
