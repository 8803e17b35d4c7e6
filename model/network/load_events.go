// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"slices"
	"strings"

	"github.com/disco-sim/disco/scenario"
)

func (l *loader) readEvents(v scenario.Value) {
	if !v.Present() {
		return
	}
	items := v.List()
	if len(items) > eventsMax {
		v.Refuse(fmt.Sprintf("%d events", len(items)), fmt.Sprintf("at most %d", eventsMax), "")
		return
	}
	seen := make(map[string]int)
	for _, item := range items {
		l.readEvent(item, seen)
	}
}

func (l *loader) readEvent(v scenario.Value, seen map[string]int) {
	s := v.Section("id", "kind", "link", "parallel", "node", "from", "to", "mtbf", "mttr", "added_s", "probability")
	before := l.r.Refusals()
	e := Event{ID: l.readID(s.Field("id"), seen), Kind: s.Field("kind").Word(LinkDown, NodeDown, Latency, Loss)}
	if e.Kind != "" {
		l.onlyFor(s, e.Kind, "link", LinkDown, Latency, Loss)
		l.onlyFor(s, e.Kind, "parallel", LinkDown, Latency, Loss)
		l.onlyFor(s, e.Kind, "node", NodeDown)
		l.onlyFor(s, e.Kind, "added_s", Latency)
		l.onlyFor(s, e.Kind, "probability", Loss)
	}
	l.readTimes(&e, s)
	switch e.Kind {
	case NodeDown:
		e.Targets = l.nodeTargets(s.Field("node"), e.Random)
	case LinkDown, Latency, Loss:
		e.Targets = l.linkTargets(s, e.Random)
	}
	switch e.Kind {
	case Latency:
		e.Added = inTicks(s.Field("added_s").Float(scenario.MoreThan(0).AtMost(addedSecondsMax)))
	case Loss:
		e.Probability = s.Field("probability").Float(scenario.MoreThan(0).AtMost(1))
	}
	if l.r.Refusals() == before && e.Targets != nil {
		l.spec.Events = append(l.spec.Events, e)
	}
}

// readID reads an id, which must be the only one of its name.
func (l *loader) readID(v scenario.Value, seen map[string]int) string {
	id := v.ID(idMax)
	if id == "" {
		return ""
	}
	if line, ok := seen[id]; ok {
		v.Refuse(fmt.Sprintf("the id %q a second time (the first is on line %d)", id, line), "ids that are unique", "")
		return ""
	}
	seen[id] = v.Line()
	return id
}

// onlyFor refuses a field that the event's kind has no use for.
func (l *loader) onlyFor(s scenario.Section, kind, field string, kinds ...string) {
	if v := s.Field(field); v.Present() && !slices.Contains(kinds, kind) {
		v.Refuse(fmt.Sprintf("%s of a %s", field, kind), "it only of "+strings.Join(kinds, ", "), "remove it")
	}
}

// readTimes reads from and to, or mtbf and mttr.
func (l *loader) readTimes(e *Event, s scenario.Section) {
	mtbf, mttr := s.Field("mtbf"), s.Field("mttr")
	from, to := s.Field("from"), s.Field("to")
	e.Random = mtbf.Present() || mttr.Present()
	if e.Random {
		for _, v := range []scenario.Value{from, to} {
			if v.Present() {
				v.Refuse("from or to beside mtbf or mttr", "either from and to, or mtbf and mttr", "")
			}
		}
		e.MTBF = mtbf.Float(scenario.MoreThan(0).AtMost(secondsMax))
		e.MTTR = mttr.Float(scenario.MoreThan(0).AtMost(secondsMax))
		return
	}
	before := l.r.Refusals()
	e.From = from.Float(scenario.AtLeast(0).AtMost(secondsMax))
	e.To = to.Float(scenario.MoreThan(0).AtMost(secondsMax))
	if l.r.Refusals() == before && e.From >= e.To {
		to.Refuse(fmt.Sprintf("%v", e.To), fmt.Sprintf("a time later than from, which is %v", e.From), "")
	}
}

// everything selects all links or all nodes.
const everything = "all"

// nodeTargets reads the node of an event; nil where it was refused.
func (l *loader) nodeTargets(v scenario.Value, random bool) []Target {
	t := l.spec.Topology
	if v.Present() && v.IsList() {
		v.Refuse("a list", "the label of a node", "")
		return nil
	}
	if _, taken := l.names[everything]; !taken && random && t != nil && v.TextOr("") == everything {
		targets := make([]Target, len(t.Nodes))
		for n := range t.Nodes {
			targets[n] = Target{Name: t.Nodes[n].Name, Node: n, Cables: t.at(n)}
		}
		return targets
	}
	n := l.node(v)
	if n < 0 {
		return nil
	}
	return []Target{{Name: t.Nodes[n].Name, Node: n, Cables: t.at(n)}}
}

// linkTargets reads the link of an event: the two ends, whose parallel cables share its
// outage unless parallel picks one; or all.
func (l *loader) linkTargets(s scenario.Section, random bool) []Target {
	v, t := s.Field("link"), l.spec.Topology
	if v.Present() && !v.IsList() {
		if !random {
			v.Refuse("a single value", "a list of the two ends", "")
			return nil
		}
		if v.Word(everything) == "" || t == nil {
			return nil
		}
		targets := make([]Target, len(t.Cables))
		for c := range t.Cables {
			targets[c] = Target{Name: t.Cables[c].Name, Node: -1, Cables: []int{c}}
		}
		if p := s.Field("parallel"); p.Present() {
			p.Refuse("parallel of all links", "it only with two ends", "remove it")
		}
		if len(targets) == 0 {
			v.Refuse("all links of a network without any", "a link", "")
			return nil
		}
		return targets
	}
	ends := v.List()
	if len(ends) != 2 {
		if v.Present() {
			v.Refuse(fmt.Sprintf("a list of %d", len(ends)), "a list of the two ends", "")
		}
		return nil
	}
	a, b := l.node(ends[0]), l.node(ends[1])
	if a < 0 || b < 0 {
		return nil
	}
	return l.cables(v, s.Field("parallel"), a, b)
}

func (l *loader) cables(v, parallel scenario.Value, a, b int) []Target {
	t := l.spec.Topology
	cables := t.between(a, b)
	name := t.Nodes[a].Name + " - " + t.Nodes[b].Name
	if len(cables) == 0 {
		v.Refuse(fmt.Sprintf("the link %s, which the topology doesn't have", name), "two neighbours", "")
		return nil
	}
	if parallel.Present() {
		i := parallel.Int(scenario.Between(1, float64(len(cables))))
		if i == 0 {
			return nil
		}
		return []Target{{Name: t.Cables[cables[i-1]].Name, Node: -1, Cables: cables[i-1 : i]}}
	}
	return []Target{{Name: name, Node: -1, Cables: cables}}
}

// checkEvents bounds what is expected to happen in a run.
func (l *loader) checkEvents(v scenario.Value) {
	expected := 0.0
	for i := range l.spec.Events {
		e := &l.spec.Events[i]
		n := float64(len(e.Targets))
		if e.Random {
			n *= 1 + l.spec.Horizon/(e.MTBF+e.MTTR)
		}
		if expected += n; expected > occurrencesMax {
			v.Refuse(fmt.Sprintf("some %.3g failures and the like in %v s, with event %q", expected, l.spec.Horizon,
				e.ID), fmt.Sprintf("at most %d", occurrencesMax), "take a longer mtbf or a shorter horizon")
			return
		}
	}
}
