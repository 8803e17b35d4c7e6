// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/disco-sim/disco/model/timeline"
)

// Limits of what happens in a run.
const (
	// occurrencesMax bounds the failures and the like that are expected in a run.
	occurrencesMax = 1_000_000

	// detailedMax is the number of occurrences whose times before, during and after are
	// compared: every router keeps sums, and latencies, for each stretch of time between
	// them. Planned ones come first, then random ones in the order of time.
	detailedMax = 32
)

// occurrence is one time that an event happens to one target.
type occurrence struct {
	timeline.Window
	event, target int
}

// schedule is all that will happen to links and nodes in one replication. It is drawn
// before the run from streams of its own, which no packet touches, so every router
// computes it for itself and all get the same, without messages. It isn't changed
// afterwards.
type schedule struct {
	occurrences []occurrence        // by time of start, as far as the horizon
	detailed    []occurrence        // the ones that results are compared around
	spans       timeline.Spans      // of the detailed ones
	cableDown   [][]timeline.Window // by cable, its end nodes' with it; merged
	nodeDown    [][]timeline.Window // by node; merged
	added       []timeline.Steps    // by cable: seconds of added latency
	loss        []timeline.Steps    // by cable: probability
	changes     []float64           // times at which a cable goes down or up
	touched     []bool              // by cable: a detailed occurrence is about it
}

// newSchedule draws the schedule of one replication. source gives the streams that all
// nodes share.
func newSchedule(s *Spec, horizon float64, source func(stream string) rand.Source) *schedule {
	p := &schedule{
		cableDown: make([][]timeline.Window, len(s.Topology.Cables)),
		nodeDown:  make([][]timeline.Window, len(s.Topology.Nodes)),
		added:     make([]timeline.Steps, len(s.Topology.Cables)), loss: make([]timeline.Steps, len(s.Topology.Cables)),
		touched: make([]bool, len(s.Topology.Cables)),
	}
	for e := range s.Events {
		for t := range s.Events[e].Targets {
			for _, w := range s.Events[e].windows(t, horizon, source) {
				p.occurrences = append(p.occurrences, occurrence{w, e, t})
			}
		}
	}
	slices.SortStableFunc(p.occurrences, func(a, b occurrence) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.event, b.event), cmp.Compare(a.target, b.target))
	})
	p.choose(s, horizon)
	p.apply(s, horizon)
	return p
}

// windows are the times at which an event happens to one of its targets.
func (e *Event) windows(target int, horizon float64, source func(stream string) rand.Source) []timeline.Window {
	if !e.Random {
		if e.From >= horizon {
			return nil
		}
		return []timeline.Window{{From: e.From, To: e.To}}
	}
	var ws []timeline.Window
	rnd := rand.New(source(fmt.Sprintf("event/%s/%s", e.ID, e.Targets[target].Name)))
	for t := 0.0; ; {
		t += rnd.ExpFloat64() * e.MTBF
		if t >= horizon {
			return ws
		}
		w := timeline.Window{From: t, To: t + rnd.ExpFloat64()*e.MTTR}
		if t = w.To; !w.Empty() {
			ws = append(ws, w)
		}
	}
}

// choose picks the occurrences that are looked at closely.
func (p *schedule) choose(s *Spec, horizon float64) {
	for _, random := range []bool{false, true} {
		for _, o := range p.occurrences {
			if s.Events[o.event].Random == random && len(p.detailed) < detailedMax {
				p.detailed = append(p.detailed, o)
				for _, c := range s.Events[o.event].Targets[o.target].Cables {
					p.touched[c] = true
				}
			}
		}
	}
	p.spans = spansWith(spansOf(p.detailed, horizon), s.Warmup, horizon)
}

func spansOf(occurrences []occurrence, horizon float64) timeline.Spans {
	var ws []timeline.Window
	for _, o := range occurrences {
		ws = append(ws, o.Window)
	}
	return timeline.NewSpans(ws, horizon)
}

// apply works out what the occurrences mean for every cable and node.
func (p *schedule) apply(s *Spec, horizon float64) {
	added := make([][]timeline.Piece, len(s.Topology.Cables))
	lossy := make([][]timeline.Piece, len(s.Topology.Cables))
	for _, o := range p.occurrences {
		e := &s.Events[o.event]
		t := &e.Targets[o.target]
		if e.Kind == NodeDown {
			p.nodeDown[t.Node] = append(p.nodeDown[t.Node], o.Window)
		}
		for _, c := range t.Cables {
			switch e.Kind {
			case LinkDown, NodeDown:
				p.cableDown[c] = append(p.cableDown[c], o.Window)
			case Latency:
				added[c] = append(added[c], timeline.Piece{Window: o.Window, Value: e.Added})
			case Loss:
				lossy[c] = append(lossy[c], timeline.Piece{Window: o.Window, Value: e.Probability})
			}
		}
	}
	for n := range p.nodeDown {
		p.nodeDown[n] = timeline.Merge(p.nodeDown[n])
	}
	for c := range p.cableDown {
		p.cableDown[c] = timeline.Merge(p.cableDown[c])
		for _, w := range p.cableDown[c] {
			p.changes = append(p.changes, w.From, w.To)
		}
		p.added[c] = timeline.NewSteps(added[c], timeline.Sum)
		p.loss[c] = timeline.NewSteps(lossy[c], func(sum, x float64) float64 { return 1 - (1-sum)*(1-x) })
	}
	slices.Sort(p.changes)
	p.changes = slices.Compact(p.changes)
}
