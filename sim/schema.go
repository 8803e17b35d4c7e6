// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
)

// schema says which statistics there are, under their full names, and which of them every simproc reports.
type schema struct {
	entries []*schemaEntry
	byName  map[string]int32
	lists   [][]int32 // by simproc: its statistics in its order; neighbours of one form share theirs
	err     error
}

// schemaEntry is the statistic of one name at all nodes of a group.
type schemaEntry struct {
	described
	number  int // among all
	nodes   int // that have it
	perNode bool
}

// eachNodeMax is how many nodes of a group have figures of their own in the results without being asked for.
const eachNodeMax = 1000

func newSchema() *schema { return &schema{byName: map[string]int32{}} }

// prefix is what comes before the names of a node's statistics: that of its group, and its layer where it isn't the
// first.
func (n *Node) prefix() string {
	if n.layer == 0 {
		return n.group.name + "/"
	}
	return n.group.name + "/" + n.m.layers[n.layer] + "/"
}

// take adds what a node has declared. Nodes are taken in the order of their simprocs' ids.
func (s *schema) take(n *Node) {
	list := s.list(n)
	for k, i := range list {
		e := s.entries[i]
		e.nodes++
		if d := n.stats.of[k]; s.err == nil && !e.same(&d) {
			s.err = fmt.Errorf("sim: the %s %q of %s was declared differently than that of other nodes of its form, "+
				"with which its results are merged", kindNames[d.kind], d.name, n.name)
		}
	}
	s.lists = append(s.lists, list)
}

// list are the numbers of a node's statistics.
func (s *schema) list(n *Node) []int32 {
	if len(n.stats.of) == 0 {
		return nil
	}
	prefix := n.prefix()
	list := make([]int32, len(n.stats.of))
	for k, d := range n.stats.of {
		name := prefix + d.name
		i, ok := s.byName[name]
		if !ok {
			i = int32(len(s.entries))
			s.byName[name] = i
			d.name = name
			s.entries = append(s.entries, &schemaEntry{described: d, number: int(i),
				perNode: !n.group.single && (d.eachNode || n.group.count <= eachNodeMax)})
		}
		list[k] = i
	}
	if last := len(s.lists) - len(n.m.layers); last >= 0 && slices.Equal(s.lists[last], list) {
		return s.lists[last]
	}
	return list
}

// same reports whether a node's declaration is that of the entry.
func (e *schemaEntry) same(d *described) bool {
	return e.kind == d.kind && e.unit == d.unit && e.doc == d.doc && slices.Equal(e.percentiles, d.percentiles) &&
		e.low == d.low && e.high == d.high && e.bins == d.bins && e.stretches == d.stretches && e.eachNode == d.eachNode
}
