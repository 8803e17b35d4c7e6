// SPDX-License-Identifier: Apache-2.0

package network

import (
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/model/timeline"
)

// outagesOf is of how many replications random events are looked at closely: every one of
// them is a row of its own.
const outagesOf = 128

// outage is one occurrence that is looked at closely: a planned one in all replications,
// a random one in its own.
type outage struct {
	occurrence
	replication           *int // of a random one
	before, during, after phase
}

// phase is what has happened in one stretch of time in the whole network, and on the
// links that an occurrence hits.
type phase struct {
	timeline.Window
	cables  map[int]bool
	seconds float64
	sent    int64
	lost    [causes]int64
	latency measure.Latencies

	channels            float64 // of cables
	carried, lostOn     int64   // by them
	busy, packetSeconds float64
}

// observe adds what one replication has seen around occurrences.
func (t *tally) observe(r *run) {
	first := len(t.rows) == 0
	for _, o := range t.outages {
		if o.replication == nil {
			t.around(o, r)
		}
	}
	if len(t.rows) >= outagesOf {
		return
	}
	for _, o := range r.detailed {
		random := t.m.spec.Events[o.event].Random
		if !first && !random {
			continue // was found in the first replication
		}
		row := &outage{occurrence: o}
		if random {
			index := r.Index // of its own: the run must not be kept
			row.replication = &index
		}
		cables := make(map[int]bool)
		for _, c := range t.m.spec.Events[o.event].Targets[o.target].Cables {
			cables[c] = true
		}
		before, during, after := timeline.Around(o.Window, t.m.Horizon())
		row.before.Window, row.during.Window, row.after.Window = before, during, after
		row.before.cables, row.during.cables, row.after.cables = cables, cables, cables
		t.around(row, r)
		t.outages = append(t.outages, row)
	}
}

func (t *tally) around(o *outage, r *run) {
	for _, p := range []*phase{&o.before, &o.during, &o.after} {
		if !p.Empty() {
			p.add(t.m.spec.Topology, r)
		}
	}
}

// add adds what a replication did in this time.
func (p *phase) add(topology *Topology, r *run) {
	lo, hi := r.spans.Within(p.Window)
	p.seconds += p.SecondsBefore(r.Reached)
	for s := lo; s < hi; s++ {
		p.latency.Merge(&r.bySpan[s])
		for _, rep := range r.reports {
			p.sent += rep.SentIn[s]
			for why, n := range rep.LostIn[s] {
				p.lost[why] += n
			}
		}
	}
	p.channels = 0
	for n := range topology.Nodes {
		for i, id := range topology.Out[n] {
			if !p.cables[topology.Channels[id].Cable] {
				continue
			}
			p.channels++
			c := &r.reports[n].Channels[i]
			for s := lo; s < hi && s < len(c.BusyIn); s++ {
				p.carried += c.CarriedIn[s]
				p.lostOn += c.LostIn[s]
				p.busy += c.BusyIn[s]
				p.packetSeconds += c.WaitIn[s]
			}
		}
	}
}

// outageResult compares the times around an occurrence.
func (t *tally) outageResult(o *outage) OutageResult {
	e := &t.m.spec.Events[o.event]
	target := &e.Targets[o.target]
	return OutageResult{
		targets: t.m.spec.Topology.drawn(target),
		ID:      e.ID, Kind: e.Kind, Target: target.Name, Replication: o.replication, Start: o.From, End: o.To,
		Before: o.before.result(), During: o.during.result(), After: o.after.result(),
	}
}

// result is nil for a time that the run doesn't have, or was interrupted before.
func (p *phase) result() *Phase {
	if p.Empty() || p.seconds == 0 {
		return nil
	}
	r := &Phase{
		From: p.From, To: p.To, SentPPS: per(float64(p.sent), p.seconds),
		DeliveredPPS: per(float64(p.latency.Count), p.seconds), Lost: lossesOf(p.lost),
	}
	if s := p.latency.Summary(); s != nil {
		r.LatencyMean, r.LatencyP95, r.LatencyP99 = &s.Mean, &s.P95, &s.P99
	}
	if p.channels > 0 {
		r.Links = &LinkPhase{
			CarriedPPS: per(float64(p.carried), p.seconds), Lost: p.lostOn,
			Utilisation: per(p.busy, p.seconds*p.channels), QueueMean: per(p.packetSeconds, p.seconds*p.channels),
		}
	}
	return r
}
