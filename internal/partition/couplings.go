// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"cmp"
	"math"
	"slices"

	"github.com/disco-sim/disco/node"
)

// Coupling is what holds two workers together, in a simulated second and in both directions.
type Coupling struct {
	Events float64 // that they send each other
	Rounds float64 // of messages that the shortest cycle of bounds over their lanes makes necessary
}

// Couplings are what holds the workers of a placement together.
type Couplings struct {
	Pairs [][]Coupling // [a][b] and [b][a] are the same

	s      *node.Structure
	of     []int32
	events float64 // in a simulated second; 0: the scenario states no rates
	bounds *bounds // nil: the pairs are all that is known
	held   float64 // epochs, in a simulated second, at which something is handled that waits for a cycle of bounds
	stuck  float64 // of these, those of which each takes an idle jump (bounds.stand)
	window float64 // how far one goes for the others
	crowd  float64 // events of an epoch
	still  []bool  // by lane: it is on a cycle whose bounds don't rise
	rate   func(link int) float64
}

// Couple finds the couplings of workers when node n is on worker of[n]. Where the scenario states no rates, the busiest
// link counts as one event a second. Workers that nothing but a pipeline joins need no rounds. proceed, when not nil,
// is called now and then; its error ends the work and is returned as it is.
func Couple(s *node.Structure, of []int32, workers int, proceed func() error) (*Couplings, error) {
	c := &Couplings{s: s, of: of, Pairs: make([][]Coupling, workers)}
	for a := range c.Pairs {
		c.Pairs[a] = make([]Coupling, workers)
	}
	a := newAssignment(s, Run{Workers: workers}, of, proceed)
	if err := a.weigh(); err != nil {
		return nil, err
	}
	if a.most > 0 && !math.IsInf(a.events, 1) {
		c.events = a.events
	}
	for from, row := range Traffic(s, of, workers) {
		for to, events := range row {
			c.Pairs[from][to].Events += events * cmp.Or(a.most, 1)
			c.Pairs[to][from].Events += events * cmp.Or(a.most, 1)
		}
	}
	if err := a.proceed(); err != nil {
		return nil, err
	}
	f := newFlow(s, of, workers, &flowSpace{})
	b, vertex := newBounds(f)
	still, stuck := b.stand()
	c.bounds, c.still, c.window = b, still, b.window(stuck)
	c.rate = func(k int) float64 { return a.rate(k) * cmp.Or(a.most, 1) }
	if err := a.proceed(); err != nil {
		return nil, err
	}
	c.held, c.crowd = c.epochsOf(a, func(id node.SimprocID, n int) bool { return b.held[vertex(f.vertex(id, n))] })
	c.stuck, _ = c.epochsOf(a, func(id node.SimprocID, n int) bool { return stuck[vertex(f.vertex(id, n))] })
	space := &shortestSpace{}
	for lane, ends := range b.ends {
		if err := a.proceed(); err != nil {
			return nil, err
		}
		rounds := min(1/b.shortest(lane, space), c.held)
		for _, p := range []*Coupling{&c.Pairs[ends[0]][ends[1]], &c.Pairs[ends[1]][ends[0]]} {
			p.Rounds = max(p.Rounds, rounds)
		}
	}
	return c, nil
}

// epochsOf is how many epochs have something that is held, and how many events an epoch has. What a node handles beyond
// what links bring it are events of its own, which are held if any of its simprocs is. Where the scenario says how many
// epochs there are, what comes over a link without lookahead is at one that counts already.
func (c *Couplings) epochsOf(a *assignment, held func(id node.SimprocID, n int) bool) (epochs, crowd float64) {
	s, unit, layers := c.s, cmp.Or(a.most, 1), len(c.s.Simprocs())
	all, sum := 0.0, 0.0
	crowded := known(s.Epochs())
	free, caught := make([]float64, s.NumNodes()), make([]float64, s.NumNodes())
	add := func(id node.SimprocID, n int, rate float64) {
		if held(id, n) {
			caught[n] += rate
		} else {
			free[n] += rate
		}
	}
	eachLink(s, func(id node.SimprocID, k, from, to int) {
		rate := a.rate(k) * unit
		if crowded && s.Lookahead(k) == 0 && held(id, from) {
			free[to] += rate // at the epoch of an event that counts already
		} else if from != to {
			add(s.To(k), to, rate)
		}
	})
	for _, m := range s.Meshes() {
		for n := range s.NumNodes() {
			add(node.SimprocID(n*layers+m.To), n, a.meshRate(m)*unit/float64(s.NumNodes()))
		}
	}
	for n := range s.NumNodes() {
		all += max(s.Work(n), free[n]+caught[n])
		for id := n * layers; id < (n+1)*layers; id++ {
			if held(node.SimprocID(id), n) {
				sum += max(s.Work(n)-free[n], caught[n])
				break
			}
		}
	}
	if epochs := s.Epochs(); known(epochs) && epochs < all {
		return min(sum, epochs), all / epochs
	}
	return min(sum, math.MaxFloat64), 1
}

// Waiting is how long a simulated second waits for messages between workers that are on these machines: for bounds that
// go round, or for idle jumps, whichever takes simulated time further. An idle jump takes a round trip to the first
// machine, and half of one more for each time that what happens at one epoch goes from machine to machine and may come
// back.
func (c *Couplings) Waiting(n *Network, on []int32) float64 {
	leader, farthest := slices.Min(on), 0.0
	for _, i := range on {
		farthest = max(farthest, n.RoundTrip[leader][i])
	}
	if c.bounds == nil || farthest == 0 || !slices.Contains(c.bounds.cyclic, true) {
		return c.pairsWait(n, on)
	}
	jumps := c.stuck
	if more := c.held - c.stuck; more > 0 {
		jumps += 1 / (1/more + c.window)
	}
	jumps *= farthest * (1 + c.crossings(on)/2)
	if slices.Contains(c.still, true) {
		return jumps
	}
	return min(jumps, c.bounds.slowest(func(lane int) float64 {
		ends := c.bounds.ends[lane]
		return n.RoundTrip[on[ends[0]]][on[ends[1]]] / 2
	}))
}

// pairsWait is the longest wait of two workers for each other.
func (c *Couplings) pairsWait(n *Network, on []int32) (wait float64) {
	for a := range c.Pairs {
		for b := range a {
			wait = max(wait, c.Pairs[a][b].Rounds*n.RoundTrip[on[a]][on[b]])
		}
	}
	return wait
}

// crossings is how often what happens at one epoch goes from one machine to another: as often as the longest way over
// links without lookahead does, and once for each level at which bounds that go round without lookahead arrive, since
// they rise by a level with each lane; but not for more events than an epoch has beyond the first, nor than these links
// carry.
func (c *Couplings) crossings(on []int32) float64 {
	if c.crowd <= 1 || c.held == 0 {
		return 0
	}
	s, layers, between := c.s, len(c.s.Simprocs()), map[[2]int32]bool{}
	for lane, still := range c.still {
		between[c.bounds.ends[lane]] = still
	}
	order := inOrder(s.NumSimprocs())
	slices.SortFunc(order, func(x, y int32) int {
		return cmp.Compare(s.Level(node.SimprocID(x)), s.Level(node.SimprocID(y)))
	})
	levels, count, most, carried := map[uint32]bool{}, make([]int32, len(order)), int32(0), 0.0
	for _, id := range order {
		n, own := int(id)/layers, count[id]
		most = max(most, own)
		if int(id)+1 < (n+1)*layers {
			count[id+1] = max(count[id+1], own)
		}
		first, end := s.LinksOf(node.SimprocID(id))
		for k := first; k < end; k++ {
			if s.Lookahead(k) > 0 {
				continue
			}
			to, from, at := s.To(k), c.of[n], c.of[s.Node(s.To(k))]
			if on[from] == on[at] {
				count[to] = max(count[to], own)
				continue
			}
			count[to] = max(count[to], own+1)
			carried += c.rate(k)
			if between[[2]int32{from, at}] {
				levels[s.Level(to)] = true
			}
		}
	}
	return min(max(float64(most), float64(len(levels))), c.crowd-1, carried/c.held)
}
