// SPDX-License-Identifier: Apache-2.0

// Package relay joins the launcher's child of a run over machines with the workers of these machines: it carries what
// docs/format/child.md describes, with control streams, traces, profiles, boards and the input, over the two sessions
// between the child and each machine: docs/format/relay.md.
//
// The child has a Hub, whose sets are those that package child asks a Host for. Each machine has a Spoke, which calls a
// Site: whatever runs workers there. Between both, bytes of a worker travel in a window of their own, so that a reader
// that is slow holds nothing else.
//
// Guarantee: control messages, output, traces and profiles arrive whole, once and in order, whatever becomes of
// connections. What a worker has traced is in the launcher's file before its "done" is passed on; all that it has
// written is there, and its board shows its end, before its exit is reported. Nothing waits for what can't come any
// more: the end of a session, of a set and of the relay ends every wait for it. Memory is bounded by the windows; what
// a peer has sent is bounded before it is used.
//
//	hub := relay.NewHub(relay.HubConfig{Machines: machines, To: launcher, MakeTimeout: time.Minute})
//	workers, remark, err := hub.Make(order) // of child.Host
//	hub.Close()
//
//	spoke := relay.NewSpoke(relay.SpokeConfig{Machine: 2, Sessions: sessions, Site: site})
//	spoke.Exit(set, worker, exit, lanes) // by the site
//	spoke.Close()
package relay

import (
	"github.com/disco-sim/disco/internal/child"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
)

// Reporter is where reports about workers go: a Spoke takes those of its Site, and *child.Launcher those of a Hub. Any
// goroutine may call it.
type Reporter interface {
	// Output passes on what a worker has written to its standard output and error. The caller keeps its bytes in order.
	// It may wait until there is room for them.
	Output(set, worker int, bytes []byte)
	// Exit reports, once, the end of a worker that was started: all of its output has been passed on, and its board
	// shows the end. lanes are those to its peers as they stood then, of one that has ended badly. It may wait as
	// Output does.
	Exit(set, worker int, exit workerproc.Exit, lanes []child.Lane)
	// Note shows people a line.
	Note(text string)
	// Fail ends the run; with child.Refuse, as something that its caller can change; with a *LossError, because a
	// machine is lost.
	Fail(err error)
}

// LossError is an error for Fail that is about another machine, which can't be reached any more.
type LossError struct {
	Machine int
	Text    string
}

// Error says which machine has lost it, and how.
func (e *LossError) Error() string { return e.Text }

// Launcher is whom a Hub reports to: *child.Launcher is one.
type Launcher interface {
	Reporter
	// Lost reports that a machine can't be reached any more. Its workers are taken for ended.
	Lost(machine int, text string)
}

// Site is what runs workers on a machine.
type Site interface {
	// Make makes the memory of a set on this machine. The order's Input has all of its bytes, and may be shared with
	// other sets; it has no Boards. remark is for people, "": none. One goroutine calls it for each set, several at a
	// time for different ones. An error ends the run; with child.Refuse, as something that its caller can change.
	Make(o child.Order, to Reporter) (w Workers, remark string, err error)
}

// Workers are those of a set on one machine. The methods of child.Workers are called by one goroutine. Each worker that
// was started is reported once by Reporter.Exit, unless Close is called before it has ended; what is reported of a set
// behind the call of Close is dropped, and waits for nothing.
type Workers interface {
	child.Workers

	// Numbers appends what a worker shows on its board: worker.AppendNumbers. Any goroutine may call it for one that
	// was started, until Close is called, or its Exit has returned.
	Numbers(worker int, to []uint64) ([]uint64, error)

	// Control is called before a control message of that type is passed on to a worker; anew: its lanes begin
	// anew with it. Calls for one worker are in order, by one goroutine; those for several may
	// be at the same time. An error ends the run, and the message isn't passed on.
	Control(worker int, t worker.MessageType, anew bool) error
}

var (
	_ Launcher = (*child.Launcher)(nil)
	_ Reporter = (*Spoke)(nil)
)
