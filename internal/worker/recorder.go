// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"time"

	"github.com/disco-sim/disco/internal/cputime"
	"github.com/disco-sim/disco/internal/spans"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/shm"
)

// recorder records what the worker is at (--trace-perfetto). It looks at the clock where the ledger does, and else only
// where a worker waits. Methods of a nil one do nothing. Owned by the cycle.
type recorder struct {
	*spans.Recorder
	since time.Time // of the ledger, when the last state began
}

// record begins to record, where that is wanted.
func (r *replications) record() {
	c := r.cycle
	if !r.setup.Spans {
		return
	}
	c.spans = &recorder{Recorder: spans.NewRecorder(c.now(), cputime.Monotonic())}
	if w, ok := c.waiter.(*shm.Waiter); ok {
		c.waiter = &recordedWaiter{w, c}
	}
}

// state is what the board shows from now on.
func (r *recorder) state(c *cycle, k spans.Kind, peer int) {
	if r.Is(k, peer) {
		return
	}
	now := c.ledger.since
	if now.Equal(r.since) { // the ledger has seen no change
		now = c.now()
	}
	r.since = c.ledger.since
	r.State(k, peer, now)
}

// goOn is the begin of a leg, where the ledger goes on with what the last one ended with.
func (r *recorder) goOn(c *cycle) {
	if r != nil {
		state, peer := c.state()
		r.State(spans.Kind(state), peer, c.now())
	}
}

// during is a state that the board doesn't show; end ends it.
func (r *recorder) during(c *cycle, k spans.Kind) (end func()) {
	if r == nil {
		return func() {}
	}
	after := spans.Rest
	if k == spans.Save {
		after = spans.Held
	}
	r.State(k, -1, c.now())
	return func() { r.State(after, -1, c.now()) }
}

// sample takes in the numbers on the board, where the last ones are long enough ago.
func (r *recorder) sample(c *cycle, s node.Stats) {
	r.Sample(c.now(), min(c.engine.Reached(), c.horizon), s.Events, uint64(c.engine.Pending()))
}

func (r *recorder) run(number int, now time.Time) {
	if r != nil {
		r.Run(number, now)
	}
}

func (r *recorder) endRun(c *cycle) {
	if r != nil {
		now := c.now()
		r.EndRun(now)
		r.State(spans.Rest, -1, now)
	}
}

// passSpans sends what was recorded since the last time.
func (r *replications) passSpans() error {
	c := r.cycle
	if c.spans == nil {
		return nil
	}
	p := c.spans.Take(c.now())
	return r.sendSpans(&p)
}

// idler passes the time after a pass of the duty cycle: a *shm.Waiter, or the scheduler of a simulated run.
type idler interface {
	// Idle ends one pass; work reports whether the pass had any.
	Idle(work bool) (timedOut bool)
	Stats() shm.WaiterStats
}

// recordedWaiter records when the worker sleeps.
type recordedWaiter struct {
	*shm.Waiter
	cycle *cycle
}

// Idle implements idler.
func (w *recordedWaiter) Idle(work bool) (timedOut bool) {
	if work || !w.Armed() {
		return w.Waiter.Idle(work)
	}
	began := w.cycle.now()
	timedOut = w.Waiter.Idle(false)
	w.cycle.spans.Slept(began, w.cycle.now())
	return timedOut
}
