// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"slices"
	"strings"

	"github.com/disco-sim/disco/scenario"
)

func (l *loader) readTraffic(v scenario.Value) {
	s := v.Section("matrix", "mass", "packets_per_second", "bits_per_second", "arrivals", "packet_bytes", "flows")
	l.spec.Arrivals = s.Field("arrivals").WordOr(Poisson, Poisson, Constant)
	before := l.r.Refusals()
	l.readSizes(s.Field("packet_bytes"))
	sizesGood := l.r.Refusals() == before
	matrix, flows := s.Field("matrix"), s.Field("flows").OrNull()
	if !matrix.Present() && !flows.Present() {
		if v.Present() {
			v.Refuse("neither matrix nor flows", "a traffic matrix, or a list of flows, or both", "")
		}
		return
	}
	if matrix.Present() {
		l.readMatrix(s, matrix, sizesGood)
	} else {
		for _, name := range []string{"mass", "packets_per_second", "bits_per_second"} {
			if f := s.Field(name); f.Present() {
				f.Refuse(name+" without a matrix", "it only with one",
					"give each of the flows its own rate, or add a matrix")
			}
		}
	}
	if flows.Present() {
		for _, item := range flows.List() {
			l.readFlow(item, sizesGood)
		}
	}
	l.checkTotal(v)
}

func (l *loader) checkTotal(v scenario.Value) {
	total := 0.0
	for _, f := range l.spec.Flows {
		total += f.Rate
	}
	if total > trafficMax {
		v.Refuse(fmt.Sprintf("%.4g packets a second in all", total), fmt.Sprintf("at most %.0f", trafficMax), "")
	}
	if len(l.spec.Flows) > flowsMax {
		v.Refuse(fmt.Sprintf("%d flows", len(l.spec.Flows)), fmt.Sprintf("at most %d", flowsMax), "")
	}
}

// readRate reads a number of packets a second, given as such or as bits a second.
func (l *loader) readRate(s scenario.Section, sizesGood bool) float64 {
	packets, bits := s.Field("packets_per_second"), s.Field("bits_per_second")
	switch {
	case packets.Present() && bits.Present():
		bits.Refuse("bits_per_second beside packets_per_second", "one of the two", "remove one")
		return 0
	case !bits.Present():
		return packets.Float(scenario.MoreThan(0).AtMost(trafficMax))
	}
	b := bits.Float(scenario.MoreThan(0).AtMost(trafficMax * 8))
	if !sizesGood {
		return 0
	}
	return b / 8 / l.spec.Sizes.Mean
}

// readSizes reads the distribution of packet sizes: a number, or a mapping.
func (l *loader) readSizes(v scenario.Value) {
	z := &l.spec.Sizes
	*z = Sizes{Kind: Fixed, Mean: defaultPacketBytes}
	if !v.Present() {
		return
	}
	bytes := scenario.Between(1, packetBytesMax)
	if !v.IsMapping() {
		z.Mean = float64(v.Int(bytes.Or("a mapping with distribution")))
		return
	}
	s := v.Section("distribution", "mean", "min", "max", "values")
	z.Kind = s.Field("distribution").Word(Fixed, Exponential, Uniform, Discrete)
	needs := map[string][]string{Fixed: {"mean"}, Exponential: {"mean"}, Uniform: {"min", "max"},
		Discrete: {"values"}}[z.Kind]
	for _, name := range []string{"mean", "min", "max", "values"} {
		if f := s.Field(name); f.Present() && z.Kind != "" && !slices.Contains(needs, name) {
			f.Refuse(name+" of the distribution "+z.Kind, "only "+strings.Join(needs, " and "), "remove it")
		}
	}
	switch z.Kind {
	case Fixed:
		z.Mean = float64(s.Field("mean").Int(bytes))
	case Exponential:
		z.Mean = s.Field("mean").Float(bytes)
	case Uniform:
		z.Min = float64(s.Field("min").Int(bytes))
		z.Max = float64(s.Field("max").Int(bytes))
		if z.Mean = (z.Min + z.Max) / 2; z.Min > z.Max {
			s.Field("max").Refuse(fmt.Sprintf("%.0f", z.Max), fmt.Sprintf("at least min, which is %.0f", z.Min), "")
		}
	case Discrete:
		z.readValues(s.Field("values"))
	}
}

// readValues reads sizes with their shares, which need not add up to 1.
func (z *Sizes) readValues(v scenario.Value) {
	sum := 0.0
	z.Mean = 0
	for _, item := range v.List() {
		s := item.Section("bytes", "share")
		b := float64(s.Field("bytes").Int(scenario.Between(1, packetBytesMax)))
		share := s.Field("share").Float(scenario.MoreThan(0).AtMost(1e9))
		sum += share
		z.Mean += b * share
		z.Bytes, z.Shares = append(z.Bytes, b), append(z.Shares, sum)
	}
	if len(z.Bytes) == 0 {
		if v.Present() {
			v.Refuse("no value", "a list of { bytes, share }", "")
		}
		return
	}
	if sum > 0 { // else every share was refused
		z.Mean /= sum
		for i := range z.Shares {
			z.Shares[i] /= sum
		}
	}
}

// readFlow reads one flow of the list.
func (l *loader) readFlow(v scenario.Value, sizesGood bool) {
	s := v.Section("from", "to", "packets_per_second", "bits_per_second")
	before := l.r.Refusals()
	f := Flow{From: l.node(s.Field("from")), To: l.node(s.Field("to")), Rate: l.readRate(s, sizesGood)}
	if l.r.Refusals() != before || f.From < 0 || f.To < 0 || !sizesGood {
		return
	}
	if f.From == f.To {
		s.Field("to").Refuse("a flow from a node to itself", "two different nodes", "")
		return
	}
	if f.Rate < flowRateMin {
		v.Refuse(fmt.Sprintf("%g packets a second", f.Rate), fmt.Sprintf("at least %g", float64(flowRateMin)), "")
		return
	}
	l.spec.Flows = append(l.spec.Flows, f)
}

// readMatrix makes the flows of a traffic matrix: between all nodes that are no
// junctions, each pair both ways.
func (l *loader) readMatrix(s scenario.Section, matrix scenario.Value, sizesGood bool) {
	kind := matrix.Word("gravity", "uniform")
	mass := s.Field("mass")
	if mass.Present() && kind == "uniform" {
		mass.Refuse("mass of a uniform matrix", "it only in a gravity matrix", "remove it")
	}
	total := l.readRate(s, sizesGood)
	if kind == "" || l.spec.Topology == nil {
		return
	}
	masses, ok := l.masses(kind, mass)
	if !ok || total == 0 {
		return
	}
	sum, squares, ends := 0.0, 0.0, 0
	for _, m := range masses {
		sum += m
		squares += m * m
		if m > 0 {
			ends++
		}
	}
	if ends < 2 {
		matrix.Refuse(fmt.Sprintf("a matrix over %d nodes that traffic may begin or end at", ends),
			"at least two (hyperedge 1 makes a node a junction; a mass of 0 takes it out)", "")
		return
	}
	if ends*(ends-1) > flowsMax {
		matrix.Refuse(fmt.Sprintf("a matrix of %d flows", ends*(ends-1)), fmt.Sprintf("at most %d", flowsMax),
			"list the flows that matter")
		return
	}
	for from, a := range masses {
		for to, b := range masses {
			// The pairs of a node with itself have the part squares of sum².
			if rate := total * a * b / (sum*sum - squares); from != to && rate >= flowRateMin {
				l.spec.Flows = append(l.spec.Flows, Flow{From: from, To: to, Rate: rate})
			}
		}
	}
}

// masses are the weights of the nodes in a matrix; 0: no traffic.
func (l *loader) masses(kind string, attribute scenario.Value) (masses []float64, ok bool) {
	t := l.spec.Topology
	masses = make([]float64, len(t.Nodes))
	name := attribute.TextOr("")
	capacity := make([]float64, len(t.Nodes))
	for _, c := range t.Cables {
		capacity[c.A] += c.Rate / linkRateMax
		capacity[c.B] += c.Rate / linkRateMax
	}
	for i := range t.Nodes {
		switch {
		case t.Nodes[i].Junction:
		case kind == "uniform":
			masses[i] = 1
		case name == "":
			masses[i] = capacity[i]
		default:
			m, known := t.Nodes[i].number(name)
			found := fmt.Sprintf("the attribute %s, which is %v for the node %s", name, m, t.Nodes[i].Name)
			if !known {
				found = fmt.Sprintf("the attribute %s, which the node %s doesn't have as a number", name,
					t.Nodes[i].Name)
			}
			if !known || m < 0 || m > massMax {
				attribute.Refuse(fmt.Sprintf("%s (line %d of the topology)", found, t.Nodes[i].Line),
					fmt.Sprintf("an attribute that is a number from 0 to %g for every node", float64(massMax)),
					"leave mass out to take the rate of each node's links")
				return nil, false
			}
			masses[i] = m
		}
	}
	return masses, true
}
