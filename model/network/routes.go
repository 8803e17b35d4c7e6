// SPDX-License-Identifier: Apache-2.0

package network

import "github.com/disco-sim/disco/internal/heap"

// metric is the delay that routes reckon with for a channel: propagation and the time
// to send a packet of mean size. Waiting and added latency don't count.
func (s *Spec) metric() []float64 {
	w := make([]float64, len(s.Topology.Channels))
	for i := range w {
		c := &s.Topology.Cables[s.Topology.Channels[i].Cable]
		w[i] = c.Delay + sending(s.Sizes.Mean, c.Rate)
	}
	return w
}

// sending is the time to send a packet.
func sending(bytes, rate float64) float64 { return inTicks(bytes * 8 / rate) }

// tree is the shortest ways from one node to all others.
type tree struct {
	delay []float64 // by node; meaningless where there is no way
	hops  []int32
	via   []int32 // by node: the channel that leads to it; -1: the root, or no way
	first []int32 // by node: the channel that leaves the root; -1: the root, or no way
	order []int32 // nodes as they were reached, the root first
}

// shortest finds the shortest ways from root over the cables that are not down
// (Dijkstra 1959). Of ways with the same delay the one with fewer hops counts, then
// the one whose last channel has the lower number.
func (t *Topology) shortest(root int, metric []float64, down func(cable int) bool) *tree {
	n := len(t.Nodes)
	r := &tree{delay: make([]float64, n), hops: make([]int32, n), via: make([]int32, n), first: make([]int32, n)}
	for i := range r.via {
		r.via[i], r.first[i] = -1, -1
	}
	done := make([]bool, n)
	todo := heap.New(step.before)
	todo.Push(0, step{node: int32(root)})
	for todo.Len() > 0 {
		delay, at := todo.Pop()
		if done[at.node] {
			continue
		}
		done[at.node] = true
		r.order = append(r.order, at.node)
		for _, id := range t.Out[at.node] {
			c := &t.Channels[id]
			if done[c.To] || down(c.Cable) {
				continue
			}
			next := step{hops: at.hops + 1, node: int32(c.To), via: id}
			there := delay + metric[id]
			if known := r.delay[c.To]; r.via[c.To] >= 0 && (there > known ||
				there == known && !next.before(step{r.hops[c.To], int32(c.To), r.via[c.To]})) {
				continue
			}
			r.delay[c.To], r.hops[c.To], r.via[c.To] = there, next.hops, id
			r.first[c.To] = r.first[at.node]
			if int(at.node) == root {
				r.first[c.To] = id
			}
			todo.Push(there, next)
		}
	}
	return r
}

// step is a way to a node that was found, and may not be the shortest.
type step struct {
	hops, node, via int32
}

// before is the order of steps of the same delay.
func (s step) before(o step) bool {
	switch {
	case s.hops != o.hops:
		return s.hops < o.hops
	case s.node != o.node:
		return s.node < o.node
	}
	return s.via < o.via
}
