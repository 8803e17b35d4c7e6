// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/session"
	"github.com/disco-sim/disco/shm"
)

// inLane is a lane to a worker here: the bridge has its sending end. All of it is guarded by the peer's lock.
type inLane struct {
	Lane
	b       *Bridge
	id      uint32
	out     *egress.Egress // immutable
	most    int            // longest record; immutable
	part    int            // of data, in one part; immutable
	payload uint32         // number of the last payload whose record has come

	epoch   float64 // of the newest bound
	level   uint32
	queue   fifo // records that wait, as in their frames, and bounds
	lastIs  bool // the last of queue is a bound
	ending  bool // the lane's end is behind queue
	closed  bool // the end has come, or nobody reads
	waiting bool // it is counted in peer.queued
	parts   parts
	ev      envelope.Event
	records credit
	bytes   credit
	fresh   bool // records were put into the ring since the last Flush
}

// credit is what has come, and what has gone on. Counted since the run began.
type credit struct {
	size    uint64 // of the window; immutable
	came    uint64
	held    uint64        // has moved on since store
	moved   atomic.Uint64 // up to the newest store
	granted atomic.Uint64 // granted so far; of who sends the frames with it
}

func (c *credit) open(size int) {
	c.size = uint64(size)
	c.granted.Store(c.size)
}

// take counts what has come, if it was within the window.
func (c *credit) take(cost uint64) bool {
	if moved := c.moved.Load(); moved != shut && c.came-moved >= c.size {
		return false
	}
	c.came += cost
	return true
}

// due reports whether the peer is to hear of room: a quarter of the window, or the end. Who says so is to be woken.
func (c *credit) due() bool {
	return c.grants()-c.granted.Load() >= c.size/4 && c.granted.Load() != shut
}

func (c *credit) grants() uint64 {
	// SYNC POINT bridge-moved: loaded in the pass behind the one in which the doorbell was armed.
	if moved := c.moved.Load(); moved != shut {
		return moved + c.size
	}
	return shut
}

// boundMark is the length of a bound in the queue; its level and epoch follow.
const (
	boundMark  = math.MaxUint32
	boundBytes = 16
)

func (p *peer) openIn(l Lane) error {
	i := &inLane{Lane: l, b: p.b, id: laneID(l.From, l.To)}
	if p.inByID[i.id] != nil {
		return errors.New("it is there twice")
	}
	pool, err := p.poolOf(l.Pool)
	if err != nil {
		return err
	}
	i.out, err = egress.New(egress.Config{Peer: l.To, Lane: l.Body, Pool: pool, Bell: l.Bell,
		Wait: func() error { return egress.ErrFull }})
	if err != nil {
		return err
	}
	i.most = min(i.out.Ring().MaxRecord(), recordMost)
	i.part = max(1, i.most/4-envelope.PartHeaderBytes)
	if pool != nil {
		i.parts.most = pool.PayloadMax()
	}
	i.records.open(l.Window)
	i.bytes.open(l.Window)
	p.in = append(p.in, i)
	p.inByID[i.id] = i
	return nil
}

// poolOf takes over the pool in a segment, once.
func (p *peer) poolOf(s *shm.Segment) (*shm.Pool, error) {
	if s == nil {
		return nil, nil
	}
	for i, known := range p.segments {
		if known == s {
			return p.pools[i], nil
		}
	}
	pool, err := shm.NewGrowingPool(s.Body(), s.Take)
	if err != nil {
		return nil, err
	}
	p.segments, p.pools = append(p.segments, s), append(p.pools, pool)
	return pool, nil
}

// takeIn applies a records frame. old: the lanes have begun anew since it was made. The peer's lock is held.
func (p *peer) takeIn(l *inLane, body []byte, old bool) error {
	h, rest, err := parseBatch(body)
	if err != nil {
		return err
	}
	if !old {
		p.b.detector.came(p.rank, h.events)
	}
	at, events, plain := batchHead, uint32(0), rest // plain: records without payloads, side by side, and what follows
	for n := range h.records {
		var rec []byte
		var payload uint32
		behind := rest
		if rec, payload, rest, err = parseRecord(rest, at, l.most); err != nil {
			return err
		}
		cost := costOf(len(rec))
		if !l.records.take(cost) {
			return bad(at, fmt.Sprint("record ", n, ", ", l.records.came, " bytes in all"),
				fmt.Sprint("less than ", l.records.moved.Load()+l.records.size, ", as granted"))
		}
		if envelope.Kind(rec[0]) == envelope.KindEvent {
			events++
		}
		if payload != 0 {
			l.takeSpan(plain[:len(plain)-len(behind)], old)
			if err := l.takeLarge(rec, payload, old); err != nil {
				return err
			}
			plain = rest
		}
		at += int(cost)
	}
	l.takeSpan(plain[:len(plain)-len(rest)], old)
	if len(rest) > 0 || events != h.events {
		return bad(at, fmt.Sprint(len(rest), " more bytes behind ", events, " events"),
			fmt.Sprint("none behind ", h.events))
	}
	if h.bound && !old {
		if h.epoch < l.epoch || h.epoch == l.epoch && h.level < l.level {
			return bad(12, fmt.Sprintf("bound (%v, %d)", h.epoch, h.level), fmt.Sprintf("(%v, %d) or more", l.epoch,
				l.level))
		}
		l.epoch, l.level = h.epoch, h.level
		l.raise(h.epoch, h.level)
	}
	return nil
}

// takeSpan puts records side by side into the ring, or behind those that wait for it.
func (l *inLane) takeSpan(span []byte, old bool) {
	if len(span) == 0 {
		return
	}
	if old || l.closed {
		l.records.move(uint64(len(span)))
		return
	}
	if l.queue.len() == 0 {
		n := l.stageSpan(span)
		if span = span[n:]; len(span) == 0 {
			return
		}
	}
	if l.closed {
		return // whoever sends hears that nothing is read any more
	}
	l.queue.append(span)
	l.lastIs = false
}

// stageSpan puts as many of the first records of a span into the ring as there is room for.
func (l *inLane) stageSpan(span []byte) (n int) {
	n, err := l.out.StageSpan(span)
	if n > 0 {
		l.fresh = true
		l.records.move(uint64(n))
	}
	l.check(err)
	return n
}

// takeLarge puts a record whose data come as a payload into the ring, or behind those that wait for it.
func (l *inLane) takeLarge(rec []byte, payload uint32, old bool) error {
	cost := costOf(len(rec))
	if old || l.closed {
		l.records.move(cost)
		return nil
	}
	if want := following(l.payload); payload != want {
		return bad(batchHead, fmt.Sprint("payload ", payload), want)
	}
	if total := totalOf(rec); total == 0 || total > envelope.DataMax {
		return bad(batchHead, fmt.Sprint("a payload of ", total), fmt.Sprint("1 to ", envelope.DataMax))
	}
	l.payload = payload
	if l.queue.len() == 0 {
		done, err := l.stageLarge(rec, payload)
		if err != nil {
			return err
		}
		if done {
			l.records.move(cost)
			return nil
		}
	}
	b := l.queue.add(int(cost))
	putRecord(b, len(rec), payload)
	copy(b[recordHead:], rec)
	l.lastIs = false
	return nil
}

// move counts what has gone on.
func (c *credit) move(n uint64) { c.held += n }

// store shows what has gone on to who sends credits, once for all records of a frame, as that of window. What the peer
// was granted stems from earlier ones, so take holds it against enough.
func (c *credit) store() {
	if moved := c.moved.Load(); c.held > 0 && moved != shut {
		// SYNC POINT bridge-moved: stored before the doorbell is rung.
		c.moved.Store(moved + c.held)
	}
	c.held = 0
}

// raise puts a bound into the slot, or behind the records that wait. One that another one follows there is forgotten.
func (l *inLane) raise(epoch float64, level uint32) {
	if l.closed {
		return
	}
	if l.queue.len() == 0 {
		l.fresh = false
		l.check(l.out.Promise(epoch, level))
		return
	}
	var b []byte
	if all := l.queue.bytes(); l.lastIs {
		b = all[len(all)-boundBytes:]
	} else {
		b = l.queue.add(boundBytes)
	}
	le.PutUint32(b, boundMark)
	le.PutUint32(b[4:], level)
	le.PutUint64(b[8:], math.Float64bits(epoch))
	l.lastIs = true
}

// check looks what sending has answered. A worker that reads no more makes everything done; one that has broken its
// lane ends the bridge.
func (l *inLane) check(err error) (done bool) {
	switch {
	case err == nil:
		return true
	case err == egress.ErrFull || err == egress.ErrExhausted:
		return false
	}
	l.broke(err)
	return true
}

// broke ends a lane that nobody reads any more. What waits is dropped, and the peer hears of it.
func (l *inLane) broke(err error) {
	if !errors.Is(err, egress.ErrClosed) {
		l.b.fail(fmt.Errorf("bridge: lane from worker %d: %w", l.From, err))
	}
	l.closed, l.ending = true, false
	l.queue.clear()
	l.parts.clear(l.out)
	l.records.moved.Store(shut)
	l.bytes.moved.Store(shut)
}

// drain puts into the ring what waits for it, as far as there is room.
func (l *inLane) drain() (moved bool, err error) {
	for l.queue.len() > 0 {
		b := l.queue.bytes()
		n, payload := le.Uint32(b), le.Uint32(b[4:])
		if n == boundMark {
			epoch := math.Float64frombits(le.Uint64(b[8:]))
			l.queue.drop(boundBytes)
			l.lastIs = l.lastIs && l.queue.len() > 0
			moved = true
			l.fresh = false
			l.check(l.out.Promise(epoch, payload))
			continue
		}
		if payload == 0 {
			n := l.stageSpan(b) // up to a bound or a payload
			if l.closed {
				break
			}
			l.queue.drop(n)
			if moved = moved || n > 0; n == 0 {
				break
			}
			continue
		}
		done, err := l.stageLarge(b[recordHead:recordHead+int(n)], payload)
		if err != nil {
			return moved, err
		}
		if !done || l.closed {
			break
		}
		cost := costOf(int(n))
		l.queue.drop(int(cost))
		l.records.move(cost)
		moved = true
	}
	l.finish()
	return moved, nil
}

// finish makes visible what was put into the ring, and closes the lane behind its last record.
func (l *inLane) finish() {
	if l.fresh && !l.closed {
		l.fresh = false
		l.check(l.out.Flush())
	}
	if l.ending && l.queue.len() == 0 && !l.closed {
		l.ending, l.closed = false, true
		l.out.Close()
	}
}

// waits reports whether something waits for room, or for its payload.
func (l *inLane) waits() bool { return l.queue.len() > 0 }

// end takes the lane's end.
func (l *inLane) end() error {
	if l.ending {
		return badHead(offsetType, "a second end", "one")
	}
	l.ending = !l.closed
	return nil
}

// reset drops what waits, where lanes begin anew.
func (l *inLane) reset() {
	for _, c := range []*credit{&l.records, &l.bytes} {
		c.held = c.came - c.moved.Load()
	}
	l.queue.clear()
	l.parts.clear(l.out)
	l.payload, l.epoch, l.level, l.lastIs = 0, 0, 0, false
	if l.finish(); !l.closed {
		l.check(l.out.Flush())
	}
	if !l.closed {
		l.out.Reset()
	}
}

// unknownLane names the lane of a frame's header that isn't one of this bridge's.
func unknownLane(h session.Header) error {
	return badHead(offsetLane, fmt.Sprintf("lane %d to %d", h.Lane>>16, h.Lane&0xFFFF), "one from that machine to here")
}
