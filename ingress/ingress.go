// SPDX-License-Identifier: Apache-2.0

// Package ingress takes records from the lanes of all peers, checks them, and hands
// envelopes and bounds to one sink. It orders nothing: that is what the sink is for.
//
// Guarantee: the sink gets every peer's envelopes in the order in which they were
// sent, and a bound only after every event that was sent before it. What a peer
// writes is bounded before it is used; damage breaks this peer's lane, with an error
// that names peer and position, and no other lane. A Poll that returns 0 and no
// error has left nothing behind but in paused lanes. Nothing allocates per event.
//
//	source := ingress.Source{Peer: 1, Lane: lane.Body(), Pool: pool.Body(), Bell: bell}
//	in, err := ingress.New(ingress.Config{Lanes: []ingress.Source{source}})
//	for {
//		work, err := in.Poll(sink) // calls sink.ReceiveEvent(peer, ev, lease), …
//		…
//		in.Release(lease)          // when ev.Data of a leased event aren't needed any more
//	}
package ingress

import (
	"fmt"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/router"
	"github.com/disco-sim/disco/shm"
)

// Why a lane has ended: the kinds of the errors that Poll returns, which name the peer and the position in the ring.
var (
	// ErrClosed says that the peer has closed the lane; everything it sent was handed
	// on before.
	ErrClosed = lane.ErrClosed

	// ErrPeerDead says that PeerDead was called; everything that the peer had made
	// visible was handed on before.
	ErrPeerDead = lane.ErrPeerDead

	// ErrProtocol says that the peer wrote what no correct peer writes.
	ErrProtocol = lane.ErrProtocol

	// ErrRefused says that the sink returned an error for an envelope or a bound.
	ErrRefused = lane.ErrRefused
)

// Sink gets what arrives, and may also call Pause from within Poll. An error of one of its
// methods comes out of Poll as ErrRefused.
type Sink = router.Sink

var _ router.Receiver = (*Ingress)(nil)

// Source is one peer's lane.
type Source struct {
	// Peer is the number of the worker at the other end, 0 or more, each once.
	Peer int

	// Lane is the memory of the lane from it, formatted by egress.FormatLane. New takes its receiving end, which can
	// be taken once.
	Lane []byte

	// Pool is the memory of the peer's pool, which is only read. nil: its events never refer to blocks.
	Pool []byte

	// PoolSizes are the block sizes that Pool was formatted with, where they are known from a better source than Pool
	// itself: then Pool isn't touched before the first block comes. nil: New reads them from Pool.
	PoolSizes []shm.BlockSize

	// Parts allows events whose data come in parts through the ring; they are put together
	// in memory of this side, up to envelope.DataMax for each peer. Without it a part
	// breaks the lane.
	Parts bool

	// Bell is the doorbell that the peer sleeps on. It is rung when room or blocks
	// that the peer may be waiting for have been given back. nil: the peer never
	// sleeps.
	Bell *shm.Doorbell
}

// Config says what an Ingress works on.
type Config struct {
	// Lanes are looked at in this order. At most LanesMax.
	Lanes []Source

	// RecordsMax is the number of records that one Poll takes from one lane. Default
	// 256. Raising it stores the ring's head less often; lowering it gives the other
	// lanes and the worker their turn sooner.
	RecordsMax int
}

// LanesMax is the largest number of lanes of one Ingress: a lease has 12 bits for it.
const LanesMax = 1<<leaseLaneBits - 2

const recordsMaxDefault = 256 // some 5 µs of small events

// validate fills in defaults and reports the first field that can't be.
func (cfg *Config) validate() error {
	if len(cfg.Lanes) > LanesMax {
		return fmt.Errorf("ingress: %d lanes, at most %d are allowed", len(cfg.Lanes), LanesMax)
	}
	seen := make(map[int]bool, len(cfg.Lanes))
	for i, l := range cfg.Lanes {
		if l.Peer < 0 || l.Peer > peerMax || seen[l.Peer] {
			return fmt.Errorf("ingress: lane %d comes from worker %d, want 0 to %d, each once", i, l.Peer, peerMax)
		}
		seen[l.Peer] = true
		if l.Lane == nil {
			return fmt.Errorf("ingress: lane %d, from worker %d, has no memory", i, l.Peer)
		}
	}
	if cfg.RecordsMax == 0 {
		cfg.RecordsMax = recordsMaxDefault
	}
	if cfg.RecordsMax < 1 {
		return fmt.Errorf("ingress: %d records for each poll, want at least 1", cfg.RecordsMax)
	}
	return nil
}

const peerMax = 1 << 20 // the table by peer stays small

// Stats counts since New.
type Stats struct {
	Events   uint64 // handed to the sink
	Promises uint64 // that came as records, likewise
	Bounds   uint64 // likewise
	Bytes    uint64 // of data in events, inline and in blocks
	Blocks   uint64 // events whose data lay in a block
	InParts  uint64 // events whose data came in parts
	Bells    uint64 // times that a peer's bell was looked at for room given back
}

// Ingress is the receiving side of all lanes of one worker. One goroutine at a time
// may call its methods, with this exception: Release, Pause and PeerDead may be
// called from one other goroutine, if it got the lease from the first one in an
// order that the memory model knows.
type Ingress struct {
	inputs     []input // immutable but for what is in them
	byPeer     []int32 // index in inputs, -1: none; immutable
	recordsMax int     // immutable

	polling bool   // within Poll
	empty   bool   // since the last Poll a Look has found nothing in any lane
	found   *input // where the last Look has found a record, after one that had found nothing; else nil
	ended   int    // inputs whose end Poll hasn't returned yet
	stats   Stats  // owned by Poll

	// What the sink gets pointers to: here, so that they don't escape to the heap at
	// every call.
	event   envelope.Event // short, with its data inside; Block and InBlock stay zero
	other   envelope.Event // any, as deliver finds it
	promise envelope.Promise
}

// New makes the ingress over the given lanes. It owns their ends from then on.
func New(cfg Config) (*Ingress, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	peers := 0
	for _, l := range cfg.Lanes {
		peers = max(peers, l.Peer+1)
	}
	in := &Ingress{
		inputs:     make([]input, len(cfg.Lanes)),
		byPeer:     make([]int32, peers),
		recordsMax: cfg.RecordsMax,
	}
	for i := range in.byPeer {
		in.byPeer[i] = -1
	}
	for i, l := range cfg.Lanes {
		in.byPeer[l.Peer] = int32(i)
		if err := in.inputs[i].open(i, l); err != nil {
			return nil, fmt.Errorf("ingress: lane from worker %d: %w", l.Peer, err)
		}
	}
	return in, nil
}

// Poll looks at all lanes once and hands what it finds to the sink. It returns the
// number of envelopes and bounds handed on.
//
// A Poll after a Look that has found a record takes this one only, if the Look before found nothing in any lane:
// then that was the look at all lanes, and an answer is on its way sooner.
//
// An error is the end of one lane, ErrClosed, ErrPeerDead, ErrProtocol or ErrRefused
// wrapped with the peer's number and the position. The other lanes were looked at all the same, and Poll
// can be called again: each lane's end is returned once, one in each call.
func (in *Ingress) Poll(sink Sink) (work int, err error) {
	in.enter()
	l := in.found
	in.empty, in.found = false, nil
	if l != nil && in.pollFound(l, sink) {
		in.polling = false
		return 1, nil
	}
	for i := range in.inputs {
		if l := &in.inputs[i]; l.err == nil {
			work += in.pollInput(l, sink)
		}
	}
	in.polling = false
	if in.ended != 0 {
		err = in.nextEnd()
	}
	return work, err
}

// Look reports whether a lane may hold something for Poll. It takes a few loads for each lane and is for a caller that
// waits (shm.Waiter.Looks), in the same goroutine as Poll.
func (in *Ingress) Look() bool {
	for i := range in.inputs {
		l := &in.inputs[i]
		if l.ring.Look() {
			if in.empty {
				in.found = l
			}
			return true
		}
		if l.receiver.Changed() {
			return true
		}
	}
	in.empty = true
	return false
}

// PollPeer is Poll for the lane of one peer only.
func (in *Ingress) PollPeer(sink Sink, peer int) (work int, err error) {
	l := in.of(peer)
	in.enter()
	if l.err == nil {
		work = in.pollInput(l, sink)
	}
	in.polling = false
	if l.err != nil && !l.reported {
		err = in.report(l)
	}
	return work, err
}

// Check looks for damage that would make both ends of a lane wait for ever: words that only this end writes and that
// somebody else has overwritten. Errors are those of Poll. It costs two loads for each lane: call it, in Poll's
// goroutine, when there is nothing else to do.
func (in *Ingress) Check() error {
	for i := range in.inputs {
		if l := &in.inputs[i]; l.err == nil {
			if err := l.receiver.Check(); err != nil {
				l.breakOff(in, ErrProtocol, err)
			}
		}
	}
	if in.ended != 0 {
		return in.nextEnd()
	}
	return nil
}

func (in *Ingress) enter() {
	if in.polling {
		panic("ingress: Poll called from within a sink")
	}
	in.polling = true
}

// nextEnd returns the end of one lane that nobody has been reported of.
func (in *Ingress) nextEnd() error {
	for i := range in.inputs {
		if l := &in.inputs[i]; l.err != nil && !l.reported {
			return in.report(l)
		}
	}
	return nil
}

func (in *Ingress) report(l *input) error {
	l.reported = true
	in.ended--
	return l.err
}

// of is the input of a peer. A peer without a lane is our own bug.
func (in *Ingress) of(peer int) *input {
	if peer < 0 || peer >= len(in.byPeer) || in.byPeer[peer] < 0 {
		panic(fmt.Sprintf("ingress: worker %d has no lane here", peer))
	}
	return &in.inputs[in.byPeer[peer]]
}

// Pause stops or resumes taking records from one peer, so that it can't run ahead
// without bound: its ring fills, and then it waits. What was taken stays taken. A
// sink may pause the very peer whose event it gets; that one is the last.
func (in *Ingress) Pause(peer int, on bool) { in.of(peer).paused.Store(on) }

// PeerDead says that the peer's process has ended. The following polls hand on what
// it had made visible, and then return ErrPeerDead. Leases of its blocks stay good
// and are to be released as always.
func (in *Ingress) PeerDead(peer int) { in.of(peer).dead.Store(true) }

// Err is why nothing comes from a peer any more, nil while something may.
func (in *Ingress) Err(peer int) error { return in.of(peer).err }

// Leases is the number of blocks of a peer that wait for Release.
func (in *Ingress) Leases(peer int) int { return int(in.of(peer).leased.Load()) }

// Stats returns the counts as they are now.
func (in *Ingress) Stats() Stats { return in.stats }

// Close ends all lanes: nothing will be read any more, and the sends of all peers return
// ErrClosed. Leases stay good and may still be released.
func (in *Ingress) Close() {
	for i := range in.inputs {
		l := &in.inputs[i]
		l.end(in, ErrClosed, nil)
		l.reported = true
		l.receiver.Close()
		if l.bell != nil {
			l.bell.Ring()
		}
	}
	in.ended = 0
}

// Reset makes ready for the next replication: it drops everything that is still in
// the lanes, gives back all blocks, ends all leases and pauses, and forgets the
// bounds. Lanes that have ended stay ended. An error is a peer's fault, as from Poll.
//
// Use: only while the run is at rest: all peers have flushed and send nothing before
// both ends of their lanes have reset.
func (in *Ingress) Reset() error {
	in.enter()
	for i := range in.inputs {
		if l := &in.inputs[i]; l.err == nil {
			l.reset(in)
		}
	}
	in.polling = false
	if in.ended != 0 {
		return in.nextEnd()
	}
	return nil
}
