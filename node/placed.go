// SPDX-License-Identifier: Apache-2.0

package node

import "fmt"

// Placed is a Structure whose nodes have their workers: all that the Plan of any worker is
// made from.
//
// It does not change and may be used by several goroutines.
type Placed struct {
	*Structure
	workers int
	least   float64 // lookahead above 0 of all links and meshes
	mapped  bool    // it is in memory that others may have written: links are checked by who uses them

	where     []uint64    // by simproc: its worker << 32 | its index there, which rises with (level, id); nil: trivial
	place     []uint32    // by node: its place among the nodes of its worker; nil where that is its number
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
	p.hosted = make([]uint32, s.nodes)
	if !p.trivial() {
		p.place = make([]uint32, s.nodes)
	}
	next := append([]uint32(nil), p.hostStart...)
	for n, w := range placement {
		p.hosted[next[w]] = uint32(n)
		if p.place != nil {
			p.place[n] = next[w] - p.hostStart[w]
		}
		next[w]++
	}
	if !p.trivial() {
		p.locate(placement)
	}
	p.cross(placement)
	return p, nil
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
	if p.where == nil {
		return uint64(id)
	}
	return p.where[id]
}

// placeAt is the place of a node among those of its worker.
func (p *Placed) placeAt(n int) uint32 {
	if p.place == nil {
		return uint32(n)
	}
	return p.place[n]
}

// trivial tells whether there is one worker and one level: then where everything is follows from its number.
func (p *Placed) trivial() bool { return p.workers == 1 && p.levels == nil }

// indexOn is the index of a simproc on a worker, -1 where another one hosts it.
func (p *Placed) indexOn(worker int, id SimprocID) int32 {
	if w := p.at(id); int(w>>32) == worker {
		return int32(uint32(w))
	}
	return -1
}

// nodesOf are the nodes of a worker, rising.
func (p *Placed) nodesOf(worker int) []uint32 {
	return p.hosted[p.hostStart[worker]:p.hostStart[worker+1]]
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
