// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"
	"strings"

	"github.com/disco-sim/disco/scenario"
)

var _ scenario.Drawn = (*Results)(nil)

// Drawing implements scenario.Drawn: nodes, with the utilisation of the busiest of their servers, and links. Links that
// nodes have to all others aren't drawn.
func (r *Results) Drawing() *scenario.Drawing {
	d := &scenario.Drawing{}
	loads := r.utilisations()
	for _, g := range r.m.groups {
		for i := range g.count {
			if len(d.Boxes) == scenario.BoxesMax {
				d.OmittedBoxes += g.count - i
				break
			}
			b := scenario.Box{ID: g.nodeName(i), Kind: "node", Load: scenario.NoLoad}
			if !g.single {
				b.Group = g.name
			}
			for _, s := range loads[g.name] {
				if one := s.loadOf(b.ID, g.single); math.IsNaN(b.Share) || one.Share > b.Share {
					b.Load = one
				}
			}
			d.AddBox(b)
		}
	}
	seen := map[[2]int]bool{} // layers have links of their own
	for i := range r.m.graph.Links {
		l := &r.m.graph.Links[i]
		from, to := l.From.Node, l.To.Node
		if max(from, to) >= len(d.Boxes) || len(d.Links) == scenario.LinksMax {
			d.OmittedLinks++
		} else if at := [2]int{from, to}; !seen[at] {
			seen[at] = true
			d.AddLink(scenario.Link{ID: d.Boxes[from].ID + " -> " + d.Boxes[to].ID, From: from, To: to,
				Load: scenario.NoLoad, Amount: math.NaN()})
		}
	}
	return d
}

// utilisations are the statistics that say how busy servers were, by group.
func (r *Results) utilisations() map[string][]*Statistic {
	all := map[string][]*Statistic{}
	for _, s := range r.Statistics {
		if s.Kind == kindNames[gaugeKind] && strings.HasSuffix(s.Name, ".utilisation") {
			group, _, _ := strings.Cut(s.Name, "/")
			all[group] = append(all[group], s)
		}
	}
	return all
}

// loadOf is what it says of a node: that of all nodes of its form where results don't have more.
func (s *Statistic) loadOf(name string, single bool) scenario.Load {
	_, what, _ := strings.Cut(s.Name, "/")
	if f := s.PerNode.of(name); f != nil && f.Mean != nil {
		return scenario.Load{Share: *f.Mean, Of: what}
	}
	if s.Mean == nil || math.IsNaN(s.Mean.Mean) {
		return scenario.NoLoad
	}
	if !single {
		what += ", mean of all such nodes"
	}
	return scenario.Load{Share: s.Mean.Mean, Of: what}
}
