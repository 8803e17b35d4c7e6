// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"slices"

	"github.com/disco-sim/disco/internal/heap"
)

// rotation is an ordered list of edges, linked over arrays: taking any edge out,
// putting one at the end, and moving the first to the end are O(1).
type rotation struct {
	head, tail int32 // -1: empty
	next, prev []int32
	in         []bool
}

// newRotation makes the list 0, 1, …, n-1.
func newRotation(n int) *rotation {
	r := &rotation{head: -1, tail: -1, next: make([]int32, n), prev: make([]int32, n), in: make([]bool, n)}
	for i := range n {
		r.pushBack(int32(i))
	}
	return r
}

func (r *rotation) empty() bool { return r.head < 0 }

// pushBack puts i at the end, where it is alone: it isn't in the list.
func (r *rotation) pushBack(i int32) {
	r.in[i] = true
	r.next[i], r.prev[i] = -1, r.tail
	if r.tail < 0 {
		r.head = i
	} else {
		r.next[r.tail] = i
	}
	r.tail = i
}

// remove takes i out of the list, if it is there.
func (r *rotation) remove(i int32) {
	if !r.in[i] {
		return
	}
	r.in[i] = false
	if p := r.prev[i]; p < 0 {
		r.head = r.next[i]
	} else {
		r.next[p] = r.next[i]
	}
	if n := r.next[i]; n < 0 {
		r.tail = r.prev[i]
	} else {
		r.prev[n] = r.prev[i]
	}
}

// take returns the first of a list that isn't empty, and moves it to the end.
func (r *rotation) take() int32 {
	i := r.head
	r.remove(i)
	r.pushBack(i)
	return i
}

func (r *rotation) order() (all []int32) {
	for i := r.head; i >= 0; i = r.next[i] {
		all = append(all, i)
	}
	return all
}

// leastIndex finds the live edge with the fewest requests in transit, on a tie the
// one that stands first in the list: the list is in the order in which edges were
// put at its end. One change costs O(log n).
type leastIndex struct {
	edges []account
	heap  heap.Heap[int32] // by requests in transit
	at    []int32          // place in heap, -1: not live
	rank  []int64          // place in the list: rises with every insertion
	last  int64            // greatest rank given
}

func newLeastIndex(edges []account) *leastIndex {
	x := &leastIndex{edges: edges, at: make([]int32, len(edges)), rank: make([]int64, len(edges))}
	x.heap = heap.NewIndexed(
		func(a, b int32) bool { return x.rank[a] < x.rank[b] },
		func(i int32, at int) { x.at[i] = int32(at) },
	)
	for i := range edges {
		x.pushBack(int32(i))
	}
	return x
}

// key is far below 2^53, up to which every count has a float64 of its own.
func (x *leastIndex) key(i int32) float64 { return float64(x.edges[i].transit) }

func (x *leastIndex) empty() bool { return x.heap.Len() == 0 }

// take returns the edge to use, of a list that isn't empty.
func (x *leastIndex) take() int32 { return x.heap.First().Value }

// pushBack puts i at the end of the list. It isn't in the list.
func (x *leastIndex) pushBack(i int32) {
	x.last++
	x.rank[i] = x.last
	x.heap.Push(x.key(i), i)
}

// remove takes i out of the list, if it is there.
func (x *leastIndex) remove(i int32) {
	if at := x.at[i]; at >= 0 {
		x.heap.Remove(int(at))
		x.at[i] = -1
	}
}

// changed puts i where its count in transit now belongs.
func (x *leastIndex) changed(i int32) {
	if at := x.at[i]; at >= 0 {
		x.heap.Fix(int(at), x.key(i))
	}
}

func (x *leastIndex) order() []int32 {
	all := make([]int32, x.heap.Len())
	for k, item := range x.heap.Items() {
		all[k] = item.Value
	}
	slices.SortFunc(all, func(a, b int32) int { return cmp.Compare(x.rank[a], x.rank[b]) })
	return all
}
