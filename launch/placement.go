package launch

import (
	"fmt"
	"math"
	"sort"

	"github.com/disco-sim/disco/node"
)

// Placement says which worker hosts which node. It is a matter of speed alone:
// results are the same for every placement.
type Placement struct {
	Workers int
	Of      []int32   // worker of each node
	Work    []float64 // expected work of each worker, in the unit of node.Node.Work
	Nodes   []int     // number of nodes of each worker

	// Cut is the share of the expected traffic, or of the links where the scenario
	// doesn't tell rates, that runs from one worker to another: 0 to 1.
	Cut float64
}

// Balance is the busiest worker's expected work as a multiple of the mean: 1 is
// even, and the number of workers is the worst.
func (p *Placement) Balance() float64 {
	sum, most := 0.0, 0.0
	for _, w := range p.Work {
		sum += w
		most = max(most, w)
	}
	if sum == 0 {
		return 1
	}
	return most * float64(len(p.Work)) / sum
}

const (
	// zeroWork is the share of the mean work that a node without any counts for,
	// so that nodes nobody expects much of are still spread.
	zeroWork = 1e-3

	// cutSlack is how much worse than the best possible the busiest worker may be
	// for the sake of fewer events between workers. Expected work is an estimate
	// that is seldom better than this.
	cutSlack = 0.05

	// cutPrice is what a shift of a border costs: moving 1 % of a worker's share
	// must save more than 2 % of the traffic over that border. Without a price a
	// graph in which everybody talks to everybody would always take the whole slack,
	// for a cut that is hardly smaller.
	cutPrice = 2
)

// Place spreads the nodes of g over the workers. Nodes in pinned (worker by node
// index) stay where they were put; the others are dealt out as contiguous blocks of
// a depth-first order over the links, so that neighbours tend to share a worker.
// Block borders make the busiest worker as little busy as blocks allow, within
// cutSlack, and among those cut the least traffic.
//
// A worker that is left without a node is an error: its process would be there for
// nothing, and the person who pinned the nodes should know.
func Place(g *node.Graph, workers int, pinned map[int]int32) (*Placement, error) {
	if workers < 1 || workers > len(g.Nodes) {
		return nil, fmt.Errorf("launch: %d workers for %d nodes, want 1 to %d", workers, len(g.Nodes), len(g.Nodes))
	}
	of := make([]int32, len(g.Nodes))
	for n := range of {
		of[n] = -1
	}
	for n, w := range pinned {
		if n < 0 || n >= len(of) || w < 0 || int(w) >= workers {
			return nil, fmt.Errorf("launch: node %d is placed on worker %d, but there are %d nodes and workers 0 to %d", n, w, len(of), workers-1)
		}
		of[n] = w
	}
	work := expectedWork(g)
	d := newDeal(g, workers, of, work)
	d.deal()
	p := &Placement{Workers: workers, Of: of, Work: make([]float64, workers), Nodes: make([]int, workers)}
	for n, w := range of {
		p.Work[w] += g.Nodes[n].Work
		p.Nodes[w]++
	}
	for w, count := range p.Nodes {
		if count == 0 {
			return nil, fmt.Errorf("launch: the placement leaves worker %d of %d without a node: use fewer workers, or place a node on it", w, workers)
		}
	}
	p.Cut = cutShare(g, of)
	return p, nil
}

// expectedWork is the weight of every node: what the scenario says, scaled so that
// sums can't overflow, with a little for those that say 0.
func expectedWork(g *node.Graph) []float64 {
	most := 0.0
	for _, n := range g.Nodes {
		most = max(most, n.Work)
	}
	work := make([]float64, len(g.Nodes))
	if most == 0 {
		for i := range work {
			work[i] = 1
		}
		return work
	}
	sum := 0.0
	for i, n := range g.Nodes {
		work[i] = n.Work / most
		sum += work[i]
	}
	least := zeroWork * sum / float64(len(work))
	for i := range work {
		work[i] = max(work[i], least)
	}
	return work
}

// linkRates is the weight of every link: its rate; the mean of the known ones where
// it is unknown; 1 where none is known.
func linkRates(g *node.Graph) []float64 {
	most, sum, known := 0.0, 0.0, 0
	for _, l := range g.Links {
		if l.Rate > 0 && !math.IsInf(l.Rate, 1) {
			most = max(most, l.Rate)
		}
	}
	rates := make([]float64, len(g.Links))
	for i, l := range g.Links {
		if l.Rate > 0 && !math.IsInf(l.Rate, 1) {
			rates[i] = l.Rate / most
			sum += rates[i]
			known++
		}
	}
	mean := 1.0
	if known > 0 {
		mean = sum / float64(known)
	}
	for i := range rates {
		if rates[i] == 0 {
			rates[i] = mean
		}
	}
	return rates
}

// cutShare is the share of the traffic between different nodes that leaves its
// worker.
func cutShare(g *node.Graph, of []int32) float64 {
	all, cut := 0.0, 0.0
	for i, rate := range linkRates(g) {
		from, to := g.Links[i].From.Node, g.Links[i].To.Node
		if from == to {
			continue
		}
		all += rate
		if of[from] != of[to] {
			cut += rate
		}
	}
	if all == 0 {
		return 0
	}
	return cut / all
}

// deal is one dealing out of the nodes that nobody pinned.
type deal struct {
	of      []int32   // worker of each node, by node; filled by deal
	order   []int     // unpinned nodes in depth-first order
	sums    []float64 // sums[i]: work of order[:i]
	across  []float64 // across[i]: traffic between order[:i] and order[i:]
	loads   []float64 // pinned work of each worker
	needy   []bool    // workers without a pinned node: they must get one
	workers int
}

func newDeal(g *node.Graph, workers int, of []int32, work []float64) *deal {
	d := &deal{of: of, workers: workers, loads: make([]float64, workers), needy: make([]bool, workers)}
	for w := range d.needy {
		d.needy[w] = true
	}
	near := newNeighbours(g)
	for _, n := range near.depthFirst() {
		if w := of[n]; w >= 0 {
			d.loads[w] += work[n]
			d.needy[w] = false
			continue
		}
		d.order = append(d.order, n)
	}
	d.sums = make([]float64, len(d.order)+1)
	place := make([]int, len(of)) // position in order + 1; 0: pinned
	for i, n := range d.order {
		d.sums[i+1] = d.sums[i] + work[n]
		place[n] = i + 1
	}
	// A link between positions i < j crosses the borders i+1 to j: difference sums.
	d.across = make([]float64, len(d.order)+2)
	for i, rate := range linkRates(g) {
		a, b := place[g.Links[i].From.Node], place[g.Links[i].To.Node]
		if a == 0 || b == 0 {
			continue
		}
		d.across[min(a, b)] += rate
		d.across[max(a, b)] -= rate
	}
	for i := 1; i < len(d.across); i++ {
		d.across[i] += d.across[i-1]
	}
	return d
}

// deal chooses the borders from left to right. Each border may lie anywhere from
// which the workers to the right can still manage the rest, and up to which the
// worker to the left can manage its own. Near the even share it is drawn towards
// little traffic across.
func (d *deal) deal() {
	limit := d.leastLimit() * (1 + cutSlack)
	earliest := d.earliest(limit)
	at := 0
	for w := 0; w < d.workers; w++ {
		end := len(d.order)
		if w < d.workers-1 {
			end = d.border(w, at, max(at, earliest[w+1]), d.reach(w, at, limit))
		}
		for _, n := range d.order[at:end] {
			d.of[n] = int32(w)
		}
		at = end
	}
}

// border picks the end of worker w's block, which starts at at, between low and high.
func (d *deal) border(w, at, low, high int) int {
	if d.needy[w] {
		low = max(low, at+1)
	}
	high = min(high, len(d.order)-d.needyAfter(w))
	if high <= low {
		return max(min(low, len(d.order)), at)
	}
	left := d.sums[len(d.order)] - d.sums[at]
	for _, load := range d.loads[w:] {
		left += load
	}
	share := left / float64(d.workers-w)
	even := d.sums[at] + share - d.loads[w]
	best := low
	for i := low; i <= high; i++ {
		if math.Abs(d.sums[i]-even) < math.Abs(d.sums[best]-even) {
			best = i
		}
	}
	cost := func(i int) float64 {
		return d.across[i] + d.across[best]*cutPrice*math.Abs(d.sums[i]-even)/share
	}
	cheapest := best
	for i := low; i <= high; i++ {
		if cost(i) < cost(cheapest) {
			cheapest = i
		}
	}
	return cheapest
}

// needyAfter is the number of workers after w that must get a node.
func (d *deal) needyAfter(w int) int {
	n := 0
	for _, needy := range d.needy[w+1:] {
		if needy {
			n++
		}
	}
	return n
}

// reach is the last end of a block of worker w that starts at at and keeps the
// worker's load within limit; at least one node for a needy worker.
func (d *deal) reach(w, at int, limit float64) int {
	room := d.sums[at] + limit - d.loads[w]
	end := sort.Search(len(d.order)-at, func(i int) bool { return d.sums[at+i+1] > room }) + at
	if d.needy[w] && end == at && at < len(d.order) {
		end = at + 1
	}
	return end
}

// fits tells whether all unpinned nodes can be dealt out with no load over limit.
func (d *deal) fits(limit float64) bool {
	at := 0
	for w := 0; w < d.workers; w++ {
		if d.loads[w] > limit {
			return false
		}
		end := min(d.reach(w, at, limit), len(d.order)-d.needyAfter(w))
		if end > at && d.sums[end]-d.sums[at]+d.loads[w] > limit {
			return false
		}
		at = max(at, end)
	}
	return at == len(d.order)
}

// leastLimit is the least load of the busiest worker, found by halving; 60 halvings
// are more than a float64 can tell apart.
func (d *deal) leastLimit() float64 {
	low, high := 0.0, d.sums[len(d.order)]
	for _, load := range d.loads {
		high = max(high, load+d.sums[len(d.order)])
	}
	for range 60 {
		if mid := low + (high-low)/2; d.fits(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// earliest gives, for every worker w, the first position from which the workers w,
// w+1, … can take all the rest within limit.
func (d *deal) earliest(limit float64) []int {
	first := make([]int, d.workers+1)
	first[d.workers] = len(d.order)
	for w := d.workers - 1; w >= 0; w-- {
		end := first[w+1]
		room := limit - d.loads[w]
		start := sort.Search(end, func(i int) bool { return d.sums[end]-d.sums[i] <= room })
		if d.needy[w] && start == end && end > 0 {
			start = end - 1
		}
		first[w] = start
	}
	return first
}

// neighbours is the link graph without directions, as one array of neighbours with
// an index by node.
type neighbours struct {
	start []int // start[n] to start[n+1]: n's part of to
	to    []int
	rate  []float64
}

func newNeighbours(g *node.Graph) *neighbours {
	nb := &neighbours{start: make([]int, len(g.Nodes)+2)}
	for _, l := range g.Links {
		if l.From.Node != l.To.Node {
			nb.start[l.From.Node+2]++
			nb.start[l.To.Node+2]++
		}
	}
	for i := 2; i < len(nb.start); i++ {
		nb.start[i] += nb.start[i-1]
	}
	nb.to = make([]int, nb.start[len(nb.start)-1])
	nb.rate = make([]float64, len(nb.to))
	add := func(from, to int, rate float64) {
		i := nb.start[from+1]
		nb.start[from+1]++
		nb.to[i], nb.rate[i] = to, rate
	}
	for i, rate := range linkRates(g) {
		if l := g.Links[i]; l.From.Node != l.To.Node {
			add(l.From.Node, l.To.Node, rate)
			add(l.To.Node, l.From.Node, rate)
		}
	}
	for n := range g.Nodes {
		from, to := nb.start[n], nb.start[n+1]
		sort.Stable(part{to: nb.to[from:to], rate: nb.rate[from:to]})
	}
	return nb
}

// part sorts one node's neighbours: the busiest link first, then by index.
type part struct {
	to   []int
	rate []float64
}

func (p part) Len() int { return len(p.to) }
func (p part) Less(i, j int) bool {
	if p.rate[i] != p.rate[j] {
		return p.rate[i] > p.rate[j]
	}
	return p.to[i] < p.to[j]
}
func (p part) Swap(i, j int) {
	p.to[i], p.to[j] = p.to[j], p.to[i]
	p.rate[i], p.rate[j] = p.rate[j], p.rate[i]
}

// depthFirst visits every node once, in preorder, starting anew at the first node
// not yet seen. It keeps its own stack: scenarios may be a million nodes deep.
func (nb *neighbours) depthFirst() []int {
	count := len(nb.start) - 2
	order := make([]int, 0, count)
	seen := make([]bool, count)
	next := make([]int, count) // next neighbour to look at
	copy(next, nb.start)
	var stack []int
	for root := range count {
		if seen[root] {
			continue
		}
		seen[root] = true
		order = append(order, root)
		stack = append(stack[:0], root)
		for len(stack) > 0 {
			n := stack[len(stack)-1]
			if next[n] == nb.start[n+1] {
				stack = stack[:len(stack)-1]
				continue
			}
			to := nb.to[next[n]]
			next[n]++
			if !seen[to] {
				seen[to] = true
				order = append(order, to)
				stack = append(stack, to)
			}
		}
	}
	return order
}
