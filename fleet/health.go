// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"maps"
	"slices"
	"time"
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
	case m.attempt != attempt || now < m.now: // it has begun, perhaps anew
		*m = meter{attempt: attempt, at: at, now: now}
	case at-m.at >= paceWindow:
		*m = meter{attempt, at, now, (now - m.now) / (at - m.at).Seconds()}
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

// slow is 1 for a machine that is taken where no other will do.
func (m *machine) slow() int {
	if m.condition.Health == Slow {
		return 1
	}
	return 0
}
