// SPDX-License-Identifier: Apache-2.0

// Package perfetto writes what workers were at as a trace that https://ui.perfetto.dev and trace_processor open.
//
// It is messages of Perfetto's protobuf "Trace" (protos/perfetto/trace in its repository, whose field numbers these
// are), with names that are written once. protowire would bring a package that simulations don't link for the four
// lines that it has here.
//
// Guarantee: what is written depends on the run that it gets and on nothing else, and takes memory for one packet.
//
//	err := perfetto.Write(w, &perfetto.Run{Facts: facts, Workers: workers})
package perfetto

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/disco-sim/disco/internal/spans"
)

// Run is what is written.
type Run struct {
	Facts   []Fact // about all of it: arguments of the first event
	Workers []Worker
}

// Fact is a thing to know, and its name.
type Fact struct{ Name, Value string }

// Worker is one of the run.
type Worker struct {
	Number int
	First  int    // number of the first worker of those that it simulates with: spans count peers from there
	PID    int    // its process; 0: not known
	On     string // "": the launcher's
	Lines  *spans.Lines
}

// Numbers of fields, by message.
const (
	tracePacket = 1

	packetTimestamp  = 8
	packetSequence   = 10
	packetEvent      = 11
	packetInterned   = 12
	packetFlags      = 13
	packetDescriptor = 60

	flagCleared, flagNeeds = 1, 2 // SequenceFlags

	eventAnnotation = 4
	eventType       = 9
	eventName       = 10 // by its number
	eventTrack      = 11
	eventText       = 23 // its name
	eventCount      = 30
	eventNumber     = 44

	typeBegin, typeEnd, typeInstant, typeCounter = 1, 2, 3, 4

	annotationName   = 1 // by its number
	annotationCount  = 3
	annotationNumber = 5
	annotationString = 6
	annotationText   = 10 // its name

	internedEvents      = 2
	internedAnnotations = 3
	internedID          = 1
	internedName        = 2

	trackUUID    = 1
	trackName    = 2
	trackProcess = 3
	trackParent  = 5
	trackCounter = 8
	trackOrder   = 11 // ChildTracksOrdering
	trackRank    = 12
	orderRanks   = 3 // EXPLICIT

	processPID, processName = 1, 6
	counterUnit             = 6 // its name
)

// The tracks of a worker: its uuid is the worker's, and one of these.
const (
	trackWorker = iota
	trackStates
	trackSleeps
	trackRuns
	trackEpoch
	trackEvents
	trackPending
	tracksOfOne = 16
)

// Write writes all of it.
func Write(w io.Writer, r *Run) error {
	p := &writer{to: w}
	p.about(r)
	for i := range r.Workers {
		p.worker(&r.Workers[i], r.Origin(r.Workers[i].On))
	}
	return p.err
}

// Origin is when the clock of a machine begins in what is written: with the first thing that one of its workers was at.
func (r *Run) Origin(machine string) int64 {
	origin := int64(math.MaxInt64)
	for i := range r.Workers {
		w := &r.Workers[i]
		if all := w.Lines.States.All(); w.On == machine && len(all) > 0 {
			origin = min(origin, all[0].Begin)
		}
	}
	return origin
}

// writer writes packets. After an error it does nothing.
type writer struct {
	to  io.Writer
	err error
	buf []byte

	sequence uint64
	origin   int64
	base     uint64 // uuid of the worker's first track
	events   names
	args     names
	fresh    []byte // interned data that the next packet has
	begun    bool
}

// names are those that a sequence has been told, by number.
type names struct {
	ids   map[string]uint64
	field uint64
}

// id is the number of a name, which goes into fresh when it is new.
func (p *writer) id(n *names, name string) uint64 {
	if id, ok := n.ids[name]; ok {
		return id
	}
	id := uint64(len(n.ids) + 1)
	n.ids[name] = id
	p.fresh = message(p.fresh, n.field, func(b []byte) []byte {
		return text(number(b, internedID, id), internedName, name)
	})
	return id
}

// Types of fields, as they stand in front of each.
const (
	typeVarint = 0
	type64     = 1
	typeBytes  = 2
)

func number(b []byte, field, v uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, field<<3|typeVarint), v)
}

func real(b []byte, field uint64, v float64) []byte {
	return binary.LittleEndian.AppendUint64(binary.AppendUvarint(b, field<<3|type64), math.Float64bits(v))
}

func text(b []byte, field uint64, s string) []byte {
	return append(binary.AppendUvarint(binary.AppendUvarint(b, field<<3|typeBytes), uint64(len(s))), s...)
}

func message(b []byte, field uint64, fields func([]byte) []byte) []byte {
	return nested(b, field, fields(nil))
}

func nested(b []byte, field uint64, body []byte) []byte {
	return append(binary.AppendUvarint(binary.AppendUvarint(b, field<<3|typeBytes), uint64(len(body))), body...)
}

// packet writes one, with what is new of names.
func (p *writer) packet(fields func([]byte) []byte) {
	if p.err != nil {
		return
	}
	body := fields(nil)
	body = number(body, packetSequence, p.sequence)
	flags := uint64(flagNeeds)
	if !p.begun {
		flags |= flagCleared
	}
	p.begun = true
	body = number(body, packetFlags, flags)
	if len(p.fresh) > 0 {
		body = nested(body, packetInterned, p.fresh)
		p.fresh = p.fresh[:0]
	}
	p.buf = nested(p.buf[:0], tracePacket, body)
	_, p.err = p.to.Write(p.buf)
}

// begin begins a sequence, whose names are its own.
func (p *writer) begin(sequence int, origin int64) {
	p.sequence, p.origin, p.begun, p.fresh = uint64(sequence)+1, origin, false, nil
	p.base = p.sequence * tracksOfOne
	p.events, p.args = names{map[string]uint64{}, internedEvents}, names{map[string]uint64{}, internedAnnotations}
}

// about writes what there is to know of the run, as an event of its own track at the begin.
func (p *writer) about(r *Run) {
	p.begin(0, 0)
	p.packet(func(b []byte) []byte {
		return message(b, packetDescriptor, func(b []byte) []byte {
			return text(number(b, trackUUID, p.base), trackName, "about this run")
		})
	})
	p.packet(func(b []byte) []byte {
		b = number(b, packetTimestamp, 0)
		return message(b, packetEvent, func(b []byte) []byte {
			b = text(number(number(b, eventType, typeInstant), eventTrack, p.base), eventText, "about this run")
			for _, f := range r.Facts {
				b = message(b, eventAnnotation, func(b []byte) []byte {
					return text(text(b, annotationText, f.Name), annotationString, f.Value)
				})
			}
			return b
		})
	})
}

// worker writes the tracks of one.
func (p *writer) worker(w *Worker, origin int64) {
	p.begin(w.Number+1, origin)
	name := fmt.Sprintf("worker %d", w.Number)
	if w.PID != 0 {
		name += fmt.Sprintf(", process %d", w.PID)
	}
	if w.On != "" {
		name += " on " + w.On
	}
	p.packet(func(b []byte) []byte {
		return message(b, packetDescriptor, func(b []byte) []byte {
			b = number(b, trackUUID, p.base+trackWorker)
			b = message(b, trackProcess, func(b []byte) []byte { // real numbers of several machines may be the same
				return text(number(b, processPID, uint64(w.Number)+1), processName, name)
			})
			return number(b, trackOrder, orderRanks)
		})
	})
	for _, t := range []struct {
		track uint64
		name  string
	}{{trackRuns, "replication"}, {trackStates, "what it does"}, {trackSleeps, "asleep"}} {
		p.track(t.track, t.name, nil)
	}
	for _, t := range []struct {
		track      uint64
		name, unit string
	}{{trackEpoch, "simulated time", "s"}, {trackEvents, "events/s", "1/s"}, {trackPending, "pending", "events"}} {
		p.track(t.track, t.name, func(b []byte) []byte {
			return message(b, trackCounter, func(b []byte) []byte { return text(b, counterUnit, t.unit) })
		})
	}
	p.spans(trackRuns, w, &w.Lines.Runs)
	p.spans(trackStates, w, &w.Lines.States)
	p.spans(trackSleeps, w, &w.Lines.Sleeps)
	p.samples(w.Lines.Samples.All())
}

func (p *writer) track(track uint64, name string, more func([]byte) []byte) {
	p.packet(func(b []byte) []byte {
		return message(b, packetDescriptor, func(b []byte) []byte {
			b = number(number(b, trackUUID, p.base+track), trackParent, p.base+trackWorker)
			b = number(text(b, trackName, name), trackRank, track)
			if more != nil {
				b = more(b)
			}
			return b
		})
	})
}

// event writes one of a track.
func (p *writer) event(at int64, track, kind uint64, more func([]byte) []byte) {
	p.packet(func(b []byte) []byte {
		b = number(b, packetTimestamp, uint64(max(0, at-p.origin)))
		return message(b, packetEvent, func(b []byte) []byte {
			b = number(number(b, eventType, kind), eventTrack, p.base+track)
			if more != nil {
				b = more(b)
			}
			return b
		})
	})
}

// spans writes a track of spans.
func (p *writer) spans(track uint64, w *Worker, t *spans.Track) {
	for i := range t.All() {
		s := &t.All()[i]
		p.event(s.Begin, track, typeBegin, func(b []byte) []byte {
			b = number(b, eventName, p.id(&p.events, nameOf(s, w)))
			if s.Kind == spans.Replication && s.Count == 1 {
				return p.count(b, "number", uint64(s.Arg))
			}
			if s.Count == 1 {
				return b
			}
			b = p.count(b, "spans in one", uint64(s.Count))
			if s.Kind == spans.Replication || s.Kind == spans.Parked {
				return p.nanos(b, "together", s.Nanos[spans.Other])
			}
			for c, nanos := range s.Nanos {
				b = p.nanos(b, sortNames[c], nanos)
			}
			return b
		})
		p.event(s.End, track, typeEnd, nil)
	}
}

func (p *writer) count(b []byte, name string, v uint64) []byte {
	return message(b, eventAnnotation, func(b []byte) []byte {
		return number(number(b, annotationName, p.id(&p.args, name)), annotationCount, v)
	})
}

func (p *writer) nanos(b []byte, name string, nanos int64) []byte {
	return message(b, eventAnnotation, func(b []byte) []byte {
		return real(number(b, annotationName, p.id(&p.args, name+" ms")), annotationNumber, float64(nanos)/1e6)
	})
}

var sortNames = [spans.Sorts]string{spans.Handling: "handling", spans.Blocked: "blocked",
	spans.AtFull: "waiting for room", spans.Other: "other"}

var kindNames = [spans.Kinds]string{spans.Rest: "at rest", spans.Work: "handling", spans.OnPeer: "blocked",
	spans.Full: "waiting for room", spans.Paused: "stopped, waits for the common end",
	spans.Gather: "gathering results", spans.Ahead: "ahead of the others", spans.Held: "at the end of a leg",
	spans.Outside: "waiting for an answer from outside", spans.Prepare: "making nodes",
	spans.Save: "saving a checkpoint", spans.Replication: "replication", spans.Parked: "asleep"}

// nameOf is what a span is called: by kind and peer, so that there are few names.
func nameOf(s *spans.Span, w *Worker) string {
	name := kindNames[s.Kind]
	switch {
	case s.Kind == spans.Replication && s.Count > 1:
		return "replications"
	case s.Kind == spans.Replication, s.Kind == spans.Parked:
		return name
	case s.Count > 1:
		return "mostly " + sortNames[s.Longest()]
	case s.Arg == 0:
		return name
	case s.Kind == spans.OnPeer:
		return fmt.Sprintf("blocked on worker %d", int64(w.First)+s.Arg-1)
	case s.Kind == spans.Full:
		return fmt.Sprintf("waiting for room to worker %d", int64(w.First)+s.Arg-1)
	}
	return name
}

// samples writes the counters.
func (p *writer) samples(all []spans.Sample) {
	value := func(at int64, track uint64, v float64) {
		p.event(at, track, typeCounter, func(b []byte) []byte { return real(b, eventNumber, v) })
	}
	for i, s := range all {
		if !math.IsInf(s.Epoch, 0) {
			value(s.At, trackEpoch, s.Epoch)
		}
		p.event(s.At, trackPending, typeCounter, func(b []byte) []byte { return number(b, eventCount, s.Pending) })
		if i+1 == len(all) {
			break
		}
		next := all[i+1]
		events := next.Events
		if events >= s.Events { // else another replication has begun
			events -= s.Events
		}
		if d := next.At - s.At; d > 0 { // of the time behind it, as Perfetto draws it
			value(s.At, trackEvents, float64(events)*1e9/float64(d))
		}
	}
}

// Merged is how many spans of the workers have become one with others, and how many these are now.
func (r *Run) Merged() (of, are uint64) {
	for i := range r.Workers {
		l := r.Workers[i].Lines
		for _, t := range []*spans.Track{&l.States, &l.Sleeps, &l.Runs} {
			for _, s := range t.All() {
				if s.Count > 1 {
					of, are = of+uint64(s.Count), are+1
				}
			}
		}
	}
	return of, are
}
