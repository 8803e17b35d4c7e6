// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// Kind is the "supply" kind of scenario, for a scenario.Registry.
func Kind() scenario.Kind {
	return scenario.Kind{Name: KindName, Load: scenario.Loader(Load, New), Unpack: unpack, References: references,
		Varies: varies, About: supplyAbout()}
}

var (
	_ scenario.Sizer     = (*Model)(nil)
	_ scenario.Settler   = (*Model)(nil)
	_ scenario.Noter     = (*Model)(nil)
	_ scenario.Describer = (*Model)(nil)
	_ scenario.Tabular   = (*Model)(nil)
	_ scenario.Sometimes = (*Model)(nil)
)

// Layers of a location, by rank: what happens at one instant goes up the ranks and from customers to suppliers, and
// comes back later.
const (
	demandRank = iota // customers from outside
	stockRank         // stocks and their policies
	lineRank          // production
)

// Model is one supply network, ready to run: it implements scenario.Scenario. It is immutable.
type Model struct {
	maker
	graph *node.Graph
}

// maker makes handlers, in the launcher and in workers.
type maker struct {
	spec     *Spec // in workers without Locations
	location func(n, rank int) (*Location, error)

	made func(h node.Handler) // for tests: what was made
}

// New makes the model of a spec of Load's, which must not be changed afterwards.
func New(spec *Spec) *Model {
	m := &Model{maker: maker{spec: spec}, graph: &node.Graph{Simprocs: []string{"demand", "stock", "production"}}}
	spec.windows = spec.windowCount()
	m.location = func(n, _ int) (*Location, error) { return &spec.Locations[n], nil }
	asked := spec.rates()
	m.graph.Epochs = spec.epochs(asked)
	for i := range spec.Locations {
		loc := &spec.Locations[i]
		work := 0.0
		for k, r := range asked[i] {
			work += r.outside + r.events + r.ordered // a demand is drawn, and is an event of the stock, as an order is
			if loc.Points[k].Made {
				work += r.ordered
			}
		}
		m.graph.Nodes = append(m.graph.Nodes, node.Node{Name: loc.ID, Work: work})
		m.linkInside(i, asked[i])
	}
	m.linkBetween(asked)
	return m
}

// linkInside adds the links between the layers of a location that has them.
func (m *Model) linkInside(i int, asked []rate) {
	loc := &m.spec.Locations[i]
	link := func(from, to int, lookahead, rate float64) {
		m.graph.Links = append(m.graph.Links, node.Link{From: node.Endpoint{Node: i, Simproc: from},
			To: node.Endpoint{Node: i, Simproc: to}, Lookahead: lookahead, Rate: rate})
	}
	outside, made := 0.0, 0.0
	for k, r := range asked {
		outside += r.outside
		if loc.Points[k].Made {
			made += r.ordered
		}
	}
	if loc.sells() {
		link(demandRank, stockRank, 0, outside)
	}
	if len(loc.Lines) == 0 {
		return
	}
	least := math.Inf(1)
	for l := range loc.Lines {
		least = min(least, lookahead(loc.Lines[l].Time.Min()))
	}
	link(stockRank, lineRank, 0, made)
	link(lineRank, stockRank, least, made)
}

// linkBetween adds a link for orders and one for deliveries between each supplier and each of its customers.
func (m *Model) linkBetween(asked [][]rate) {
	for i := range m.spec.Locations {
		first := len(m.graph.Links)
		index := map[int32]int{} // by customer
		for _, c := range m.spec.Locations[i].Customers {
			p := &m.spec.Locations[c.Location].Points[c.Point]
			at, ok := index[c.Location]
			if !ok {
				at = len(m.graph.Links)
				index[c.Location] = at
				supplier := node.Endpoint{Node: i, Simproc: stockRank}
				customer := node.Endpoint{Node: int(c.Location), Simproc: stockRank}
				m.graph.Links = append(m.graph.Links,
					node.Link{From: supplier, To: customer, Lookahead: lookahead(c.Lead.Min())},
					node.Link{From: customer, To: supplier, Lookahead: p.Delay})
			}
			down, up := &m.graph.Links[at], &m.graph.Links[at+1]
			down.Lookahead = min(down.Lookahead, lookahead(c.Lead.Min()))
			up.Lookahead = min(up.Lookahead, p.Delay)
			down.Rate += asked[c.Location][c.Point].ordered
			up.Rate += asked[c.Location][c.Point].ordered
		}
		if len(m.graph.Links)-first > 2*len(m.spec.Locations[i].Customers) {
			panic(fmt.Sprintf("supply: %d links of %s", len(m.graph.Links)-first, m.spec.Locations[i].ID))
		}
	}
}

// sells reports whether anybody from outside asks for something here.
func (loc *Location) sells() bool {
	for i := range loc.Points {
		if loc.Points[i].Demand != nil {
			return true
		}
	}
	return len(loc.File) > 0
}

// lookahead is the least time of something that takes time: where a distribution has no least number above 0, what it
// begins ends strictly later all the same, which the least number expresses.
func lookahead(least float64) float64 { return max(least, math.SmallestNonzeroFloat64) }

// later is from + seconds, and in any case later than from.
func later(from, seconds float64) float64 {
	if t := from + seconds; t > from {
		return min(t, math.MaxFloat64)
	}
	return math.Nextafter(from, math.Inf(1))
}

// Name is the scenario's name, for people.
func (m *maker) Name() string { return m.spec.Name }

// Horizon is the simulated time at which the run ends, in seconds.
func (m *maker) Horizon() float64 { return m.spec.Horizon }

// Warmup is the simulated time before which nothing is counted, in seconds.
func (m *Model) Warmup() float64 { return m.spec.Warmup }

// Settles implements scenario.Settler.
func (m *Model) Settles() bool { return m.spec.Settles }

// Course implements scenario.Settler.
func (m *Model) Course(s *scenario.Series) bool {
	return s.Of == "" && (s.Name == "stock" || s.Name == "backlog")
}

// Notes are remarks for the person who wrote the file.
func (m *Model) Notes() []string { return m.spec.Notes }

// Graph has three simprocs a location: demand, stock and production.
func (m *Model) Graph() *node.Graph { return m.graph }

// What stock points take, measured (docs/model-supply.md, "Large networks").
const (
	locationBytes = 700
	pointBytes    = 450 // with its demand
	specBytes     = 100 // of a point in the scenario,
	siteBytes     = 400 // and of a location
	packedPoint   = 60  // of a point in what is packed,
	packedSite    = 250 // and of a location
	ownSite       = 700 // of a location in what a worker has decoded of that
)

// Memory is what the stock points take. How much is under way isn't known: as much as a point of base stock has
// ordered, one unit each.
func (m *Model) Memory() scenario.Memory {
	points, pending := 0, 0.0
	for i := range m.spec.Locations {
		for k := range m.spec.Locations[i].Points {
			points++
			pending += 2 + math.Sqrt(float64(m.spec.Locations[i].Points[k].Stock.UpTo))
		}
	}
	n := len(m.spec.Locations)
	pointBytes, reportBytes := pointBytes, reportBytes
	if m.spec.windows > 0 {
		pointBytes += measure.WindowBytes(m.spec.windows, windowFields)
		reportBytes += measure.WindowBytes(m.spec.windows, windowFields)
	}
	memory := scenario.Memory{NodeBytes: locationBytes + points*pointBytes/n, ResultBytes: points * reportBytes / n,
		EventBytes: messageBytes, Pending: int64(pending), WorkerBytes: int64(points*specBytes + n*siteBytes)}
	if m.Packs() {
		memory.NodeBytes += ownSite + points*2*specBytes/n // by two layers
		memory.PackedBytes, memory.WorkerBytes = int64(points*packedPoint+n*packedSite), 0
		for _, id := range m.spec.Products {
			memory.WorkerBytes += int64(len(id)) + 16
		}
	}
	return memory
}

// A message is what simprocs send each other.
const messageBytes = 16

// What messages say.
const (
	arrival = 1 + iota // of units at a point
	order              // of a customer of the location
	wanted             // at a point, from outside
	produce            // for a point
	messages
)

type message [messageBytes]byte

// put fills a message in place: it is sent at once, and copied then.
func (b *message) put(what, at uint32, quantity int64) []byte {
	binary.LittleEndian.PutUint32(b[:], what)
	binary.LittleEndian.PutUint32(b[4:], at)
	binary.LittleEndian.PutUint64(b[8:], uint64(quantity))
	return b[:]
}

// quantityMax bounds what is asked for at once, so that no sum of them leaves an int64.
const quantityMax = 1e9

// readMessage reads one whose place is below the limit of its kind.
func readMessage(b []byte, limits *[messages]int) (what, at uint32, quantity int64, err error) {
	if len(b) == messageBytes {
		what, at = binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
		quantity = int64(binary.LittleEndian.Uint64(b[8:]))
		if what < messages && int64(at) < int64(limits[what]) && quantity > 0 && quantity <= orderMax {
			return what, at, quantity, nil
		}
	}
	return 0, 0, 0, fmt.Errorf("supply: a message of %d bytes, %x, which no location sends here", len(b), b)
}

// DescribeEvent is an event in words.
func (m *Model) DescribeEvent(data []byte) string {
	what, at, quantity, err := readMessage(data, &[messages]int{0, math.MaxInt32, math.MaxInt32, math.MaxInt32,
		math.MaxInt32})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf([messages]string{"", "arrival of %d for point %d", "order of %d by customer %d",
		"demand of %d at point %d", "production of %d for point %d"}[what], quantity, at)
}

// NewHandler makes one layer of a location.
func (m *maker) NewHandler(p *node.Simproc) (h node.Handler, err error) {
	loc, err := m.location(p.NodeIndex(), p.Rank())
	if err != nil {
		return nil, err
	}
	switch p.Rank() {
	case demandRank:
		h, err = newDemand(m.spec, loc, p)
	case stockRank:
		h, err = newStock(m.spec, loc, p)
	default:
		h, err = newProduction(m.spec, loc, p)
	}
	if err == nil && m.made != nil {
		m.made(h)
	}
	return h, err
}
