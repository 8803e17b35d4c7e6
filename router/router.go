// SPDX-License-Identifier: Apache-2.0

// Package router is the seam between a worker and the ways to its peers: what such a way
// must be able to do, and which one leads to which worker. Shared memory is one kind of
// way (egress, ingress, idle); a network is another one. docs/HACKING.md, "A new link",
// says how one is added.
//
// Guarantee: sending takes no lock, looks nothing up but a place in a slice, and allocates
// nothing. What is sent where no link leads is an error that says so, never a silent drop.
//
//	r := router.New(self, senders)     // by peer; nil where no link leads
//	err := r.SendEvent(peer, &ev)
//	for _, s := range r.Senders() { … s.Flush() … }
package router

import (
	"fmt"

	"github.com/disco-sim/disco/envelope"
)

// Sender is the sending end of the one-way path to a peer. It belongs to the goroutine that
// sends. What it is sent arrives whole, once and in order, and a bound after the events
// before it. An error of any method ends the run.
type Sender interface {
	// SendEvent sends one event; it waits while there is no room, by calling what it was
	// given for that when it was made, whose error ends the waiting. The event and its data
	// may be used again when it returns.
	SendEvent(ev *envelope.Event) error

	// SendPromise sends a promise of single simprocs, in order with the events. It doesn't
	// wait where Room has reported room.
	SendPromise(p *envelope.Promise) error

	// Promise makes everything sent visible and then raises the bound on everything that
	// will be sent. The same bound again costs nothing; bounds never fall.
	Promise(epoch float64, level uint32) error

	// Flush makes everything sent visible to the peer and wakes it if it sleeps.
	Flush() error

	// Room is how many bytes of a record fit now: it may be too small, never too large. A
	// promise takes PromiseRoom. It rises without a call: whoever waits for it is woken.
	Room() int

	// Short reports whether room runs low: whoever has other work does that first.
	Short() bool

	// Check looks for damage that sending would not find, while there is nothing to send.
	Check() error

	// LargePayloads counts the events whose data went another way than in a record: in a
	// block that the peer reads in place, or in parts.
	LargePayloads() (blocks, parts uint64)

	// Reset takes the bound back for the next replication. Everything was flushed, and the
	// peer takes nothing in before both ends have reset.
	Reset()

	// Close makes everything sent visible and marks the end of what is sent.
	Close()
}

// PromiseRoom is how much of Room one promise takes: its bytes, and what stands around it.
const PromiseRoom = envelope.PromiseBytes + 16

// Receiver is the receiving end of the paths from all peers.
type Receiver interface {
	// Poll looks at all of them once, hands on what it finds, and returns how much that
	// was. An error says that a path has ended, and which.
	Poll(sink Sink) (int, error)

	// PollPeer is Poll for the path from one peer.
	PollPeer(sink Sink, peer int) (int, error)

	// Release ends a lease.
	Release(lease uint64) error

	// Check looks for damage that Poll would not find, and CheckReturns for damage that
	// Release would not find, each in the goroutine that calls the other one, while there is
	// nothing else to do.
	Check() error
	CheckReturns() error

	// Reset drops what is left and makes ready for the next replication, as Sender.Reset.
	Reset() error

	// Close ends all paths: nothing is taken in any more, and sending on them fails.
	Close()
}

// Sink gets what arrives. Its methods are called from within Poll and must not call
// Poll; Release is allowed.
type Sink interface {
	// ReceiveEvent gets one event. ev, ev.Headers and, with lease 0, ev.Data end with
	// the call. With another lease ev.Data are the sender's memory, and stay as they
	// are until the lease is given to Release, as it must be once. Nobody may write
	// into them.
	//
	// An error says that this peer's event can't be: an unknown target, or an epoch
	// below its bound. It ends the path and comes out of Poll; the lease, if there was
	// one, has then ended.
	ReceiveEvent(peer int, ev *envelope.Event, lease uint64) error

	// ReceivePromise gets a promise of single simprocs, in order with the events.
	ReceivePromise(peer int, p *envelope.Promise) error

	// ReceiveBound gets the peer's newest bound: everything that it sent before has
	// been received, and nothing still to come from it is earlier than (epoch, level).
	// Bounds rise.
	ReceiveBound(peer int, epoch float64, level uint32) error
}

// State is what a blocked worker says of itself.
type State struct {
	Epoch    float64 // of its next activation, +Inf: none
	Level    uint32
	Sent     uint64 // events that it has sent to other workers so far
	Received uint64 // events that it has taken in from other workers so far
}

// Detector finds the moments at which all workers of a run are blocked with no event under
// way (termination detection). Promises under way don't matter.
type Detector interface {
	// Post says that the worker is blocked in this state. Withdraw takes that back before
	// the worker takes in or handles another event.
	Post(st State)
	Withdraw()

	// Look reports whether there was such a moment during the call; then epoch and level are
	// the least next activation of all, +Inf when nobody has one.
	Look() (epoch float64, level uint32, ok bool, err error)

	// Check looks for damage to what this worker has posted.
	Check() error

	// Wake wakes all other workers that sleep: what they look for may be true now.
	Wake()
}

// Router has the senders to all peers. It never changes.
type Router struct {
	byPeer  []Sender
	senders []Sender // those that lead somewhere
	peers   []int    // where they lead
}

// New makes the router of worker self from its senders by peer, nil where no link leads.
func New(self int, byPeer []Sender) *Router {
	r := &Router{byPeer: make([]Sender, len(byPeer))}
	for peer, s := range byPeer {
		r.byPeer[peer] = s
		if s == nil {
			r.byPeer[peer] = noSender{from: self, to: peer}
			continue
		}
		r.senders, r.peers = append(r.senders, s), append(r.peers, peer)
	}
	return r
}

// SendEvent sends an event to a peer.
func (r *Router) SendEvent(peer int, ev *envelope.Event) error { return r.byPeer[peer].SendEvent(ev) }

// SendPromise sends a promise of single simprocs to a peer.
func (r *Router) SendPromise(peer int, p *envelope.Promise) error {
	return r.byPeer[peer].SendPromise(p)
}

// Senders are those that lead somewhere, and Peers the workers that they lead to, in the
// same order. The caller must not change them.
func (r *Router) Senders() []Sender { return r.senders }

// Peers says where Senders lead.
func (r *Router) Peers() []int { return r.peers }

// noSender stands where no link leads: at the worker itself, whose own events the Engine
// delivers without asking anybody, and at peers to which the scenario declares no link.
type noSender struct {
	Sender
	from, to int
}

// SendEvent implements Sender.
func (n noSender) SendEvent(ev *envelope.Event) error { return n.err(ev.String()) }

// SendPromise implements Sender.
func (n noSender) SendPromise(p *envelope.Promise) error { return n.err(p.String()) }

func (n noSender) err(what string) error {
	return fmt.Errorf("router: %s is to go from worker %d to worker %d, but no link leads there", what, n.from, n.to)
}
