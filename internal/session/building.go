// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"

	"github.com/disco-sim/disco/internal/invariants"
)

// building is a message under way. It belongs to the goroutine that calls Frame and State.
type building struct {
	buf  *Buffer
	size int    // of what is in it
	last int    // where its newest frame begins
	next uint64 // number of its next frame
	ack  uint64
}

// add adds a frame, for which there is room.
func (o *building) add(h Header, size int) []byte {
	h.Number, h.Ack = o.next, o.ack
	if h.Type.numbered() {
		o.next++
	}
	h.put(o.buf.data[o.size:], size)
	o.last = o.size
	o.size += HeaderBytes + size
	return o.buf.data[o.last+HeaderBytes : o.size : o.size]
}

// full reports whether a frame belongs to the next message.
func (o *building) full(size int) bool { return o.buf != nil && o.size+HeaderBytes+size > MessageBytes }

// end gives the message, in a buffer of its class, and the bytes of the class that it had before.
func (o *building) end() (b *Buffer, reserved int) {
	b, reserved = o.buf, len(o.buf.data)
	if c := classes[classOf(o.size)]; c < reserved {
		b = b.pool.get(o.size)
		copy(b.data, o.buf.data[:o.size])
		o.buf.Free()
	}
	b.size = o.size
	o.buf, o.size = nil, 0
	return b, reserved
}

// takeTurn holds that it is the caller's turn to send. Checked build.
func (s *Session) takeTurn() {
	if g := invariants.Goroutine(); !s.sender.CompareAndSwap(0, g) {
		other := s.sender.Load()
		invariants.Assert(other == g, "session: goroutines %d and %d send to machine %d (%v) at a time", other, g,
			s.cfg.Peer, s.cfg.Stream)
	}
}

// endTurn ends it, unless something is still to be flushed.
func (s *Session) endTurn() {
	if s.out.buf == nil && s.states.buf == nil {
		s.sender.Store(0)
	}
}

// check holds a frame of our own against what every frame must keep.
func (s *Session) check(h Header, size int, numbered bool) {
	if h.Type >= hello || !h.Type.on(s.cfg.Stream) || h.Type.numbered() != numbered ||
		size < shapes[h.Type].least || size > shapes[h.Type].most {
		panic(fmt.Sprintf("session: frame of type %d with %d bytes on %v", h.Type, size, s.cfg.Stream))
	}
}

// Left gives the bytes that the body of one more numbered frame may have in the message under way.
func (s *Session) Left() int {
	if s.out.buf == nil {
		return MessageBytes - HeaderBytes
	}
	return max(0, MessageBytes-HeaderBytes-s.out.size)
}

// Frame adds a numbered frame and gives its body, to be filled before the next call of Frame, Shrink or Flush. It sends
// the message under way first if the frame has no room there. False: the resend buffer is full, until Config.Acked is
// called, or the session has ended (Flush returns why).
func (s *Session) Frame(h Header, size int) ([]byte, bool) {
	if invariants.Enabled {
		s.takeTurn()
		defer s.endTurn()
	}
	s.check(h, size, true)
	if s.out.full(size) {
		_ = s.flush() // the next one returns it
	}
	if s.out.buf == nil {
		want := max(HeaderBytes+size, MessageBytes)
		s.mu.Lock()
		ok := s.m.reserve(classes[classOf(want)])
		s.out.next, s.out.ack = s.m.next, s.m.applied
		s.mu.Unlock()
		if !ok {
			return nil, false
		}
		s.out.buf = s.pool.get(want)
	}
	return s.out.add(h, size), true
}

// Shrink leaves only the first bytes of the newest frame's body, where it wasn't known before how many there would be.
func (s *Session) Shrink(size int) {
	if invariants.Enabled {
		s.takeTurn()
		defer s.endTurn()
	}
	o := &s.out
	if o.buf == nil || size < 0 || size > o.size-o.last-HeaderBytes {
		panic(fmt.Sprintf("session: frame shrunk to %d bytes of %d", size, o.size-o.last-HeaderBytes))
	}
	o.size = o.last + HeaderBytes + size
	putLength(o.buf.data[o.last:], size)
}

// State adds a frame that is neither numbered nor kept, and gives its body. It goes before the numbered frames of the
// message under way, or, where no connection is up, nowhere.
func (s *Session) State(h Header, size int) []byte {
	if invariants.Enabled {
		s.takeTurn()
		defer s.endTurn()
	}
	s.check(h, size, false)
	if s.states.full(size) {
		b, _ := s.states.end()
		s.drain(b)
	}
	if s.states.buf == nil {
		s.mu.Lock()
		s.states.ack = s.m.applied
		s.mu.Unlock()
		s.states.buf = s.pool.get(max(HeaderBytes+size, MessageBytes))
	}
	return s.states.add(h, size)
}

// Flush sends what Frame and State have added, or keeps it until a connection is up. It waits while the connection
// takes nothing, until that counts as cut. The error is why the session has ended.
func (s *Session) Flush() error {
	if invariants.Enabled {
		s.takeTurn()
		defer s.endTurn()
	}
	return s.flush()
}

func (s *Session) flush() error {
	var states *Buffer
	if s.states.buf != nil {
		states, _ = s.states.end()
	}
	if s.out.buf != nil {
		e := entry{last: s.out.next - 1, ack: s.out.ack}
		var reserved int
		e.buf, reserved = s.out.end()
		e.size = len(e.buf.data)
		s.mu.Lock()
		s.m.keep(e, reserved)
		s.unlock()
	}
	s.drain(states)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m.state.over() && s.m.err == nil {
		return errEnded
	}
	return s.m.err
}
