// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/lane"
)

// A lease is the right to read one block of a peer's pool until Release. Its number
// says which lane and which block, and enough of the loan's seq that a number that
// was kept too long is seen:
//
//	63      52 51            28 27             0
//	┌─────────┬────────────────┬────────────────┐
//	│ lane+1  │ block          │ low bits of seq│
//	└─────────┴────────────────┴────────────────┘
//
// It is never 0. Within a run of 2^27 loans of the same block no number repeats.
const (
	leaseLaneBits  = 12
	leaseBlockBits = 24
	leaseSeqBits   = 28
)

// lease is the entry of one block of a peer's pool.
//
// id is what the block is leased under now, 0: not leased. Poll sets it, Release
// clears it, and they may be different goroutines. seq is written by Poll while id is
// 0 and read by Release while it isn't.
type lease struct {
	id  atomic.Uint64
	seq uint64
}

func leaseID(index int, block uint32, seq uint64) uint64 {
	return uint64(index+1)<<(leaseBlockBits+leaseSeqBits) | uint64(block)<<leaseSeqBits | seq&(1<<leaseSeqBits-1)
}

// lease opens the block that ev refers to and puts it in the place of its data. An
// error says what is wrong with the peer's reference.
func (l *input) lease(ev *envelope.Event) (uint64, error) {
	ref := ev.Block
	if l.view == nil {
		return 0, fmt.Errorf("%v: there is no pool to this lane", ev)
	}
	data, err := l.view.View(ref.Block, ref.Length, ref.Seq)
	if err != nil {
		return 0, fmt.Errorf("%v: %w", ev, err)
	}
	if int64(ref.Block) >= int64(len(l.leases)) {
		return 0, fmt.Errorf("%v: the lane was made for a pool of %d blocks", ev, len(l.leases))
	}
	entry := &l.leases[ref.Block]
	if entry.id.Load() != 0 {
		return 0, fmt.Errorf("%v: the block has not been given back since it came last", ev)
	}
	id := leaseID(l.index, ref.Block, ref.Seq)
	entry.seq = ref.Seq
	entry.id.Store(id)
	l.leased.Add(1)
	ev.Data, ev.InBlock, ev.Block = data, false, envelope.BlockRef{}
	return id, nil
}

// forget ends a lease without giving the block back: its lane is broken. A sink that
// has released the lease and returned an error all the same has ended it already.
func (l *input) forget(id uint64) {
	if id != 0 && l.leases[id>>leaseSeqBits&(1<<leaseBlockBits-1)].id.CompareAndSwap(id, 0) {
		l.leased.Add(-1)
	}
}

// Release ends a lease: the block goes back to its owner, and the event's data must
// not be read any more. Lease 0, of data that lay in the ring, is nothing to do.
//
// Releasing what isn't leased, or twice, is our own bug and panics. ErrProtocol says
// that the peer lent its blocks more often than it got them back.
func (in *Ingress) Release(id uint64) error {
	if id == 0 {
		return nil
	}
	index, block := int(id>>(leaseBlockBits+leaseSeqBits))-1, uint32(id>>leaseSeqBits&(1<<leaseBlockBits-1))
	if index < 0 || index >= len(in.inputs) || int(block) >= len(in.inputs[index].leases) ||
		in.inputs[index].leases[block].id.Load() != id {
		panic(fmt.Sprintf("ingress: release of lease %#x (lane %d, block %d), which is not out: released twice?", id,
			index, block))
	}
	l := &in.inputs[index]
	entry := &l.leases[block]
	seq := entry.seq
	// Before the block goes back: the peer may lend it again at once.
	entry.id.Store(0)
	l.leased.Add(-1)
	if l.dead.Load() {
		return nil
	}
	if err := l.receiver.Return(block, seq); err != nil {
		if errors.Is(err, ErrClosed) {
			return nil // the owner has gone and wants nothing back
		}
		return &lane.PeerError{Peer: l.peer, Kind: ErrProtocol, Err: err}
	}
	if l.bell != nil {
		// SYNC POINT room-handshake: as in giveBack, for a peer whose pool is exhausted.
		l.bell.Ring()
	}
	return nil
}

// CheckReturns is Check for the rings on which blocks go back, in Release's goroutine.
func (in *Ingress) CheckReturns() error {
	for i := range in.inputs {
		l := &in.inputs[i]
		if err := l.receiver.CheckReturns(); err != nil && !l.dead.Load() {
			return &lane.PeerError{Peer: l.peer, Kind: ErrProtocol, Err: err}
		}
	}
	return nil
}
