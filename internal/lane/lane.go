// SPDX-License-Identifier: Apache-2.0

// Package lane describes one lane: what lies in the segment that carries envelopes
// from one worker to another. A lane is a forward ring for the envelopes, a return
// ring on which the receiver hands back the blocks of the sender's pool that it
// has read, and a promise slot. Egress and ingress work on the two rings; lane
// itself knows no envelopes.
//
// Guarantee: a bound that the receiver gets from the promise slot is never above
// the newest one that the sender has published, and Reached is true only when
// everything sent before that bound has been read. What the peer writes is loaded
// once and bounded before it is used: damage is an ErrProtocol or ErrFormat.
//
//	err := lane.Format(body, lane.Config{RingBytes: 1 << 16, ReturnBlocks: 64})
//
//	s, err := lane.OpenSender(body)   // one worker
//	s.Forward().Claim(n)              // …, Commit, Publish
//	s.Promise(12.5, 0)
//
//	r, err := lane.OpenReceiver(body) // the other one
//	p, fresh, err := r.Promise()      // first the promise,
//	rec, err := r.Forward().Next()    // then the records
//	if fresh && r.Reached(p) { … }
package lane

import (
	"fmt"
	"sync/atomic"

	"github.com/disco-sim/disco/internal/aligned"
	"github.com/disco-sim/disco/ring"
)

// Config says what a lane is made of. Sender and receiver find it in the segment.
type Config struct {
	// RingBytes is the capacity of the forward ring in bytes: a power of two from
	// RingBytesMin to ring.CapacityMax. Raising it lets the sender run further
	// ahead before it has to wait, and costs memory and cache; lowering it also
	// lowers the longest record, which is a little less than half of it.
	RingBytes int

	// ReturnBlocks is the number of blocks in the sender's pool, 0 to BlocksMax.
	// The return ring is made so large that it is never full. 0: no pool.
	ReturnBlocks int

	// Start is the position of the first record in both rings, in bytes, a multiple
	// of 8. Default 0. Only tests have a reason to change it: they start close to
	// where positions wrap around.
	Start uint64
}

// validate reports the first field that can't be.
func (cfg Config) validate() error {
	if err := ring.CheckCapacity(cfg.RingBytes, RingBytesMin, ring.CapacityMax); err != nil {
		return fmt.Errorf("lane: %w", err)
	}
	if cfg.ReturnBlocks < 0 || cfg.ReturnBlocks > BlocksMax {
		return fmt.Errorf("lane: return ring for %d blocks, want 0 to %d", cfg.ReturnBlocks, BlocksMax)
	}
	if cfg.Start%8 != 0 {
		return fmt.Errorf("lane: start position %d, want a multiple of 8", cfg.Start)
	}
	return nil
}

// Size is the number of bytes of memory that a lane takes.
func Size(cfg Config) (int, error) {
	if err := cfg.validate(); err != nil {
		return 0, err
	}
	return sizeOf(cfg), nil
}

func sizeOf(cfg Config) int {
	return forwardOffset + ring.Size(cfg.RingBytes) + ring.Size(returnCapacity(cfg.ReturnBlocks))
}

// Format makes an empty lane of the first Size bytes of body, which must start at a multiple of Alignment. What was
// there before is lost.
//
// Use: by the owner of the segment, before sender and receiver open it; again only
// when both are known to have stopped.
func Format(body []byte, cfg Config) error {
	if err := cfg.validate(); err != nil {
		return err
	}
	if len(body) < sizeOf(cfg) || !aligned.Is(body, Alignment) {
		return fmt.Errorf("lane: memory of %d bytes, want at least %d, starting at a multiple of %d", len(body),
			sizeOf(cfg), Alignment)
	}
	ctl := controlOf(body)
	atomic.StoreUint64(&ctl.identity.format, 0)
	atomic.StoreUint64(&ctl.identity.ringBytes, uint64(cfg.RingBytes))
	atomic.StoreUint64(&ctl.identity.returnBlocks, uint64(cfg.ReturnBlocks))
	atomic.StoreUint64(&ctl.promise.levelAt, uint64(positionUnits(cfg.Start))<<32)
	atomic.StoreUint64(&ctl.promise.epochBits, 0)
	forward, back := rings(body, cfg)
	for _, mem := range [][]byte{forward, back} {
		if err := ring.Init(mem, ring.Config{Start: cfg.Start}); err != nil {
			return fmt.Errorf("lane: %w", err)
		}
	}
	// SYNC POINT lane-formatted: everything above is seen by a process that loads the format word in attach.
	atomic.StoreUint64(&ctl.identity.format, formatWord)
	return nil
}

// rings cuts the memory of the two rings out of a lane's.
func rings(body []byte, cfg Config) (forward, back []byte) {
	forwardEnd := forwardOffset + ring.Size(cfg.RingBytes)
	backEnd := forwardEnd + ring.Size(returnCapacity(cfg.ReturnBlocks))
	return body[forwardOffset:forwardEnd:forwardEnd], body[forwardEnd:backEnd:backEnd]
}

// attach checks that body was formatted as a lane and reads its sizes, once.
func attach(body []byte) (*control, Config, error) {
	if len(body) < forwardOffset || !aligned.Is(body, Alignment) {
		return nil, Config{}, fmt.Errorf("%w: memory of %d bytes, want more than %d, starting at a multiple of %d",
			ErrFormat, len(body), forwardOffset, Alignment)
	}
	ctl := controlOf(body)
	// SYNC POINT lane-formatted: pairs with the last store of Format.
	switch format := atomic.LoadUint64(&ctl.identity.format); format {
	case formatWord:
	case 0:
		return nil, Config{}, fmt.Errorf("%w: format word 0, want %#x (version %d)", ErrUnformatted, uint64(formatWord),
			formatVersion)
	default:
		return nil, Config{}, fmt.Errorf("%w: format word %#x, want %#x (version %d)", ErrFormat, format,
			uint64(formatWord), formatVersion)
	}
	ringBytes, blocks := atomic.LoadUint64(&ctl.identity.ringBytes), atomic.LoadUint64(&ctl.identity.returnBlocks)
	if ringBytes > ring.CapacityMax || blocks > BlocksMax {
		return nil, Config{}, fmt.Errorf("%w: ring of %d bytes and %d blocks, at most %d and %d are allowed", ErrFormat,
			ringBytes, blocks, ring.CapacityMax, BlocksMax)
	}
	cfg := Config{RingBytes: int(ringBytes), ReturnBlocks: int(blocks)}
	if err := cfg.validate(); err != nil {
		return nil, Config{}, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if sizeOf(cfg) > len(body) {
		return nil, Config{}, fmt.Errorf("%w: it says it takes %d bytes, but its memory has %d", ErrFormat, sizeOf(cfg),
			len(body))
	}
	return ctl, cfg, nil
}

// Sender is the sending worker's end of a lane. One goroutine at a time may use it
// and the ring it returns.
type Sender struct {
	forward *ring.Producer // immutable
	returns *ring.Consumer // immutable
	slot    promiseWriter
	cfg     Config // immutable; Start is not known
}

// OpenSender acquires the sending end of the lane in body. It fails with ErrFormat
// when body is no lane and with ring.ErrTaken when the end was acquired before.
func OpenSender(body []byte) (*Sender, error) {
	ctl, cfg, err := attach(body)
	if err != nil {
		return nil, err
	}
	forward, back := rings(body, cfg)
	producer, err := ring.OpenProducer(forward)
	if err != nil {
		return nil, fmt.Errorf("lane: forward ring: %w", err)
	}
	consumer, err := ring.OpenConsumer(back)
	if err != nil {
		return nil, fmt.Errorf("lane: return ring: %w", err)
	}
	slot := promiseWriter{lines: &ctl.promise, levelAt: uint64(positionUnits(producer.Position())) << 32}
	return &Sender{forward: producer, returns: consumer, slot: slot, cfg: cfg}, nil
}

// Forward is the ring for the envelopes.
func (s *Sender) Forward() *ring.Producer { return s.forward }

// RingBytes is the capacity of the forward ring.
func (s *Sender) RingBytes() int { return s.cfg.RingBytes }

// Blocks is the number of blocks that the return ring was made for: the sender's
// pool must not have more.
func (s *Sender) Blocks() int { return s.cfg.ReturnBlocks }

// Check compares what only the sender writes, in both rings and in the promise slot, with what it wrote there:
// ErrProtocol says that another process has overwritten it, so that both ends could wait for ever
// (ring.Producer.Check).
// Call it when there is nothing else to do.
func (s *Sender) Check() error {
	if err := s.forward.Check(); err != nil {
		return fmt.Errorf("%w: forward ring: %w", ErrProtocol, err)
	}
	if err := s.returns.Check(); err != nil {
		return fmt.Errorf("%w: return ring: %w", ErrProtocol, err)
	}
	return s.slot.check()
}

// Receiver is the receiving worker's end of a lane. One goroutine at a time may use
// the promise slot and the forward ring; one, the same or another, may use Return.
type Receiver struct {
	forward *ring.Consumer // immutable
	returns *ring.Producer // immutable
	slot    promiseReader
	cfg     Config // immutable; Start is not known
}

// OpenReceiver acquires the receiving end of the lane in body. It fails like
// OpenSender.
func OpenReceiver(body []byte) (*Receiver, error) {
	ctl, cfg, err := attach(body)
	if err != nil {
		return nil, err
	}
	forward, back := rings(body, cfg)
	consumer, err := ring.OpenConsumer(forward)
	if err != nil {
		return nil, fmt.Errorf("lane: forward ring: %w", err)
	}
	producer, err := ring.OpenProducer(back)
	if err != nil {
		return nil, fmt.Errorf("lane: return ring: %w", err)
	}
	return &Receiver{
		forward: consumer,
		returns: producer,
		slot:    promiseReader{lines: &ctl.promise, capacity: int32(cfg.RingBytes / 8)},
		cfg:     cfg,
	}, nil
}

// Forward is the ring with the envelopes.
func (r *Receiver) Forward() *ring.Consumer { return r.forward }

// RingBytes is the capacity of the forward ring.
func (r *Receiver) RingBytes() int { return r.cfg.RingBytes }

// Blocks is the number of blocks that the return ring was made for: every block
// number of the sender's pool is below it.
func (r *Receiver) Blocks() int { return r.cfg.ReturnBlocks }

// Check is Sender.Check for what only the receiver writes into the forward ring.
func (r *Receiver) Check() error {
	if err := r.forward.Check(); err != nil {
		return fmt.Errorf("%w: forward ring: %w", ErrProtocol, err)
	}
	return nil
}

// CheckReturns is Check for the return ring, for the goroutine that calls Return.
func (r *Receiver) CheckReturns() error {
	if err := r.returns.Check(); err != nil {
		return fmt.Errorf("%w: return ring: %w", ErrProtocol, err)
	}
	return nil
}

// Close marks the lane as closed by the receiver: nothing will be read any more. Blocks may still be returned.
func (r *Receiver) Close() { r.forward.Close() }
