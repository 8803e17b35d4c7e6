// SPDX-License-Identifier: Apache-2.0

package node

import "slices"

// Journal is a Tracer that also takes what activations did, in the model's words: for people who look for a mistake.
type Journal interface {
	Tracer

	// Wants reports whether what a simproc does is wanted, always the same.
	Wants(p SimprocID) bool

	// Did takes what one activation did, behind its events and its wakeup. words end with the call.
	Did(class int, level uint32, p SimprocID, epoch float64, words []byte)
}

// SentCounter is a Journal that also takes how many events a simproc has sent, for those that it wants.
type SentCounter interface {
	Journal

	// Sent takes the number of events that a simproc has sent up to the end of a call, in all: the next one has that
	// number.
	Sent(class int, level uint32, p SimprocID, epoch float64, count uint64)
}

// Journaler is a Handler that can keep a journal of what it does. Where nobody wants one, StartJournal isn't called,
// and nothing should be kept.
type Journaler interface {
	Handler

	// StartJournal begins the journal. It is called once, before the first Handle.
	StartJournal()

	// Journal is what was done since the last call, a line for each thing, every one of them with its newline; it is
	// called after each Handle, and its bytes may change with the next.
	Journal() []byte
}

// sentCounter is a Tracer that takes how many events were sent; nil: it doesn't.
func sentCounter(t Tracer) SentCounter {
	counter, _ := t.(SentCounter)
	return counter
}

// startJournal asks for the journal of p's handler, which was just made, if it is wanted.
func (e *Engine) startJournal(p *Simproc) {
	if journal, ok := e.cfg.Trace.(Journal); ok {
		if j, can := p.handler.(Journaler); can && journal.Wants(p.id) {
			j.StartJournal()
			e.journals = true
		}
	}
}

// handled passes what an activation did to the journal, and ends the memory of its events where that is to be seen.
func (e *Engine) handled(class int, p *Simproc) {
	for i := range e.fleeting {
		e.fleeting[i] = 0xA5
	}
	e.fleeting = e.fleeting[:0]
	if e.sent != nil {
		e.sent.Sent(class, p.level(), p.id, p.now, p.number)
	}
	if !e.journals {
		return
	}
	journal := e.cfg.Trace.(Journal)
	if j, ok := p.handler.(Journaler); ok && journal.Wants(p.id) {
		if words := j.Journal(); len(words) > 0 {
			journal.Did(class, p.level(), p.id, p.now, words)
		}
	}
}

// flee moves what a handler gets into memory that handled overwrites.
func (e *Engine) flee() {
	size := 0
	for i := range e.events {
		size += len(e.events[i].Headers) + len(e.events[i].Data)
	}
	e.fleeting = slices.Grow(e.fleeting[:0], size)
	move := func(b []byte) []byte {
		from := len(e.fleeting)
		e.fleeting = append(e.fleeting, b...)
		return e.fleeting[from:len(e.fleeting):len(e.fleeting)]
	}
	for i := range e.events {
		ev := &e.events[i]
		ev.Headers, ev.Data = move(ev.Headers), move(ev.Data)
	}
}
