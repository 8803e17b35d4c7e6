// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// eventBytes is what an event is taken to have on its way between machines: its header and 48 bytes of data.
const eventBytes = 80

// Network is the machines of a run, and what lies between each two of them: [i][j] and [j][i] are the same.
type Network struct {
	Slots          []int       // workers that each machine takes
	Processors     []int       // of each; nil: as many as there are workers
	RoundTrip      [][]float64 // seconds
	SecondsPerByte [][]float64
}

// Settle makes a network of what was measured: a pair that wasn't, which is 0, gets the median of those that were, and
// all are rounded to powers of two, so that two runs on one network place alike.
func (n *Network) Settle() {
	for _, table := range [][][]float64{n.RoundTrip, n.SecondsPerByte} {
		var all []float64
		for i, row := range table {
			for j := range i {
				if row[j] = max(row[j], table[j][i]); known(row[j]) {
					all = append(all, row[j])
				}
			}
		}
		slices.Sort(all)
		for i, row := range table {
			for j := range i {
				if !known(row[j]) && len(all) > 0 {
					row[j] = all[len(all)/2]
				}
				if row[j] > 0 {
					row[j] = math.Exp2(math.Round(math.Log2(row[j])))
				}
				table[j][i] = row[j]
			}
		}
	}
}

// Machines is which worker is on which machine, with what it is predicted to cost.
type Machines struct {
	Of []int32 // machine of each worker

	// Waiting and Transfer are the seconds that a simulated second is predicted to take between machines, beside what
	// the workers take on one: in rounds of messages, and in sending and receiving events.
	Waiting, Transfer float64

	InOrder float64 // both together, if machines were filled in their order
	Share   float64 // of the events between workers, that run between machines: 0 to 1

	instead *Machines // what the most workers would have been, where Over has chosen fewer
	saved   float64   // how many times as long they would have taken
}

// Seconds are Waiting and Transfer together.
func (m *Machines) Seconds() float64 { return m.Waiting + m.Transfer }

// spreader looks for the machines of workers.
type spreader struct {
	c     [][]Coupling
	n     *Network
	pairs []workerPair // that have anything to do with each other, the dearest first
	of    []int32
	free  []int // slots of each machine

	farthest, slowest float64 // of the network: seconds of a round trip, and for a byte

	best   machineCost
	bestOf []int32
}

type workerPair struct{ a, b int32 }

func newSpreader(c [][]Coupling, n *Network) *spreader {
	s := &spreader{c: c, n: n, best: machineCost{waiting: math.Inf(1)}}
	for i := range n.Slots {
		s.farthest = max(s.farthest, slices.Max(n.RoundTrip[i]))
		s.slowest = max(s.slowest, slices.Max(n.SecondsPerByte[i]))
	}
	for a := range c {
		for b := range a {
			if c[a][b] != (Coupling{}) {
				s.pairs = append(s.pairs, workerPair{int32(a), int32(b)})
			}
		}
	}
	slices.SortStableFunc(s.pairs, func(p, q workerPair) int {
		return cmp.Compare(s.ties(int(q.a), int(q.b)), s.ties(int(p.a), int(p.b)))
	})
	return s
}

// ties is about how dear it is to have two workers on two machines.
func (s *spreader) ties(a, b int) float64 {
	return s.c[a][b].Rounds*s.farthest + s.c[a][b].Events*eventCost(s.slowest)
}

// machineCost is what a spread costs. Waits for different pairs pass at the same time, so the longest counts; of two
// with the same seconds, the one with less waiting in all is better.
type machineCost struct{ waiting, transfer, waits float64 }

func (c machineCost) less(d machineCost) bool {
	return cmp.Or(cmp.Compare(c.waiting+c.transfer, d.waiting+d.transfer), cmp.Compare(c.waits, d.waits)) < 0
}

// OnMachines chooses a machine for each worker, so that what is predicted to be lost between machines is least: a round
// of messages costs the round trip, and an event 50 ns at each end and its bytes. Fewer machines than there are get
// workers where that is faster and there are slots enough. The same couplings and network give the same choice
// everywhere: as far as pairs of workers are concerned, the best there is for few workers, a local optimum for many.
// What the choice is predicted to cost counts cycles over any number of machines.
func OnMachines(c *Couplings, n *Network) (*Machines, error) {
	slots := 0
	for _, s := range n.Slots {
		slots += max(s, 0)
	}
	if len(c.Pairs) > slots {
		return nil, fmt.Errorf("partition: %d workers for %d slots on %d machines", len(c.Pairs), slots, len(n.Slots))
	}
	s := newSpreader(c.Pairs, n)
	s.search()
	s.prove(provedSteps)
	chosen := c.on(n, s.bestOf)
	first := InOrder(c, n)
	if first.Seconds() < chosen.Seconds() {
		return first, nil
	}
	chosen.InOrder = first.InOrder
	return chosen, nil
}

// InOrder fills machines with the workers in their order, for those who number workers themselves.
func InOrder(c *Couplings, n *Network) *Machines {
	s := newSpreader(c.Pairs, n)
	s.begin()
	s.inOrder()
	m := c.on(n, s.of)
	m.InOrder = m.Seconds()
	return m
}

// on is what it costs to have workers on these machines.
func (c *Couplings) on(n *Network, of []int32) *Machines {
	m := &Machines{Of: slices.Clone(of), Waiting: c.Waiting(n, of)}
	all, cut := 0.0, 0.0
	for a := range of {
		for b := range a {
			events := c.Pairs[a][b].Events
			all += events
			if i, j := of[a], of[b]; i != j {
				cut += events
				m.Transfer += events * eventCost(n.SecondsPerByte[i][j])
			}
		}
	}
	if all > 0 {
		m.Share = cut / all
	}
	return m
}

const (
	// growFrom is from how many workers grow begins, on each of as many as growOn machines.
	growFrom, growOn = 4, 2

	// provedSteps bounds what prove may cost, in workers that it puts on machines: a few hundredths of a second.
	provedSteps = 200_000
)

// search looks for a good spread from several beginnings.
func (s *spreader) search() {
	s.begin()
	s.inOrder()
	s.improve()
	for machine := range min(len(s.n.Slots), growOn) {
		for worker := range min(len(s.c), growFrom) {
			s.begin()
			s.grow(machine, worker)
			s.improve()
		}
	}
}

// prove tries all spreads, but for those that begin with more than the best costs, as far as so many steps lead.
func (s *spreader) prove(steps int) {
	s.begin()
	var put func(w int, so machineCost)
	put = func(w int, so machineCost) {
		if w == len(s.c) {
			s.keep(so)
			return
		}
		for m, left := range s.free {
			if left <= 0 || steps == 0 {
				continue
			}
			steps--
			all := so
			for v := range w {
				all.add(&s.c[w][v], s.n, int32(m), s.of[v])
			}
			if all.less(s.best) {
				s.put(w, m)
				put(w+1, all)
				s.take(w)
			}
		}
	}
	put(0, machineCost{})
}

// keep notes the spread if it is the best so far.
func (s *spreader) keep(cost machineCost) {
	if s.bestOf == nil || cost.less(s.best) {
		s.best, s.bestOf = cost, slices.Clone(s.of)
	}
}

func (s *spreader) begin() {
	s.of, s.free = slices.Repeat([]int32{free}, len(s.c)), slices.Clone(s.n.Slots)
}

func (s *spreader) put(worker, machine int) {
	s.take(worker)
	s.of[worker] = int32(machine)
	s.free[machine]--
}

// take takes a worker off its machine.
func (s *spreader) take(worker int) {
	if from := s.of[worker]; from != free {
		s.free[from]++
	}
	s.of[worker] = free
}

func (s *spreader) inOrder() {
	machine := 0
	for w := range s.of {
		for s.free[machine] <= 0 {
			machine++
		}
		s.put(w, machine)
	}
}

// grow fills machines one after the other, from this one on, with the workers that have most to do with those that are
// there already; the first is the given one.
func (s *spreader) grow(machine, worker int) {
	for range s.of {
		for s.free[machine] <= 0 {
			machine = (machine + 1) % len(s.free)
			worker = slices.Index(s.of, free)
		}
		s.put(worker, machine)
		most := -1.0
		for w, of := range s.of {
			if of != free {
				continue
			}
			ties := 0.0
			for v, on := range s.of {
				if int(on) == machine {
					ties += s.ties(w, v)
				}
			}
			if ties > most {
				worker, most = w, ties
			}
		}
	}
}

// eventCost is what an event between two machines costs.
func eventCost(secondsPerByte float64) float64 { return 2*crossSeconds + eventBytes*secondsPerByte }

// add adds what two workers on these machines cost.
func (c *machineCost) add(with *Coupling, n *Network, i, j int32) {
	if i == j {
		return
	}
	wait := with.Rounds * n.RoundTrip[i][j]
	c.waiting = max(c.waiting, wait)
	c.waits += wait
	c.transfer += with.Events * eventCost(n.SecondsPerByte[i][j])
}

// cost is what the spread costs, or more than limit, in seconds, if it is more.
func (s *spreader) cost(limit float64) (all machineCost) {
	for _, p := range s.pairs {
		if all.add(&s.c[p.a][p.b], s.n, s.of[p.a], s.of[p.b]); all.waiting+all.transfer > limit {
			break
		}
	}
	return all
}

// improve moves workers to free slots and swaps two, while that makes the run faster, and keeps the result if it is the
// best.
func (s *spreader) improve() {
	best := s.cost(math.Inf(1))
	better := func() bool {
		cost := s.cost(best.waiting + best.transfer)
		if !cost.less(best) {
			return false
		}
		best = cost
		return true
	}
	for again := true; again; {
		again = false
		for w := range s.of {
			for m := range s.free {
				from := int(s.of[w])
				if from == m || s.free[m] <= 0 {
					continue
				}
				if s.put(w, m); better() {
					again = true
				} else {
					s.put(w, from)
				}
			}
			for v := range w {
				if s.of[v] == s.of[w] {
					continue
				}
				if s.of[v], s.of[w] = s.of[w], s.of[v]; better() {
					again = true
				} else {
					s.of[v], s.of[w] = s.of[w], s.of[v]
				}
			}
		}
	}
	s.keep(best)
}

// Numbers numbers workers machine by machine: the new number of each.
func (m *Machines) Numbers() []int32 {
	order := inOrder(len(m.Of))
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(m.Of[a], m.Of[b]) })
	numbers := make([]int32, len(order))
	for number, w := range order {
		numbers[w] = int32(number)
	}
	return numbers
}

// used is how many machines have workers.
func (m *Machines) used() int {
	of := slices.Clone(m.Of)
	slices.Sort(of)
	return len(slices.Compact(of))
}

// Text says for people, line by line, what was chosen and why. names are those of the machines.
func (m *Machines) Text(names []string, n *Network) []string {
	count := make([]int, len(n.Slots))
	for _, machine := range m.Of {
		count[machine]++
	}
	used := 0
	var lines []string
	for i, workers := range count {
		if workers == 0 {
			lines = append(lines, fmt.Sprintf("  %s: none of its %d slots", names[i], n.Slots[i]))
			continue
		}
		used++
		lines = append(lines, fmt.Sprintf("  %s: %d of its %d slots", names[i], workers, n.Slots[i]))
	}
	lines = slices.Insert(lines, 0,
		fmt.Sprintf("%s on %d of %d machines", counted(len(m.Of), "worker"), used, len(count)))
	if o := m.instead; o != nil {
		lines = append(lines, fmt.Sprintf("  not %d on %d, which are predicted to take %.2g times as long, where a "+
			"simulated second waits %s for round trips and takes %s for events between machines; --partition block or "+
			"round-robin takes them all", len(o.Of), o.used(), m.saved, seconds(o.Waiting), seconds(o.Transfer)))
	}
	for i := range count {
		for j := range i {
			if count[i] > 0 && count[j] > 0 {
				lines = append(lines, fmt.Sprintf("  %s to %s: round trip about %s, about %s", names[j], names[i],
					seconds(n.RoundTrip[i][j]), rate(n.SecondsPerByte[i][j])))
			}
		}
	}
	if used < 2 {
		return append(lines, "  all on one machine: nothing is sent between machines")
	}
	why := "as when machines are filled in their order"
	if m.Seconds() < inOrderFew*m.InOrder {
		why = fmt.Sprintf("%s when they are filled in their order", seconds(m.InOrder))
	}
	return append(lines, fmt.Sprintf("  %.1f %% of the events between workers go between machines; a simulated second "+
		"is predicted to wait %s for round trips and to take %s for these events, %s in all, %s", 100*m.Share,
		seconds(m.Waiting), seconds(m.Transfer), seconds(m.Seconds()), why))
}

// inOrderFew is the part of what filling machines in their order takes from which on a choice is no gain to people.
const inOrderFew = 0.99

// counted is a number of things.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// seconds is a time for people.
func seconds(s float64) string {
	switch {
	case s >= 1:
		return fmt.Sprintf("%.3g s", s)
	case s >= 1e-3:
		return fmt.Sprintf("%.3g ms", s*1e3)
	case s > 0:
		return fmt.Sprintf("%.3g µs", s*1e6)
	}
	return "0 s"
}

// rate is bytes a second for people.
func rate(secondsPerByte float64) string {
	if !known(secondsPerByte) {
		return "any rate"
	}
	return fmt.Sprintf("%.3g MB/s", 1e-6/secondsPerByte)
}
