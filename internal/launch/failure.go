// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/disco-sim/disco/internal/outfile"
)

// ErrConfig is what errors unwrap to that lie in what the caller asked for: nothing
// has been started. Its text is never part of a message.
var ErrConfig = errors.New("launch: configuration")

// ErrEnded is the error of a run that was ended at once by its context.
var ErrEnded = errors.New("ended at once, without results")

// ErrUnresponsive is the error of a run whose workers didn't end in time after they
// were asked to.
var ErrUnresponsive = errors.New("launch: no answer")

// configError is an error that unwraps to ErrConfig and has its own text.
type configError struct{ err error }

func (e *configError) Error() string   { return e.err.Error() }
func (e *configError) Unwrap() []error { return []error{ErrConfig, e.err} }

func badConfig(format string, args ...any) error {
	return &configError{fmt.Errorf(format, args...)}
}

// Phase is what a run was at.
type Phase string

// Phases of a run.
const (
	PhaseStart   Phase = "start"   // workers start, read the scenario and attach their memory
	PhasePrepare Phase = "prepare" // nodes of a replication are built
	PhaseRun     Phase = "run"     // a replication is simulated
	PhaseExit    Phase = "exit"    // all results are there
)

// WorkerError says which worker ended a run, and how.
type WorkerError struct {
	Worker  int
	Machine string         // its machine, in a run over several
	Lost    bool           // nobody saw how it ended, because its machine can't be reached: Status says so
	Died    bool           // its process ended without an error report
	Early   bool           // … and that was no failure but for its time: its exit status is 0
	Wrong   bool           // what was asked for can't be done: it unwraps to ErrConfig then
	File    bool           // a temporary file of it can't be written: the run is a *FileError then; Wrong: nor made
	Status  string         // how it ended, where that is known
	Signal  syscall.Signal // that has ended it; 0: none
	Reason  string         // what it reported, when it could
	Tail    []string       // last lines of its standard output and error, or the first of its crash
	Others  []string       // what went wrong with other workers shortly before or after

	Phase        Phase
	Replication  int     // in PhasePrepare and PhaseRun
	Reached      float64 // in PhaseRun: simulated seconds that it had reached, as its board showed
	ReachedKnown bool    // it had reached some
	Handler      string  // in PhaseRun: the simproc whose handler was called last, empty where that isn't known
	HandlerEpoch float64 // … and for which simulated time

	// Delivered says that the run's results are complete nevertheless: Run returns
	// them beside the error.
	Delivered bool
}

// Error is several lines long when the worker left some behind.
func (e *WorkerError) Error() string {
	switch {
	case e.Wrong && e.File && e.Machine != "":
		return e.placeless()
	case e.Wrong:
		return e.Reason
	}
	var b strings.Builder
	b.WriteString(e.short())
	if e.Delivered {
		b.WriteString(": the results are complete, because all workers had delivered theirs")
	}
	switch {
	case len(e.Tail) > 0:
		b.WriteString("\nlast lines of its standard error:")
		for _, line := range e.Tail {
			b.WriteString("\n    " + line)
		}
	case e.Died:
		b.WriteString("\nit wrote nothing to its standard error")
	}
	for _, other := range e.Others {
		first, _, _ := strings.Cut(other, "\n")
		b.WriteString("\nalso " + first)
	}
	return b.String()
}

// placeless says that a machine has no folder for temporary files: there, and not here, something is to be done.
func (e *WorkerError) placeless() string {
	return fmt.Sprintf("machine %s: %s: let TMPDIR of its agent name another folder", e.Machine,
		strings.TrimSuffix(e.Reason, outfile.ScratchAdvice))
}

// Is reports whether target is ErrConfig and the error is about what was asked for.
func (e *WorkerError) Is(target error) bool { return e.Wrong && target == ErrConfig }

// short is what happened, without the worker's output.
func (e *WorkerError) short() string {
	if e.Lost && e.Reason == "" {
		return e.loss()
	}
	first, rest, more := strings.Cut(e.Reason, "\n")
	name := workerName(e.Worker, e.Machine)
	text := fmt.Sprintf("%s failed: %s", name, first)
	switch {
	case e.Died && e.Early:
		text = fmt.Sprintf("%s ended too early, with %s: does a handler call os.Exit? It ended", name, e.Status)
	case e.Died:
		text = fmt.Sprintf("%s died: %s", name, e.Status)
	case e.Status != "":
		text += " (" + e.Status + ")"
	}
	switch {
	case e.Phase == PhaseStart:
		text += " while it was starting"
	case e.Phase == PhasePrepare:
		text += fmt.Sprintf(" while it prepared replication %d", e.Replication)
	case e.Phase == PhaseExit:
		text += " after its last result"
	case !e.Died && !e.Lost: // its report names the simproc and the epoch, as a rule
	case e.Phase == PhaseRun && e.ReachedKnown:
		text += fmt.Sprintf(" in replication %d, having reached %.6g simulated seconds", e.Replication, e.Reached)
	case e.Phase == PhaseRun:
		text += fmt.Sprintf(" at the beginning of replication %d", e.Replication)
	}
	if e.Died && e.Handler != "" {
		text += fmt.Sprintf("; it had called the handler of %s at epoch %v last", e.Handler, e.HandlerEpoch)
	}
	if more && !e.Died {
		text += "\n" + rest
	}
	return text
}

// loss is what happened to a machine, or to what joins all of them. Which of its workers was missed first, or of those
// of a machine that has ended because of it, says nothing.
func (e *WorkerError) loss() string {
	text := e.Status
	switch {
	case e.Phase == PhaseStart:
		text += "; the workers were starting"
	case e.Phase == PhasePrepare:
		text += fmt.Sprintf("; replication %d was being prepared", e.Replication)
	case e.Phase == PhaseExit:
		text += "; all results had come"
	case e.Phase == PhaseRun && e.ReachedKnown:
		text += fmt.Sprintf("; %s had reached %.6g simulated seconds in replication %d",
			workerName(e.Worker, e.Machine), e.Reached, e.Replication)
	case e.Phase == PhaseRun:
		text += fmt.Sprintf("; replication %d had begun", e.Replication)
	}
	return text
}
