// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"github.com/disco-sim/disco/internal/partition"
	"github.com/disco-sim/disco/node"
)

// shards are the groups in which nodes move.
type shards struct {
	of     []uint32 // by node: its shard
	owners []int    // by shard: the worker that it begins on
	fixed  []bool   // by shard: it stays there
	near   []bool   // by shard: it stays on its machine; nil: no shard does
}

// divideShards divides the nodes of each worker into shards, about as many for each as it has of the nodes. No move may
// bring a lookahead between workers that is less than what the placement has there, because workers would wait for each
// other far more often then: nodes with such a link between them are in one shard, and those with one to another
// worker, where it is on no cycle, stay. So do those that were put on their worker by name. Each of the sets, of nodes
// that the scenario wants on one worker, is in one shard. Else neighbours by number are together, which belong together
// in most scenarios.
func divideShards(g *node.Structure, p *partition.Partition, pinned map[int]int32, sets [][]int, want int) shards {
	d := divider{parent: make([]int32, len(p.Of)), stays: make([]bool, len(p.Of))}
	for n := range d.parent {
		d.parent[n] = int32(n)
	}
	for n := range pinned {
		d.stays[n] = true
	}
	for id := range node.SimprocID(g.NumSimprocs()) {
		first, end := g.LinksOf(id)
		for k := first; k < end; k++ {
			if g.Lookahead(k) < p.Lookahead {
				d.join(int32(g.Node(id)), int32(g.Node(g.To(k))), p.Of)
			}
		}
	}
	for _, nodes := range sets {
		for _, n := range nodes {
			d.join(int32(nodes[0]), int32(n), p.Of)
		}
	}
	byWorker := make([][]int32, p.Workers)
	for n, w := range p.Of {
		if root := d.root(int32(n)); d.stays[n] {
			d.stays[root] = true
		}
		byWorker[w] = append(byWorker[w], int32(n))
	}
	s := shards{of: make([]uint32, len(p.Of))}
	for w, nodes := range byWorker {
		d.divide(&s, w, nodes, max(1, want*len(nodes)/len(p.Of)))
	}
	return s
}

// keepNear has shards stay on their machine that have a link to another shard which is shorter than any that leads from
// one machine to another now and lies on a cycle: workers would wait for each other far more often, and for as long as
// a message takes from one machine to another.
func (s *shards) keepNear(g *node.Structure, least float64) {
	s.near = make([]bool, len(s.owners))
	for id := range node.SimprocID(g.NumSimprocs()) {
		first, end := g.LinksOf(id)
		for k := first; k < end; k++ {
			from, to := s.of[g.Node(id)], s.of[g.Node(g.To(k))]
			if from != to && g.Lookahead(k) < least {
				s.near[from], s.near[to] = true, true
			}
		}
	}
}

// divider finds nodes that stay together.
type divider struct {
	parent []int32 // by node: another one that it is with, or itself
	stays  []bool  // by node: it stays, with all that are with it
}

// root is the node that stands for all that n is with.
func (d *divider) root(n int32) int32 {
	for d.parent[n] != n {
		d.parent[n] = d.parent[d.parent[n]]
		n = d.parent[n]
	}
	return n
}

// join has two nodes of one worker stay together; those of two stay where they are.
func (d *divider) join(a, b int32, of []int32) {
	if of[a] != of[b] {
		d.stays[a], d.stays[b] = true, true
		return
	}
	if a, b = d.root(a), d.root(b); a < b {
		d.parent[b] = a
	} else {
		d.parent[a] = b
	}
}

// divide makes shards of the nodes of worker w. Of those that are together the root is the first: parents are less.
func (d *divider) divide(s *shards, w int, nodes []int32, want int) {
	size := make(map[int32]int, len(nodes))
	for _, n := range nodes {
		size[d.root(n)]++
	}
	most := (len(nodes) + want - 1) / want
	open, fixed, filled := -1, -1, 0
	begin := func(stays bool) int {
		s.owners, s.fixed = append(s.owners, w), append(s.fixed, stays)
		return len(s.owners) - 1
	}
	for _, n := range nodes {
		root := d.root(n)
		switch {
		case n != root:
			s.of[n] = s.of[root]
			continue
		case d.stays[root]:
			if fixed < 0 {
				fixed = begin(true)
			}
			s.of[n] = uint32(fixed)
			continue
		case open < 0 || filled+size[root] > most:
			open, filled = begin(false), 0
		}
		s.of[n] = uint32(open)
		filled += size[root]
	}
}
