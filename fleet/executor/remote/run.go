// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
	"github.com/disco-sim/disco/internal/circuit"
)

// run is an attempt at a host.
type run struct {
	l       *link
	placed  *placed
	job     *executor.Job
	outcome executor.Outcome // before done is closed
	unknown error            // before done is closed: something of it may be left
	done    chan struct{}
	began   chan struct{} // closed when the host has answered its start, or never will

	mu       sync.Mutex
	over     bool // it has an outcome
	progress fleet.Progress
	output   []byte
	asked    bool  // to stop
	lost     error // the connection has ended
	timer    *time.Timer
}

// Progress implements Run.
func (r *run) Progress() fleet.Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.progress
	p.Stopping = p.Stopping || r.asked
	return p
}

// Output implements Run.
func (r *run) Output() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.output // never changed: there is another one
}

func (r *run) Done() <-chan struct{}     { return r.done }
func (r *run) Outcome() executor.Outcome { return r.outcome }

// begin has the host start it.
func (r *run) begin(c *client) {
	defer close(r.began)
	_, err := c.call(r.l.life, kindStart, &message{Job: r.job})
	if refused := (*errHost)(nil); errors.As(err, &refused) {
		r.finish(failed("starting", err.Error()), nil)
	} else if err != nil && c.ended() == nil { // it is too long to be sent
		r.finish(failed("starting", err.Error()), nil)
	} // a connection that ends is told to all runs
}

// failed is an outcome by the machine's fault.
func failed(step, text string) executor.Outcome {
	return executor.Outcome{Error: &fleet.Error{Type: fleet.ErrorMachine, Step: step,
		Message: clip(text, fleet.MaxReason), Trace: clip(text, fleet.MaxTrace)}}
}

// take takes what the host says.
func (r *run) take(m *message) {
	r.mu.Lock()
	if m.Progress != nil {
		r.progress = *m.Progress
	}
	began := r.hasBegun()
	if m.Output != nil {
		r.output = m.Output[max(0, len(m.Output)-fleet.MaxLog):]
	}
	r.mu.Unlock()
	if began {
		r.l.r.judge(r.placed, circuit.Succeeded, nil)
	}
	if m.Outcome != nil {
		r.finish(checkOutcome(m.Outcome), nil)
	}
}

// hasBegun tells whether it has done something. mu is held.
func (r *run) hasBegun() bool { return r.progress.Events > 0 || r.progress.Now > 0 }

// checkOutcome refuses what no host sends.
func checkOutcome(o *executor.Outcome) executor.Outcome {
	set := 0
	for _, is := range []bool{o.Kept != nil, o.Stopped, o.Error != nil} {
		if is {
			set++
		}
	}
	if set != 1 {
		return failed("ending", fmt.Sprintf("found an outcome with %d of 3 fields of a host, want one", set))
	}
	if o.Error != nil {
		o.Error.Message = clip(o.Error.Message, fleet.MaxReason)
		o.Error.Trace = o.Error.Trace[max(0, len(o.Error.Trace)-fleet.MaxTrace):]
	}
	o.Behind, o.Elsewhere = "", false // who has several machines says that
	return *o
}

// finish gives it its outcome. The first one stays.
func (r *run) finish(o executor.Outcome, unknown error) {
	r.mu.Lock()
	if r.over {
		r.mu.Unlock()
		return
	}
	r.over, r.unknown = true, unknown
	if r.timer != nil {
		r.timer.Stop()
	}
	began := r.hasBegun()
	r.mu.Unlock()
	r.l.r.concludes(r.placed, r.job, began, &o)
	r.outcome = o
	r.l.mu.Lock()
	if r.l.runs[r.job.Name()] == r {
		delete(r.l.runs, r.job.Name())
	}
	r.l.mu.Unlock()
	close(r.done)
}

// lose says that the connection has ended, whose other end stops it.
func (r *run) lose(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || r.lost != nil {
		return
	}
	r.lost = err
	r.timer = time.AfterFunc(r.l.r.unknownAfter(), func() { r.settle(nil, false) })
}

// settle ends a lost run of which nothing is left, or something may be.
func (r *run) settle(err error, known bool) {
	r.mu.Lock()
	if err == nil {
		err = r.lost
	}
	asked := r.asked
	r.mu.Unlock()
	switch {
	case known && asked:
		r.finish(executor.Outcome{Stopped: true}, nil)
	case known:
		r.finish(failed("simulating", fmt.Sprintf("%v; none of its processes is left", err)), nil)
	default:
		err = fmt.Errorf("%w; whether its processes have ended isn't known", err)
		r.finish(failed("ending", err.Error()), err)
	}
}

// Stop implements Run.
func (r *run) Stop(ctx context.Context) error {
	r.mu.Lock()
	r.asked = true
	r.mu.Unlock()
	for {
		c, changed := r.l.now()
		if c != nil {
			select {
			case <-r.began:
			case <-ctx.Done():
			}
			_, err := c.call(ctx, kindStop, &message{Name: r.job.Name()})
			if refused := (*errHost)(nil); errors.As(err, &refused) {
				return fmt.Errorf("remote: stopping %s at %s: %w", r.job.Name(), r.l.title, err)
			}
		}
		select {
		case <-r.done:
			return r.unknown
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("remote: stopping %s at %s: %w", r.job.Name(), r.l.title, context.Cause(ctx))
		}
	}
}
