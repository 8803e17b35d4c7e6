// SPDX-License-Identifier: Apache-2.0

package lane

import (
	"errors"
	"fmt"

	"github.com/disco-sim/disco/ring"
)

// Errors that end a lane, or its opening. They are the kinds of a PeerError: compare with errors.Is.
var (
	// ErrClosed says that the peer has closed the lane in order. The receiver gets
	// it only after everything that was sent.
	ErrClosed = ring.ErrClosed

	// ErrPeerDead says that the peer's process has ended without closing the lane.
	ErrPeerDead = errors.New("lane: peer is dead")

	// ErrProtocol means that the peer has broken the protocol.
	ErrProtocol = errors.New("lane: protocol error")

	// ErrRefused means that the receiver of the envelopes returned an error for one.
	ErrRefused = errors.New("lane: envelope refused")

	// ErrFormat means that the memory is not a lane, or has another version or size.
	ErrFormat = errors.New("lane: not a lane")

	// ErrUnformatted is an ErrFormat of memory in which Format hasn't ended, or wasn't called.
	ErrUnformatted = fmt.Errorf("%w: not formatted yet", ErrFormat)
)

// PeerError is the error that ended the lane to or from one peer. Other lanes are not affected.
type PeerError struct {
	Peer     int    // the worker at the other end
	Kind     error  // ErrClosed, ErrPeerDead, ErrProtocol or ErrRefused
	Position uint64 // in the ring: behind the last record that was sent or read
	Err      error  // what exactly was found; nil when Kind is enough
}

// Error names the peer, the kind, the position and what was found.
func (e *PeerError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("worker %d: %v (position %d)", e.Peer, e.Kind, e.Position)
	}
	return fmt.Sprintf("worker %d: %v at position %d: %v", e.Peer, e.Kind, e.Position, e.Err)
}

// Unwrap lets errors.Is and errors.As see both the kind and the cause.
func (e *PeerError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}
