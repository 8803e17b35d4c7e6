// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/seed"
	"github.com/disco-sim/disco/node"
)

// evenNetwork is machines with so many slots each, all as far from each other.
func evenNetwork(roundTrip, secondsPerByte float64, slots ...int) *Network {
	n := &Network{Slots: slots}
	for i := range slots {
		n.RoundTrip = append(n.RoundTrip, slices.Repeat([]float64{roundTrip}, len(slots)))
		n.SecondsPerByte = append(n.SecondsPerByte, slices.Repeat([]float64{secondsPerByte}, len(slots)))
		n.RoundTrip[i][i], n.SecondsPerByte[i][i] = 0, 0
	}
	return n
}

// coupled is workers of which some pairs have so many events and rounds.
func coupled(workers int, pairs map[[2]int]Coupling) *Couplings {
	c := make([][]Coupling, workers)
	for a := range c {
		c[a] = make([]Coupling, workers)
	}
	for p, v := range pairs {
		c[p[0]][p[1]], c[p[1]][p[0]] = v, v
	}
	return &Couplings{Pairs: c}
}

func randomNetwork(r *rand.Rand, workers int) *Network {
	machines := 2 + r.IntN(2)
	n := evenNetwork(0, 0, make([]int, machines)...)
	for i := range machines {
		n.Slots[i] = 1 + r.IntN(workers)
		for j := range i {
			n.RoundTrip[i][j] = math.Exp2(float64(-16 + r.IntN(8)))
			n.SecondsPerByte[i][j] = math.Exp2(float64(-32 + r.IntN(8)))
		}
	}
	for sum := 0; sum < workers; n.Slots[0]++ {
		sum = 1
		for _, s := range n.Slots {
			sum += s
		}
	}
	n.Settle()
	return n
}

func randomCouplings(r *rand.Rand, workers int) *Couplings {
	pairs := map[[2]int]Coupling{}
	for a := range workers {
		for b := range a {
			if r.IntN(3) > 0 {
				c := Coupling{Events: 1e5 * r.ExpFloat64()}
				if r.IntN(2) == 0 {
					c.Rounds = math.Exp2(float64(r.IntN(16)))
				}
				pairs[[2]int{a, b}] = c
			}
		}
	}
	return coupled(workers, pairs)
}

// eachSpread calls visit with every way to put workers into slots.
func eachSpread(workers int, slots []int, visit func(of []int32)) {
	of, left := make([]int32, workers), slices.Clone(slots)
	var put func(w int)
	put = func(w int) {
		if w == workers {
			visit(of)
			return
		}
		for m := range left {
			if left[m] > 0 {
				left[m]--
				of[w] = int32(m)
				put(w + 1)
				left[m]++
			}
		}
	}
	put(0)
}

// lost is what a spread costs by the definition: nothing of the code that chooses.
func lost(c [][]Coupling, n *Network, of []int32) float64 {
	waiting, transfer := 0.0, 0.0
	for a := range c {
		for b := range a {
			if i, j := of[a], of[b]; i != j {
				waiting = max(waiting, c[a][b].Rounds*n.RoundTrip[i][j])
				transfer += c[a][b].Events * (100e-9 + 80*n.SecondsPerByte[i][j])
			}
		}
	}
	return waiting + transfer
}

// What is chosen for a few workers is the best of all spreads, and costs what the definition says. The search that many
// workers have to do with finds it in nearly all cases, too.
func TestOnMachinesAgainstAll(t *testing.T) {
	r := seed.Rand(t)
	const cases = 400
	found := 0
	for range cases {
		workers := 2 + r.IntN(5)
		c, n := randomCouplings(r, workers), randomNetwork(r, workers)
		least := math.Inf(1)
		eachSpread(workers, n.Slots, func(of []int32) { least = min(least, lost(c.Pairs, n, of)) })
		least *= 1 + 1e-9
		m, err := OnMachines(c, n)
		if err != nil {
			t.Fatal(err)
		}
		free := slices.Clone(n.Slots)
		for _, machine := range m.Of {
			if free[machine]--; free[machine] < 0 {
				t.Fatalf("%v in slots %v", m.Of, n.Slots)
			}
		}
		got := lost(c.Pairs, n, m.Of)
		if math.Abs(got-m.Seconds()) > 1e-9*got || m.Seconds() > m.InOrder || got > least {
			t.Fatalf("%v costs %v, and is predicted to cost %v; in order %v, the least is %v", m.Of, got, m.Seconds(),
				m.InOrder, least)
		}
		s := newSpreader(c.Pairs, n)
		if s.search(); lost(c.Pairs, n, s.bestOf) <= least {
			found++
		}
	}
	if t.Logf("the search alone finds it in %d of %d cases", found, cases); found < cases*9/10 {
		t.Errorf("the search alone finds it in %d of %d cases", found, cases)
	}
}

// What a person would choose.
func TestOnMachines(t *testing.T) {
	strong, medium, weak := Coupling{Events: 1e6, Rounds: 1e3}, Coupling{Events: 1e4, Rounds: 10}, Coupling{Events: 1}
	pairs := map[[2]int]Coupling{{0, 3}: strong, {1, 4}: strong, {2, 5}: strong, {0, 1}: weak, {1, 2}: weak}
	far := evenNetwork(1e-4, 1e-9, 2, 2, 2)
	for i := range 2 { // machine 2 is far away, with a slow line
		far.RoundTrip[2][i], far.RoundTrip[i][2] = 0.1, 0.1
		far.SecondsPerByte[2][i], far.SecondsPerByte[i][2] = 1e-6, 1e-6
	}
	for what, c := range map[string]struct {
		couplings *Couplings
		network   *Network
		want      []int32 // which are together: machines are numbered as they come
	}{
		"pairs stay together": {coupled(6, pairs), evenNetwork(1e-4, 1e-9, 2, 2, 2), []int32{0, 1, 2, 0, 1, 2}},
		"all fit one machine": {coupled(6, pairs), evenNetwork(1e-4, 1e-9, 2, 6, 2), []int32{0, 0, 0, 0, 0, 0}},
		"who needs few round trips is far away": {coupled(5, map[[2]int]Coupling{{0, 1}: strong, {1, 2}: medium,
			{2, 3}: strong, {4, 0}: weak}), far, []int32{0, 0, 1, 1, 2}},
		"nothing to do with each other": {coupled(3, nil), evenNetwork(1e-4, 1e-9, 2, 1), []int32{0, 0, 1}},
		"machines without slots":        {coupled(2, nil), evenNetwork(1e-4, 1e-9, 0, 1, 0, 1), []int32{0, 1}},
	} {
		m, err := OnMachines(c.couplings, c.network)
		if err != nil {
			t.Fatal(err)
		}
		if got := anew(m.Of); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
		again, err := OnMachines(c.couplings, c.network)
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Errorf("%s: another time %v (%v)", what, again, err)
		}
	}
	_, err := OnMachines(coupled(3, nil), evenNetwork(1, 1, 1, 1))
	if err == nil || !strings.Contains(err.Error(), "3 workers for 2 slots on 2 machines") {
		t.Errorf("%v", err)
	}
}

// anew numbers machines as they come.
func anew(of []int32) []int32 {
	number, next := map[int32]int32{}, make([]int32, len(of))
	for w, m := range of {
		if _, ok := number[m]; !ok {
			number[m] = int32(len(number))
		}
		next[w] = number[m]
	}
	return next
}

func TestNumbers(t *testing.T) {
	m := &Machines{Of: []int32{2, 0, 2, 1, 0}}
	if got := m.Numbers(); !slices.Equal(got, []int32{3, 0, 4, 2, 1}) {
		t.Errorf("%v", got)
	}
}

// What wasn't measured is the median, both directions are the same, and all are powers of two: a few percent more or
// less change nothing.
func TestSettle(t *testing.T) {
	n := evenNetwork(0, 0, 1, 1, 1)
	n.RoundTrip[0][1], n.RoundTrip[2][1], n.SecondsPerByte[0][1] = 130e-6, 500e-6, 1.1e-9
	n.Settle()
	roundTrip := [][]float64{{0, 0x1p-13, 0x1p-11}, {0x1p-13, 0, 0x1p-11}, {0x1p-11, 0x1p-11, 0}}
	bytes := [][]float64{{0, 0x1p-30, 0x1p-30}, {0x1p-30, 0, 0x1p-30}, {0x1p-30, 0x1p-30, 0}}
	if !reflect.DeepEqual(n.RoundTrip, roundTrip) || !reflect.DeepEqual(n.SecondsPerByte, bytes) {
		t.Errorf("%v and %v", n.RoundTrip, n.SecondsPerByte)
	}
	before := slices.Clone(n.RoundTrip[0])
	if n.Settle(); !slices.Equal(before, n.RoundTrip[0]) {
		t.Error("settling twice changes something")
	}
	unknown := evenNetwork(0, 0, 1, 1)
	if unknown.Settle(); unknown.RoundTrip[0][1] != 0 {
		t.Error("a network of which nothing was measured has a round trip")
	}
}

// Couplings count each link between two workers, in both directions, and rounds where it lies on a cycle.
func TestCouplings(t *testing.T) {
	hundred := []float64{100, 100, 100, 100, 100} // events a second of each node
	g := graph(hundred)
	g.Links = []node.Link{
		link(0, 1, 10, 0.5), link(1, 0, 20, 0.25), // a cycle between workers 0 and 1
		link(1, 2, 3, 0.5), link(2, 3, 4, 0.125), // a pipeline over workers 1 and 2
		link(4, 4, 99, 1), // to itself
	}
	s := structure(g)
	got, err := Couple(s, []int32{0, 1, 2, 2, 2}, 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := coupled(3, map[[2]int]Coupling{{0, 1}: {Events: 30, Rounds: 1 / 0.75}, {1, 2}: {Events: 3}})
	if !reflect.DeepEqual(got.Pairs, want.Pairs) {
		t.Errorf("%v, want %v", got.Pairs, want.Pairs)
	}
	// A chain that goes there and back again: over lanes it is a cycle, with a round for each event of what waits.
	g.Links = []node.Link{link(0, 1, 10, 0), link(1, 2, 10, 0), link(2, 3, 10, 0), link(3, 4, 10, 0.5)}
	s = structure(g)
	if got, err = Couple(s, []int32{0, 1, 0, 1, 1}, 2, nil); err != nil || got.Pairs[0][1].Rounds != 400 {
		t.Errorf("%v, %v: want a round for each of 400 events", got.Pairs[0][1], err)
	}
	if got, err = Couple(s, []int32{0, 0, 1, 1, 1}, 2, nil); err != nil || got.Pairs[0][1].Rounds != 0 {
		t.Errorf("%v, %v: want none in a pipeline", got.Pairs[0][1], err)
	}
}

func TestMachinesText(t *testing.T) {
	strong := Coupling{Events: 1e6, Rounds: 1e3}
	n := evenNetwork(0x1p-13, 0x1p-30, 2, 2, 1)
	m, err := OnMachines(coupled(4, map[[2]int]Coupling{{0, 2}: strong, {1, 3}: strong, {0, 1}: {Events: 1000}}), n)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(m.Text([]string{"h1:7400", "h2:7400", "h3:7400"}, n), "\n")
	const want = `4 workers on 2 of 3 machines
  h1:7400: 2 of its 2 slots
  h2:7400: 2 of its 2 slots
  h3:7400: none of its 1 slots
  h1:7400 to h2:7400: round trip about 122 µs, about 1.07e+03 MB/s
  0.0 % of the events between workers go between machines; a simulated second is predicted to wait ` +
		`0 s for round trips and to take 175 µs for these events, 175 µs in all, ` +
		`471 ms when they are filled in their order`
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	m, err = OnMachines(coupled(2, nil), n)
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(m.Text([]string{"a", "b", "c"}, n), "\n"); !strings.Contains(text, "all on one machine") {
		t.Error(text)
	}
}

func BenchmarkOnMachines(b *testing.B) {
	for _, machines := range []int{2, 8, 32} {
		b.Run(fmt.Sprint(machines), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			c, n := randomCouplings(r, 64), evenNetwork(1e-4, 1e-9, slices.Repeat([]int{64 / machines}, machines)...)
			for b.Loop() {
				if _, err := OnMachines(c, n); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A million nodes, each with links to ten others near it.
func BenchmarkCouple(b *testing.B) {
	for _, links := range []int{1, 10} {
		for _, workers := range []int{2, 8, 64} {
			const nodes = 1_000_000
			g := &node.Graph{Simprocs: []string{"s", "t"}, Nodes: make([]node.Node, nodes)}
			r := rand.New(rand.NewPCG(1, 2))
			for n := range nodes {
				g.Nodes[n] = node.Node{Name: fmt.Sprint(n), Work: 10}
				for range links {
					g.Links = append(g.Links, link(n, (n+1+r.IntN(1000))%nodes, 1, 0.1+r.Float64()))
				}
			}
			s, of := structure(g), make([]int32, nodes)
			for n := range of {
				of[n] = int32(n * workers / nodes)
			}
			b.Run(fmt.Sprint(links, " links, ", workers, " workers"), func(b *testing.B) {
				for b.Loop() {
					c, err := Couple(s, of, workers, nil)
					if err != nil {
						b.Fatal(err)
					}
					on := fillOf(workers)
					c.Waiting(evenNetwork(1e-3, 1e-9, 1, 1), on)
				}
			})
		}
	}
}

// fillOf is one half of the workers on each of two machines.
func fillOf(workers int) []int32 {
	on := make([]int32, workers)
	for w := range on {
		on[w] = int32(2 * w / workers)
	}
	return on
}
