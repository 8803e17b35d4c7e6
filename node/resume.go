// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"

	"github.com/disco-sim/disco/state"
)

// Resume is a state to begin with: what Engines have saved at the end of a leg, however nodes were spread over them.
type Resume struct {
	Epoch float64 // the end of that leg: later than 0, before the horizon
	Fresh bool    // random streams begin anew, from this replication's seeds

	// Varied says that handlers go on under other settings than those that they were saved under: what they promised
	// to send no earlier than doesn't bind them any more. Nobody counts on it: Engines begin without bounds of others.
	Varied bool

	// Each calls node and pending with what AppendNode and EachPending gave, in any order, of more nodes than are here,
	// perhaps, and returns the first error. Every node that is here must come once in node. encoded may end with the
	// call.
	Each func(node, pending func(n int, encoded []byte) error) error

	// From, when not nil, is this worker's Engine of the leg that has ended at Epoch. Nodes that are here in both plans
	// are taken over from it as they are, with what is pending for them: they don't come in Each, which is nil where
	// none comes. It must not be used any more then. Its payloads are its own (Engine.OwnPayloads).
	From *Engine
}

// loader takes in a state.
type loader struct {
	*Engine
	resume  *Resume
	loaded  []bool  // by node: it came
	waiting []bool  // by node: what is pending for it came
	entries []entry // scratch
}

// load begins with a saved state. Precondition: all handlers are made, and nothing is pending.
func (e *Engine) load(r *Resume, from *takenOver) error {
	if !(r.Epoch > 0 && r.Epoch < e.cfg.Horizon) {
		return fmt.Errorf("node: a state of epoch %v, want one later than 0 and before the horizon %v", r.Epoch,
			e.cfg.Horizon)
	}
	if err := e.checkState(from); err != nil {
		return err
	}
	l := loader{Engine: e, resume: r, loaded: make([]bool, e.plan.nodes), waiting: make([]bool, e.plan.nodes)}
	l.takeOver(from)
	if r.Each != nil {
		if err := r.Each(l.node, l.pending); err != nil {
			return err
		}
	}
	if e.err != nil {
		return e.err // Each has lost it
	}
	for _, n := range e.plan.nodesOf(e.plan.self) {
		if !l.loaded[n] {
			return fmt.Errorf("node: %s isn't in the state of epoch %v", e.plan.NodeName(int(n)), r.Epoch)
		}
	}
	return nil
}

// begin notes that something came for a node; false: it isn't here.
func (l *loader) begin(came []bool, n int) (bool, error) {
	if n < 0 || n >= len(came) {
		return false, l.fail(fmt.Errorf("node: the state has a node %d, want 0 to %d", n, len(came)-1))
	}
	if l.plan.WorkerOf(n) != l.plan.self {
		return false, nil
	}
	if came[n] {
		return false, l.fail(fmt.Errorf("node: the state has %s twice", l.plan.NodeName(n)))
	}
	came[n] = true
	return true, nil
}

// node loads what AppendNode gave.
func (l *loader) node(n int, encoded []byte) error {
	if here, err := l.begin(l.loaded, n); !here {
		return err
	}
	if l.passive != nil {
		if place := l.plan.place[n]; l.passive.where[place] < residentBit {
			if err := l.wake(place); err != nil {
				return l.fail(err)
			}
		}
	}
	for r := range l.plan.layers {
		var err error
		if encoded, err = l.simproc(l.Engine.simproc(n, r), encoded); err != nil {
			return l.fail(err)
		}
	}
	if len(encoded) > 0 {
		return l.fail(fmt.Errorf("node: the state of %s has %d bytes too many", l.plan.NodeName(n), len(encoded)))
	}
	return nil
}

// simproc loads what is first in encoded, and returns the rest.
func (l *loader) simproc(p *Simproc, encoded []byte) (rest []byte, err error) {
	handler, rest, err := p.load(encoded)
	if err != nil {
		return nil, err
	}
	if !(p.now >= 0 && p.now < l.resume.Epoch) {
		return nil, fmt.Errorf("node: state of %s: found the last call at epoch %v, want one from 0 to before %v",
			p.Name(), p.now, l.resume.Epoch)
	}
	l.front = max(l.front, keyOf(p.now))
	if l.resume.Varied {
		p.forgetFloors()
	}
	l.raiseFloors(p)
	return rest, l.loadHandler(p, handler, l.resume.Fresh)
}

// load loads what p has beside its handler, whose state it returns, and what stands behind that.
func (p *Simproc) load(encoded []byte) (handler, rest []byte, err error) {
	own, rest, err := takeBlock(encoded)
	if err == nil {
		err = state.Decode(own, savedVersion, false, p.fields)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("node: state of %s: %w", p.Name(), err)
	}
	if handler, rest, err = takeBlock(rest); err != nil {
		err = fmt.Errorf("node: state of the handler of %s: %w", p.Name(), err)
	}
	return handler, rest, err
}

// forgetFloors takes back what p has promised.
func (p *Simproc) forgetFloors() {
	if p.floor() > 0 {
		p.engine.ownFloors[p.local] = 0
	}
	for link := range p.links() {
		if p.linkFloor(link) > 0 {
			p.engine.linkFloors[int(p.firstLink)+link] = 0
		}
	}
}

// raiseFloors takes in what p has promised.
func (l *loader) raiseFloors(p *Simproc) {
	if p.floor() > 0 {
		l.floorRaised(p, -1)
	}
	for link := range p.links() {
		if p.linkFloor(link) > 0 {
			l.floorRaised(p, LinkID(link))
		}
	}
}

// loadHandler loads what p's handler wrote.
func (e *Engine) loadHandler(p *Simproc, encoded []byte, fresh bool) (err error) {
	s, version, err := p.saver()
	if err != nil {
		return err
	}
	defer e.rescueFrom(p, "loading its state", &err)
	if err := state.Decode(encoded, version, fresh, func(c *state.Codec) { s.State(p, c) }); err != nil {
		return fmt.Errorf("node: state of the handler of %s, a %T: %w", p.Name(), s, err)
	}
	return e.err // State has called what only Handle may
}

// pending files what EachPending gave.
func (l *loader) pending(n int, encoded []byte) error {
	if here, err := l.begin(l.waiting, n); !here {
		return err
	}
	rank := 0
	err := state.Decode(encoded, savedVersion, false, func(c *state.Codec) {
		for rank = range l.plan.layers {
			if l.simprocPending(c, uint32(l.plan.indexOn(l.plan.self, l.plan.ID(Endpoint{n, rank})))); c.Failed() {
				return
			}
		}
	})
	if err != nil {
		return l.fail(fmt.Errorf("node: what is pending for %s: %w",
			l.plan.Name(l.plan.ID(Endpoint{n, rank})), err))
	}
	return nil
}

// simprocPending files what is pending for a simproc.
func (l *loader) simprocPending(c *state.Codec, local uint32) {
	i := 0
	state.List(c, &l.entries, savedEntryBytes, func(en *entry) {
		l.entryFields(c, en)
		if en.proc = local; i > 0 && !l.entries[i-1].before(en) {
			before := &l.entries[i-1]
			c.Fail("found event %d of simproc %d at epoch %v behind event %d of simproc %d at %v, want rising ones",
				en.number, en.sender, en.epoch(), before.number, before.sender, before.epoch())
		}
		i++
	})
	if c.Failed() {
		return
	}
	for _, en := range l.entries {
		l.file(en)
	}
}
