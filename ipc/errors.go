// SPDX-License-Identifier: Apache-2.0

package ipc

import (
	"errors"
	"fmt"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/internal/lane"
)

// What sending, receiving and meeting answer. ErrFull comes as it is, the others
// wrapped: compare with errors.Is.
var (
	// ErrFull says that there is no room now: the ring is full, or every block that
	// would fit is on loan. It comes from the Try forms only.
	ErrFull = egress.ErrFull

	// ErrTooLarge says that the message fits neither the ring nor a block, ever.
	ErrTooLarge = egress.ErrTooLarge

	// ErrClosed says that one of the two sides has closed in order.
	ErrClosed = lane.ErrClosed

	// ErrPeerDead says that the other process has ended without closing.
	ErrPeerDead = lane.ErrPeerDead

	// ErrProtocol says that the peer wrote what no correct peer writes.
	ErrProtocol = lane.ErrProtocol

	// ErrTaken says that a living process listens under this name.
	ErrTaken = errors.New("ipc: name is taken")

	// ErrNobody says that no living process listens under this name.
	ErrNobody = errors.New("ipc: nobody listens")

	// ErrRefused says that the other side would not meet; the text has its reason.
	ErrRefused = errors.New("ipc: refused")

	// ErrBusy says that the other side would not meet now: too many others do, or have
	// met and not ended. Such an error is an ErrRefused as well; trying again later may
	// help.
	ErrBusy = errors.New("ipc: busy")

	// ErrNoAnswer says that the other side ended the meeting without a word, or gave no
	// answer in time: it has died or closed meanwhile, or is no receiver.
	ErrNoAnswer = errors.New("ipc: no answer")

	// ErrPrivate says that the directory of the sockets is not the user's alone, or
	// that the process at the other end belongs to another user.
	ErrPrivate = errors.New("ipc: not private")
)

// SenderError is the end of one sender, as Receive and Poll return it: once, after
// its last message. The other senders go on.
type SenderError struct {
	Sender int   // its number, as in Message
	PID    int   // of its process, when it met us
	Err    error // unwraps to ErrClosed, ErrPeerDead or ErrProtocol
}

// Error names the sender and how it ended.
func (e *SenderError) Error() string {
	return fmt.Sprintf("ipc: sender %d (process %d): %v", e.Sender, e.PID, e.Err)
}

// Unwrap lets errors.Is see how it ended.
func (e *SenderError) Unwrap() error { return e.Err }
