package egress

import (
	"errors"
	"fmt"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/ring"
	"github.com/disco-sim/disco/shm"
)

// SendEvent sends one event and waits while there is no room, by calling
// Config.Wait. Headers and data are copied before it returns. The event becomes
// visible with the next Flush or Promise, or when enough has come together.
//
// It returns ErrTooLarge, the lane's end (ErrClosed, ErrPeerDead, ErrProtocol) or
// what Wait returned; the event was then not sent.
func (e *Egress) SendEvent(ev *envelope.Event) error {
	for {
		err := e.TrySend(ev)
		if err != ErrFull && err != ErrExhausted {
			return err
		}
		if err := e.waitFor(err); err != nil {
			return err
		}
	}
}

// TrySend is SendEvent that doesn't wait: it returns ErrFull or ErrExhausted when
// there is no room, and has then changed nothing but that everything sent before is
// visible to the peer.
//
// Precondition: !ev.InBlock. SendLoan is for data that lie in a block.
func (e *Egress) TrySend(ev *envelope.Event) error {
	if ev.InBlock {
		panic(fmt.Sprintf("egress: %v to worker %d refers to a block already", ev, e.peer))
	}
	if e.err != nil {
		return e.err
	}
	size := ev.Size()
	if len(ev.Data) > e.inlineMax || size > e.recordMax {
		return e.trySendBlock(ev)
	}
	rec, err := e.ring.Claim(size)
	if err != nil {
		return e.refused(size, err)
	}
	ev.Encode(rec)
	e.ring.Commit()
	e.stats.Events++
	e.stats.Bytes += uint64(len(ev.Data))
	e.committed(size)
	return nil
}

// trySendBlock sends an event whose data go into a block. The room in the ring comes
// first, so that nothing has been copied when there is none.
func (e *Egress) trySendBlock(ev *envelope.Event) error {
	if e.pool == nil {
		return fmt.Errorf("%w: %v to worker %d: at most %d bytes fit inline, and there is no pool", ErrTooLarge, ev, e.peer, e.inlineMax)
	}
	size := envelope.EventHeaderBytes + len(ev.Headers) + envelope.BlockRefBytes
	rec, err := e.ring.Claim(size)
	if err != nil {
		return e.refused(size, err)
	}
	block, err := e.alloc(len(ev.Data))
	if err != nil {
		e.ring.Abort()
		e.publish() // blocks may be on their way: the peer has to see them to return them
		return err
	}
	copy(block.Bytes, ev.Data)
	e.commitBlock(rec, ev, block.Number, block.Seq, len(ev.Data))
	return nil
}

// commitBlock writes a record that refers to a block with length bytes of data in
// it, which is at the peer from then on.
func (e *Egress) commitBlock(rec []byte, ev *envelope.Event, number uint32, seq uint64, length int) {
	ref := *ev
	ref.Data, ref.InBlock = nil, true
	ref.Block = envelope.BlockRef{Block: number, Length: uint32(length), Seq: seq}
	ref.Encode(rec)
	e.pool.Lend(number, e.peer)
	e.lent++
	e.ring.Commit()
	e.stats.Events++
	e.stats.Blocks++
	e.stats.Bytes += uint64(length)
	e.committed(len(rec) + length)
}

// alloc takes a block out of the pool. When there is none it looks for blocks that
// this peer has given back, once.
func (e *Egress) alloc(size int) (shm.Block, error) {
	block, err := e.pool.Alloc(size)
	if err == ErrExhausted && e.lent > 0 {
		if err := e.ReturnBlocks(); err != nil {
			return shm.Block{}, err
		}
		block, err = e.pool.Alloc(size)
	}
	if err == nil || err == ErrExhausted {
		return block, err
	}
	return shm.Block{}, fmt.Errorf("%w: %d bytes of data to worker %d: %w", ErrTooLarge, size, e.peer, err)
}

// SendPromise sends a promise as a record, in order with the events, and waits while
// there is no room. Between workers of one machine Promise is cheaper; this is for
// promises about single links.
func (e *Egress) SendPromise(p *envelope.Promise) error {
	for {
		err := e.trySendPromise(p)
		if err != ErrFull && err != ErrExhausted {
			return err
		}
		if err := e.waitFor(err); err != nil {
			return err
		}
	}
}

func (e *Egress) trySendPromise(p *envelope.Promise) error {
	if e.err != nil {
		return e.err
	}
	rec, err := e.ring.Claim(envelope.PromiseBytes)
	if err != nil {
		return e.refused(envelope.PromiseBytes, err)
	}
	p.Encode(rec)
	e.ring.Commit()
	e.stats.Promises++
	e.committed(envelope.PromiseBytes)
	return nil
}

// refused turns the ring's answer to a claim into ours. It sees to it that the peer
// can read what it has to read before there is room.
func (e *Egress) refused(size int, err error) error {
	switch {
	case err == ErrFull:
		e.publish()
		return ErrFull
	case errors.Is(err, ring.ErrTooLarge):
		return fmt.Errorf("%w: record of %d bytes to worker %d, at most %d fit the ring: shorter headers or a larger ring", ErrTooLarge, size, e.peer, e.recordMax)
	case errors.Is(err, ring.ErrCorrupt):
		return e.fail(ErrProtocol, err)
	}
	return e.fail(ErrClosed, nil)
}

// waitFor does one round of waiting for what a send was short of.
func (e *Egress) waitFor(short error) error {
	if e.ring.ConsumerClosed() {
		return e.fail(ErrClosed, nil) // it will give nothing back any more
	}
	if short == ErrFull {
		e.stats.FullWaits++
	} else {
		e.stats.PoolWaits++
	}
	return e.wait()
}
