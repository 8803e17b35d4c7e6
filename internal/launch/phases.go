// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"time"

	"github.com/disco-sim/disco/internal/worker"
)

// Phases is how long each phase of a run took, in seconds on the wall. They follow one another, and add up to the time
// from the begin of Prepare to the end of Run, but for what lies between these two. Where there are several
// replications the phases from Wire on are sums over them; where these are spread over the workers, over those of the
// first worker.
type Phases struct {
	Read      float64 `json:"read_s"`        // parse the scenario and load its kind
	Compile   float64 `json:"compile_s"`     // check nodes and links, and bring them into columns
	Partition float64 `json:"partition_s"`   // give every node its worker
	Write     float64 `json:"write_s"`       // put scenario and graph where workers read them
	Start     float64 `json:"start_s"`       // start the workers, which open and check what is theirs
	Wire      float64 `json:"wire_s"`        // make nodes and their links
	First     float64 `json:"first_event_s"` // call each node at epoch 0, until the first event was handled
	Simulate  float64 `json:"simulate_s"`    // the other events
	Gather    float64 `json:"gather_s"`      // collect what the nodes report
	Results   float64 `json:"results_s"`     // add it up, end the workers, write the trace
}

// PhaseSpan is when a phase was, or the simulation of a replication from its begin to its results.
type PhaseSpan struct {
	Name         string // of the phase, or replication
	Began, Ended time.Time
	Replication  *Replication // nil: it is a phase
}

// clock measures the phases of one run. One goroutine at a time uses it.
type clock struct {
	Phases
	report func(PhaseSpan) // nil: nobody wants to know
	is     *float64        // the phase under way, nil: none
	since  time.Time
}

// newClock is a clock in the phase Read; report, if it isn't nil, gets what has ended.
func newClock(report func(PhaseSpan)) *clock {
	c := &clock{since: time.Now(), report: report}
	c.is = &c.Read
	return c
}

// enter ends the phase under way and begins one of c.Phases, nil: none.
func (c *clock) enter(phase *float64) {
	now := time.Now()
	if c.is != nil {
		*c.is += now.Sub(c.since).Seconds()
		c.span(c.is, c.since, now)
	}
	c.is, c.since = phase, now
}

// span tells of a phase that has ended.
func (c *clock) span(phase *float64, began, ended time.Time) {
	if c.report == nil {
		return
	}
	for name, is := range map[string]*float64{"read": &c.Read, "compile": &c.Compile, "partition": &c.Partition,
		"write": &c.Write, "start": &c.Start, "wire": &c.Wire, "first_event": &c.First, "simulate": &c.Simulate,
		"gather": &c.Gather, "results": &c.Results} {
		if is == phase {
			c.report(PhaseSpan{Name: name, Began: began, Ended: ended})
		}
	}
}

// simulated ends the phase First, which began with a replication whose results are there now, and divides it by what
// the workers say.
func (c *clock) simulated(answers []*worker.Message) {
	began, all := c.since, time.Since(c.since).Seconds()
	c.is = nil
	c.enter(&c.Results)
	first, events := all, 0.0
	for _, a := range answers {
		s := &a.Done.Stats
		events = max(events, s.WallSeconds-s.ReportSeconds)
		if a.Done.First > 0 {
			first = min(first, a.Done.First)
		}
	}
	events = min(events, all)
	first = min(first, events)
	c.First += first
	c.Simulate += events - first
	c.Gather += all - events
	at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }
	c.span(&c.First, began, at(first))
	c.span(&c.Simulate, at(first), at(events))
	c.span(&c.Gather, at(events), at(all))
}
