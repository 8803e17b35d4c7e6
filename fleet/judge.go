// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"time"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/internal/heap"
)

// judging is what a leader needs to judge machines. Those are judged of which something was told, of which a gang was
// found to stand or to be slower than others, whose time has come, or that are on the way to a worse state: State.doubt
// names them. Counts of all are kept by what a judgement has changed.
type judging struct {
	unjudged bool // something was told by which machines are judged
	judged   time.Duration
	doubted  []*machine          // to be judged
	wakes    heap.Heap[*machine] // and when something of one's signs has become old
	fallen   int                 // machines that have been present, and were lost within massWithin
	counted  int                 // those, and the ones that are there
	ill      int                 // machines that are full or stuck
	listed   []*machine          // of which something is said, by name
	untold   bool                // what is said has perhaps changed
	unsure   []*piece            // whose gauges aren't as they are
	stills   heap.Heap[*gauge]   // when each that gets on has stood still for long, unless it is told that it moved
	points   map[pointKey]*pointOf
	uneven   []*pointOf    // of which the paces are to be compared
	uneasy   []*machine    // whose gangs' paces have changed
	hushed   time.Duration // until when evictions wait
	hushWhy  string        // what people are told meanwhile
}

// verdict is what judging keeps of a machine.
type verdict struct {
	doubted bool
	wake    time.Duration   // in judging.wakes; 0: it isn't there
	ratio   float64         // the middle one of its gangs' paces by those of others; 0: not known now
	leads   map[*gauge]bool // of gangs whose pace is known
	uneasy  bool
	stuck   int  // servers of gangs that stand still, while others of their experiments don't
	fallen  bool // counted in judging's, as all of these
	counted bool
	ill     bool
	listed  bool
}

// doubt has a machine judged.
func (s *State) doubt(m *machine) {
	if !m.doubted {
		m.doubted = true
		s.doubted = append(s.doubted, m)
	}
}

// PutVitals tells how machines are, by name; the time is that of the next Decide.
func (s *State) PutVitals(all map[string]Vitals) {
	for name, v := range all {
		m := s.machine(name)
		m.newVitals = &v
		s.doubt(m)
	}
	for name, m := range s.machines {
		if _, there := all[name]; !there && (m.vitals != nil || m.newVitals != nil) {
			m.newVitals = nil
			s.setVitals(m, nil)
			s.doubt(m)
		}
	}
	s.unjudged = true
}

// setVitals takes over a machine's vitals.
func (s *State) setVitals(m *machine, v *Vitals) {
	m.vitals = v
	s.alter(m)
}

// PutHealth tells what an earlier leader has said of machines.
func (s *State) PutHealth(r HealthReport) {
	for name, c := range r.Machines {
		m := s.machine(name)
		m.condition = Condition{Health: c.Health, Reason: c.Reason}
		s.alter(m)
		s.doubt(m)
	}
	s.said, s.untold = r, true
}

// judgeEvery is how often machines are judged where nothing is told.
const judgeEvery = time.Second

// judge judges the machines that are in doubt, and has what has changed written.
func (s *State) judge() {
	if !s.unjudged && s.now < s.judged+judgeEvery {
		return
	}
	before := s.judged
	s.unjudged, s.judged = false, s.now
	s.unhush()
	s.measure(before)
	for s.wakes.Len() > 0 && time.Duration(s.wakes.First().Key) <= s.now {
		if key, m := s.wakes.Pop(); time.Duration(key) == m.wake { // else there was an earlier one
			m.wake = 0
			s.doubt(m)
		}
	}
	all := s.doubted
	s.doubted = nil
	for _, m := range all {
		m.doubted = false
		s.judgeOne(m)
	}
	s.hush(s.fallen, s.counted)
	if s.untold {
		s.reportHealth()
	}
}

// judgeOne judges a machine.
func (s *State) judgeOne(m *machine) {
	if v := m.newVitals; v != nil {
		if m.vitals == nil || m.vitals.Number != v.Number {
			m.vitalsAt = s.now
		}
		m.newVitals = nil
		s.setVitals(m, v)
	}
	if m.ratio > 0 {
		m.pace = m.ratio
	} else if s.now-m.paceAt > paceKept {
		m.pace = 0
	}
	g := Signs{Present: m.Status == cluster.Up || m.Status == cluster.Leaving, Vitals: m.vitals,
		Age: s.now - m.vitalsAt, Pace: m.pace, Stuck: m.stuck > 0, Number: uint64(s.now / VitalsEvery)}
	if m.vitals != nil {
		g.Number = m.vitals.Number
	}
	was := m.condition
	m.condition = Judge(was, g)
	is := m.condition.Health
	m.present = m.present || g.Present
	if is >= Stuck && was.Health < Stuck && m.present {
		m.fellAt = s.now
	}
	if is < was.Health {
		s.placeable = true
	}
	if is != was.Health {
		s.alter(m)
	}
	if m.condition.worse > 0 { // it is on the way
		s.doubt(m)
	}
	s.tally(m, is != was.Health || m.condition.Reason != was.Reason)
	s.wakeFor(m)
}

// tally counts a machine as it was judged; changed: people are to be told something else.
func (s *State) tally(m *machine, changed bool) {
	count := func(was *bool, is bool, n *int) {
		*n += b2i(is) - b2i(*was)
		*was = is
	}
	is := m.condition.Health
	counted := m.present && (is < Stuck || s.now-m.fellAt <= massWithin)
	count(&m.counted, counted, &s.counted)
	count(&m.fallen, counted && is >= Stuck, &s.fallen)
	count(&m.ill, is == Full || is == Stuck, &s.ill)
	listed := !(is == Good && m.condition.Reason == "" || is == Gone && !m.present)
	if listed != m.listed {
		m.listed = listed
		s.listed = set(s.listed, m, listed, byName)
		s.untold = true
	}
	s.untold = s.untold || listed && changed
}

// wakeFor has a machine judged when something that was told of it has become old.
func (s *State) wakeFor(m *machine) {
	var first time.Duration
	at := func(when time.Duration) {
		if when >= s.now && (first == 0 || when < first) {
			first = when
		}
	}
	if m.vitals != nil {
		at(m.vitalsAt + vitalsOld)
	}
	if m.pace > 0 && m.ratio == 0 {
		at(m.paceAt + paceKept)
	}
	if m.fallen {
		at(m.fellAt + massWithin)
	}
	if first++; first > 1 && (m.wake == 0 || first < m.wake) { // behind it: that long it holds
		m.wake = first
		s.wakes.Push(float64(first), m)
	}
}

// reportHealth has it written what is said of machines, where that is something else.
func (s *State) reportHealth() {
	s.untold = false
	few := s.listed[:min(len(s.listed), maxConditions)]
	report := HealthReport{Leader: s.leader, Machines: make(map[string]Condition, len(few)),
		More: len(s.listed) - len(few)}
	for _, m := range few {
		report.Machines[m.Name] = Condition{Health: m.condition.Health, Reason: m.condition.Reason}
	}
	if !report.equal(&s.said) {
		s.said = report
		s.rest = append(s.rest, Action{Do: DoHealth, Health: report})
	}
}

// gauge is how a gang that simulates gets on, as its machines are judged by.
type gauge struct {
	piece   *piece
	attempt int
	gang    []Server
	since   time.Duration // since when it stands
	is      motion
	sticks  bool          // its machines are stuck by it
	due     time.Duration // in judging.stills; 0: it isn't there

	lead  *machine
	point *pointOf // nil: its pace isn't known
	pace  float64
	ratio float64 // by the others of its point; 0: there are too few
}

// motion is whether a gang gets on.
type motion uint8

const (
	away motion = iota // it isn't looked at any more
	moving
	halted
)

// pointKey is a point of a step: its gangs are compared.
type pointKey struct {
	step  *step
	point int
}

// pointOf is the gangs of one.
type pointOf struct {
	key    pointKey
	gauges map[*gauge]bool
	uneven bool
}

// unsettle has a piece's gauge be made anew.
func (s *State) unsettle(p *piece) {
	if !p.unsettled && (p.State == Running || p.gauge != nil) {
		p.unsettled = true
		s.unsure = append(s.unsure, p)
	}
}

// measure brings gauges up to date, and finds out by them which machines are slower than others, and which are stuck.
// before is when machines were judged last.
func (s *State) measure(before time.Duration) {
	all := s.unsure
	s.unsure = nil
	for _, p := range all {
		p.unsettled = false
		s.settleGauge(p)
	}
	for s.stills.Len() > 0 && time.Duration(s.stills.First().Key) <= s.now {
		if key, g := s.stills.Pop(); time.Duration(key) == g.due { // else there was an earlier one
			g.due = 0
			s.see(g)
		}
	}
	for _, x := range s.uneven {
		s.compare(x)
	}
	s.uneven = nil
	for _, m := range s.uneasy {
		m.uneasy = false
		var ratios []float64
		for g := range m.leads {
			if g.ratio > 0 {
				ratios = append(ratios, g.ratio)
			}
		}
		ratio := 0.0
		if len(ratios) > 0 {
			ratio = median(ratios)
		}
		if ratio == m.ratio {
			continue
		}
		if ratio == 0 {
			m.paceAt = before
		}
		m.ratio = ratio
		s.doubt(m)
	}
	s.uneasy = nil
}

// settleGauge makes a piece's gauge be as the piece is.
func (s *State) settleGauge(p *piece) {
	g, runs := p.gauge, p.State == Running && p.meter.attempt == p.Attempt
	if g != nil && (!runs || g.attempt != p.Attempt) {
		s.regard(g, away)
		s.pace(g, 0)
		g, p.gauge = nil, nil
	}
	if !runs {
		return
	}
	if g == nil {
		g = &gauge{piece: p, attempt: p.Attempt, gang: p.Gang, lead: s.machine(p.Gang[0].Member)}
		p.gauge = g
	}
	g.since = p.stillSince()
	s.see(g)
	s.pace(g, p.meter.pace)
}

// see finds out whether a gang gets on.
func (s *State) see(g *gauge) {
	over := g.since + stuckAfter
	switch {
	case g.piece.gauge != g:
	case s.now >= over:
		s.regard(g, halted)
	default:
		s.regard(g, moving)
		if g.due == 0 || over < g.due {
			g.due = over
			s.stills.Push(float64(over), g)
		}
	}
}

// regard takes a gang as one that gets on, or doesn't.
func (s *State) regard(g *gauge, is motion) {
	if g.is == is {
		return
	}
	e := g.piece.step.experiment
	before := e.moves > 0
	e.moves += b2i(is == moving) - b2i(g.is == moving)
	if g.is = is; is == halted {
		if e.still == nil {
			e.still = map[*gauge]bool{}
		}
		e.still[g] = true
	} else {
		delete(e.still, g)
	}
	s.noteStuck(g, e.moves > 0)
	if after := e.moves > 0; after != before {
		for x := range e.still {
			s.noteStuck(x, after)
		}
	}
}

// noteStuck takes the machines of a gang that stands as stuck, where others of its experiment get on.
func (s *State) noteStuck(g *gauge, others bool) {
	is := g.is == halted && others
	if is == g.sticks {
		return
	}
	g.sticks = is
	for _, server := range g.gang {
		m := s.machine(server.Member)
		if m.stuck += b2i(is) - b2i(!is); m.stuck == b2i(is) {
			s.doubt(m)
		}
	}
}

// pace notes a gang's; 0: it isn't known.
func (s *State) pace(g *gauge, now float64) {
	now = max(now, 0)
	if now == g.pace {
		return
	}
	if g.pace == 0 {
		key := pointKey{g.piece.step, g.piece.id.Point}
		if s.points[key] == nil {
			s.points[key] = &pointOf{key: key, gauges: map[*gauge]bool{}}
		}
		if g.lead.leads == nil {
			g.lead.leads = map[*gauge]bool{}
		}
		g.point = s.points[key]
		g.point.gauges[g], g.lead.leads[g] = true, true
	}
	x := g.point
	if g.pace = now; now == 0 {
		delete(x.gauges, g)
		delete(g.lead.leads, g)
		g.point, g.ratio = nil, 0
		s.trouble(g.lead)
	}
	if !x.uneven {
		x.uneven = true
		s.uneven = append(s.uneven, x)
	}
}

// trouble has a machine's gangs be looked at.
func (s *State) trouble(m *machine) {
	if !m.uneasy {
		m.uneasy = true
		s.uneasy = append(s.uneasy, m)
	}
}

// compare compares the paces of a point's gangs with the middle one.
func (s *State) compare(x *pointOf) {
	x.uneven = false
	if len(x.gauges) == 0 {
		delete(s.points, x.key)
		return
	}
	on := map[*machine]bool{}
	values := make([]float64, 0, len(x.gauges))
	for g := range x.gauges {
		on[g.lead] = true
		values = append(values, g.pace)
	}
	middle := 0.0
	if len(on) >= paceMachines {
		middle = median(values)
	}
	for g := range x.gauges {
		ratio := 0.0
		if middle > 0 {
			ratio = g.pace / middle
		}
		if ratio != g.ratio {
			g.ratio = ratio
			s.trouble(g.lead)
		}
	}
}

// median is the middle one of values, which it sorts.
func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
