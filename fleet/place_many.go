// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"maps"
	"slices"
)

// RoleGang is the role of members that simulate pieces together with others: they have an executor, and take runs over
// several machines at their address.
const RoleGang = "fleet-gang"

// Bounds of a gang over several machines: those of a run.
const (
	gangMachines = 64
	gangServers  = 64 // of a machine
	gangStarts   = 16 // machines that are tried as the first one of a gang
)

// together tells whether a machine may have a part of a gang only.
func (m *machine) together() bool { return m.Address != "" && slices.Contains(m.Roles, RoleGang) }

// build is what the machines of one gang have in common: programs of another one refuse each other.
func (m *machine) build() string { return m.Version + " " + m.Digest }

// sums are the servers of machines: the most that one gang may have of them.
type sums struct {
	alone  int            // of one machine
	builds map[string]int // of the machines of a build that do it together
}

// joined is that of several machines.
func (x *sums) joined() (servers int) {
	for _, n := range x.builds {
		servers = max(servers, n)
	}
	return servers
}

func (s *State) capacityBut(t *step, fault []string) (servers int) {
	x := s.sumsBut(t, fault)
	return max(x.alone, x.joined())
}

// findMany chooses servers of several machines of one build: of those that can reach each other, then that aren't slow,
// then of as few as possible, then of near ones, then of those with the least score, by name. nil: there are none now;
// short: machines of no build have as many together.
func (s *State) findMany(t *step, was *Piece, fault []string) (gang []Server, short bool) {
	builds, free := map[string][]*machine{}, map[string]int{}
	for _, m := range s.fresh(t.experiment.demand).free {
		if m.joins != "" && s.may(m, t, fault) {
			builds[m.joins] = append(builds[m.joins], m)
			free[m.joins] += min(s.freeOf(m), gangServers)
		}
	}
	short = true
	var best *choice
	for _, build := range slices.Sorted(maps.Keys(builds)) {
		if free[build] < t.gang() {
			continue
		}
		short = false
		all := builds[build]
		slices.SortFunc(all, func(a, b *machine) int {
			return cmp.Or(cmp.Compare(a.slow(), b.slow()), cmp.Compare(s.part(b, t.gang()), s.part(a, t.gang())),
				cmp.Compare(score(a, t.experiment, was), score(b, t.experiment, was)), byName(a, b))
		})
		for _, first := range all[:min(len(all), gangStarts)] {
			if now := s.choose(first, all, t, was); best == nil || now.before(best) {
				best = now
			}
		}
	}
	if best == nil || len(best.gang) < t.gang() {
		return nil, short
	}
	return best.gang, false
}

// choice is a gang that might be taken.
type choice struct {
	gang     []Server
	machines []*machine
	cut      int     // pairs of which one can't reach the other
	slow     int     // of the machines
	apart    float64 // seconds between each two of them, together
	near     int     // labels that each machine has in common with those before it
}

// before tells whether a choice is better than another one, which comes first where they are alike.
func (c *choice) before(d *choice) bool {
	return cmp.Or(cmp.Compare(len(d.gang), len(c.gang)), cmp.Compare(c.cut, d.cut), cmp.Compare(c.slow, d.slow),
		cmp.Compare(len(c.machines), len(d.machines)), cmp.Compare(c.apart, d.apart), cmp.Compare(d.near, c.near)) < 0
}

// part is how many servers of a machine a gang may have that lacks so many.
func (s *State) part(m *machine, lacks int) int { return min(s.freeOf(m), lacks, gangServers) }

// choose makes a gang that begins with a machine: each next one is the one that reaches most of those that were taken,
// then that isn't slow, then the one with the most servers of those that are lacking, then the nearest one by what was
// measured, then by labels, then the one with the least score.
func (s *State) choose(first *machine, all []*machine, t *step, was *Piece) *choice {
	c, doubted := &choice{}, was.doubted()
	rest := make([]contender, 0, len(all))
	for _, m := range all {
		rest = append(rest, contender{machine: m})
	}
	next := slices.Index(all, first)
	for next >= 0 && len(c.gang) < t.gang() && len(c.machines) < gangMachines {
		m := rest[next]
		rest = slices.Delete(rest, next, next+1)
		c.slow += m.slow()
		c.cut, c.near, c.apart = c.cut+m.cut, c.near+m.near, c.apart+m.apart
		c.machines = append(c.machines, m.machine)
		from := len(c.gang)
		c.gang = s.pick(c.gang, m.machine, min(t.gang(), len(c.gang)+gangServers))
		for i := range c.gang[from:] {
			c.gang[from+i].Address = m.Address
		}
		lacks := t.gang() - len(c.gang)
		next = -1
		if lacks == 0 {
			break
		}
		for i := range rest {
			rest[i].beside(s, m.machine, doubted)
			if next < 0 || s.nearer(&rest[i], &rest[next], lacks, t, was) {
				next = i
			}
		}
	}
	return c
}

// nearer tells whether a machine becomes the next one of a gang, and not another one.
func (s *State) nearer(a, b *contender, lacks int, t *step, was *Piece) bool {
	return cmp.Or(cmp.Compare(a.cut, b.cut), cmp.Compare(a.slow(), b.slow()),
		cmp.Compare(s.part(b.machine, lacks), s.part(a.machine, lacks)),
		cmp.Compare(a.apart, b.apart), cmp.Compare(b.near, a.near),
		cmp.Compare(score(a.machine, t.experiment, was), score(b.machine, t.experiment, was))) < 0
}
