// SPDX-License-Identifier: Apache-2.0

package graph

// Reduce is the transitive reduction: the edges beside which there is no longer way from source to target. It has the
// same paths between vertices, and is the only smallest layer that has (Aho, Garey and Ullman, The transitive
// reduction of a directed graph, SIAM J. Comput. 1(2), 1972). The error is a *CycleError.
//
// Cost: n/64 times the edges between vertices that lead to the same 64 ones, at most n m/64; memory 20 n.
func (l *Layer) Reduce() (*Layer, error) {
	order, err := l.Order()
	if err != nil {
		return nil, err
	}
	n := len(order)
	r := reducer{Layer: l, order: order, place: make([]uint32, n), reached: make([]uint64, n),
		longer: make([]uint64, n)}
	for i, v := range order {
		r.place[v] = uint32(i)
	}
	keep := NewMask(l.Edges()) // by edge of in, which a target's are together in
	for from := 0; from < n; from += 64 {
		r.block(from, min(from+64, n), keep)
	}
	in := rows{start: make([]uint32, n+1)}
	for v := range n {
		for i := l.in.start[v]; i < l.in.start[v+1]; i++ {
			if keep.has(i) {
				in.add(l.in.vertex[i], l.in.weight[i])
			}
		}
		in.start[v+1] = uint32(len(in.vertex))
	}
	return &Layer{out: in.transposed(), in: in}, nil
}

// reducer looks at 64 targets at a time, one bit each.
type reducer struct {
	*Layer
	order, place []uint32 // vertices in order, and the place of each
	reached      []uint64 // by place: targets to which an edge or more lead
	longer       []uint64 // … to which two edges or more lead
}

// block keeps the edges to the vertices in places [from, to) that are no shortcuts. It goes backwards over the order,
// and no further than something leads to one of them.
func (r *reducer) block(from, to int, keep *Mask) {
	least := from
	for at := to - 1; at >= least; at-- {
		reached, longer := r.reached[at]|r.longer[at], uint64(0)
		if at >= from {
			longer = 1 << (at - from) // behind an edge to it
		}
		if reached|longer == 0 {
			continue
		}
		for _, u := range r.In(int(r.order[at])).Vertex {
			p := int(r.place[u])
			r.longer[p] |= reached
			r.reached[p] |= longer
			least = min(least, p)
		}
	}
	for at := from; at < to; at++ {
		v, bit := int(r.order[at]), uint64(1)<<(at-from)
		for i := r.in.start[v]; i < r.in.start[v+1]; i++ {
			if r.longer[r.place[r.in.vertex[i]]]&bit == 0 {
				keep.Set(int(i))
			}
		}
	}
	clear(r.reached[least:to])
	clear(r.longer[least:to])
}
