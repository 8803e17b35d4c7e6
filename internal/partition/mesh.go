// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"cmp"
	"slices"

	"github.com/disco-sim/disco/node"
)

// mesh is the graph of links without directions, with parallel links added up, as one
// array of neighbours with an index by node.
type mesh struct {
	work  []float64 // by node
	pin   []int32   // by node: its worker, free
	size  []int32   // by node: how many nodes of the scenario it is
	start []int32   // start[n] to start[n+1]: n's part of to and cost
	to    []int32   // by neighbour, the dearest first
	cost  []float64
	total float64 // of all costs

	up []int32 // by node: the node of the next coarser level that it is part of
}

// tie is one link of a mesh under construction.
type tie struct {
	from, to int32
	cost     float64
}

func newMesh(g *node.Graph, work, costs []float64, pin []int32) *mesh {
	ties := make([]tie, 0, 2*len(g.Links))
	for i, l := range g.Links {
		a, b := int32(l.From.Node), int32(l.To.Node)
		if a != b {
			ties = append(ties, tie{a, b, costs[i]}, tie{b, a, costs[i]})
		}
	}
	size := make([]int32, len(work))
	for n := range size {
		size[n] = 1
	}
	return buildMesh(work, append([]int32(nil), pin...), size, ties)
}

// sub is the part of the mesh that nodes are, in their order. Pins are left to the caller.
func (m *mesh) sub(nodes []int32) *mesh {
	index := make([]int32, len(m.work)) // + 1; 0: not in it
	work, size := make([]float64, len(nodes)), make([]int32, len(nodes))
	for i, n := range nodes {
		index[n] = int32(i) + 1
		work[i], size[i] = m.work[n], m.size[n]
	}
	var ties []tie
	for i, n := range nodes {
		for j := m.start[n]; j < m.start[n+1]; j++ {
			if to := index[m.to[j]]; to != 0 {
				ties = append(ties, tie{int32(i), to - 1, m.cost[j]})
			}
		}
	}
	return buildMesh(work, make([]int32, len(nodes)), size, ties)
}

// sortTies sorts stably by a number below n.
func sortTies(ties []tie, n int, key func(*tie) int32) []tie {
	next := make([]uint32, n+1)
	for i := range ties {
		next[key(&ties[i])+1]++
	}
	for k := range n {
		next[k+1] += next[k]
	}
	sorted := make([]tie, len(ties))
	for i := range ties {
		k := key(&ties[i])
		sorted[next[k]] = ties[i]
		next[k]++
	}
	return sorted
}

func buildMesh(work []float64, pin, size []int32, ties []tie) *mesh {
	// Stable, so that parallel links are summed in one order whatever the sort does.
	ties = sortTies(sortTies(ties, len(work), func(t *tie) int32 { return t.to }), len(work),
		func(t *tie) int32 { return t.from })
	m := &mesh{work: work, pin: pin, size: size, start: make([]int32, len(work)+1)}
	merged := ties[:0]
	for _, t := range ties {
		if last := len(merged) - 1; last >= 0 && merged[last].from == t.from && merged[last].to == t.to {
			merged[last].cost += t.cost
			continue
		}
		merged = append(merged, t)
	}
	for _, t := range merged {
		m.start[t.from+1]++
		m.total += t.cost
	}
	for n := range work {
		m.start[n+1] += m.start[n]
		part := merged[m.start[n]:m.start[n+1]]
		slices.SortStableFunc(part, func(a, b tie) int { return cmp.Compare(b.cost, a.cost) })
	}
	for _, t := range merged {
		m.to, m.cost = append(m.to, t.to), append(m.cost, t.cost)
	}
	return m
}

// depthFirst visits every node once, in preorder, the dearest neighbour first, starting
// anew at the first node not yet seen. It keeps its own stack: scenarios may be a
// million nodes deep.
func (m *mesh) depthFirst() []int32 {
	order := make([]int32, 0, len(m.work))
	seen := make([]bool, len(m.work))
	next := append([]int32(nil), m.start...) // next neighbour to look at
	var stack []int32
	visit := func(n int32) {
		seen[n] = true
		order, stack = append(order, n), append(stack, n)
	}
	for root := range m.work {
		if !seen[root] {
			visit(int32(root))
		}
		for len(stack) > 0 {
			n := stack[len(stack)-1]
			if next[n] == m.start[n+1] {
				stack = stack[:len(stack)-1]
				continue
			}
			to := m.to[next[n]]
			next[n]++
			if !seen[to] {
				visit(to)
			}
		}
	}
	return order
}

// coarsen contracts pairs of nodes, level by level, until at most want nodes are left or
// hardly any pair is. The finest level, m itself, comes first.
func (m *mesh) coarsen(want int) []*mesh {
	levels := []*mesh{m}
	for len(m.work) > want {
		c := m.contract()
		if len(c.work) > len(m.work)*9/10 {
			break
		}
		levels = append(levels, c)
		m = c
	}
	return levels
}

// contract matches each node with the free neighbour that it is tied to most, as long as
// the pair doesn't get too large to be balanced, and makes a mesh of the pairs. Nodes
// without a free neighbour are matched with each other if they are tied most to the same
// one: else a star would hardly shrink.
func (m *mesh) contract() *mesh {
	sum := 0.0
	for _, w := range m.work {
		sum += w
	}
	c := contraction{m: m, large: 4 * sum / float64(len(m.work)), alone: make([]int32, len(m.work)+1)}
	m.up = make([]int32, len(m.work))
	for n := range m.up {
		m.up[n] = free
	}
	for n := range c.alone {
		c.alone[n] = free
	}
	for n := range m.work {
		if m.up[n] == free {
			c.match(int32(n))
		}
	}
	ties := make([]tie, 0, len(m.to))
	for n := range m.work {
		for i := m.start[n]; i < m.start[n+1]; i++ {
			if a, b := m.up[n], m.up[m.to[i]]; a != b {
				ties = append(ties, tie{a, b, m.cost[i]})
			}
		}
	}
	return buildMesh(c.work, c.pin, c.size, ties)
}

// contraction is a coarser level under construction.
type contraction struct {
	m     *mesh
	large float64 // no pair has more work: a few times the mean, see coarseNodes
	work  []float64
	pin   []int32
	size  []int32
	alone []int32 // by hub: a node that found no partner and is tied most to that hub
}

func (c *contraction) match(n int32) {
	m := c.m
	for i := m.start[n]; i < m.start[n+1]; i++ {
		if to := m.to[i]; m.up[to] == free && c.fits(n, to) {
			c.pair(n, to)
			return
		}
	}
	hub := int32(len(m.work)) // of nodes without neighbours
	if m.start[n] < m.start[n+1] {
		hub = m.to[m.start[n]]
	}
	if other := c.alone[hub]; other != free && c.fits(n, other) {
		m.up[n] = m.up[other]
		c.join(n)
		c.alone[hub] = free
		return
	}
	c.alone[hub] = n
	m.up[n] = c.add(n)
}

func (c *contraction) fits(a, b int32) bool {
	return c.m.pin[a] == c.m.pin[b] && c.m.work[a]+c.m.work[b] <= c.large
}

func (c *contraction) pair(a, b int32) {
	c.m.up[a] = c.add(a)
	c.m.up[b] = c.m.up[a]
	c.join(b)
}

// join adds n to the coarse node that it has been made part of.
func (c *contraction) join(n int32) {
	c.work[c.m.up[n]] += c.m.work[n]
	c.size[c.m.up[n]] += c.m.size[n]
}

func (c *contraction) add(n int32) int32 {
	c.work, c.pin, c.size = append(c.work, c.m.work[n]), append(c.pin, c.m.pin[n]), append(c.size, c.m.size[n])
	return int32(len(c.work) - 1)
}
