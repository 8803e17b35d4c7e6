// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"errors"
	"slices"
	"syscall"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/blobproc"
	"github.com/disco-sim/disco/internal/launch"
	"github.com/urfave/cli/v2"
)

// What is at fault for the end of a run, for programs that decide whether it is worth another try.
const (
	causeModel   = "model"   // the scenario, the model or the command line: it would end so again
	causeMachine = "machine" // a process that was killed, a full disk, a place that can't be reached or is another's
	causeSignal  = "signal"  // the run was asked to end
	causeBegun   = "begun"   // the place for checkpoints has some of a run: resume goes on with it
	causeLocked  = "locked"  // another process writes checkpoints there
)

// errAway is the cause of an error about a place for checkpoints, or machines, that can't be reached now.
var errAway = errors.New("away")

// awayError is an error about a place for checkpoints that can't be reached, or written to, now.
type awayError struct{ error }

// Unwrap has both: what is wrong, and that another try may go well.
func (e awayError) Unwrap() []error { return []error{e.error, errAway} }

// full are the errors of a machine that has no room.
var full = []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EIO, syscall.EROFS, syscall.ENOMEM,
	syscall.EMFILE, syscall.ENFILE}

// endings are the signals by which others end a process, or the system does, and no fault of its own.
var endings = []syscall.Signal{syscall.SIGKILL, syscall.SIGBUS, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP,
	syscall.SIGQUIT}

// causeOf is what is at fault for an error.
func causeOf(err error) string {
	var file *launch.FileError
	var locked *checkpoint.LockedError
	var worker *launch.WorkerError
	var other *checkpoint.OtherRunError
	var place *blobproc.FailedError
	var ended *interrupted
	var signalled *Ended
	switch {
	case errors.As(err, &ended), errors.As(err, &signalled):
		return causeSignal
	case errors.As(err, &other) && other.Name == "":
		return causeBegun
	case errors.As(err, &locked):
		return causeLocked
	case errors.Is(err, errAway), errors.As(err, &place), errors.As(err, &file), wantsMemory(err):
		return causeMachine
	case errors.As(err, &worker) && (worker.Lost || worker.File):
		return causeMachine
	case errors.As(err, &worker) && worker.Died:
		if slices.Contains(endings, worker.Signal) {
			return causeMachine
		}
		return causeModel
	case slices.ContainsFunc(full, func(e error) bool { return errors.Is(err, e) }):
		return causeMachine
	}
	return causeModel
}

// wantsMemory tells whether a run wanted more memory than there is, or was expected to.
func wantsMemory(err error) bool {
	var usedUp *launch.MemoryError
	var scarce *launch.ScarceError
	return errors.As(err, &usedUp) || errors.As(err, &scarce)
}

// atPlace tells whether an error is about the place for checkpoints.
func atPlace(err error) bool {
	var away awayError
	var failed *blobproc.FailedError
	return errors.As(err, &away) || errors.As(err, &failed)
}

// reportFailed writes for programs that a run has failed, before people get the text.
func (p *program) reportFailed(c *cli.Context, err error) {
	if err == nil || c.String("progress") != progressJSON {
		return
	}
	text, wrong := json.Marshal(failedEvent(err))
	if wrong == nil {
		_, _ = p.stderr.Write(append(text, '\n')) // who doesn't read it gets the exit status
	}
}

// failedEvent is what programs are told of an error.
func failedEvent(err error) *progressEvent {
	event := &progressEvent{Event: "failed", Text: err.Error(), Status: statusOf(err), Cause: causeOf(err)}
	event.Place = event.Cause == causeMachine && atPlace(err)
	event.Memory = event.Cause == causeMachine && wantsMemory(err)
	usedUp := (*launch.MemoryError)(nil)
	if errors.As(err, &usedUp) {
		event.Machine = usedUp.Machine
	}
	if worker := (*launch.WorkerError)(nil); errors.As(err, &worker) {
		event.Machine = worker.Machine
	}
	return event
}
