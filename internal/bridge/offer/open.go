// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/disco-sim/disco/internal/bridge/stream"
)

// Target is a machine to which an offer goes.
type Target struct {
	Name    string
	Address string
	Slots   int // wanted; 0: all that are free
}

// String is name and address.
func (t *Target) String() string {
	if t.Name == t.Address || t.Name == "" {
		return t.Address
	}
	return t.Name + " at " + t.Address
}

// Run is a run that all of its machines have accepted. A machine's number is its place among the targets.
type Run struct {
	targets []Target
	offered []*Offered
	reports chan Report
	closing chan struct{}
	once    sync.Once
	ended   sync.WaitGroup
}

// Report is a message from a machine: contact, measured, note, or ended. With an error its agent says nothing more;
// with io.EOF since the run has ended there, and all is free again.
type Report struct {
	Machine int
	Message *Message
	Err     error
}

// OpenError is why machines don't take a run, by their number; nil for one that would.
type OpenError []error

// Error names all of them.
func (e OpenError) Error() string { return errors.Join(e...).Error() }

// Unwrap gives each.
func (e OpenError) Unwrap() []error { return e }

// Open offers a run to all machines at a time. Machine and Slots are put into each one's offer. If one fails, all
// failures are named, as an OpenError, and nothing is left of the run on any machine that answers. ctx ends the
// attempt.
func Open(ctx context.Context, targets []Target, what Offer, security *stream.Security) (*Run, error) {
	r := &Run{targets: targets, offered: make([]*Offered, len(targets)), reports: make(chan Report),
		closing: make(chan struct{})}
	failures := make([]error, len(targets))
	var all sync.WaitGroup
	for i := range targets {
		all.Go(func() { r.offered[i], failures[i] = offerTo(ctx, &targets[i], i, what, security) })
	}
	all.Wait()
	err := r.explain(failures)
	if err == nil {
		for i, o := range r.offered {
			r.ended.Go(func() { r.follow(i, o) })
		}
		return r, nil
	}
	for _, o := range r.offered {
		if o != nil {
			all.Go(o.withdraw)
		}
	}
	all.Wait()
	return nil, err
}

// offerTo makes the offer to one machine.
func offerTo(ctx context.Context, t *Target, number int, what Offer, s *stream.Security) (*Offered, error) {
	if err := s.CheckAddress(t.Address); err != nil {
		return nil, err
	}
	c, err := Dial(ctx, t.Address, s)
	if err != nil {
		return nil, err
	}
	what.Machine, what.Slots = number, t.Slots
	o, err := c.Offer(ctx, &what)
	if err != nil {
		c.Close()
	}
	return o, err
}

// explain joins all failures. Two addresses of one agent are named with each other.
func (r *Run) explain(failures []error) error {
	for i, err := range failures {
		var refused *RefusedError
		if errors.As(err, &refused) && refused.Code == CodeTwice {
			for j, o := range r.offered {
				if o != nil && o.Instance == refused.Instance {
					err = fmt.Errorf("machines %v and %v are one: both addresses lead to the agent of %s; name each "+
						"machine once, with all of its slots", &r.targets[j], &r.targets[i], o.Name)
				}
			}
		} else if t := &r.targets[i]; err != nil && t.String() != t.Address {
			err = fmt.Errorf("%s: %w", t.Name, err)
		}
		failures[i] = err
	}
	if errors.Join(failures...) == nil {
		return nil
	}
	return OpenError(failures)
}

// withdrawLimit is how long an agent may take to end what it has started.
const withdrawLimit = 5 * time.Second

// withdraw ends the run at an agent before it goes, and returns when all is free there again, or when the agent takes
// too long, or is gone.
func (o *Offered) withdraw() {
	defer o.leave()()
	for {
		if _, err := o.Receive(); err != nil {
			return
		}
	}
}

// leave sends nothing more, and gives what ends the stream then. It ends by itself after a while.
func (o *Offered) leave() (end func()) {
	late := time.AfterFunc(withdrawLimit, o.Close)
	_ = o.stream.CloseSend() // always nil
	return func() {
		late.Stop()
		o.Close()
		o.client.Close()
	}
}

// follow passes an agent's reports on, and takes them after Close, too.
func (r *Run) follow(machine int, o *Offered) {
	for ended := false; ; {
		m, err := o.Receive()
		last := err != nil
		if last && ended {
			err = io.EOF // its agent may have ended as well
		}
		ended = ended || !last && m.Type == TypeEnded
		if last && err != io.EOF {
			err = fmt.Errorf("%v: its agent says nothing more about the run: %w", &r.targets[machine], err)
		}
		select {
		case r.reports <- Report{machine, m, err}:
		case <-r.closing:
		}
		if last {
			return
		}
	}
}

// Accepted is what a machine has reserved.
func (r *Run) Accepted(machine int) *Accepted { return r.offered[machine].Accepted }

// Begin lets the bridges open their sessions with each other and with the launcher's, which is machine -1. Peers is
// filled in.
func (r *Run) Begin(b Begin) error {
	b.Peers = nil
	for i, t := range r.targets {
		b.Peers = append(b.Peers, Peer{i, t.Name, t.Address})
	}
	return r.send(&Message{Type: TypeBegin, Begin: &b})
}

// Go lets the run outlive its streams: from now on the bridges' sessions decide when it ends.
func (r *Run) Go() error { return r.send(&Message{Type: TypeGo}) }

// Keep gives back all but so many slots of a machine, behind Go.
func (r *Run) Keep(machine, slots int) error {
	return r.sendTo(machine, &Message{Type: TypeKeep, Keep: &Keep{slots}})
}

// Done lets the bridges end in order: each when all of its sessions have.
func (r *Run) Done() error { return r.send(&Message{Type: TypeDone}) }

// Measure has a machine measure what lies between it and one with a higher number, to which both of its sessions are
// up: at most one at a time, and none after the first plan. It answers with measured.
func (r *Run) Measure(machine, to int) error {
	return r.sendTo(machine, &Message{Type: TypeMeasure, Measure: &Measure{Machine: to}})
}

func (r *Run) sendTo(machine int, m *Message) error {
	if err := r.offered[machine].Send(m); err != nil {
		return fmt.Errorf("%v: %v can't be sent: %w", &r.targets[machine], m.Type, err)
	}
	return nil
}

func (r *Run) send(m *Message) error {
	var all []error
	for i := range r.offered {
		all = append(all, r.sendTo(i, m))
	}
	return errors.Join(all...)
}

// Next gives the next report of any machine. Each gives one with an error as its last.
func (r *Run) Next(ctx context.Context) (Report, error) {
	select {
	case report := <-r.reports:
		return report, nil
	case <-ctx.Done():
		return Report{}, context.Cause(ctx)
	case <-r.closing:
		return Report{}, errors.New("offer: the run was closed")
	}
}

// Drop ends the stream of a machine that is lost, so that Close doesn't wait for its agent.
func (r *Run) Drop(machine int) { r.offered[machine].Close() }

// Close ends the streams. Before Go the run ends on all machines; those that answer have freed all when it returns.
func (r *Run) Close() {
	r.once.Do(func() {
		close(r.closing)
		var ends []func()
		for _, o := range r.offered {
			ends = append(ends, o.leave())
		}
		r.ended.Wait()
		for _, end := range ends {
			end()
		}
	})
}
