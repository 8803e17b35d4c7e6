// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"fmt"

	"gonum.org/v1/gonum/graph/simple"
	"gonum.org/v1/gonum/graph/topo"

	"github.com/disco-sim/disco/scenario"
)

// checkFlow refuses networks without customers, stations that no customer reaches, and
// customers who keep arriving where none leaves.
func (l *loader) checkFlow(stations scenario.Value) {
	s := l.spec
	fed, there := s.reached(func(st *Station) bool { return st.Arrivals != nil }),
		s.reached(func(st *Station) bool { return st.Initial > 0 })
	leaves := s.leaving()
	any := false
	for i := range s.Stations {
		any = any || fed[i] || there[i]
	}
	if !any {
		stations.Refuse("neither arrivals nor initial customers at any station", "one of the two", "")
		return
	}
	for i := range s.Stations {
		switch {
		case !fed[i] && !there[i]:
			l.ids[i].Refuse(fmt.Sprintf("the station %q, which no customer reaches", s.Stations[i].ID),
				"a station with arrivals, with initial customers, or on a way from one", "")
		case fed[i] && !leaves[i]:
			l.to[i].Refuse(fmt.Sprintf("no way out of the network from %q, at which customers arrive",
				s.Stations[i].ID), "probabilities below 1 at this station or at one that its customers reach", "")
			return // the others of the same trap would have the same message
		}
	}
}

// reached marks the stations that customers of some stations come to.
func (s *Spec) reached(starts func(*Station) bool) []bool {
	seen := make([]bool, len(s.Stations))
	var todo []int
	for i := range s.Stations {
		if starts(&s.Stations[i]) {
			seen[i] = true
			todo = append(todo, i)
		}
	}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, r := range s.Stations[at].To {
			if !seen[r.Station] {
				seen[r.Station] = true
				todo = append(todo, r.Station)
			}
		}
	}
	return seen
}

// leaving marks the stations from which there is a way out of the network.
func (s *Spec) leaving() []bool {
	leaves := make([]bool, len(s.Stations))
	back := make([][]int, len(s.Stations))
	var todo []int
	for i := range s.Stations {
		for _, r := range s.Stations[i].To {
			back[r.Station] = append(back[r.Station], i)
		}
		if !s.Stations[i].Stay {
			leaves[i] = true
			todo = append(todo, i)
		}
	}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, i := range back[at] {
			if !leaves[i] {
				leaves[i] = true
				todo = append(todo, i)
			}
		}
	}
	return leaves
}

// components are the sets of stations whose customers can come back, each sorted, in
// an order in which customers go from one to the next.
func (s *Spec) components() [][]int {
	g := simple.NewDirectedGraph()
	for i := range s.Stations {
		g.AddNode(simple.Node(i))
	}
	for i := range s.Stations {
		for _, r := range s.Stations[i].To {
			if r.Station != i {
				g.SetEdge(simple.Edge{F: simple.Node(i), T: simple.Node(r.Station)})
			}
		}
	}
	found := topo.TarjanSCC(g) // of every node, in some order
	sets := make([][]int, len(found))
	of := make([]int, len(s.Stations))
	for c, nodes := range found {
		for _, n := range nodes {
			of[n.ID()] = c
		}
	}
	for i, c := range of {
		sets[c] = append(sets[c], i)
	}
	return s.inOrder(sets, of)
}

// inOrder sorts components so that each comes after all that lead to it.
func (s *Spec) inOrder(sets [][]int, of []int) [][]int {
	before := make([]int, len(sets))
	each := func(c int, visit func(d int)) {
		for _, i := range sets[c] {
			for _, r := range s.Stations[i].To {
				if d := of[r.Station]; d != c {
					visit(d)
				}
			}
		}
	}
	for c := range sets {
		each(c, func(d int) { before[d]++ })
	}
	var order [][]int
	var ready []int
	for i := range s.Stations { // by their first station, so that the order is always the same
		if c := of[i]; sets[c][0] == i && before[c] == 0 {
			ready = append(ready, c)
		}
	}
	for len(ready) > 0 {
		c := ready[0]
		ready = ready[1:]
		order = append(order, sets[c])
		each(c, func(d int) {
			if before[d]--; before[d] == 0 {
				ready = append(ready, d)
			}
		})
	}
	return order
}
