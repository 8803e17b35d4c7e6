// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
)

// takenOver is what a new Engine takes over from that of the leg before (Resume.From): simprocs whose nodes stay on
// the worker. They stay where they are in memory, because handlers may have kept them, and those of passive nodes in
// the file.
type takenOver struct {
	engine *Engine    // done for
	stays  []*Simproc // where all nodes are in memory
	kept   []bool     // by new index: it stays
	index  []int32    // by old index: the new one; -1: it leaves
	floors []keptFloor
}

// keptFloor is what a simproc that stays has promised on a link, or in all where that is -1.
type keptFloor struct {
	of    SimprocID
	link  int
	epoch float64
}

// has reports whether p was taken over; from may be nil.
func (from *takenOver) has(p *Simproc) bool { return from != nil && from.kept[p.local] }

// takeOver takes from the Engine of the leg before what stays on this worker, and lets go of the rest; nil: there is
// none.
func (e *Engine) takeOver() (*takenOver, error) {
	if e.cfg.Resume == nil || e.cfg.Resume.From == nil {
		return nil, nil
	}
	old := e.cfg.Resume.From
	if err := old.betweenLegs(); err != nil {
		return nil, err
	}
	if (e.cfg.Resident != nil) != (old.passive != nil) {
		return nil, errors.New("node: an Engine whose nodes may leave memory takes over from one like it, and no " +
			"other does")
	}
	if old.plan.Structure != e.plan.Structure || old.plan.self != e.plan.self || old.store.leases() > 0 {
		return nil, errors.New("node: an Engine can be taken over for the same worker of the same scenario, when all " +
			"its payloads are its own")
	}
	from := &takenOver{engine: old, index: make([]int32, old.plan.NumHosted())}
	e.journals = old.journals
	e.store, e.stats = old.store, Stats{Events: old.stats.Events, Activations: old.stats.Activations,
		BeyondHorizon: old.stats.BeyondHorizon}
	e.store.giveBack = e.cfg.Release
	for i := range from.index {
		id := old.idAt(uint32(i))
		from.index[i] = e.plan.indexOn(e.plan.self, id)
		if from.index[i] >= 0 && (old.ownFloors != nil || old.linkFloors != nil) {
			from.keepFloors(old.simprocOf(id))
		}
		if old.passive != nil {
			continue
		}
		if p := old.at(uint32(i)); from.index[i] >= 0 {
			from.stays = append(from.stays, p)
		} else {
			*p = Simproc{} // its memory may stay for long
		}
	}
	if old.passive != nil {
		if err := old.passive.move(old, e); err != nil {
			return nil, err
		}
	}
	for i := range old.nodes {
		old.nodes[i].engine = e // handlers may have kept it
	}
	return from, nil
}

// keepFloors notes what p has promised.
func (from *takenOver) keepFloors(p *Simproc) {
	if floor := p.floor(); floor > 0 {
		from.floors = append(from.floors, keptFloor{p.id, -1, floor})
	}
	for l := range p.links() {
		if floor := p.linkFloor(l); floor > 0 {
			from.floors = append(from.floors, keptFloor{p.id, l, floor})
		}
	}
}

// simprocs gives those of a plan, by index: the ones that stay, and new ones.
func (from *takenOver) simprocs(plan *Plan) []*Simproc {
	all := make([]*Simproc, plan.NumHosted())
	from.kept = make([]bool, len(all))
	for _, p := range from.stays {
		i := plan.indexOn(plan.self, p.id)
		all[i], from.kept[i] = p, true
	}
	fresh := make([]Simproc, len(all)-len(from.stays))
	for i := range all {
		if all[i] == nil {
			all[i], fresh = &fresh[0], fresh[1:]
		}
	}
	return all
}

// takeOver has the simprocs that stay be loaded.
func (l *loader) takeOver(from *takenOver) {
	if from == nil {
		return
	}
	for _, f := range from.floors {
		if p := l.simprocOf(f.of); f.link < 0 {
			l.raiseFloor(p, f.epoch)
		} else {
			l.raiseLinkFloor(p, f.link, f.epoch)
		}
	}
	for _, f := range from.floors { // when all are there
		l.floorRaised(l.simprocOf(f.of), LinkID(f.link))
	}
	l.front = max(l.front, from.engine.front)
	for _, n := range l.plan.nodesOn(l.plan.self) {
		stays := from.engine.plan.WorkerOf(int(n)) == l.plan.self
		l.loaded[n], l.waiting[n] = stays, stays
	}
	from.engine.eachPending(func(old *entry) {
		en := *old
		if i := from.index[en.proc]; i >= 0 {
			en.proc, en.remote = uint32(i), false
			l.file(en)
		} else {
			l.store.free(en.ref)
		}
	})
}

// LastCalled is the node of the simproc whose handler was called last; 0 where none was.
func (e *Engine) LastCalled() int {
	if e.plan.NumHosted() == 0 {
		return 0
	}
	return e.plan.Node(e.idAt(e.last))
}

// OwnPayloads copies the payloads that lie in memory of other workers, and gives that back. It is called between two
// legs.
func (e *Engine) OwnPayloads() { e.store.own() }

// leases is how many payloads lie in memory of others.
func (s *store) leases() (n int) {
	for i := range s.outside {
		if s.outside[i].lease != 0 {
			n++
		}
	}
	return n
}

// own copies payloads that lie in memory of others.
func (s *store) own() {
	for i := range s.outside {
		if o := &s.outside[i]; o.lease != 0 {
			o.data = s.copyLarge(o.data)
			s.giveBack(o.lease)
			o.lease = 0
		}
	}
}

// Move gives nodes other workers: of the same scenario, over as many workers.
func (p *Placed) Move(placement []int32) (*Placed, error) {
	if p.mapped { // somebody else has written it
		if p.linkStart != nil && !rises(p.linkStart, len(p.linkTo)) {
			return nil, fmt.Errorf("node: placed graph: starts of links don't rise from 0 to %d", len(p.linkTo))
		}
		for k, to := range p.linkTo {
			if int(to) >= p.NumSimprocs() || !isLookahead(p.lookahead[k]) {
				return nil, fmt.Errorf("node: placed graph: link %d leads to simproc %d of %d, with lookahead %v", k,
					to, p.NumSimprocs(), p.lookahead[k])
			}
		}
	}
	moved, err := p.Place(placement, p.workers)
	if err == nil {
		moved.mapped, moved.least = p.mapped, p.least
	}
	return moved, err
}
