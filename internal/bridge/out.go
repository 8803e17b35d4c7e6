// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/internal/session"
	"github.com/disco-sim/disco/ring"
	"github.com/disco-sim/disco/shm"
)

// outLane is a lane to another machine: the bridge has its receiving end. It belongs to the pump, and its blocks to
// the goroutine that carries payloads, which gives them back.
type outLane struct {
	Lane
	id      uint32
	recv    *lane.Receiver // immutable
	ring    *ring.Consumer // immutable; recv.Forward()
	view    *shm.PoolView  // immutable; nil: none
	quarter uint64         // of the ring's bytes; immutable

	rec     []byte        // taken from the ring, and in no frame yet
	kind    envelope.Kind // of rec, read once, as is ev: its worker can still write to it
	large   bool          // the data of rec go as a payload: they lie in a block, or there are many; it is ev
	ev      envelope.Event
	cut     int          // bytes of it, if it is a long part, that are
	bound   lane.Promise // read from the slot, and in no frame yet
	kept    bool         // bound is such a one
	belled  uint64       // position at which the worker's bell was looked at last
	ended   bool         // nothing comes any more: the worker has closed, or nobody reads
	payload uint32       // number of the last one

	records window // sent of them, granted by the other side
	bytes   window // of payloads

	jobs    jobs
	carried int // bytes of the first one that were sent
}

// window is what may be sent, and what was. One goroutine sends.
type window struct {
	size    uint64        // immutable
	taken   uint64        // since the run began, also what is in the frame under way; of who sends
	sent    atomic.Uint64 // taken, up to the last whole frame
	granted atomic.Uint64
}

func (w *window) open(size int) {
	w.size = uint64(size)
	w.granted.Store(w.size)
}

// left is how many bytes may be sent; the last one may be within a record that is longer.
func (w *window) left() uint64 {
	// SYNC POINT bridge-credit: the pump loads it in the pass behind the one in which it armed its doorbell.
	return max(w.granted.Load(), w.taken) - w.taken
}

// store shows what was taken to grant. It comes before the frame can be sent, once for all records of it: an atomic
// store for each of them would wait until those before it are out of the processor's store buffer.
func (w *window) store() { w.sent.Store(w.taken) }

// grant takes a credit, and tells whether it is new.
func (w *window) grant(n uint64) (bool, error) {
	// What was granted is loaded first: sent never falls, so a credit for something unsent is found in any case.
	old := w.granted.Load()
	if sent := w.sent.Load(); n > sent+w.size && n != shut {
		return false, fmt.Errorf("%d to %d", old, sent+w.size)
	}
	if n <= old {
		return false, nil
	}
	// SYNC POINT bridge-credit: stored before the doorbell is rung.
	w.granted.Store(n)
	return true, nil
}

func (p *peer) openOut(l Lane) (err error) {
	o := &outLane{Lane: l, id: laneID(l.From, l.To)}
	if p.outByID[o.id] != nil {
		return errors.New("it is there twice")
	}
	if l.Pool != nil {
		if o.view, err = shm.OpenPoolView(l.Pool.Body()); err != nil {
			return err
		}
	}
	if o.recv, err = lane.OpenReceiver(l.Body); err != nil {
		return err
	}
	o.ring = o.recv.Forward()
	o.quarter, o.belled = uint64(o.recv.RingBytes()/4), o.ring.Position()
	o.records.open(l.Window)
	o.bytes.open(l.Window)
	p.out = append(p.out, o)
	p.outByID[o.id] = o
	return nil
}

// errLost is as in package ingress.
var errLost = errors.New("the promise slot says that more was published than is in the ring")

// broken is what a worker here has done to its lane.
func (l *outLane) broken(err error) error {
	return fmt.Errorf("bridge: lane to worker %d: %w", l.To,
		&lane.PeerError{Peer: l.From, Kind: lane.ErrProtocol, Position: l.ring.Position(), Err: err})
}

// take is a lane's turn: one frame at most. It reports whether there was anything to do.
func (p *peer) take(l *outLane) (work bool, err error) {
	if l.ended {
		return false, nil
	}
	// SYNC POINT bridge-credit: loaded in every pass, so also behind the arming of the doorbell.
	if l.records.granted.Load() == shut {
		l.shutUp()
		return true, nil
	}
	if !l.kept && l.recv.Changed() {
		if l.bound, l.kept, err = l.recv.Promise(); err != nil {
			return false, l.broken(err)
		}
	}
	end, err := l.look()
	if err != nil {
		return false, err
	}
	if l.rec == nil && !end && !l.due() || l.rec != nil && l.records.left() == 0 { // of a long part some has gone
		l.giveBack(false)
		return false, nil
	}
	if end {
		return p.takeEnd(l)
	}
	return p.takeRecords(l)
}

// look takes the next record out of the ring if there is credit for it. end: there never will be one.
func (l *outLane) look() (end bool, err error) {
	if l.rec != nil || l.records.left() == 0 {
		return false, nil
	}
	rec, err := l.ring.Next()
	switch {
	case errors.Is(err, ring.ErrClosed):
		return true, nil
	case err != nil:
		return false, l.broken(err)
	case rec == nil:
		// The records were published before the bound, which was read before them.
		if l.kept && !l.recv.Reached(l.bound) {
			return false, l.broken(errLost)
		}
		return false, nil
	}
	return false, l.hold(rec)
}

// hold keeps a record that was taken out of the ring. What the bridge goes by is read once, here.
func (l *outLane) hold(rec []byte) error {
	var head [envelope.PartHeaderBytes]byte
	copy(head[:], rec)
	kind, flags := envelope.Kind(head[0]), head[1]
	if kind != envelope.KindEvent || flags != 0 || len(rec) < envelope.EventHeaderBytes { // by far most are such
		if found, allowed := wrongKind(head[:], len(rec), l.view != nil); found != "" {
			return l.broken(fmt.Errorf("found %s, allowed: %s", found, allowed))
		}
	}
	large := kind == envelope.KindEvent && (flags == flagBlock || flags == 0 && le.Uint32(head[4:]) > payloadMost)
	if large {
		if err := l.ev.Decode(rec); err != nil {
			return l.broken(err)
		}
		if l.ev.InBlock != (flags == flagBlock) || l.ev.Parts > 0 {
			return l.broken(errors.New("found an event whose flags have changed behind its publication"))
		}
	}
	l.rec, l.kind, l.large = rec, kind, large
	return nil
}

// due reports whether a bound may go, because everything before it has gone.
func (l *outLane) due() bool { return l.kept && l.rec == nil && l.recv.Reached(l.bound) }

// takeEnd sends the lane's end, behind its last bound.
func (p *peer) takeEnd(l *outLane) (work bool, err error) {
	if l.recv.Changed() && !l.kept { // it may have been stored after the look
		if l.bound, l.kept, err = l.recv.Promise(); err != nil {
			return false, l.broken(err)
		}
	}
	if l.due() {
		return p.takeRecords(l)
	}
	if _, ok := p.express.Frame(p.header(session.End, l.id), 0); !ok {
		return false, nil
	}
	p.unsent, l.ended = true, true
	return true, nil
}

// takeRecords fills one frame.
func (p *peer) takeRecords(l *outLane) (work bool, err error) {
	left := p.express.Left()
	size := batchHead
	if l.rec != nil {
		size += int(costOf(l.size()))
	}
	if size > left || left < frameLeast {
		left = session.MessageBytes - session.HeaderBytes
	}
	if p.busy(l) {
		return false, nil
	}
	body, ok := p.express.Frame(p.header(session.Records, l.id), max(size, left))
	if !ok {
		return false, nil // Acked rings
	}
	p.unsent = true
	var head batch
	used := batchHead
	for l.rec != nil && !p.busy(l) {
		n := l.size()
		if used+int(costOf(n)) > len(body) {
			break
		}
		event, err := p.copyRecord(l, n, body[used:])
		if err != nil {
			return false, err
		}
		used += int(costOf(n))
		head.records++
		head.events += event
		l.records.taken += costOf(n)
		if l.rec != nil {
			break // of a long part there is more
		}
		n, err = p.copySpan(l, body[used:], &head)
		if err != nil {
			return false, err
		}
		used += n
		if end, err := l.look(); err != nil {
			return false, err
		} else if end {
			break
		}
	}
	if l.due() {
		head.bound, head.level, head.epoch = true, l.bound.Level, l.bound.Epoch
		l.kept = false
	}
	l.records.store()
	head.put(body)
	p.express.Shrink(used)
	p.b.detector.sent(p.rank, head.events)
	if l.rec == nil {
		l.ring.Release()
	}
	l.giveBack(head.records > 0)
	return true, nil
}

// frameLeast is what must be left of a message to begin another frame in it that isn't for one record alone.
const frameLeast = 256

// recordMost is the longest record that a frame takes.
const recordMost = session.BodyBytesMax - batchHead - recordHead

// size is how long the record is in its frame.
func (l *outLane) size() int {
	switch {
	case l.kind == envelope.KindPart: // at most as much of it as has room in any frame
		return envelope.PartHeaderBytes + min(len(l.rec)-envelope.PartHeaderBytes-l.cut, payloadMost)
	case !l.large:
		return len(l.rec)
	}
	head := envelope.EventHeaderBytes + len(l.ev.Headers)
	if l.ev.Block.Length == 0 && len(l.ev.Data) == 0 {
		return head
	}
	return head + envelope.PartsRefBytes
}

// flagBlock is the flag of an event whose data lie in a block; docs/format/envelope.md.
const flagBlock = 1

// wrongKind is wrongRecord for what a worker here has put into the ring: the head of a record of so many bytes.
func wrongKind(head []byte, size int, blocks bool) (found, allowed string) {
	switch event := envelope.Kind(head[0]) == envelope.KindEvent; {
	case size < envelope.PartHeaderBytes:
		return fmt.Sprint("a record of ", size), fmt.Sprint(envelope.PartHeaderBytes, " or more")
	case event && size < envelope.EventHeaderBytes:
		return fmt.Sprint("an event of ", size), fmt.Sprint(envelope.EventHeaderBytes, " or more")
	case event && blocks && head[1] == flagBlock:
		return "", ""
	}
	return wrongRecord(head, 0)
}

// busy reports whether the next record has data inside that are to go as a payload while others that do are copied.
func (p *peer) busy(l *outLane) bool {
	return l.rec != nil && l.large && !l.ev.InBlock && l.jobs.copying()
}

// copyRecord puts the record into a frame, where it is n bytes long, and gives 1 if it is an event.
func (p *peer) copyRecord(l *outLane, n int, b []byte) (event uint32, err error) {
	if l.kind == envelope.KindEvent {
		event = 1
	}
	if !l.large {
		putRecord(b, n, 0)
		if n == len(l.rec) {
			copy(b[recordHead:], l.rec)
			l.rec = nil
			return event, nil
		}
		data := l.rec[envelope.PartHeaderBytes:]
		next := l.cut + n - envelope.PartHeaderBytes
		envelope.EncodePart(b[recordHead:recordHead+n], le.Uint32(l.rec[4:])+uint32(l.cut), data[l.cut:next])
		if l.cut = next; next == len(data) {
			l.rec, l.cut = nil, 0
		}
		return 0, nil
	}
	job, err := l.job()
	if err != nil {
		return 0, l.broken(err)
	}
	ev := l.ev
	ev.Data, ev.InBlock, ev.Block, ev.Parts = nil, false, envelope.BlockRef{}, uint32(len(job.data))
	putRecord(b, n, job.id)
	ev.Encode(b[recordHead : recordHead+n])
	l.jobs.add(job)
	l.rec = nil
	p.wakeBulk()
	return event, nil
}

// copySpan puts the next records of the ring into a frame, as many as go as they are and lie side by side, and have
// room and credit. They stand there as in the ring.
func (p *peer) copySpan(l *outLane, b []byte, head *batch) (n int, err error) {
	span := l.ring.NextSpan(int(min(uint64(len(b)), l.records.left())), goesWhole)
	copy(b, span)
	for n < len(span) { // in the copy: its worker can still write to the span
		size := int(le.Uint32(b[n:]))
		if next := n + int(costOf(size)); next > len(span) || !goesWhole(b[n+recordHead:n+recordHead+size]) {
			return 0, l.broken(fmt.Errorf("a record of %d bytes was changed behind its publication", size))
		}
		le.PutUint32(b[n+4:], 0)
		if envelope.Kind(b[n+recordHead]) == envelope.KindEvent {
			head.events++
		}
		head.records++
		n += int(costOf(size))
	}
	l.records.taken += uint64(n)
	return n, nil
}

// goesWhole reports whether a record goes as it is: a promise, or an event whose data are inside and not too many.
func goesWhole(rec []byte) bool {
	if len(rec) < envelope.PartHeaderBytes || rec[1] != 0 {
		return false
	}
	switch envelope.Kind(rec[0]) {
	case envelope.KindEvent:
		return len(rec) >= envelope.EventHeaderBytes && le.Uint32(rec[4:]) <= payloadMost
	case envelope.KindPromise:
		return true
	}
	return false
}

// job makes what carries the data of the event. A block without any only goes back.
func (l *outLane) job() (j job, err error) {
	if l.ev.InBlock {
		ref := l.ev.Block
		if j.data, err = l.view.View(ref.Block, ref.Length, ref.Seq); err != nil {
			return j, err
		}
		j.block, j.number, j.seq = true, ref.Block, ref.Seq
	} else {
		j.data = l.jobs.copy(l.ev.Data)
	}
	if len(j.data) > 0 {
		l.payload = following(l.payload)
		j.id = l.payload
	}
	return j, nil
}

// following is the number of the payload behind another; 0 is none.
func following(id uint32) uint32 { return max(id+1, 1) }

// giveBack rings the worker if it may wait for room that was given back: when a quarter of the ring was, or when there
// was nothing more to take.
func (l *outLane) giveBack(more bool) {
	since := l.ring.Position() - l.belled
	if since == 0 || l.rec != nil || more && since < l.quarter {
		return
	}
	l.belled = l.ring.Position()
	// SYNC POINT room-handshake: the head is stored before the bell's word is loaded, with a fence between.
	l.Bell.Ring()
}

// shutUp ends a lane that nobody reads: its worker gets lane.ErrClosed.
func (l *outLane) shutUp() {
	l.ended, l.rec, l.cut = true, nil, 0
	l.recv.Close()
	l.Bell.Ring()
}

// reset drops what is in the ring, where lanes begin anew.
func (l *outLane) reset() error {
	for !l.ended {
		if l.rec == nil {
			rec, err := l.ring.Next()
			if errors.Is(err, ring.ErrClosed) {
				l.ended = true
			} else if err != nil {
				return l.broken(err)
			}
			if rec == nil {
				break
			}
			if err := l.hold(rec); err != nil {
				return err
			}
		}
		if l.large && l.ev.InBlock {
			if err := l.recv.Return(l.ev.Block.Block, l.ev.Block.Seq); err != nil {
				return l.broken(err)
			}
		}
		l.rec = nil
	}
	l.ring.Release()
	l.recv.Reset()
	l.kept, l.cut, l.payload, l.belled = false, 0, 0, l.ring.Position()
	l.Bell.Ring()
	return nil
}
