// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/disco-sim/disco/envelope"
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

// NoStateError is why a run can't be saved: a handler isn't a Saver.
type NoStateError struct {
	Simproc string // the first one with such a handler
	Handler string // its type
}

// Error says what to write.
func (e *NoStateError) Error() string {
	return fmt.Sprintf("node: %s: its handler, a %s, can't be saved: write StateVersion and State "+
		"(docs/checkpoints.md)", e.Simproc, e.Handler)
}

const (
	savedVersion  = 1         // of the encoding of what an Engine itself has
	savedBytesMax = 256 << 20 // of a node's state, and of what is pending for it
)

// CheckState is nil where all handlers can save themselves; else a *NoStateError, or what is wrong with a version.
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
		s, _, err := p.saver()
		if err == nil {
			err = p.checkState(s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *Simproc) checkState(s Saver) (err error) {
	defer p.engine.rescueFrom(p, "saying whether its state can be saved", &err)
	if c, ok := s.(StateChecker); ok {
		return c.CheckState(p)
	}
	return nil
}

// saver is p's handler, and the version of what it writes.
func (p *Simproc) saver() (s Saver, version uint32, err error) {
	defer p.engine.rescueFrom(p, "naming the version of its state", &err)
	s, ok := p.handler.(Saver)
	if !ok {
		return nil, 0, &NoStateError{p.Name(), fmt.Sprintf("%T", p.handler)}
	}
	if version = s.StateVersion(); version == 0 {
		return nil, 0, fmt.Errorf("node: %s: its handler, a %T, has a state of version 0, want at least 1", p.Name(), s)
	}
	return s, version, nil
}

// Changed reports whether one of a node's simprocs was called at since or later: else AppendNode gives what it gave.
// This worker hosts the node.
func (e *Engine) Changed(n int, since float64) (changed bool) {
	e.eachOf(n, func(p *Simproc) { changed = changed || p.begun() && p.now >= since })
	return changed
}

// AppendNode appends the state of a node that this worker hosts, without what is pending. It is called between two
// legs.
func (e *Engine) AppendNode(dst []byte, n int) ([]byte, error) {
	if n < 0 || n >= e.plan.nodes || e.plan.WorkerOf(n) != e.plan.self {
		return nil, fmt.Errorf("node: the state of node %d was asked for, which is not on worker %d", n, e.plan.self)
	}
	if err := e.betweenLegs(); err != nil {
		return nil, err
	}
	start := len(dst)
	var err error
	if e.isPassive(n) {
		dst, err = e.passive.appendTo(dst, e.plan.place[n], n)
	} else {
		e.prefetchNode(n)
		dst, err = e.appendNode(dst, n)
	}
	if err != nil {
		return nil, err
	}
	return dst, e.checkSize(n, len(dst)-start)
}

// appendNode appends the state of a node that is in memory.
func (e *Engine) appendNode(dst []byte, n int) ([]byte, error) {
	for r := range e.plan.layers {
		p := e.simproc(n, r)
		var err error
		if dst, err = appendBlock(dst, savedVersion, p.fields); err != nil {
			return nil, fmt.Errorf("node: %s: saving its state: %w", p.Name(), err)
		}
		if dst, err = e.appendHandler(dst, p); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// EachHash calls yield with the trace hash of each simproc of this worker, in the order of their ids: of what it has
// handled so far. It is called between two legs.
func (e *Engine) EachHash(yield func(id SimprocID, hash uint64)) { e.Hashes(yield) }

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

func (e *Engine) checkSize(n, size int) error {
	if size > savedBytesMax {
		return fmt.Errorf("node: %s: its state has %d bytes, at most %d are allowed", e.plan.NodeName(n), size,
			savedBytesMax)
	}
	return nil
}

// floorOfLink is a promise about one link (AdvancePromise).
type floorOfLink struct {
	link  uint32 // its place among the simproc's
	epoch float64
}

// fields are what a simproc has beside its handler.
func (p *Simproc) fields(c *state.Codec) {
	c.Float(&p.now)
	c.Uint64(&p.number)
	c.Uint64(&p.hash)
	floor := p.floor()
	if c.Float(&floor); !(floor >= 0 && floor <= math.MaxFloat64) {
		c.Fail("found nothing before %v promised, want a finite time >= 0", floor)
		return
	}
	if floor != p.floor() {
		p.engine.raiseFloor(p, floor)
	}
	var floors []floorOfLink
	if p.engine.linkFloors != nil && !c.Loading() {
		for l := range p.links() {
			if floor := p.linkFloor(l); floor > 0 {
				floors = append(floors, floorOfLink{uint32(l), floor})
			}
		}
	}
	before := -1
	state.List(c, &floors, 12, func(f *floorOfLink) {
		c.Uint32(&f.link)
		c.Float(&f.epoch)
		if int64(f.link) <= int64(before) || int64(f.link) >= int64(p.numLinks) || !(f.epoch > 0) {
			c.Fail("found nothing before %v promised on link %d behind link %d, want a time > 0 and one of %d links, "+
				"rising", f.epoch, f.link, before, p.numLinks)
			return
		}
		before = int(f.link)
		if c.Loading() {
			p.engine.raiseLinkFloor(p, before, f.epoch)
		}
	})
}

// appendHandler appends what p's handler writes.
func (e *Engine) appendHandler(dst []byte, p *Simproc) (_ []byte, err error) {
	s, version, err := p.saver()
	if err != nil {
		return nil, err
	}
	defer e.rescueFrom(p, "saving its state", &err)
	dst, err = appendBlock(dst, version, func(c *state.Codec) { s.State(p, c) })
	if err != nil {
		return nil, &modelError{fmt.Sprintf("node: %s: saving its state: %v", p.Name(), err), err}
	}
	return dst, e.err // State has called what only Handle may
}

// appendBlock appends a size, and what state.Append makes of fields.
func appendBlock(dst []byte, version uint32, fields func(*state.Codec)) ([]byte, error) {
	at := len(dst)
	dst, err := state.Append(append(dst, 0, 0, 0, 0), version, fields)
	if err != nil {
		return nil, err
	}
	size := len(dst) - at - 4
	if size > savedBytesMax {
		return nil, fmt.Errorf("found %d bytes, want at most %d", size, savedBytesMax)
	}
	binary.LittleEndian.PutUint32(dst[at:], uint32(size))
	return dst, nil
}

// takeBlock is what appendBlock has appended, and what stands behind it.
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

// EachPending calls yield for each node with pending events or wakeups, in rising order; encoded ends with the call. It
// is called between two legs. Beside what is pending it takes 32 bytes of memory for each entry.
func (e *Engine) EachPending(yield func(n int, encoded []byte) error) error {
	return e.EachPendingOf(func(int) bool { return true }, yield)
}

// EachPendingOf is EachPending for some of the nodes. It walks over what is pending for the others.
func (e *Engine) EachPendingOf(wanted func(n int) bool, yield func(n int, encoded []byte) error) error {
	if err := e.betweenLegs(); err != nil {
		return err
	}
	all, start := e.byTarget(wanted)
	layers := len(e.plan.layers)
	var encoded []byte
	for k, n := range e.plan.nodesOf(e.plan.self) {
		starts := start[k*layers : (k+1)*layers+1]
		if starts[0] == starts[layers] {
			continue
		}
		e.prefetchPayloads(all[starts[0]:starts[layers]])
		var err error
		encoded, err = state.Append(encoded[:0], savedVersion, func(c *state.Codec) {
			for r := range layers {
				entries := all[starts[r]:starts[r+1]]
				slices.SortFunc(entries, compare)
				// A wakeup that was asked for twice is one call.
				entries = slices.CompactFunc(entries, func(a, b entry) bool { return compare(a, b) == 0 })
				state.List(c, &entries, savedEntryBytes, func(en *entry) { e.entryFields(c, en) })
			}
		})
		if err == nil {
			err = e.checkSize(int(n), len(encoded))
		}
		if err != nil {
			return fmt.Errorf("node: %s: saving what is pending: %w", e.plan.NodeName(int(n)), err)
		}
		if err := yield(int(n), encoded); err != nil {
			return err
		}
	}
	return nil
}

// byTarget is all that is pending for the wanted nodes, by rising id of the target: those of place k are
// all[start[k]:start[k+1]].
func (e *Engine) byTarget(wanted func(n int) bool) (all []entry, start []int) {
	place := make([]int32, len(e.byID))
	for k, i := range e.byID {
		if place[i] = int32(k); !wanted(e.plan.Node(e.idAt(i))) {
			place[i] = -1
		}
	}
	start = make([]int, len(e.byID)+1)
	e.eachPending(func(en *entry) {
		if k := place[en.proc]; k >= 0 {
			start[k+1]++
		}
	})
	for k := range e.byID {
		start[k+1] += start[k]
	}
	all = make([]entry, start[len(e.byID)])
	next := slices.Clone(start)
	e.eachPending(func(en *entry) {
		if k := place[en.proc]; k >= 0 {
			all[next[k]] = *en
			next[k]++
		}
	})
	return all, start
}

// eachPending visits all that is pending, in no particular order.
func (e *Engine) eachPending(visit func(en *entry)) {
	for i := range e.classes {
		e.classes[i].set.each(visit)
	}
	if e.byLink != nil {
		for i := range e.byLink.queues {
			e.byLink.queues[i].set.each(visit)
		}
	}
}

// savedEntryBytes is the least that an entry takes: a wakeup.
const savedEntryBytes = 12

// entryFields are those of an event or a wakeup that is pending, without its target.
func (e *Engine) entryFields(c *state.Codec, en *entry) {
	if c.Loading() {
		*en = entry{} // the list has memory of a former one
	}
	epoch, sender := en.epoch(), uint32(en.sender)
	c.Float(&epoch)
	c.Uint32(&sender)
	en.key, en.sender = keyOf(epoch), SimprocID(sender)
	var headers, data []byte
	if en.sender != wakeSender {
		c.Uint64(&en.number)
		headers, data = e.store.get(en.ref)
		c.Bytes(&headers)
		c.Bytes(&data)
	}
	if !c.Loading() {
		return
	}
	switch from := e.cfg.Resume.Epoch; {
	case !(epoch >= from && epoch < e.cfg.Horizon):
		c.Fail("found something pending for epoch %v, want %v or later, and before the horizon %v", epoch, from,
			e.cfg.Horizon)
	case en.sender != wakeSender && int64(sender) >= int64(e.plan.NumSimprocs()):
		c.Fail("found an event of simproc %d, want 0 to %d", sender, e.plan.NumSimprocs()-1)
	case len(headers) > envelope.HeadersMax || len(data) > envelope.DataMax:
		c.Fail("found an event with %d bytes of data and %d of headers, want at most %d and %d", len(data),
			len(headers), envelope.DataMax, envelope.HeadersMax)
	default:
		en.ref = e.store.put(headers, data)
	}
}
