// SPDX-License-Identifier: Apache-2.0

package node

import (
	"math/rand/v2"
)

// Model is what a person writes in Go: a structure, and what each simproc does.
// They must depend on nothing but the model's own value, so that every worker sees the same.
type Model interface {
	// Graph is the structure. Its result isn't changed afterwards. The launcher of a run asks
	// for it; workers share what was made of it, and NewHandler may not count on the call.
	Graph() *Graph

	// NewHandler makes the logic of one simproc that this worker hosts. It may
	// resolve links and random streams of p; it can't send.
	NewHandler(p *Simproc) (Handler, error)
}

// Handler is the logic of one simproc. Only one call on it is under way at a time.
type Handler interface {
	// Handle is called once at epoch 0, with or without events, and then once for
	// every epoch that has events for this simproc or a wakeup. It gets all events
	// of the epoch in the total order (sender node, sender rank, sender's number).
	// events and the memory behind it end with the call: copy what you keep. The memory is
	// for reading: others may share it. The checked build ends the run where a handler
	// writes into it or has kept it, and where another goroutine calls a method of p.
	// An error ends the run; it should say what went wrong in the model's words. So does a
	// panic. Either is reported with simproc, epoch and events, a panic with its stack too.
	Handle(p *Simproc, events []Event) error
}

// Reporter is a Handler that has results. Report is called once, after the last
// Handle, also when the run was interrupted (p.Now() says how far it came). The
// bytes reach the launcher and the scenario's Accumulator, which sees the parts of
// all simprocs in the order of their ids, whoever hosted them. They are copied before
// another simproc is asked.
type Reporter interface {
	Report(p *Simproc) ([]byte, error)
}

// Event is what a handler gets.
type Event struct {
	Epoch   float64   // simulated seconds; the same for all events of one call
	Sender  SimprocID // who sent it; the simproc itself for Schedule
	Number  uint64    // the sender's own number: 0, 1, 2, … over all its sends
	Headers []byte    // encoded (envelope.Header reads them), nil for none
	Data    []byte    // ends with the call
}

// LinkID is a declared link, resolved once at wiring time.
type LinkID int32

// Serializer turns what a model sends into bytes and back. A Model may be one: then
// NodeController.SendEvent uses it.
type Serializer interface {
	// Marshal appends the bytes of v to dst and returns the extended slice.
	Marshal(dst []byte, v any) ([]byte, error)
	// Unmarshal reads into v, a pointer, what Marshal wrote.
	Unmarshal(src []byte, v any) error
}

// StreamSource is the source behind one random stream of a node: it satisfies
// math/rand/v2.Source, which gonum's distributions take.
type StreamSource = rand.Source
