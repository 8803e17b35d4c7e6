// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Spec is what was submitted, in the key fleet/experiments/ID/spec. It never changes. Its key's Version.Created orders
// experiments: no clock does.
type Spec struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	User      string            `json:"user"`
	Submitted time.Time         `json:"submitted"` // by the submitter's clock, for people
	Version   string            `json:"version"`   // of the program: machines of another one aren't given pieces
	Place     string            `json:"place"`     // where parts and checkpoints are kept; "": in the group's store
	Labels    map[string]string `json:"labels,omitempty"`
	Limits    Limits            `json:"limits"`
	Steps     []Step            `json:"steps"`
	FailFast  bool              `json:"fail_fast,omitempty"` // a failure of one step cancels all others
	Key       string            `json:"key"`                 // SHA-256 of the idempotency key, in hexadecimal digits
	Digest    string            `json:"digest"`              // of all that was submitted, without ID, Submitted and Key
	Home      *Home             `json:"home,omitempty"`
}

// Limits are how long and how often something is tried. Zero values are the defaults that docs/fleet.md names.
type Limits struct {
	Attempts   int           `json:"attempts,omitempty"`
	Start      time.Duration `json:"start_ns,omitempty"`       // from dispatch until all of a gang simulate
	NoProgress time.Duration `json:"no_progress_ns,omitempty"` // in simulated time
	Total      time.Duration `json:"total_ns,omitempty"`       // of one attempt; 0: none
}

// FromInput is a step's File where the scenario was read from standard input. A file of that name is "./-".
const FromInput = "-"

// inputName is what programs call a scenario from there: models make names of it, which results have.
const inputName = "standard input"

// Step is a scenario that is to be simulated at each point, so many times.
type Step struct {
	Name         string       `json:"name"`
	After        []string     `json:"after,omitempty"` // steps that must have finished before
	File         string       `json:"file"`            // the scenario's, as it was named, or FromInput
	Text         Digest       `json:"text"`
	Attachments  []Attachment `json:"attachments,omitempty"`
	Args         []string     `json:"args,omitempty"` // of run, checked by submit: --set, --seed, --horizon, …
	Sweep        []string     `json:"sweep,omitempty"`
	Points       [][]string   `json:"points"` // settings KEY=VALUE of each point; one of none without a sweep
	Replications int          `json:"replications"`
	Workers      int          `json:"workers"` // servers of a gang

	Until   []string `json:"until,omitempty"`   // FIGURE ± WIDTH: Replications are the most then
	Figures []string `json:"figures,omitempty"` // to be known of each replication, beside those of Until

	From string `json:"from,omitempty"` // a step whose checkpoint HandedOn its pieces go on from, as variants

	Export   map[string]string `json:"export,omitempty"`   // what of its results (type Export), by the name of imports
	Require  []string          `json:"require,omitempty"`  // comparisons that its results must meet
	Priority Priority          `json:"priority,omitempty"` // among the experiment's steps; "": Normal
}

// FileName is the name without folders under which machines have the scenario's file.
func (s *Step) FileName() string {
	if s.File == FromInput {
		return inputName
	}
	return filepath.Base(s.File)
}

// Attachment is a file that a scenario names.
type Attachment struct {
	Name string `json:"name"`
	Digest
}

// Digest names a blob: its SHA-256 in hexadecimal digits, and its length in bytes.
type Digest struct {
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// Want is what somebody wants of an experiment.
type Want string

// What may be wanted. Cancel is final: only a retry undoes it.
const (
	WantRun    Want = "run"
	WantPause  Want = "pause"
	WantCancel Want = "cancel"
)

// Priority is a class in the queue.
type Priority string

// The classes, the first served first.
const (
	High   Priority = "high"
	Normal Priority = "normal"
	Low    Priority = "low"
)

// Wish is what people want of an experiment, in the key fleet/experiments/ID/wish. They change it by compare-and-set.
type Wish struct {
	Number   uint64    `json:"number"` // rises by one with each change
	Want     Want      `json:"want"`
	Priority Priority  `json:"priority"`
	Retry    uint64    `json:"retry,omitempty"`      // rises with each retry
	From     string    `json:"retry_from,omitempty"` // a step that is begun anew by it, with all that wait for it
	By       string    `json:"by"`
	Why      string    `json:"why,omitempty"`
	At       time.Time `json:"at"`
}

// Standing is how far an experiment is, in the key fleet/experiments/ID/status. The leader writes it.
type Standing struct {
	Status  Status             `json:"status"`
	Ended   bool               `json:"ended"` // nothing of it runs or waits
	Pieces  map[PieceState]int `json:"pieces"`
	Wish    uint64             `json:"wish"`            // the number of the wish that was carried out last
	Retry   uint64             `json:"retry,omitempty"` // Wish.Retry of it
	Reason  string             `json:"reason,omitempty"`
	Errors  []PieceError       `json:"errors,omitempty"` // the first, by piece; at most 20
	Left    []string           `json:"left,omitempty"`   // servers that wouldn't stop, the first of them
	Failed  int                `json:"failed,omitempty"` // pieces with an error, those that aren't listed included
	Steps   []StepStanding     `json:"steps,omitempty"`  // of a pipeline: each, in the order of the specification
	Enough  []Enough           `json:"enough,omitempty"` // of steps that end by their rule, and have
	Began   *time.Time         `json:"began,omitempty"`
	EndedAt *time.Time         `json:"ended_at,omitempty"` // by the leader's clock, for people
	Leader  string             `json:"leader"`
}

// PieceError is an error with its piece.
type PieceError struct {
	Piece   PieceID `json:"piece"`
	Attempt int     `json:"attempt"`
	Error   Error   `json:"error"`
}

// Error says what went wrong, and where.
type Error struct {
	Where   string `json:"where"`             // a server or a machine; "" where it was the leader's decision
	Type    string `json:"type"`              // see the constants
	Message string `json:"message"`           // at most MaxReason bytes
	Trace   string `json:"trace,omitempty"`   // the last of what the process wrote, at most MaxTrace bytes
	Step    string `json:"step,omitempty"`    // what it was at: fetching, starting, simulating, keeping
	Decided string `json:"decided,omitempty"` // by whom, where somebody decided it
	Scarce  bool   `json:"scarce,omitempty"`  // the run wants more memory than its machine has: another one may do
}

// The types of errors. What a model or a scenario does wrong is final; all else is tried again, within Limits.Attempts.
const (
	ErrorModel    = "model"    // the run ended with an error of its own: it would do so again
	ErrorMachine  = "machine"  // a process was killed, a machine went, a disk was full
	ErrorDeadline = "deadline" // it took longer than it may
	ErrorRefused  = "refused"  // its machine starts nothing now: it wasn't tried, and doesn't count
	ErrorLeft     = "left"     // its agent has left in order: the attempt was ended, and doesn't count
	ErrorFit      = "fit"      // no machine will ever do
	ErrorCanceled = "canceled"
	ErrorEnough   = "enough" // there are enough replications before it

	ErrorRequire    = "require"    // a step's results aren't as they must be: final
	ErrorDependency = "dependency" // a step that it waits for has failed
)

// isSpared tells whether an attempt that has ended so doesn't count: that says nothing of what was to be tried.
func (e *Error) isSpared() bool { return e.Type == ErrorRefused || e.Type == ErrorLeft }

// Final tells whether another try would end so again.
func (e *Error) Final() bool { return e.Type == ErrorModel || e.Type == ErrorRequire }

// PieceID names a piece of an experiment.
type PieceID struct{ Step, Point, Replication int }

// String is STEP.POINT.REPLICATION, the name of the piece's keys.
func (p PieceID) String() string { return fmt.Sprintf("%d.%d.%d", p.Step, p.Point, p.Replication) }

// MarshalText is String, for JSON.
func (p PieceID) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is ParsePieceID.
func (p *PieceID) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePieceID(string(text))
	return err
}

// ParsePieceID is String's inverse.
func ParsePieceID(text string) (PieceID, error) {
	n, err := numbers(text, 3)
	if err != nil {
		return PieceID{}, fmt.Errorf("found the piece %.40q, want STEP.POINT.REPLICATION, such as 0.0.17", text)
	}
	return PieceID{n[0], n[1], n[2]}, nil
}

// numbers reads numbers with dots between them, as String writes them.
func numbers(text string, count int) ([]int, error) {
	parts := strings.Split(text, ".")
	if len(parts) != count {
		return nil, strconv.ErrSyntax
	}
	all := make([]int, count)
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 || n >= 1<<31 || strconv.Itoa(n) != part {
			return nil, strconv.ErrSyntax
		}
		all[i] = n
	}
	return all, nil
}

// Piece is one piece that has begun, in the key fleet/experiments/ID/pieces/PIECE. The leader writes it. One that waits
// and has never begun has no key.
type Piece struct {
	State    PieceState    `json:"state"`
	Attempt  int           `json:"attempt"`           // from 1
	Token    uint64        `json:"token"`             // of the leader that wrote it
	Gang     []Server      `json:"gang,omitempty"`    // by partition; of the last attempt
	Spared   int           `json:"spared,omitempty"`  // attempts that don't count: before a retry, or given up paused
	Fault    []string      `json:"fault,omitempty"`   // machines at fault with it: it isn't tried there again
	Wait     time.Duration `json:"wait_ns,omitempty"` // until it is tried again, from when the leader has seen it so
	Error    *Error        `json:"error,omitempty"`   // the last attempt's
	Kept     *Kept         `json:"kept,omitempty"`    // Finished
	Inputs   Inputs        `json:"inputs,omitempty"`  // of a pipeline: the outputs that the attempt is simulated with
	Outputs  Outputs       `json:"outputs,omitempty"` // of a closing piece that is Finished: what its step exports
	Texts    Texts         `json:"texts,omitempty"`   // what of that is no number
	Counts   int           `json:"counts,omitempty"`  // of a closing piece: so many replications count; 0: all
	Site     string        `json:"site,omitempty"`    // of a door's: where it ended
	Age      time.Duration `json:"age_ns,omitempty"`  // in its state, as far as leaders have counted it
	Extended *Extended     `json:"extended,omitempty"`
	Past     []Past        `json:"past,omitempty"` // the last attempts that have failed
	Left     []Left        `json:"left,omitempty"` // servers that wouldn't give the last attempt up that was ended
	Began    *time.Time    `json:"began,omitempty"`
	Ended    *time.Time    `json:"ended,omitempty"` // by clocks of different machines, for people
}

// Server is a server that a gang has.
type Server struct {
	Name        string `json:"server"`
	Member      string `json:"member"`
	Incarnation string `json:"incarnation"`       // of the server: it is another one after a loss of its session
	Address     string `json:"address,omitempty"` // of the machine's agent, in a gang over several
}

// Kept is where the end of a piece is kept, and what it is.
type Kept struct {
	Place  string  `json:"place"`
	Hash   string  `json:"hash"` // the replication's trace hash: that of every attempt is the same
	Events uint64  `json:"events"`
	Wall   float64 `json:"wall_seconds"` // how long the attempt took that kept it

	// Figures are those that the step wants to know of each replication, by their names among the results, as far as
	// there are such; nil: nobody has asked for some, or whoever has reported it doesn't know of them.
	Figures map[string]float64 `json:"figures,omitzero"`
}

// Report is what an agent says about a piece that one of its servers leads, in the key fleet/reports/MEMBER/ID/PIECE.
// It is kept until the leader has taken an end into the piece, over restarts of both.
type Report struct {
	Attempt  int        `json:"attempt"`
	State    PieceState `json:"state"` // Running, Paused, Finished, Failed, Held, Canceled
	Number   uint64     `json:"number"`
	Progress Progress   `json:"progress"`
	Kept     *Kept      `json:"kept,omitempty"`
	Error    *Error     `json:"error,omitempty"`
	Outputs  Outputs    `json:"outputs,omitempty"`
	Texts    Texts      `json:"texts,omitempty"`
	Began    time.Time  `json:"began"`
}

// Progress is how far a piece is.
type Progress struct {
	Now         float64 `json:"now"`     // simulated time, seconds
	Horizon     float64 `json:"horizon"` // seconds
	Events      uint64  `json:"events"`
	Checkpoints int     `json:"checkpoints"`
	Stopping    bool    `json:"stopping,omitempty"` // it was told to end, and does

	// Times of the agent's clock, which no suspension of its run stops; pauses don't count.
	Ran         time.Duration `json:"ran_ns,omitempty"`       // it has simulated
	Still       time.Duration `json:"still_ns,omitempty"`     // simulated time has stood at Now
	MovedEvents uint64        `json:"moved_events,omitempty"` // Events when it moved last
}

// Anew tells whether a run is at its begin again that had been at a time, with so many events: one that finds its
// warm-up simulates twice, first what isn't counted, and one may go back to a checkpoint. That is no standing still.
func (p *Progress) Anew(was float64, events uint64) bool { return p.Now < was && p.Events < events }

// AttemptID names an attempt at a piece: the Replication of the cluster's assignments.
type AttemptID struct {
	PieceID
	Attempt int
}

// String is STEP.POINT.REPLICATION.ATTEMPT.
func (a AttemptID) String() string { return fmt.Sprintf("%v.%d", a.PieceID, a.Attempt) }

// MarshalText is String, for JSON.
func (a AttemptID) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText is ParseAttemptID.
func (a *AttemptID) UnmarshalText(text []byte) (err error) {
	*a, err = ParseAttemptID(string(text))
	return err
}

// ParseAttemptID is String's inverse.
func ParseAttemptID(text string) (AttemptID, error) {
	n, err := numbers(text, 4)
	if err != nil || n[3] < 1 {
		return AttemptID{}, fmt.Errorf("found the attempt %.40q, want STEP.POINT.REPLICATION.ATTEMPT, such as 0.0.17.1",
			text)
	}
	return AttemptID{PieceID{n[0], n[1], n[2]}, n[3]}, nil
}
