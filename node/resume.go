// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/disco-sim/disco/envelope"
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
	// perhaps, and returns the first error. Every node that is here must come once in node, and in pending not at all
	// or with all of its parts. encoded may end with the call.
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
	loaded  []bool // by node: it came
	waiting []bool // by node: what is pending for it came, or some of that
	parts   map[int]*partsCome
}

// partsCome is what came of a node for which parts are pending.
type partsCome struct {
	came map[uint32]bool
	of   uint32 // how many there are; 0: the last one hasn't come
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
	for _, n := range e.plan.nodesOn(e.plan.self) {
		if !l.loaded[n] {
			return fmt.Errorf("node: %s isn't in the state of epoch %v", e.plan.NodeName(int(n)), r.Epoch)
		}
	}
	for n, p := range l.parts {
		if uint32(len(p.came)) != p.of {
			return fmt.Errorf("node: found %d parts of what is pending for %s at epoch %v, want all", len(p.came),
				e.plan.NodeName(n), r.Epoch)
		}
	}
	return nil
}

// begin notes that something came for a node, of which first is the first simproc here; -1: it isn't here.
func (l *loader) begin(came []bool, n int) (first int32, err error) {
	if n < 0 || n >= len(came) {
		return -1, l.fail(fmt.Errorf("node: the state has a node %d, want 0 to %d", n, len(came)-1))
	}
	if first = l.firstOf(n); first < 0 {
		return -1, nil
	}
	if came[n] {
		return -1, l.fail(fmt.Errorf("node: the state has %s twice", l.plan.NodeName(n)))
	}
	came[n] = true
	return first, nil
}

// node loads what AppendNode gave.
func (l *loader) node(n int, encoded []byte) error {
	first, err := l.begin(l.loaded, n)
	if first < 0 {
		return err
	}
	if l.passive != nil {
		if place := l.plan.placeAt(n); l.passive.where[place] < residentBit {
			if err := l.wake(place); err != nil {
				return l.fail(err)
			}
		}
	}
	for r := range l.plan.layers {
		p := l.proc(uint32(first))
		if r > 0 {
			p = l.Engine.simproc(n, r)
		}
		if encoded, err = l.simproc(p, encoded); err != nil {
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
		err = p.takeOwn(own)
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

// takeOwn reads what appendOwn has appended, behind its size.
func (p *Simproc) takeOwn(src []byte) error {
	word := binary.LittleEndian
	if len(src) < savedOwnBytes-4 {
		return fmt.Errorf("found %d bytes, want at least %d", len(src), savedOwnBytes-4)
	}
	if version := word.Uint32(src); version != savedVersion {
		return fmt.Errorf("found version %d of an encoding, want %d", version, savedVersion)
	}
	floor := math.Float64frombits(word.Uint64(src[28:]))
	p.now = math.Float64frombits(word.Uint64(src[4:]))
	p.number, p.hash = word.Uint64(src[12:]), word.Uint64(src[20:])
	count, floors := uint64(word.Uint32(src[36:])), src[40:]
	switch {
	case !(floor >= 0 && floor <= math.MaxFloat64):
		return fmt.Errorf("found nothing before %v promised, want a finite time >= 0", floor)
	case count*savedFloorBytes != uint64(len(floors)):
		return fmt.Errorf("found %d promises about links in %d bytes, want %d bytes for each", count,
			len(floors), savedFloorBytes)
	}
	if floor != p.floor() {
		p.engine.raiseFloor(p, floor)
	}
	before := -1
	for ; len(floors) > 0; floors = floors[savedFloorBytes:] {
		link, epoch := word.Uint32(floors), math.Float64frombits(word.Uint64(floors[4:]))
		if int64(link) <= int64(before) || int64(link) >= int64(p.numLinks) || !(epoch > 0) {
			return fmt.Errorf("found nothing before %v promised on link %d behind link %d, want a time > 0 and one "+
				"of %d links, rising", epoch, link, before, p.numLinks)
		}
		before = int(link)
		p.engine.raiseLinkFloor(p, before, epoch)
	}
	return nil
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
	s, err := p.saver()
	if err != nil {
		return err
	}
	defer e.rescueFrom(p, "loading its state", &err)
	err = e.coder.Decode(encoded, s.StateVersion(), fresh, func(c *state.Codec) { s.State(p, c) })
	if err != nil {
		return fmt.Errorf("node: state of the handler of %s, a %T: %w", p.Name(), s, err)
	}
	return e.err // State has called what only Handle may
}

// pending files what EachPending gave.
func (l *loader) pending(n int, encoded []byte) error {
	if n >= 0 && n < len(l.waiting) && l.parts[n] != nil {
		l.waiting[n] = false // its parts tell whether it comes twice
	}
	local, err := l.begin(l.waiting, n)
	if local < 0 {
		return err
	}
	rest, err := l.pendingHead(n, encoded)
	rank := 0
	for ; err == nil && rank < len(l.plan.layers); rank++ {
		if rank > 0 {
			local = l.plan.indexOn(l.plan.self, l.plan.ID(Endpoint{n, rank}))
		}
		rest, err = l.simprocPending(uint32(local), rest)
	}
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("found %d bytes behind the last event, want none", len(rest))
	}
	if err != nil {
		return l.fail(fmt.Errorf("node: what is pending for %s: byte %d: %w",
			l.plan.Name(l.plan.ID(Endpoint{n, max(rank-1, 0)})), len(encoded)-len(rest), err))
	}
	return nil
}

// pendingHead takes what stands in front of what is pending, and returns the rest.
func (l *loader) pendingHead(n int, src []byte) ([]byte, error) {
	version, rest, err := takeUint32(src)
	switch {
	case err != nil:
		return src, err
	case version == savedPartVersion:
		return l.partHead(n, rest)
	case version != savedVersion:
		return src, fmt.Errorf("found version %d of an encoding, want %d or %d", version, savedVersion,
			savedPartVersion)
	case l.parts[n] != nil:
		return src, errors.New("found the node twice, in one part and in several")
	}
	return rest, nil
}

// partHead takes which part of what is pending for a node this is.
func (l *loader) partHead(n int, src []byte) (rest []byte, err error) {
	part, rest, err := takeUint32(src)
	last := uint32(0)
	if err == nil {
		last, rest, err = takeUint32(rest)
	}
	if err != nil {
		return src, err
	}
	if l.parts == nil {
		l.parts = map[int]*partsCome{}
	}
	p := l.parts[n]
	if p == nil {
		p = &partsCome{came: map[uint32]bool{}}
		l.parts[n] = p
	}
	if last > 1 || p.came[part] || last == 1 && p.of > 0 || part == math.MaxUint32 {
		return src, fmt.Errorf("found part %d, the last: %d, want each part once, and one last", part, last)
	}
	if p.came[part] = true; last == 1 {
		p.of = part + 1
	}
	return rest, nil
}

func takeUint32(src []byte) (v uint32, rest []byte, err error) {
	if len(src) < 4 {
		return 0, src, fmt.Errorf("found %d bytes, want 4", len(src))
	}
	return binary.LittleEndian.Uint32(src), src[4:], nil
}

// simprocPending files what is pending for a simproc, and returns what is behind it, or with an error what it was
// found in.
func (l *loader) simprocPending(local uint32, src []byte) (rest []byte, err error) {
	count, rest, err := takeUint32(src)
	if err != nil {
		return rest, err
	}
	var before entry
	for i := range count {
		en, behind, err := l.takeEntry(rest)
		if err != nil {
			return rest, err
		}
		if en.proc = local; i > 0 && !before.before(&en) {
			return rest, fmt.Errorf("found event %d of simproc %d at epoch %v behind event %d of simproc %d at %v, "+
				"want rising ones", en.number, en.sender, en.epoch(), before.number, before.sender, before.epoch())
		}
		l.file(en)
		before, rest = en, behind
	}
	return rest, nil
}

// takeEntry reads what appendEntry has appended, and stores headers and data.
func (l *loader) takeEntry(src []byte) (en entry, rest []byte, err error) {
	word := binary.LittleEndian
	if len(src) < savedWakeupBytes {
		return en, src, fmt.Errorf("found %d bytes, want at least %d for what is pending", len(src), savedWakeupBytes)
	}
	epoch, sender := math.Float64frombits(word.Uint64(src)), word.Uint32(src[8:])
	en.key, en.sender = keyOf(epoch), SimprocID(sender)
	if !(epoch >= l.resume.Epoch && epoch < l.cfg.Horizon) {
		return en, src, fmt.Errorf("found something pending for epoch %v, want %v or later, and before the horizon %v",
			epoch, l.resume.Epoch, l.cfg.Horizon)
	}
	if en.sender == wakeSender {
		return en, src[savedWakeupBytes:], nil
	}
	if int64(sender) >= int64(l.plan.NumSimprocs()) {
		return en, src, fmt.Errorf("found an event of simproc %d, want 0 to %d", sender, l.plan.NumSimprocs()-1)
	}
	left := uint64(len(src)) - savedEventBytes
	if len(src) < savedEventBytes {
		return en, src, fmt.Errorf("found %d bytes, want at least %d for an event", len(src), savedEventBytes)
	}
	en.number = word.Uint64(src[12:])
	headers := uint64(word.Uint32(src[20:]))
	if headers > min(left, envelope.HeadersMax) {
		return en, src, fmt.Errorf("found an event with %d bytes of headers, want at most %d", headers,
			min(left, envelope.HeadersMax))
	}
	data := uint64(word.Uint32(src[24+headers:]))
	if data > min(left-headers, envelope.DataMax) {
		return en, src, fmt.Errorf("found an event with %d bytes of data, want at most %d", data,
			min(left-headers, envelope.DataMax))
	}
	end := savedEventBytes + headers + data
	en.ref = l.store.put(src[24:24+headers], src[end-data:end])
	return en, src[end:], nil
}
