// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"fmt"
	"math"

	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

var _ scenario.Recorder = (*Model)(nil)

// A station records a customer when he arrives, since all is known then: when he has entered the network, when his
// service begins and ends, and 1 + the station that he goes to, 0 for none; lost for one who finds no place.
const lost = math.MaxUint64

// record records a customer whom a station has taken.
func (s *station) record(p *node.Simproc, entered, start, leaves float64, to *way) {
	next := uint64(0)
	if to != nil {
		next = 1 + uint64(to.station)
	}
	p.Record(node.Row{math.Float64bits(entered), math.Float64bits(start), math.Float64bits(leaves), next})
}

// Columns of records.
const (
	recordStation = iota
	recordEntered
	recordBegan
	recordServed
	recordEnded
	recordWaited
	recordOutcome
	recordTo
)

// Outcomes of visits.
const (
	visitLeft    = iota // the network
	visitWentOn         // to another station, or the same
	visitLost           // there was no place
	visitServing        // it is being served
	visitWaiting
)

var visitOutcomes = []string{"left", "went_on", "lost", "in_service", "waiting"}

// RecordColumns implements scenario.Recorder: a row is a customer at a station.
func (m *Model) RecordColumns() []scenario.RecordColumn {
	station := func(n int) string { return m.spec.Stations[n].ID }
	return []scenario.RecordColumn{
		{Name: "station", Type: scenario.RecordName, NameOf: station},
		{Name: "entered_s", Type: scenario.RecordNumber}, {Name: "began_s", Type: scenario.RecordNumber},
		{Name: "served_s", Type: scenario.RecordNumber}, {Name: "ended_s", Type: scenario.RecordNumber},
		{Name: "waited_s", Type: scenario.RecordNumber},
		{Name: "outcome", Type: scenario.RecordName, NameOf: func(n int) string { return visitOutcomes[n] }},
		{Name: "to", Type: scenario.RecordName, NameOf: station},
	}
}

// visitRows makes rows of what stations have recorded.
type visitRows struct {
	m       *Model
	reached float64
}

// Records implements scenario.Recorder.
func (m *Model) Records(reached float64) scenario.Records { return &visitRows{m, reached} }

// Take implements scenario.Records.
func (v *visitRows) Take(r *node.Recorded, w scenario.RecordWriter) error {
	entered, start, leaves := math.Float64frombits(r.Row[0]), math.Float64frombits(r.Row[1]),
		math.Float64frombits(r.Row[2])
	w.Name(recordStation, int(r.Simproc))
	w.Number(recordEntered, entered)
	w.Number(recordBegan, r.Epoch)
	next := r.Row[3]
	if next == lost {
		w.Number(recordEnded, r.Epoch)
		w.Name(recordOutcome, visitLost)
		return w.Row()
	}
	if next > uint64(len(v.m.spec.Stations)) {
		return fmt.Errorf("queueing: a customer at %v s goes to station %d of %d: a defect of disco", r.Epoch, next-1,
			len(v.m.spec.Stations))
	}
	w.Number(recordWaited, min(start, v.reached)-r.Epoch)
	if start < v.reached {
		w.Number(recordServed, start)
	}
	switch {
	case start >= v.reached:
		w.Name(recordOutcome, visitWaiting)
		return w.Row()
	case leaves >= v.reached:
		w.Name(recordOutcome, visitServing)
		return w.Row()
	}
	w.Number(recordEnded, leaves)
	w.Name(recordOutcome, min(int(next), visitWentOn))
	if next > 0 {
		w.Name(recordTo, int(next)-1)
	}
	return w.Row()
}

// End implements scenario.Records: rows of customers who are still there were written.
func (v *visitRows) End(scenario.RecordWriter) error { return nil }
