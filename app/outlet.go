// SPDX-License-Identifier: Apache-2.0

package app

import (
	"io"
	"sync"
	"time"
)

// outletTimeout is how long one writer waits, after hurry, for whoever reads what an outlet passes on.
const outletTimeout = 50 * time.Millisecond

// outlet passes on what is written to it, from a goroutine of its own, and each Write waits for that: until hurry is
// called. From then on, a reader that doesn't read (a full pipe, a terminal that Ctrl-S has stopped) holds nobody up
// for longer than outletTimeout altogether; what it doesn't take is lost. Any goroutine may use it.
type outlet struct {
	w       io.Writer
	hurried chan struct{} // closed by hurry
	once    sync.Once

	mu      sync.Mutex // never held while w is written to
	pending []byte     // not given to w yet: at most one Write of each goroutine
	passed  *batch     // of what is pending
	busy    bool       // pass is running
	stuck   bool       // a writer has waited so long, and nothing was passed on since
}

// batch is what one call of the writer behind an outlet gets.
type batch struct {
	done chan struct{} // closed when that has returned
	err  error         // valid then
}

func newOutlet(w io.Writer) *outlet {
	return &outlet{w: w, hurried: make(chan struct{}), passed: &batch{done: make(chan struct{})}}
}

// hurry limits how long Write waits.
func (o *outlet) hurry() { o.once.Do(func() { close(o.hurried) }) }

// Write returns the error of the writer behind it. What is lost after hurry counts as written.
func (o *outlet) Write(p []byte) (int, error) {
	b := o.add(p)
	if b == nil {
		return len(p), nil
	}
	select {
	case <-b.done:
		return written(p, b.err)
	case <-o.hurried:
	}
	timeout := time.NewTimer(outletTimeout)
	defer timeout.Stop()
	select {
	case <-b.done:
		return written(p, b.err)
	case <-timeout.C:
		o.mu.Lock()
		defer o.mu.Unlock()
		o.stuck = o.busy
		return len(p), nil
	}
}

func written(p []byte, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// add puts text behind what is pending and sees that it is passed on; nil: it is lost.
func (o *outlet) add(p []byte) *batch {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stuck {
		return nil
	}
	o.pending = append(o.pending, p...)
	if !o.busy {
		o.busy = true
		go o.pass()
	}
	return o.passed
}

// pass passes on until nothing is pending.
func (o *outlet) pass() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.pending) > 0 {
		text, b := o.pending, o.passed
		o.pending, o.passed = nil, &batch{done: make(chan struct{})}
		o.mu.Unlock()
		_, b.err = o.w.Write(text)
		close(b.done)
		o.mu.Lock()
		o.stuck = false
	}
	o.busy = false
}
