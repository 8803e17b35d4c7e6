// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/disco-sim/disco/external"
	"github.com/disco-sim/disco/internal/answers"
	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/node"
)

// How a handler asks the outside world (docs/checkpoints.md, section 8). The handler's call waits in the duty cycle,
// which takes in, promises and answers meanwhile, as where it waits for room. A goroutine beside it asks:
//
//	worker                                   launcher
//	External{look, request} ──────────────▶  where there may be a record
//	              ◀── Recorded{the record, or none}
//	asks, as often as the policy allows
//	External{the record} ─────────────────▶  where it is kept: writes it
//	              ◀── Recorded{}
//
// and only then the handler gets the answer. One call of a worker is under way at a time.

// outside is what handlers of a worker may ask. It implements node.Outside; the cycle's goroutine uses it.
type outside struct {
	cycle      *cycle
	all        []external.External
	names      []string
	run        checkpoint.ID
	send       func(*External) error // to the launcher
	recorded   chan *Recorded        // its answers
	ctx        context.Context       // ends with the launcher
	end        context.CancelFunc
	under      sync.WaitGroup // what asks
	wake       func()         // makes the cycle look whether there is an answer
	look, keep bool           // of this replication: Prepare's

	replication int
	doing       string // what is asked, for a Status
	since       time.Time
}

func newOutside(c *cycle, all []external.External, run string, wake func()) (*outside, error) {
	o := &outside{cycle: c, all: slices.Clone(all), recorded: make(chan *Recorded, 1), wake: wake}
	for i := range all {
		o.names = append(o.names, all[i].Name)
	}
	if err := external.CheckAll(all); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	if err := o.run.UnmarshalText([]byte(run)); err != nil {
		return nil, fmt.Errorf("worker: set up for run %q: %w", run, err)
	}
	o.ctx, o.end = context.WithCancel(context.Background())
	return o, nil
}

// prepare begins a replication.
func (o *outside) prepare(p *Prepare) { o.replication, o.look, o.keep = p.Replication, p.Look, p.Keep }

// close ends what is under way: nothing rings bells any more. An Ask that doesn't return is left to itself.
func (o *outside) close() {
	o.end()
	o.under.Wait()
}

// Names implements node.Outside.
func (o *outside) Names() []string { return o.names }

// answered is what came of a call.
type answered struct {
	record *answers.Record
	looked bool // it is one that was there
	err    error
}

// Ask implements node.Outside.
func (o *outside) Ask(call *node.ExternalCall) ([]byte, error) {
	c := o.cycle
	r := &answers.Record{Key: answers.Key{Simproc: uint32(call.Simproc), Epoch: call.Epoch, Call: call.Number},
		Name: o.names[call.External], Attempts: 1, Request: slices.Clone(call.Request)} // which may outlive the call
	handler, _, _ := c.engine.Glance()
	o.doing, o.since = fmt.Sprintf("external %q of %s at epoch %v", r.Name, handler, call.Epoch), c.now()
	ended := make(chan answered, 1)
	o.under.Go(func() { // r is its own from here on
		looked, err := o.answer(&o.all[call.External], r)
		ended <- answered{r, looked, err}
		o.wake()
	})
	c.enter(asking)
	c.showState(StateOutside, -1)
	defer c.enter(working)
	for {
		select {
		case out := <-ended:
			return o.result(out)
		default:
		}
		if err := c.moveOutside(); err != nil {
			o.end()
			return nil, err
		}
	}
}

// result is what the handler gets.
func (o *outside) result(out answered) ([]byte, error) {
	s, r := &o.cycle.stats, out.record
	s.Externals++
	if out.looked {
		s.ExternalsRecorded++
	}
	switch {
	case out.err != nil:
		return nil, out.err
	case r.Failed:
		return nil, &node.ExternalError{Name: r.Name, Text: string(r.Answer)}
	}
	return r.Answer, nil
}

// moveOutside keeps everything else moving while a handler waits for an answer.
func (c *cycle) moveOutside() error {
	if c.gone.Load() {
		return ErrLauncherGone
	}
	if c.ask.asked.Load() {
		c.sendStatus(StateOutside, -1)
	}
	c.showProgress()
	c.callAhead()
	n, err := c.keepMoving(-1, true)
	if err == nil && n == 0 {
		err = c.checkShared()
	}
	if err == nil {
		c.waiter.Idle(n > 0)
	}
	return err
}

// answer completes a record: with what is recorded, or by asking. It runs beside the cycle.
func (o *outside) answer(x *external.External, r *answers.Record) (looked bool, err error) {
	if o.look {
		known, err := o.exchange(&External{Look: true, Record: r.Append(nil)})
		if err != nil || len(known) > 0 {
			if err == nil {
				err = fill(r, known)
			}
			return true, err
		}
	}
	result, err := x.Do(o.ctx, r.Key.IdempotencyKey(o.run, o.replication), r.Request)
	if o.ctx.Err() != nil {
		return false, ErrLauncherGone
	}
	if err != nil {
		return false, err
	}
	r.Answer, r.Attempts, r.Took = result.Answer, result.Attempts, result.Took.Seconds()
	if r.Failed = result.Failure != ""; r.Failed {
		r.Answer = []byte(result.Failure)
	}
	if o.keep && !x.Policy.Unrecorded {
		_, err = o.exchange(&External{Record: r.Append(nil)})
	}
	return false, err
}

// take takes in an answer of the launcher. One that nobody has asked for is passed over. It runs in the reader.
func (o *outside) take(m *Recorded) {
	if o == nil {
		return
	}
	select {
	case o.recorded <- m:
	default:
	}
}

// fill puts a record that the launcher had into r.
func fill(r *answers.Record, known []byte) error {
	found, rest, err := answers.Parse(known)
	if err == nil && (len(rest) > 0 || found.Key != r.Key || found.Name != r.Name) {
		err = fmt.Errorf("found one of %v, want %v", found.Key, r.Key)
	}
	if err != nil {
		return fmt.Errorf("worker: the launcher's record of an answer: %w", err)
	}
	*r = *found
	return nil
}

// exchange sends the launcher a message about a call and waits for its answer.
func (o *outside) exchange(m *External) ([]byte, error) {
	if err := o.send(m); err != nil {
		return nil, err
	}
	select {
	case <-o.ctx.Done():
		return nil, ErrLauncherGone
	case a := <-o.recorded:
		if a.Error != "" {
			return nil, errors.New(a.Error)
		}
		return a.Record, nil
	}
}

// text says what is asked, for a Status.
func (o *outside) text() string {
	return fmt.Sprintf("waits for an answer of %s, for %v now", o.doing,
		o.cycle.now().Sub(o.since).Round(10*time.Millisecond))
}
