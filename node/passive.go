// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Passivation: an Engine with Config.Resident keeps only some of its nodes in memory. The others are passive: their
// state, encoded as at a checkpoint, lies in a file, and there is neither a Simproc nor a handler of them. What is
// pending for them stays in the pending set. A node comes back when one of its simprocs is called (wake).
//
// Nodes leave when those in memory take more than they may (shrink): of each stretch of places the quarter that was
// called longest ago. That is as a clock with a second chance goes round: no list is kept in order of use, and an
// event costs nothing. Which nodes are where has no influence on results.

// Resident says how much the nodes in memory may take.
type Resident struct {
	Bytes int64 // an estimate: of each node its simprocs, and twice what it saves
	File  StateFile
}

// StateFile keeps the states of nodes that have left memory. It is read where it was written. Its errors end the run.
type StateFile interface {
	ReadAt(b []byte, at int64) (int, error)
	WriteAt(b []byte, at int64) (int, error)
}

// passive is what an Engine has for nodes that may leave memory.
type passive struct {
	limit    int64
	file     shelf
	where    []uint32    // by place of the node: what placeNever and those below it say
	ids      []SimprocID // by local index; nil where they are consecutive, from first on
	first    SimprocID
	firsts   []uint32 // by local index: Simproc.firstLink; nil without links
	layers   int
	pages    [][]Simproc // of slotsOfPage nodes each
	slots    []slot
	free     []uint32 // slots
	hand     int      // the slot that shrink looks at next
	resident int64    // bytes, as an estimate
	mean     int64    // of what nodes have saved, roughly
	stretch  []idle   // scratch of shrink
	record   []byte   // scratch
	stats    PassiveStats
}

// What a node's word in passive.where says.
const (
	placeNever  = 0       // it was never called: it has no state
	residentBit = 1 << 31 // with this bit: its slot; without: 1 + the unit of the file where its record begins
)

// slot is what is known of a node in memory beside its simprocs.
type slot struct {
	place  uint32 // of the node; placeFree: nobody's
	bytes  uint32 // that it counts for
	record extent // that it had in the file, which the next one takes if it fits
}

const (
	placeFree   = ^uint32(0)
	slotsOfPage = 256
	simprocSize = 64  // bytes of a Simproc
	nodeBytes   = 128 // of a node in memory: its slot, its handlers' own headers, as an estimate
	stretchMax  = 512 // slots that shrink looks at in one go
	leaveShare  = 4   // … of which this part leaves
)

// idle is a slot with the last call of its node.
type idle struct {
	now  float64
	slot uint32
}

// PassiveStats counts what an Engine with Config.Resident did.
type PassiveStats struct {
	Left, Came    uint64 // nodes that left memory, and came back
	Written, Read uint64 // bytes of their states
	FileBytes     uint64 // that the file has grown to
	Most          uint64 // nodes in memory at once
}

// Passive counts what became of nodes that may leave memory (Config.Resident).
func (e *Engine) Passive() PassiveStats {
	if e.passive == nil {
		return PassiveStats{}
	}
	s := e.passive.stats
	s.FileBytes = uint64(e.passive.file.used) * unitBytes
	return s
}

// newPassive begins with all nodes out of memory, and without a state.
func newPassive(e *Engine, r *Resident) *passive {
	layers := len(e.plan.layers)
	v := &passive{limit: r.Bytes, file: shelf{file: r.File}, layers: layers, mean: 64,
		where: make([]uint32, e.plan.NumHosted()/layers)}
	if e.plan.blocks {
		v.first = SimprocID(e.plan.hostStart[e.plan.self])
	} else {
		v.ids = make([]SimprocID, e.plan.NumHosted())
		for k := range v.ids {
			id := e.plan.hostedAt(k)
			v.ids[e.plan.indexOn(e.plan.self, id)] = id
		}
	}
	return v
}

// find is a simproc, nil where its node isn't in memory.
func (v *passive) find(e *Engine, i uint32) *Simproc {
	id := v.idAt(i)
	w := v.where[e.plan.placeAt(int(id)/v.layers)]
	if w < residentBit {
		return nil
	}
	return &v.simprocs(w - residentBit)[int(id)%v.layers]
}

// simprocs are those of the node in a slot, by rank.
func (v *passive) simprocs(s uint32) []Simproc {
	at := int(s%slotsOfPage) * v.layers
	return v.pages[s/slotsOfPage][at : at+v.layers]
}

// proc is a simproc, nil where its node isn't in memory.
func (e *Engine) proc(i uint32) *Simproc {
	if e.passive == nil {
		return e.at(i)
	}
	return e.passive.find(e, i)
}

// called is the simproc that is to be called: its node comes back where it isn't in memory. nil: it can't, and the run
// has failed.
func (e *Engine) called(i uint32) *Simproc {
	if e.passive == nil {
		return e.at(i)
	}
	if p := e.passive.find(e, i); p != nil {
		return p
	}
	if err := e.wake(e.placeAt(i)); err != nil {
		e.fail(err)
		return nil
	}
	return e.passive.find(e, i)
}

// placeAt is the place of the node of a simproc.
func (e *Engine) placeAt(i uint32) uint32 { return e.plan.placeAt(e.plan.Node(e.idAt(i))) }

// idAt is the id of a simproc, in memory or not.
func (e *Engine) idAt(i uint32) SimprocID {
	if e.passive == nil {
		return e.at(i).id
	}
	return e.passive.idAt(i)
}

func (v *passive) idAt(i uint32) SimprocID {
	if v.ids == nil {
		return v.first + SimprocID(i)
	}
	return v.ids[i]
}

// levelAt is the level of a simproc, in memory or not.
func (e *Engine) levelAt(i uint32) uint32 { return e.plan.Level(e.idAt(i)) }

// nameAt is the name of a simproc, in memory or not.
func (e *Engine) nameAt(i uint32) string { return e.plan.Name(e.idAt(i)) }

// linksAt are the declared links of a simproc, in memory or not.
func (e *Engine) linksAt(i uint32) []outLink {
	first, end := e.plan.LinksOf(e.idAt(i))
	at := e.firstLinkAt(i)
	return e.outLinks[at : at+uint32(end-first)]
}

// firstLinkAt is Simproc.firstLink of a simproc, in memory or not.
func (e *Engine) firstLinkAt(i uint32) uint32 {
	switch {
	case e.passive == nil:
		return e.at(i).firstLink
	case e.passive.firsts == nil:
		return 0
	}
	return e.passive.firsts[i]
}

// wake brings a node into memory, as it left it, or as the model makes it. Others leave where there are too many.
func (e *Engine) wake(place uint32) error {
	if e.passive.resident > e.passive.limit {
		if err := e.shrink(); err != nil {
			return err
		}
	}
	return e.bring(place)
}

// bring is wake, however many others are in memory.
func (e *Engine) bring(place uint32) error {
	v := e.passive
	w := v.where[place]
	s := v.take(place)
	n := int(e.plan.nodeOn(e.plan.self, place))
	size, err := v.mean, e.makeNode(n, v.simprocs(s))
	if err == nil && w != placeNever {
		size, err = e.comeBack(n, s, w-1)
	}
	if err != nil {
		v.drop(s, w)
		return err
	}
	v.where[place] = residentBit + s
	v.count(s, size)
	return nil
}

// comeBack loads the state of a node, whose simprocs were made, and returns its size.
func (e *Engine) comeBack(n int, s, unit uint32) (int64, error) {
	v := e.passive
	record, at, err := v.file.read(unit, n)
	if err == nil {
		err = e.loadNode(v.simprocs(s), record)
	}
	if err != nil {
		return 0, fmt.Errorf("node: %s comes back to memory: %w", e.plan.NodeName(n), err)
	}
	v.slots[s].record = at
	v.stats.Came, v.stats.Read = v.stats.Came+1, v.stats.Read+uint64(len(record))
	return int64(len(record)), nil
}

// take is a slot for a node.
func (v *passive) take(place uint32) uint32 {
	if len(v.free) == 0 {
		if len(v.slots)%slotsOfPage == 0 {
			v.pages = append(v.pages, make([]Simproc, slotsOfPage*v.layers))
		}
		v.slots = append(v.slots, slot{place: placeFree})
		v.free = append(v.free, uint32(len(v.slots)-1))
	}
	s := v.free[len(v.free)-1]
	v.free = v.free[:len(v.free)-1]
	v.slots[s] = slot{place: place}
	v.stats.Most = max(v.stats.Most, uint64(len(v.slots)-len(v.free)))
	return s
}

// count has a slot count for a node whose state has so many bytes.
func (v *passive) count(s uint32, size int64) {
	bytes := min(int64(v.layers)*simprocSize+nodeBytes+2*size, 1<<32-1)
	v.resident += bytes - int64(v.slots[s].bytes)
	v.slots[s].bytes = uint32(bytes)
}

// makeNode makes the simprocs of a node, with their handlers.
func (e *Engine) makeNode(n int, procs []Simproc) error {
	for r := range procs {
		p := &procs[r]
		*p = e.bare(n, r)
		if err := e.makeHandler(p); err != nil {
			return err
		}
		if err := p.checkState(); err != nil {
			return err
		}
		e.startJournal(p)
	}
	return nil
}

// bare is a simproc that has nothing but what follows from the plan.
func (e *Engine) bare(n, rank int) Simproc {
	id := e.plan.ID(Endpoint{n, rank})
	p := Simproc{engine: e, id: id, local: uint32(e.plan.indexOn(e.plan.self, id))}
	if firsts := e.passive.firsts; firsts != nil {
		first, end := e.plan.LinksOf(id)
		p.firstLink, p.numLinks = firsts[p.local], uint32(end-first)
	}
	return p
}

// loadNode loads what appendNode gave into simprocs that were just made.
func (e *Engine) loadNode(procs []Simproc, encoded []byte) error {
	for r := range procs {
		handler, rest, err := procs[r].load(encoded)
		if err == nil {
			err = e.loadHandler(&procs[r], handler, false)
		}
		if err != nil {
			return err
		}
		encoded = rest
	}
	if len(encoded) > 0 {
		return fmt.Errorf("found %d bytes too many", len(encoded))
	}
	return nil
}

// simprocOf is a simproc with what follows from the plan, and the floors that it has; all of it where its node is in
// memory.
func (e *Engine) simprocOf(id SimprocID) *Simproc {
	if p := e.proc(uint32(e.plan.indexOn(e.plan.self, id))); p != nil {
		return p
	}
	p := e.bare(e.plan.Node(id), int(id)%len(e.plan.layers))
	return &p
}

// move has the new Engine take over the nodes of the old one that stay on the worker, in memory and in the file; of the
// others nothing is left here.
func (v *passive) move(old, e *Engine) error {
	next := newPassive(e, e.cfg.Resident)
	for _, n := range old.plan.nodesOn(old.plan.self) {
		w := v.where[old.plan.placeAt(int(n))]
		if e.plan.WorkerOf(int(n)) == e.plan.self {
			next.where[e.plan.placeAt(int(n))] = w
		} else if err := v.forget(int(n), w); err != nil {
			return err
		}
	}
	for place, w := range next.where {
		if w >= residentBit {
			v.slots[w-residentBit].place = uint32(place)
		}
	}
	v.file.file = next.file.file
	v.limit, v.where, v.ids, v.first, v.firsts = next.limit, next.where, next.ids, next.first, nil
	e.passive = v
	return nil
}

// forget has a node leave the worker, whose state was taken before.
func (v *passive) forget(n int, w uint32) error {
	at := extent{}
	switch {
	case w >= residentBit:
		at = v.slots[w-residentBit].record
		v.drop(w-residentBit, placeNever)
	case w != placeNever:
		var err error
		if _, at, err = v.file.read(w-1, n); err != nil {
			return fmt.Errorf("node: record of node %d, which leaves the worker: %w", n, err)
		}
	}
	v.file.live -= at.units
	v.file.release(at)
	return nil
}

// rewire tells the nodes in memory, which were taken over, of the Engine that they are in now.
func (v *passive) rewire(e *Engine) {
	for s := range v.slots {
		if v.slots[s].place == placeFree {
			continue
		}
		n := int(e.plan.nodeOn(e.plan.self, v.slots[s].place))
		for r, procs := 0, v.simprocs(uint32(s)); r < len(procs); r++ {
			bare, p := e.bare(n, r), &procs[r]
			p.engine, p.local, p.firstLink, p.numLinks = e, bare.local, bare.firstLink, bare.numLinks
		}
	}
}

// makeAll makes each node once, so that what can't be made or saved is found before the run. Those that there is no
// room for are made again when they are called. Of an Engine that has taken nodes over all were made; what comes to it
// is made with its state.
func (e *Engine) makeAll(from *takenOver) error {
	v := e.passive
	if from != nil {
		v.rewire(e)
		return nil
	}
	for place := range v.where {
		if err := e.wake(uint32(place)); err != nil {
			return err
		}
		if v.resident > v.limit {
			v.drop(v.where[place]-residentBit, placeNever)
		}
	}
	return nil
}

// drop frees a slot. w is where its node is now.
func (v *passive) drop(s, w uint32) {
	k := &v.slots[s]
	v.where[k.place] = w
	v.resident -= int64(k.bytes)
	*k = slot{place: placeFree}
	clear(v.simprocs(s))
	v.free = append(v.free, s)
}

// shrink has nodes leave memory until the others take less than they may.
func (e *Engine) shrink() error {
	v := e.passive
	if v.file.wasteful() {
		if err := e.compact(); err != nil {
			return fmt.Errorf("node: file of nodes that have left memory: %w", err)
		}
	}
	for low := v.limit - v.limit/16; v.resident > low && len(v.slots) > len(v.free); {
		v.look()
		for _, s := range v.stretch[:min(len(v.stretch), len(v.stretch)/leaveShare+1)] {
			if err := e.leave(s.slot); err != nil {
				return err
			}
		}
	}
	return nil
}

// compact takes the room between records out of the file.
func (e *Engine) compact() error {
	v := e.passive
	for s := range v.slots {
		v.slots[s].record = extent{} // of nodes in memory nothing is needed there
	}
	return v.file.compact(func(n, first uint32) bool {
		return int64(n) < int64(e.plan.nodes) && e.plan.WorkerOf(int(n)) == e.plan.self &&
			v.where[e.plan.placeAt(int(n))] == first+1
	}, func(n, first uint32) { v.where[e.plan.placeAt(int(n))] = first + 1 })
}

// look moves the hand over the next stretch of slots, and sorts those in use by the last call of their nodes.
func (v *passive) look() {
	v.stretch = v.stretch[:0]
	for range min(stretchMax, len(v.slots)) {
		if v.hand++; v.hand >= len(v.slots) {
			v.hand = 0
		}
		if v.slots[v.hand].place == placeFree {
			continue
		}
		at := idle{slot: uint32(v.hand)}
		for r := range v.simprocs(at.slot) {
			at.now = max(at.now, v.simprocs(at.slot)[r].now)
		}
		v.stretch = append(v.stretch, at)
	}
	slices.SortFunc(v.stretch, func(a, b idle) int {
		return cmp.Or(cmp.Compare(a.now, b.now), cmp.Compare(v.slots[a.slot].place, v.slots[b.slot].place))
	})
}

// leave writes the state of a node to the file, and forgets the node.
func (e *Engine) leave(s uint32) error {
	v := e.passive
	k := v.slots[s]
	if !v.begun(s) {
		v.drop(s, placeNever)
		return nil
	}
	n := int(e.plan.nodeOn(e.plan.self, k.place))
	var err error
	if v.record, err = e.appendNode(beginRecord(v.record[:0], n), n, uint32(e.firstOf(n))); err != nil {
		return err
	}
	size := len(v.record) - recordHead
	if err := checkSize(e.plan, n, size, false); err != nil {
		return err
	}
	at, err := v.file.write(v.record, k.record)
	if err != nil {
		return fmt.Errorf("node: %s leaves memory: %w", e.plan.NodeName(n), err)
	}
	v.drop(s, at.first+1)
	v.mean += (int64(size) - v.mean) / 64
	v.stats.Left, v.stats.Written = v.stats.Left+1, v.stats.Written+uint64(size)
	return nil
}

// begun reports whether a simproc of the node in a slot was called.
func (v *passive) begun(s uint32) bool {
	for r := range v.simprocs(s) {
		if v.simprocs(s)[r].begun() {
			return true
		}
	}
	return false
}

var errNeverCalled = errors.New("it was never called")

// stateOf is the state of a passive node, as appendNode gave it. It ends with the next use of the file.
func (v *passive) stateOf(place uint32, n int) ([]byte, error) {
	if v.where[place] == placeNever {
		return nil, errNeverCalled
	}
	v.file.ahead = true // in order, perhaps
	defer func() { v.file.ahead = false }()
	state, _, err := v.file.read(v.where[place]-1, n)
	return state, err
}

// appendTo appends the state of a passive node.
func (v *passive) appendTo(dst []byte, place uint32, n int) ([]byte, error) {
	state, err := v.stateOf(place, n)
	if err != nil {
		return nil, fmt.Errorf("node: state of node %d, which isn't in memory: %w", n, err)
	}
	return append(dst, state...), nil
}

// isPassive reports whether a node that this worker hosts isn't in memory.
func (e *Engine) isPassive(n int) bool {
	return e.passive != nil && e.passive.where[e.plan.placeAt(n)] < residentBit
}

// eachSimproc calls yield for each simproc of this worker, by rising id.
func (e *Engine) eachSimproc(yield func(p *Simproc)) {
	for _, n := range e.plan.nodesOn(e.plan.self) {
		e.eachOf(int(n), yield)
	}
}

// eachOf calls yield for each simproc of a node, by rank. It has no handler where the node isn't in memory. A file that
// can't be read ends the run.
func (e *Engine) eachOf(n int, yield func(p *Simproc)) {
	if !e.isPassive(n) {
		for r := range e.plan.layers {
			yield(e.simproc(n, r))
		}
		return
	}
	rest, err := e.passive.stateOf(e.plan.placeAt(n), n)
	for r := 0; r < len(e.plan.layers) && err == nil; r++ {
		p := e.bare(n, r)
		if _, rest, err = p.load(rest); err == nil {
			yield(&p)
		}
	}
	if err != nil {
		e.fail(fmt.Errorf("node: state of %s, which isn't in memory: %w", e.plan.NodeName(n), err))
	}
}

// visit calls do with the simprocs of a node, which is in memory for that time.
func (e *Engine) visit(place uint32, do func(procs []Simproc) error) error {
	v := e.passive
	before := v.where[place]
	if before < residentBit {
		v.file.ahead = true
		err := e.bring(place) // others stay: Report has set their clocks
		v.file.ahead = false
		if err != nil {
			return err
		}
	}
	s := v.where[place] - residentBit
	if err := do(v.simprocs(s)); err != nil {
		return err
	}
	if before < residentBit {
		v.drop(s, before)
	}
	return nil
}
