// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/shm"
)

// How a worker's part of a checkpoint is made (docs/checkpoints.md, section 4):
//
//  1. Between two legs the launcher sends Save. The worker encodes the states of its nodes into memory, copies what is
//     pending for them, and answers Ready: nobody works meanwhile.
//  2. During the next leg a goroutine encodes what was pending, hashes, compresses and writes the chunks to the
//     worker's spool, and sends Stored in parts.
//  3. The launcher has read the spool, or doesn't want it any more, when it sends the next Save or Prepare.

// chunkBytes is how large a chunk of several nodes becomes: 4 MiB.
const chunkBytes = 4 << 20

// saver makes a worker's parts of the checkpoints of a replication. The worker's goroutine uses it, but for write.
type saver struct {
	spool io.WriterAt
	empty func() error // makes the spool empty
	plan  *node.Plan
	group int      // nodes of a group
	nodes []uint32 // of this worker, rising
	send  func(*Stored) error
	now   func() time.Time

	bytes  int // of a chunk, at most: chunkBytes, but in tests
	newest saved
	kept   saved // that the launcher has committed: what hasn't changed since isn't made again
	memory blockMemory
	arena  arena    // memory of the chunks that are being written
	ids    []uint32 // of simprocs, and their hashes: memory of what is being sent
	hashes []uint64
	copied node.PendingCopy

	model scenario.Memory // what the model knows of its nodes
	room  int64           // for what is made ready beside the run; 0: nothing is
	look  time.Time       // when what is pending is looked at next
	wait  time.Duration   // from that look to the next one

	writing sync.WaitGroup
	useless atomic.Bool // what is being written isn't wanted any more
}

// saved is a worker's part of a checkpoint.
type saved struct {
	epoch  float64 // 0: there is none
	chunks map[chunkKey][]checkpoint.Chunk
}

// chunkKey is what chunks of one kind are of: a group.
type chunkKey struct {
	kind  checkpoint.Kind
	first uint32
}

func keyOf(c *checkpoint.Chunk) chunkKey { return chunkKey{c.Kind, c.First} }

// arena is memory for what is made between two legs and written before the next time.
type arena struct {
	memory *blockMemory
	blocks [][]byte // of blockBytes each
	block  int      // the one in use
	used   int      // bytes of it
}

// arenaLeast is what is left of a block that is still used. What is larger than what is left goes to memory of its own.
const arenaLeast = 1 << 20

// bytes is the memory that it has.
func (a *arena) bytes() int64 { return int64(len(a.blocks)) * blockBytes }

// reset begins anew: nobody uses what was there before.
func (a *arena) reset() { a.block, a.used = 0, 0 }

// skip begins another block: what is given from now on is whole ones.
func (a *arena) skip() {
	if a.used > 0 {
		a.block, a.used = a.block+1, 0
	}
}

// space is memory for the next chunk, empty. Until take is called it is given again.
func (a *arena) space() []byte {
	if blockBytes-a.used < arenaLeast {
		a.block, a.used = a.block+1, 0
	}
	if a.block == len(a.blocks) {
		a.blocks = append(a.blocks, a.memory.block())
	}
	return a.blocks[a.block][a.used:a.used]
}

// take keeps what has become of space, unless that has grown out of it: then what was left of the block isn't tried
// again.
func (a *arena) take(data []byte) {
	switch space := a.space(); {
	case cap(data) == cap(space) && len(data) > 0 && &data[0] == &space[:1][0]:
		a.used += len(data)
	case len(data) > cap(space):
		a.skip()
	}
}

// close gives all memory back.
func (s *saver) close() {
	s.end()
	s.memory.free()
}

// unwritten is a chunk that is to be written; without data: one of kept.
type unwritten struct {
	checkpoint.Chunk
	data []byte
}

func newSaver(plan *node.Plan, group int, spool *os.File, send func(*Stored) error, now func() time.Time) *saver {
	s := &saver{
		spool: spool, empty: func() error { return spool.Truncate(0) }, plan: plan, group: group,
		nodes: plan.Nodes(), send: send, now: now, bytes: chunkBytes,
	}
	s.arena.memory, s.copied.Memory = &s.memory, s.memory.part
	return s
}

// knows takes in what a scenario knows of its nodes.
func (s *saver) knows(sc scenario.Scenario) {
	if m, ok := sc.(scenario.Sizer); ok {
		s.model = m.Memory()
	}
}

// reset begins a replication: nothing of the one before is the same. room is what may be taken before the first
// checkpoint of it, so that the workers needn't stand still for that; 0: nothing.
func (s *saver) reset(room int64) {
	s.end()
	s.newest, s.kept = saved{}, saved{}
	s.room, s.wait = room, readyFirst
	s.look = s.now().Add(s.wait)
}

// roomOf is how many bytes a replication may take for checkpoints: on another machine than the launcher's half of what
// that will have left when all workers there have what they are expected to take.
func (s *Setup) roomOf(p *Prepare) int64 {
	if p.Room != OwnRoom {
		return max(0, p.Room)
	}
	there := int64(s.Workers)
	for _, m := range s.Machine { // where there are several
		if m != s.Machine[s.Worker] {
			there--
		}
	}
	return max(0, shm.AvailableBytes()/there-s.HeapBytes) / 2
}

// How long a replication has begun when memory is first made ready for its first checkpoint, and the longest time
// between two looks whether more is needed; each time is twice the one before.
const (
	readyFirst = 50 * time.Millisecond
	readyMost  = 10 * time.Second
)

// savedGuess is what a simproc's state may take beside what its handler writes, and that is guessed to be half of what
// the handler has in memory.
const savedGuess = 64

// ready has memory made ready beside the run for the first checkpoint, as much as it would take now. Later ones have
// that of the one before.
func (s *saver) ready(e *node.Engine) {
	if s.room == 0 {
		return
	}
	now := s.now()
	if now.Before(s.look) {
		return
	}
	s.wait = min(2*s.wait, readyMost)
	s.look = now.Add(s.wait)
	states := int64(s.plan.NumHosted())*savedGuess + int64(len(s.nodes))*int64(s.model.NodeBytes)/2
	bytes := s.copied.Grows(e) + max(0, states-s.arena.bytes())
	if bytes > blockBytes && bytes <= s.room/keptShare {
		s.memory.makeReady(int((bytes + blockBytes - 1) / blockBytes))
	}
}

// end waits for what is being written, which nobody wants any more.
func (s *saver) end() {
	s.memory.rest()
	s.useless.Store(true)
	s.writing.Wait()
	s.useless.Store(false)
}

// save makes this worker's part of a checkpoint. Errors are the model's, or defects: what goes wrong with the spool,
// and which node is too large, is said in Stored, and lost, what went wrong with the journal that belongs to the
// checkpoint; nil: nothing did.
func (s *saver) save(e *node.Engine, m *Save, lost error) error {
	s.writing.Wait() // no longer than Stored takes, which the launcher has waited for
	s.memory.rest()
	s.room = 0
	s.arena.reset()
	if s.newest.epoch == m.Committed && m.Committed > 0 {
		s.kept = s.newest
	}
	s.newest = saved{}
	w := s.newWriter(e, m.Epoch)
	w.err = cmp.Or(lost, w.err)
	room := int64(math.MaxInt64)
	if m.Room > 0 {
		room = m.Room + s.memory.readyBytes() - s.copied.Grows(e)
	}
	if m.Direct || room < 0 {
		return s.saveDirect(e, w)
	}
	room += min(s.arena.bytes(), math.MaxInt64-room)
	var chunks []unwritten
	err := s.encodeStates(e, func(c unwritten) error {
		if room -= int64(len(c.data)); room < 0 {
			return errNoRoom
		}
		s.arena.take(c.data)
		chunks = append(chunks, c)
		return nil
	})
	if errors.Is(err, errNoRoom) {
		return s.saveDirect(e, w)
	}
	if err == nil {
		err = e.CopyPending(&s.copied)
	}
	if err != nil {
		return s.unsaved(w, err)
	}
	w.encode = s.now().Sub(w.began).Seconds()
	s.writing.Go(func() {
		for i := range chunks {
			_ = w.add(chunks[i]) // it keeps its errors
			chunks[i].data = nil
		}
		s.arena.skip()
		err := s.encodePending(s.copied.Each, func(u unwritten) error { return cmp.Or(w.add(u), w.done()) })
		if err != nil && w.done() == nil {
			w.err = &encodeError{err}
		}
		if m.Room > 0 && s.arena.bytes()+s.copied.Bytes() > m.Room/keptShare {
			s.forget()
		}
		_ = s.finish(w) // a launcher that is gone ends the reader
	})
	return nil
}

// errNoRoom ends the encoding of states that take more memory than there is.
var errNoRoom = errors.New("worker: no room for states in memory")

// keptShare is the part of what it may take that a checkpoint's memory may have to be kept for the next one.
const keptShare = 4

// saveDirect writes each chunk when it is made, so that next to no memory is taken.
func (s *saver) saveDirect(e *node.Engine, w *writer) error {
	defer s.spare()()
	err := s.encodeStates(e, w.add)
	if err == nil {
		err = s.encodePending(e.EachPending, w.add)
	}
	if err != nil {
		return s.unsaved(w, err)
	}
	w.encode = s.now().Sub(w.began).Seconds()
	return s.finish(w)
}

// unsaved is for what couldn't be encoded: a node that is too large costs the attempt alone. Other errors are the
// model's, and it returns them.
func (s *saver) unsaved(w *writer, err error) error {
	var large *node.SavedTooLargeError
	if !errors.As(err, &large) {
		return err
	}
	w.err = cmp.Or[error](w.err, &encodeError{err})
	w.encode = s.now().Sub(w.began).Seconds()
	return s.finish(w)
}

// forget gives memory for checkpoints back to the system.
func (s *saver) forget() {
	s.memory.free()
	s.arena, s.copied = arena{memory: &s.memory}, node.PendingCopy{Memory: s.memory.part}
	s.ids, s.hashes = nil, nil
	debug.FreeOSMemory()
}

// spare has this process take little memory beside what it needs, until end is called.
func (s *saver) spare() (end func()) {
	before := debug.SetGCPercent(sparingPercent)
	s.forget()
	return func() { debug.SetGCPercent(before) }
}

// sparingPercent is how much garbage there may be beside what is in use, in percent of that.
const sparingPercent = 10

// encodeStates yields the chunks with the states of all nodes, by group; those of what hasn't changed without data.
// Data of a chunk is the yield's to keep if it takes it from the arena.
func (s *saver) encodeStates(e *node.Engine, yield func(unwritten) error) error {
	for rest := s.nodes; len(rest) > 0; {
		n, first := 1, s.firstOf(rest[0])
		for n < len(rest) && s.firstOf(rest[n]) == first {
			n++
		}
		if err := s.encodeGroup(e, rest[:n], yield); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// encodePending yields the chunks with all that is pending; data of a chunk ends with the call.
func (s *saver) encodePending(each func(func(n int, encoded []byte) error) error, yield func(unwritten) error) error {
	chunk := unwritten{}
	err := each(func(n int, encoded []byte) error {
		if err := s.make(&chunk, checkpoint.Pending, n, len(encoded), yield); err != nil {
			return err
		}
		chunk.data = checkpoint.AppendNode(chunk.data, n, encoded)
		return nil
	})
	if err != nil {
		return err
	}
	return s.yield(&chunk, yield)
}

// firstOf is the first node of a node's group.
func (s *saver) firstOf(n uint32) uint32 { return n / uint32(s.group) * uint32(s.group) }

// encodeGroup yields the states of the nodes of one group.
func (s *saver) encodeGroup(e *node.Engine, nodes []uint32, yield func(unwritten) error) error {
	first := s.firstOf(nodes[0])
	if kept := s.kept.chunks[chunkKey{checkpoint.Nodes, first}]; kept != nil && !s.anyChanged(e, nodes) {
		for _, c := range kept {
			if err := yield(unwritten{Chunk: c}); err != nil {
				return err
			}
		}
		return nil
	}
	chunk := unwritten{}
	size := 0 // of the node before, as a guess
	for _, n := range nodes {
		if err := s.make(&chunk, checkpoint.Nodes, int(n), size, yield); err != nil {
			return err
		}
		begin := len(chunk.data)
		var err error
		if chunk.data, err = e.AppendNode(checkpoint.BeginNode(chunk.data, int(n)), int(n)); err != nil {
			return err
		}
		checkpoint.EndNode(chunk.data, begin)
		size = len(chunk.data) - begin
		if len(chunk.data) > s.bytes && begin > 0 { // the node begins the next chunk
			next := unwritten{Chunk: chunk.Chunk, data: append([]byte(nil), chunk.data[begin:]...)}
			chunk.data = chunk.data[:begin]
			if err := s.yield(&chunk, yield); err != nil {
				return err
			}
			chunk = next
		}
	}
	return s.yield(&chunk, yield)
}

// anyChanged reports whether a handler of one of the nodes was called since what is kept was made.
func (s *saver) anyChanged(e *node.Engine, nodes []uint32) bool {
	for _, n := range nodes {
		if e.Changed(int(n), s.kept.epoch) {
			return true
		}
	}
	return false
}

// make has chunk be the one that a record of a node goes into, with so many bytes.
func (s *saver) make(c *unwritten, kind checkpoint.Kind, n, size int, yield func(unwritten) error) error {
	first := s.firstOf(uint32(n))
	const head = 8
	if len(c.data) > 0 && (c.First != first || len(c.data)+head+size > s.bytes) {
		if err := s.yield(c, yield); err != nil {
			return err
		}
	}
	if len(c.data) == 0 {
		count := min(s.group, s.plan.NumNodes()-int(first))
		c.Chunk = checkpoint.Chunk{Kind: kind, First: first, Nodes: uint32(count)}
		c.data = s.arena.space()
	}
	return nil
}

// yield yields a chunk, if it has anything, and empties it.
func (s *saver) yield(c *unwritten, yield func(unwritten) error) error {
	if len(c.data) == 0 {
		return nil
	}
	full := *c
	*c = unwritten{}
	return yield(full)
}

// writer writes one checkpoint to the spool, in the goroutine beside the leg.
type writer struct {
	spool  *checkpoint.Spool
	saver  *saver
	began  time.Time
	encode float64 // seconds
	epoch  float64
	stored Stored // what is still to be sent
	made   saved
	err    error // of the spool
}

func (s *saver) newWriter(e *node.Engine, epoch float64) *writer {
	w := &writer{saver: s, began: s.now(), epoch: epoch, made: saved{epoch, map[chunkKey][]checkpoint.Chunk{}}}
	w.err = s.empty()
	w.spool = checkpoint.NewSpool(io.NewOffsetWriter(s.spool, 0))
	w.spool.Known = func(c checkpoint.Chunk) bool {
		for _, k := range s.kept.chunks[keyOf(&c)] {
			if k.Digest == c.Digest {
				return true
			}
		}
		return false
	}
	n := s.plan.NumHosted()
	s.ids, s.hashes = slices.Grow(s.ids[:0], n), slices.Grow(s.hashes[:0], n)
	e.EachHash(func(id node.SimprocID, hash uint64) {
		s.ids, s.hashes = append(s.ids, uint32(id)), append(s.hashes, hash)
	})
	w.stored.Simprocs, w.stored.Hashes = s.ids, s.hashes
	return w
}

// add writes a chunk. An error ends what is written, not the run.
func (w *writer) add(u unwritten) error {
	if w.done() != nil {
		return nil
	}
	c := u.Chunk
	if u.data == nil {
		c.At = -1
	} else if c, w.err = w.spool.Add(c, u.data); w.err != nil {
		return nil
	}
	w.made.chunks[keyOf(&c)] = append(w.made.chunks[keyOf(&c)], c)
	w.stored.Chunks = append(w.stored.Chunks, c)
	w.stored.Raw += c.Raw
	return nil
}

// done is an error where nothing more is to be written.
func (w *writer) done() error {
	if w.saver.useless.Load() {
		return errUseless
	}
	return w.err
}

var errUseless = errors.New("worker: a checkpoint that isn't wanted any more")

// encodeError is why states, or what is pending, couldn't be encoded, which ends no run.
type encodeError struct{ error }

func (e *encodeError) Error() string {
	var large *node.SavedTooLargeError
	if errors.As(e.error, &large) {
		return e.error.Error() + " (or run with --checkpoint-ends, which keeps the end of each replication, and no " +
			"states)"
	}
	return e.error.Error()
}

// storedItems is how many simprocs or chunks one Stored has: some 128 KiB.
const storedItems = 1500

// finish sends what was made: hashes and chunks in parts, or why there is nothing.
func (s *saver) finish(w *writer) error {
	all := w.stored
	all.Epoch, all.Encode, all.Write = w.epoch, w.encode, s.now().Sub(w.began).Seconds()-w.encode
	if w.err != nil {
		all.Error, all.Chunks = spoolError(w.err), nil
	} else if !s.useless.Load() {
		s.newest = w.made // read when writing has ended
	}
	for {
		part := all
		part.Simprocs = all.Simprocs[:min(len(all.Simprocs), 8*storedItems)]
		part.Hashes = all.Hashes[:len(part.Simprocs)]
		part.Chunks = nil
		all.Simprocs, all.Hashes = all.Simprocs[len(part.Simprocs):], all.Hashes[len(part.Simprocs):]
		if len(all.Simprocs) == 0 {
			part.Chunks = all.Chunks[:min(len(all.Chunks), storedItems)]
			all.Chunks = all.Chunks[len(part.Chunks):]
		}
		part.Last = len(all.Simprocs) == 0 && len(all.Chunks) == 0
		if err := s.send(&part); err != nil || part.Last {
			return err
		}
	}
}

// unnamed is an error without the name of its file, which has none.
func unnamed(err error) error {
	var system *fs.PathError
	if errors.As(err, &system) {
		return system.Err
	}
	return err
}

// spoolError is what went wrong with a file that has no name.
func spoolError(err error) string {
	var lost *callsError
	var large *encodeError
	if errors.As(err, &lost) || errors.As(err, &large) {
		return err.Error()
	}
	return fmt.Sprintf("the temporary file for it: %v", unnamed(err))
}
