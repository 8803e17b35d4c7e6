// SPDX-License-Identifier: Apache-2.0

// Package session hands frames to another machine and takes frames from it, exactly once and in order, over connections
// that may end at any time. One Session is one stream of one pair of machines; docs/bridge.md, sections 2 and 3, is its
// design. A bridge has two for each other machine, and the launcher's child has two for each machine of its run.
//
// The lower machine dials, the other one awaits it. Each side numbers its frames, keeps them until the other has
// applied them, and sends them again when a connection has taken the place of one that was cut. State frames are never
// kept: whoever sends them sends the newest ones anew when the session is up again.
//
// Guarantee: each numbered frame is applied once, in order, or the session ends with an error that names both machines;
// no wait is without an end, whatever the peer and the connections do: a silent peer is noticed within PeerTimeout, and
// given up within Window; memory is bounded by ResendBytes and what connections hold; no number, length or type of a
// peer is used before it is bounded; nothing is allocated for a frame in the long run.
//
//	s, err := session.New(cfg)
//	body, ok := s.Frame(session.Header{Type: session.Control, Lane: lane}, len(text)) // !ok: wait for cfg.Acked
//	copy(body, text)
//	err = s.Flush()
//	s.Close("") // when the other side has applied all
package session

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/disco-sim/disco/internal/phi"
)

// ackAfter is how long an acknowledgement waits for a frame that carries it.
const ackAfter = 10 * time.Millisecond

// Conn is one connection: a stream of messages. Send is called by one goroutine at a time, Receive by one, Close by
// any.
type Conn interface {
	// Send hands over a message in order, and one reference to it, also with an error. Behind an error Receive soon has
	// one too, when it has given what came before: perhaps why the other side has ended.
	Send(*Buffer) error
	// Receive gives the next message, which is valid until Receive is called again, also after Close. It refuses
	// messages above HeaderBytes + BodyBytesMax before it takes memory for them.
	Receive() ([]byte, error)
	// Close ends Send and Receive soon, here and on the other side. What was sent before arrives if the other side
	// reads it within a moment.
	Close()
}

// Config is what a session is made from. None of its functions may wait for a peer or call Close; none is called after
// Close has returned.
type Config struct {
	Self, Peer int // machines; -1 is the launcher's. The lower one dials.
	Stream     Stream
	Identity   Identity

	ConnectTimeout time.Duration // until the first connection is up; above 0
	PeerTimeout    time.Duration // silence until a peer counts as cut off; at least 12 ms
	Window         time.Duration // to reconnect in; above 0
	ResendBytes    int           // memory of frames that aren't acknowledged; at least 1 MiB

	Dial func(context.Context) (Conn, error) // of the lower machine; nil for the other one
	// Apply takes a frame, in the order of numbers, state frames in between; body is valid during the call. One call
	// at a time. An error ends the session; see FrameError.
	Apply func(h Header, body []byte) error
	// Changed reports states after the first, in order, the newest where one follows another at once; Up anew for
	// another connection, so that state frames can be sent again.
	Changed func(State)
	Acked   func() // Frame may be called again, after it had no memory or the session has ended
	// Unreachable reports that the session is up and nothing has come for an unusually long time, and with nil that
	// something comes again. Where the state changes instead, only Changed is called; neither is during a call of the
	// other. It ends nothing: that is for PeerTimeout. It may be left out.
	Unreachable func(*Silence)
}

func (c *Config) validate() error {
	switch {
	case c.Self == c.Peer || c.Self < -1 || c.Peer < -1:
		return fmt.Errorf("session: machines %d and %d: two different ones from -1", c.Self, c.Peer)
	case (c.Self < c.Peer) != (c.Dial != nil):
		return fmt.Errorf("session: machine %d to %d: the lower one dials, and no other", c.Self, c.Peer)
	case c.Stream >= streams:
		return fmt.Errorf("session: %v: allowed: express, bulk", c.Stream)
	case c.ConnectTimeout <= 0 || c.PeerTimeout < ticks*time.Millisecond || c.Window <= 0:
		return fmt.Errorf("session: timeouts %v to connect, %v of a peer, %v to reconnect: above 0, from %v, above 0",
			c.ConnectTimeout, c.PeerTimeout, c.Window, ticks*time.Millisecond)
	case c.ResendBytes < 1<<20:
		return fmt.Errorf("session: resend buffer of %d bytes: at least %d", c.ResendBytes, 1<<20)
	case len(c.Identity.Cluster) > clusterBytesMax || c.Identity.Incarnation == 0:
		return fmt.Errorf("session: cluster of %d bytes, incarnation %d: at most %d, not 0",
			len(c.Identity.Cluster), c.Identity.Incarnation, clusterBytesMax)
	case c.Apply == nil || c.Changed == nil || c.Acked == nil:
		return errors.New("session: Apply, Changed or Acked is nil")
	}
	return nil
}

// Session is one stream to one machine. One goroutine calls Frame, Shrink, State and Flush, or several do in turn, from
// the first of what they send up to Flush; any may call the others.
type Session struct {
	cfg    Config
	pool   pool
	out    building      // of Frame
	states building      // of State
	sender atomic.Uint64 // goroutine whose turn it is; 0: none, or the plain build

	// sending holds a token while somebody sends. It is a channel, because that may take as long as a peer's timeout.
	sending chan struct{}
	// receiving is held while a message is applied. Locks are taken in the order receiving, mu, that of the pool.
	receiving sync.Mutex

	mu       sync.Mutex
	m        machine
	conn     Conn // while up
	pending  Conn // waits for its welcome
	first    int  // version
	reported int  // the newest that changed was given
	finished bool

	wake    chan struct{} // the sender has something to do
	changed chan struct{} // Changed is to be called
	done    chan struct{} // closed when the session has ended
	ctx     context.Context
	cancel  context.CancelFunc
	started time.Time
	ended   sync.WaitGroup
}

// New starts a session. Close ends it.
func New(cfg Config) (*Session, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Session{cfg: cfg, sending: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		changed: make(chan struct{}, 1), done: make(chan struct{}), started: time.Now()}
	s.pool.most = cfg.ResendBytes / 2
	s.m = newMachine(Hello{Stream: cfg.Stream, From: cfg.Self, To: cfg.Peer, Identity: cfg.Identity},
		limits{cfg.ConnectTimeout, cfg.PeerTimeout, cfg.Window, cfg.ResendBytes, cfg.Dial != nil})
	s.reported = s.version()
	s.first = s.reported
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.ended.Go(s.watch)
	s.ended.Go(s.send)
	if cfg.Dial != nil {
		s.ended.Go(s.dial)
	}
	return s, nil
}

// Err gives why the session has ended, and nil while it goes on or where all went well.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.err
}

// ClosedError is the end of a session by Close, for a reason.
type ClosedError struct{ Reason string }

// Error has the reason.
func (e *ClosedError) Error() string { return "session: closed: " + e.Reason }

// Close ends the session. Without a reason it waits until all flushed frames are acknowledged and the peer closes too,
// at most PeerTimeout + Window; a reason is sent to the peer at once, and what it hasn't applied is lost. It returns
// when nothing of the session runs any more. Err is nil after it if all frames of both sides were applied, and a
// *ClosedError where there was a reason.
func (s *Session) Close(reason string) {
	var failure error
	if reason != "" {
		failure = &ClosedError{reason}
	}
	s.mu.Lock()
	s.m.close(reason, failure)
	s.unlock()
	notify(s.wake)
	s.ended.Wait()
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// unlock does what follows from what the machine has come to, and unlocks mu.
func (s *Session) unlock() {
	var old [2]Conn
	m := &s.m
	if m.state != Up {
		old[0], s.conn = s.conn, nil
	}
	over := m.state.over()
	if over || m.dialExpired() {
		old[1], s.pending = s.pending, nil
	}
	if over && !s.finished {
		s.finished = true
		s.cancel()
		close(s.done)
	}
	if v := s.version(); v != s.reported {
		s.reported = v
		notify(s.changed)
	}
	room := m.roomFor()
	s.mu.Unlock()
	for _, c := range old {
		if c != nil {
			c.Close()
		}
	}
	if room {
		s.cfg.Acked()
	}
}

// version is another number for each state, and for each connection that is up. Its caller holds mu.
func (s *Session) version() int { return s.m.ups*8 + int(s.m.state) }

// watch passes time and reports changes. It waits for nobody.
func (s *Session) watch() {
	t := time.NewTicker(s.cfg.PeerTimeout / ticks)
	defer t.Stop()
	reported, last := s.first, s.started
	a := accrual{detector: phi.Detector{Resolution: s.cfg.PeerTimeout / ticks}}
	for over := false; !over; {
		select {
		case <-s.done:
		case <-s.changed:
		case <-t.C:
			now := time.Now()
			s.mu.Lock()
			s.m.tick(now.Sub(last))
			up, arrived := s.m.state == Up, s.m.arrived
			s.m.arrived = false
			s.unlock()
			silence, changed := a.tick(s.m.capped(now.Sub(last)), up, arrived)
			last = now
			notify(s.wake)
			if changed && s.cfg.Unreachable != nil {
				s.cfg.Unreachable(silence)
			}
		}
		s.mu.Lock()
		v, state := s.version(), s.m.state
		s.mu.Unlock()
		if v != reported {
			s.cfg.Changed(state)
		}
		reported, over = v, state.over()
	}
}

// send sends what isn't sent by Flush: acknowledgements, pongs, what a new connection needs, and the end.
func (s *Session) send() {
	timer := time.NewTimer(ackAfter)
	timer.Stop()
	running := false
	for {
		select {
		case <-s.done:
			return
		case <-s.wake:
		case <-timer.C:
			running = false
			s.mu.Lock()
			s.m.ackTimer()
			s.mu.Unlock()
		}
		s.drain(nil)
		s.mu.Lock()
		if s.m.armed && !running {
			running = true
			timer.Reset(ackAfter)
		}
		s.mu.Unlock()
	}
}

// drain sends everything that there is to be sent, and state frames if there is a connection.
func (s *Session) drain(states *Buffer) {
	s.sending <- struct{}{}
	defer func() { <-s.sending }()
	for {
		s.mu.Lock()
		conn := s.conn
		j, e := s.m.pick()
		b := s.message(j, e)
		s.unlock()
		if states != nil && j != sendWelcome {
			if conn != nil {
				_ = conn.Send(states) // nothing is lost that isn't sent anew
			} else {
				states.Free()
			}
			states = nil
		}
		if j == nothing {
			return
		}
		err := conn.Send(b)
		if err != nil {
			s.mu.Lock()
			s.m.mute = s.m.mute || s.conn == conn
			s.unlock()
		}
		if j == sendBye {
			s.mu.Lock()
			s.m.byeSent()
			s.unlock()
		}
	}
}

// message makes what the machine has picked. Its caller holds mu.
func (s *Session) message(j job, e entry) *Buffer {
	h := Header{Ack: s.m.applied}
	switch j {
	case nothing:
		return nil
	case sendKept:
		e.buf.Ref()
		return e.buf
	}
	b := s.pool.get(endBytes) // the largest of them
	body := b.data[HeaderBytes:]
	switch j {
	case sendWelcome:
		own := s.m.hello()
		own.greeting(welcome, b.data)
		b.size = HeaderBytes + helloBytes
	case sendPing:
		h.Type, b.size = Ping, HeaderBytes+8
		h.put(b.data, 8)
		clear(body[:8])
	case sendPong:
		h.Type, b.size = Pong, HeaderBytes+24
		h.put(b.data, 24)
		for i, t := range []int64{s.m.pingTime, s.m.pongTime, int64(time.Since(s.started))} {
			binary.LittleEndian.PutUint64(body[8*i:], uint64(t))
		}
	case sendBye:
		code := CodeDone
		if s.m.hasty {
			code = CodeFailed
		}
		b.size = putEnd(b.data, bye, h.Ack, code, s.m.byeText)
	}
	return b
}

// fail ends the session with an error, which is sent to the peer.
func (s *Session) fail(err error) {
	s.mu.Lock()
	s.m.close(err.Error(), err)
	s.unlock()
	s.drain(nil)
}

// dial makes connections until the session has ended.
func (s *Session) dial() {
	for n := 0; ; n++ {
		conn, attempt, err := s.connect()
		if err == nil {
			n = -1
			s.receive(conn, attempt)
		}
		wait := time.NewTimer(backoff(n+1, rand.Float64()))
		select {
		case <-s.done:
			wait.Stop()
			return
		case <-wait.C:
		}
	}
}

// connect makes one connection and greets the peer.
func (s *Session) connect() (conn Conn, attempt uint64, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.PeerTimeout)
	defer cancel()
	if conn, err = s.cfg.Dial(ctx); err != nil {
		s.mu.Lock()
		s.m.dialFailed(err)
		s.unlock()
		return nil, 0, err
	}
	b := s.pool.get(classes[0])
	s.mu.Lock()
	h := s.m.dial()
	s.pending = conn
	s.unlock() // closes it if the session has ended
	h.greeting(hello, b.data)
	b.size = HeaderBytes + helloBytes
	var answer []byte
	if err = conn.Send(b); err == nil {
		if answer, err = conn.Receive(); err == nil {
			err = s.answered(conn, answer)
		}
	}
	if err != nil {
		s.mu.Lock()
		s.m.dialFailed(err)
		s.pending = nil
		s.unlock()
		conn.Close()
	}
	return conn, h.Attempt, err
}

// answered takes the first message that came back.
func (s *Session) answered(conn Conn, message []byte) error {
	h, body, rest, bad := parse(message, s.cfg.Stream)
	if bad == nil && (h.Type < welcome || len(rest) != 0) {
		bad = badFrame(h.Number, offsetType, fmt.Sprint("type ", uint8(h.Type), " and ", len(rest), " more bytes"),
			"welcome, refuse or bye alone")
	}
	s.mu.Lock()
	defer func() {
		s.unlock()
		notify(s.wake)
	}()
	switch {
	case bad != nil:
		return s.m.where(bad)
	case h.Type != welcome:
		err := parseEnd(h.Type, body, s.cfg.Peer, s.cfg.Stream)
		s.m.ended(err)
		return err
	}
	w, err := parseHello(body)
	if err == nil {
		err = s.m.welcomed(&w)
	}
	if err == nil {
		s.conn, s.pending = conn, nil
	}
	return err
}

// Accept uses a connection whose first message was that hello, until the connection has ended, and closes it. An error
// is about a hello that was refused: the session goes on without it.
func (s *Session) Accept(conn Conn, h Hello) error {
	s.mu.Lock()
	err := s.m.accept(&h)
	if err != nil {
		s.unlock()
		Refuse(conn, err)
		return err
	}
	s.ended.Add(1)
	defer s.ended.Done()
	old := s.conn
	s.conn = conn
	s.unlock()
	if old != nil {
		old.Close()
	}
	notify(s.wake)
	s.receive(conn, h.Attempt)
	return nil
}

// Refuse answers a connection whose hello is not taken, and closes it. One that came too late gets no answer, because
// the peer has a newer one.
func Refuse(conn Conn, err error) {
	defer conn.Close()
	if errors.Is(err, errLate) {
		return
	}
	code, text := CodeFailed, err.Error()
	if r := (*refusal)(nil); errors.As(err, &r) {
		code, text = r.code, r.text
	}
	b := new(pool).get(endBytes)
	b.size = putEnd(b.data, refuse, 0, code, text)
	_ = conn.Send(b) // it is closed in any case
}

// receive takes messages of a connection until it has ended.
func (s *Session) receive(conn Conn, attempt uint64) {
	defer conn.Close()
	for {
		b, err := conn.Receive()
		if err != nil {
			s.mu.Lock()
			if s.conn == conn {
				s.m.cut(err)
			}
			s.unlock()
			return
		}
		goOn, err := s.take(b, attempt)
		if err != nil {
			s.fail(err)
		}
		if err != nil || !goOn {
			return
		}
	}
}

// take applies the frames of a message. It reports whether the connection is still used.
func (s *Session) take(b []byte, attempt uint64) (goOn bool, err error) {
	s.receiving.Lock()
	defer s.receiving.Unlock()
	size, numbered := len(b), false
	if size > messageMax {
		return false, s.m.where(badFrame(0, messageMax, fmt.Sprint("a message of ", size, " bytes"), messageMax))
	}
	for len(b) > 0 {
		var h Header
		var body []byte
		var bad *FrameError
		if h, body, b, bad = parse(b, s.cfg.Stream); bad != nil {
			return false, s.m.where(bad)
		}
		v, err := s.one(attempt, h, body)
		if err != nil || v == isStale || v == isGap {
			return false, err
		}
		numbered = numbered || v == isNext
	}
	if numbered {
		s.mu.Lock()
		wake := s.m.received(classes[classOf(size)])
		s.mu.Unlock()
		if wake {
			notify(s.wake)
		}
	}
	return true, nil
}

// one takes a frame.
func (s *Session) one(attempt uint64, h Header, body []byte) (v verdict, err error) {
	s.mu.Lock()
	v, err = s.m.receive(attempt, h)
	pong := false
	if v == isState {
		v, pong, err = s.own(h, body)
	}
	wake := pong || s.m.byeDue() // its acknowledgement was the last that was awaited
	s.unlock()
	if wake {
		notify(s.wake)
	}
	if err != nil || v != isNext && (v != isState || h.Type == Ping || h.Type == bye) {
		return v, err
	}
	if err = s.cfg.Apply(h, body); err != nil {
		var bad *FrameError
		if errors.As(err, &bad) {
			bad.Number = h.Number
			s.m.where(bad)
		}
		return v, err
	}
	if v == isNext {
		s.mu.Lock()
		s.m.applied++
		s.mu.Unlock()
	}
	return v, nil
}

// own takes the state frames that are the session's. Its caller holds mu.
func (s *Session) own(h Header, body []byte) (v verdict, pong bool, err error) {
	switch {
	case h.Type == bye:
		s.m.ended(parseEnd(bye, body, s.cfg.Peer, s.cfg.Stream))
	case h.Type >= hello:
		return isStale, false, s.m.where(badFrame(0, offsetType, fmt.Sprint("type ", uint8(h.Type)),
			"no greeting behind the first message"))
	case h.Type == Ping:
		if t0 := int64(binary.LittleEndian.Uint64(body)); t0 != 0 {
			s.m.pong, s.m.pingTime, s.m.pongTime = true, t0, int64(time.Since(s.started))
		}
	}
	return isState, s.m.pong, nil
}
