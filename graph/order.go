// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// CycleError is why there is no order: a layer has a cycle.
type CycleError struct {
	Cycle []uint32 // its vertices along its edges, from the least one; the last has an edge to the first
}

// Error shows the cycle, of a long one its beginning.
func (e *CycleError) Error() string {
	const most = 10
	var b strings.Builder
	fmt.Fprintf(&b, "graph: found a cycle of %d vertices", len(e.Cycle))
	sep := ": "
	for i, v := range e.Cycle {
		if i == most {
			b.WriteString(" → …")
			break
		}
		fmt.Fprintf(&b, "%s%d", sep, v)
		sep = " → "
	}
	fmt.Fprintf(&b, " → %d", e.Cycle[0])
	return b.String()
}

// Order is all vertices in an order in which each edge leads from an earlier to a later one (Kahn, Topological sorting
// of large networks, CACM 5(11), 1962). Where there is none the error is a *CycleError. Cost: n + m.
func (l *Layer) Order() ([]uint32, error) {
	n := l.Vertices()
	left := make([]uint32, n) // edges from vertices that aren't in the order yet
	order := make([]uint32, 0, n)
	for v := range n {
		if left[v] = l.in.start[v+1] - l.in.start[v]; left[v] == 0 {
			order = append(order, uint32(v))
		}
	}
	for at := 0; at < len(order); at++ {
		for _, w := range l.Out(int(order[at])).Vertex {
			if left[w]--; left[w] == 0 {
				order = append(order, w)
			}
		}
	}
	if len(order) < n {
		return nil, &CycleError{l.Cycles()[0]}
	}
	return order, nil
}

// Cycles has a cycle of each part of the layer in which every vertex can be reached from every other one, as short as
// there is one through the part's least vertex, from which it begins, in the order of these; none where all edges can
// be ordered. Cost: n + m.
func (l *Layer) Cycles() (cycles [][]uint32) {
	part, count := l.Strong()
	size := make([]uint32, count)
	for _, p := range part {
		size[p]++
	}
	seen := make([]bool, count)
	before := make([]uint32, l.Vertices())
	for v, p := range part {
		if seen[p] {
			continue
		}
		seen[p] = true
		if _, self := l.Find(v, v); self {
			cycles = append(cycles, []uint32{uint32(v)})
		} else if size[p] > 1 {
			cycles = append(cycles, l.cycleFrom(uint32(v), part, before))
		}
	}
	return cycles
}

// cycleFrom is a shortest cycle through a vertex of a part of several vertices. before has room for all vertices: 1 +
// the one before on the way there.
func (l *Layer) cycleFrom(from uint32, part, before []uint32) []uint32 {
	for queue := []uint32{from}; ; queue = queue[1:] {
		v := queue[0]
		for _, w := range l.Out(int(v)).Vertex {
			if w == from {
				cycle := []uint32{v}
				for v != from {
					v = before[v] - 1
					cycle = append(cycle, v)
				}
				slices.Reverse(cycle)
				return cycle
			}
			if part[w] == part[from] && before[w] == 0 {
				before[w] = v + 1
				queue = append(queue, w)
			}
		}
	}
}

// Strong divides the vertices into strongly connected components: part[v] is that of v, numbered in the order of their
// least vertices, and count how many there are (Tarjan, Depth-first search and linear graph algorithms, SIAM J.
// Comput. 1(2), 1972, without recursion). Cost: n + m.
func (l *Layer) Strong() (part []uint32, count int) {
	n := l.Vertices()
	s := strong{layer: l, number: make([]uint32, n), low: make([]uint32, n), part: make([]uint32, n),
		edge: slices.Clone(l.out.start[:n])}
	for v := range n {
		if s.number[v] == 0 {
			s.visit(uint32(v))
		}
	}
	return renumbered(s.part, s.parts)
}

type strong struct {
	layer       *Layer
	number, low []uint32 // from 1: the order of visits, and the least one that is reached
	edge        []uint32 // the next one to be looked at
	path, open  []uint32 // from the root here; visited, and in no part yet
	part        []uint32 // 1 + the part, 0: none yet
	visits      uint32
	parts       int
}

func (s *strong) visit(root uint32) {
	s.enter(root)
	for len(s.path) > 0 {
		v := s.path[len(s.path)-1]
		if s.edge[v] == s.layer.out.start[v+1] {
			s.leave(v)
			continue
		}
		w := s.layer.out.vertex[s.edge[v]]
		s.edge[v]++
		if s.number[w] == 0 {
			s.enter(w)
		} else if s.part[w] == 0 {
			s.low[v] = min(s.low[v], s.number[w])
		}
	}
}

func (s *strong) enter(v uint32) {
	s.visits++
	s.number[v], s.low[v] = s.visits, s.visits
	s.path, s.open = append(s.path, v), append(s.open, v)
}

func (s *strong) leave(v uint32) {
	s.path = s.path[:len(s.path)-1]
	if len(s.path) > 0 {
		p := s.path[len(s.path)-1]
		s.low[p] = min(s.low[p], s.low[v])
	}
	if s.low[v] != s.number[v] {
		return
	}
	s.parts++
	for {
		w := s.open[len(s.open)-1]
		s.open = s.open[:len(s.open)-1]
		s.part[w] = uint32(s.parts)
		if w == v {
			return
		}
	}
}

// renumbered has parts, numbered from 1 in any order, numbered from 0 in the order of their least vertices.
func renumbered(part []uint32, parts int) ([]uint32, int) {
	to := make([]uint32, parts+1)
	count := uint32(0)
	for v, p := range part {
		if to[p] == 0 {
			count++
			to[p] = count
		}
		part[v] = to[p] - 1
	}
	return part, parts
}

// Components divides the vertices into those that edges join, whichever way they lead: part[v] is that of v, numbered
// in the order of their least vertices, and count how many there are. Cost: n + m.
func (l *Layer) Components() (part []uint32, count int) {
	n := l.Vertices()
	part = make([]uint32, n) // 1 + the part, until all have one
	var queue []uint32
	reach := func(v uint32) {
		if part[v] == 0 {
			part[v] = uint32(count)
			queue = append(queue, v)
		}
	}
	for v := range n {
		if part[v] != 0 {
			continue
		}
		count++
		for reach(uint32(v)); len(queue) > 0; {
			w := queue[len(queue)-1]
			queue = queue[:len(queue)-1]
			for _, row := range []Row{l.Out(int(w)), l.In(int(w))} {
				for _, x := range row.Vertex {
					reach(x)
				}
			}
		}
	}
	for v := range part {
		part[v]--
	}
	return part, count
}

// Path is vertices, each with an edge to the next one, and the sum of these edges' weights.
type Path struct {
	Vertices []uint32
	Weight   float64
}

// Longest is the path with the greatest weight: in a network of activities, the critical one. It may be one vertex,
// which weighs nothing; of several such paths it is one whose last vertex is the least, and then the one before that.
// A layer without vertices has an empty one. The error is a *CycleError. Cost: n + m.
func (l *Layer) Longest() (Path, error) {
	order, err := l.Order()
	if err != nil || len(order) == 0 {
		return Path{}, err
	}
	weight := make([]float64, len(order))
	before := make([]uint32, len(order)) // 1 + the vertex before, 0: none
	for _, v := range order {
		in := l.In(int(v))
		for i, u := range in.Vertex {
			if w := weight[u] + in.Weight[i]; w > weight[v] {
				weight[v], before[v] = w, u+1
			}
		}
	}
	last := uint32(0)
	for v, w := range weight {
		if cmp.Compare(w, weight[last]) > 0 {
			last = uint32(v)
		}
	}
	p := Path{Weight: weight[last], Vertices: []uint32{last}}
	for v := last; before[v] != 0; {
		v = before[v] - 1
		p.Vertices = append(p.Vertices, v)
	}
	slices.Reverse(p.Vertices)
	return p, nil
}
