// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/disco-sim/disco/scenario"
)

// checkEvents holds the events to the rules of docs/scenario-service.md, "Events",
// and sorts them into outages and spikes.
func (l *loader) checkEvents() {
	seen := make(map[string]int)
	for i := range l.events {
		e := &l.events[i]
		if first, ok := seen[e.id]; ok && e.id != "" {
			e.idAt.Refuse(fmt.Sprintf("the id %s a second time (the first is on line %d)", e.id,
				l.events[first].idAt.Line()), "unique ids of events", "")
		} else {
			seen[e.id] = i
		}
		l.checkTimes(e)
		switch e.kind {
		case serverDown:
			l.addOutage(e)
		case spikeStart:
			l.addSpike(e)
		}
	}
	good := l.checkOverlaps()
	for i := range l.spec.Balancers {
		l.checkAlive(i, good)
	}
	l.linkBalancers()
}

// checkTimes makes sure that an event begins, ends, and does both within the file's own
// horizon.
func (l *loader) checkTimes(e *eventAt) {
	if !e.timesKnown {
		return
	}
	if e.start >= e.end {
		e.timesKnown = false
		e.endAt.Refuse(fmt.Sprintf("t_end %g", e.end), fmt.Sprintf("an end after t_start, which is %g", e.start), "")
		return
	}
	if l.fileHorizon > 0 && e.end > l.fileHorizon {
		e.timesKnown = false
		e.endAt.Refuse(fmt.Sprintf("t_end %g", e.end),
			fmt.Sprintf("at most the total_simulation_time %g", l.fileHorizon), "")
	}
}

func (l *loader) addOutage(e *eventAt) {
	n, known := l.spec.topology.nodes.thing(e.target)
	_, isEdge := l.edgeIDs[e.target]
	if !isEdge {
		_, isEdge = l.edgeIDs.thing(e.target)
	}
	switch {
	case e.target == "" || (!known && !isEdge && l.idsMissing):
		return
	case !known && isEdge:
		e.targetAt.Refuse(e.target+", which is an edge", "a server or a load balancer, for "+serverDown, "")
		return
	case !known:
		l.find(e.targetAt, e.target, "a server or a load balancer", serverRole, balancerRole)
		return
	}
	switch b, by := l.box(n), int(l.boxes[n].coveredBy); {
	case b.role != serverRole && b.role != balancerRole:
		e.targetAt.Refuse(fmt.Sprintf("%s, which is %s", b.id, b.role), "a server or a load balancer, for "+serverDown,
			"")
	case by < 0 && l.coverUnknown():
	case by < 0:
		e.targetAt.Refuse(b.id+", which no load balancer covers", "something that a load balancer covers",
			"at least one server must be up at every time, and its requests have no other way")
	default:
		l.spec.Outages = append(l.spec.Outages,
			Outage{ID: e.id, Target: e.target, Start: e.start, End: e.end, Balancer: l.box(by).index})
		l.outagesAt = append(l.outagesAt, e)
	}
}

// coverUnknown reports whether something that nothing covers may be covered by what
// was refused.
func (l *loader) coverUnknown() bool {
	for n, b := range l.boxes {
		if b.doubtful || (l.box(n).role == balancerRole && b.outRefused) {
			return true
		}
	}
	return l.idsMissing || l.edgesMissing || l.serversMissing || l.idsDoubtful
}

func (l *loader) addSpike(e *eventAt) {
	i, known := l.edgeIDs.thing(e.target)
	n, isBox := l.spec.topology.nodes.thing(e.target)
	group, isGroup := l.edgeIDs[e.target]
	switch {
	case e.target == "" || (!known && l.edgesMissing):
	case known:
		l.spec.Spikes = append(l.spec.Spikes,
			Spike{ID: e.id, Target: e.target, Start: e.start, End: e.end, Extra: e.extra, Edge: i})
	case isGroup:
		e.targetAt.Refuse(fmt.Sprintf("%s, which stands for %d edges", e.target, group.count),
			"one edge, for "+spikeStart, "name one of them, e.g. "+l.spec.Edges[group.first].ID)
	case isBox:
		e.targetAt.Refuse(fmt.Sprintf("%s, which is %s", e.target, l.box(n).role), "an edge, for "+spikeStart, "")
	default:
		ids := make([]string, len(l.edgeEntries))
		for j, at := range l.edgeEntries {
			ids[j] = at.name
		}
		e.targetAt.Refuse("the unknown id "+e.target, "an edge, for "+spikeStart, scenario.Suggest(e.target, ids))
	}
}

// checkOverlaps refuses outages of one target that overlap. It gives the indices of
// the outages that the further rules can be applied to, in the order of their start.
func (l *loader) checkOverlaps() []int {
	var order []int
	for i, e := range l.outagesAt {
		if e.timesKnown {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(l.spec.Outages[a].Start,
			l.spec.Outages[b].Start)
	})
	last := make(map[string]int) // the latest outage of a target
	var good []int
	for _, i := range order {
		o := l.spec.Outages[i]
		if j, ok := last[o.Target]; ok && l.spec.Outages[j].End > o.Start {
			p := l.spec.Outages[j]
			l.outagesAt[i].startAt.Refuse(fmt.Sprintf("an outage of %s from %g to %g while another one, %s, lasts "+
				"from %g to %g", o.Target, o.Start, o.End, p.ID, p.Start, p.End),
				"outages of one target that don't overlap", "")
			continue
		}
		last[o.Target] = i
		good = append(good, i)
	}
	return good
}

// checkAlive makes sure that a balancer always has something to send to. At one time
// ends come before starts, as in the run.
func (l *loader) checkAlive(balancer int, outages []int) {
	n, ok := l.spec.topology.nodes.thing(l.spec.Balancers[balancer].ID)
	if !ok || l.box(n).role != balancerRole || l.edgesMissing {
		return
	}
	b := &l.boxes[n]
	if b.doubtful || b.outRefused || b.covers == 0 {
		return
	}
	var down []int // outages under way, by index
	for _, i := range outages {
		o := l.spec.Outages[i]
		if o.Balancer != balancer {
			continue
		}
		down = slices.DeleteFunc(down, func(j int) bool { return l.spec.Outages[j].End <= o.Start })
		down = append(down, i)
		if len(down) == int(b.covers) {
			l.refuseAllDown(l.box(n).id, i, down)
		}
	}
}

func (l *loader) refuseAllDown(balancer string, at int, down []int) {
	until := l.spec.Outages[at].End
	var ids []string
	for _, j := range down {
		ids = append(ids, l.spec.Outages[j].Target)
		until = min(until, l.spec.Outages[j].End)
	}
	slices.Sort(ids)
	l.outagesAt[at].startAt.Refuse(fmt.Sprintf("nothing left that %s could send to from %g to %g: down are %s",
		balancer, l.spec.Outages[at].Start, until, strings.Join(ids, ", ")),
		"at least one of what a load balancer covers up at every time", "")
}

// linkBalancers lists what balancers cover, in the order of their edges, and the edge
// that an outage takes out.
func (l *loader) linkBalancers() {
	t := l.spec.topology
	for i := range t.boxes {
		b := &t.boxes[i]
		if b.role != balancerRole {
			continue
		}
		for _, e := range b.out {
			l.spec.Balancers[b.index].Covers = append(l.spec.Balancers[b.index].Covers, l.spec.Edges[e].Target)
		}
	}
	for i := range l.spec.Outages {
		n, _ := t.nodes.thing(l.spec.Outages[i].Target)
		l.spec.Outages[i].Edge = int(l.boxes[n].balancerEdge)
	}
}
