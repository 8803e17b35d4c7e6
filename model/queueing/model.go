// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"math"
	"math/rand/v2"

	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// Kind is the "queueing" kind of scenario, for a scenario.Registry.
func Kind() scenario.Kind { return scenario.Kind{Name: KindName, Load: scenario.Loader(Load, New)} }

// Model is one queueing network, ready to run: it implements scenario.Scenario. It is
// immutable; every worker makes its own from the same file.
type Model struct {
	spec  *Spec
	graph *node.Graph

	// For tests: see sampler.quantum, and what observe gets of every customer whom a
	// station takes in.
	quantum float64
	observe func(station int, arrival, wait, service float64)
}

// promisesMax is the number of stations up to which each promises when it will next
// send. Every promise makes the engine look at all links of a worker, which pays in
// small networks only.
const promisesMax = 64

// New makes the model of a spec of Load's, which must not be changed afterwards.
func New(spec *Spec) *Model {
	m := &Model{spec: spec, graph: &node.Graph{Simprocs: []string{"queue"}}}
	rates, _ := spec.rates()
	for i := range spec.Stations {
		st := &spec.Stations[i]
		work := rates[i]
		if !(work > 0) { // customers that are there from the start, mostly
			work = min(float64(st.Servers)/st.Service.Mean, 1e9)
		}
		m.graph.Nodes = append(m.graph.Nodes, node.Node{Name: st.ID, Work: work})
		for _, r := range st.To {
			if r.Station != i {
				m.graph.Links = append(m.graph.Links, node.Link{
					From: node.Endpoint{Node: i}, To: node.Endpoint{Node: r.Station},
					Lookahead: spec.lookahead(i), Rate: work * r.Probability,
				})
			}
		}
	}
	return m
}

// lookahead is the least time between a customer's arrival at a station and at the
// next. A station sends a customer on when he arrives, because all that decides when he
// will leave is known then; so the least service time counts. Where that is 0, as with
// exponential times, every departure still comes strictly later than the arrival,
// which the least number above 0 expresses: networks have cycles.
func (s *Spec) lookahead(station int) float64 {
	if l := s.Transit + s.Stations[station].Service.least(); l > 0 {
		return l
	}
	return math.SmallestNonzeroFloat64
}

// Name is the scenario's name, for people.
func (m *Model) Name() string { return m.spec.Name }

// Horizon is the simulated time at which the run ends, in seconds.
func (m *Model) Horizon() float64 { return m.spec.Horizon }

// Graph is one node a station, and a link for every way from one to another.
func (m *Model) Graph() *node.Graph { return m.graph }

// NewHandler makes one station.
func (m *Model) NewHandler(p *node.Simproc) (node.Handler, error) {
	spec := m.spec
	i := p.NodeIndex()
	st := &spec.Stations[i]
	s := &station{
		spec: st, transit: spec.Transit, lookahead: spec.lookahead(i), least: st.Service.least(),
		service: newSampler(st.Service, p.Source("service"), m.quantum),
		choice:  rand.New(p.Source("route")),
		tally:   newTally(spec),
	}
	for range st.Servers {
		s.free.Push(0, struct{}{})
	}
	s.nextService = s.service.draw()
	if st.Arrivals != nil {
		s.arrivals = newSampler(*st.Arrivals, p.Source("arrivals"), m.quantum)
	}
	if m.observe != nil {
		s.observe = func(arrival, wait, service float64) { m.observe(i, arrival, wait, service) }
	}
	sum := 0.0
	for k, r := range st.To {
		sum += r.Probability
		if k == len(st.To)-1 && st.Stay {
			sum = 1
		}
		way := way{below: sum, self: r.Station == i}
		if !way.self {
			l, err := p.LinkTo(node.Endpoint{Node: r.Station})
			if err != nil {
				return nil, err
			}
			way.link = l
			s.promises = len(spec.Stations) <= promisesMax
		}
		s.ways = append(s.ways, way)
	}
	return s, nil
}

// batchCount is the number of stretches into which the time after the warm-up is cut.
// measure.Ratio joins them until they are long against the time in which the network
// forgets; more of them would only make reports longer.
const batchCount = 32

// What a station counts, in stretches of time, in the order of its report.
const (
	offered   = iota // customers who came
	accepted         // and found a place
	waited           // and had to wait
	waiting          // how long, by the time of arrival
	residence        // waiting and service, by the time of arrival
	present          // customers × time
	busy             // servers × time
	served           // customers who left, by the time at which they did
	exits            // and left the network
	sojourn          // their time in the network
	moving           // customers on the way to the next station × time
	tallyFields
)

// reportBytes is the length of a station's report.
const reportBytes = 8 + 8*tallyFields*batchCount

// tally has one row of batches for each.
type tally [tallyFields]*measure.Batches

// align makes the batches of all rows of one length that reaches an instant, and gives
// how often they may still double.
func (t *tally) align(reached float64) int {
	t[0].Reach(reached)
	least := t[0].Doublings()
	for _, b := range t {
		least = min(least, b.Doublings())
	}
	for _, b := range t {
		b.Coarsen(least)
	}
	return least
}

func newTally(spec *Spec) tally {
	var t tally
	for i := range t {
		t[i] = measure.NewBatches(spec.Warmup, spec.Horizon, batchCount)
	}
	return t
}
