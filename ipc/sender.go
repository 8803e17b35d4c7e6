// SPDX-License-Identifier: Apache-2.0

package ipc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/shm"
)

// Sender is a connection to a Receiver. One goroutine at a time may call its methods.
//
// What happens to a message when the receiver is full, closed or dead: full is ErrFull from the Try forms, while
// the others wait; closed is ErrClosed and dead ErrPeerDead, from all forms and from then on. A message for which
// nil was returned is visible to the receiver at once, and stays so when the sender closes or dies; whether the
// receiver has read it can be known only by an answer of the program's own.
type Sender struct {
	name      string        // immutable
	number    int           // as assigned by the receiver; immutable
	inlineMax int           // immutable
	conn      *net.UnixConn // immutable
	memory    *memory       // immutable
	board     *shm.Segment  // of the receiver; immutable
	sleeper   *sleeper      // immutable

	pool *shm.Pool // nil: none
	out  *egress.Egress
	ev   envelope.Event // what is being sent: a field, so that it doesn't escape at every call
	next uint64         // number of the next message
	err  error          // why nothing can be sent any more, nil while sending is possible

	hungUp atomic.Bool   // the socket's other end has closed
	gone   chan struct{} // closed when the watcher has ended
	closed bool
}

// Loan is a block in which the sender builds its message, so that it is never copied:
// fill Data, shorten it from behind if need be, and send or cancel it.
type Loan = egress.Loan

// watch notices the receiver's end, by Close or by death.
func (s *Sender) watch() {
	defer close(s.gone)
	hangUp(s.conn)
	s.hungUp.Store(true)
	s.sleeper.ring()
}

// Number is Message.Sender of this sender's messages.
func (s *Sender) Number() int { return s.number }

// MessageMax is the longest message in bytes that can ever be sent.
func (s *Sender) MessageMax() int {
	if s.pool == nil {
		return s.inlineMax
	}
	return max(s.inlineMax, s.pool.PayloadMax())
}

// TrySend sends one message, which is copied, or returns ErrFull.
func (s *Sender) TrySend(data []byte) error {
	return s.put(data, true)
}

// Send sends one message, which is copied. It waits while there is no room, until the
// context ends; the message was then not sent.
func (s *Sender) Send(ctx context.Context, data []byte) error {
	err := s.put(data, true)
	if err == ErrFull {
		err = s.waitPut(ctx, data, true)
	}
	return err
}

// SendBatch sends messages, which are copied, and makes them visible together as far
// as there is room, which costs less than one at a time. It waits like Send. n is how
// many were sent; with an error, the receiver sees those and no more.
func (s *Sender) SendBatch(ctx context.Context, batch [][]byte) (n int, err error) {
	for _, data := range batch {
		err = s.put(data, false)
		if err == ErrFull {
			err = s.waitPut(ctx, data, false)
		}
		if err != nil {
			break
		}
		n++
	}
	return n, errors.Join(err, s.show())
}

// TryLoan takes a block for a message of size bytes, or returns ErrFull. Data may
// hold anything at first.
func (s *Sender) TryLoan(size int) (Loan, error) {
	if err := s.check(); err != nil {
		return Loan{}, err
	}
	l, err := s.out.Loan(size)
	return l, s.answer(err)
}

// Loan is TryLoan that waits while every block that would fit is on loan. A caller that holds all of them itself
// waits for ever: send or cancel them.
func (s *Sender) Loan(ctx context.Context, size int) (l Loan, err error) {
	l, err = s.TryLoan(size)
	if err == ErrFull {
		err = s.wait(ctx, func() error {
			l, err = s.TryLoan(size)
			return err
		})
	}
	return l, err
}

// TrySendLoan sends the loan's data as a message, or returns ErrFull. On success the
// loan has ended and Data must not be used any more; on error it is still the caller's.
func (s *Sender) TrySendLoan(l *Loan) error {
	if err := s.putLoan(l); err != nil {
		return err
	}
	return s.show()
}

// SendLoan is TrySendLoan that waits like Send.
func (s *Sender) SendLoan(ctx context.Context, l *Loan) error {
	err := s.putLoan(l)
	if err == ErrFull {
		err = s.wait(ctx, func() error { return s.putLoan(l) })
	}
	if err != nil {
		return err
	}
	return s.show()
}

// CancelLoan ends a loan without sending it. Loans needn't be cancelled before Close.
func (s *Sender) CancelLoan(l *Loan) {
	if s.closed {
		*l = Loan{} // its memory is unmapped
		return
	}
	s.out.CancelLoan(l)
}

// put sends one message. now makes it visible.
func (s *Sender) put(data []byte, now bool) error {
	if err := s.check(); err != nil {
		return err
	}
	s.ev.Number, s.ev.Data = s.next, data
	var err error
	if now {
		err = s.out.TrySendNow(&s.ev)
	} else {
		err = s.out.TrySend(&s.ev)
	}
	s.ev.Data = nil
	return s.sent(err)
}

func (s *Sender) putLoan(l *Loan) error {
	if err := s.check(); err != nil {
		return err
	}
	s.ev.Number = s.next
	return s.sent(s.out.TrySendLoan(&s.ev, l))
}

func (s *Sender) sent(err error) error {
	if err == nil {
		s.next++
		return nil
	}
	return s.answer(err)
}

// show publishes what was put, and takes back blocks that have been read.
func (s *Sender) show() error {
	if s.err != nil {
		return nil // reported already
	}
	return s.answer(s.out.Flush())
}

// check notices the end of the receiver's process.
func (s *Sender) check() error {
	if s.err != nil {
		return s.err
	}
	if s.hungUp.Load() {
		return s.lost()
	}
	return nil
}

// lost ends the lane: the receiver has closed and unmapped everything, or its process has ended. All blocks are
// reclaimed.
func (s *Sender) lost() error {
	kind := ErrPeerDead
	if s.out.Ring().ConsumerClosed() {
		kind = ErrClosed
	}
	s.out.Reclaim()
	return s.fail(kind)
}

// answer converts an error of egress into one of this package.
func (s *Sender) answer(err error) error {
	switch {
	case err == nil:
		return nil
	case err == egress.ErrFull, err == egress.ErrExhausted:
		return ErrFull
	case errors.Is(err, ErrTooLarge):
		return fmt.Errorf("ipc: message to %q: at most %d bytes: %w", s.name, s.MessageMax(), err)
	}
	return s.fail(err)
}

func (s *Sender) fail(err error) error {
	s.err = fmt.Errorf("ipc: sender %d to %q: %w", s.number, s.name, err)
	return s.err
}

// wait tries again until there is room. Each try checks everything that the bell is rung for: the ring's head,
// returned blocks, the socket's end.
func (s *Sender) wait(ctx context.Context, try func() error) error {
	p := pause{s: s.sleeper, ctx: ctx}
	for {
		if err := s.step(&p); err != nil {
			return err
		}
		if err := try(); err != ErrFull {
			p.end(err == nil)
			return err
		}
	}
}

// waitPut is wait for put. A function in its place would be allocated in each wait.
func (s *Sender) waitPut(ctx context.Context, data []byte, now bool) error {
	p := pause{s: s.sleeper, ctx: ctx}
	for {
		if err := s.step(&p); err != nil {
			return err
		}
		if err := s.put(data, now); err != ErrFull {
			p.end(err == nil)
			return err
		}
	}
}

// step waits once; an error ends the waiting.
func (s *Sender) step(p *pause) error {
	err := s.answer(s.out.Check())
	if err == nil {
		err = p.step()
	}
	if err != nil {
		p.end(false)
	}
	return err
}

// SenderStats counts since Dial.
type SenderStats struct {
	egress.Stats
	Pool shm.PoolStats // blocks allocated, in flight, returned, exhausted; by block size and in total
}

// Stats returns the counts as they are now. It allocates.
func (s *Sender) Stats() SenderStats {
	st := SenderStats{Stats: s.out.Stats()}
	if s.pool != nil {
		st.Pool = s.pool.Stats()
	}
	return st
}

// Gone is closed when the receiver has closed or died, or this Sender has.
func (s *Sender) Gone() <-chan struct{} { return s.gone }

// Err is why nothing can be sent any more: unwraps to ErrClosed, ErrPeerDead or ErrProtocol; nil while sending is
// possible, as far as is known.
func (s *Sender) Err() error { return s.check() }

// Abandon is Close that the receiver takes for the death of this process: it gets what was sent, and ErrPeerDead. It is
// for a Sender that stands for another one, which has died.
func (s *Sender) Abandon() error {
	if s.closed {
		return nil
	}
	s.closed = true
	if s.err == nil {
		_ = s.fail(ErrClosed)
	}
	return s.tearDown()
}

// Close ends the lane in order and unmaps everything. Messages that were sent stay readable for the receiver; loans
// end. Closing again does nothing.
func (s *Sender) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	s.out.Close()
	if s.err == nil {
		_ = s.fail(ErrClosed)
	}
	return s.tearDown()
}

// tearDown ends the watcher and unmaps what there is; also after a Dial that failed halfway.
func (s *Sender) tearDown() error {
	var errs []error
	if err := s.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		errs = append(errs, fmt.Errorf("ipc: closing the socket: %w", err))
	}
	if s.sleeper != nil {
		if s.out != nil {
			<-s.gone
		}
		s.sleeper.close()
	}
	if s.board != nil {
		errs = append(errs, s.board.Close())
	}
	if s.memory != nil {
		errs = append(errs, s.memory.close())
	}
	return errors.Join(errs...)
}
