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
func Kind() scenario.Kind {
	return scenario.Kind{Name: KindName, Load: scenario.Loader(Load, New), Unpack: unpack, Varies: varies,
		About: about}
}

var (
	_ scenario.Packer = (*Model)(nil)
	_ scenario.Sizer  = (*Model)(nil)
)

// Model is one queueing network, ready to run: it implements scenario.Scenario. It is
// immutable.
type Model struct {
	maker
	spec  *Spec
	graph *node.Graph
	rates []float64 // customers who come in a second, by station, where theory knows
}

// maker makes the stations of a scenario. What it needs of one is asked for when it is made: workers have only that
// (pack.go), and not the scenario.
type maker struct {
	common
	stations func(n int) (*Station, error)

	// For tests: see sampler.quantum, and what observe gets of every customer whom a
	// station takes in.
	quantum float64
	observe func(station int, arrival, wait, service float64)
}

// common is what making any station takes.
type common struct {
	name                     string
	horizon, warmup, transit float64 // seconds
	stretches                int     // of time, in which stations count
	promises                 bool    // see promisesMax
}

// promisesMax is the number of stations up to which each promises when it will next
// send. Every promise makes the engine look at all links of a worker, which pays in
// small networks only.
const promisesMax = 64

// New makes the model of a spec of Load's, which must not be changed afterwards.
func New(spec *Spec) *Model {
	m := &Model{spec: spec, graph: &node.Graph{Simprocs: []string{"queue"}}}
	m.maker = maker{common: common{name: spec.Name, horizon: spec.Horizon, warmup: spec.Warmup, transit: spec.Transit,
		stretches: batchCount,
		promises:  len(spec.Stations) <= promisesMax},
		stations: func(n int) (*Station, error) { return &spec.Stations[n], nil }}
	if spec.Settles {
		m.stretches = max(batchCount, measure.WindowCount(int(tallyFields)*len(spec.Stations)))
	}
	m.rates, _ = spec.rates()
	for i := range spec.Stations {
		st := &spec.Stations[i]
		work := m.rates[i]
		if !(work > 0) { // customers that are there from the start, mostly
			work = min(float64(st.Servers)/st.Service.Mean, 1e9)
		}
		m.graph.Nodes = append(m.graph.Nodes, node.Node{Name: st.ID, Work: work})
		for _, r := range st.To {
			if r.Station != i {
				m.graph.Links = append(m.graph.Links, node.Link{
					From: node.Endpoint{Node: i}, To: node.Endpoint{Node: r.Station},
					Lookahead: st.lookahead(spec.Transit), Rate: work * r.Probability,
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
func (st *Station) lookahead(transit float64) float64 {
	if l := transit + st.Service.least(); l > 0 {
		return l
	}
	return math.SmallestNonzeroFloat64
}

// Name is the scenario's name, for people.
func (m *maker) Name() string { return m.name }

// Horizon is the simulated time at which the run ends, in seconds.
func (m *maker) Horizon() float64 { return m.horizon }

// Warmup is the simulated time before which nothing is counted, in seconds.
func (m *maker) Warmup() float64 { return m.warmup }

// Settles implements scenario.Settler.
func (m *Model) Settles() bool { return m.spec.Settles }

// Course implements scenario.Settler.
func (m *Model) Course(s *scenario.Series) bool { return s.Of == "" && s.Name == "in_network" }

// Memory is what the stations take, and the customers: those who are there from the start, and of those who come from
// outside, as far as theory knows, the ones who are served or on their way, and the ones who wait where more come than
// can be served.
func (m *Model) Memory() scenario.Memory {
	servers, initial, present := 0.0, 0.0, 0.0
	fed := m.spec.reached(func(st *Station) bool { return st.Arrivals != nil })
	for i := range m.spec.Stations {
		st := &m.spec.Stations[i]
		servers += float64(st.Servers)
		initial += float64(st.Initial)
		if st.Arrivals != nil {
			initial++ // the next one to come
		}
		most := float64(st.Servers) / st.Service.Mean
		if in := m.rates[i]; in > 0 && fed[i] {
			present += min(in, most) * (st.Service.Mean + m.transit)
			if st.Buffer == Unlimited {
				present += max(0, in-most) * m.horizon
			}
		}
	}
	n := float64(len(m.spec.Stations))
	course := 8 * int(tallyFields) * (m.stretches - batchCount)
	return scenario.Memory{NodeBytes: stationBytes + course + int(serverBytes*servers/n),
		ResultBytes: 3 * m.reportBytes(),
		EventBytes:  customerBytes, Pending: int64(min(initial+present, math.MaxInt64/2)),
		PackedBytes: packedBytes * int64(n)}
}

// What a station takes, measured (docs/running.md, "Refused beforehand").
const (
	stationBytes = 4600 // most of it sums over batches
	serverBytes  = 16   // of each of its servers
	packedBytes  = 200  // of Pack, with few ways on
)

// Graph is one node a station, and a link for every way from one to another.
func (m *Model) Graph() *node.Graph { return m.graph }

// NewHandler makes one station.
func (m *maker) NewHandler(p *node.Simproc) (node.Handler, error) {
	i := p.NodeIndex()
	st, err := m.stations(i)
	if err != nil {
		return nil, err
	}
	route := p.Source("route")
	s := &station{
		spec: st, transit: m.transit, lookahead: st.lookahead(m.transit), least: st.Service.least(),
		service: newSampler(st.Service, p.Source("service"), m.quantum),
		route:   route,
		choice:  rand.New(route),
		tally:   newTally(m.warmup, m.horizon, m.stretches),
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
		way := way{below: sum, station: int32(r.Station), self: r.Station == i}
		if !way.self {
			l, err := p.LinkTo(node.Endpoint{Node: r.Station})
			if err != nil {
				return nil, err
			}
			way.link = l
			s.promises = m.promises
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
func (m *maker) reportBytes() int { return 8 + 8*int(tallyFields)*m.stretches }

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

func newTally(warmup, horizon float64, stretches int) tally {
	var t tally
	for i := range t {
		t[i] = measure.NewBatches(warmup, horizon, stretches)
	}
	return t
}
