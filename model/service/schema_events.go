// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"

	"github.com/disco-sim/disco/scenario"
)

// The words of events.
const (
	serverDown = "server_down"
	serverUp   = "server_up"
	spikeStart = "network_spike_start"
	spikeEnd   = "network_spike_end"
)

// endOf maps the kind of a start to the kind of the end that belongs to it.
var endOf = map[string]string{serverDown: serverUp, spikeStart: spikeEnd}

// event is one entry of `events` before it becomes an Outage or a Spike.
type event struct {
	id, target        string
	kind              string // serverDown, spikeStart, or "" where it was refused
	start, end, extra float64
}

// eventAt is where in the file an event is.
type eventAt struct {
	event
	idAt, targetAt, startAt, endAt scenario.Value
	timesKnown                     bool // start and end were read well and are in order
}

func (l *loader) readEvents(v scenario.Value) {
	if !v.Present() {
		return
	}
	for _, item := range v.List() {
		l.events = append(l.events, l.readEvent(item))
	}
}

func (l *loader) readEvent(v scenario.Value) eventAt {
	s := v.Section("event_id", "target_id", "start", "end")
	start := s.Field("start").Section("kind", "t_start", "spike_s")
	end := s.Field("end").Section("kind", "t_end")
	e := eventAt{
		idAt: s.Field("event_id"), targetAt: s.Field("target_id"),
		startAt: start.Field("t_start"), endAt: end.Field("t_end"),
	}
	e.id = e.idAt.ID(idMax)
	e.target = e.targetAt.Text()
	e.kind = start.Field("kind").Word(serverDown, spikeStart)
	if kind := end.Field("kind").Word(serverUp, spikeEnd); kind != "" && e.kind != "" && kind != endOf[e.kind] {
		end.Field("kind").Refuse(kind, fmt.Sprintf("%s, the end of %s", endOf[e.kind], e.kind), "")
	}
	spike := start.Field("spike_s").OrNull()
	switch {
	case e.kind == spikeStart:
		e.extra = spike.Float(scenario.MoreThan(0).AtMost(secondsMax))
	case e.kind == serverDown && spike.Present():
		spike.Refuse("spike_s in a "+serverDown, "it only in a "+spikeStart, "remove it")
	}
	before := l.r.Refusals()
	e.start = e.startAt.Float(scenario.AtLeast(0).AtMost(secondsMax))
	e.end = e.endAt.Float(scenario.MoreThan(0).AtMost(secondsMax))
	e.timesKnown = l.r.Refusals() == before
	return e
}
