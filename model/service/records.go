// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"maps"
	"slices"

	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

var _ scenario.Recorder = (*Model)(nil)

// What boxes record of a request, whose number is the row's second word. Requests don't carry more for it: a run that
// is recorded sends the same events as one that isn't.
const (
	recordMade    = iota
	recordWaits   // for memory, or a core
	recordServed  // it waits no longer
	recordPassed  // it has left a server
	recordBack    // it has come back
	recordDropped // on the edge whose index among those of the box is the third word
)

// record records what has become of a request.
func record(p simproc, what uint64, number uint64, more int32) {
	if p.Recording() {
		p.Record(node.Row{what, number, uint64(more)})
	}
}

// Columns of records.
const (
	recordRequest = iota
	recordBegan
	recordEnded
	recordWaited
	recordServer
	recordServers
	recordOutcome
	recordEdge
)

// Outcomes of requests.
const (
	requestCompleted = iota
	requestDropped
	requestInFlight
)

var requestOutcomes = []string{"completed", "dropped", "in_flight"}

// RecordColumns implements scenario.Recorder: a row is a request.
func (m *Model) RecordColumns() []scenario.RecordColumn {
	return []scenario.RecordColumn{
		{Name: "request", Type: scenario.RecordInt}, {Name: "began_s", Type: scenario.RecordNumber},
		{Name: "ended_s", Type: scenario.RecordNumber}, {Name: "waited_s", Type: scenario.RecordNumber},
		{Name: "server", Type: scenario.RecordName, NameOf: func(n int) string { return m.topology.boxes[n].id }},
		{Name: "servers", Type: scenario.RecordInt},
		{Name: "outcome", Type: scenario.RecordName, NameOf: func(n int) string { return requestOutcomes[n] }},
		{Name: "edge", Type: scenario.RecordName, NameOf: func(n int) string { return m.spec.Edges[n].ID }},
	}
}

// requests makes rows of what was recorded of requests.
type requests struct {
	m       *Model
	reached float64
	flights map[uint64]int32 // by number: place in all
	all     []flight
	free    []int32 // places in all
}

// flight is a request that hasn't ended.
type flight struct {
	born, waited, since float64 // since: it waits from then on
	waits               bool
	server              int32 // that it has left last
	servers             int32
}

// Records implements scenario.Recorder.
func (m *Model) Records(reached float64) scenario.Records {
	return &requests{m: m, reached: reached, flights: map[uint64]int32{}}
}

// Take implements scenario.Records.
func (r *requests) Take(row *node.Recorded, w scenario.RecordWriter) error {
	what, number := row.Row[0], row.Row[1]
	place, there := r.flights[number]
	if there == (what == recordMade) || what > recordDropped {
		return fmt.Errorf("service: request %d at %v s, record %d: a request is made once, and first: a defect of "+
			"disco", number, row.Epoch, what)
	}
	if !there {
		if n := len(r.free); n > 0 {
			place, r.free = r.free[n-1], r.free[:n-1]
		} else {
			place = int32(len(r.all))
			r.all = append(r.all, flight{})
		}
		r.all[place], r.flights[number] = flight{born: row.Epoch}, place
		return nil
	}
	f, box := &r.all[place], r.m.graph.Endpoint(row.Simproc).Node
	switch what {
	case recordWaits:
		f.since, f.waits = row.Epoch, true
		return nil
	case recordServed:
		f.waited, f.waits = f.waited+(row.Epoch-f.since), false
		return nil
	case recordPassed:
		f.server, f.servers = int32(box), f.servers+1
		return nil
	}
	w.Number(recordEnded, row.Epoch)
	outcome := requestCompleted
	if what == recordDropped {
		edges := r.m.topology.boxes[box].out
		if row.Row[2] >= uint64(len(edges)) {
			return fmt.Errorf("service: request %d was dropped on edge %d of %d: a defect of disco", number, row.Row[2],
				len(edges))
		}
		outcome = requestDropped
		w.Name(recordEdge, edges[row.Row[2]])
	}
	delete(r.flights, number)
	r.free = append(r.free, place)
	return r.write(w, number, f, outcome)
}

// write writes what all rows have.
func (r *requests) write(w scenario.RecordWriter, number uint64, f *flight, outcome int) error {
	w.Int(recordRequest, int64(number))
	w.Number(recordBegan, f.born)
	w.Number(recordWaited, f.waited)
	if f.servers > 0 {
		w.Name(recordServer, int(f.server))
	}
	w.Int(recordServers, int64(f.servers))
	w.Name(recordOutcome, outcome)
	return w.Row()
}

// End implements scenario.Records: those in flight, in the order of birth.
func (r *requests) End(w scenario.RecordWriter) error {
	for _, number := range slices.Sorted(maps.Keys(r.flights)) {
		f := r.all[r.flights[number]]
		if f.waits {
			f.waited += r.reached - f.since
		}
		if err := r.write(w, number, &f, requestInFlight); err != nil {
			return err
		}
	}
	return nil
}
