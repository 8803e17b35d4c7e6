package launch

import (
	"errors"
	"fmt"
	"strings"
)

// ErrConfig is what errors unwrap to that lie in what the caller asked for: nothing
// has been started. Its text is never part of a message.
var ErrConfig = errors.New("launch: configuration")

// ErrEnded is the error of a run that was ended at once by its context.
var ErrEnded = errors.New("launch: ended at once, without results")

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

// WorkerError says which worker ended a run, and how.
type WorkerError struct {
	Worker int
	Died   bool     // its process ended without a word; otherwise it reported an error
	Status string   // how it ended, where that is known
	Reason string   // what it reported, when it could
	Tail   []string // last lines of its standard output and error, or the first of its crash
	Others []string // what other workers had to say shortly after
}

// Error is several lines long when the worker left some behind.
func (e *WorkerError) Error() string {
	var b strings.Builder
	b.WriteString(e.short())
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
		b.WriteString("\nthen " + other)
	}
	return b.String()
}

// short is the first line.
func (e *WorkerError) short() string {
	switch {
	case e.Died:
		return fmt.Sprintf("worker %d died: %s", e.Worker, e.Status)
	case e.Status != "":
		return fmt.Sprintf("worker %d failed: %s (%s)", e.Worker, e.Reason, e.Status)
	}
	return fmt.Sprintf("worker %d failed: %s", e.Worker, e.Reason)
}
