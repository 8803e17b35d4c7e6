// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/disco-sim/disco/node"
)

// What a worker does, as its board and its Status say.
const (
	StateRest    = iota // between replications
	StateWork           // handles events, or looks for some
	StateBound          // waits for the bound of a peer
	StateRoom           // waits for room in the ring to a peer
	StatePaused         // was stopped, and waits for the common end
	StateGather         // gathers its results: the replication is over for all workers
	StateAhead          // is so far ahead of the others that it waits for them
	StateHeld           // has come to the end of a leg, as all others have
	StateOutside        // a handler waits for an answer of the outside world
)

// stateNames are StateRest and so on in words.
var stateNames = [...]string{"at rest", "working", "waiting for a bound", "waiting for room", "stopped",
	"gathering its results", "ahead of the others", "at the end of a leg", "waiting for an answer from outside"}

// StateName is a state of a board in words.
func StateName(state uint64) string {
	if state < uint64(len(stateNames)) {
		return stateNames[state]
	}
	return fmt.Sprintf("state %d", state)
}

// Status is what a worker reports about itself when it is asked: what it does, and what it
// waits for. A worker whose handler doesn't return is described from outside the duty
// cycle: then Text is where its code stands.
type Status struct {
	State       int
	Peer        int     // the peer that it waits for, -1: none that is known
	Activations uint64  // handlers called in this replication
	Handler     string  // the simproc whose handler is being called, as <node>/<simproc>; empty: none
	Epoch       float64 // of that call, or before which everything is handled
	Text        string  // lines: what it waits for, or the stack of the handler
}

// statusTimeout is how long the duty cycle has to answer for itself. One that waits
// does so within microseconds when it is woken; one that works between two batches.
const statusTimeout = 200 * time.Millisecond

// statusRequest is what the control goroutine and the cycle share of a Status.
type statusRequest struct {
	asked  atomic.Bool
	answer chan Status // of one
	engine atomic.Pointer[node.Engine]
}

// status is the worker's status, from the cycle if it answers in time. It is called by a
// goroutine of its own, one at a time.
func (r *replications) status() Status {
	c := r.cycle
	select { // an answer that came too late the last time
	case <-c.ask.answer:
	default:
	}
	c.ask.asked.Store(true)
	r.wake()
	select {
	case s := <-c.ask.answer:
		return s
	case <-time.After(statusTimeout):
	}
	s := Status{State: StateRest, Peer: -1}
	e := c.ask.engine.Load()
	if e == nil {
		return s
	}
	s.State = StateWork
	s.Handler, s.Epoch, s.Activations = e.Glance()
	s.Text = handlerStack()
	return s
}

// sendStatus gives the cycle's status to status, when it was asked for.
func (c *cycle) sendStatus(state, peer int) {
	if !c.ask.asked.Swap(false) {
		return
	}
	s := Status{State: state, Peer: peer, Activations: c.engine.Stats().Activations, Epoch: c.engine.Reached()}
	if s.State == StateBound {
		s.Peer = c.engine.Limiting()
	}
	if math.IsInf(s.Epoch, 1) {
		s.Epoch = c.horizon // everything is handled; messages carry finite numbers
	}
	s.Handler, _, _ = c.engine.Glance()
	switch state {
	case StateWork:
	case StateOutside:
		s.Text = c.outside.text()
	default:
		s.Text = c.engine.Waiting()
	}
	select {
	case c.ask.answer <- s:
	default: // it is no longer waited for
	}
}

// stackLines is how much of a handler's stack a Status shows.
const stackLines = 24

// handlerStack is where the handlers that are being called in this process stand: the
// frames above the engine's, which are the model's own.
func handlerStack() string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var found []string
	for _, one := range strings.Split(string(buf), "\n\n") {
		_, frames, _ := strings.Cut(one, "\n")
		if own, _, ok := strings.Cut(frames, "github.com/disco-sim/disco/node.(*Engine).activate("); ok {
			lines := strings.Split(strings.TrimSuffix(own, "\n"), "\n")
			found = append(found, strings.Join(lines[:min(len(lines), stackLines)], "\n"))
		}
	}
	return strings.Join(found, "\n")
}
