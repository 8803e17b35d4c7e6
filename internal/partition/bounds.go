// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"cmp"
	"math"
	"slices"

	"github.com/disco-sim/disco/internal/heap"
)

// bounds is the graph over which the bounds of a placement travel: the classes of simprocs that each worker has, where
// there are meshes two hubs for each in every worker, and the lanes between workers. An edge has the least lookahead of
// all links that it stands for, because a lane has one bound for all that goes over it, and a class is held, and
// promises, as a whole. All its cycles go over lanes (docs/sync.md, "Over machines").
type bounds struct {
	adjacency
	lookahead []float64  // by edge
	ends      [][2]int32 // by lane: workers from and to
	first     int        // vertex of the first lane; lanes are the last
	held      []bool     // by vertex: it is on a cycle, or behind one
	cyclic    []bool     // by lane: it is on a cycle
}

// step is what lies between two vertices of bounds.
type step struct {
	from, to  int32
	lookahead float64
}

// newBounds makes the graph of a flow. vertex is that of a vertex of the flow.
func newBounds(f *flow) (b *bounds, vertex func(int32) int32) {
	of, count, merged := f.classes()
	f.merged = merged
	vertex = func(v int32) int32 {
		if int(v) < f.simprocs {
			return of[v]
		}
		return count + v - int32(f.simprocs)
	}
	least := map[[2]int32]float64{}
	f.edges(func(from, to int32, lookahead float64) {
		edge := [2]int32{vertex(from), vertex(to)}
		if edge[0] == edge[1] {
			return
		}
		if old, ok := least[edge]; !ok || lookahead < old {
			least[edge] = lookahead
		}
	})
	b = &bounds{first: int(count) + f.lanes - f.simprocs}
	for _, pair := range f.pairs {
		b.ends = append(b.ends, [2]int32{pair / int32(f.workers), pair % int32(f.workers)})
	}
	var steps []step
	for edge, lookahead := range least {
		steps = append(steps, step{edge[0], edge[1], lookahead})
	}
	b.fill(steps)
	return b, vertex
}

// fill puts in the edges, and finds what is on cycles and behind them.
func (b *bounds) fill(steps []step) {
	slices.SortFunc(steps, func(x, y step) int {
		return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.to, y.to))
	})
	b.start = make([]uint32, b.vertices()+1)
	for _, s := range steps {
		b.start[s.from+1]++
		b.to, b.lookahead = append(b.to, s.to), append(b.lookahead, s.lookahead)
	}
	for v := range b.vertices() {
		b.start[v+1] += b.start[v]
	}
	b.cyclic = b.onCycles(&b.adjacency)
	b.held = b.behind(&b.adjacency, b.cyclic)
}

func (b *bounds) vertices() int { return b.first + len(b.ends) }

// onCycles tells which lanes are on a cycle of a graph with the vertices of b.
func (b *bounds) onCycles(g *adjacency) []bool {
	of, _ := g.components(func() error { return nil }) // which never fails
	size := map[int32]int{}
	for _, c := range of {
		size[c]++
	}
	cyclic := make([]bool, len(b.ends))
	for lane := range cyclic {
		cyclic[lane] = size[of[b.first+lane]] > 1
	}
	return cyclic
}

// stand finds what each epoch takes an idle jump for: still are lanes on a cycle without lookahead, since bounds that
// go round it don't rise, and stuck are the vertices on it or behind it without lookahead.
func (b *bounds) stand() (still, stuck []bool) {
	g := &adjacency{start: make([]uint32, 1, len(b.start))}
	for v := range b.vertices() {
		for k := b.start[v]; k < b.start[v+1]; k++ {
			if b.lookahead[k] < 0x1p-1022 { // as in the engine: such a lookahead raises nothing
				g.to = append(g.to, b.to[k])
			}
		}
		g.start = append(g.start, uint32(len(g.to)))
	}
	still = b.onCycles(g)
	return still, b.behind(g, still)
}

// behind is the vertices that some lanes lead to in a graph with the vertices of b, and these.
func (b *bounds) behind(g *adjacency, lanes []bool) []bool {
	found := make([]bool, b.vertices())
	var todo []int32
	hold := func(v int32) {
		if !found[v] {
			found[v] = true
			todo = append(todo, v)
		}
	}
	for lane, is := range lanes {
		if is {
			hold(int32(b.first + lane))
		}
	}
	for len(todo) > 0 {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, to := range g.to[g.start[v]:g.start[v+1]] {
			hold(to)
		}
	}
	return found
}

// window is how far an idle jump takes bounds beyond the earliest event where nothing is stuck: the least lookahead
// that leads away from what is, and elsewhere that of lanes that are held.
func (b *bounds) window(stuck []bool) float64 {
	least, after := math.Inf(1), b.behind(&b.adjacency, stuck[b.first:])
	for v := range b.vertices() {
		for k := b.start[v]; k < b.start[v+1]; k++ {
			to := int(b.to[k])
			if stuck[v] && !stuck[to] || !after[v] && to >= b.first && b.held[to] {
				least = min(least, b.lookahead[k])
			}
		}
	}
	return least
}

// slowest is the largest ratio of delay to lookahead that a cycle has: how long bounds take to rise by a simulated
// second. delay is that of each lane. None is still.
//
// It begins with any cycle and goes on to one with a larger ratio, which is one that gains by weights of
// delay - ratio × lookahead (Dinkelbach's method), until there is none.
func (b *bounds) slowest(delay func(lane int) float64) (ratio float64) {
	delays := make([]float64, b.vertices())
	most := 0.0
	for lane := range b.ends {
		delays[b.first+lane] = delay(lane)
		most = max(most, delays[b.first+lane])
	}
	for {
		next, ok := b.gains(delays, ratio, most*1e-9)
		if !ok || next <= ratio*(1+1e-9) {
			return ratio
		}
		ratio = next
	}
}

// gains looks for a cycle that gains more than nothing, and returns its own ratio.
func (b *bounds) gains(delays []float64, ratio, least float64) (better float64, ok bool) {
	length, by := make([]float64, b.vertices()), slices.Repeat([]int64{-1}, b.vertices()) // edges that lead there
	from := make([]int32, len(b.to))
	for again := true; again; {
		again = false
		for v := range int32(b.vertices()) {
			for k := b.start[v]; k < b.start[v+1]; k++ {
				from[k] = v
				to := b.to[k]
				if l := length[v] + delays[to] - ratio*b.lookahead[k]; l > length[to]+least {
					length[to], by[to], again = l, int64(k), true
				}
			}
		}
		if cycle := b.cycleOf(by, from); len(cycle) > 0 {
			delay, lookahead := 0.0, 0.0
			for _, k := range cycle {
				delay, lookahead = delay+delays[b.to[k]], lookahead+b.lookahead[k]
			}
			return delay / lookahead, true
		}
	}
	return 0, false
}

// cycleOf is the edges of a cycle among those that lead to vertices, if there is one.
func (b *bounds) cycleOf(by []int64, from []int32) (cycle []int64) {
	seen := make([]int32, len(by)) // from which vertex, + 1
	for v := range int32(len(by)) {
		at := v
		for seen[at] == 0 && by[at] >= 0 {
			seen[at] = v + 1
			at = from[by[at]]
		}
		if by[at] < 0 || seen[at] != v+1 {
			continue
		}
		for first := at; len(cycle) == 0 || at != first; at = from[by[at]] {
			cycle = append(cycle, by[at])
		}
		return cycle
	}
	return nil
}

// shortest is the least lookahead of a cycle over a lane, +Inf without any (Dijkstra).
func (b *bounds) shortest(lane int, space *shortestSpace) (best float64) {
	best = math.Inf(1)
	if !b.cyclic[lane] {
		return best
	}
	begin := int32(b.first + lane)
	space.distance = slices.Grow(space.distance[:0], b.vertices())[:b.vertices()]
	for v := range space.distance {
		space.distance[v] = math.Inf(1)
	}
	space.heap.Clear()
	space.heap.Push(0, begin)
	for space.heap.Len() > 0 {
		distance, v := space.heap.Pop()
		if distance >= best || v != begin && distance > space.distance[v] {
			continue
		}
		for k := b.start[v]; k < b.start[v+1]; k++ {
			to, d := b.to[k], distance+b.lookahead[k]
			if d >= best || d >= space.distance[to] {
				continue
			}
			if space.distance[to] = d; to == begin {
				best = d
			} else {
				space.heap.Push(d, to)
			}
		}
	}
	return best
}

// shortestSpace is memory that one search after the other uses.
type shortestSpace struct {
	distance []float64
	heap     heap.Heap[int32]
}
