// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"
	"errors"
	"fmt"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/shm"
)

// Loan is a block in which the sender builds its data, so that they are never
// copied. It comes from Egress.Loan and ends with SendLoan or CancelLoan; Data must
// not be used after that.
type Loan struct {
	// Data is the block's memory, as long as was asked for; it may hold anything at
	// first. It may be shortened from behind (l.Data = l.Data[:n]), not from the
	// front.
	Data []byte

	block shm.Block
}

// Loan takes a block for size bytes of data, without waiting. The block belongs to the
// pool and not to this lane: it may be sent over any egress over the same pool, and
// survives the end of this one.
//
// It returns ErrExhausted while every block that would fit is on loan, and ErrTooLarge
// when none ever will; it never falls back to a copy. Closed or dead: ErrClosed or
// ErrPeerDead, as far as this egress knows.
func (e *Egress) Loan(size int) (Loan, error) {
	if e.err != nil {
		return Loan{}, e.err
	}
	if e.pool == nil {
		return Loan{}, fmt.Errorf("%w: loan of %d bytes for worker %d, and there is no pool", ErrTooLarge, size, e.peer)
	}
	block, err := e.alloc(size)
	if err != nil {
		e.publish() // as in trySendBlock
		return Loan{}, err
	}
	return Loan{Data: block.Bytes, block: block}, nil
}

// WaitLoan is Loan that waits for a block like Send, with the same ends: ctx, the error
// of Wait, ErrClosed, ErrPeerDead. A worker whose own loans are all that is out waits
// for itself: it has to send or cancel them first.
func (e *Egress) WaitLoan(ctx context.Context, size int) (Loan, error) {
	for {
		loan, err := e.Loan(size)
		if err != ErrExhausted {
			return loan, err
		}
		if err := e.waitFor(ctx, err); err != nil {
			return Loan{}, err
		}
	}
}

// TrySendLoan sends an event whose data are those of the loan, without waiting and
// without a copy. On success the loan has ended; on any error (those of TrySend, but
// never ErrExhausted) it is still the caller's, to send again or to cancel.
//
// Precondition: ev.Data is empty and ev.InBlock false; the loan came from an egress
// over the same pool and has not ended.
func (e *Egress) TrySendLoan(ev *envelope.Event, loan *Loan) error {
	e.checkLoan(loan)
	if len(ev.Data) != 0 || ev.InBlock {
		panic(fmt.Sprintf("egress: %s to worker %d has data beside its loan", ev.String(), e.peer))
	}
	if e.err != nil {
		return e.err
	}
	if err := e.checkHeaders(ev); err != nil {
		return err
	}
	size := envelope.EventHeaderBytes + len(ev.Headers) + envelope.BlockRefBytes
	rec, err := e.ring.Claim(size)
	if err != nil {
		return e.refused(size, err)
	}
	e.commitBlock(rec, ev, loan.block.Number, loan.block.Seq, len(loan.Data))
	*loan = Loan{}
	return nil
}

// SendLoan is TrySendLoan that waits like Send while there is no room in the ring, with
// the same ends.
func (e *Egress) SendLoan(ctx context.Context, ev *envelope.Event, loan *Loan) error {
	for {
		err := e.TrySendLoan(ev, loan)
		if err != ErrFull {
			return err
		}
		if err := e.waitFor(ctx, err); err != nil {
			return err
		}
	}
}

// CancelLoan gives the block back unsent.
func (e *Egress) CancelLoan(loan *Loan) {
	e.checkLoan(loan)
	if err := e.pool.Free(loan.block.Number, loan.block.Seq); err != nil {
		panic(fmt.Sprintf("egress: cancelled loan of block %d: %v", loan.block.Number, err))
	}
	*loan = Loan{}
}

// checkLoan panics when the loan has ended or its data don't start where the block
// does: a slice cut at the front has a smaller capacity.
func (e *Egress) checkLoan(loan *Loan) {
	if loan.block.Bytes == nil || cap(loan.Data) != cap(loan.block.Bytes) {
		panic(fmt.Sprintf("egress: loan with %d bytes of data in a block of %d: ended already, or cut at the front",
			cap(loan.Data), cap(loan.block.Bytes)))
	}
}

// ReturnBlocks takes back the blocks that this peer has read. Flush and Promise do
// it, and so does a send that finds the pool exhausted; a worker calls it on its
// other egresses while one of them waits.
func (e *Egress) ReturnBlocks() error {
	if e.lent == 0 || !e.lane.ReturnsPending() || errors.Is(e.err, ErrPeerDead) {
		return nil
	}
	if errors.Is(e.err, ErrProtocol) {
		return e.err // what this peer says about blocks isn't worth anything any more
	}
	for {
		number, seq, ok, err := e.lane.Returned()
		if err == nil && ok {
			err = e.pool.FreeFrom(e.peer, number, seq)
		}
		if err != nil {
			e.lane.ReleaseReturned()
			return e.fail(ErrProtocol, fmt.Errorf("returned block: %w", err))
		}
		if !ok {
			break
		}
		e.lent--
		e.stats.Returned++
	}
	e.lane.ReleaseReturned()
	return nil
}

// Check looks for damage that would make both ends of the lane wait for ever: words that only this end writes and that
// somebody else has overwritten, and blocks that come back though none is lent. The error is that of a peer that broke
// the rules, and ends the lane. It costs some ten loads: call it when there is nothing else to do.
//
// Where the ring seems to be short of room it also tries to claim some: a position of the
// reader's that can't be is damage, and not want of room.
func (e *Egress) Check() error {
	if e.err != nil {
		return nil // said already
	}
	if err := e.lane.Check(); err != nil {
		return e.fail(ErrProtocol, err)
	}
	if e.Short() {
		size := min(e.recordMax, e.lane.RingBytes()/4)
		if _, err := e.ring.Claim(size); err == nil {
			e.ring.Abort()
		} else if err = e.refused(size, err); err != ErrFull {
			return err
		}
	}
	if e.lent != 0 || e.err != nil || !e.lane.ReturnsPending() {
		return nil
	}
	number, _, ok, err := e.lane.Returned()
	if err == nil && ok {
		err = fmt.Errorf("block %d comes back, and none is lent", number)
	}
	if err == nil {
		return nil
	}
	return e.fail(ErrProtocol, fmt.Errorf("return ring: %w", err))
}

// Reclaim is for a peer whose process has died: it takes back every block that the
// peer held or that was on its way, forgets what was not published, and returns the
// number of blocks. Every later send returns ErrPeerDead.
//
// Precondition: the peer is known to be dead, or to have closed its end and let go of
// everything, so that nobody reads the blocks any more.
func (e *Egress) Reclaim() int {
	e.records, e.bytes, e.lent = 0, 0, 0
	if !errors.Is(e.err, ErrPeerDead) {
		_ = e.fail(ErrPeerDead, nil)
	}
	if e.pool == nil {
		return 0
	}
	return e.pool.ReclaimPeer(e.peer)
}

// LentBlocks is the number of blocks that are at the peer or on the way to it or
// back.
func (e *Egress) LentBlocks() int { return e.lent }
