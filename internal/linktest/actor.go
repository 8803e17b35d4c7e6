// SPDX-License-Identifier: Apache-2.0

package linktest

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/disco-sim/disco/router"
)

// Actor is the Victim of links whose workers are goroutines, and what a Remote drives in
// the other process. It stops where it is told to and never cleans up after itself.
type Actor struct {
	t     testing.TB // may be nil
	self  int
	out   []router.Sender
	lanes []outbox
	inbox *inbox
	claim func(to, size int) error

	stop      atomic.Bool
	streaming sync.WaitGroup
}

// NewActor makes the victim self of a mesh that has its ends. claim takes room for a
// record and never fills it; nil where a link can't be caught doing that.
func NewActor(t testing.TB, m *Ends, self int, claim func(to, size int) error) *Actor {
	a := &Actor{t: t, self: self, out: m.Out[self], inbox: newInbox(m, self), claim: claim}
	for to := range m.Out {
		a.lanes = append(a.lanes, outbox{from: self, to: to})
	}
	return a
}

// Step is one step of an Actor's life, as Serve reads it.
type Step struct {
	Do    string // send, stage, claim, lease or stream
	To    int
	Count int
	Size  int
}

// do takes one step.
func (a *Actor) do(s Step) error {
	switch s.Do {
	case "send", "stage":
		for range s.Count {
			if err := a.out[s.To].SendEvent(a.lanes[s.To].next(s.Size)); err != nil {
				return err
			}
		}
		if s.Do == "send" {
			return a.out[s.To].Flush()
		}
		return nil
	case "claim":
		if a.claim == nil {
			return nil
		}
		return a.claim(s.To, s.Size)
	case "lease":
		a.inbox.hold = true
		for deadline := newDeadline(); len(a.inbox.leases) < s.Count; {
			if n, err := a.inbox.in.Poll(a.inbox); err != nil {
				return err
			} else if n == 0 && deadline.passed() {
				return fmt.Errorf("linktest: %d leases, want %d", len(a.inbox.leases), s.Count)
			}
			runtime.Gosched()
		}
		return nil
	case "stream":
		a.streaming.Add(1)
		go a.stream(s.To, s.Size)
		return nil
	}
	return fmt.Errorf("linktest: unknown step %q", s.Do)
}

// stream sends and receives until it dies. Full lanes and empty pools are no trouble.
func (a *Actor) stream(to, size int) {
	defer a.streaming.Done()
	o := &a.lanes[to]
	for n := 0; !a.stop.Load(); n++ {
		if err := a.out[to].SendEvent(o.next(n % (size + 1))); err != nil {
			o.unsent()
			runtime.Gosched()
		}
		if n%8 == 7 {
			_ = a.out[to].Flush() // an end of the lane shows in what the survivors see
		}
		_, _ = a.inbox.in.Poll(a.inbox)
	}
}

func (a *Actor) step(s Step) {
	a.t.Helper()
	if err := a.do(s); err != nil {
		a.t.Fatalf("%+v: %v", s, err)
	}
}

// Send implements Victim.
func (a *Actor) Send(to, count, size int) { a.step(Step{"send", to, count, size}) }

// Stage implements Victim.
func (a *Actor) Stage(to, count, size int) { a.step(Step{"stage", to, count, size}) }

// Claim implements Victim.
func (a *Actor) Claim(to, size int) { a.step(Step{"claim", to, 1, size}) }

// Lease implements Victim.
func (a *Actor) Lease(count int) { a.step(Step{Do: "lease", Count: count}) }

// Stream implements Victim.
func (a *Actor) Stream(to, size int) { a.step(Step{Do: "stream", To: to, Size: size}) }

// Kill implements Victim: a goroutine dies by doing nothing any more.
func (a *Actor) Kill() {
	a.stop.Store(true)
	a.streaming.Wait()
}

// Serve takes the steps that a Remote sends, until the stream ends: the life of a victim
// that is a process of its own.
func (a *Actor) Serve(steps io.Reader, answers io.Writer) error {
	in, out := json.NewDecoder(steps), json.NewEncoder(answers)
	for {
		var s Step
		if err := in.Decode(&s); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		answer := ""
		if err := a.do(s); err != nil {
			answer = err.Error()
		}
		if err := out.Encode(answer); err != nil {
			return err
		}
	}
}

// Remote is the Victim in another process, which has called Serve on its Actor.
type Remote struct {
	T       testing.TB
	Steps   io.Writer // to the other process
	Answers io.Reader // from it
	Die     func()    // kills it, and returns when it is dead
	answers *json.Decoder
}

func (r *Remote) step(s Step) {
	r.T.Helper()
	if r.answers == nil {
		r.answers = json.NewDecoder(r.Answers)
	}
	var answer string
	if err := json.NewEncoder(r.Steps).Encode(s); err != nil {
		r.T.Fatalf("%+v: %v", s, err)
	}
	if err := r.answers.Decode(&answer); err != nil {
		r.T.Fatalf("%+v: no answer: %v", s, err)
	}
	if answer != "" {
		r.T.Fatalf("%+v: %s", s, answer)
	}
}

// Send implements Victim.
func (r *Remote) Send(to, count, size int) { r.step(Step{"send", to, count, size}) }

// Stage implements Victim.
func (r *Remote) Stage(to, count, size int) { r.step(Step{"stage", to, count, size}) }

// Claim implements Victim.
func (r *Remote) Claim(to, size int) { r.step(Step{"claim", to, 1, size}) }

// Lease implements Victim.
func (r *Remote) Lease(count int) { r.step(Step{Do: "lease", Count: count}) }

// Stream implements Victim.
func (r *Remote) Stream(to, size int) { r.step(Step{Do: "stream", To: to, Size: size}) }

// Kill implements Victim.
func (r *Remote) Kill() { r.Die() }

var (
	_ Victim      = (*Actor)(nil)
	_ Victim      = (*Remote)(nil)
	_ router.Sink = (*inbox)(nil)
)
