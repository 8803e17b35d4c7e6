// SPDX-License-Identifier: Apache-2.0

// Package egress puts envelopes into the lane to one peer: inline when they are
// small, by a pooled block when they are large. It owns back-pressure: what to do
// while the peer has not yet read what it was sent.
//
// Guarantee: events arrive in the order in which they were sent, whole and once
// each, and every one of them before the bound of a later Promise. Sending
// allocates nothing and copies once; what is built in a Loan is not copied at all.
// A full ring or an empty pool is ErrFull or ErrExhausted, never a loss and never a
// second way that nobody asked for (Config.Parts). What the peer writes is checked: damage breaks this lane with
// an error that names the peer, and no other one.
//
//	cfg := egress.Config{Peer: 2, Lane: segment.Body(), Pool: pool, Bell: bell, InlineMax: 4096, Wait: wait}
//	out, err := egress.New(cfg)
//	err = out.Send(ctx, &ev)        // waits while there is no room
//	err = out.TrySend(&ev)          // or doesn't
//	n, err := out.SendBatch(ctx, evs)
//	err = out.Flush()               // the peer sees all of it and wakes up
//	err = out.Promise(now+lookahead, 0)
//
//	loan, err := out.WaitLoan(ctx, 1<<20)
//	fill(loan.Data)                 // where the peer will read it
//	err = out.SendLoan(ctx, &ev, &loan)
//
// What a send does when it can't:
//
//	                  no room            peer closed   peer dead
//	Try…, Loan        ErrFull,           ErrClosed     ErrPeerDead, after Reclaim
//	                  ErrExhausted
//	Send…, WaitLoan   calls Wait until   ErrClosed     ErrPeerDead, after Wait has
//	                  room, ctx, error                 called Reclaim
package egress

import (
	"errors"
	"fmt"
	"math"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/ring"
	"github.com/disco-sim/disco/router"
	"github.com/disco-sim/disco/shm"
)

// What sending answers. ErrFull and ErrExhausted are back-pressure and returned as
// they are. ErrClosed, ErrPeerDead and ErrProtocol come wrapped in an error that names
// the peer and the position in the ring, and from then on every send returns the same one.
var (
	// ErrFull says that the ring has no room until the peer has read more.
	ErrFull = ring.ErrFull

	// ErrExhausted says that every block that would fit is on loan.
	ErrExhausted = shm.ErrExhausted

	// ErrTooLarge says that the event fits neither the ring nor a block, ever.
	ErrTooLarge = errors.New("egress: event too large")

	// ErrClosed says that the lane was closed, by the peer or by Close.
	ErrClosed = lane.ErrClosed

	// ErrPeerDead says that Reclaim was called.
	ErrPeerDead = lane.ErrPeerDead

	// ErrProtocol says that the peer wrote what no correct peer writes.
	ErrProtocol = lane.ErrProtocol
)

// Config says what an Egress works on.
type Config struct {
	// Peer is the number of the worker at the other end: for errors, and the name
	// under which the pool keeps what it holds. 0 or more.
	Peer int

	// Lane is the memory of the lane to the peer, formatted by FormatLane. New takes its sending end, which can be
	// taken once.
	Lane []byte

	// Pool is where large payloads go. All egresses of a worker may share one; it
	// must not have more blocks than each lane's return ring was made for. nil: no
	// event may be larger than InlineMax.
	Pool *shm.Pool

	// Bell is the doorbell that the peer sleeps on. nil: the peer never sleeps;
	// publishing then needs no fence, which doubles the rate of single events.
	Bell *shm.Doorbell

	// InlineMax is the largest payload in bytes that travels inside the ring; larger
	// ones take a block. 0: all data take a block. Raising it saves the block's way
	// back and costs a copy at the reader and room in the ring; the record must fit
	// the ring (ring.MaxRecord).
	InlineMax int

	// Parts lets the forms of Send that wait send data for which there is no block, because
	// all are on loan or none is large enough, in parts through the ring, which the peer
	// puts together again. Then they wait for room in the ring only, and events may be as
	// large as envelope.DataMax whatever the ring and the pool. The peer's ingress must
	// have Source.Parts. Without it they wait for a block.
	Parts bool

	// Wait is what the forms that wait call, again and again, while there is no room. It lets the worker drain its own
	// lanes, so that two workers with full lanes to one another both go on, and take back blocks of its other egresses
	// (ReturnBlocks), and it sleeps or yields when there is nothing to do. It must not send on this egress; Flush and
	// Promise are allowed. Its error ends the send and is returned as it is. Required.
	Wait func() error

	// PublishRecords and PublishBytes are how much is sent before it becomes visible
	// to the peer without a Flush. Defaults 64 records and an eighth of the ring.
	// Raising them costs the peer time in which it could work; lowering them costs a
	// store (and, with a Bell, a fence) for each publish. 1 publishes each at once.
	PublishRecords int
	PublishBytes   int
}

// LaneBytes is how many bytes of memory a lane takes, with a ring of ringBytes and for payloads in the blocks of a pool
// of these sizes; none: no pool. The ring is a power of two of bytes, and so large that its longest record
// (ring.MaxRecord) holds the largest inline event.
func LaneBytes(ringBytes int, pool []shm.BlockSize) (int, error) {
	return lane.Size(laneConfig(ringBytes, pool))
}

// FormatLane makes an empty lane of a segment's body, at a multiple of 128 bytes and of LaneBytes or more: once,
// before either end opens it.
func FormatLane(body []byte, ringBytes int, pool []shm.BlockSize) error {
	return lane.Format(body, laneConfig(ringBytes, pool))
}

// laneConfig has as many returned blocks at most as the pool has blocks.
func laneConfig(ringBytes int, pool []shm.BlockSize) lane.Config {
	cfg := lane.Config{RingBytes: ringBytes}
	for _, c := range pool {
		cfg.ReturnBlocks += c.Count
	}
	return cfg
}

const publishRecordsDefault = 64 // a store of 5 to 20 ns for each 64 events of some 10 ns

// validate fills in defaults and reports the first field that can't be.
func (cfg *Config) validate(l *lane.Sender) error {
	recordMax := l.Forward().MaxRecord()
	if cfg.InlineMax < 0 || envelope.EventHeaderBytes+cfg.InlineMax > recordMax {
		return fmt.Errorf("egress: worker %d: payloads of up to %d bytes inline, want 0 to %d in a ring of %d bytes",
			cfg.Peer, cfg.InlineMax, recordMax-envelope.EventHeaderBytes, l.RingBytes())
	}
	if cfg.Pool != nil {
		blocks := 0
		for _, c := range cfg.Pool.Stats().BlockSizes {
			blocks += c.Count
		}
		if blocks > l.Blocks() {
			return fmt.Errorf("egress: worker %d: pool of %d blocks over a lane whose return ring is for %d", cfg.Peer,
				blocks, l.Blocks())
		}
	}
	if cfg.PublishRecords == 0 {
		cfg.PublishRecords = publishRecordsDefault
	}
	if cfg.PublishBytes == 0 {
		cfg.PublishBytes = l.RingBytes() / 8
	}
	if cfg.PublishRecords < 0 || cfg.PublishBytes < 0 {
		return fmt.Errorf("egress: worker %d: publish after %d records or %d bytes, want both at least 1", cfg.Peer,
			cfg.PublishRecords, cfg.PublishBytes)
	}
	return nil
}

// Stats counts since New.
type Stats struct {
	Events    uint64 // sent
	Promises  uint64 // sent as records
	Bytes     uint64 // of data in events, inline and in blocks
	Blocks    uint64 // events whose data went into a block
	InParts   uint64 // events whose data went through the ring in parts
	Returned  uint64 // blocks that came back from this peer
	Publishes uint64 // times that records were made visible
	Bounds    uint64 // stores to the promise slot
	FullWaits uint64 // calls of Wait because the ring was full
	PoolWaits uint64 // calls of Wait because the pool was exhausted
}

// Egress is the way to one peer. One goroutine at a time may call it.
type Egress struct {
	lane *lane.Sender   // immutable
	ring *ring.Producer // immutable; lane.Forward()
	pool *shm.Pool      // immutable; nil: none
	bell *shm.Doorbell  // immutable; nil: the peer never sleeps
	wait func() error   // immutable
	peer int            // immutable

	inlineMax      int // immutable
	recordMax      int // immutable
	partBytes      int // of data in one part; 0: Config.Parts is off; immutable
	wholeMax       int // of data that may go inline or by a block; more goes in parts; immutable
	publishRecords int // immutable
	publishBytes   int // immutable

	records int   // committed and not yet published
	bytes   int   // of records and of the blocks that they refer to
	lent    int   // blocks at the peer
	err     error // why nothing can be sent any more, nil while it can
	stats   Stats
}

var _ router.Sender = (*Egress)(nil)

// New makes the egress to one peer. It owns the lane's sending end from then on.
func New(cfg Config) (*Egress, error) {
	if cfg.Peer < 0 {
		return nil, fmt.Errorf("egress: peer %d, want 0 or more", cfg.Peer)
	}
	if cfg.Lane == nil || cfg.Wait == nil {
		return nil, fmt.Errorf("egress: worker %d: Lane and Wait are required", cfg.Peer)
	}
	l, err := lane.OpenSender(cfg.Lane)
	if err != nil {
		return nil, fmt.Errorf("egress: worker %d: %w", cfg.Peer, err)
	}
	if err := cfg.validate(l); err != nil {
		return nil, err
	}
	partBytes, wholeMax := 0, math.MaxInt
	if cfg.Parts {
		wholeMax = cfg.InlineMax
		if cfg.Pool != nil {
			wholeMax = max(wholeMax, cfg.Pool.PayloadMax())
		}
		partBytes = max(1, l.RingBytes()/8-envelope.PartHeaderBytes)
	}
	return &Egress{
		lane:           l,
		ring:           l.Forward(),
		pool:           cfg.Pool,
		bell:           cfg.Bell,
		wait:           cfg.Wait,
		peer:           cfg.Peer,
		inlineMax:      cfg.InlineMax,
		recordMax:      l.Forward().MaxRecord(),
		partBytes:      partBytes,
		wholeMax:       wholeMax,
		publishRecords: cfg.PublishRecords,
		publishBytes:   cfg.PublishBytes,
	}, nil
}

// Peer is the number of the worker at the other end.
func (e *Egress) Peer() int { return e.peer }

// Ring is the lane's ring of records, to look at: what it says of the peer and of positions. What else than this
// Egress puts records into it answers for their form.
func (e *Egress) Ring() *ring.Producer { return e.ring }

// Stats returns the counts as they are now.
func (e *Egress) Stats() Stats { return e.stats }

// LargePayloads counts the events whose data went into a block, and in parts.
func (e *Egress) LargePayloads() (blocks, parts uint64) { return e.stats.Blocks, e.stats.InParts }

// Err is why nothing can be sent any more, nil while it can.
func (e *Egress) Err() error { return e.err }

// Room is the length of the longest record that would fit the ring now, in bytes.
// It may be too small but never too large.
func (e *Egress) Room() int {
	if e.err != nil {
		return 0
	}
	return e.ring.Room()
}

// Short reports whether the ring is running low: less than a quarter of it is free in
// one piece. A worker that may choose does other work first.
func (e *Egress) Short() bool { return e.Room() < e.lane.RingBytes()/4 }

// Flush makes everything sent visible to the peer and wakes it if it sleeps. It
// also takes back the blocks that the peer has returned.
func (e *Egress) Flush() error {
	if e.err != nil {
		return e.err
	}
	e.publish()
	return e.ReturnBlocks()
}

// Promise makes everything sent visible and then raises the bound: nothing that is
// sent later is earlier than (epoch, level). It wakes the peer if it sleeps. The
// same bound again costs nothing; one that falls is our own bug and panics.
func (e *Egress) Promise(epoch float64, level uint32) error {
	if e.err != nil {
		return e.err
	}
	published := e.records > 0
	if published {
		e.ring.Publish()
		e.published()
	}
	raised := e.lane.Promise(epoch, level)
	if raised {
		e.stats.Bounds++
	}
	if e.bell != nil && (published || raised) {
		// SYNC POINT park-handshake: raising the bound ends in a full fence, a plain
		// Publish does not.
		if raised {
			e.bell.RingAfterFence()
		} else {
			e.bell.Ring()
		}
	}
	return e.ReturnBlocks()
}

// publish makes the committed records visible and wakes the peer if it sleeps.
func (e *Egress) publish() {
	if e.records == 0 {
		return
	}
	if e.bell == nil {
		e.ring.Publish()
	} else {
		// SYNC POINT park-handshake: the records are visible before the bell's word is
		// loaded. The peer arms the bell before it looks at the ring for the last time.
		e.ring.PublishFenced()
		e.bell.RingAfterFence()
	}
	e.published()
}

func (e *Egress) published() {
	e.records, e.bytes = 0, 0
	e.stats.Publishes++
}

// committed does the books after a record was committed with so many bytes in it or
// behind it, and publishes when enough has come together.
func (e *Egress) committed(bytes int) {
	e.records++
	e.bytes += bytes
	if e.records >= e.publishRecords || e.bytes >= e.publishBytes {
		e.publish()
	}
}

// Close makes everything sent visible and marks the end of what is sent.
// Later sends return ErrClosed. Blocks that the peer still reads come back through
// ReturnBlocks. Closing again does nothing.
func (e *Egress) Close() {
	if e.err == nil {
		e.publish()
		e.fail(ErrClosed, nil)
	}
	if errors.Is(e.err, ErrPeerDead) {
		return // no process is there to read it
	}
	e.ring.Close()
	if e.bell != nil {
		e.bell.Ring()
	}
}

// Reset takes the bound back to (0, 0) for the next replication.
//
// Use: only while the run is at rest: the peer has stopped looking at the lane and
// starts again only after both ends have reset.
// Precondition: everything sent was flushed, because the peer drops what it finds
// when it resets, and nothing must come after that.
func (e *Egress) Reset() {
	if e.records != 0 {
		panic(fmt.Sprintf("egress: reset of the lane to worker %d with %d records that were not flushed", e.peer,
			e.records))
	}
	e.lane.Reset()
}

// fail ends the lane for good and returns the error that every later send returns.
func (e *Egress) fail(kind, cause error) error {
	e.err = &lane.PeerError{Peer: e.peer, Kind: kind, Position: e.ring.Position(), Err: cause}
	return e.err
}
