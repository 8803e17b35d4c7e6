// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/disco-sim/disco/cluster"
)

// Health is how well a machine can be used. A greater one is worse.
type Health uint8

// The states of a machine. docs/fleet.md has the table.
const (
	Good  Health = iota
	Slow         // it is taken when no other will do
	Full         // nothing new is placed on it
	Stuck        // the same
	Gone         // it isn't present
)

var healthNames = [...]string{Good: "good", Slow: "slow", Full: "full", Stuck: "stuck", Gone: "gone"}

// String is the state's name.
func (h Health) String() string { return healthNames[h] }

// MarshalText is String, for JSON.
func (h Health) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText is String's inverse.
func (h *Health) UnmarshalText(text []byte) error {
	i := slices.Index(healthNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("found the health %.40q, want one of %v", text, healthNames)
	}
	*h = Health(i)
	return nil
}

// Condition is a machine's health, and why.
type Condition struct {
	Health Health `json:"health"`
	Reason string `json:"reason,omitempty"`

	worse int    // for how many vitals it would have been worse
	last  uint64 // the number of the last of them
}

// Signs are what is known of a machine at one time.
type Signs struct {
	Present bool
	Number  uint64        // of the newest vitals: another one each time
	Vitals  *Vitals       // nil: the agent writes none, as those of older builds do
	Age     time.Duration // since the newest vitals
	Pace    float64       // of its gangs, by that of other machines' gangs at the same point; 0: not known
	Stuck   bool          // a gang of it stands still, and others of its experiment don't
}

// Bounds of what is good.
const (
	useMost      = 0.85 // of memory and disk
	vitalsOld    = 30 * time.Second
	paceLeast    = 0.8
	worseLast    = 3                // vitals that a worse state lasts for before it counts
	paceWindow   = 20 * time.Second // over which a gang's pace is measured
	stuckAfter   = 30 * time.Second // without progress
	paceKept     = 10 * time.Minute // for which a pace holds that isn't measured any more
	paceMachines = 3                // at least, for comparing gangs of one point
)

// now is what signs say by themselves. sure: it needn't last.
func (g *Signs) now() (is Condition, sure bool) {
	v := g.Vitals
	if v == nil {
		v = &Vitals{}
	}
	switch {
	case !g.Present:
		return Condition{Health: Gone, Reason: "isn't there"}, true
	case g.Stuck:
		return Condition{Health: Stuck, Reason: fmt.Sprintf("a gang of it has stood still for %v, and others of its "+
			"experiment haven't", stuckAfter)}, false
	case g.Vitals != nil && g.Age > vitalsOld:
		return Condition{Health: Full, Reason: fmt.Sprintf("its agent has said nothing of itself for %v",
			vitalsOld)}, true
	case v.Refuses != "":
		return Condition{Health: Full, Reason: bounded("its executor starts nothing: "+v.Refuses, MaxReason)}, true
	case v.Memory > useMost:
		return Condition{Health: Full, Reason: fmt.Sprintf("more than %.0f %% of its memory is in use",
			100*useMost)}, false
	case v.Disk > useMost:
		return Condition{Health: Full, Reason: fmt.Sprintf("more than %.0f %% of its disk is in use",
			100*useMost)}, false
	case v.Lag > VitalsEvery:
		return Condition{Health: Full, Reason: fmt.Sprintf("its agent is more than %v late", VitalsEvery)}, false
	case g.Pace > 0 && g.Pace < paceLeast:
		return Condition{Health: Slow, Reason: fmt.Sprintf("its gangs get on at less than %.1f of the pace of others",
			paceLeast)}, false
	}
	return Condition{Reason: v.trouble()}, true
}

// trouble is what people may want to know of a machine that is good.
func (v *Vitals) trouble() string {
	if v.Store != "" {
		return bounded("its agent has left the store alone for a time in the last minute: "+v.Store, MaxReason)
	}
	names := slices.Sorted(maps.Keys(v.Away))
	if len(names) == 0 {
		return ""
	}
	return bounded(fmt.Sprintf("of the machines behind it %d are given nothing: %s: %s", len(names), names[0],
		v.Away[names[0]]), MaxReason)
}

// Judge is the condition that follows on another one: a worse one counts when it has lasted for three vitals, a better
// one at once. It depends on both alone.
func Judge(was Condition, g Signs) Condition {
	is, sure := g.now()
	switch {
	case sure, is.Health < was.Health:
		return is
	case is.Health == was.Health:
		return is // its reason may be another one
	case g.Number == was.last && was.worse > 0:
		return was
	}
	was.worse, was.last = was.worse+1, g.Number
	if was.worse >= worseLast {
		return is
	}
	return was
}

// meter measures a gang's pace.
type meter struct {
	attempt int
	at      time.Duration
	now     float64
	pace    float64 // simulated seconds a second; 0: not known yet
}

// measure takes a gang's simulated time.
func (m *meter) measure(attempt int, at time.Duration, now float64) {
	switch {
	case m.attempt != attempt:
		*m = meter{attempt: attempt, at: at, now: now}
	case at-m.at >= paceWindow:
		*m = meter{attempt, at, now, (now - m.now) / (at - m.at).Seconds()}
	}
}

// PutVitals tells how machines are, by name; the time is that of the next Decide.
func (s *State) PutVitals(all map[string]Vitals) {
	for name, v := range all {
		s.machine(name).newVitals = &v
	}
	for name, m := range s.machines {
		if _, there := all[name]; !there {
			m.vitals, m.newVitals = nil, nil
		}
	}
	s.unjudged = true
}

// PutHealth tells what an earlier leader has said of machines.
func (s *State) PutHealth(r HealthReport) {
	for name, c := range r.Machines {
		s.machine(name).condition = Condition{Health: c.Health, Reason: c.Reason}
	}
	s.said = r
}

// judgeEvery is how often machines are judged where nothing is told.
const judgeEvery = time.Second

// judge judges all machines, and has what has changed written.
func (s *State) judge() {
	if !s.unjudged && s.now < s.judged+judgeEvery {
		return
	}
	s.unjudged, s.judged = false, s.now
	s.unhush()
	paces, stuck := s.paces()
	report := HealthReport{Leader: s.leader, Machines: map[string]Condition{}}
	fallen, all, ill := 0, 0, 0
	for _, name := range slices.Sorted(maps.Keys(s.machines)) {
		m := s.machines[name]
		if m.newVitals != nil && (m.vitals == nil || m.vitals.Number != m.newVitals.Number) {
			m.vitalsAt = s.now
		}
		if m.newVitals != nil {
			m.vitals, m.newVitals = m.newVitals, nil
		}
		if pace, known := paces[m]; known {
			m.pace, m.paceAt = pace, s.now
		} else if s.now-m.paceAt > paceKept {
			m.pace = 0
		}
		g := Signs{Present: m.Status == cluster.Up || m.Status == cluster.Leaving, Vitals: m.vitals,
			Age: s.now - m.vitalsAt, Pace: m.pace, Stuck: stuck[m], Number: uint64(s.now / VitalsEvery)}
		if m.vitals != nil {
			g.Number = m.vitals.Number
		}
		was := m.condition.Health
		m.condition = Judge(m.condition, g)
		is := m.condition.Health
		if g.Present {
			m.present = true
		}
		if is >= Stuck && was < Stuck && m.present {
			m.fellAt = s.now
		}
		if is < was {
			s.placeable = true
		}
		if m.present && (is < Stuck || s.now-m.fellAt <= massWithin) {
			all++
			if is >= Stuck {
				fallen++
			}
		}
		if is == Full || is == Stuck {
			ill++
		}
		if is == Good && m.condition.Reason == "" || is == Gone && !m.present {
			continue
		}
		if len(report.Machines) == maxConditions {
			report.More++
			continue
		}
		report.Machines[name] = Condition{Health: is, Reason: m.condition.Reason}
	}
	s.ill = ill
	s.hush(fallen, all)
	if !report.equal(&s.said) {
		s.said = report
		s.rest = append(s.rest, Action{Do: DoHealth, Health: report})
	}
}

// Where more than half of all machines fall within massWithin, evictions wait for massWait; not again for massAgain.
const (
	massWithin = 10 * time.Second
	massWait   = 30 * time.Second
	massAgain  = 5 * time.Minute
)

// hush has evictions wait where so many machines have fallen at a time that it is the store's or the network's fault.
func (s *State) hush(fallen, all int) {
	if fallen < 2 || 2*fallen <= all || s.hushed != 0 && s.now < s.hushed+massAgain {
		return
	}
	s.hushed = s.now + massWait
	s.at(s.hushed, deadline{})
	s.hushWhy = fmt.Sprintf("%d of %d machines were lost at a time: what they had is tried elsewhere where they "+
		"aren't back in %v", fallen, all, massWait)
}

// unhush ends that, and what people were told.
func (s *State) unhush() {
	if s.hushWhy == "" || s.now < s.hushed {
		return
	}
	for _, e := range s.order {
		if e.reason == s.hushWhy {
			e.reason = ""
			s.touch(e)
		}
	}
	s.hushWhy = ""
}

// waitsFor puts an eviction off, as long as evictions wait.
func (s *State) waitsFor(p *piece) bool {
	e := p.step.experiment
	if s.now >= s.hushed {
		return false
	}
	if e.reason != s.hushWhy {
		e.reason = s.hushWhy
		s.touch(e)
	}
	s.at(s.hushed, deadline{piece: p})
	return true
}

// paces are, of machines whose gangs can be compared, the middle one of their gangs' paces, each by the middle one of
// its point's; and the machines that have a gang which stands still, while others of its experiment get on.
func (s *State) paces() (paces map[*machine]float64, stuck map[*machine]bool) {
	type point struct {
		step  *step
		point int
	}
	of, moves := map[point][]*piece{}, map[*underway]bool{}
	for p := range s.running {
		if p.meter.attempt != p.Attempt || p.State != Running {
			continue
		}
		if s.stands(p) < stuckAfter {
			moves[p.step.experiment] = true
		}
		if p.meter.pace > 0 {
			key := point{p.step, p.id.Point}
			of[key] = append(of[key], p)
		}
	}
	ratios := map[*machine][]float64{}
	for _, all := range of {
		on := map[string]bool{}
		values := make([]float64, len(all))
		for i, p := range all {
			on[p.Gang[0].Member] = true
			values[i] = p.meter.pace
		}
		if len(on) < paceMachines {
			continue
		}
		middle := median(values)
		for _, p := range all {
			m := s.machine(p.Gang[0].Member)
			ratios[m] = append(ratios[m], p.meter.pace/middle)
		}
	}
	paces, stuck = map[*machine]float64{}, map[*machine]bool{}
	for m, all := range ratios {
		paces[m] = median(all)
	}
	for p := range s.running {
		if p.meter.attempt == p.Attempt && p.State == Running && moves[p.step.experiment] &&
			s.stands(p) >= stuckAfter {
			for _, g := range p.Gang {
				stuck[s.machine(g.Member)] = true
			}
		}
	}
	return paces, stuck
}

// median is the middle one of values, which it sorts.
func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// isWell tells whether something new is placed on a machine that it fits.
func (m *machine) isWell() bool {
	h := m.condition.Health
	return h != Full && h != Stuck && (m.vitals == nil || !m.vitals.Trial || m.promised == 0)
}

// unwell is why nothing new is placed on a machine though it would fit; "": something is.
func (m *machine) unwell() string {
	switch h := m.condition.Health; {
	case m.isWell():
		return ""
	case h == Full || h == Stuck:
		return fmt.Sprintf("is %v: %s", h, m.condition.Reason)
	}
	return "has begun to start gangs again, and is tried with one at a time"
}

// illness tells people that nothing of a step is placed, since machines that would do aren't well.
func (s *State) illness(t *step) {
	if s.ill == 0 {
		return
	}
	all, ill := 0, 0
	var first *machine // by name
	for _, m := range s.machines {
		if s.fits(m, t.experiment) != "" {
			continue
		}
		all++
		if m.isWell() {
			if m.free > 0 {
				return
			}
			continue
		}
		if ill++; first == nil || m.Name < first.Name {
			first = m
		}
	}
	if first == nil {
		return
	}
	reason := fmt.Sprintf("%d of %d machines that would do are given nothing new: %s %s", ill, all, first.Name,
		first.unwell())
	if t.experiment.reason != reason {
		t.experiment.reason = bounded(reason, MaxReason)
		s.touch(t.experiment)
	}
}

// slow is 1 for a machine that is taken where no other will do.
func (m *machine) slow() int {
	if m.condition.Health == Slow {
		return 1
	}
	return 0
}
