// SPDX-License-Identifier: Apache-2.0

package ipc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/shm"
)

// Message is one message, as returned by Receive and Poll.
type Message struct {
	Sender int    // the sender: 0, 1, 2, … in the order of the handshakes
	Number uint64 // how many messages that sender had sent before: 0, 1, 2, …

	// Data may be read until Release, or within Poll until the visit ends. It must not be written: it may be the
	// sender's memory, mapped for reading only.
	Data []byte

	from  *source // nil: released, or needs none
	lease uint64  // of a block, 0: none
	chunk *chunk  // of a copy, nil: none
}

// Receiver gets the messages of all senders. One goroutine at a time may call its methods. Senders are added and
// removed without a call.
//
// Memory of a sender stays mapped until it has ended and all its messages have been
// released. A receiver that never drains stops only its senders.
type Receiver struct {
	name     string // immutable
	listener        // the part that other goroutines use

	sources []*source
	leaving []*source // ended, with messages that aren't released
	seen    uint64    // of changes
	queue   []Message
	at      int     // next in queue
	ends    []error // of senders, not yet returned
	arena   arena
	hold    sink // of Receive
	push    sink // of Poll
	stats   ReceiverStats
	closed  bool
}

// ReceiverStats counts since Listen.
type ReceiverStats struct {
	Senders  int    // connected now
	Joined   uint64 // senders admitted
	Closed   uint64 // of those, ended in order
	Died     uint64 // ended without closing
	Broken   uint64 // ended because of what they wrote
	Refused  uint64 // handshakes that failed
	Messages uint64 // received
	Bytes    uint64 // in them
	Blocks   uint64 // of them, in blocks
	Leases   int    // blocks that wait for Release
	LastFail error  // why the latest refused handshake failed
}

// Name is the name that senders dial.
func (r *Receiver) Name() string { return r.name }

// Receive returns the next message of any sender. It waits for one until the context
// ends. The message must be given to Release.
//
// A *SenderError is the end of one sender: call again for the others. ErrClosed means that this receiver was
// closed.
func (r *Receiver) Receive(ctx context.Context) (Message, error) {
	if r.at == len(r.queue) {
		if err := r.fill(ctx); err != nil {
			return Message{}, err
		}
	}
	if r.at == len(r.queue) {
		return Message{}, r.takeEnd()
	}
	m := r.queue[r.at]
	r.queue[r.at] = Message{}
	r.at++
	return m, nil
}

// Poll calls visit for every message that is there, without waiting, and returns how
// many there were. A message ends with its visit: no Release, no copy. visit must not
// call the receiver. Errors are those of Receive.
func (r *Receiver) Poll(visit func(m *Message)) (n int, err error) {
	if r.closed {
		return 0, r.errClosed()
	}
	for ; r.at < len(r.queue); r.at++ { // what a Receive or Wait has queued
		m := &r.queue[r.at]
		visit(m)
		r.Release(m)
		n++
	}
	r.push.visit = visit
	n += r.sweep(&r.push)
	r.push.visit = nil
	if len(r.ends) > 0 {
		err = r.takeEnd()
	}
	return n, err
}

// Wait waits until Poll or Receive has something to return, or the context ends.
func (r *Receiver) Wait(ctx context.Context) error {
	if r.at < len(r.queue) || len(r.ends) > 0 {
		return nil
	}
	return r.fill(ctx)
}

// fill waits until the queue or the list of ends holds something.
func (r *Receiver) fill(ctx context.Context) error {
	if r.closed {
		return r.errClosed()
	}
	if len(r.ends) > 0 {
		return nil
	}
	r.queue, r.at = r.queue[:0], 0
	p := pause{s: r.sleeper, ctx: ctx}
	for ; r.sweep(&r.hold) == 0 && len(r.ends) == 0; r.watch(r.sleeper.waiter) {
		if r.checkLanes(); len(r.ends) > 0 {
			break
		}
		if err := p.step(); err != nil {
			p.end(false)
			return err
		}
	}
	p.end(true)
	return nil
}

// watch looks for what sweep may find as often as the waiter says.
func (r *Receiver) watch(w *shm.Waiter) {
	for n := w.Looks(); n > 0 && !r.mayHave(); n-- {
		w.Missed()
	}
}

// mayHave reports whether sweep may find something.
func (r *Receiver) mayHave() bool {
	for _, l := range r.sources {
		if l.in.Look() {
			return true
		}
	}
	return r.changes.Load() != r.seen
}

// checkLanes ends a sender whose lane has overwritten words of the receiver's: without it both sides would wait for
// ever.
func (r *Receiver) checkLanes() {
	for i := 0; i < len(r.sources); {
		l := r.sources[i]
		err := l.in.Check()
		if err == nil {
			err = l.in.CheckReturns()
		}
		if err == nil {
			i++
			continue
		}
		r.sources = slices.Delete(r.sources, i, i+1)
		r.end(l, err)
	}
}

func (r *Receiver) takeEnd() error {
	err := r.ends[0]
	r.ends = r.ends[1:]
	return err
}

func (r *Receiver) errClosed() error { return fmt.Errorf("ipc: receiver %q: %w", r.name, ErrClosed) }

// sweep polls every sender once and passes what it finds to the sink.
func (r *Receiver) sweep(to *sink) (work int) {
	// SYNC POINT work-published: with the bell armed this is the second look.
	if n := r.changes.Load(); n != r.seen {
		r.seen = n
		r.adopt()
	}
	to.r = r
	for i := 0; i < len(r.sources); {
		l := r.sources[i]
		to.from = l
		n, err := l.in.Poll(to)
		work += n
		if l.fault != nil {
			err = l.fault
		}
		if err == nil {
			i++
			continue
		}
		r.sources = append(r.sources[:i], r.sources[i+1:]...)
		r.end(l, err)
	}
	return work
}

// adopt takes over senders that have joined and marks those whose socket has ended.
func (r *Receiver) adopt() {
	for _, l := range r.arrivals() {
		r.sources = append(r.sources, l)
		r.stats.Joined++
	}
	for _, l := range r.sources {
		if !l.dead && l.hungUp.Load() {
			l.dead = true
			l.in.PeerDead(peerSender)
		}
	}
}

// end ends one sender: it closes the socket, which the sender sees, and unmaps the memory as soon as no message in
// it is read any more.
func (r *Receiver) end(l *source, err error) {
	switch {
	case errors.Is(err, ErrClosed):
		r.stats.Closed++
		err = ErrClosed
	case errors.Is(err, ErrPeerDead):
		r.stats.Died++
		err = ErrPeerDead
	default:
		r.stats.Broken++
		var why *lane.PeerError
		if errors.As(err, &why) {
			err = fmt.Errorf("%w at position %d: %w", ErrProtocol, why.Position, errors.Join(why.Kind, why.Err))
		}
		l.in.Close()
	}
	_ = l.conn.Close() // the peer has closed, or sees by this that the receiver has
	r.ends = append(r.ends, &SenderError{Sender: l.number, PID: l.pid, Err: err})
	l.ended = true
	r.leaving = append(r.leaving, l)
	r.unmapIfReleased(l)
}

// unmapIfReleased unmaps an ended sender's memory if all its messages have been released.
func (r *Receiver) unmapIfReleased(l *source) {
	if !l.ended || l.in.Leases(peerSender) > 0 {
		return
	}
	for i, x := range r.leaving {
		if x == l {
			r.leaving = append(r.leaving[:i], r.leaving[i+1:]...)
			break
		}
	}
	r.count(&r.stats, l)
	if err := l.close(); err != nil {
		r.ends = append(r.ends, fmt.Errorf("ipc: memory of sender %d: %w", l.number, err))
	}
}

// Release gives a message back: its Data must not be used any more. Releasing it again does nothing; using a copy
// of a released message is a bug of the caller.
func (r *Receiver) Release(m *Message) {
	l, lease, c, data := m.from, m.lease, m.chunk, m.Data
	if l == nil {
		return
	}
	m.from, m.lease, m.chunk, m.Data = nil, 0, nil, nil
	if r.closed {
		return
	}
	if c != nil {
		r.arena.release(c, data)
	}
	if lease != 0 {
		if err := l.in.Release(lease); err != nil {
			l.fault = err
		}
		r.unmapIfReleased(l)
	}
}

// Stats returns the counts as they are now.
func (r *Receiver) Stats() ReceiverStats {
	s := r.stats
	s.Senders = len(r.sources)
	for _, list := range [][]*source{r.sources, r.leaving} {
		for _, l := range list {
			r.count(&s, l)
			s.Leases += l.in.Leases(peerSender)
		}
	}
	r.mu.Lock()
	s.Refused, s.LastFail = r.refused, r.lastFail
	r.mu.Unlock()
	return s
}

// count adds what came from one sender.
func (r *Receiver) count(s *ReceiverStats, l *source) {
	st := l.in.Stats()
	s.Messages += st.Events
	s.Bytes += st.Bytes
	s.Blocks += st.Blocks
}

// Close stops accepting senders, closes all lanes, and unmaps everything: messages that weren't released become
// invalid too. Closing again does nothing.
func (r *Receiver) Close() error { return r.shut(true) }

// shut ends the receiver: in order, or as its death does.
func (r *Receiver) shut(inOrder bool) error {
	if r.closed {
		return nil
	}
	r.closed = true
	r.stopAccepting()
	r.sources = append(r.sources, r.arrivals()...)
	// The lanes first: a sender that then sees the socket's end knows that the receiver has closed and didn't die.
	for _, l := range r.sources {
		if inOrder {
			l.in.Close()
		}
	}
	r.hangUpAll()
	return r.tearDown()
}

// tearDown unmaps what there is and releases the name; also after a Listen that failed halfway.
func (r *Receiver) tearDown() error {
	var errs []error
	for _, l := range append(r.sources, r.leaving...) {
		errs = append(errs, l.close())
	}
	r.sources, r.leaving, r.queue, r.at, r.ends = nil, nil, nil, 0, nil
	if r.sleeper != nil {
		r.sleeper.close()
	}
	if r.board != nil {
		errs = append(errs, r.board.Close())
	}
	if r.claim != nil {
		errs = append(errs, r.claim.release())
	}
	return errors.Join(errs...)
}

// sink receives what one sender's ingress finds.
type sink struct {
	r       *Receiver
	from    *source
	visit   func(m *Message) // nil: into the queue
	message Message          // argument of visit: a field, so that it doesn't escape at every call
}

// errForeign ends a lane over which an envelope came that no Sender sends.
var errForeign = errors.New("ipc: envelope that no sender sends")

// ReceiveEvent implements ingress.Sink.
func (s *sink) ReceiveEvent(_ int, ev *envelope.Event, lease uint64) error {
	l := s.from
	if ev.Number != l.next || len(ev.Headers) != 0 {
		return fmt.Errorf("%w: %v, want message %d without headers", errForeign, ev, l.next)
	}
	l.next++
	if s.visit == nil {
		s.r.keep(l, ev, lease)
		return nil
	}
	s.message = Message{Sender: l.number, Number: ev.Number, Data: ev.Data}
	s.visit(&s.message)
	s.message.Data = nil
	if lease != 0 {
		if err := l.in.Release(lease); err != nil {
			l.fault = err
		}
	}
	return nil
}

// keep adds one message to the queue.
func (r *Receiver) keep(l *source, ev *envelope.Event, lease uint64) {
	m := Message{Sender: l.number, Number: ev.Number, Data: ev.Data, from: l, lease: lease}
	if lease == 0 {
		m.Data, m.chunk = r.arena.copy(ev.Data)
	}
	r.queue = append(r.queue, m)
}

// ReceivePromise implements ingress.Sink.
func (s *sink) ReceivePromise(_ int, p *envelope.Promise) error {
	return fmt.Errorf("%w: %v", errForeign, p)
}

// ReceiveBound implements ingress.Sink.
func (s *sink) ReceiveBound(_ int, epoch float64, level uint32) error {
	return fmt.Errorf("%w: bound (%v, %d)", errForeign, epoch, level)
}
