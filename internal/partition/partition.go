// SPDX-License-Identifier: Apache-2.0

// Package partition decides which worker hosts which node. It is a matter of speed alone:
// results are the same for every partition.
//
// A good partition gives every worker the same work, sends few events from one worker to
// another, and keeps links with little lookahead inside the workers, because the least
// lookahead between two of them decides how often they have to exchange promises.
//
// Where workers would nevertheless wait for each other at nearly every event, or take turns on too few processors, N of
// them would be slower than one. So MinCut predicts what a simulated second takes (100 ns for each event of the busiest
// worker, 50 ns for each that it sends to or gets from others, a round of messages for the lanes there are). Where
// fewer workers are predicted to be much faster, it moves single nodes and leaves workers empty, whichever is
// fastest. How many rounds there are it reads from the lanes: a bound is the least of all that goes over a lane, so a
// cycle of lanes can hold all workers back where no cycle of links does.
//
// Guarantee: the same graph, run and method give the same partition, on
// every machine and in whatever order the graph lists its links. The number of processors is a part of the run: on a
// machine with another number MinCut may choose another partition, unless Run.Processors (--processors N) says what to
// place for. Nodes that were pinned
// stay where they were put; no worker is without a node, unless MinCut predicts that fewer are faster and no node is
// pinned. All figures are numbers, whatever finite work and lookahead, and whatever rates, the graph has.
//
//	p, err := partition.Make(graph, partition.Run{Workers: 4, Processors: 2, Seconds: 60}, partition.MinCut, nil)
//	worker := p.Of[node]
//	fmt.Println(p.Balance(), p.Cut)
package partition

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/disco-sim/disco/node"
)

// Method is a way to choose.
type Method string

// The methods.
const (
	// MinCut looks for the least traffic and the most lookahead between workers, with
	// even work.
	MinCut Method = "mincut"
	// Block gives every worker a contiguous block of the nodes in the scenario's order,
	// with even work: for scenarios whose nodes are already in a good order.
	Block Method = "block"
	// RoundRobin assigns the nodes to the workers in turn, whatever their work: about the
	// worst cut, and a reference for the others.
	RoundRobin Method = "round-robin"
)

// Methods are all of them, the default first.
func Methods() []Method { return []Method{MinCut, Block, RoundRobin} }

// ParseMethod finds the method of a name.
func ParseMethod(name string) (Method, error) {
	if !slices.Contains(Methods(), Method(name)) {
		return "", fmt.Errorf("partition: method %q, want one of %q", name, Methods())
	}
	return Method(name), nil
}

// Partition is an assignment of nodes to workers, with the figures that it is judged by.
type Partition struct {
	Workers int
	Of      []int32   // worker of each node
	Work    []float64 // expected work of each worker, as a share of all: 0 to 1
	Nodes   []int     // number of nodes of each worker

	// Cut is the share of the expected traffic, or of the links where the scenario
	// states no rates, that runs from one worker to another: 0 to 1.
	Cut float64

	// Lookahead is the least lookahead of the links between workers that lie on a
	// cycle, in simulated seconds; +Inf without any. Other links make no worker wait
	// for what it sends itself: the workers along them are a pipeline.
	Lookahead float64

	// Rounds is how many rounds of messages between workers are predicted for each event, Slowdown how many times as
	// long as with one worker the run is predicted to take; 0 where the scenario doesn't say enough. Saved is how many
	// times as long it would take if the workers that MinCut has left empty had nodes as well; 1 where none is.
	Rounds, Slowdown, Saved float64

	// Unused is how many workers without a node LeaveOut has taken away.
	Unused int
}

// LeaveOut takes away the workers behind the last one that has a node: there is nothing for them to do. Nodes keep
// their workers.
func (p *Partition) LeaveOut() {
	used := int(slices.Max(p.Of)) + 1
	p.Unused += p.Workers - used
	p.Workers, p.Work, p.Nodes = used, p.Work[:used], p.Nodes[:used]
}

// Renumber gives each worker another number: numbers[w] is that of worker w.
func (p *Partition) Renumber(numbers []int32) {
	for n, w := range p.Of {
		p.Of[n] = numbers[w]
	}
	work, nodes := make([]float64, p.Workers), make([]int, p.Workers)
	for w, number := range numbers {
		work[number], nodes[number] = p.Work[w], p.Nodes[w]
	}
	p.Work, p.Nodes = work, nodes
}

// Balance is the busiest worker's expected work as a multiple of the mean: 1 is even,
// and the number of workers is the worst.
func (p *Partition) Balance() float64 {
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

// EventRate is how many events a simulated second has, as far as nodes and links say so: those on all links, or those
// that nodes expect, if more. 0: nothing says.
func EventRate(s *node.Structure, proceed func() error) (float64, error) {
	a := newAssignment(s, Run{Workers: 1}, nil, proceed)
	if err := a.weigh(); err != nil || math.IsInf(a.events, 0) {
		return 0, err
	}
	return a.events, nil
}

// Run is what nodes are placed for.
type Run struct {
	Workers    int
	Processors int     // how many of the workers can run at once
	Seconds    float64 // of simulated time, in all replications

	// Message is the wall time in seconds that a message between two workers takes: 0 where they are on one machine.
	// With it, the less lookahead a link has, the more a border there costs.
	Message float64
}

// exchange is what one exchange of promises costs, in events between workers.
func (r Run) exchange() float64 { return max(syncEvents, r.Message/eventSeconds) }

// tight is the lookahead up to which a border at a cycle of links makes workers wait for longer than one of them takes
// to handle all events, of which a simulated second has so many: one passes for each event, or, if that is more, they
// wait for messages all the time.
func (r Run) tight(events float64) float64 { return max(1, r.Message/eventSeconds) / events }

// Make assigns the nodes of a scenario to the workers of a run. Nodes in pinned (worker by node index) stay where they
// were put. proceed, when not nil, is called now and then; its error ends the work and is returned as it is.
//
// A worker that Block, RoundRobin or pins leave without a node is an error: its process would be of no use, and that is
// probably a mistake.
func Make(
	s *node.Structure, run Run, method Method, pinned map[int]int32, proceed func() error,
) (*Partition, error) {
	workers, nodes := run.Workers, s.NumNodes()
	if workers < 1 || workers > nodes {
		return nil, fmt.Errorf("partition: %d workers for %d nodes, want 1 to %d", workers, nodes, nodes)
	}
	if _, err := ParseMethod(string(method)); err != nil {
		return nil, err
	}
	of := make([]int32, nodes)
	for n := range of {
		of[n] = free
	}
	for _, n := range slices.Sorted(maps.Keys(pinned)) {
		w := pinned[n]
		if n < 0 || n >= len(of) || w < 0 || int(w) >= workers {
			return nil, fmt.Errorf("partition: node %d is placed on worker %d, but there are %d nodes and workers 0 "+
				"to %d", n, w, len(of), workers-1)
		}
		of[n] = w
	}
	a := newAssignment(s, run, of, proceed)
	var err error
	switch {
	case workers == 1:
		clear(of)
	case method == MinCut:
		err = a.minCut(len(pinned) > 0)
	case method == Block:
		a.blocks()
	default:
		roundRobin(workers, of)
	}
	if err != nil {
		return nil, err
	}
	p, err := a.figures()
	if err != nil {
		return nil, err
	}
	for w, count := range p.Nodes {
		if count == 0 && (method != MinCut || len(pinned) > 0) {
			return nil, &EmptyError{w, workers}
		}
	}
	return p, nil
}

// EmptyError is that a worker is left without a node.
type EmptyError struct{ Worker, Of int }

// Error says what to do.
func (e *EmptyError) Error() string {
	return fmt.Sprintf("partition: worker %d of %d is left without a node: use fewer workers, or place a node on it",
		e.Worker, e.Of)
}

// free marks a node that has no worker yet.
const free = -1

// roundRobin assigns the free nodes in turn, to the workers that have the fewest first.
func roundRobin(workers int, of []int32) {
	count := make([]int, workers)
	for _, w := range of {
		if w != free {
			count[w]++
		}
	}
	next := 0
	for n, w := range of {
		if w != free {
			continue
		}
		best := next
		for step := range workers {
			if at := (next + step) % workers; count[at] < count[best] {
				best = at
			}
		}
		of[n] = int32(best)
		count[best]++
		next = (best + 1) % workers
	}
}

func inOrder(n int) []int32 {
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	return order
}
