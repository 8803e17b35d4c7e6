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
// a fence and a load while the consumer is awake.
//
//	consumer                          producer
//	token := d.Arm()                  publish
//	if nothing to do {                d.Ring()
//	    err := d.Wait(token, limit)
//	}
//	d.Disarm()
//
// Arm, Wait and Disarm belong to the one consumer, from one goroutine at a time.
// Any number of producers may call Ring, RingAfterFence and Armed, in any
// process that has mapped the word for writing. Each side opens its own Doorbell
// over the same memory. A Doorbell can't be used once its segment is closed.
//
// Whatever a peer writes into the word, the worst that follows is that the
// consumer wakes without a reason or sleeps until its timeout; the same holds for a
// producer that is killed after it has cleared the armed bit and before its system
// call has woken the consumer. So a consumer always gives a timeout, and checks
// whether its peers are alive when the timeout ends a sleep.
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
		return nil, fmt.Errorf("shm: doorbell in %d bytes at %p, want %d bytes at a multiple of %d", len(mem), mem,
			DoorbellBytes, DoorbellBytes)
	}
	d := &Doorbell{word: wordAt32(mem, offsetState), token: stateArmed}
	// Waking no thread is the cheapest futex call; it fails only where every futex call would.
	if err := futexWake(d.word, 0); err != nil {
		return nil, fmt.Errorf("shm: doorbell: this machine refuses futexes: %w: allow the futex system call", err)
	}
	return d, nil
}

// Arm shows the producers that the consumer is about to sleep. The caller must
// look for work once more, everywhere it can come from, before it calls Wait with
// the token that Arm returns. Every Arm has another token (of 2^31), so that a
// producer that saw an earlier one and was delayed can't end this one's sleep.
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

// Wait sleeps until a producer has rung since the Arm that returned the token, and
// returns ErrTimeout if none has after limit. The armed bit then may or may not
// be set: Disarm follows in any case. Signals and wake-ups without a ring don't
// end the sleep. Any other error is the kernel's and means that the memory is no
// longer mapped.
//
// The goroutine sleeps inside a system call: it keeps its thread, and releases its
// place among GOMAXPROCS like any other call.
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

// Disarm cancels the arming: from here on no producer makes a useless wake-up call. The
// consumer calls it after every Wait, and when its second look found work.
func (d *Doorbell) Disarm() {
	// A plain "not armed" needs no order: a producer that still sees the bit makes one
	// system call that wakes no thread. Where a producer has cleared the bit already, the
	// cache line isn't written, so it stays shared between the cores.
	if d.word.Load()&stateArmed != 0 {
		d.word.Store(d.token &^ stateArmed)
	}
}

// Armed reports whether the consumer sleeps or is about to, as far as one load can
// show. For statistics and tests: a producer calls Ring.
func (d *Doorbell) Armed() bool { return d.word.Load()&stateArmed != 0 }

// Ring wakes the consumer if it sleeps or is about to. The caller has published
// before, by any kind of store: Ring contains the full fence that the
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
// only the one that clears the bit makes the system call. If the consumer has
// armed again since, it has looked for work since, and so has seen this producer's.
func (d *Doorbell) wake(seen uint32) {
	// SYNC POINT doorbell-rung: cleared before FUTEX_WAKE; see Wait.
	interleave.Point()
	if !d.word.CompareAndSwap(seen, seen&^stateArmed) {
		return
	}
	// All sleeping threads: there is one, unless two consumers share the word by mistake.
	if err := futexWake(d.word, wakeAll); err != nil {
		panic(fmt.Sprintf("shm: doorbell: futex wake at %p: %v: rung after its segment was closed?", d.word, err))
	}
}
