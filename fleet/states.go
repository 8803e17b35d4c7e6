// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"
	"strings"
)

// PieceState is how far a piece has got; docs/fleet.md has the table of moves.
type PieceState uint8

// The states of a piece.
const (
	Waiting    PieceState = iota + 1 // for servers, or until it may be tried again
	Dispatched                       // servers are promised to it, and told
	Running                          // all of them simulate
	Paused                           // they stand still
	Held                             // a machine or a process has failed; what is left of the attempt is being ended
	Canceling                        // its servers are told to give it up
	Finished                         // its part is whole in its place
	Failed                           // for good: Piece.Reason says why
	Canceled                         // nothing of it runs any more
)

var pieceNames = [...]string{"", "WAITING", "DISPATCHED", "RUNNING", "PAUSED", "HELD", "CANCELING", "FINISHED",
	"FAILED", "CANCELED"}

// moves are the states that may follow a state. Waiting ends as Canceled at once: nothing runs. A retry opens another
// attempt of what has ended without a result, and one from a step on also of what has one.
var moves = map[PieceState][]PieceState{
	Waiting:    {Dispatched, Failed, Canceled},
	Dispatched: {Running, Finished, Failed, Held, Canceling},
	Running:    {Paused, Finished, Failed, Held, Canceling},
	Paused:     {Running, Finished, Failed, Held, Canceling},
	Held:       {Waiting, Finished, Failed, Canceling},
	Canceling:  {Finished, Canceled},
	Finished:   {Waiting},
	Failed:     {Waiting},
	Canceled:   {Waiting},
}

// String is the state's name in capital letters.
func (s PieceState) String() string {
	if int(s) < len(pieceNames) && s > 0 {
		return pieceNames[s]
	}
	return fmt.Sprintf("PieceState(%d)", uint8(s))
}

// ParsePieceState is the state of a name. The error lists all names.
func ParsePieceState(name string) (PieceState, error) {
	if i := slices.Index(pieceNames[1:], name); i >= 0 {
		return PieceState(i + 1), nil
	}
	return 0, fmt.Errorf("found the state %.40q of a piece, want one of %s", name, strings.Join(pieceNames[1:], ", "))
}

// MarshalText is the name, for JSON.
func (s PieceState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is ParsePieceState.
func (s *PieceState) UnmarshalText(text []byte) (err error) {
	*s, err = ParsePieceState(string(text))
	return err
}

// Ended tells whether nothing follows but a retry.
func (s PieceState) Ended() bool { return s == Finished || s == Failed || s == Canceled }

// Holds tells whether servers are promised to a piece in this state.
func (s PieceState) Holds() bool {
	return s == Dispatched || s == Running || s == Paused || s == Held || s == Canceling
}

// May tells whether to may follow s. A retry's moves, out of Finished, Failed and Canceled, are among them.
func (s PieceState) May(to PieceState) bool { return slices.Contains(moves[s], to) }

// Status is what people are shown of an assignment, a piece and an experiment: what is confirmed, and nothing else.
type Status uint8

// The statuses. Those of several parts together are All's.
const (
	StatusCreated Status = iota + 1
	StatusSubmitted
	StatusAssigned
	StatusLoaded
	StatusInitialized
	StatusActive
	StatusPaused
	StatusFinished
	StatusCanceled
	StatusFailed
)

var statusNames = [...]string{"", "CREATED", "SUBMITTED", "ASSIGNED", "LOADED", "INITIALIZED", "ACTIVE", "PAUSED",
	"FINISHED", "CANCELED", "FAILED"}

// String is the status' name in capital letters.
func (s Status) String() string {
	if int(s) < len(statusNames) && s > 0 {
		return statusNames[s]
	}
	return fmt.Sprintf("Status(%d)", uint8(s))
}

// MarshalText is the name, for JSON.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a name. The error lists all.
func (s *Status) UnmarshalText(text []byte) error {
	i := slices.Index(statusNames[1:], string(text))
	if i < 0 {
		return fmt.Errorf("found the status %.40q, want one of %s", text, strings.Join(statusNames[1:], ", "))
	}
	*s = Status(i + 1)
	return nil
}

// Status is what a piece in this state shows by itself. What its servers have reached meanwhile (loaded, initialized)
// is theirs to show.
func (s PieceState) Status() Status {
	switch s {
	case Dispatched:
		return StatusAssigned
	case Running, Canceling:
		return StatusActive
	case Paused:
		return StatusPaused
	case Finished:
		return StatusFinished
	case Failed:
		return StatusFailed
	case Canceled:
		return StatusCanceled
	}
	return StatusSubmitted // Waiting, Held
}

// All is the status of what has so many parts of each status, and stays so where it is FAILED or CANCELED: a part of
// that status decides at once; then all must be FINISHED; then the part that has got furthest decides. One that has
// ended parts, and others that wait, is ACTIVE. Nothing at all is CREATED, and never FINISHED.
func All(parts map[Status]int) Status {
	for _, s := range []Status{StatusFailed, StatusCanceled, StatusActive, StatusInitialized, StatusLoaded,
		StatusAssigned, StatusPaused} {
		if parts[s] > 0 {
			return s
		}
	}
	waits := parts[StatusSubmitted] > 0 || parts[StatusCreated] > 0
	switch {
	case parts[StatusFinished] > 0 && waits:
		return StatusActive
	case parts[StatusFinished] > 0:
		return StatusFinished
	case parts[StatusSubmitted] > 0:
		return StatusSubmitted
	}
	return StatusCreated
}
