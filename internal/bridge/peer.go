// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/disco-sim/disco/internal/session"
	"github.com/disco-sim/disco/shm"
)

// peer is another machine: the lanes to it and from it, and the sessions that carry them.
//
// Locks are taken in the order turn, bulkTurn, mu, and before those of sessions.
type peer struct {
	b             *Bridge
	machine       int
	rank          int // of the machine among all of the set
	cfg           *Peer
	bell          *shm.Doorbell
	express, bulk *session.Session

	out               []*outLane
	in                []*inLane
	outByID           map[uint32]*outLane
	inByID            map[uint32]*inLane
	segments          []*shm.Segment // of pools
	pools             []*shm.Pool
	again, bulkAgain  atomic.Bool // a connection is up: state frames are to be sent anew
	over, bulkOver    atomic.Bool // the session has ended
	quietDue, jumpDue atomic.Bool
	queued            atomic.Int32
	bulkWake          chan struct{}
	pumped            chan struct{} // closed when the pump has ended

	turn         sync.Mutex // held by the pump while it works
	running      bool
	unsent       bool // frames are in the message under way
	next         int  // lane whose turn it is
	scratch      []byte
	local, shown []Status
	shownAt      time.Time

	bulkTurn    sync.Mutex // held while payloads are sent
	bulkScratch []byte

	mu    sync.Mutex // of lanes from there
	begin uint32     // how often lanes have begun anew; written with turn, bulkTurn and mu held
}

func newPeer(b *Bridge, cfg *Peer) (*peer, error) {
	if b.peer(cfg.Machine) != nil || cfg.Machine == b.cfg.Machine {
		return nil, errors.New("it is there twice")
	}
	if cfg.Bell == nil {
		return nil, errors.New("no Bell, want one")
	}
	if (cfg.Sessions[0] == nil) != (cfg.Sessions[1] == nil) {
		return nil, errors.New("one session, want both or none")
	}
	return &peer{b: b, machine: cfg.Machine, cfg: cfg, bell: cfg.Bell, outByID: map[uint32]*outLane{},
		inByID: map[uint32]*inLane{}, bulkWake: make(chan struct{}, 1), pumped: make(chan struct{})}, nil
}

// connect starts the sessions.
func (p *peer) connect() (err error) {
	p.turn.Lock()
	defer p.turn.Unlock()
	p.bulkTurn.Lock()
	defer p.bulkTurn.Unlock()
	if p.express, p.bulk = p.cfg.Sessions[session.Express], p.cfg.Sessions[session.Bulk]; p.express != nil {
		p.again.Store(true) // the connections may be there already
		p.bulkAgain.Store(true)
		return nil
	}
	if p.express, err = p.open(session.Express, p.apply); err == nil {
		p.bulk, err = p.open(session.Bulk, p.applyBulk)
	}
	return err
}

func (p *peer) open(on session.Stream, apply func(session.Header, []byte) error) (*session.Session, error) {
	cfg := p.cfg.Session
	cfg.Self, cfg.Peer, cfg.Stream, cfg.Apply = p.b.cfg.Machine, p.machine, on, apply
	cfg.Acked = func() { p.wake(on) }
	cfg.Changed = func(s session.State) { p.changed(on, s) }
	if dial := p.cfg.Dial; dial != nil {
		cfg.Dial = func(ctx context.Context) (session.Conn, error) { return dial(ctx, on) }
	}
	return session.New(cfg)
}

// changed takes the new state of a session.
func (p *peer) changed(on session.Stream, s session.State) {
	again, over := &p.again, &p.over
	if on == session.Bulk {
		again, over = &p.bulkAgain, &p.bulkOver
	}
	switch s {
	case session.Up:
		again.Store(true)
	case session.Lost, session.Ended:
		over.Store(true)
	}
	p.b.wake(p, on)
}

// wake wakes who sends on a session.
func (p *peer) wake(on session.Stream) {
	if on == session.Bulk {
		p.wakeBulk()
	} else {
		p.bell.Ring()
	}
}

// wakeBulk wakes who carries payloads.
func (p *peer) wakeBulk() {
	select {
	case p.bulkWake <- struct{}{}:
	default:
	}
}

func (p *peer) header(t session.Type, lane uint32) session.Header {
	return session.Header{Type: t, Set: p.b.cfg.Set, Lane: lane, Begin: p.begin}
}

// gone is why a session has ended, of which this bridge knows nothing.
func (p *peer) gone(s *session.Session) error {
	if err := s.Err(); err != nil {
		return err
	}
	return fmt.Errorf("bridge: machine %d has ended its session", p.machine)
}

// sent is the error of a Flush, if it is one: the end of the bridge isn't.
func (p *peer) sent(err error) error {
	if err != nil && p.b.ending.Load() {
		return nil
	}
	return err
}

// pump takes from lanes until the bridge ends.
func (p *peer) pump() {
	defer close(p.pumped)
	// It yields to other goroutines: those of the sessions and of gRPC are the ones that it waits for. A thread of its
	// own that yields to other threads keeps a place among GOMAXPROCS from them, for time slices on a busy machine.
	w, err := shm.NewWaiter(shm.WaiterConfig{Bell: p.bell, Crowded: p.b.cfg.Crowded, ParkMax: p.b.cfg.park,
		Goroutines: true})
	for err == nil {
		var work bool
		ending := p.b.ending.Load() // before the pass: it then sees what a worker did before somebody closed the bridge
		if work, err = p.pass(); err == nil {
			if !work && ending {
				return
			}
			w.Idle(work || p.b.ending.Load())
		}
	}
	p.b.fail(err)
}

// pass looks once at everything that the doorbell is rung for.
func (p *peer) pass() (work bool, err error) {
	p.turn.Lock()
	defer p.turn.Unlock()
	if p.over.Load() && !p.b.ending.Load() {
		return false, p.gone(p.express)
	}
	again := p.again.Swap(false)
	work = p.grant(p.express, again, (*inLane).recordsCredit, &p.scratch)
	if p.show(again) {
		work = true
	}
	if p.b.detector.send(p, again) {
		work = true
	}
	p.unsent = p.unsent || work
	for n := 0; n < len(p.out) && p.running; n++ {
		moved, err := p.take(p.out[p.next])
		if err != nil {
			return false, err
		}
		work = work || moved
		if p.next++; p.next == len(p.out) {
			p.next = 0
		}
	}
	// SYNC POINT bridge-queued: loaded behind the arming of the doorbell. SYNC POINT room-handshake: drain tries to
	// claim room then, and ingress rings when it has given some back.
	if p.queued.Load() > 0 {
		moved, err := p.drain()
		if err != nil {
			return false, err
		}
		work = work || moved
	}
	if p.unsent {
		p.unsent = false
		if err = p.sent(p.express.Flush()); err != nil {
			return work, err
		}
	}
	moved, err := p.b.detector.look(p)
	return work || moved, err
}

// drain puts into rings what waits.
func (p *peer) drain() (work bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.in {
		if !l.waiting {
			continue
		}
		moved, err := l.drain()
		if err != nil {
			return false, err
		}
		work = work || moved
		p.note(l)
	}
	return work, nil
}

// note makes visible what was put into a lane's ring, and wakes whoever has something to do for it.
func (p *peer) note(l *inLane) {
	l.finish()
	l.records.store()
	l.bytes.store()
	wake := l.records.due()
	if waits := l.waits(); waits != l.waiting {
		l.waiting = waits
		if waits {
			// SYNC POINT bridge-queued: stored before the doorbell is rung.
			p.queued.Add(1)
			wake = true
		} else {
			p.queued.Add(-1)
		}
	}
	if wake {
		p.bell.Ring()
	}
	if l.bytes.due() {
		p.wakeBulk()
	}
}

// grant sends credits of lanes from there, of all when a connection has come up. Who sends state frames calls it.
func (p *peer) grant(s *session.Session, all bool, of func(*inLane) *credit, scratch *[]byte) bool {
	b := (*scratch)[:0]
	for _, l := range p.in {
		c := of(l)
		if !all && !c.due() {
			continue
		}
		n := c.grants()
		c.granted.Store(n)
		b = le.AppendUint32(b, l.id)
		b = le.AppendUint32(b, 0)
		b = le.AppendUint64(b, n)
	}
	*scratch = b
	if len(b) == 0 {
		return false
	}
	copy(s.State(p.header(session.Credit, 0), len(b)), b)
	return true
}

func (l *inLane) recordsCredit() *credit { return &l.records }
func (l *inLane) bytesCredit() *credit   { return &l.bytes }

// showEvery is the least time between two status frames while there is work.
const showEvery = 5 * time.Millisecond

// show sends what workers here show, if it has changed: now and then, and before the pump sleeps.
func (p *peer) show(again bool) bool {
	if p.b.cfg.Shown == nil || !p.running { // until Go, workers may show what was before
		return false
	}
	now := time.Now()
	if !again && !p.bell.Armed() && now.Sub(p.shownAt) < showEvery {
		return false
	}
	p.local = p.b.cfg.Shown(p.local[:0])
	if !again && equal(p.local, p.shown) {
		return false
	}
	p.shownAt = now
	p.shown = append(p.shown[:0], p.local...)
	b := p.express.State(p.header(session.Status, 0), statusBytes*len(p.shown))
	for i := range p.shown {
		p.shown[i].put(b[statusBytes*i:])
	}
	return true
}

func equal(a, b []Status) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// apply takes a frame of the express stream.
func (p *peer) apply(h session.Header, body []byte) error {
	switch h.Type {
	case session.Records, session.End:
		return p.applyLane(h, body)
	case session.Credit:
		return p.applyCredit(body, (*outLane).recordsWindow)
	case session.Status:
		return p.applyStatus(h, body)
	case session.Quiet, session.Jump:
		return p.b.detector.apply(p, h.Type, body)
	case session.Pong:
		return nil
	}
	return badHead(offsetType, fmt.Sprint("type ", uint8(h.Type)), "records, end, credit, status, quiet or jump")
}

// applyBulk takes one of the bulk stream.
func (p *peer) applyBulk(h session.Header, body []byte) error {
	switch h.Type {
	case session.Payload:
		return p.applyLane(h, body)
	case session.Credit:
		return p.applyCredit(body, (*outLane).bytesWindow)
	case session.Pong:
		return nil
	}
	return badHead(offsetType, fmt.Sprint("type ", uint8(h.Type)), "payload or credit")
}

func (l *outLane) recordsWindow() *window { return &l.records }
func (l *outLane) bytesWindow() *window   { return &l.bytes }

// applyLane takes a frame of a lane.
func (p *peer) applyLane(h session.Header, body []byte) (err error) {
	l := p.inByID[h.Lane]
	if l == nil {
		return unknownLane(h)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.Begin > p.begin {
		return badHead(offsetBegin, fmt.Sprint("begin ", h.Begin), fmt.Sprint("up to ", p.begin))
	}
	old := h.Begin < p.begin
	switch h.Type {
	case session.Records:
		err = p.takeIn(l, body, old)
	case session.Payload:
		err = p.takePayload(l, body, old)
	case session.End:
		err = l.end()
	}
	p.note(l)
	return err
}

// applyCredit takes what the other side has room for.
func (p *peer) applyCredit(body []byte, of func(*outLane) *window) error {
	if len(body)%creditBytes != 0 {
		return bad(0, fmt.Sprint("a body of ", len(body)), fmt.Sprint("a multiple of ", creditBytes))
	}
	fresh := false
	for at := 0; at < len(body); at += creditBytes {
		b := body[at:]
		l := p.outByID[le.Uint32(b)]
		if l == nil || le.Uint32(b[4:]) != 0 {
			return bad(at, fmt.Sprintf("lane %#x, %#x", le.Uint32(b), le.Uint32(b[4:])), "a lane to that machine, 0")
		}
		more, err := of(l).grant(le.Uint64(b[8:]))
		if err != nil {
			return bad(at+8, fmt.Sprint("credit ", le.Uint64(b[8:])), err.Error())
		}
		fresh = fresh || more
	}
	if fresh {
		p.bell.Ring()
		p.wakeBulk()
	}
	return nil
}

// applyStatus takes what workers there have shown since the lanes began anew.
func (p *peer) applyStatus(h session.Header, body []byte) error {
	p.mu.Lock()
	old := h.Begin < p.begin
	p.mu.Unlock()
	if len(body)%statusBytes != 0 {
		return bad(0, fmt.Sprint("a body of ", len(body)), fmt.Sprint("a multiple of ", statusBytes))
	}
	for at := 0; at < len(body); at += statusBytes {
		s := parseStatus(body[at:])
		if first, n := p.cfg.First, p.cfg.Workers; s.Worker < first || s.Worker >= first+n {
			return bad(at, fmt.Sprint("worker ", s.Worker), fmt.Sprintf("%d to %d", first, first+n-1))
		}
		if p.b.cfg.Remote != nil && !old {
			p.b.cfg.Remote(s)
		}
	}
	return nil
}

// prepare has the lanes begin anew: see Bridge.Prepare.
func (p *peer) prepare() error {
	p.turn.Lock()
	defer p.turn.Unlock()
	p.bulkTurn.Lock()
	defer p.bulkTurn.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = false
	p.begin++
	for _, l := range p.out {
		for j, ok := l.jobs.head(); ok; j, ok = l.jobs.head() {
			if err := p.done(l, &j); err != nil {
				return err
			}
		}
		if err := l.reset(); err != nil {
			return err
		}
	}
	for _, l := range p.in {
		l.reset()
		p.note(l)
	}
	return nil
}

// close closes the ends of the lanes, and tells how the sessions have ended.
func (p *peer) close() error {
	for _, l := range p.out {
		l.recv.Close()
		l.Bell.Ring()
	}
	for _, l := range p.in {
		l.out.Close()
	}
	var errs error
	for _, s := range p.own() {
		errs = errors.Join(errs, s.Err())
	}
	return errs
}

// own are the sessions that the bridge has begun.
func (p *peer) own() (sessions []*session.Session) {
	for on, s := range []*session.Session{p.express, p.bulk} {
		if s != nil && p.cfg.Sessions[on] == nil {
			sessions = append(sessions, s)
		}
	}
	return sessions
}
