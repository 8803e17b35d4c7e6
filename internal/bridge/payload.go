// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"sync"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/session"
)

// job is a payload of a lane to another machine that is to be sent, and a block to be given back then.
type job struct {
	id     uint32 // 0: no data, only a block
	data   []byte // in the worker's block, or in jobs.spare
	block  bool
	number uint32
	seq    uint64
}

// jobs are a lane's payloads in order. There are as many as there are blocks, at most, and one that was copied.
type jobs struct {
	mu    sync.Mutex
	list  []job
	first int
	spare []byte // data that lay in a record
	used  bool   // spare is in use
}

func (q *jobs) add(j job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.first > 0 && len(q.list) == cap(q.list) {
		q.list = q.list[:copy(q.list, q.list[q.first:])]
		q.first = 0
	}
	q.list = append(q.list, j)
}

// head gives the first one, if there is one.
func (q *jobs) head() (j job, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.first == len(q.list) {
		return j, false
	}
	return q.list[q.first], true
}

// copying reports whether a record's data wait, so that those of the next one have to wait in the ring.
func (q *jobs) copying() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.used
}

// copy keeps a record's data.
func (q *jobs) copy(data []byte) []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used = true
	q.spare = append(q.spare[:0], data...)
	return q.spare
}

// pop removes the first one.
func (q *jobs) pop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if j := q.list[q.first]; !j.block {
		q.used = false
	}
	q.list[q.first] = job{}
	if q.first++; q.first == len(q.list) {
		q.list, q.first = q.list[:0], 0
	}
}

// carry sends payloads until the bridge ends.
func (p *peer) carry() {
	for {
		over := false
		select {
		case <-p.pumped: // before the look, which then sees all that the pump has left
			over = true
		default:
		}
		work, err := p.carryOnce()
		if err != nil {
			p.b.fail(err)
			return
		}
		if work {
			continue
		}
		if over {
			return
		}
		select {
		case <-p.bulkWake:
		case <-p.pumped:
		}
	}
}

// carryOnce gives each lane its turn, one frame at most, and tells of room for payloads.
func (p *peer) carryOnce() (work bool, err error) {
	p.bulkTurn.Lock()
	defer p.bulkTurn.Unlock()
	if p.bulkOver.Load() && !p.b.ending.Load() {
		return false, p.gone(p.bulk)
	}
	if p.grant(p.bulk, p.bulkAgain.Swap(false), (*inLane).bytesCredit, &p.bulkScratch) {
		work = true
	}
	for _, l := range p.out {
		moved, err := p.carryLane(l)
		if err != nil {
			return false, err
		}
		work = work || moved
	}
	if work {
		err = p.sent(p.bulk.Flush())
	}
	return work, err
}

// carryLane sends one frame of a lane's first payload.
func (p *peer) carryLane(l *outLane) (work bool, err error) {
	j, ok := l.jobs.head()
	if !ok {
		return false, nil
	}
	left := l.bytes.left()
	if j.id == 0 || l.bytes.granted.Load() == shut {
		return true, p.done(l, &j)
	}
	if left == 0 {
		return false, nil
	}
	n := min(len(j.data)-l.carried, payloadMost, max(1, int(min(left, 1<<30))-session.HeaderBytes-payloadHead))
	body, ok := p.bulk.Frame(p.header(session.Payload, l.id), payloadHead+n)
	if !ok {
		return false, nil // Acked wakes
	}
	c := chunk{j.id, uint32(len(j.data)), uint32(l.carried)}
	c.put(body)
	copy(body[payloadHead:], j.data[l.carried:l.carried+n])
	l.bytes.taken += costOfPayload(n)
	l.bytes.store()
	if l.carried += n; l.carried == len(j.data) {
		err = p.done(l, &j)
	}
	return true, err
}

// done gives the block back, and wakes who may wait for it.
func (p *peer) done(l *outLane, j *job) error {
	if j.block {
		if err := l.recv.Return(j.number, j.seq); err != nil && !errors.Is(err, egress.ErrClosed) {
			return fmt.Errorf("bridge: lane from worker %d to worker %d: %w", l.From, l.To, err)
		}
		// SYNC POINT room-handshake: as in giveBack, for a worker whose pool is exhausted.
		l.Bell.Ring()
	}
	l.carried = 0
	l.jobs.pop()
	if !j.block { // the next such record may be taken
		p.bell.Ring()
	}
	return nil
}

// parts are the payloads of a lane to a worker here whose events aren't in the ring yet, in order.
type parts struct {
	most  int // of data in a block; immutable
	list  []payload
	first int
	bytes fifo   // of those without a block
	last  uint32 // number of the newest one
}

// payload is one that has begun.
type payload struct {
	id, total, got uint32
	staged         uint32 // in parts, in the ring
	lent           bool
	loan           egress.Loan
}

// empty reports whether no payload has begun whose event isn't in the ring.
func (s *parts) empty() bool { return s.first == len(s.list) }

func (s *parts) pop() {
	s.list[s.first] = payload{}
	if s.first++; s.first == len(s.list) {
		s.list, s.first = s.list[:0], 0
	}
}

// clear gives all blocks back.
func (s *parts) clear(out *egress.Egress) {
	for ; s.first < len(s.list); s.first++ {
		if pl := &s.list[s.first]; pl.lent {
			out.CancelLoan(&pl.loan)
		}
		s.list[s.first] = payload{}
	}
	s.list, s.first, s.last = s.list[:0], 0, 0
	s.bytes.clear()
}

// takePayload applies a payload frame. The peer's lock is held.
func (p *peer) takePayload(l *inLane, body []byte, old bool) error {
	c, bytes, err := parseChunk(body)
	if err != nil {
		return err
	}
	cost := costOfPayload(len(bytes))
	if !l.bytes.take(cost) {
		return bad(0, fmt.Sprint(l.bytes.came, " bytes of payloads and more"),
			fmt.Sprint(l.bytes.moved.Load()+l.bytes.size, ", as granted"))
	}
	if old || l.closed {
		l.bytes.move(cost)
		return nil
	}
	pl, err := p.payloadOf(l, &c)
	if err != nil {
		return err
	}
	if pl.lent {
		copy(pl.loan.Data[pl.got:], bytes)
		l.bytes.move(cost)
	} else {
		copy(l.parts.bytes.add(len(bytes)), bytes)
		if pl.got > 0 {
			l.bytes.move(costOfPayload(0)) // that of the first frame goes with the payload
		}
	}
	pl.got += uint32(len(bytes))
	_, err = l.drain()
	return err
}

// payloadOf gives the payload that a frame belongs to, a new one at offset 0.
func (p *peer) payloadOf(l *inLane, c *chunk) (*payload, error) {
	s := &l.parts
	var newest *payload
	if !s.empty() {
		newest = &s.list[len(s.list)-1]
	}
	if newest != nil && newest.got < newest.total {
		if c.id != newest.id || c.total != newest.total || c.offset != newest.got {
			return nil, bad(0, fmt.Sprintf("payload %d of %d bytes at %d", c.id, c.total, c.offset),
				fmt.Sprintf("%d of %d at %d", newest.id, newest.total, newest.got))
		}
		return newest, nil
	}
	if want := following(s.last); c.id != want || c.offset != 0 {
		return nil, bad(0, fmt.Sprintf("payload %d at %d", c.id, c.offset), fmt.Sprintf("%d at 0", want))
	}
	s.last = c.id
	if s.first > 0 && len(s.list) == cap(s.list) {
		s.list = s.list[:copy(s.list, s.list[s.first:])]
		s.first = 0
	}
	s.list = append(s.list, payload{id: c.id, total: c.total})
	newest = &s.list[len(s.list)-1]
	newest.lent = p.lend(l, newest)
	return newest, nil
}

// lend takes a block for a payload, if there is one.
func (p *peer) lend(l *inLane, pl *payload) bool {
	if int(pl.total) > l.parts.most {
		return false
	}
	var err error
	if pl.loan, err = l.out.Loan(int(pl.total)); err == nil {
		return true
	}
	for _, other := range p.in { // which may have got some back that are in use no more
		other.check(other.out.ReturnBlocks())
	}
	pl.loan, err = l.out.Loan(int(pl.total))
	return err == nil
}

// stageLarge is stage for an event with a payload.
func (l *inLane) stageLarge(rec []byte, id uint32) (done bool, err error) {
	if l.parts.empty() {
		return false, nil
	}
	pl := &l.parts.list[l.parts.first]
	if pl.id != id || uint64(pl.total) != totalOf(rec) {
		return false, bad(batchHead, fmt.Sprintf("payload %d of %d bytes", id, totalOf(rec)),
			fmt.Sprintf("%d of %d", pl.id, pl.total))
	}
	if !pl.lent {
		return l.stageParts(rec, pl), nil
	}
	if pl.got < pl.total {
		return false, nil
	}
	if err := l.ev.Decode(rec); err != nil {
		return false, bad(batchHead+recordHead, err, "an event")
	}
	l.ev.Parts = 0
	if done = l.check(l.out.TrySendLoan(&l.ev, &pl.loan)); done && !l.closed {
		l.fresh = true
		l.parts.pop()
	}
	return done, nil
}

// stageParts puts the data that have come into the ring, in parts, and the event behind them.
func (l *inLane) stageParts(rec []byte, pl *payload) (done bool) {
	for pl.staged < pl.total {
		n := min(l.part, int(pl.got-pl.staged))
		if n == 0 {
			return false
		}
		b, err := l.out.StageRecord(envelope.PartHeaderBytes + n)
		if err != nil {
			return l.check(err)
		}
		envelope.EncodePart(b, pl.staged, l.parts.bytes.bytes()[:n])
		l.parts.bytes.drop(n)
		pl.staged += uint32(n)
		l.fresh = true
		l.bytes.move(uint64(n))
	}
	b, err := l.out.StageRecord(len(rec))
	if err != nil {
		return l.check(err)
	}
	copy(b, rec)
	l.fresh = true
	l.bytes.move(costOfPayload(0))
	l.parts.pop()
	return true
}
