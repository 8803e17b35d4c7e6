// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/disco-sim/disco/cluster"
)

// demand is what experiments want of machines: a program, and labels. Those that want the same have one together. It
// keeps what matters to them of all machines, so that a decision doesn't look at each: State.fresh, which alone writes
// it, brings it up to date by the machines that have changed since it was asked last (State.alter).
type demand struct {
	key         string // in State.demands
	version     string
	labels      map[string]string
	experiments int // that have it

	round, seen int       // of State.altered: what is taken in
	portions    []portion // by machine.number
	fit         int       // machines that fit
	ill         []*machine
	free        []*machine            // that fit, are well and have a free server: by portion.rank, then by name
	alone       map[int]int           // of the machines that count for gangs: how many have so many servers
	builds      map[string]buildCount // of those that do it together
	ailment     ailment               // what ailing says
	ailing      string                // "": nothing yet

	pass  int // of State.pass: what short is of
	short int // for gangs of so many servers and more there are too few in this pass
}

// buildCount is what the machines of a build have together.
type buildCount struct{ machines, servers int }

// portion is what of one machine matters to a demand.
type portion struct {
	of           uint64 // machine.changes, for fits and counts
	fits, counts bool
	well, free   bool
	rank         int // the terms of its score that are the same for all pieces
	here         int
	joins        string
}

// demandOf is the demand of an experiment, which is counted as one that has it.
func (s *State) demandOf(e *Spec) *demand {
	var key strings.Builder
	fmt.Fprintf(&key, "%q", e.Version)
	for _, name := range slices.Sorted(maps.Keys(e.Labels)) {
		fmt.Fprintf(&key, " %q=%q", name, e.Labels[name])
	}
	d := s.demands[key.String()]
	if d == nil {
		d = &demand{key: key.String(), version: e.Version, labels: e.Labels, round: -1, pass: -1}
		s.demands[d.key] = d
	}
	d.experiments++
	return d
}

// forgo notes that an experiment with a demand is gone.
func (s *State) forgo(d *demand) {
	if d.experiments--; d.experiments == 0 {
		delete(s.demands, d.key)
	}
}

// alter notes that something of a machine has changed that a demand may care for.
func (s *State) alter(m *machine) { s.altered = append(s.altered, m) }

// trim begins another round of what has changed, where that is more than all machines: a demand that nobody has asked
// since looks at all of them then.
func (s *State) trim() {
	if len(s.altered) > 100+2*len(s.machines) {
		s.altered, s.round = s.altered[:0], s.round+1
	}
}

// fresh brings a demand up to date.
func (s *State) fresh(d *demand) *demand {
	var changed []*machine
	if d.round == s.round {
		changed = s.altered[d.seen:]
	} else {
		*d = demand{key: d.key, version: d.version, labels: d.labels, experiments: d.experiments, round: s.round,
			alone: map[int]int{}, builds: map[string]buildCount{}, pass: d.pass, short: d.short}
		changed = s.byName
	}
	d.seen = len(s.altered)
	if missing := len(s.byName) - len(d.portions); missing > 0 {
		d.portions = append(d.portions, make([]portion, missing)...)
	}
	for _, m := range changed {
		if was, is := d.portions[m.number], s.portionOf(d, m); was != is {
			d.count(m, &was, -1)
			d.count(m, &is, 1)
			d.portions[m.number] = is
		}
	}
	return d
}

// portionOf is a machine's, as it is now.
func (s *State) portionOf(d *demand, m *machine) portion {
	x := d.portions[m.number]
	if x.of != m.changes {
		why := s.fits(m, d)
		x.of, x.fits, x.counts = m.changes, why == "", why == "" || why == isDrained
	}
	x.well, x.free, x.here, x.joins = m.isWell(), m.free > 0, m.here, m.joins
	x.rank = m.load() + malusSlow*m.slow()
	return x
}

// count takes a machine's portion in, or out.
func (d *demand) count(m *machine, x *portion, by int) {
	if x.fits {
		d.fit += by
	}
	if x.fits && !x.well {
		d.ill = set(d.ill, m, by > 0, byName)
	}
	if x.fits && x.well && x.free {
		d.free = set(d.free, m, by > 0, func(a, b *machine) int {
			rank := func(m2 *machine) int { // the machine isn't where the portions have it
				if m2 == m {
					return x.rank
				}
				return d.portions[m2.number].rank
			}
			return cmp.Or(cmp.Compare(rank(a), rank(b)), byName(a, b))
		})
	}
	if !x.counts {
		return
	}
	if d.alone[x.here] += by; d.alone[x.here] == 0 {
		delete(d.alone, x.here)
	}
	if x.joins != "" {
		b := d.builds[x.joins]
		if b.machines, b.servers = b.machines+by, b.servers+by*min(x.here, gangServers); b.machines == 0 {
			delete(d.builds, x.joins)
			return
		}
		d.builds[x.joins] = b
	}
}

func byName(a, b *machine) int { return strings.Compare(a.Name, b.Name) }

// set puts a machine into a sorted list, or takes it out.
func set(all []*machine, m *machine, in bool, order func(a, b *machine) int) []*machine {
	at, found := slices.BinarySearchFunc(all, m, order)
	switch {
	case in && !found:
		return slices.Insert(all, at, m)
	case !in && found:
		return slices.Delete(all, at, at+1)
	}
	return all
}

// sums are those of all machines that count but some.
func (s *State) sumsBut(t *step, fault []string) (x sums) {
	d := s.fresh(t.experiment.demand)
	x.builds = make(map[string]int, len(d.builds))
	for build, b := range d.builds {
		x.builds[build] = b.servers
	}
	without := map[int]int{}
	for i, name := range fault {
		m := s.machines[name]
		if m == nil || slices.Contains(fault[:i], name) || !d.portions[m.number].counts {
			continue
		}
		portion := &d.portions[m.number]
		without[portion.here]++
		if portion.joins != "" {
			x.builds[portion.joins] -= min(portion.here, gangServers)
		}
	}
	for servers, machines := range d.alone {
		if machines > without[servers] {
			x.alone = max(x.alone, servers)
		}
	}
	return x
}

// capacity is the largest gang that the machines could have for a step, were all of them free. Drained ones count: they
// may come back.
func (s *State) capacity(t *step) (servers int) {
	d := s.fresh(t.experiment.demand)
	for here := range d.alone {
		servers = max(servers, here)
	}
	for _, b := range d.builds {
		servers = max(servers, b.servers)
	}
	return servers
}

// isShort tells whether it was found in this pass that there are too few servers for a gang of a step; what is free
// becomes less in a pass. It isn't known of the step for which some are reserved.
func (s *State) isShort(t *step) bool {
	d := t.experiment.demand
	return d.pass == s.pass && t.gang() >= d.short && !s.leads(t)
}

// noteShort notes that.
func (s *State) noteShort(t *step) {
	d := t.experiment.demand
	if s.leads(t) {
		return
	}
	if d.pass != s.pass || t.gang() < d.short {
		d.pass, d.short = s.pass, t.gang()
	}
}

// leads tells whether a step is the one that has reserved what becomes free.
func (s *State) leads(t *step) bool { return s.head != nil && s.head.step == t }

// bestFree is the machine with the least score, by name, that has free servers for a whole gang; nil: there is none.
// Of machines that have never led a gang of the experiment the first one by rank is the best.
func (s *State) bestFree(t *step, was *Piece, fault []string) (best *machine) {
	e := t.experiment
	d := s.fresh(e.demand)
	want, least := t.gang(), 0
	try := func(m *machine) bool {
		if m.free < want || slices.Contains(fault, m.Name) || s.reserved(m, t) || s.freeOf(m) < want {
			return false
		}
		if now := score(m, e, was); best == nil || now < least || now == least && m.Name < best.Name {
			best, least = m, now
		}
		return true
	}
	if slices.IndexFunc(d.free, try) < 0 {
		return nil
	}
	if len(e.warm) < len(d.free) {
		for m := range e.warm {
			if x := &d.portions[m.number]; x.fits && x.well && x.free {
				try(m)
			}
		}
		return best
	}
	for _, m := range d.free {
		if d.portions[m.number].rank-bonusWarm-bonusCheckpoint > least {
			break
		}
		if e.warm[m] {
			try(m)
		}
	}
	return best
}

// illness tells people that nothing of a step is placed, since machines that would do aren't well.
func (s *State) illness(t *step) {
	if s.ill == 0 {
		return
	}
	d := s.fresh(t.experiment.demand)
	if len(d.free) > 0 || len(d.ill) == 0 {
		return
	}
	if text := d.ails(); t.experiment.reason != text {
		t.experiment.reason, t.experiment.ailing = text, text
		s.touch(t.experiment)
	}
}

// ailment is what people are told of machines that would do and aren't well.
type ailment struct {
	ill, fit int
	first    *machine
	health   Health
	reason   string // of its condition
}

// ails puts that of a demand into words, which are kept as long as it is the same.
func (d *demand) ails() string {
	m := d.ill[0]
	now := ailment{len(d.ill), d.fit, m, m.condition.Health, m.condition.Reason}
	if d.ailment != now || d.ailing == "" {
		d.ailment = now
		d.ailing = bounded(fmt.Sprintf("%d of %d machines that would do are given nothing new: %s %s", now.ill, now.fit,
			m.Name, m.unwell()), MaxReason)
	}
	return d.ailing
}

// isDrained is why nothing is placed on a machine that is drained.
const isDrained = "is drained"

// fits tells whether a machine may be given pieces of experiments with a demand; why is what is against it.
func (s *State) fits(m *machine, d *demand) (why string) {
	switch {
	case m.Status != cluster.Up:
		return fmt.Sprintf("is %s", m.Status)
	case !slices.Contains(m.Roles, Role):
		return "has no executor"
	case s.isDrained(m.Name):
		return isDrained
	case d.version != "" && m.Version != d.version:
		return fmt.Sprintf("has disco %q", m.Version)
	}
	why = ""
	for key, value := range d.labels { // the first by name, so that it is always the same
		if m.Labels[key] != value && (why == "" || key < why) {
			why = key
		}
	}
	if why != "" {
		why = fmt.Sprintf("has the label %s=%q", why, m.Labels[why])
	}
	return why
}
