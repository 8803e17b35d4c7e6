// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"math"
	"slices"

	"github.com/disco-sim/disco/node"
)

// adjacency is a graph of numbered vertices, in two flat slices.
type adjacency struct {
	start []uint32 // by vertex, and one more
	to    []int32
}

// components gives every vertex the number of its strongly connected component (Tarjan, SIAM J. Comput. 1(2), 1972). It
// keeps a path of its own instead of recursing: scenarios may be a million nodes deep.
func (g *adjacency) components(proceed func() error) ([]int32, error) {
	return new(componentSearch).components(g, proceed)
}

// components is adjacency.components in the memory of the last search, which ends what that has returned.
func (t *componentSearch) components(g *adjacency, proceed func() error) ([]int32, error) {
	n := len(g.start) - 1
	t.adjacency, t.last, t.count = g, 0, 0
	t.index, t.low = zeros(t.index, n), zeros(t.low, n)
	// Both may hold all vertices. Grown step by step they would leave several times as much garbage.
	t.stack, t.path = slices.Grow(t.stack[:0], n), slices.Grow(t.path[:0], n)
	t.next = append(t.next[:0], g.start[:n]...)
	for root := range int32(n) {
		if t.index[root] == 0 {
			t.search(root)
		}
		if (root+1)%(1<<14) == 0 {
			if err := proceed(); err != nil {
				return nil, err
			}
		}
	}
	return t.index, nil
}

// componentSearch is the state of the search. A vertex whose component is known has ^component as its index, so that
// one column says both.
type componentSearch struct {
	*adjacency
	index, low  []int32 // 0: not seen; below 0: ^component
	next        []uint32
	stack, path []int32
	last, count int32
}

// zeros is n zeros, in the memory of old where they fit.
func zeros(old []int32, n int) []int32 {
	if cap(old) < n {
		return make([]int32, n)
	}
	clear(old[:n])
	return old[:n]
}

func (t *componentSearch) enter(v int32) {
	t.last++
	t.index[v], t.low[v] = t.last, t.last
	t.stack, t.path = append(t.stack, v), append(t.path, v)
}

func (t *componentSearch) search(root int32) {
	t.enter(root)
	for len(t.path) > 0 {
		v := t.path[len(t.path)-1]
		if t.next[v] < t.start[v+1] {
			to := t.to[t.next[v]]
			t.next[v]++
			if i := t.index[to]; i == 0 {
				t.enter(to)
			} else if i > 0 {
				t.low[v] = min(t.low[v], i)
			}
			continue
		}
		if t.path = t.path[:len(t.path)-1]; len(t.path) > 0 {
			above := t.path[len(t.path)-1]
			t.low[above] = min(t.low[above], t.low[v])
		}
		if t.low[v] == t.index[v] {
			t.pop(v)
		}
	}
}

// pop takes a component off the stack.
func (t *componentSearch) pop(first int32) {
	for {
		v := t.stack[len(t.stack)-1]
		t.stack = t.stack[:len(t.stack)-1]
		t.index[v] = ^t.count
		if v == first {
			t.count++
			return
		}
	}
}

// cycles says which links lie on a cycle of simprocs over links with a lookahead of at most most, where the ranks of a
// node that share state count as one.
type cycles struct {
	s    *node.Structure
	most float64
	of   []int32 // by simproc: its component; nil: no link has so little lookahead

	plain bool // no node's ranks count as one
	whole bool // all simprocs are in one component
	every bool // no link has more lookahead than most
}

func newCycles(s *node.Structure, most float64, proceed func() error) (*cycles, error) {
	c := &cycles{s: s, most: most, plain: len(s.Simprocs()) == 1}
	ids, any := s.NumSimprocs(), false
	g := &adjacency{start: make([]uint32, ids+1)}
	if s.NumLinks() > 0 {
		g.to = make([]int32, 0, s.NumLinks())
	}
	next := 0 // vertex whose edges begin next
	for id := range node.SimprocID(ids) {
		for from := c.vertex(id); next <= int(from); next++ {
			g.start[next] = uint32(len(g.to))
		}
		first, end := s.LinksOf(id)
		for k := first; k < end; k++ {
			if s.Lookahead(k) <= most {
				g.to, any = append(g.to, int32(c.vertex(s.To(k)))), true
			}
		}
	}
	for ; next <= ids; next++ {
		g.start[next] = uint32(len(g.to))
	}
	if !any {
		return c, nil
	}
	c.every = len(g.to) == s.NumLinks()
	var err error
	c.of, err = g.components(proceed)
	c.whole = err == nil && !slices.ContainsFunc(c.of, func(of int32) bool { return of != c.of[0] })
	return c, err
}

// vertex is what a simproc counts as. It rises with the id.
func (c *cycles) vertex(id node.SimprocID) node.SimprocID {
	if c.plain {
		return id
	}
	if n := c.s.Node(id); c.s.Shared(n) {
		return node.SimprocID(n * len(c.s.Simprocs()))
	}
	return id
}

// has tells whether a link lies on a cycle.
func (c *cycles) has(from node.SimprocID, link int) bool {
	return c.of != nil && c.s.Lookahead(link) <= c.most &&
		(c.whole || c.of[c.vertex(from)] == c.of[c.vertex(c.s.To(link))])
}

// LeastBetween is the least lookahead of the links on a cycle that lead from one part of the nodes to another, of names
// its part for each node; +Inf: there is none.
func LeastBetween(s *node.Structure, of []int32, proceed func() error) (float64, error) {
	least := math.Inf(1)
	if slices.Min(of) == slices.Max(of) {
		return least, nil
	}
	for _, m := range s.Meshes() { // all nodes are in each
		least = min(least, m.Lookahead)
	}
	c, err := newCycles(s, math.Inf(1), proceed)
	if err != nil {
		return 0, err
	}
	for id := range node.SimprocID(s.NumSimprocs()) {
		first, end := s.LinksOf(id)
		for k := first; k < end; k++ {
			if l := s.Lookahead(k); l < least && of[s.Node(id)] != of[s.Node(s.To(k))] && c.has(id, k) {
				least = l
			}
		}
	}
	return least, nil
}

// cyclicLinks says the same of every link of a graph.
func cyclicLinks(g *node.Graph, most float64) []bool {
	vertex := func(e node.Endpoint) int32 {
		if g.Nodes[e.Node].Shared {
			e.Simproc = 0
		}
		return int32(g.ID(e))
	}
	adj := &adjacency{start: make([]uint32, g.NumSimprocs()+1)}
	for i := range g.Links {
		if l := &g.Links[i]; l.Lookahead <= most {
			adj.start[vertex(l.From)+1]++
		}
	}
	for v := 1; v < len(adj.start); v++ {
		adj.start[v] += adj.start[v-1]
	}
	next := slices.Clone(adj.start)
	adj.to = make([]int32, adj.start[len(adj.start)-1])
	for i := range g.Links {
		if l := &g.Links[i]; l.Lookahead <= most {
			from := vertex(l.From)
			adj.to[next[from]] = vertex(l.To)
			next[from]++
		}
	}
	of, _ := adj.components(func() error { return nil }) // which never fails
	cyclic := make([]bool, len(g.Links))
	for i := range g.Links {
		l := &g.Links[i]
		cyclic[i] = l.Lookahead <= most && of[vertex(l.From)] == of[vertex(l.To)]
	}
	return cyclic
}
