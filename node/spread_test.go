// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/state"
)

// chatter is a model on a random graph: every handler draws, sends over some of its
// links, schedules itself, wakes itself, and mixes what it receives into its state, so
// that any change of order anywhere changes everything after it.
type chatter struct {
	g      *Graph
	jitter bool // continuous delays; else many equal epochs
	vows   bool // simprocs promise to be silent, on one link or on all
	busy   float64
	forget bool // State leaves out a field
}

func (m *chatter) Graph() *Graph { return m.g }

type chatterHandler struct {
	m     *chatter
	drawn rand.Source
	rnd   *rand.Rand // of drawn
	state uint64
	links []LinkID
	ahead []float64
	vow   []float64 // by link: nothing is sent before it
	vowed float64   // on any link
}

func (m *chatter) NewHandler(p *Simproc) (Handler, error) {
	h := &chatterHandler{m: m, drawn: p.Source("x")}
	h.rnd = rand.New(h.drawn)
	for i := range p.links() {
		h.links = append(h.links, LinkID(i))
		h.ahead = append(h.ahead, p.links()[i].lookahead)
	}
	for _, mesh := range m.g.Meshes {
		if mesh.From == p.Rank() {
			l, err := p.LinkTo(Endpoint{h.rnd.IntN(len(m.g.Nodes)), mesh.To})
			if err != nil {
				return nil, err
			}
			if int(l) >= int(p.numLinks) {
				h.links = append(h.links, l)
				h.ahead = append(h.ahead, mesh.Lookahead)
			}
		}
	}
	h.vow = make([]float64, len(h.links))
	return h, nil
}

func (h *chatterHandler) StateVersion() uint32 { return 1 }

func (h *chatterHandler) State(_ *Simproc, c *state.Codec) {
	c.Source(h.drawn)
	if !h.m.forget {
		c.Uint64(&h.state)
	}
	links := len(h.vow)
	state.Words(c, &h.vow)
	if len(h.vow) != links {
		c.Fail("found %d links with vows, want %d", len(h.vow), links)
	}
	c.Float(&h.vowed)
	if !(h.vowed >= 0) {
		c.Fail("found a vow until %v, want a time >= 0", h.vowed)
	}
}

func (h *chatterHandler) Report(p *Simproc) ([]byte, error) {
	return binary.LittleEndian.AppendUint64(nil, h.state+math.Float64bits(p.Now())), nil
}

func (h *chatterHandler) delay() float64 {
	if h.m.jitter {
		return h.rnd.ExpFloat64()
	}
	return float64(h.rnd.IntN(3))
}

func (h *chatterHandler) Handle(p *Simproc, events []Event) error {
	for _, ev := range events {
		h.state = mix(h.state, binary.LittleEndian.Uint64(ev.Data)^uint64(ev.Sender)<<40^ev.Number)
	}
	h.state = mix(h.state, math.Float64bits(p.Now()))
	var data [64]byte
	binary.LittleEndian.PutUint64(data[:], h.state)
	n := len(events)
	if p.Now() == 0 {
		n = 2
	}
	for range n {
		if len(h.links) == 0 || h.rnd.Float64() > h.m.busy {
			continue
		}
		l := h.rnd.IntN(len(h.links))
		d := h.delay()
		if h.ahead[l] > 0 && d == 0 {
			d = 1
		}
		epoch := max(p.Now()+h.ahead[l]+d, h.vow[l], h.vowed)
		if err := p.Send(h.links[l], epoch, data[:8+h.rnd.IntN(40)]); err != nil {
			return err
		}
	}
	switch h.rnd.IntN(6) {
	case 0:
		return p.Schedule(p.Now()+1+h.delay(), data[:8])
	case 1:
		return p.Wakeup(p.Now() + 1 + h.delay())
	case 2:
		if h.m.vows && h.vowed <= p.Now() {
			h.vowed = p.Now() + 1 + h.delay()
			return p.HardWakeup(h.vowed)
		}
	case 3:
		if l := h.rnd.IntN(max(int(p.numLinks), 1)); h.m.vows && l < int(p.numLinks) {
			h.vow[l] = max(h.vow[l], p.Now()+5*h.rnd.Float64())
			return p.AdvancePromise(LinkID(l), h.vow[l])
		}
	}
	return nil
}

// randomModel makes a graph whose zero-lookahead links follow a random order.
func randomModel(rnd *rand.Rand) *chatter {
	layers, nodes := 1+rnd.IntN(3), 2+rnd.IntN(7)
	g := &Graph{}
	for r := range layers {
		g.Simprocs = append(g.Simprocs, fmt.Sprintf("r%d", r))
	}
	for n := range nodes {
		g.Nodes = append(g.Nodes, Node{Name: fmt.Sprintf("n%d", n), Work: 1, Shared: rnd.IntN(4) == 0})
	}
	zeroOnly := rnd.IntN(3) == 0
	for range rnd.IntN(4 * nodes * layers) {
		from := Endpoint{rnd.IntN(nodes), rnd.IntN(layers)}
		to := Endpoint{rnd.IntN(nodes), rnd.IntN(layers)}
		// (rank, node) is an order in which every step of a node's ranks rises.
		rises := from.Simproc < to.Simproc || from.Simproc == to.Simproc && from.Node < to.Node
		l := Link{From: from, To: to, Lookahead: []float64{0.25, 1, 1, 3}[rnd.IntN(4)]}
		if rises && (zeroOnly || rnd.IntN(2) == 0) {
			l.Lookahead = 0
		} else if zeroOnly {
			continue
		}
		g.Links = append(g.Links, l)
	}
	if !zeroOnly && rnd.IntN(4) == 0 {
		g.Meshes = []Mesh{{From: rnd.IntN(layers), To: rnd.IntN(layers), Lookahead: 0.5}}
	}
	return &chatter{g: g, jitter: rnd.IntN(2) == 0, vows: rnd.IntN(2) == 0, busy: 0.9}
}

// packet is something under way between two workers of the test.
type packet struct {
	ev      envelope.Event
	bound   *Bound
	promise *envelope.Promise
}

// cluster runs Engines with packets between them in a random order of steps, each
// lane in order.
type cluster struct {
	engines []*Engine
	lanes   [][][]packet // [from][to]
	sent    [][]Bound
	jumps   int
	byLink  bool
	said    int // promises of single links

	spoilBound func(Bound) Bound // mutants
	spoilEvent func(ev *envelope.Event) (keep bool)
}

type clusterPort struct {
	c    *cluster
	self int
}

func (p *clusterPort) SendEvent(to int, ev *envelope.Event) error {
	plan := p.c.engines[p.self].plan
	if w := plan.workerOf(SimprocID(ev.Target)); w != to {
		return fmt.Errorf("an event for worker %d went to %d", w, to)
	}
	cp := *ev
	cp.Data = append([]byte(nil), ev.Data...)
	if p.c.spoilEvent != nil && !p.c.spoilEvent(&cp) {
		return nil
	}
	p.c.lanes[p.self][to] = append(p.c.lanes[p.self][to], packet{ev: cp})
	// A Port that waits for room promises its peers what it can, in the middle
	// of a handler.
	for to := range p.c.engines {
		p.c.promise(p.self, to, 3)
	}
	return nil
}

func (p *clusterPort) SendPromise(to int, says *envelope.Promise) error {
	cp := *says
	if p.c.spoilBound != nil {
		b := p.c.spoilBound(Bound{cp.Epoch, cp.Level})
		cp.Epoch, cp.Level = b.Epoch, b.Level
	}
	p.c.lanes[p.self][to] = append(p.c.lanes[p.self][to], packet{promise: &cp})
	p.c.said++
	return nil
}

func newCluster(t testing.TB, m Model, placement []int32, workers int, seed uint64, horizon float64,
	byLink bool) *cluster {
	c, err := beginCluster(m, placement, workers, byLink, Config{Model: m, Seed: seed, Horizon: horizon})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// beginCluster is newCluster with any Config.
func beginCluster(m Model, placement []int32, workers int, byLink bool, cfg Config) (*cluster, error) {
	c := &cluster{byLink: byLink, lanes: make([][][]packet, workers), sent: make([][]Bound, workers)}
	for w := range workers {
		plan, err := NewPlan(m.Graph(), placement, w, workers)
		if err != nil {
			return nil, err
		}
		if byLink {
			if err := plan.PromiseByLink(); err != nil {
				return nil, err
			}
		}
		cfg.Port = &clusterPort{c, w}
		e, err := NewEngine(plan, cfg)
		if err != nil {
			return nil, err
		}
		for i := range e.classes {
			e.classes[i].set.ahead = workers > 1 // must not matter
		}
		c.engines = append(c.engines, e)
		c.lanes[w] = make([][]packet, workers)
		c.sent[w] = make([]Bound, workers)
	}
	return c, nil
}

// leg drives the cluster until nothing is pending before the end of the leg, or of the run.
func (c *cluster) leg(rnd *rand.Rand) error {
	idle := 0
	for steps := 0; ; steps++ {
		if steps > 10_000_000 {
			return fmt.Errorf("no end in sight:\n%s", c.waiting())
		}
		w := rnd.IntN(len(c.engines))
		n, err := c.step(rnd, w)
		if err != nil {
			return err
		}
		if idle++; n > 0 {
			idle = 0
		}
		if idle < 20*len(c.engines) {
			continue
		}
		idle = 0
		if next, ok := c.quiet(); ok {
			if next == Never {
				return nil
			}
			c.jumps++
			for _, e := range c.engines {
				e.Jump(next)
			}
		}
	}
}

// hashes are the trace hashes of all simprocs.
func (c *cluster) hashes() []uint64 {
	hashes := make([]uint64, c.engines[0].plan.NumSimprocs())
	for _, e := range c.engines {
		e.Hashes(func(id SimprocID, h uint64) { hashes[id] = h })
	}
	return hashes
}

// run drives the cluster to its end and returns all trace hashes.
func (c *cluster) run(rnd *rand.Rand) ([]uint64, error) {
	if err := c.leg(rnd); err != nil {
		return nil, err
	}
	for _, e := range c.engines {
		if n := c.unread(e); n > 0 {
			return nil, fmt.Errorf("%d entries pending before the horizon", n)
		}
		if e.store.inUse() != len0(e) {
			return nil, fmt.Errorf("%d payloads still held, %d entries pending", e.store.inUse(), len0(e))
		}
	}
	return c.hashes(), nil
}

// len0 counts the pending events that hold a payload.
func len0(e *Engine) int {
	n := 0
	e.eachPending(func(en *entry) {
		if en.ref != refNone {
			n++
		}
	})
	return n
}

// unread counts what waits for a time before the horizon.
func (c *cluster) unread(e *Engine) int {
	n := 0
	e.eachPending(func(en *entry) {
		if en.epoch() < e.cfg.Horizon {
			n++
		}
	})
	return n
}

func (c *cluster) step(rnd *rand.Rand, w int) (int, error) {
	e := c.engines[w]
	work := 0
	for from := range c.engines {
		q := &c.lanes[from][w]
		for k := rnd.IntN(4); k > 0 && len(*q) > 0; k-- {
			p := (*q)[0]
			*q = (*q)[1:]
			work++
			var err error
			switch {
			case p.bound != nil:
				err = e.ReceiveBound(from, *p.bound)
			case p.promise != nil:
				err = e.ControllerOf(p.promise.Target).ReceivePromise(from, p.promise)
			default:
				err = e.ControllerOf(p.ev.Target).ReceiveEvent(from, &p.ev, 0)
			}
			if err != nil {
				return 0, err
			}
		}
	}
	n, err := e.Run(1+rnd.IntN(5), []float64{0, 1, math.Inf(1)}[rnd.IntN(3)])
	if err != nil {
		return 0, err
	}
	for to := range c.engines {
		if rnd.IntN(3) > 0 && c.promise(w, to, 1+rnd.IntN(20)) {
			work++
		}
	}
	return work + n, nil
}

// promise sends a peer what worker w can promise it, if that is more than before: its bound,
// or the promises of at most limit links.
func (c *cluster) promise(w, to, limit int) bool {
	if c.byLink {
		n, err := c.engines[w].SendPromises(to, limit)
		if err != nil {
			panic(err)
		}
		return n > 0
	}
	b := c.engines[w].OutBound(to)
	if got, want := c.engines[w].laneFloor(to), dumbFloor(c.engines[w], to); got != want && to != w {
		panic(fmt.Sprintf("worker %d's models leave %v open for worker %d, found by looking at all links: %v", w, got,
			to, want))
	}
	if got, want := c.engines[w].passedOn(to), dumbPassedOn(c.engines[w], to); got != want {
		panic(fmt.Sprintf("worker %d passes %v on to worker %d, found by looking at all peers: %v", w, got, to, want))
	}
	if to == w || !c.sent[w][to].Before(b) {
		return false
	}
	c.sent[w][to] = b
	if c.spoilBound != nil {
		b = c.spoilBound(b)
	}
	c.lanes[w][to] = append(c.lanes[w][to], packet{bound: &b})
	return true
}

// dumbPassedOn is passedOn by looking at all peers.
func dumbPassedOn(e *Engine, peer int) Bound {
	b := Never
	for from := range e.in {
		b = least(b, e.plan.through[from][peer].apply(e.in[from]))
	}
	return b
}

// dumbFloor is laneFloor by looking at all links to a peer.
func dumbFloor(e *Engine, peer int) float64 {
	least, raised := math.Inf(1), e.floors[peer] != nil
	for i := range e.procs {
		p := &e.procs[i]
		if len(e.meshes[p.Rank()]) > 0 {
			least = min(least, p.floor())
		}
		for j := range p.links() {
			if k := &p.links()[j]; k.proc < 0 && int(^k.proc) == peer {
				least = min(least, max(p.linkFloor(j), p.floor()))
			}
		}
	}
	if !raised {
		return 0
	}
	return least
}

// quiet reports whether everybody is blocked with nothing under way, and the least
// next activation.
func (c *cluster) quiet() (Bound, bool) {
	next := Never
	for w, e := range c.engines {
		if !e.Blocked() {
			return next, false
		}
		next = least(next, e.Next())
		for to := range c.engines {
			if len(c.lanes[w][to]) > 0 || c.promise(w, to, math.MaxInt) {
				return next, false
			}
		}
	}
	return next, true
}

func (c *cluster) waiting() string {
	s := ""
	for w, e := range c.engines {
		s += fmt.Sprintf("worker %d:\n%s", w, e.Waiting())
	}
	return s
}

// spread runs one random model on one worker, then over several in several ways, and
// reports whether every simproc did the same. prepare may spoil the runs over several.
func spread(t *testing.T, seed uint64, prepare func(c *cluster)) (jumps int, events uint64, err error) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	m := randomModel(rnd)
	want, err := newCluster(t, m, make([]int32, len(m.g.Nodes)), 1, seed, 40, false).run(rnd)
	if err != nil {
		t.Fatalf("seed %d, one worker: %v", seed, err)
	}
	for i := range 8 {
		workers := 2 + rnd.IntN(3)
		placement := make([]int32, len(m.g.Nodes))
		for n := range placement {
			placement[n] = int32(rnd.IntN(workers))
		}
		byLink := i%2 == 1
		c := newCluster(t, m, placement, workers, seed, 40, byLink)
		if prepare != nil {
			prepare(c)
		}
		got, err := c.run(rnd)
		if err != nil {
			return 0, 0, fmt.Errorf("seed %d, placement %v, by link %v: %w", seed, placement, byLink, err)
		}
		for id := range want {
			if got[id] != want[id] {
				return 0, 0, fmt.Errorf("seed %d, placement %v, by link %v: hash of %s is %x, with one worker %x", seed,
					placement, byLink, m.g.Name(SimprocID(id)), got[id], want[id])
			}
		}
		jumps += c.jumps
		for _, e := range c.engines {
			events += e.stats.Events
		}
	}
	return jumps, events, nil
}

// The same model and seed give the same hash of every simproc, however the nodes
// are spread and however the workers are scheduled.
func TestSpreadDoesNotChangeResults(t *testing.T) {
	models := 300
	if testing.Short() {
		models = 60
	}
	jumps, events := 0, uint64(0)
	for seed := range uint64(models) {
		j, n, err := spread(t, seed, nil)
		if err != nil {
			t.Fatal(err)
		}
		jumps, events = jumps+j, events+n
	}
	if jumps == 0 || events < 1000 {
		t.Errorf("%d idle jumps and %d events in all: the models are too tame to show anything", jumps, events)
	}
	t.Logf("%d idle jumps, %d events", jumps, events)
}

// The test above can fail: each way of spoiling an Engine, or what lies between two of
// them, is found within a few dozen models.
func TestSpreadFindsMutants(t *testing.T) {
	mutants := []struct {
		name  string
		build bool // needs the hook of the checked build
		spoil func(c *cluster)
	}{
		{"a bound is half a second too high", false, func(c *cluster) {
			c.spoilBound = func(b Bound) Bound { return Bound{b.Epoch + 0.5, b.Level} }
		}},
		{"a bound says that its own level is done", false, func(c *cluster) {
			c.spoilBound = func(b Bound) Bound { return Bound{b.Epoch, max(b.Level, b.Level+1)} }
		}},
		{"every hundredth event is lost", false, func(c *cluster) {
			n := 0
			c.spoilEvent = func(*envelope.Event) bool { n++; return n%100 != 0 }
		}},
		{"the last bit of an epoch is lost", false, func(c *cluster) {
			c.spoilEvent = func(ev *envelope.Event) bool {
				ev.Epoch = math.Float64frombits(math.Float64bits(ev.Epoch) | 1)
				return true
			}
		}},
		{"ties go to the last sender", true, func(c *cluster) {
			for _, e := range c.engines {
				e.mutate = func(events []Event) { slices.Reverse(events) }
			}
		}},
		{"ties go to who is here", true, func(c *cluster) {
			for _, e := range c.engines {
				e.mutate = func(events []Event) {
					slices.SortStableFunc(events, func(a, b Event) int {
						here := func(id SimprocID) int { return int(e.plan.indexOn(e.plan.self, id) & 1) }
						return here(b.Sender) - here(a.Sender)
					})
				}
			}
		}},
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			if m.build && !checked {
				t.Skip("only the checked build has the hook: go test -tags invariants")
			}
			for _, byLink := range []bool{false, true} {
				found := false
				for seed := uint64(0); seed < 60 && !found; seed++ {
					_, _, err := spread(t, seed, func(c *cluster) {
						if c.byLink == byLink {
							m.spoil(c)
						}
					})
					found = err != nil
				}
				if !found {
					t.Errorf("60 models did not notice, by link %v", byLink)
				}
			}
		})
	}
}
