// SPDX-License-Identifier: Apache-2.0

// Package external is what handlers may ask of the outside world: functions with names, each with a policy that says
// how long and how often it is tried, and what becomes of its answers.
//
// Guarantee: Do returns at the latest a second after the last attempt's timeout, and at once when its context ends,
// whatever the function does; a call is tried as often as its policy allows, and each attempt has the same key. Waiting
// draws nothing from the random streams of a simulation.
//
//	solver := external.External{
//		Name:   "solver",
//		Ask:    command.Command{Path: "/usr/bin/solve"}.Ask,
//		Policy: external.Policy{Timeout: time.Minute, Attempts: 3},
//	}
//
// A scenario names what its handlers ask (scenario.Asker, sim.Builder.External); they ask with node.Simproc.External.
// docs/external.md is the page for authors of models.
package external

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Limits of a call.
const (
	// BytesMax bounds a request, an answer and the text of an error, in bytes.
	BytesMax = 16 << 20

	// CallsMax bounds the calls of one activation.
	CallsMax = 4096
)

// External is something outside of the simulation that handlers may ask. It doesn't change once it is registered.
type External struct {
	// Name is what handlers ask for: 1 to 64 of a-z A-Z 0-9 . _ -
	Name string

	// Ask asks once. Several goroutines may call it at a time, for different nodes.
	Ask Func

	Policy Policy
}

// Func asks the outside world once. It returns soon after ctx has ended: then the attempt's time is up, or the run has
// ended. The answer has at most BytesMax bytes.
type Func func(ctx context.Context, call *Call) (answer []byte, err error)

// Policy says how an External is asked. Fields that are 0 have the defaults named with them.
type Policy struct {
	// Timeout is the time of one attempt, at most 24 h; 0: 30 s.
	Timeout time.Duration

	// Attempts is how often a call is tried, the first attempt included, at most 1,000; 0: once.
	Attempts int

	// BaseDelay and MaxDelay are for the time before attempt n + 1, which is the less of MaxDelay and
	// BaseDelay × 2^(n-1) + jitter, where jitter is anywhere from 0 to BaseDelay. 0: 100 ms, and 10 s or BaseDelay if
	// that is more; at most 24 h.
	BaseDelay, MaxDelay time.Duration

	// Retryable reports whether another attempt may help after this error; nil: after any error. An attempt whose time
	// was up gives one that is context.DeadlineExceeded.
	Retryable func(err error) bool

	// Unrecorded has the answers kept nowhere, so that the outside is asked again when a run goes back or is resumed.
	// Then the results of the run depend on what is answered the next time. It is for what gives the same answer to the
	// same request always.
	Unrecorded bool

	// NeedsKey says that asking has an effect outside, which is to happen once for each call: Ask must hand on
	// Call.Key, by which the outside knows a call that it has had before. An attempt whose Ask hasn't looked at the key
	// ends the run.
	NeedsKey bool
}

// Call is one call of an External, as Ask gets it. It ends with Ask.
type Call struct {
	Request []byte // for reading
	Attempt int    // 1 for the first

	key  string
	used atomic.Bool
}

// Key is the call's own: 64 hexadecimal digits that are the same for all its attempts, also when the run was resumed in
// between, and differ from those of all other calls of all runs.
func (c *Call) Key() string {
	c.used.Store(true)
	return c.key
}

// Defaults of Policy, and its bounds.
const (
	timeoutDefault   = 30 * time.Second
	baseDelayDefault = 100 * time.Millisecond
	maxDelayDefault  = 10 * time.Second

	durationMax = 24 * time.Hour
	attemptsMax = 1000
)

// goodName is a rule by hand: a compiled expression would be 60 kB of each worker's memory, whatever its model.
func goodName(name string) bool {
	return len(name) >= 1 && len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		return !letter && !(r >= '0' && r <= '9') && !strings.ContainsRune("._-", r)
	})
}

// Check says what is wrong with x.
func (x *External) Check() error {
	p := &x.Policy
	bad := func(format string, args ...any) error {
		return fmt.Errorf("external %q: "+format, append([]any{x.Name}, args...)...)
	}
	switch {
	case !goodName(x.Name):
		return bad("found this name, want 1 to 64 of a-z A-Z 0-9 . _ -")
	case x.Ask == nil:
		return bad("Ask: found none, want the function that asks")
	case p.Timeout < 0 || p.Timeout > durationMax:
		return bad("Timeout: found %v, want more than 0, at most %v; 0 is %v", p.Timeout, durationMax, timeoutDefault)
	case p.Attempts < 0 || p.Attempts > attemptsMax:
		return bad("Attempts: found %d, want 1 to %d; 0 is 1", p.Attempts, attemptsMax)
	case p.BaseDelay < 0 || p.BaseDelay > durationMax:
		return bad("BaseDelay: found %v, want more than 0, at most %v; 0 is %v", p.BaseDelay, durationMax,
			baseDelayDefault)
	case p.MaxDelay < 0 || p.MaxDelay > durationMax:
		return bad("MaxDelay: found %v, want more than 0, at most %v; 0 is %v", p.MaxDelay, durationMax,
			maxDelayDefault)
	case p.MaxDelay > 0 && p.MaxDelay < p.base():
		return bad("MaxDelay: found %v, want at least BaseDelay, which is %v", p.MaxDelay, p.base())
	}
	return nil
}

// CheckAll says what is wrong with a list of externals: the first that is, or that has another's name.
func CheckAll(all []External) error {
	names := map[string]bool{}
	for i := range all {
		if err := all[i].Check(); err != nil {
			return err
		}
		if names[all[i].Name] {
			return fmt.Errorf("external %q: found two of this name, want one", all[i].Name)
		}
		names[all[i].Name] = true
	}
	return nil
}

func or[T time.Duration | int](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

func (p *Policy) base() time.Duration { return or(p.BaseDelay, baseDelayDefault) }

// delay is the time before attempt n + 1; jitter is from 0 to base.
func (p *Policy) delay(n int, jitter time.Duration) time.Duration {
	base := p.base()
	most := or(p.MaxDelay, max(maxDelayDefault, base))
	d := base
	for range n - 1 {
		if d >= most {
			break
		}
		d *= 2
	}
	return min(d+jitter, most)
}

// PanicError is an Ask that panicked.
type PanicError struct {
	Name  string
	Value any
	Stack string
}

// Error has the stack.
func (e *PanicError) Error() string {
	return fmt.Sprintf("external %q: panic: %v\n%s", e.Name, e.Value, e.Stack)
}

// errKey is an Ask that hasn't used the key.
func errKey(name string) error {
	return errors.New("external " + strconv.Quote(name) + ": its policy is NeedsKey, and Ask hasn't looked at " +
		"Call.Key: hand the key on to what is asked, so that a call that is made twice takes effect once")
}
