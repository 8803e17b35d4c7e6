// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/disco-sim/disco/node"
)

// The layers. Requests go from the generator to a server on the first; the last
// server's answer goes to the client's second. So the client is before and after
// everything else without a cycle, and no edge needs lookahead.
const (
	rankRequest = iota
	rankResponse
	rankCount
)

// layout is how a spec lies on nodes and links. Node 0 is the generator, 1 the
// client, then the balancers and the servers in the order of the file.
type layout struct {
	boxes []boxPlace
	nodes map[string]int // by id of the file
	out   [][]int        // by node: its outgoing edges, in the order of the file
	ends  []node.Link    // by edge; the graph's links are these without repetition
	graph *node.Graph
}

type boxPlace struct {
	role  role
	index int // in spec.Balancers or spec.Servers
	id    string
}

const (
	nodeGenerator = 0
	nodeClient    = 1
)

func newLayout(spec *Spec) (*layout, error) {
	l := &layout{nodes: make(map[string]int)}
	l.boxes = append(l.boxes, boxPlace{generatorRole, 0, spec.Workload.ID}, boxPlace{clientRole, 0, spec.Client})
	for i, b := range spec.Balancers {
		l.boxes = append(l.boxes, boxPlace{balancerRole, i, b.ID})
	}
	for i, s := range spec.Servers {
		l.boxes = append(l.boxes, boxPlace{serverRole, i, s.ID})
	}
	for n, b := range l.boxes {
		if other, ok := l.nodes[b.id]; ok {
			return nil, fmt.Errorf("service: %v and %v both have the id %q, want ids that are unique over all boxes", l.boxes[other].role, b.role, b.id)
		}
		l.nodes[b.id] = n
	}
	if err := l.connect(spec); err != nil {
		return nil, err
	}
	if err := l.checkWays(); err != nil {
		return nil, err
	}
	l.makeGraph()
	if err := l.graph.Check(); err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	levels, err := l.graph.Levels()
	if err != nil {
		return nil, fmt.Errorf("service: the edges must not lead in a circle: %w", err)
	}
	l.estimate(spec, levels)
	return l, nil
}

// connect finds the ends of every edge.
func (l *layout) connect(spec *Spec) error {
	l.out = make([][]int, len(l.boxes))
	for i, e := range spec.Edges {
		from, ok1 := l.nodes[e.Source]
		to, ok2 := l.nodes[e.Target]
		if !ok1 || !ok2 || to == nodeGenerator {
			return fmt.Errorf("service: edge %q goes from %q to %q, want the ids of two boxes, the second not the generator", e.ID, e.Source, e.Target)
		}
		rank := rankRequest
		if to == nodeClient && from != nodeGenerator {
			rank = rankResponse
		}
		l.ends = append(l.ends, node.Link{From: node.Endpoint{Node: from, Simproc: rankRequest}, To: node.Endpoint{Node: to, Simproc: rank}})
		l.out[from] = append(l.out[from], i)
	}
	return nil
}

// checkWays makes sure that every request has exactly one way on, or a balancer to
// choose one.
func (l *layout) checkWays() error {
	for n, b := range l.boxes {
		switch ways := len(l.out[n]); {
		case b.role == balancerRole && ways == 0:
			return fmt.Errorf("service: %v %q has no outgoing edge, want at least one", b.role, b.id)
		case b.role != balancerRole && ways != 1:
			return fmt.Errorf("service: %v %q has %d outgoing edges, want exactly one", b.role, b.id, ways)
		}
	}
	return nil
}

// busy tells whether a simproc has anything to do.
func (l *layout) busy(n, rank int) bool { return rank == rankRequest || n == nodeClient }

func (l *layout) makeGraph() {
	l.graph = &node.Graph{Simprocs: []string{"request", "response"}}
	for _, b := range l.boxes {
		l.graph.Nodes = append(l.graph.Nodes, node.Node{Name: b.id})
	}
	declared := make(map[node.Link]bool, len(l.ends))
	for _, link := range l.ends {
		if !declared[link] {
			declared[link] = true
			l.graph.Links = append(l.graph.Links, link)
		}
	}
}

// estimate fills in the expected rates, which placement balances: the generator's
// mean rate, less what edges lose, split evenly by balancers. A box's work is the
// number of events that it handles in a second.
func (l *layout) estimate(spec *Spec, levels []uint32) {
	order := make([]int, len(l.boxes))
	for n := range order {
		order[n] = n
	}
	level := func(n int) uint32 { return levels[l.graph.ID(node.Endpoint{Node: n, Simproc: rankRequest})] }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(level(a), level(b)) })

	link := make(map[node.Link]int, len(l.graph.Links))
	for i, k := range l.graph.Links {
		link[k] = i
	}
	rate := make([]float64, len(l.boxes)) // requests that come in, by node
	rate[nodeGenerator] = max(0, spec.Workload.Users.Mean*spec.Workload.RequestsPerMinute/60)
	answers := 0.0
	for _, n := range order {
		l.graph.Nodes[n].Work = rate[n] * l.eventsEach(spec, n)
		for _, e := range l.out[n] {
			passed := rate[n] / float64(len(l.out[n])) * (1 - spec.Edges[e].Dropout)
			l.graph.Links[link[l.ends[e]]].Rate += passed
			if to := l.ends[e].To; to.Simproc == rankResponse {
				answers += passed
			} else {
				rate[to.Node] += passed
			}
		}
	}
	l.graph.Nodes[nodeClient].Work += answers
}

// eventsEach is the mean number of events that a request costs in box n.
func (l *layout) eventsEach(spec *Spec, n int) float64 {
	if l.boxes[n].role != serverRole {
		return 1
	}
	endpoints := spec.Servers[l.boxes[n].index].Endpoints
	bursts := 0
	for _, e := range endpoints {
		for i, s := range e.Steps {
			if i == 0 || e.Steps[i-1].CPU != s.CPU {
				bursts++
			}
		}
	}
	return 1 + float64(bursts)/float64(max(1, len(endpoints)))
}

// changes are what the outages do to the list of balancer n, by time; at equal
// times ends come before starts.
func (l *layout) changes(spec *Spec, n int) []change {
	var cs []change
	for _, o := range spec.Outages {
		if i := slices.Index(l.out[n], o.Edge); i >= 0 {
			cs = append(cs, change{o.Start, int32(i), false}, change{o.End, int32(i), true})
		}
	}
	slices.SortStableFunc(cs, func(a, b change) int {
		switch {
		case a.at != b.at:
			return cmp.Compare(a.at, b.at)
		case a.up == b.up:
			return 0
		case a.up:
			return -1
		}
		return 1
	})
	return cs
}

// inRAMUnits rounds megabytes to the unit in which memory is counted.
func inRAMUnits(mb float64) int64 { return int64(math.Round(mb * ramUnits)) }
