// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"math"

	"github.com/disco-sim/disco/internal/heap"
	"github.com/disco-sim/disco/node"
)

// The min-cut method halves the graph again and again, each time on several levels
// (Karypis and Kumar, A Fast and High Quality Multilevel Scheme for Partitioning Irregular
// Graphs, SIAM J. Sci. Comput. 20(1), 1998): busy links are contracted until few nodes are
// left, these are divided between two sides, and on the way back each level is refined by
// moves as in Fiduccia and Mattheyses (A linear-time heuristic for improving network
// partitions, DAC 1982): the best move first, also one that makes it worse for a while,
// and back to the best state seen. In the end all workers are refined against each other.

const (
	// coarseNodes is how many nodes the coarsest level has. More make its first partition
	// worse, fewer make its nodes too large to balance.
	coarseNodes = 60
	// growTries is how many first partitions of the coarsest level are tried.
	growTries = 8
	// refinePasses bounds the passes over one level; they end when one brings nothing.
	refinePasses = 8
	// hillMoves is how many moves in a row may bring nothing before a pass gives up.
	hillMoves = 64
	// syncEvents is what one exchange of promises costs on one machine, in events between workers.
	syncEvents = 2
)

// minCut fills of. Nodes between which a border would make every event wait for another
// worker are assigned together, as long as that leaves something for every worker.
func minCut(g *node.Graph, run Run, workers int, of []int32, cyclic []bool) {
	costs := linkCosts(g, run, cyclic)
	groups := tightGroups(g, run)
	merged, pins := groups.merge(g, of)
	if groups.count == len(of) || !enough(pins, workers) {
		bisectionOrBlocks(g, workers, of, costs)
		return
	}
	bisectionOrBlocks(merged, workers, pins, costs)
	for n := range of {
		of[n] = pins[groups.of[n]]
	}
}

// bisectionOrBlocks takes the better one of two partitions.
func bisectionOrBlocks(g *node.Graph, workers int, of []int32, costs []float64) {
	m := newMesh(g, expectedWork(g), costs, of)
	rates := linkRates(g)
	m.bisectionOrBlocks(workers, of, func(tie func(a, b int32, rate float64)) {
		for i := range g.Links {
			if l := &g.Links[i]; outward(l) {
				tie(int32(l.From.Node), int32(l.To.Node), rates[i])
			}
		}
	})
}

// bisectionOrBlocks takes the better one of two partitions of a mesh. traffic visits what is sent between its nodes.
func (m *mesh) bisectionOrBlocks(workers int, of []int32, traffic func(tie func(a, b int32, rate float64))) {
	d := newBlocks(workers, append([]int32(nil), of...), m.work, m.depthFirst())
	traffic(d.tie)
	rule := evenRule(workers, d.leastLimit()*(1+cutSlack))
	d.assign()
	blocks := d.of // of a walk along the links: good where the graph is hardly more than one
	m.refine(blocks, rule)
	halves := append([]int32(nil), of...)
	m.halve(halves, inOrder(len(of)), 0, workers, rule.limit[0])
	m.refine(halves, rule)
	if m.better(halves, blocks, rule) {
		blocks = halves
	}
	copy(of, blocks)
}

// rule says what a part must be.
type rule struct {
	limit []float64 // most work, by part
	least []int32   // fewest nodes of the scenario, by part
}

func evenRule(parts int, limit float64) rule {
	r := rule{make([]float64, parts), make([]int32, parts)}
	for w := range r.limit {
		r.limit[w], r.least[w] = limit*(1+1e-9), 1 // sums in another order differ
	}
	return r
}

// halve fills part for the given nodes, with the workers from first on.
func (m *mesh) halve(part, nodes []int32, first, workers int, limit float64) {
	if workers == 1 {
		for _, n := range nodes {
			part[n] = int32(first)
		}
		return
	}
	left := workers / 2
	sub := m.sub(nodes)
	for i, n := range nodes {
		switch pin := m.pin[n]; {
		case pin == free:
			sub.pin[i] = free
		case int(pin) >= first+left:
			sub.pin[i] = 1
		}
	}
	right := workers - left
	side := sub.bisect(rule{[]float64{limit * float64(left), limit * float64(right)},
		[]int32{int32(left), int32(right)}})
	var sides [2][]int32
	for i, n := range nodes {
		sides[side[i]] = append(sides[side[i]], n)
	}
	m.halve(part, sides[0], first, left, limit)
	m.halve(part, sides[1], first+left, right, limit)
}

// bisect gives the side of every node.
func (m *mesh) bisect(r rule) []int32 {
	levels := m.coarsen(coarseNodes)
	coarse := levels[len(levels)-1]
	var part []int32
	for try := range growTries {
		p := coarse.grow(r, try*len(coarse.work)/growTries)
		coarse.refine(p, r)
		if try == 0 || coarse.better(p, part, r) {
			part = p
		}
	}
	for i := len(levels) - 2; i >= 0; i-- {
		fine := make([]int32, len(levels[i].work))
		for n := range fine {
			fine[n] = part[levels[i].up[n]]
		}
		part = fine
		levels[i].refine(part, r)
	}
	return part
}

// better tells whether a is a better partition than b: by the rule first, then the
// cheaper cut.
func (m *mesh) better(a, b []int32, r rule) bool {
	overA, overB := m.over(a, r), m.over(b, r)
	if overA != overB {
		return overA < overB
	}
	return m.cut(a) < m.cut(b)
}

// over is by how much the busiest part is beyond its limit; +Inf if one has too few nodes.
func (m *mesh) over(part []int32, r rule) float64 {
	load, size := make([]float64, len(r.limit)), make([]int32, len(r.limit))
	for n, w := range part {
		load[w] += m.work[n]
		size[w] += m.size[n]
	}
	over := 0.0
	for w := range load {
		if size[w] < r.least[w] {
			return math.Inf(1)
		}
		over = max(over, load[w]-r.limit[w])
	}
	return over
}

func (m *mesh) cut(part []int32) float64 {
	sum := 0.0
	for n := range part {
		for i := m.start[n]; i < m.start[n+1]; i++ {
			if part[m.to[i]] != part[n] {
				sum += m.cost[i]
			}
		}
	}
	return sum / 2
}

// grow makes a first partition in two: the first side takes the free node that is tied to
// it most, until it has its share. Its first node is looked for from node first on.
func (m *mesh) grow(r rule, first int) []int32 {
	part := append([]int32(nil), m.pin...)
	var load [2]float64
	var size [2]int32
	for n, w := range m.pin {
		if w == free {
			w = 1 // for the time being
		}
		load[w] += m.work[n]
		size[w] += m.size[n]
	}
	share := (load[0] + load[1]) * r.limit[0] / (r.limit[0] + r.limit[1])
	for {
		n := m.nearest(part, 0, first)
		if n < 0 || size[1]-m.size[n] < r.least[1] || size[0] >= r.least[0] && load[0]+m.work[n]/2 > share {
			break
		}
		part[n] = 0
		load[0] += m.work[n]
		load[1] -= m.work[n]
		size[0] += m.size[n]
		size[1] -= m.size[n]
	}
	for n := range part {
		if part[n] == free {
			part[n] = 1
		}
	}
	return part
}

// nearest is the free node with the strongest ties to w's nodes; the first free one, from
// node first on, if there are no ties; -1 if none is free.
func (m *mesh) nearest(part []int32, w int32, first int) int {
	best, most := -1, -1.0
	for i := range part {
		n := (first + i) % len(part)
		if part[n] != free {
			continue
		}
		ties := 0.0
		for i := m.start[n]; i < m.start[n+1]; i++ {
			if part[m.to[i]] == w {
				ties += m.cost[i]
			}
		}
		if ties > most {
			best, most = n, ties
		}
	}
	return best
}

// refine moves nodes between parts while that makes the cut cheaper, or a part that is
// beyond its limit less so.
func (m *mesh) refine(part []int32, to rule) {
	parts := len(to.limit)
	if parts == 1 {
		return
	}
	r := &refinement{
		mesh: m, rule: to, part: part, load: make([]float64, parts), count: make([]int32, parts),
		ties:   make([]float64, parts),
		locked: make([]bool, len(part)), version: make([]uint32, len(part)), queue: heap.New(candidate.before),
	}
	for n, w := range part {
		r.heaviest = max(r.heaviest, m.work[n])
		r.load[w] += m.work[n]
		r.count[w] += m.size[n]
	}
	for range refinePasses {
		if !r.pass() {
			return
		}
	}
}

// refinement is the state of refining one level.
type refinement struct {
	*mesh
	rule
	part     []int32
	heaviest float64   // on the way limits are loose by this: even partitions change by swaps
	load     []float64 // by part
	count    []int32   // by part
	ties     []float64 // by part: scratch of best
	locked   []bool    // by node: moved in this pass
	version  []uint32  // by node: of its newest candidate
	queue    heap.Heap[candidate]
}

// move remembers where a node came from.
type move struct{ n, from int32 }

// pass makes the best moves, each node at most once, and keeps the best state on the
// way: the one with the least overload, and among those with the cheapest cut.
func (r *refinement) pass() bool {
	clear(r.locked)
	r.queue.Clear()
	for n := range r.part {
		r.offer(int32(n))
	}
	var done []move
	gain, bestGain, bestOver, kept := 0.0, 0.0, r.overload(), 0
	for r.queue.Len() > 0 && len(done)-kept < hillMoves {
		_, c := r.queue.Pop()
		if r.locked[c.n] || c.version != r.version[c.n] {
			continue
		}
		if to, g, ok := r.best(c.n); !ok {
			continue
		} else if to != c.to || g != c.gain || r.urgent(c.n) != c.urgent {
			r.offer(c.n) // loads have changed since
			continue
		}
		done = append(done, move{c.n, r.part[c.n]})
		r.apply(c.n, c.to)
		gain += c.gain
		over := r.overload()
		if over < bestOver || over == bestOver && gain > bestGain+1e-12*math.Abs(bestGain) {
			bestGain, bestOver, kept = gain, over, len(done)
		}
	}
	for i := len(done) - 1; i >= kept; i-- {
		r.shift(done[i].n, done[i].from)
	}
	return kept > 0
}

// overload is by how much the busiest worker is beyond the limit.
func (r *refinement) overload() float64 {
	over := 0.0
	for w, load := range r.load {
		over = max(over, load-r.limit[w])
	}
	return over
}

// urgent says that n's worker is beyond the limit: moves from there come first.
func (r *refinement) urgent(n int32) bool { return r.load[r.part[n]] > r.limit[r.part[n]] }

// apply moves n and looks at its neighbours again.
func (r *refinement) apply(n, to int32) {
	r.shift(n, to)
	r.locked[n] = true
	for i := r.start[n]; i < r.start[n+1]; i++ {
		r.offer(r.to[i])
	}
}

func (r *refinement) shift(n, to int32) {
	from := r.part[n]
	r.load[from] -= r.work[n]
	r.count[from] -= r.size[n]
	r.part[n] = to
	r.load[to] += r.work[n]
	r.count[to] += r.size[n]
}

// offer puts n's best move into the queue, in place of older ones.
func (r *refinement) offer(n int32) {
	if r.locked[n] || r.pin[n] != free {
		return
	}
	r.version[n]++
	if to, gain, ok := r.best(n); ok {
		c := candidate{n, to, gain, r.urgent(n), r.version[n]}
		r.queue.Push(c.key(), c)
	}
}

// best is the best part for n other than its own, and by how much the cut gets cheaper.
func (r *refinement) best(n int32) (to int32, gain float64, ok bool) {
	own := r.part[n]
	if r.count[own]-r.size[n] < r.least[own] {
		return 0, 0, false
	}
	clear(r.ties)
	outside := r.urgent(n)
	for i := r.start[n]; i < r.start[n+1]; i++ {
		w := r.part[r.to[i]]
		r.ties[w] += r.cost[i]
		outside = outside || w != own
	}
	if !outside {
		return 0, 0, false
	}
	to, gain = -1, math.Inf(-1)
	for w := range r.ties {
		load := r.load[w] + r.work[n]
		if int32(w) == own || load > r.limit[w]+r.heaviest && load >= r.load[own] {
			continue
		}
		if g := r.ties[w] - r.ties[own]; g > gain || g == gain && r.load[w] < r.load[to] {
			to, gain = int32(w), g
		}
	}
	return to, gain, to >= 0
}

// candidate is a possible move.
type candidate struct {
	n, to   int32
	gain    float64
	urgent  bool
	version uint32
}

// key orders moves: urgent ones first, then the largest gain.
func (c candidate) key() float64 {
	if c.urgent {
		return math.Inf(-1)
	}
	return -c.gain
}

// before is the order of moves of the same key.
func (c candidate) before(d candidate) bool {
	if c.urgent != d.urgent {
		return c.urgent
	}
	if c.gain != d.gain {
		return c.gain > d.gain
	}
	return c.n < d.n
}
