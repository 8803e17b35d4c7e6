// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
)

// Bounds of what handlers ask of the outside world.
const (
	ExternalBytesMax = 16 << 20 // of a request, and of an answer
	ExternalCallsMax = 4096     // calls of External in one activation
)

// ExternalID is something outside of the simulation that handlers may ask, resolved once at wiring time.
type ExternalID int32

// Outside is the world outside of the simulation, as handlers may ask it. It waits where an Engine can't: during Ask it
// may call the Engine's Receive methods, OutBound and SendPromises, as a Port may.
type Outside interface {
	// Names are those of what can be asked; an ExternalID is a place in them.
	Names() []string

	// Ask asks, or gives what was answered before. An error that is no *ExternalError ends the run. The answer is the
	// caller's.
	Ask(call *ExternalCall) (answer []byte, err error)
}

// ExternalCall is one call of External. Simproc, Epoch and Number name it: they are the same whenever it is made again.
type ExternalCall struct {
	External ExternalID
	Simproc  SimprocID
	Epoch    float64
	Number   uint32 // of the call in its activation, from 0
	Request  []byte // for reading; it ends with Ask
}

// ExternalError is the error that the outside world has answered with, after all attempts. It is recorded as an answer
// is, and doesn't end the run by itself.
type ExternalError struct {
	Name string // of what was asked
	Text string
}

// Error names what was asked.
func (e *ExternalError) Error() string { return fmt.Sprintf("external %q: %s", e.Name, e.Text) }

// asked counts the calls of External of one activation.
type asked struct {
	proc  *Simproc
	epoch float64
	calls uint32
}

// ExternalNamed finds what handlers may ask by its name. Wiring time.
func (p *Simproc) ExternalNamed(name string) (ExternalID, error) {
	out := p.engine.cfg.Outside
	if out == nil {
		return -1, fmt.Errorf("node: %s: nothing outside can be asked in this run, found external %q", p.Name(), name)
	}
	names := out.Names()
	for i, n := range names {
		if n == name {
			return ExternalID(i), nil
		}
	}
	return -1, fmt.Errorf("node: %s: found external %q, want one of %q", p.Name(), name, names)
}

// External asks the outside world and returns its answer: recorded once, and the recorded one whenever this call is
// made again, when a run goes back, goes on or is repeated. It takes wall time and no simulated time; other workers go
// on meanwhile. request ends with the call, and has at most ExternalBytesMax bytes; the answer is the handler's. Answer
// and request enter the simproc's trace hash. The error is an *ExternalError where the outside has failed, which the
// handler may handle; every other one ends the run.
func (p *Simproc) External(x ExternalID, request []byte) ([]byte, error) {
	if checked {
		if err := p.checkGoroutine("External"); err != nil {
			return nil, err
		}
	}
	e := p.engine
	if e.asked.proc != p || e.asked.epoch != p.now {
		e.asked = asked{proc: p, epoch: p.now}
	}
	if err := p.checkExternal(x, request); err != nil {
		return nil, p.fail(err)
	}
	call := &ExternalCall{x, p.id, p.now, e.asked.calls, request}
	e.asked.calls++
	answer, err := e.cfg.Outside.Ask(call)
	var failed *ExternalError
	switch {
	case err == nil:
		p.hash = mix(mix(p.hash, sum(request)), sum(answer)^uint64(len(answer)))
	case errors.As(err, &failed):
		p.hash = mix(mix(p.hash, sum(request)), ^sum([]byte(failed.Text)))
	default:
		err = p.fail(fmt.Errorf("node: %s at epoch %v: %w", p.Name(), p.now, err))
	}
	return answer, err
}

// checkExternal refuses a call that can't be made.
func (p *Simproc) checkExternal(x ExternalID, request []byte) error {
	e := p.engine
	switch out := e.cfg.Outside; {
	case e.current != p:
		return fmt.Errorf("node: %s asked the outside world outside its own Handle: only the handler that is being "+
			"called may ask", p.Name())
	case e.err != nil:
		return e.err
	case out == nil || x < 0 || int(x) >= len(out.Names()):
		return fmt.Errorf("node: %s at epoch %v asked external %d, which it doesn't have: take the number from "+
			"ExternalNamed", p.Name(), p.now, x)
	case len(request) > ExternalBytesMax:
		return fmt.Errorf("node: %s at epoch %v asked external %q with %d bytes, at most %d are allowed", p.Name(),
			p.now, out.Names()[x], len(request), ExternalBytesMax)
	case e.asked.calls == ExternalCallsMax:
		return fmt.Errorf("node: %s at epoch %v asked the outside world more than %d times in one activation", p.Name(),
			p.now, ExternalCallsMax)
	}
	return nil
}
