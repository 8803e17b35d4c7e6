// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/ring"
	"github.com/disco-sim/disco/shm"
)

// input is the state of one lane.
//
// How a bound keeps its place behind its events: the promise slot is read before the
// ring, and says up to which position the ring must have been read (lane.Promise). If
// the limit of a poll or a pause stops the reading short of it, the bound is kept, and
// the slot is not looked at again before it has been handed on: a newer bound always
// stands further on, so a reader that took the newest one each time would never reach
// any while its peer keeps the ring full.
type input struct {
	peer     int            // immutable
	index    int            // in Ingress.inputs; immutable
	receiver *lane.Receiver // immutable
	ring     *ring.Consumer // immutable; receiver.Forward()
	view     *shm.PoolView  // immutable; nil: none
	bell     *shm.Doorbell  // immutable; nil: the peer never sleeps
	leases   []lease        // by block number; the slice is immutable
	leased   atomic.Int64   // entries of leases in use
	quarter  uint64         // of the ring's bytes; immutable

	paused atomic.Bool
	dead   atomic.Bool // PeerDead was called

	// Owned by Poll.
	parts    []byte       // data in parts of an event that has not come yet; its memory is kept
	split    bool         // parts are allowed; immutable
	bound    lane.Promise // read from the slot and not yet handed on
	kept     bool         // bound is such a one
	idle     bool         // the last poll has found no record
	belled   uint64       // released position at which the bell was looked at last
	err      error        // why nothing comes any more, nil while something may
	reported bool         // Poll has returned err
}

// shortMax is the longest record in bytes that is decoded where it is found. Longer
// ones cost what their bytes cost, and a tenth more when they come by that way.
const shortMax = 512

// errLost is about a bound that stands behind records that aren't there: somebody has
// overwritten them, or the bound. Waiting for them would be waiting for ever.
var errLost = errors.New("the promise slot says that more was published than is in the ring")

func (l *input) open(index int, s Source) (err error) {
	l.peer, l.index, l.bell, l.split = s.Peer, index, s.Bell, s.Parts
	switch {
	case s.Pool == nil:
	case s.PoolSizes == nil:
		l.view, err = shm.OpenPoolView(s.Pool)
	default:
		l.view, err = shm.NewPoolView(s.Pool, s.PoolSizes)
	}
	if err != nil {
		return err
	}
	if l.receiver, err = lane.OpenReceiver(s.Lane); err != nil {
		return err
	}
	l.ring = l.receiver.Forward()
	l.quarter = uint64(l.receiver.RingBytes() / 4)
	l.belled = l.ring.Position()
	if l.view != nil {
		l.leases = make([]lease, l.receiver.Blocks())
	}
	return nil
}

// pollInput is one look at one lane: slot, records, room, bound.
func (in *Ingress) pollInput(l *input, sink Sink) (work int) {
	// Before the ring: what a peer published before it died is found below.
	dead := l.dead.Load()
	if !l.kept && l.receiver.Changed() {
		l.look(in)
	}
	idle := l.idle && !dead
	var end error
	for work < in.recordsMax && l.err == nil && !l.paused.Load() {
		rec, err := l.ring.Next()
		if rec == nil {
			end = err
			if err == nil && l.kept && !l.receiver.Reached(l.bound) {
				// The records were published before the bound, which was read before them.
				l.breakOff(in, ErrProtocol, errLost)
			} else if err == nil && dead {
				end = ErrPeerDead
			}
			break
		}
		// Most records are short events with their data inside; deliver knows all others.
		if ev := &in.event; len(rec) <= shortMax && ev.DecodeInline(rec) {
			if err := sink.ReceiveEvent(l.peer, ev, 0); err != nil {
				l.breakOff(in, ErrRefused, fmt.Errorf("%s: %w", ev.String(), err))
				break
			}
			in.stats.Events++
			in.stats.Bytes += uint64(len(ev.Data))
			work++
		} else if in.deliver(l, rec, sink) {
			work++
		}
		if idle && l.ring.Alone() {
			break // the peer waits for an answer, or for nothing
		}
	}
	l.idle = work == 0
	if work > 0 {
		l.ring.Release()
	}
	if l.bell != nil {
		l.giveBack(in, work)
	}
	if l.kept {
		work += in.deliverBound(l, sink)
	}
	if end != nil && l.err == nil {
		// The last bound may have been stored after the look above.
		l.look(in)
		work += in.deliverBound(l, sink)
		l.endOfRing(in, end)
	}
	return work
}

// pollFound hands on the record that Look has found, if it was published alone. It returns false when it has handed on
// nothing: then pollInput knows why.
//
// The promise slot isn't read, so no bound overtakes its events; one that is kept is left to pollInput.
func (in *Ingress) pollFound(l *input, sink Sink) bool {
	if l.err != nil || l.kept || l.paused.Load() {
		return false
	}
	rec := l.ring.NextAlone()
	if rec == nil {
		return false
	}
	if ev := &in.event; ev.DecodeInline(rec) {
		if err := sink.ReceiveEvent(l.peer, ev, 0); err != nil {
			l.breakOff(in, ErrRefused, fmt.Errorf("%s: %w", ev.String(), err))
			return false
		}
		in.stats.Events++
		in.stats.Bytes += uint64(len(ev.Data))
	} else if !in.deliver(l, rec, sink) {
		return false
	}
	l.idle = false
	l.ring.Release()
	if l.bell != nil {
		l.giveBack(in, 1)
	}
	return true
}

// look reads the promise slot, unless a bound is being kept.
func (l *input) look(in *Ingress) {
	if l.kept {
		return
	}
	bound, fresh, err := l.receiver.Promise()
	if err != nil {
		l.breakOff(in, ErrProtocol, err)
		return
	}
	if fresh {
		l.bound, l.kept = bound, true
	}
}

// deliverBound hands the kept bound on, if the ring has been read so far.
func (in *Ingress) deliverBound(l *input, sink Sink) (work int) {
	if !l.kept || l.err != nil || !l.receiver.Reached(l.bound) {
		return 0
	}
	l.kept = false
	if err := sink.ReceiveBound(l.peer, l.bound.Epoch, l.bound.Level); err != nil {
		l.breakOff(in, ErrRefused, fmt.Errorf("bound (%v, %d): %w", l.bound.Epoch, l.bound.Level, err))
		return 0
	}
	in.stats.Bounds++
	return 1
}

// deliver checks one record of any kind and hands its envelope on. It returns false
// when that broke the lane.
func (in *Ingress) deliver(l *input, rec []byte, sink Sink) bool {
	// One look at the first byte decides. Trying to decode an event first would build an
	// error for every promise.
	if len(rec) != 0 && envelope.Kind(rec[0]) == envelope.KindPromise {
		return in.deliverPromise(l, rec, sink)
	}
	if len(rec) != 0 && envelope.Kind(rec[0]) == envelope.KindPart {
		return in.takePart(l, rec)
	}
	ev := &in.other
	if err := ev.Decode(rec); err != nil {
		if _, notKind := envelope.KindOf(rec); notKind != nil {
			err = notKind
		}
		l.breakOff(in, ErrProtocol, err)
		return false
	}
	var lease uint64
	if ev.InBlock {
		var err error
		if lease, err = l.lease(ev); err != nil {
			l.breakOff(in, ErrProtocol, err)
			return false
		}
		in.stats.Blocks++
	}
	if ev.Parts != 0 {
		if int(ev.Parts) != len(l.parts) {
			l.breakOff(in, ErrProtocol, fmt.Errorf("%v: %d bytes of its data have come", ev, len(l.parts)))
			return false
		}
		ev.Data, ev.Parts = l.parts, 0
		l.parts = l.parts[:0]
		in.stats.InParts++
	}
	// Before the sink has it: a lease that it releases leaves the data to their owner.
	bytes := uint64(len(ev.Data))
	if err := sink.ReceiveEvent(l.peer, ev, lease); err != nil {
		l.forget(lease)
		l.breakOff(in, ErrRefused, fmt.Errorf("%s: %w", ev.String(), err))
		return false
	}
	in.stats.Events++
	in.stats.Bytes += bytes
	return true
}

// takePart adds a part to those that have come. Offset 0 begins anew: parts without an
// event are of one that its sender gave up.
func (in *Ingress) takePart(l *input, rec []byte) bool {
	offset, data, err := envelope.DecodePart(rec)
	if err == nil && !l.split {
		err = errors.New("data in parts, which were not agreed on")
	}
	if offset == 0 {
		l.parts = l.parts[:0]
	}
	if err == nil && int(offset) != len(l.parts) {
		err = fmt.Errorf("part of %d bytes at offset %d, want offset %d or 0", len(data), offset, len(l.parts))
	}
	if err != nil {
		l.breakOff(in, ErrProtocol, err)
		return false
	}
	l.parts = append(l.parts, data...)
	return true
}

// deliverPromise is deliver for a promise.
func (in *Ingress) deliverPromise(l *input, rec []byte, sink Sink) bool {
	var err error
	if in.promise, err = envelope.DecodePromise(rec); err != nil {
		l.breakOff(in, ErrProtocol, err)
		return false
	}
	if err := sink.ReceivePromise(l.peer, &in.promise); err != nil {
		l.breakOff(in, ErrRefused, fmt.Errorf("%s: %w", in.promise.String(), err))
		return false
	}
	in.stats.Promises++
	return true
}

// giveBack looks whether the peer sleeps until there is room, after the ring was released.
//
// The look needs a full fence, so it isn't taken after each poll but when a quarter
// of the ring has been given back since the last one, and else in the first poll that
// finds nothing, when there is time. A peer that needs less than all room is woken by
// then with a quarter of it free; one that needs the whole ring, when it is empty.
func (l *input) giveBack(in *Ingress, records int) {
	since := l.ring.Position() - l.belled
	if since == 0 || records > 0 && since < l.quarter {
		return
	}
	l.belled = l.ring.Position()
	in.stats.Bells++
	// SYNC POINT room-handshake: the head is stored before the bell's word is loaded,
	// with a fence between. The peer arms its bell before it tries to claim for the
	// last time.
	l.bell.Ring()
}

// endOfRing ends a lane from which nothing more can come.
func (l *input) endOfRing(in *Ingress, err error) {
	switch {
	case errors.Is(err, ring.ErrCorrupt):
		l.breakOff(in, ErrProtocol, err)
	case err == ErrPeerDead:
		l.end(in, ErrPeerDead, nil)
	default:
		l.end(in, ErrClosed, nil)
	}
}

// breakOff ends a lane because of what its peer wrote, and closes it, so that the
// peer doesn't wait for room for ever.
func (l *input) breakOff(in *Ingress, kind, err error) {
	l.end(in, kind, err)
	l.receiver.Close()
	if l.bell != nil {
		l.bell.Ring()
	}
}

func (l *input) end(in *Ingress, kind, err error) {
	if l.err != nil {
		return
	}
	l.err = &lane.PeerError{Peer: l.peer, Kind: kind, Position: l.ring.Position(), Err: err}
	in.ended++
}

// reset drops what is still in the lane and forgets the last replication. Nothing is
// released before the end, so that a peer that goes on publishing has reset read one
// ring's capacity and no more.
func (l *input) reset(in *Ingress) {
	for {
		rec, err := l.ring.Next()
		if rec == nil {
			if err != nil {
				l.endOfRing(in, err)
			}
			break
		}
		if err := l.drop(in, rec); err != nil {
			l.breakOff(in, ErrProtocol, err)
			break
		}
	}
	for number := range l.leases {
		if id := l.leases[number].id.Load(); id != 0 {
			if err := in.Release(id); err != nil {
				l.breakOff(in, ErrProtocol, err)
			}
		}
	}
	l.ring.Release()
	l.receiver.Reset()
	l.kept, l.parts = false, l.parts[:0]
	l.paused.Store(false)
	l.belled = l.ring.Position()
	if l.bell != nil {
		l.bell.Ring()
	}
}

// drop gives back the block that a record refers to, if it does.
func (l *input) drop(in *Ingress, rec []byte) error {
	if kind, err := envelope.KindOf(rec); err != nil || kind != envelope.KindEvent {
		return err
	}
	if err := in.other.Decode(rec); err != nil || !in.other.InBlock {
		return err
	}
	id, err := l.lease(&in.other)
	if err != nil {
		return err
	}
	return in.Release(id)
}
