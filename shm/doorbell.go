// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/disco-sim/disco/internal/interleave"
)

// Doorbell lets one consumer sleep until a producer has something for it. It is
// one word of shared memory: the consumer arms it, looks once more for work, and
// only then sleeps on it; a producer rings after it has published, and that costs
// a fence and a load while nobody sleeps.
//
//	consumer                          producer
//	token := d.Arm()                  publish
//	if nothing to do {                d.Ring()
//	    err := d.Wait(token, limit)
//	}
//	d.Disarm()
//
// Arm, Wait and Disarm belong to the one consumer, from one goroutine at a time.
// Ring, RingAfterFence and Armed are free to any number of producers, in any
// process that has mapped the word for writing. Each side opens its own Doorbell
// over the same memory. A Doorbell is dead once its segment is closed.
//
// Whatever a peer writes into the word, the worst that follows is that the
// consumer wakes for nothing or sleeps to its timeout; the same goes for a
// producer that is killed after it has cleared the armed bit and before the
// kernel has woken anybody. So a consumer always gives a timeout, and looks after
// its peers when it strikes.
type Doorbell struct {
	word  *atomic.Uint32 // immutable; the shared word
	token uint32         // owned by the consumer: number of the latest arming, armed bit set
	limit unix.Timespec  // owned by the consumer: here so that Wait allocates nothing
}

// OpenDoorbell makes a handle on the doorbell in the first DoorbellBytes of mem,
// which start at a multiple of DoorbellBytes. It also asks the kernel whether
// this process may use futexes at all.
func OpenDoorbell(mem []byte) (*Doorbell, error) {
	if len(mem) < DoorbellBytes || !aligned(mem, DoorbellBytes) {
		return nil, fmt.Errorf("shm: doorbell in %d bytes at %p, want %d bytes at a multiple of %d", len(mem), mem, DoorbellBytes, DoorbellBytes)
	}
	d := &Doorbell{word: wordAt32(mem, offsetState), token: stateArmed}
	// Wake nobody: the cheapest futex call that can fail only if all would.
	if err := futexWake(d.word, 0); err != nil {
		return nil, fmt.Errorf("shm: doorbell: this machine refuses futexes: %w: allow the futex system call", err)
	}
	return d, nil
}

// Arm tells the producers that the consumer is about to sleep. The caller must
// look for work once more, everywhere it can come from, before it calls Wait with
// the token that Arm returns. Every Arm has another token (of 2^31), so that a
// producer who saw an earlier one and was held up can't end this one's sleep.
func (d *Doorbell) Arm() (token uint32) {
	d.token += stateStep
	// SYNC POINT doorbell-armed: the store is ordered before the caller's second
	// look by the fence. With the fence in Ring it makes sure that of "the producer
	// sees the armed bit" and "the consumer sees the work" at least one is true.
	// SYNC POINT work-published: the caller's second look comes after the fence, so
	// it finds whatever was published by a producer that will not see the bit.
	interleave.Point()
	d.word.Store(d.token)
	fullFence()
	return d.token
}

// Wait sleeps until somebody has rung since the Arm that returned the token, and
// returns ErrTimeout if nobody has after limit. The armed bit then may or may not
// be set: Disarm follows in any case. Signals and wake-ups without a ring don't
// end the sleep. Any other error is the kernel's and means that the memory is no
// longer mapped.
//
// The goroutine sleeps inside a system call: it keeps its thread, and gives its
// place among GOMAXPROCS free like any other call.
func (d *Doorbell) Wait(token uint32, limit time.Duration) error {
	if limit <= 0 {
		return d.expired(token)
	}
	d.limit = unix.NsecToTimespec(int64(limit))
	var deadline time.Time // only known once a sleep has been cut short
	for start := time.Now(); ; {
		// SYNC POINT doorbell-rung: the kernel compares the word with the token and
		// puts the thread on its queue in one step, under the lock that FUTEX_WAKE
		// takes; a producer clears the bit before it calls FUTEX_WAKE.
		err := futexWait(d.word, token, &d.limit)
		if d.word.Load() != token {
			return nil
		}
		switch {
		case err == nil, errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			// Woken without a ring, by a signal, or the word was changed and changed back.
		case errors.Is(err, unix.ETIMEDOUT):
			return ErrTimeout
		default:
			return fmt.Errorf("shm: doorbell: futex wait: %w", err)
		}
		if deadline.IsZero() {
			deadline = start.Add(limit)
		}
		left := time.Until(deadline)
		if left <= 0 {
			return ErrTimeout
		}
		d.limit = unix.NsecToTimespec(int64(left))
	}
}

// expired is the answer of a Wait that may not sleep.
func (d *Doorbell) expired(token uint32) error {
	if d.word.Load() != token {
		return nil
	}
	return ErrTimeout
}

// Disarm takes the arming back: from here on no producer wastes a wake-up. The
// consumer calls it after every Wait, and when its second look found work.
func (d *Doorbell) Disarm() {
	// A plain "not armed" needs no order: a producer that still sees the bit wakes
	// nobody, at the cost of one system call. Where a producer has cleared the bit
	// already, the line isn't written, so it needn't travel.
	if d.word.Load()&stateArmed != 0 {
		d.word.Store(d.token &^ stateArmed)
	}
}

// Armed tells whether the consumer sleeps or is about to, as far as one load can
// tell. For statistics and tests: a producer calls Ring.
func (d *Doorbell) Armed() bool { return d.word.Load()&stateArmed != 0 }

// Ring wakes the consumer if it sleeps or is about to. The caller has published
// before, by whatever store it likes: Ring brings the full fence that the
// handshake needs. Call it once for a batch of publishes.
func (d *Doorbell) Ring() {
	// SYNC POINT work-published: the caller's publish is ordered before the load of
	// the armed bit. A release store alone is not: it may still wait in this core's
	// store buffer while the load runs ahead of it.
	fullFence()
	d.RingAfterFence()
}

// RingAfterFence is Ring for a caller whose publish was itself a full fence: a
// store, swap, add or compare-and-swap of sync/atomic, with nothing but
// sync/atomic between it and this call.
func (d *Doorbell) RingAfterFence() {
	// SYNC POINT doorbell-armed: see Arm.
	interleave.Point()
	if seen := d.word.Load(); seen&stateArmed != 0 {
		d.wake(seen)
	}
}

// wake ends the arming that was seen. Of several producers that saw the same one,
// only the one that clears the bit makes the system call; if the consumer has
// armed anew since, it has looked for work since, and so has seen ours.
func (d *Doorbell) wake(seen uint32) {
	// SYNC POINT doorbell-rung: cleared before FUTEX_WAKE; see Wait.
	interleave.Point()
	if !d.word.CompareAndSwap(seen, seen&^stateArmed) {
		return
	}
	// All sleepers: there is one, unless somebody broke the rules.
	if err := futexWake(d.word, wakeAll); err != nil {
		panic(fmt.Sprintf("shm: doorbell: futex wake at %p: %v: rung after its segment was closed?", d.word, err))
	}
}
