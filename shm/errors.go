// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import "errors"

// What a refused Attach unwraps to. The text around it says which segment, what
// was found, what is allowed and what to do.
var (
	// ErrMagic: the file is no segment of disco.
	ErrMagic = errors.New("shm: not a disco segment")
	// ErrByteOrder: the segment was written with the other byte order.
	ErrByteOrder = errors.New("shm: foreign byte order")
	// ErrVersion: the layout has another version, or its creator didn't finish it.
	ErrVersion = errors.New("shm: other layout version")
	// ErrKind: the segment holds something else than what was asked for.
	ErrKind = errors.New("shm: other kind of segment")
	// ErrSize: the sizes in the header, of the file and those asked for disagree.
	ErrSize = errors.New("shm: wrong size")
	// ErrSeals: the file could still shrink under the mapping.
	ErrSeals = errors.New("shm: missing seals")
	// ErrSparse: the file has holes; the process that maps it would have to provide the
	// memory for them.
	ErrSparse = errors.New("shm: memory not reserved")

	// ErrIdentity: right kind, but another creation than the one asked for.
	ErrIdentity = errors.New("shm: other creation")
)

// ErrMemory: the machine, or the container's limit, has no room for a segment of
// that size.
var ErrMemory = errors.New("shm: not enough memory")

// ErrTimeout is what Doorbell.Wait returns when no producer rang in time. It is
// returned as it is, never wrapped: the caller checks its peers and parks again.
var ErrTimeout = errors.New("shm: no ring in time")

// What a pool and its views answer.
var (
	// ErrExhausted: every block that fits is on loan. Back-pressure of the pool: it is
	// returned as it is, never wrapped, so that trying again is cheap.
	ErrExhausted = errors.New("shm: pool exhausted")
	// ErrTooLarge: no block of this pool will ever fit.
	ErrTooLarge = errors.New("shm: payload larger than the largest block")
	// ErrPool: the pool's own header or size table can't be right.
	ErrPool = errors.New("shm: malformed pool")
	// ErrBlockNumber: there is no block of that number.
	ErrBlockNumber = errors.New("shm: no such block")
	// ErrBlockLength: more bytes than the block can hold or its owner has put in.
	ErrBlockLength = errors.New("shm: wrong block length")
	// ErrBlockStale: the block is on a later loan, or never was on this one.
	ErrBlockStale = errors.New("shm: stale block")
	// ErrBlockFree: the block was given back before.
	ErrBlockFree = errors.New("shm: block freed twice")
	// ErrBlockHolder: the peer gives back a block that it doesn't hold.
	ErrBlockHolder = errors.New("shm: block of another holder")
)
