// SPDX-License-Identifier: Apache-2.0

package ipc

import (
	"errors"
	"fmt"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/internal/lane"
)

// The errors of sending, receiving and the handshake. ErrFull is returned as it is, the others are wrapped: compare
// with errors.Is.
var (
	// ErrFull means that there is no room now: the ring is full, or every block that would fit is on loan. Only the
	// Try forms return it.
	ErrFull = egress.ErrFull

	// ErrTooLarge means that the message will never fit the ring or a block.
	ErrTooLarge = egress.ErrTooLarge

	// ErrClosed says that one of the two sides has closed in order.
	ErrClosed = lane.ErrClosed

	// ErrPeerDead says that the other process has ended without closing.
	ErrPeerDead = lane.ErrPeerDead

	// ErrProtocol means that the peer has broken the protocol.
	ErrProtocol = lane.ErrProtocol

	// ErrTaken means that a running process listens under this name.
	ErrTaken = errors.New("ipc: name is taken")

	// ErrNoReceiver means that no running process listens under this name.
	ErrNoReceiver = errors.New("ipc: no receiver listens")

	// ErrRefused means that the receiver refused the sender; the text has its reason.
	ErrRefused = errors.New("ipc: refused")

	// ErrBusy means that the receiver has no place for the sender now: too many others are connected or connecting.
	// Such an error is an ErrRefused as well; trying again later may succeed.
	ErrBusy = errors.New("ipc: busy")

	// ErrNoAnswer means that the other side closed the connection without an answer, or gave none in time: it has
	// died or closed meanwhile, or is no receiver.
	ErrNoAnswer = errors.New("ipc: no answer")

	// ErrPrivate means that other users can enter the directory of the sockets, or that the process at the other
	// end belongs to another user.
	ErrPrivate = errors.New("ipc: not private")
)

// SenderError is the end of one sender, as Receive and Poll return it: once, after its last message. The other
// senders are not affected.
type SenderError struct {
	Sender int   // its number, as in Message
	PID    int   // of its process, at the handshake
	Err    error // unwraps to ErrClosed, ErrPeerDead or ErrProtocol
}

// Error names the sender and how it ended.
func (e *SenderError) Error() string {
	return fmt.Sprintf("ipc: sender %d (process %d): %v", e.Sender, e.PID, e.Err)
}

// Unwrap lets errors.Is see how it ended.
func (e *SenderError) Unwrap() error { return e.Err }
