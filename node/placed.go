// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"
)

// Placed is a Structure whose nodes have their workers: all that the Plan of any worker is
// made from.
//
// It does not change and may be used by several goroutines.
type Placed struct {
	*Structure
	workers int
	least   float64 // lookahead above 0 of all links and meshes
	mapped  bool    // it is in memory that others may have written: links are checked by who uses them

	// Where everything is follows from the first node of each worker: all simprocs are of level 0, nodes have one, and
	// workers have nodes that rise with their numbers. Then where, place and hosted are nil.
	blocks bool
	guess  []uint32 // of blocks, by node >> shift: the worker of the first one of these
	shift  uint

	where     []uint64    // by simproc: its worker << 32 | its index there, which rises with (level, id)
	place     []uint32    // by node: its place among the nodes of its worker
	hostStart []uint32    // by worker, and one more: where its nodes begin in hosted
	hosted    []uint32    // nodes by worker, rising
	laneStart []uint32    // by sending worker × workers + receiving one, and one more: where it begins in crossing
	crossing  []crossLink // the links between workers, by lane, rising
}

// crossLink is a link from one worker to another.
type crossLink struct{ from, link uint32 } // sender and number

// Place gives every node its worker, 0 to workers-1.
func (s *Structure) Place(placement []int32, workers int) (*Placed, error) {
	if workers < 1 || workers > IDsMax || len(placement) != s.nodes {
		return nil, fmt.Errorf("node: a placement of %d nodes over %d workers, but the scenario has %d", len(placement),
			workers, s.nodes)
	}
	p := &Placed{Structure: s, workers: workers, least: s.leastPositive(), hostStart: make([]uint32, workers+1)}
	for n, w := range placement {
		if w < 0 || int(w) >= workers {
			return nil, fmt.Errorf("node: node %q is placed on worker %d, want 0 to %d", s.NodeName(n), w, workers-1)
		}
		p.hostStart[w+1]++
	}
	for w := range workers {
		p.hostStart[w+1] += p.hostStart[w]
	}
	if s.flat() && slices.IsSorted(placement) {
		p.block()
	} else {
		p.list(placement)
		p.locate(placement)
	}
	p.cross(placement)
	return p, nil
}

// flat tells whether nodes have one simproc, and all of these are of level 0.
func (s *Structure) flat() bool { return s.levels == nil && len(s.layers) == 1 }

// guesses is how many entries Placed.guess has at most: they should stay in the processor's first cache.
const guesses = 1 << 12

// block prepares for at where workers have blocks of nodes.
func (p *Placed) block() {
	p.blocks, p.shift = true, uint(max(0, bits.Len(uint(p.nodes-1))-bits.Len(uint(guesses-1))))
	p.guess = make([]uint32, (p.nodes-1)>>p.shift+1)
	w := uint32(0)
	for i := range p.guess {
		for uint32(i<<p.shift) >= p.hostStart[w+1] {
			w++
		}
		p.guess[i] = w
	}
}

// list lists the nodes of each worker.
func (p *Placed) list(placement []int32) {
	p.hosted, p.place = make([]uint32, p.nodes), make([]uint32, p.nodes)
	next := append([]uint32(nil), p.hostStart...)
	for n, w := range placement {
		p.hosted[next[w]], p.place[n] = uint32(n), next[w]-p.hostStart[w]
		next[w]++
	}
}

// locate numbers the simprocs of each worker by (level, id).
func (p *Placed) locate(placement []int32) {
	layers := len(p.layers)
	p.where = make([]uint64, p.NumSimprocs())
	next := make([]uint32, p.workers)
	for _, id := range p.byLevel() {
		w := placement[int(id)/layers]
		p.where[id] = uint64(w)<<32 | uint64(next[w])
		next[w]++
	}
}

// byLevel lists all simprocs by (level, id).
func (s *Structure) byLevel() []SimprocID {
	top := uint32(0)
	for _, l := range s.levels {
		top = max(top, l)
	}
	next := make([]uint32, int(top)+2)
	for id := range SimprocID(s.NumSimprocs()) {
		next[s.Level(id)+1]++
	}
	for l := 1; l < len(next); l++ {
		next[l] += next[l-1]
	}
	order := make([]SimprocID, s.NumSimprocs())
	for id := range order {
		l := s.Level(SimprocID(id))
		order[next[l]] = SimprocID(id)
		next[l]++
	}
	return order
}

// cross sorts the links between workers by lane.
func (p *Placed) cross(placement []int32) {
	layers := len(p.layers)
	p.laneStart = make([]uint32, p.workers*p.workers+1)
	if p.workers == 1 {
		return
	}
	each := func(visit func(from SimprocID, link, lane int)) {
		for n, w := range placement {
			for id := SimprocID(n * layers); id < SimprocID((n+1)*layers); id++ {
				first, end := p.LinksOf(id)
				for k := first; k < end; k++ {
					if to := placement[int(p.linkTo[k])/layers]; to != w {
						visit(id, k, int(w)*p.workers+int(to))
					}
				}
			}
		}
	}
	each(func(_ SimprocID, _, lane int) { p.laneStart[lane+1]++ })
	for lane := 1; lane < len(p.laneStart); lane++ {
		p.laneStart[lane] += p.laneStart[lane-1]
	}
	p.crossing = make([]crossLink, p.laneStart[len(p.laneStart)-1])
	next := append([]uint32(nil), p.laneStart...)
	each(func(from SimprocID, link, lane int) {
		p.crossing[next[lane]] = crossLink{uint32(from), uint32(link)}
		next[lane]++
	})
}

// Workers is the number of workers.
func (p *Placed) Workers() int { return p.workers }

// WorkerOf is the worker of a node.
func (p *Placed) WorkerOf(n int) int { return p.workerOf(SimprocID(n * len(p.layers))) }

// workerOf is the worker of a simproc.
func (p *Placed) workerOf(id SimprocID) int { return int(p.at(id) >> 32) }

// at is the worker << 32 | the index there of a simproc.
func (p *Placed) at(id SimprocID) uint64 {
	if !p.blocks {
		return p.where[id]
	}
	w := p.guess[id>>p.shift]
	for uint32(id) >= p.hostStart[w+1] {
		w++
	}
	return uint64(w)<<32 | uint64(uint32(id)-p.hostStart[w])
}

// placeAt is the place of a node among those of its worker.
func (p *Placed) placeAt(n int) uint32 {
	if p.blocks {
		return uint32(p.at(SimprocID(n)))
	}
	return p.place[n]
}

// indexOn is the index of a simproc on a worker, -1 where another one hosts it.
func (p *Placed) indexOn(worker int, id SimprocID) int32 {
	if w := p.at(id); int(w>>32) == worker {
		return int32(uint32(w))
	}
	return -1
}

// numOn is how many nodes a worker has.
func (p *Placed) numOn(worker int) int { return int(p.hostStart[worker+1] - p.hostStart[worker]) }

// nodeOn is the node in a place of a worker.
func (p *Placed) nodeOn(worker int, place uint32) uint32 {
	if p.blocks {
		return p.hostStart[worker] + place
	}
	return p.hosted[p.hostStart[worker]+place]
}

// nodesOn are the places of a worker and the nodes there, rising.
func (p *Placed) nodesOn(worker int) iter.Seq2[int, uint32] {
	return func(yield func(place int, n uint32) bool) {
		for place := range p.numOn(worker) {
			if !yield(place, p.nodeOn(worker, uint32(place))) {
				return
			}
		}
	}
}

// lane are the links from one worker to another.
func (p *Placed) lane(from, to int) []crossLink {
	i := from*p.workers + to
	return p.crossing[p.laneStart[i]:p.laneStart[i+1]]
}

// placeOf is the place of a simproc among those of its worker, by rising id.
func (p *Placed) placeOf(id SimprocID) int {
	e := p.Endpoint(id)
	return int(p.placeAt(e.Node))*len(p.layers) + e.Simproc
}
