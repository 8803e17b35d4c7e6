// SPDX-License-Identifier: Apache-2.0

package service

import (
	"bytes"
	"cmp"
	"container/heap"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// serial is the simple engine: one list of everything pending, sorted by a library,
// and payloads that nobody ever frees. It knows nothing of workers, bounds, stores or
// classes, and stands in for node where a test looks into boxes, and against node
// where a test compares the two.
type serial struct {
	model   *Model
	levels  []uint32
	procs   []*serialProc
	pending serialHeap
	now     float64
	handled []serialEvent
	keep    bool              // fill handled
	probe   func(now float64) // called before the clock moves on from now
	seeds   func(id node.SimprocID, stream string) (high, low uint64)
}

type serialEvent struct {
	epoch  float64
	level  uint32
	target node.SimprocID
	sender node.SimprocID
	number uint64
	data   []byte
	wake   bool
}

type serialProc struct {
	s      *serial
	id     node.SimprocID
	box    logic
	number uint64
}

func (p *serialProc) ID() node.SimprocID                    { return p.id }
func (p *serialProc) Horizon() float64                      { return p.s.model.Horizon() }
func (p *serialProc) Seed(stream string) (high, low uint64) { return p.s.seeds(p.id, stream) }
func (p *serialProc) Now() float64                          { return p.s.now }

func (p *serialProc) LinkTo(e node.Endpoint) (node.LinkID, error) {
	g := p.s.model.Graph()
	for i, l := range g.Links {
		if g.ID(l.From) == p.id && l.To == e {
			return node.LinkID(i), nil
		}
	}
	return 0, fmt.Errorf("no link from %s to %s", g.Name(p.id), g.Name(g.ID(e)))
}

func (p *serialProc) Send(l node.LinkID, epoch float64, data []byte) error {
	g := p.s.model.Graph()
	if !(epoch >= p.s.now) || g.ID(g.Links[l].From) != p.id {
		return fmt.Errorf("%s sent on link %d from %v to %v", g.Name(p.id), l, p.s.now, epoch)
	}
	return p.s.add(p, g.ID(g.Links[l].To), epoch, data, false)
}

func (p *serialProc) Schedule(epoch float64, data []byte) error {
	return p.s.add(p, p.id, epoch, data, false)
}

func (p *serialProc) Wakeup(epoch float64) error { return p.s.add(p, p.id, epoch, nil, true) }

func (p *serialProc) Recording() bool { return false }
func (p *serialProc) Record(node.Row) {}

func (s *serial) add(p *serialProc, target node.SimprocID, epoch float64, data []byte, wake bool) error {
	if !(epoch <= math.MaxFloat64) || target == p.id && !(epoch > s.now) {
		return fmt.Errorf("simproc %d: epoch %v at %v", p.id, epoch, s.now)
	}
	e := serialEvent{epoch: epoch, level: s.levels[target], target: target, sender: p.id, data: bytes.Clone(data),
		wake: wake}
	if !wake {
		e.number = p.number
		p.number++
	}
	if epoch < s.model.Horizon() {
		heap.Push(&s.pending, e)
	}
	return nil
}

type serialHeap []serialEvent

func (h serialHeap) Len() int      { return len(h) }
func (h serialHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *serialHeap) Push(x any)   { *h = append(*h, x.(serialEvent)) }
func (h serialHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.level, b.level), cmp.Compare(a.target, b.target)) < 0
}

func (h *serialHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// testSeed is what a random stream starts from in tests that don't need those of node.
func testSeed(seed uint64, name string) (high, low uint64) {
	h := fnv.New64a()
	h.Write(binary.LittleEndian.AppendUint64(nil, seed))
	h.Write([]byte(name))
	return seed, h.Sum64()
}

func testSource(seed uint64, name string) *rand.PCG { return rand.NewPCG(testSeed(seed, name)) }

func newSerial(t testing.TB, m *Model, seed uint64) *serial {
	t.Helper()
	g := m.Graph()
	return newSerialFrom(t, m, func(id node.SimprocID, stream string) (high, low uint64) {
		return testSeed(seed, g.Name(id)+"/"+stream)
	})
}

func newSerialFrom(t testing.TB, m *Model, seeds func(node.SimprocID, string) (high, low uint64)) *serial {
	t.Helper()
	levels, err := m.Graph().Levels()
	if err != nil {
		t.Fatal(err)
	}
	s := &serial{model: m, levels: levels, seeds: seeds}
	for id := range m.Graph().NumSimprocs() {
		p := &serialProc{s: s, id: node.SimprocID(id)}
		e := m.Graph().Endpoint(p.id)
		b, err := m.newLogic(e.Node, e.Simproc, p)
		if err != nil {
			t.Fatal(err)
		}
		p.box = b
		s.procs = append(s.procs, p)
		if b != nil {
			heap.Push(&s.pending, serialEvent{level: levels[id], target: p.id, wake: true})
		}
	}
	return s
}

// box returns the box of a node by the file's id.
func (s *serial) box(id string, rank int) logic {
	return s.procs[s.model.topology.nodes[id].first*rankCount+rank].box
}

// run handles everything before until.
func (s *serial) run(t testing.TB, until float64) {
	t.Helper()
	for len(s.pending) > 0 && s.pending[0].epoch < until {
		if first := s.pending[0].epoch; s.probe != nil && first > s.now {
			s.probe(first)
		}
		first := s.pending[0]
		var batch []serialEvent
		for len(s.pending) > 0 && s.pending[0].epoch == first.epoch && s.pending[0].target == first.target {
			if e := heap.Pop(&s.pending).(serialEvent); !e.wake {
				batch = append(batch, e)
			}
		}
		slices.SortFunc(batch, func(a, b serialEvent) int {
			return cmp.Or(cmp.Compare(a.sender, b.sender), cmp.Compare(a.number, b.number))
		})
		var events []node.Event
		for _, e := range batch {
			events = append(events, node.Event{Epoch: e.epoch, Sender: e.sender, Number: e.number, Data: e.data})
		}
		if s.keep {
			s.handled = append(s.handled, batch...)
		}
		s.now = first.epoch
		p := s.procs[first.target]
		if err := p.box.handle(p, events); err != nil {
			t.Fatalf("%s at %v: %v", s.model.Graph().Name(p.id), s.now, err)
		}
	}
	if s.probe != nil {
		s.probe(until)
	}
}

// replication closes all accounts at end.
func (s *serial) replication(t testing.TB, index int, end float64) scenario.Replication {
	t.Helper()
	r := scenario.Replication{Index: index, Horizon: s.model.Horizon(), Reached: end,
		Reports: make([][]byte, len(s.procs))}
	for i, p := range s.procs {
		if p.box == nil {
			continue
		}
		var part reporter
		p.box.report(end, &part)
		var err error
		if r.Reports[i], err = part.encode(); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// simulate runs the model to its horizon on node's engine, once for each
// replication, and summarizes.
func simulate(t testing.TB, m *Model, seed uint64, replications int) *Results {
	t.Helper()
	var reps []scenario.Replication
	for i := range replications {
		e := newEngine(t, m, seed, i, nil)
		for {
			n, err := e.Run(1<<20, math.Inf(1))
			if err != nil {
				t.Fatal(err)
			}
			if n < 1<<20 {
				break
			}
		}
		reps = append(reps, reportOf(t, m, e, i, m.Horizon()))
	}
	return summarize(t, m, reps)
}

func newEngine(t testing.TB, m node.Model, seed uint64, replication int, trace node.Tracer) *node.Engine {
	t.Helper()
	plan, err := node.NewPlan(m.Graph(), make([]int32, len(m.Graph().Nodes)), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	e, err := node.NewEngine(plan, node.Config{Model: m, Seed: seed, Replication: replication,
		Horizon: m.(interface{ Horizon() float64 }).Horizon(), Trace: trace})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func reportOf(t testing.TB, m *Model, e *node.Engine, index int, reached float64) scenario.Replication {
	t.Helper()
	parts, err := e.Report(reached)
	if err != nil {
		t.Fatal(err)
	}
	r := scenario.Replication{Index: index, Horizon: m.Horizon(), Reached: reached,
		Reports: make([][]byte, m.Graph().NumSimprocs())}
	for _, p := range parts {
		r.Reports[p.Simproc] = p.Data
	}
	return r
}

func summarize(t testing.TB, m *Model, reps []scenario.Replication) *Results {
	t.Helper()
	s, err := modeltest.Sum(m, reps...)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*Results)
}
