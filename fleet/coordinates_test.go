// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/sim"
)

// Whether distances that are predicted from coordinates (Vivaldi: Dabek, Cox, Kaashoek, Morris, "Vivaldi: A
// Decentralized Network Coordinate System", SIGCOMM 2004) choose better gangs than those that were measured: 50
// machines of three sites on simulated time, each of which measures one other after the other, by both.

const (
	machinesThere = 50
	sites         = 3
)

// network is what lies between machines, in truth: seconds.
type network struct {
	r    *rand.Rand
	trip [machinesThere][machinesThere]float64
	site [machinesThere]int
}

// newNetwork makes sites of racks. The way between two sites is longer than that over the third one, and some pairs
// take a detour: so triangles are violated.
func newNetwork(seed uint64) *network {
	n := &network{r: rand.New(rand.NewPCG(seed, 20))}
	far := [sites][sites]float64{{0, 0.012, 0.080}, {0.012, 0, 0.025}, {0.080, 0.025, 0}}
	var last [machinesThere]float64 // from the machine to its switch and back
	for i := range n.site {
		n.site[i], last[i] = i%sites, 0.00003+0.0003*n.r.Float64()*n.r.Float64()
	}
	for i := range n.trip {
		for j := range i {
			x := last[i] + last[j] + far[n.site[i]][n.site[j]]
			if i/sites%4 != j/sites%4 { // another rack
				x += 0.00025
			}
			x *= math.Exp(0.15 * n.r.NormFloat64())
			if n.r.Float64() < 0.05 {
				x *= 3
			}
			n.trip[i][j], n.trip[j][i] = x, x
		}
	}
	return n
}

// sample is the least of ten round trips, each of which waits in queues.
func (n *network) sample(i, j int) float64 {
	least := math.Inf(1)
	for range 10 {
		x := n.trip[i][j]*(1+0.02*n.r.ExpFloat64()) + 0.00005*n.r.ExpFloat64()
		if n.r.Float64() < 0.05 {
			x += 0.005 * n.r.ExpFloat64()
		}
		least = min(least, x)
	}
	return least
}

// coordinate is a machine's, of Vivaldi with a height: section 5.4 of the paper, with its constants.
type coordinate struct {
	at     [3]float64
	height float64
	wrong  float64 // estimate of its own error
}

func (c *coordinate) to(o *coordinate) float64 {
	sum := 0.0
	for k := range c.at {
		sum += (c.at[k] - o.at[k]) * (c.at[k] - o.at[k])
	}
	return math.Sqrt(sum) + c.height + o.height
}

// learn moves a coordinate by a measurement to another one: figure 3 of the paper.
func (c *coordinate) learn(o *coordinate, trip float64, r *rand.Rand) {
	const tune = 0.25
	d := c.to(o)
	weight := c.wrong / (c.wrong + o.wrong)
	c.wrong = max(1e-3, min(2, math.Abs(d-trip)/trip*tune*weight+c.wrong*(1-tune*weight)))
	push := tune * weight * (trip - d)
	var way [3]float64
	length := 0.0
	for k := range way {
		way[k] = c.at[k] - o.at[k]
		length += way[k] * way[k]
	}
	if length = math.Sqrt(length); length < 1e-9 {
		for k := range way {
			way[k] = r.NormFloat64()
		}
		length = math.Sqrt(way[0]*way[0] + way[1]*way[1] + way[2]*way[2])
	}
	for k := range way {
		c.at[k] += push * way[k] / length
	}
	c.height = max(1e-5, c.height+push*(c.height+o.height)/max(d, 1e-9))
}

// learned is what 50 machines know after some measurements.
type learned struct {
	measured [machinesThere][machinesThere]float64 // 0: not yet
	at       [machinesThere]coordinate
}

// The ways to tell a distance; 0 where one can't.
var tellers = []struct {
	name string
	// tell gives what the vitals have; 0: nothing.
	tell func(l *learned, n *network, i, j int) float64
}{
	{"measured, else 1 s", func(l *learned, _ *network, i, j int) float64 {
		if x := max(l.measured[i][j], l.measured[j][i]); x > 0 {
			return x
		}
		return farAway
	}},
	{"Vivaldi", func(l *learned, _ *network, i, j int) float64 { return l.at[i].to(&l.at[j]) }},
	{"measured, else Vivaldi", func(l *learned, _ *network, i, j int) float64 {
		if x := max(l.measured[i][j], l.measured[j][i]); x > 0 {
			return x
		}
		return l.at[i].to(&l.at[j])
	}},
	{byThird, func(l *learned, _ *network, i, j int) float64 {
		return max(l.measured[i][j], l.measured[j][i])
	}},
	{"names alone", func(*learned, *network, int, int) float64 { return 0 }},
}

// learn has machines measure, on simulated time, as agents do: each another one each 2.5 to 7.5 s, in an order of its
// own, and all of them before one comes again. It calls look when each has made so many measurements.
func (n *network) learn(t *testing.T, budgets []int, look func(budget int, l *learned)) {
	t.Helper()
	l := &learned{}
	for i := range l.at {
		l.at[i] = coordinate{height: 1e-5, wrong: 1}
	}
	most := budgets[len(budgets)-1]
	made, full := [machinesThere]int{}, map[int]int{}
	var orders [machinesThere][]int
	m, err := sim.New("coordinates", func(b *sim.Builder) {
		b.Horizon(8 * float64(most+1))
		b.Node("network", func(node *sim.Node) {
			node.Start(func(c *sim.Context) {
				var measure func(i int)
				measure = func(i int) {
					if len(orders[i]) == 0 {
						orders[i] = n.r.Perm(machinesThere)
					}
					j := orders[i][0]
					if orders[i] = orders[i][1:]; j == i {
						measure(i)
						return
					}
					trip := n.sample(i, j)
					l.measured[i][j] = trip
					l.at[i].learn(&l.at[j], trip, n.r)
					if made[i]++; slices.Contains(budgets, made[i]) {
						if full[made[i]]++; full[made[i]] == machinesThere {
							look(made[i], l)
						}
					}
					if made[i] < most {
						c.After(2.5+5*n.r.Float64(), func(*sim.Context) { measure(i) })
					}
				}
				for i := range machinesThere {
					c.After(5*n.r.Float64(), func(*sim.Context) { measure(i) })
				}
			})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := modeltest.Run(m, modeltest.Config{Seed: 1}); err != nil {
		t.Fatal(err)
	}
}

// byThird is what the leader does: what isn't told is as far as over a third machine.
const byThird = "measured, else by a third"

// leader is one that knows of all machines, of which some are free, and what is told of the ways between them.
func (n *network) leader(t *testing.T, free []int, tell func(i, j int) float64) *bench {
	b := newBench(t, machinesThere, 1, Rules{})
	for i := range machinesThere {
		name := fmt.Sprint("m", i)
		v := &Vitals{Far: map[string]float64{}}
		for j := range machinesThere {
			if d := tell(i, j); i != j && d > 0 {
				v.Far[fmt.Sprint("m", j)] = d
			}
		}
		b.machine(name).vitals, b.machine(name).newVitals = v, v
		if !slices.Contains(free, i) {
			b.be(name+"-0", cluster.Broken, nil)
		}
	}
	return b
}

// gang is the sum of true round trips between the machines of a gang, which the leader's own code chooses of those that
// are free.
func (n *network) gang(t *testing.T, free []int, size int, tell func(i, j int) float64) (sum float64) {
	b := n.leader(t, free, tell)
	b.submit("e", 1, size)
	b.decide(0)
	gang := membersOf(b.piece("e", 0).Gang)
	if len(gang) != size {
		t.Fatalf("found a gang of %d", len(gang))
	}
	number := func(name string) (i int) {
		_, _ = fmt.Sscanf(name, "m%d", &i) // it is the test's own
		return i
	}
	for x, a := range gang {
		for _, other := range gang[:x] {
			sum += n.trip[number(a)][number(other)]
		}
	}
	return sum
}

// figures of one teller at one budget: of each network one.
type figures struct{ wrong, gangs []float64 }

// TestCoordinates compares what is measured with what Vivaldi predicts: errors, and gangs. It prints the table of
// docs/fleet.md, and holds the verdict: from a minute of measurements on, what is measured, or else is as far as over a
// third machine, is nearer to the truth than Vivaldi, and chooses gangs that are at least as good as those by Vivaldi,
// alone or where nothing is measured.
func TestCoordinates(t *testing.T) {
	budgets := []int{3, 6, 12, 24, 60, 120}
	const networks, trials, atOnce, size = 5, 12, 20, 6
	all := make([]map[int]*figures, len(tellers))
	for k := range all {
		all[k] = map[int]*figures{}
		for _, budget := range budgets {
			all[k][budget] = &figures{}
		}
	}
	for seed := range uint64(networks) {
		n := newNetwork(seed)
		n.learn(t, budgets, func(budget int, l *learned) {
			for k, teller := range tellers {
				tell := func(i, j int) float64 { return teller.tell(l, n, i, j) }
				f := all[k][budget]
				f.wrong = append(f.wrong, n.wrong(t, tell))
				f.gangs = append(f.gangs, n.worse(t, trials, atOnce, size, tell))
			}
		})
	}
	var text strings.Builder
	for _, budget := range budgets {
		for k, teller := range tellers {
			f := all[k][budget]
			if len(f.gangs) != networks {
				t.Fatalf("found %d networks behind %d measurements", len(f.gangs), budget)
			}
			fmt.Fprintf(&text, "%4d  %-25s error %s  gangs %s\n", budget, teller.name, spread(f.wrong),
				spread(f.gangs))
		}
	}
	t.Logf("each machine's measurements; the middle and the ends of %d networks; error: median of |told − true| ÷ "+
		"true, of pairs that are told; gangs: true round trips in them ÷ those of gangs that are chosen by the "+
		"truth\n%s", networks, &text)
	for _, budget := range budgets[2:] { // a minute of measurements and more
		measured, vivaldi, both := all[3][budget], all[1][budget], all[2][budget]
		if median(measured.wrong) >= median(vivaldi.wrong) ||
			median(measured.gangs) > min(median(vivaldi.gangs), median(both.gangs)) {
			t.Errorf("Vivaldi is better behind %d measurements: then gangs should go by it", budget)
		}
	}
}

// wrong is the median error of the distances that a leader goes by; 1 s is none.
func (n *network) wrong(t *testing.T, tell func(i, j int) float64) float64 {
	b := n.leader(t, nil, tell)
	var errs []float64
	for i := range machinesThere {
		for j := range i {
			w := b.between(b.machine(fmt.Sprint("m", i)), b.machine(fmt.Sprint("m", j)))
			if d := w.roundTrip; d > 0 && d < farAway {
				errs = append(errs, math.Abs(d-n.trip[i][j])/n.trip[i][j])
			}
		}
	}
	if len(errs) == 0 {
		return 1
	}
	return median(errs)
}

// worse is by how much gangs are longer than those that are chosen by the truth, on average over some choices of
// machines that are free.
func (n *network) worse(t *testing.T, trials, atOnce, size int, tell func(i, j int) float64) (mean float64) {
	r := rand.New(rand.NewPCG(1, 21))
	for range trials {
		free := r.Perm(machinesThere)[:atOnce]
		best := n.gang(t, free, size, func(i, j int) float64 { return n.trip[i][j] })
		mean += n.gang(t, free, size, tell) / best / float64(trials)
	}
	return mean
}

// spread is the middle one of some values, and the ends.
func spread(values []float64) string {
	values = slices.Clone(values)
	middle := median(values)
	return fmt.Sprintf("%6.3f (%.3f to %.3f)", middle, values[0], values[len(values)-1])
}
