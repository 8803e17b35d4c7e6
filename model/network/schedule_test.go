// SPDX-License-Identifier: Apache-2.0

package network

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/disco-sim/disco/model/timeline"
)

func streams(seed uint64) func(string) rand.Source {
	return func(name string) rand.Source {
		h := seed
		for _, c := range name {
			h = h*1099511628211 ^ uint64(c)
		}
		return rand.NewPCG(seed, h)
	}
}

// TestRandomOutages: with MTBF and MTTR a link is down MTTR/(MTBF+MTTR) of the time,
// in outages whose number and length are what they should be, and each link for itself.
func TestRandomOutages(t *testing.T) {
	const mtbf, mttr, horizon = 90.0, 10.0, 4e6
	top := line(t, 4, 1)
	s := &Spec{Topology: top, Events: []Event{{ID: "e", Kind: LinkDown, Random: true, MTBF: mtbf, MTTR: mttr}}}
	for c := range top.Cables {
		s.Events[0].Targets = append(s.Events[0].Targets, Target{Name: top.Cables[c].Name, Node: -1, Cables: []int{c}})
	}
	p := newSchedule(s, horizon, streams(5))
	for c := range top.Cables {
		seconds := 0.0
		for i, w := range p.cableDown[c] {
			seconds += w.SecondsBefore(horizon)
			if w.Empty() || i > 0 && w.From <= p.cableDown[c][i-1].To {
				t.Fatalf("outage %+v behind %+v", w, p.cableDown[c][max(0, i-1)])
			}
		}
		// 40,000 outages: the mean is within 2.5 % (five standard deviations).
		if n := float64(len(p.cableDown[c])); !near(n, horizon/(mtbf+mttr), 0.025) || !near(seconds/n, mttr, 0.025) {
			t.Errorf("cable %d: %v outages of %v s", c, n, seconds/n)
		}
	}
	if reflect.DeepEqual(p.cableDown[0], p.cableDown[1]) {
		t.Error("two links fail together")
	}
	if len(p.detailed) != detailedMax || len(p.changes) != 2*len(p.occurrences) ||
		!reflect.DeepEqual(p, newSchedule(s, horizon, streams(5))) {
		t.Errorf("%d detailed, %d changes of %d occurrences, or drawn otherwise the second time", len(p.detailed),
			len(p.changes), len(p.occurrences))
	}
	// Another event draws from its own streams and changes nothing.
	s.Events = append(s.Events, Event{ID: "f", Kind: Loss, Random: true, MTBF: 1e5, MTTR: 1, Probability: 0.5,
		Targets: s.Events[0].Targets})
	if q := newSchedule(s, horizon, streams(5)); !reflect.DeepEqual(p.cableDown, q.cableDown) ||
		len(q.occurrences) == len(p.occurrences) {
		t.Error("a second event shifts the first")
	}
}

// TestApply: what overlaps adds up and comes back to nothing; a node takes its links
// along.
func TestApply(t *testing.T) {
	top := line(t, 3, 1)
	cable := func(c int) []Target { return []Target{{Node: -1, Cables: []int{c}}} }
	s := &Spec{Topology: top, Events: []Event{
		{ID: "a", Kind: Latency, Targets: cable(0), From: 1, To: 5, Added: 0.1},
		{ID: "b", Kind: Latency, Targets: cable(0), From: 3, To: 9, Added: 0.2},
		{ID: "c", Kind: Loss, Targets: cable(1), From: 1, To: 4, Probability: 0.5},
		{ID: "d", Kind: Loss, Targets: cable(1), From: 2, To: 3, Probability: 0.5},
		{ID: "e", Kind: NodeDown, Targets: []Target{{Node: 1, Cables: []int{0, 1}}}, From: 6, To: 8},
		{ID: "f", Kind: LinkDown, Targets: cable(0), From: 7, To: 10},
	}}
	p := newSchedule(s, 100, streams(1))
	value := func(c timeline.Steps, t float64) float64 { r := c.Reader(); return r.At(t) }
	for at, want := range map[float64]float64{0.9: 0, 1: 0.1, 2.9: 0.1, 3: s.Events[0].Added + s.Events[1].Added,
		5: 0.2, 8.9: 0.2, 9: 0, 50: 0} {
		if got := value(p.added[0], at); got != want {
			t.Errorf("at %v %v is added, want %v", at, got, want)
		}
	}
	for at, want := range map[float64]float64{0: 0, 1: 0.5, 2: 0.75, 3: 0.5, 4: 0} {
		if got := value(p.loss[1], at); got != want {
			t.Errorf("at %v the loss is %v, want %v", at, got, want)
		}
	}
	if !reflect.DeepEqual(p.cableDown, [][]timeline.Window{{{From: 6, To: 10}}, {{From: 6, To: 8}}}) ||
		!reflect.DeepEqual(p.nodeDown[1], []timeline.Window{{From: 6, To: 8}}) ||
		!reflect.DeepEqual(p.changes, []float64{6, 8, 10}) {
		t.Errorf("down %v and %v, changes %v", p.cableDown, p.nodeDown, p.changes)
	}
	if timeline.Contains(p.cableDown[0], 5.9) || !timeline.Contains(p.cableDown[0], 6) ||
		!timeline.Contains(p.cableDown[0], 9.9) || timeline.Contains(p.cableDown[0], 10) {
		t.Error("within")
	}
}

// TestSizes: means of all distributions, within bounds.
func TestSizes(t *testing.T) {
	rnd := newRand(6)
	for _, z := range []Sizes{
		fixed, exponential, {Kind: Uniform, Min: 100, Max: 300, Mean: 200},
		{Kind: Discrete, Bytes: []float64{64, 1500}, Shares: []float64{0.75, 1}, Mean: 0.75*64 + 0.25*1500},
	} {
		sum := 0.0
		const n = 200_000
		for range n {
			x := z.draw(rnd)
			sum += float64(x)
			if x < 1 || x > packetBytesMax || z.Kind == Uniform && (x < 100 || x > 300) || z.Kind == Discrete &&
				x != 64 && x != 1500 {
				t.Fatalf("%s: %d bytes", z.Kind, x)
			}
		}
		if !near(sum/n, z.Mean, 0.02) {
			t.Errorf("%s: mean %v, want %v", z.Kind, sum/n, z.Mean)
		}
	}
}
