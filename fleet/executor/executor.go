// SPDX-License-Identifier: Apache-2.0

// Package executor says what an agent wants of whatever simulates the pieces of the fleet's experiments: start an
// attempt, watch over it, end it.
//
// Executor is what an agent wants of it. Package local starts processes of this machine; package executortest has the
// suite that each executor passes.
//
// Guarantee of all executors: when an attempt is done, and when Stop has returned without an error, no process of it is
// left. What an earlier life of the agent has left is ended by Sweep, processes and folders.
package executor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/table"
)

// Executor starts attempts. Any goroutine may call its methods.
type Executor interface {
	// Prepare fetches what a job needs, so that Start has only to start. Doing it again is no error.
	Prepare(ctx context.Context, j *Job) error
	// Start starts a prepared job, or goes on with it where an earlier attempt, or this one before it was stopped, has
	// left checkpoints in its place. It doesn't wait.
	Start(j *Job) (Run, error)
	// Release gives back what Prepare and Start have taken. Nothing of the job runs any more.
	Release(j *Job) error
	// Sweep ends what bears the mark of this executor and no living attempt, and removes its folders. It returns how
	// many processes it has ended.
	Sweep(ctx context.Context) (ended int, err error)
	// Close ends all attempts, as Stop does, and gives everything back.
	Close(ctx context.Context) error
}

// Vital is an executor that knows how its machine is, or the machines behind it. Any goroutine may call it.
type Vital interface {
	// Vitals fills in what it knows: shares in use, and machines on which nothing is started now.
	Vitals(v *fleet.Vitals)
}

// Run is an attempt that was started. Any goroutine may call its methods.
type Run interface {
	// Progress is how far it is; the last that the run has said.
	Progress() fleet.Progress
	// Output is the last of what it wrote for people, at most fleet.MaxLog bytes.
	Output() []byte
	// Done is closed when it has ended, and no process of it is left.
	Done() <-chan struct{}
	// Outcome is how it has ended. Only behind Done.
	Outcome() Outcome
	// Stop asks it to end at a checkpoint, kills it when the executor's grace is over, and returns when no process of
	// it is left. One that has ended already is no error. The error says what is left.
	Stop(ctx context.Context) error
}

// Outcome is how a run has ended: one of its fields is set.
type Outcome struct {
	Kept    *fleet.Kept  // its end is whole in its place
	Stopped bool         // by Stop
	Error   *fleet.Error // its type says whether another try is worth it; Where: one of the job's machines, or ""

	Outputs fleet.Outputs // of a closing job, with Kept
	Texts   fleet.Texts

	// Own says that Error is the experiment's own, on whatever machine: it is about a place that the experiment names,
	// or the run wants more memory than there is. It says nothing of the machine.
	Own bool

	// Behind is the machine behind the executor that has failed, where it has several: others may do. "": the executor
	// itself, or there is no Error of the machine's.
	Behind string
	// Elsewhere says that the piece has done nothing there, and has failed on none of the others before: it is tried on
	// another one, which doesn't count as a try.
	Elsewhere bool
}

// RefusedError is that an executor can't take a job now: nothing was tried, and it may be later, or elsewhere.
type RefusedError struct{ Why error }

// Error says why.
func (e *RefusedError) Error() string { return e.Why.Error() }

// Unwrap is why.
func (e *RefusedError) Unwrap() error { return e.Why }

// OwnError is that a job can't be prepared on whatever machine, now: something of its experiment isn't where it was
// kept. It says nothing of the machine.
type OwnError struct{ Why error }

// Error says why.
func (e *OwnError) Error() string { return e.Why.Error() }

// Unwrap is why.
func (e *OwnError) Unwrap() error { return e.Why }

// IsOwn tells whether an error is an OwnError.
func IsOwn(err error) bool {
	own := (*OwnError)(nil)
	return errors.As(err, &own)
}

// Job is an attempt at a piece, and all that it needs.
type Job struct {
	Experiment   string
	Attempt      fleet.AttemptID
	File         string // the scenario's name: no path
	Text         fleet.Digest
	Attachments  []fleet.Attachment // by paths below the scenario's folder
	Args         []string           // of run
	Replications int                // of the point
	Workers      int
	Place        string    // for the part, and checkpoints
	OwnPlace     bool      // the experiment names Place: what is wrong with it is the experiment's own
	From         string    // the place with the checkpoint fleet.HandedOn that it begins with; "": at time 0
	Machines     []Machine // on which its workers are; none: where the executor has it

	Figures []string // that Kept.Figures is to have, as --until and --figure have them; none: that is nil
	Must    []string // of them: the results must have these

	Closing *Closing // of a closing piece: parts are put together, and nothing is simulated
}

// Machine is one of several on which a job's workers are.
type Machine struct {
	Name    string
	Address string // at which its agent takes runs
	Slots   int    // servers of the job's gang there
}

// NewJob is the job of an attempt at a piece of an experiment. The error is final: another machine would find the same.
func NewJob(spec *fleet.Spec, a fleet.AttemptID, place string) (*Job, error) {
	if a.Step >= len(spec.Steps) {
		return nil, fmt.Errorf("%s has %s, and no piece %v", spec.ID, table.Plural(len(spec.Steps), "step"), a.PieceID)
	}
	step := &spec.Steps[a.Step]
	if spec.IsClosing(a.PieceID) {
		return newClosing(spec, a, place), nil
	}
	if a.Point >= len(step.Points) || a.Replication >= step.Replications {
		return nil, fmt.Errorf("step %d of %s has %s × %s, and no piece %v", a.Step, spec.ID,
			table.Plural(len(step.Points), "point"), table.Plural(step.Replications, "replication"), a.PieceID)
	}
	j := &Job{Experiment: spec.ID, Attempt: a, File: step.FileName(), Text: step.Text,
		Attachments: step.Attachments, Args: slices.Clone(step.Args), Replications: step.Replications,
		Workers: step.Workers, Place: place, OwnPlace: spec.Place != "",
		Figures: slices.Concat(step.Wanted(), step.Figures)}
	if step.From != "" {
		from, err := spec.StepOf(step.From)
		if err != nil {
			return nil, err
		}
		j.From = strings.TrimSuffix(place, "/"+a.PieceID.String()) + "/" + fleet.PieceID{Step: from}.String()
	}
	if a.Replication == 0 { // as with run --until, where the first one says what there is
		j.Must = step.Wanted()
	}
	for _, setting := range step.Points[a.Point] {
		j.Args = append(j.Args, "--set", setting)
	}
	if err := j.checkFiles(); err != nil {
		return nil, fmt.Errorf("%s: %w", spec.ID, err)
	}
	return j, nil
}

// nameMost is how many bytes a file's name may have; Linux's file systems take no longer one.
const nameMost = 255

// checkFiles refuses files that can't lie below one folder: no machine could prepare the job.
func (j *Job) checkFiles() error {
	if j.File == "." || j.File == ".." || j.File == "/" {
		return fmt.Errorf("found %.80q as the scenario's name", j.File)
	}
	files := map[string]fleet.Digest{j.File: j.Text}
	for _, file := range j.Attachments {
		if !filepath.IsLocal(file.Name) || file.Name == "." {
			return fmt.Errorf("found the attachment %.80q, want a path below the scenario's folder", file.Name)
		}
		name := filepath.Clean(file.Name)
		if other, there := files[name]; there && other != file.Digest {
			return fmt.Errorf("found two files with the name %.80q among the scenario and its attachments", name)
		}
		files[name] = file.Digest
	}
	for name := range files {
		for _, part := range strings.Split(name, "/") {
			if len(part) > nameMost || strings.Contains(part, "\x00") {
				return fmt.Errorf("found a file with the name %.80q, want at most %d bytes, without NUL", part,
					nameMost)
			}
		}
		for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
			if _, there := files[dir]; there {
				return fmt.Errorf("found the file %.80q and the folder %.80q, of which only one can be there", dir, dir)
			}
		}
	}
	return nil
}

// Name is the job's own among all of a group: EXPERIMENT/STEP.POINT.REPLICATION.ATTEMPT.
func (j *Job) Name() string { return j.Experiment + "/" + j.Attempt.String() }
