// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// What an Engine says about a model that gets into trouble: which simproc at which epoch,
// what it was handling, and where in the model's code.

// ErrModel is what errors unwrap to that come from a model's code: it returned them, it
// panicked, or it used what was not its own. Its text is never part of a message.
var ErrModel = errors.New("node: model")

// Runtime is what an Engine asks of the Go runtime, which node doesn't see.
type Runtime interface {
	// Stack is the model's part of the calling goroutine's stack, one line for each call
	// and one for its place; while a panic is under way, of the call that panicked.
	Stack() string
	// Goroutine identifies the calling goroutine. It is slow: checked build.
	Goroutine() uint64
}

// Guard is the memory that events are handed out in by the checked build. It can be read
// during the call that it is handed to, and never be written there; after the call it can't
// be accessed at all, so that a handler that has kept it panics where it uses it.
type Guard interface {
	// Lend makes n bytes accessible: write for the Engine, read for the handler. number
	// counts the calls, from 0.
	Lend(n int) (write, read []byte, number uint64, err error)
	// End ends the use of what was lent last.
	End() error
	// Lent finds the number of the Lend that an address belongs to.
	Lent(address uintptr) (number uint64, ok bool)
}

// modelError is an error of a model's code.
type modelError struct {
	text  string
	cause error // nil for a panic
}

func (e *modelError) Error() string { return e.text }

func (e *modelError) Unwrap() []error {
	if e.cause == nil {
		return []error{ErrModel}
	}
	return []error{ErrModel, e.cause}
}

// foreign is a call of a Simproc's method from a goroutine that may not call it.
type foreign struct {
	id     SimprocID
	method string
	stack  string
}

// loans remembers who was lent guarded memory.
type loans struct {
	last [1 << 12]loan // by number of the Lend, modulo its length
	size int           // of the current call; 0: nothing is lent
}

type loan struct {
	number uint64
	to     string
}

// handling says what the call under way is about.
func (e *Engine) handling(p *Simproc) string {
	if len(e.events) == 0 {
		if e.woken {
			return "handling a wakeup"
		}
		return "handling its first call"
	}
	ev := &e.events[0]
	one := fmt.Sprintf("event %d of %s", ev.Number, e.plan.Name(ev.Sender))
	if len(e.events) == 1 {
		return "handling " + one
	}
	return fmt.Sprintf("handling %d events, the first is %s", len(e.events), one)
}

// returned files the error with which p's handler has returned.
func (e *Engine) returned(p *Simproc, err error) {
	e.fail(&modelError{fmt.Sprintf("node: %s at epoch %v, %s: %v", p.Name(), p.now, e.handling(p), err), err})
}

// fail keeps an error that a call of one of p's methods found, if it is the first of the
// run, and returns it.
func (p *Simproc) fail(err error) error {
	e := p.engine
	if e.current == p {
		err = &modelError{fmt.Sprintf("%v (%s)", err, e.handling(p)), err}
	}
	return e.fail(err)
}

// rescue makes an error of a panic in a handler. It is to be deferred. Other panics are our
// own defects: they go on.
func (e *Engine) rescue(err *error) {
	p := e.current
	if p == nil {
		return
	}
	if r := recover(); r != nil {
		e.current = nil
		if e.cfg.Trace != nil {
			e.handled(p.class(), p) // what it did before
		}
		*err = e.fail(e.panicked(p, r, fmt.Sprintf("node: %s at epoch %v, %s", p.Name(), p.now, e.handling(p))))
	}
}

// rescueFrom is rescue for the other calls of a model: what says which.
func (e *Engine) rescueFrom(p *Simproc, what string, err *error) {
	if r := recover(); r != nil {
		*err = e.panicked(nil, r, "node: "+p.Name()+", "+what)
	}
}

// panicked is the error for a panic in a model's code; p is whose handler was called, nil
// for none.
func (e *Engine) panicked(p *Simproc, r any, where string) error {
	cause, _ := r.(error)
	text := fmt.Sprintf("%s: panic: %v", where, r)
	if fault, ok := r.(interface{ Addr() uintptr }); ok {
		text = fmt.Sprintf("%s: %s", where, e.explain(p, fault.Addr()))
	}
	if e.cfg.Runtime != nil {
		text += "\n" + e.cfg.Runtime.Stack()
	}
	return &modelError{text, cause}
}

// explain says what is at an address that can't be accessed.
func (e *Engine) explain(p *Simproc, address uintptr) string {
	if e.cfg.Guard != nil {
		if number, ok := e.cfg.Guard.Lent(address); ok {
			l := &e.loans.last[number%uint64(len(e.loans.last))]
			switch {
			case l.number != number:
				return "it used memory of events whose call ended long ago: a handler must copy what it keeps"
			case p != nil && e.loans.size > 0 && l.to == e.loanTo(p):
				return "it wrote into the memory of its events, which others share"
			}
			return fmt.Sprintf("it used memory that ended with an earlier call, of %s: a handler must copy what it "+
				"keeps", l.to)
		}
	}
	return fmt.Sprintf("panic: memory at %#x can't be accessed so: an event's memory may not be written, and ends "+
		"with the call", address)
}

func (e *Engine) loanTo(p *Simproc) string {
	return fmt.Sprintf("%s at epoch %v, %s", p.Name(), p.now, e.handling(p))
}

// lend moves what p's handler gets into guarded memory: checked build.
func (e *Engine) lend(p *Simproc) {
	size := 0
	for i := range e.events {
		size += len(e.events[i].Headers) + len(e.events[i].Data)
	}
	if size == 0 || e.cfg.Guard == nil {
		return
	}
	write, read, number, err := e.cfg.Guard.Lend(size)
	if err != nil {
		e.fail(err)
		return
	}
	if e.loans == nil {
		e.loans = new(loans)
	}
	e.loans.size = size
	e.loans.last[number%uint64(len(e.loans.last))] = loan{number, e.loanTo(p)}
	at := 0
	move := func(b []byte) []byte {
		if len(b) == 0 {
			return b
		}
		from := at
		at += copy(write[at:], b)
		return read[from:at:at]
	}
	for i := range e.events {
		ev := &e.events[i]
		ev.Headers, ev.Data = move(ev.Headers), move(ev.Data)
	}
}

// unlend ends what lend has lent, and looks for calls from other goroutines.
func (e *Engine) unlend(p *Simproc) {
	if e.loans != nil && e.loans.size > 0 {
		e.loans.size = 0
		if err := e.cfg.Guard.End(); err != nil {
			e.fail(err)
		}
	}
	e.checkForeign(p)
}

// own notes the goroutine that the Engine belongs to: checked build.
func (e *Engine) own() {
	if e.cfg.Runtime != nil {
		e.owner.Store(e.cfg.Runtime.Goroutine())
	}
}

// checkGoroutine returns an error where p's method is called from another goroutine than
// the one that calls handlers, and keeps it for that one to end the run: checked build.
func (p *Simproc) checkGoroutine(method string) error {
	e := p.engine
	if e.cfg.Runtime == nil || e.cfg.Runtime.Goroutine() == e.owner.Load() {
		return nil
	}
	f := &foreign{p.id, method, e.cfg.Runtime.Stack()}
	e.foreign.CompareAndSwap(nil, f)
	return e.foreignError(f, "")
}

// Enter makes the calling goroutine the one whose calls of p are its handler's: for handlers that run parts of
// themselves as coroutines (iter.Pull), of which one at a time is running. Each calls it when it goes on, the
// goroutine that calls Handle too, when it goes on after one of them. Only the checked build looks at it.
func (p *Simproc) Enter() {
	if e := p.engine; checked && e.cfg.Runtime != nil {
		e.owner.Store(e.cfg.Runtime.Goroutine())
	}
}

// checkForeign ends the run if a Simproc's method was called from another goroutine; p is
// the simproc whose call has just ended, nil for none.
func (e *Engine) checkForeign(p *Simproc) {
	f := e.foreign.Load()
	switch {
	case f == nil:
	case p == nil:
		e.fail(e.foreignError(f, fmt.Sprintf(", found before epoch %v", e.Next().Epoch)))
	case p.id == f.id:
		e.fail(e.foreignError(f, fmt.Sprintf(" at epoch %v, %s", p.now, e.handling(p))))
	default:
		e.fail(e.foreignError(f, fmt.Sprintf(", found at epoch %v", p.now)))
	}
}

func (e *Engine) foreignError(f *foreign, when string) error {
	return &modelError{text: fmt.Sprintf("node: %s%s: %s was called in a goroutine of the model's: only the goroutine "+
		"that calls Handle may call it, before Handle returns\n%s", e.plan.Name(f.id), when, f.method, f.stack)}
}

// trouble is what an Engine keeps for the checked build.
type trouble struct {
	owner   atomic.Uint64           // Runtime.Goroutine of the goroutine that calls Run
	foreign atomic.Pointer[foreign] // the first call from another one
	loans   *loans
}
