// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"maps"
	"slices"

	"github.com/disco-sim/disco/cluster"
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

// sums adds the servers of machines up: the most that one gang may have of them.
type sums struct {
	alone  int            // of one machine
	builds map[string]int // of the machines of a build that do it together
}

func (x *sums) add(m *machine, servers int) {
	x.alone = max(x.alone, servers)
	if m.together() {
		if x.builds == nil {
			x.builds = map[string]int{}
		}
		x.builds[m.build()] += min(servers, gangServers)
	}
}

// joined is that of several machines.
func (x *sums) joined() (servers int) {
	for _, n := range x.builds {
		servers = max(servers, n)
	}
	return servers
}

// capacity is the largest gang that the machines could have for a step, were all of them free. Drained ones count: they
// may come back.
func (s *State) capacity(t *step) (servers int) { return s.capacityBut(t, nil) }

func (s *State) capacityBut(t *step, fault []string) (servers int) {
	x := s.sumsBut(t, fault)
	return max(x.alone, x.joined())
}

func (s *State) sumsBut(t *step, fault []string) (x sums) {
	for _, m := range s.machines {
		why := s.fits(m, t.experiment)
		if why != "" && why != "is drained" || slices.Contains(fault, m.Name) {
			continue
		}
		here := 0
		for _, sv := range m.servers {
			if sv.there && sv.State != cluster.Broken && sv.State != cluster.Exited {
				here++
			}
		}
		x.add(m, here)
	}
	return x
}

// findMany chooses servers of several machines of one build: of those that aren't slow, then of as few as possible,
// then of near ones, then of those with the least score, by name. nil: there are none now.
func (s *State) findMany(t *step, was *Piece, fault []string) []Server {
	builds := map[string][]*machine{}
	var free sums
	for _, m := range s.open {
		if m.together() && s.may(m, t, fault) {
			builds[m.build()] = append(builds[m.build()], m)
			free.add(m, s.freeOf(m))
		}
	}
	var best *choice
	for _, build := range slices.Sorted(maps.Keys(builds)) {
		if free.builds[build] < t.gang() {
			continue
		}
		all := builds[build]
		slices.SortStableFunc(all, func(a, b *machine) int { // by name before
			return cmp.Or(cmp.Compare(a.slow(), b.slow()), cmp.Compare(s.part(b, t.gang()), s.part(a, t.gang())),
				cmp.Compare(score(a, t.experiment, was), score(b, t.experiment, was)))
		})
		for _, first := range all[:min(len(all), gangStarts)] {
			if now := s.choose(first, all, t, was); best == nil || now.before(best) {
				best = now
			}
		}
	}
	if best == nil || len(best.gang) < t.gang() {
		return nil
	}
	return best.gang
}

// choice is a gang that might be taken.
type choice struct {
	gang     []Server
	machines []*machine
	slow     int     // of the machines
	apart    float64 // seconds between each two of them, together
	near     int     // labels that each machine has in common with those before it
}

// before tells whether a choice is better than another one, which comes first where they are alike.
func (c *choice) before(d *choice) bool {
	return cmp.Or(cmp.Compare(len(d.gang), len(c.gang)), cmp.Compare(c.slow, d.slow),
		cmp.Compare(len(c.machines), len(d.machines)), cmp.Compare(c.apart, d.apart), cmp.Compare(d.near, c.near)) < 0
}

// part is how many servers of a machine a gang may have that lacks so many.
func (s *State) part(m *machine, lacks int) int { return min(s.freeOf(m), lacks, gangServers) }

// choose makes a gang that begins with a machine: each next one is the one with the most servers of those that are
// lacking, then the nearest one by what was measured, then by labels, then the one with the least score.
func (s *State) choose(first *machine, all []*machine, t *step, was *Piece) *choice {
	c := &choice{}
	for next := first; next != nil && len(c.gang) < t.gang() && len(c.machines) < gangMachines; {
		c.slow += next.slow()
		c.near += near(next, c.machines)
		c.apart += apart(next, c.machines)
		c.machines = append(c.machines, next)
		from := len(c.gang)
		c.gang = s.pick(c.gang, next, min(t.gang(), len(c.gang)+gangServers))
		for i := range c.gang[from:] {
			c.gang[from+i].Address = next.Address
		}
		lacks := t.gang() - len(c.gang)
		next = nil
		for _, m := range all {
			if slices.Contains(c.machines, m) {
				continue
			}
			if next == nil || cmp.Or(cmp.Compare(m.slow(), next.slow()),
				cmp.Compare(s.part(next, lacks), s.part(m, lacks)),
				cmp.Compare(apart(m, c.machines), apart(next, c.machines)),
				cmp.Compare(near(next, c.machines), near(m, c.machines)),
				cmp.Compare(score(m, t.experiment, was), score(next, t.experiment, was))) < 0 {
				next = m
			}
		}
	}
	return c
}

// near is how many labels a machine has in common with others: machines of one rack are near each other when their
// labels say so.
func near(m *machine, others []*machine) (labels int) {
	for _, other := range others {
		for key, value := range m.Labels {
			if other.Labels[key] == value {
				labels++
			}
		}
	}
	return labels
}
