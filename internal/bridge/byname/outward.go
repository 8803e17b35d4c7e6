// SPDX-License-Identifier: Apache-2.0

package byname

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/disco-sim/disco/internal/bridge/stream"
	"github.com/disco-sim/disco/internal/session"
	"github.com/disco-sim/disco/ipc"
)

// outward is a sender of this machine, whose receiver is elsewhere.
type outward struct {
	link
	from    *ipc.Outgoing
	dialer  *stream.Dialer
	cancel  context.CancelCauseFunc
	opened  chan answer
	sent    uint64        // by cost
	granted atomic.Uint64 // may be sent
	err     error         // of visit
}

// answer is that of the other machine to open.
type answer struct {
	status, number uint32
	text           string
}

// outward carries what a sender sends, until one of the sides has ended.
func (s *Server) outward(from *ipc.Outgoing) {
	o := &outward{from: from, opened: make(chan answer, 1),
		dialer: &stream.Dialer{Address: from.Address(), Run: Run, Security: s.cfg.Security}}
	o.wake = make(chan struct{}, 1)
	o.granted.Store(windowBytes)
	o.ctx, o.cancel = context.WithCancelCause(s.ctx)
	defer o.cancel(nil)
	defer o.dialer.Wait()
	if err := o.begin(s); err != nil {
		s.report(from.Refuse(err))
		if o.session != nil {
			o.end(s, err.Error())
		}
		return
	}
	reason := o.carry()
	switch {
	case reason == nil, errors.Is(reason, ipc.ErrClosed):
		s.report(from.Close())
		o.end(s, "")
	case errors.Is(reason, ipc.ErrPeerDead):
		s.report(from.Abandon())
		o.end(s, "")
	default:
		s.report(from.Abandon())
		s.report(fmt.Errorf("names: the sender of process %d to %s/%s was cut off: %w", from.PID(), from.Address(),
			from.Name(), reason))
		o.end(s, reason.Error())
	}
}

// report tells of an error, if there is one.
func (s *Server) report(err error) {
	if err != nil {
		s.cfg.Report(err)
	}
}

// begin opens the session, and asks for the receiver.
func (o *outward) begin(s *Server) (err error) {
	if err := s.cfg.Security.CheckAddress(o.from.Address()); err != nil {
		return fmt.Errorf("%w: %w", ipc.ErrRefused, err)
	}
	var id session.Identity
	_, _ = rand.Read(id.Run[:]) // never fails
	_, _ = rand.Read(id.Token[:])
	cfg := s.config(senders, id)
	cfg.Dial, cfg.Apply, cfg.Acked, cfg.Changed = o.dialer.Dial, o.apply, o.notify, o.changed
	if o.session, err = session.New(cfg); err != nil {
		return err
	}
	if err := o.send(head{kindOpen, version}, putOpen(nil, o.from.Config(), o.from.Name())); err != nil {
		return err
	}
	select {
	case a := <-o.opened:
		if err := errorOf(a.status, a.text); err != nil {
			return err
		}
		return o.from.Admit(int(a.number))
	case <-o.ctx.Done():
		return o.unreachable(s)
	}
}

// unreachable is why the other machine hasn't answered.
func (o *outward) unreachable(s *Server) error {
	if s.ctx.Err() != nil {
		return fmt.Errorf("%w: the agent of this machine is ending", ipc.ErrNoAnswer)
	}
	err := o.session.Err()
	var end *session.EndError
	switch {
	case errors.As(err, &end) && end.Code == session.CodeFailed:
		return fmt.Errorf("%w: machine %s: %s", ipc.ErrBusy, o.from.Address(), end.Text)
	case errors.As(err, &end):
		return fmt.Errorf("%w: machine %s: %s", ipc.ErrRefused, o.from.Address(), end.Text)
	}
	return fmt.Errorf("%w: %w: is there an agent with --ipc?", ipc.ErrNoAnswer, err)
}

// changed takes the session's new state.
func (o *outward) changed(state session.State) {
	if state == session.Lost || state == session.Ended {
		o.cancel(errLost)
	}
}

// errLost is the end of a session before that of its sender or receiver; Session.Err has more.
var errLost = errors.New("the other machine has ended the session")

// apply takes a frame of the receiver's machine.
func (o *outward) apply(h session.Header, body []byte) error {
	switch h.Type {
	case session.Pong:
		return nil
	case session.Credit:
		if len(body) != 8 {
			return bad(0, fmt.Sprint("a body of ", len(body)), "8")
		}
		if n := le.Uint64(body); n > o.granted.Load() {
			o.granted.Store(n)
			o.notify()
		}
		return nil
	case session.Control:
	default:
		return bad(0, fmt.Sprint("type ", uint8(h.Type)), "control or credit")
	}
	what, data, err := parse(body)
	switch {
	case err != nil:
		return err
	case what.kind == kindOpened && len(data) >= 4:
		select {
		case o.opened <- answer{what.arg, le.Uint32(data), string(data[4:])}:
			return nil
		default:
			return bad(0, "a second answer", "one")
		}
	case what.kind == kindEnded && what.arg == closed:
		o.cancel(ipc.ErrClosed)
		return nil
	case what.kind == kindEnded:
		o.cancel(ipc.ErrPeerDead)
		return nil
	}
	return bad(0, fmt.Sprintf("kind %d with %d bytes", what.kind, len(data)), "opened, ended")
}

// carry passes messages on. The error says how the receiver has ended, or what has gone wrong; nil: the sender has.
func (o *outward) carry() error {
	visit := o.visit // allocated once
	for {
		_, err := o.from.Poll(visit)
		if o.err != nil {
			return o.cause(o.err)
		}
		if err != nil {
			return o.sendEnd(err)
		}
		if err := o.session.Flush(); err != nil {
			return o.cause(err)
		}
		if o.from.Wait(o.ctx) != nil {
			return o.cause(context.Cause(o.ctx))
		}
	}
}

// cause is what is known better than an error of the session.
func (o *outward) cause(err error) error {
	if cause := context.Cause(o.ctx); cause != nil {
		err = cause
	}
	if lost := o.session.Err(); lost != nil && !errors.Is(err, ipc.ErrClosed) && !errors.Is(err, ipc.ErrPeerDead) {
		return lost
	}
	return err
}

// sendEnd tells the other machine of the sender's end, behind its last message.
func (o *outward) sendEnd(end error) error {
	how := uint32(died)
	if errors.Is(end, ipc.ErrClosed) {
		how = closed
	}
	if err := o.send(head{kindEnd, how}, nil); err != nil {
		return o.cause(err)
	}
	return nil
}

// visit sends a message.
func (o *outward) visit(m *ipc.Message) {
	if o.err != nil {
		return // nothing can be sent any more, and the sender is about to hear of it
	}
	h, data := head{kindMessage, uint32(len(m.Data))}, m.Data
	for {
		n := min(len(data), partMost)
		if o.err = o.credit(); o.err != nil {
			return
		}
		var b []byte
		if b, o.err = o.frame(h, n); o.err != nil {
			return
		}
		copy(b, data)
		o.sent += cost(n)
		if data = data[n:]; len(data) == 0 {
			return
		}
		h = head{kindMore, 0}
	}
}

// credit waits until the receiver's machine has room.
func (o *outward) credit() error {
	for o.sent >= o.granted.Load() {
		if err := o.await(); err != nil {
			return err
		}
	}
	return nil
}
