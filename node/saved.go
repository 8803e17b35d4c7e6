// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/disco-sim/disco/state"
)

// What an Engine saves at the end of a leg (docs/checkpoints.md, section 2; byte by byte: docs/format/checkpoint.md).
// One list of fields writes and reads each part.

// Saver is a Handler whose state can be saved.
type Saver interface {
	Handler

	// StateVersion is that of the encoding, from 1. It rises with each change of what State writes.
	StateVersion() uint32

	// State writes or reads, with one list of fields, all that the handler has beside what NewHandler has made of the
	// scenario. It is called between two calls of Handle, or instead of the one at epoch 0; it sends nothing and draws
	// nothing. What it reads may be wrong: c.Fail.
	State(p *Simproc, c *state.Codec)
}

// StateChecker is a Saver that can't be saved in every run.
type StateChecker interface {
	Saver

	// CheckState says why the handler can't be saved, nil where it can. It is called before the handler's first call,
	// and only in runs that are to be saved or loaded: so the handler may refuse from then on what can't be saved.
	CheckState(p *Simproc) error
}

// NoStateError is why a run can't be saved: a handler isn't a Saver, or a StateChecker that can't be saved in this run.
type NoStateError struct {
	Simproc string // the first one with such a handler
	Handler string // its type
	Err     error  // what the StateChecker says; nil: it isn't a Saver
}

// Unwrap is what the StateChecker says.
func (e *NoStateError) Unwrap() error { return e.Err }

// Error says what to write.
func (e *NoStateError) Error() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return fmt.Sprintf("node: %s: its handler, a %s, can't be saved: write StateVersion and State "+
		"(docs/checkpoints.md)", e.Simproc, e.Handler)
}

const (
	savedVersion  = 1         // of the encoding of what an Engine itself has
	savedBytesMax = 256 << 20 // of a node's state, and of what is pending for it
)

// CheckState is nil where all handlers can save themselves; else a *NoStateError, or what is wrong with one.
func (e *Engine) CheckState() error { return e.checkState(nil) }

// checkState leaves out the handlers that were taken over, which were asked before their first call.
func (e *Engine) checkState(from *takenOver) error {
	if e.passive != nil {
		return nil // NewEngine has looked
	}
	for _, i := range e.byID {
		p := e.at(i)
		if from.has(p) {
			continue
		}
		if err := p.checkState(); err != nil {
			return err
		}
	}
	return nil
}

// checkState is CheckState for one handler.
func (p *Simproc) checkState() (err error) {
	defer p.engine.rescueFrom(p, "saying whether its state can be saved", &err)
	s, err := p.saver()
	if err != nil {
		return err
	}
	if s.StateVersion() == 0 {
		return p.noVersion(s)
	}
	if c, ok := s.(StateChecker); ok {
		if err := c.CheckState(p); err != nil {
			return &NoStateError{p.Name(), fmt.Sprintf("%T", p.handler), err}
		}
	}
	return nil
}

// rescueState is rescueFrom for who goes from one simproc to the next: the panic was of the last one.
func (e *Engine) rescueState(p **Simproc, what string, err *error) {
	if r := recover(); r != nil {
		*err = e.panicked(nil, r, "node: "+(*p).Name()+", "+what)
	}
}

// saver is p's handler.
func (p *Simproc) saver() (Saver, error) {
	s, ok := p.handler.(Saver)
	if !ok {
		return nil, &NoStateError{p.Name(), fmt.Sprintf("%T", p.handler), nil}
	}
	return s, nil
}

// noVersion refuses version 0 of what a handler writes.
func (p *Simproc) noVersion(s Saver) error {
	return fmt.Errorf("node: %s: its handler, a %T, has a state of version 0, want at least 1", p.Name(), s)
}

// Changed reports whether one of a node's simprocs was called at since or later: else AppendNode gives what it gave.
// This worker hosts the node.
func (e *Engine) Changed(n int, since float64) (changed bool) {
	e.eachOf(n, func(p *Simproc) { changed = changed || p.begun() && p.now >= since })
	return changed
}

// AppendNode appends the state of a node that this worker hosts, without what is pending. It is called between two
// legs. An error that is a *SavedTooLargeError is of the node's size.
func (e *Engine) AppendNode(dst []byte, n int) ([]byte, error) {
	first := e.firstOf(n)
	if first < 0 {
		return nil, fmt.Errorf("node: the state of node %d was asked for, which is not on worker %d", n, e.plan.self)
	}
	if err := e.betweenLegs(); err != nil {
		return nil, err
	}
	start := len(dst)
	var err error
	if e.isPassive(n) {
		dst, err = e.passive.appendTo(dst, e.plan.placeAt(n), n)
	} else {
		e.prefetchNode(n)
		dst, err = e.appendNode(dst, n, uint32(first))
	}
	if err != nil {
		return nil, err
	}
	return dst, checkSize(e.plan, n, len(dst)-start, false)
}

// appendNode appends the state of a node that is in memory, of which first is the first simproc here.
func (e *Engine) appendNode(dst []byte, n int, first uint32) (_ []byte, err error) {
	var p *Simproc
	defer e.rescueState(&p, "saving its state", &err)
	for r := range e.plan.layers {
		if p = e.proc(first); r > 0 {
			p = e.simproc(n, r)
		}
		if dst, err = e.appendHandler(e.appendOwn(dst, p), p); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// appendHandler appends the block that p's handler writes.
func (e *Engine) appendHandler(dst []byte, p *Simproc) ([]byte, error) {
	s, err := p.saver()
	if err != nil {
		return nil, err
	}
	version := s.StateVersion()
	if version == 0 {
		return nil, p.noVersion(s)
	}
	at := len(dst)
	dst, err = e.coder.Append(append(dst, 0, 0, 0, 0), version, func(c *state.Codec) { s.State(p, c) })
	if err != nil {
		return nil, &modelError{fmt.Sprintf("node: %s: saving its state: %v", p.Name(), err), err}
	}
	size := len(dst) - at - 4
	binary.LittleEndian.PutUint32(dst[at:], uint32(size))
	e.lines = linesOf(size)
	return dst, e.err // State has called what only Handle may
}

// EachHash calls yield with the trace hash of each simproc of this worker, in the order of their ids: of what it has
// handled so far. It is called between two legs.
func (e *Engine) EachHash(yield func(id SimprocID, hash uint64)) { e.Hashes(yield) }

// firstOf is the index here of a node's first simproc, -1 where this worker doesn't host that node, or there is none of
// this number. A checkpoint asks for it once a node: finding a node's worker takes a tenth of the time for its state.
func (e *Engine) firstOf(n int) int32 {
	if n < 0 || n >= e.plan.nodes {
		return -1
	}
	return e.plan.indexOn(e.plan.self, e.plan.ID(Endpoint{Node: n}))
}

// simproc is that of a rank of a node which this worker hosts, nil where it isn't in memory.
func (e *Engine) simproc(n, rank int) *Simproc {
	return e.proc(uint32(e.plan.indexOn(e.plan.self, e.plan.ID(Endpoint{n, rank}))))
}

// betweenLegs returns an error where there is still something to be done in this leg, or the Engine is done for.
func (e *Engine) betweenLegs() error {
	if next := e.Next(); e.current != nil || next != Never {
		return fmt.Errorf("node: the state of worker %d was asked for in the middle of a leg until %v: next is %v",
			e.plan.self, e.until, next)
	}
	return e.err
}

// SavedTooLargeError is why a node can't be saved at this moment: its state, or an event that is pending for it, is too
// large. Nothing is wrong with the run.
type SavedTooLargeError struct {
	Node    string
	Bytes   int  // that it has when it is saved
	Most    int  // that are allowed
	Pending bool // it is of an event
}

// Error says what to do.
func (e *SavedTooLargeError) Error() string {
	if e.Pending {
		return fmt.Sprintf("node: %s: an event that is pending for it has %d bytes when it is saved, at most %d are "+
			"allowed: send less data at once", e.Node, e.Bytes, e.Most)
	}
	return fmt.Sprintf("node: %s: its state has %d bytes, at most %d are allowed: have it save less, or share what it "+
		"has among several nodes", e.Node, e.Bytes, e.Most)
}

// checkSize refuses the state of a node that is too large; pending: what is pending for it.
func checkSize(plan *Plan, n, size int, pending bool) error {
	if size > savedBytesMax {
		return &SavedTooLargeError{plan.NodeName(n), size, savedBytesMax, pending}
	}
	return nil
}

// Bytes of what a simproc has beside its handler: without floors of links, with the size in front; and of such a floor.
const (
	savedOwnBytes   = 4 + 4 + 4*8 + 4
	savedFloorBytes = 4 + 8
)

// appendOwn appends the block of what a simproc has beside its handler; takeOwn reads it. Of small states it is half,
// and with one list of fields for both directions each took twice the time.
func (e *Engine) appendOwn(dst []byte, p *Simproc) []byte {
	at, word := len(dst), binary.LittleEndian
	dst = slices.Grow(dst, savedOwnBytes)[:at+savedOwnBytes]
	b := dst[at:]
	word.PutUint32(b[4:], savedVersion)
	word.PutUint64(b[8:], math.Float64bits(p.now))
	word.PutUint64(b[16:], p.number)
	word.PutUint64(b[24:], p.hash)
	word.PutUint64(b[32:], math.Float64bits(p.floor()))
	count := 0
	if e.linkFloors != nil {
		for l := range p.links() {
			if floor := p.linkFloor(l); floor > 0 {
				count++
				dst = word.AppendUint64(word.AppendUint32(dst, uint32(l)), math.Float64bits(floor))
			}
		}
	}
	word.PutUint32(dst[at:], uint32(len(dst)-at-4))
	word.PutUint32(dst[at+40:], uint32(count))
	return dst
}

// takeBlock is a block, of which the size stands in front, and what stands behind it.
func takeBlock(src []byte) (block, rest []byte, err error) {
	if len(src) < 4 {
		return nil, nil, fmt.Errorf("found %d bytes, want 4 for the size of a block", len(src))
	}
	size, rest := binary.LittleEndian.Uint32(src), src[4:]
	if uint64(size) > uint64(len(rest)) {
		return nil, nil, fmt.Errorf("found a block of %d bytes, want at most %d: so many are left", size, len(rest))
	}
	return rest[:size:size], rest[size:], nil
}

// eachPending visits all that is pending, in no particular order.
func (e *Engine) eachPending(visit func(en *entry)) {
	e.eachPart(func(part []entry) {
		for i := range part {
			visit(&part[i])
		}
	})
}

// eachPart visits all that is pending, so many at a time as lie together, in no particular order.
func (e *Engine) eachPart(visit func(part []entry)) {
	for i := range e.classes {
		e.classes[i].set.parts(visit)
	}
	if e.byLink != nil {
		for i := range e.byLink.queues {
			e.byLink.queues[i].set.parts(visit)
		}
	}
}

// numPending is how many entries are pending.
func (e *Engine) numPending() (n int) {
	for i := range e.classes {
		n += e.classes[i].set.len()
	}
	if e.byLink != nil {
		for i := range e.byLink.queues {
			n += e.byLink.queues[i].set.len()
		}
	}
	return n
}
