// SPDX-License-Identifier: Apache-2.0

package node

// laneFloor is what the models have promised for all links to one peer (HardWakeup,
// AdvancePromise): the least of the links' floors. It is made when the first of them is
// raised, because most models raise none.
type laneFloor struct {
	floors tournament
	links  [][]int32 // [local simproc]: leaves of its links, by place among them; -1: to elsewhere
	meshes []int32   // [local simproc]: leaf of all its mesh links, -1: none
}

// laneFloor is the least epoch that the models' own promises leave open for the links
// to peer; 0 unless every such link has one.
func (e *Engine) laneFloor(peer int) float64 {
	if f := e.floors[peer]; f != nil {
		return min(mark(f.floors.least()), markNever).epoch()
	}
	return 0
}

// raiseFloor keeps that p sends nothing before an epoch.
func (e *Engine) raiseFloor(p *Simproc, epoch float64) {
	if e.ownFloors == nil {
		e.ownFloors = make([]float64, e.plan.NumHosted())
	}
	e.ownFloors[p.local] = epoch
}

// raiseLinkFloor keeps that p sends nothing on one of its links before an epoch.
func (e *Engine) raiseLinkFloor(p *Simproc, link int, epoch float64) {
	if e.linkFloors == nil {
		e.linkFloors = make([]float64, len(e.outLinks))
	}
	e.linkFloors[int(p.firstLink)+link] = epoch
}

// floorRaised takes in that p raised the floor of one link, or, with a negative link, its
// own.
func (e *Engine) floorRaised(p *Simproc, link LinkID) {
	if e.byLink != nil {
		e.byLink.floors = true
		e.byLink.change()
		return
	}
	if link >= 0 {
		if k := &p.links()[link]; k.proc < 0 {
			f := e.floorsOf(int(^k.proc))
			f.floors.set(int(f.links[p.local][link]), uint64(markOf(max(p.linkFloor(int(link)), p.floor()))))
		}
		return
	}
	for peer := range e.floors {
		if !e.plan.sends[peer] {
			continue
		}
		f := e.floorsOf(peer)
		for i, leaf := range f.links[p.local] {
			if leaf >= 0 {
				f.floors.set(int(leaf), uint64(markOf(max(p.linkFloor(i), p.floor()))))
			}
		}
		if leaf := f.meshes[p.local]; leaf >= 0 {
			f.floors.set(int(leaf), uint64(markOf(p.floor())))
		}
	}
}

// floorsOf makes the floors of a lane when they are first needed.
func (e *Engine) floorsOf(peer int) *laneFloor {
	if e.floors[peer] != nil {
		return e.floors[peer]
	}
	f := &laneFloor{links: make([][]int32, e.plan.NumHosted()), meshes: make([]int32, e.plan.NumHosted())}
	n := int32(0)
	for i := range e.plan.NumHosted() {
		f.meshes[i] = -1
		if len(e.meshes[e.plan.Endpoint(e.idAt(uint32(i))).Simproc]) > 0 {
			f.meshes[i] = n
			n++
		}
		links := e.linksAt(uint32(i))
		f.links[i] = make([]int32, len(links))
		for j := range links {
			f.links[i][j] = -1
			if k := &links[j]; k.proc == ^int32(peer) {
				f.links[i][j] = n
				n++
			}
		}
	}
	f.floors = newTournament(int(n), uint64(markOf(0)))
	e.floors[peer] = f
	return f
}
