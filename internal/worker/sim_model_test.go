// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/state"
)

// simScenario is a random small scenario: nodes with one or two simprocs, links with all
// kinds of lookahead, handlers that send random events on, with payloads of the sizes
// that matter to rings and blocks.
type simScenario struct {
	graph   *node.Graph
	horizon float64
	first   int   // events that every simproc sends at the start
	life    int   // links that an event passes over, with all that it causes
	split   int   // chance in 1000 that one event causes two
	sizes   []int // of payloads, simEventBytes or more
	self    int   // chance in 1000 that an event goes to the simproc itself
	failAt  int   // activation of one simproc at which its handler fails; 0: never
	panics  bool  // it panics, instead of returning an error
}

const (
	simEventBytes = 8  // of a payload at least: what Handle checks
	simSmallMax   = 32 // of small payloads
)

var simLookaheads = []float64{0, 0, 1e-9, 0.1, 0.5, 0.5, 1, 3}

func (s *simScenario) Name() string     { return "simulated" }
func (s *simScenario) Horizon() float64 { return s.horizon }
func (s *simScenario) Graph() *node.Graph {
	return s.graph
}
func (s *simScenario) Accumulate() scenario.Accumulator { return nil }

// newSimScenario draws a scenario for so many workers whose payloads are small, about as
// long as inlineMax, or up to dataMax bytes.
func newSimScenario(rnd *rand.Rand, workers, inlineMax, dataMax int) *simScenario {
	s := &simScenario{
		graph:   &node.Graph{Simprocs: []string{"a", "b"}[:1+rnd.IntN(2)]},
		horizon: []float64{3, 10, 1e9}[rnd.IntN(3)],
		first:   []int{1, 1, 1, 2, 2, 3, 3, 25}[rnd.IntN(8)],
		life:    1 + rnd.IntN(5),
		split:   rnd.IntN(250),
		self:    rnd.IntN(300),
	}
	for range 1 + rnd.IntN(3) {
		s.sizes = append(s.sizes, simEventBytes+rnd.IntN(simSmallMax-simEventBytes))
	}
	for range rnd.IntN(5) {
		s.sizes = append(s.sizes, max(simEventBytes, inlineMax-1+rnd.IntN(3)))
		s.sizes = append(s.sizes, max(simEventBytes, inlineMax+1+rnd.IntN(dataMax-inlineMax)))
	}
	g := s.graph
	for i := range workers + rnd.IntN(4) {
		g.Nodes = append(g.Nodes, node.Node{Name: fmt.Sprintf("n%d", i), Work: 1, Shared: rnd.IntN(4) == 0})
	}
	n, layers := len(g.Nodes), len(g.Simprocs)
	links := n + rnd.IntN(2*n)
	if rnd.IntN(6) == 0 {
		g.Meshes = append(g.Meshes, node.Mesh{From: rnd.IntN(layers), To: rnd.IntN(layers),
			Lookahead: simLookaheads[2+rnd.IntN(6)]})
		links = rnd.IntN(n)
	}
	for range links {
		l := node.Link{
			From:      node.Endpoint{Node: rnd.IntN(n), Simproc: rnd.IntN(layers)},
			To:        node.Endpoint{Node: rnd.IntN(n), Simproc: rnd.IntN(layers)},
			Lookahead: simLookaheads[rnd.IntN(len(simLookaheads))],
		}
		if l.Lookahead == 0 && !(l.From.Node < l.To.Node && l.From.Simproc <= l.To.Simproc) {
			l.Lookahead = 0.25 // only upwards, or there would be a cycle
		}
		g.Links = append(g.Links, l)
	}
	return s
}

// simHandler sends on what it gets.
type simHandler struct {
	s     *simScenario
	rnd   *rand.Rand
	from  rand.Source // of rnd
	links []simLink
	sum   uint64
	data  []byte
	calls int
}

type simLink struct {
	id        node.LinkID
	lookahead float64
}

func (s *simScenario) NewHandler(p *node.Simproc) (node.Handler, error) {
	h := &simHandler{s: s, from: p.Source(p.Name())}
	h.rnd = rand.New(h.from)
	self := node.Endpoint{Node: p.NodeIndex(), Simproc: p.Rank()}
	seen := map[node.LinkID]bool{}
	add := func(to node.Endpoint, lookahead float64) error {
		id, err := p.LinkTo(to)
		if err == nil && !seen[id] {
			seen[id] = true
			h.links = append(h.links, simLink{id, lookahead})
		}
		return err
	}
	for _, l := range s.graph.Links {
		if l.From != self {
			continue
		}
		// Of several links to one simproc LinkTo finds that of least lookahead.
		least := l.Lookahead
		for _, k := range s.graph.Links {
			if k.From == self && k.To == l.To {
				least = min(least, k.Lookahead)
			}
		}
		if err := add(l.To, least); err != nil {
			return nil, err
		}
	}
	for _, m := range s.graph.Meshes {
		if m.From != self.Simproc {
			continue
		}
		for to := range s.graph.Nodes {
			e := node.Endpoint{Node: to, Simproc: m.To}
			// a link of the same target comes first, whatever its lookahead
			if err := add(e, m.Lookahead+10); err != nil {
				return nil, err
			}
		}
	}
	return h, nil
}

// Handle checks every payload and sends on what has life left.
func (h *simHandler) Handle(p *node.Simproc, events []node.Event) error {
	h.calls++
	if h.calls == h.s.failAt {
		if h.s.panics {
			panic(errSim)
		}
		return errSim
	}
	if h.calls == 1 {
		for range h.s.first {
			if err := h.send(p, uint32(h.s.life)); err != nil {
				return err
			}
		}
	}
	for i := range events {
		life, err := h.check(&events[i])
		if err != nil {
			return err
		}
		if life == 0 {
			continue
		}
		n := 1
		if h.rnd.IntN(1000) < h.s.split {
			n = 2
		}
		for range n {
			if err := h.send(p, life-1); err != nil {
				return err
			}
		}
	}
	return nil
}

// fill makes a payload of which every byte is known: life, length, then a pattern.
func (h *simHandler) fill(life uint32, size int) []byte {
	if cap(h.data) < size {
		h.data = make([]byte, size)
	}
	d := h.data[:size]
	binary.LittleEndian.PutUint32(d, life)
	binary.LittleEndian.PutUint32(d[4:], uint32(size))
	for i := simEventBytes; i < size; i++ {
		d[i] = simPattern(life, size, i)
	}
	return d
}

func simPattern(life uint32, size, i int) byte {
	return byte(uint32(i)*167 + life*13 + uint32(size)*7)
}

// errSim is what a handler fails with that was told to.
var errSim = errors.New("the handler fails")

var errDamaged = errors.New("payload damaged")

func (h *simHandler) check(ev *node.Event) (life uint32, err error) {
	d := ev.Data
	if len(d) < simEventBytes {
		return 0, fmt.Errorf("%w: %d bytes", errDamaged, len(d))
	}
	life = binary.LittleEndian.Uint32(d)
	if n := binary.LittleEndian.Uint32(d[4:]); int(n) != len(d) {
		return 0, fmt.Errorf("%w: %d bytes, written were %d", errDamaged, len(d), n)
	}
	for i := simEventBytes; i < len(d); i++ {
		if d[i] != simPattern(life, len(d), i) {
			return 0, fmt.Errorf("%w: byte %d of %d is %#x", errDamaged, i, len(d), d[i])
		}
	}
	h.sum = h.sum*1099511628211 + uint64(len(d)) + uint64(ev.Sender)<<32
	return life, nil
}

func (h *simHandler) send(p *node.Simproc, life uint32) error {
	d := h.fill(life, h.s.sizes[h.rnd.IntN(len(h.s.sizes))])
	if len(h.links) == 0 || h.rnd.IntN(1000) < h.s.self {
		return p.Schedule(p.Now()+0.01+h.rnd.Float64(), d)
	}
	l := h.links[h.rnd.IntN(len(h.links))]
	at := p.Now() + l.lookahead
	switch h.rnd.IntN(4) {
	case 0: // as early as may be: many events of one epoch
	case 1:
		at += 0.25
	default:
		at += h.rnd.ExpFloat64() / 2
	}
	if l.lookahead > 0 && at <= p.Now() {
		at = p.Now() + 0.25
	}
	return p.Send(l.id, at, d)
}

// StateVersion implements node.Saver.
func (h *simHandler) StateVersion() uint32 { return 1 }

// State implements node.Saver.
func (h *simHandler) State(_ *node.Simproc, c *state.Codec) {
	c.Source(h.from)
	c.Uint64(&h.sum)
	c.Int(&h.calls)
}

func (h *simHandler) Report(*node.Simproc) ([]byte, error) {
	return binary.LittleEndian.AppendUint64(nil, h.sum), nil
}
