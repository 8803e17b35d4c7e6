// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"
	"errors"
	"fmt"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/ring"
	"github.com/disco-sim/disco/shm"
)

// TrySend sends one event without waiting. Headers and data are copied before it
// returns. The event becomes visible with the next Flush or Promise, or when enough has
// come together.
//
// Full: ErrFull, or ErrExhausted when the data need a block and none is free; nothing
// has changed then but that everything sent before is visible to the peer. Closed, by
// either side: ErrClosed; a peer's close is noticed when room runs low, and what went
// into the ring before that is lost with it. Dead: ErrPeerDead, from Reclaim on.
// ErrTooLarge says that this event can never be sent, and ErrProtocol that the peer has
// broken the lane.
//
// Preconditions: !ev.InBlock (SendLoan is for data that lie in a block); ev.Epoch is
// finite and not negative, or the peer breaks the lane.
func (e *Egress) TrySend(ev *envelope.Event) error {
	if ev.InBlock {
		panic(fmt.Sprintf("egress: %s to worker %d refers to a block already", ev.String(), e.peer))
	}
	if e.err != nil {
		return e.err
	}
	size := ev.Size()
	if len(ev.Data) > e.inlineMax || size > e.recordMax || len(ev.Headers) > envelope.HeadersMax {
		return e.trySendBlock(ev)
	}
	if e.publishRecords == 1 {
		return e.sendAtOnce(ev, size)
	}
	rec, err := e.ring.Stage(size)
	if err != nil {
		return e.refused(size, err)
	}
	ev.EncodeInline(rec)
	e.stats.Events++
	e.stats.Bytes += uint64(len(ev.Data))
	e.committed(size)
	return nil
}

// TrySendNow is TrySend and Flush in one, for an event whose peer waits for it: a small one takes fewer steps until the
// peer sees it.
func (e *Egress) TrySendNow(ev *envelope.Event) error {
	if e.sendAlone(ev) {
		return e.ReturnBlocks()
	}
	size := ev.Size()
	if e.err != nil || ev.InBlock || len(ev.Data) > e.inlineMax || size > e.recordMax ||
		len(ev.Headers) > envelope.HeadersMax {
		if err := e.TrySend(ev); err != nil {
			return err
		}
		return e.Flush()
	}
	if err := e.sendAtOnce(ev, size); err != nil {
		return err
	}
	return e.ReturnBlocks()
}

// Prepare is for a caller of TrySendNow that waits for an answer to an event of more than some 200 bytes: called when
// it has looked in vain a few times, it asks the processor for the memory of the next event, which is still the peer's.
// It does so once an event, and may be called at any time; until the first call TrySendNow does it, when the peer is
// about to read what was sent.
func (e *Egress) Prepare() { e.ring.Prepare() }

// sendAlone sends an event without headers to a peer that waits for it. Where anything is different, or the event is
// very long, it does nothing and returns false.
func (e *Egress) sendAlone(ev *envelope.Event) bool {
	if e.err != nil || ev.InBlock || ev.Parts != 0 || len(ev.Headers) != 0 || len(ev.Data) > e.inlineMax {
		return false
	}
	w0, w1, w2, w3 := ev.Words()
	if !e.ring.PublishAlone(w0, w1, w2, w3, ev.Data) {
		return false
	}
	if e.bell != nil {
		// SYNC POINT park-handshake: PublishAlone is no full fence, but Ring has one.
		e.bell.Ring()
	}
	e.stats.Events++
	e.stats.Bytes += uint64(len(ev.Data))
	e.stats.Publishes++
	return true
}

// sendAtOnce sends an event of size bytes with its data inline, and makes it visible with everything before it.
func (e *Egress) sendAtOnce(ev *envelope.Event, size int) error {
	rec, err := e.ring.Claim(size)
	if err != nil {
		return e.refused(size, err)
	}
	ev.EncodeInline(rec)
	e.ring.PublishClaimed()
	if e.bell != nil {
		// SYNC POINT park-handshake: PublishClaimed is no full fence, but Ring has one.
		e.bell.Ring()
	}
	e.stats.Events++
	e.stats.Bytes += uint64(len(ev.Data))
	e.published()
	return nil
}

// Send is TrySend that waits while there is no room, by calling Config.Wait.
//
// Full: it waits until there is room, ctx is done, or Wait returns an error, which it
// returns as it is. With Config.Parts it never waits for a block: the data go in parts
// instead. Closed: ErrClosed, also when the peer closes while it waits. Dead:
// ErrPeerDead, once Wait has found out and called Reclaim. After any error the event was
// not sent. ctx is looked at between two calls of Wait, never when there is room.
func (e *Egress) Send(ctx context.Context, ev *envelope.Event) error {
	if len(ev.Data) > e.wholeMax {
		return e.sendParts(ctx, ev)
	}
	for {
		err := e.TrySend(ev)
		if err == nil {
			return nil
		}
		if err == ErrExhausted && e.partBytes != 0 {
			return e.sendParts(ctx, ev)
		}
		if err != ErrFull && err != ErrExhausted {
			return err
		}
		if err := e.waitFor(ctx, err); err != nil {
			return err
		}
	}
}

// SendEvent is Send without a context: only Wait's error ends the waiting. It is the
// form of router.Link.
func (e *Egress) SendEvent(ev *envelope.Event) error { return e.Send(context.Background(), ev) }

// TrySendBatch sends events in order until one finds no room, makes those that it sent
// visible, and returns their number. What else can happen is as with TrySend: the error
// is that of event number sent, and none behind it was tried. No events is a Flush
// without a look at returned blocks.
func (e *Egress) TrySendBatch(evs []envelope.Event) (sent int, err error) {
	for ; sent < len(evs); sent++ {
		if err = e.TrySend(&evs[sent]); err != nil {
			break
		}
	}
	if e.err == nil {
		e.publish()
	}
	return sent, err
}

// SendBatch sends all events in order, waits like Send while there is no room, and makes
// them visible. After an error the first sent events were sent, and are visible unless
// the lane has ended.
func (e *Egress) SendBatch(ctx context.Context, evs []envelope.Event) (sent int, err error) {
	for {
		n, err := e.TrySendBatch(evs[sent:])
		if sent += n; err == nil {
			return sent, nil
		}
		// Send finds the same shortage, and knows what to do.
		if err := e.Send(ctx, &evs[sent]); err != nil {
			return sent, err
		}
		sent++
	}
}

// trySendBlock sends an event whose data go into a block. The room in the ring comes
// first, so that nothing has been copied when there is none.
func (e *Egress) trySendBlock(ev *envelope.Event) error {
	if err := e.checkHeaders(ev); err != nil {
		return err
	}
	if e.pool == nil {
		return fmt.Errorf("%w: %s to worker %d: at most %d bytes fit inline, and there is no pool", ErrTooLarge,
			ev.String(), e.peer, e.inlineMax)
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

// checkHeaders refuses headers that no envelope can have.
func (e *Egress) checkHeaders(ev *envelope.Event) error {
	if len(ev.Headers) > envelope.HeadersMax {
		return fmt.Errorf("%w: %s to worker %d has %d bytes of headers, at most %d are allowed: put large values "+
			"into the data", ErrTooLarge, ev.String(), e.peer, len(ev.Headers), envelope.HeadersMax)
	}
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
	e.stats.Events++
	e.stats.Blocks++
	e.stats.Bytes += uint64(length)
	if e.publishRecords == 1 {
		e.ring.PublishClaimed()
		if e.bell != nil {
			// SYNC POINT park-handshake: as in sendAtOnce.
			e.bell.Ring()
		}
		e.published()
		return
	}
	e.ring.Commit()
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

// sendParts sends an event whose data go through the ring in parts, and waits for room
// for each. After an error the parts that were sent stay without their event, which the
// peer forgets when the next data in parts begin.
func (e *Egress) sendParts(ctx context.Context, ev *envelope.Event) error {
	size := envelope.EventHeaderBytes + len(ev.Headers) + envelope.PartsRefBytes
	if err := e.checkHeaders(ev); err != nil {
		return err
	}
	if len(ev.Data) == 0 || len(ev.Data) > envelope.DataMax || size > e.recordMax {
		return fmt.Errorf("%w: %s to worker %d with %d bytes of headers, at most %d bytes of data "+
			"and %d of headers fit", ErrTooLarge,
			ev.String(), e.peer, len(ev.Headers), envelope.DataMax, e.recordMax-size+len(ev.Headers))
	}
	for at := 0; at < len(ev.Data); {
		part := ev.Data[at:min(at+e.partBytes, len(ev.Data))]
		rec, err := e.stage(ctx, envelope.PartHeaderBytes+len(part))
		if err != nil {
			return err
		}
		envelope.EncodePart(rec, uint32(at), part)
		e.committed(len(rec))
		at += len(part)
	}
	rec, err := e.stage(ctx, size)
	if err != nil {
		return err
	}
	ref := *ev
	ref.Data, ref.Parts = nil, uint32(len(ev.Data))
	ref.Encode(rec)
	e.stats.Events++
	e.stats.InParts++
	e.stats.Bytes += uint64(len(ev.Data))
	e.committed(size)
	return nil
}

// stage stages a record, waiting for room.
func (e *Egress) stage(ctx context.Context, size int) ([]byte, error) {
	for {
		if e.err != nil {
			return nil, e.err
		}
		rec, err := e.ring.Stage(size)
		if err == nil {
			return rec, nil
		}
		if err = e.refused(size, err); err != ErrFull {
			return nil, err
		}
		if err := e.waitFor(ctx, err); err != nil {
			return nil, err
		}
	}
}

// StageRecord adds a record of size bytes as it is, in order with what is sent, for who passes on what another Egress
// has made: the caller fills it at once. It becomes visible with what is sent, at last with the next Flush or Promise.
// Errors are those of TrySend.
func (e *Egress) StageRecord(size int) ([]byte, error) {
	if e.err != nil {
		return nil, e.err
	}
	rec, err := e.ring.Stage(size)
	if err != nil {
		return nil, e.refused(size, err)
	}
	e.records++
	e.bytes += size
	return rec, nil
}

// StageSpan is StageRecord for records side by side, which package ring calls a span and copies: as many of the first
// ones as there is room for. It returns how many bytes of the span that were; behind them it may end before a word that
// is no length of a record (ring.Producer.StageSpan).
func (e *Egress) StageSpan(span []byte) (n int, err error) {
	if e.err != nil {
		return 0, e.err
	}
	n, records, err := e.ring.StageSpan(span)
	e.records += records
	e.bytes += n
	if err != nil {
		return n, e.refused(0, err)
	}
	return n, nil
}

// SendPromise sends a promise as a record, in order with the events, and waits while
// there is no room, like SendEvent. Between workers of one machine Promise is cheaper;
// this is for promises about single links.
func (e *Egress) SendPromise(p *envelope.Promise) error {
	rec, err := e.stage(context.Background(), envelope.PromiseBytes)
	if err != nil {
		return err
	}
	p.Encode(rec)
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
		return fmt.Errorf("%w: record of %d bytes to worker %d, at most %d fit the ring: shorter headers or a "+
			"larger ring", ErrTooLarge, size, e.peer, e.recordMax)
	case errors.Is(err, ring.ErrCorrupt):
		return e.fail(ErrProtocol, err)
	}
	return e.fail(ErrClosed, nil)
}

// waitFor does one round of waiting for what a send was short of.
func (e *Egress) waitFor(ctx context.Context, short error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("egress: worker %d has no room (%w): %w", e.peer, short, err)
	}
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
