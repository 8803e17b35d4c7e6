package node

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/disco-sim/disco/envelope"
)

// Engine runs all nodes that one worker hosts. It is a pure machine: events and
// bounds of other workers are given to it, events for other workers and its own
// bounds are taken from it, and Run does the work in between. It knows no clock, no
// memory, no peer; what it does depends only on what it was given.
//
// Owned by one goroutine.
type Engine struct {
	plan    *Plan
	cfg     Config
	store   *store
	procs   []Simproc
	pos     []int32 // by local index: place in its class's heap, -1: not in it
	localOf []int32 // by dense id: local index, -1 elsewhere
	nodes   []NodeController
	names   map[string]int // node's name -> index; wiring time
	meshes  [][]int        // [rank]: the meshes that start there
	classes []class
	in      []Bound // [peer] what they have promised
	floors  []laneFloor
	current *Simproc
	events  []Event
	out     envelope.Event
	stats   Stats
	err     error
}

// Config is what an Engine is made from. All fields but Release, Trace and
// Serializer are needed.
type Config struct {
	Model       Model
	Seed        uint64
	Replication int
	Horizon     float64 // simulated seconds, > 0

	// Port takes events for simprocs on other workers. Not needed where there are none.
	Port Port

	// Release ends the lease of a payload that ReceiveEvent was given with one.
	Release func(lease uint64)

	// Serializer serves NodeController.SendEvent; default: data must be []byte.
	Serializer Serializer

	// Trace, when not nil, is told of everything handled.
	Trace Tracer

	// ByPromise makes every simproc wait for the promises of its own predecessors on
	// other workers (ReceivePromise) instead of the bounds of whole lanes. It is the
	// mode of a NodeController that stands alone.
	ByPromise bool
}

// Port leads to the simprocs of other workers. SendEvent encodes or copies the event
// before it returns; while there is no room it waits, and may call the Engine's
// Receive methods and OutBound meanwhile.
type Port interface {
	SendEvent(ev *envelope.Event) error
	SendPromise(p *envelope.Promise) error
}

// Tracer is told of every event and every wakeup that is handled, class by class in
// the order (epoch, level, target, sender, number).
type Tracer interface {
	Event(class int, level uint32, target SimprocID, ev *Event, dataHash uint64)
	Wakeup(class int, level uint32, target SimprocID, epoch float64)
}

// Stats counts what an Engine did.
type Stats struct {
	Events        uint64 // events handled
	Activations   uint64 // calls of Handle
	Received      uint64 // events from other workers
	Sent          uint64 // events to other workers
	HandledRemote uint64 // events from other workers that were handled
	BeyondHorizon uint64 // events sent for the horizon or later: never handled
}

// class is the part of the pending set whose simprocs are run in one order.
type class struct {
	heap      []slot // 4-ary, by (epoch, order): the simprocs that have something pending
	safe      Bound  // work before it can't be surprised by another worker
	last      Bound  // key of the last activation
	plan      *classPlan
	congested bool // a lane it sends on is short of room
	skip      bool // scratch of pick
}

// slot is one simproc in a class's heap, at the epoch of its first pending entry.
type slot struct {
	epoch float64
	order uint32
	proc  uint32
}

// laneFloor is what the models have promised for all links to one peer: the least
// of their floors, recomputed when the link that holds it moves.
type laneFloor struct {
	epoch float64
	by    *Simproc
	dirty bool
}

// NewEngine makes all simprocs of the plan's worker and asks the model for their
// handlers.
func NewEngine(plan *Plan, cfg Config) (*Engine, error) {
	if !(cfg.Horizon > 0 && cfg.Horizon <= math.MaxFloat64) {
		return nil, fmt.Errorf("node: horizon %v, want a finite time > 0", cfg.Horizon)
	}
	e := &Engine{plan: plan, cfg: cfg, store: newStore(), in: make([]Bound, plan.workers), floors: make([]laneFloor, plan.workers)}
	e.store.giveBack = cfg.Release
	e.makeSimprocs()
	e.makeLinks()
	for i := range e.floors {
		e.floors[i].dirty = true
	}
	for i := range e.procs {
		p := &e.procs[i]
		h, err := cfg.Model.NewHandler(p)
		if err == nil && h == nil {
			err = errors.New("the model made no handler")
		}
		if err != nil {
			return nil, fmt.Errorf("node: %s: %w", p.Name(), err)
		}
		p.handler = h
		p.queue.push(entry{sender: wakeSender}) // once at epoch 0
		e.classes[p.class].add(e.pos, slot{0, p.order, uint32(i)})
	}
	e.settle()
	return e, nil
}

func (e *Engine) makeSimprocs() {
	plan := e.plan
	e.procs = make([]Simproc, len(plan.local))
	e.pos = slices.Repeat([]int32{-1}, len(plan.local))
	e.localOf = make([]int32, plan.graph.NumSimprocs())
	for i := range e.localOf {
		e.localOf[i] = -1
	}
	e.classes = make([]class, len(plan.classes))
	for c := range e.classes {
		e.classes[c].plan = &plan.classes[c]
	}
	layers := len(plan.graph.Simprocs)
	e.nodes = make([]NodeController, len(plan.local)/layers)
	for i, id := range plan.local {
		p := &e.procs[i]
		*p = Simproc{engine: e, id: id, local: uint32(i), level: plan.levels[id], order: plan.orders[id], class: plan.classOf[i], node: &e.nodes[i/layers]}
		p.queue.init(e.store)
		e.localOf[id] = int32(i)
		if i%layers == 0 {
			*p.node = NodeController{engine: e, index: plan.graph.Endpoint(id).Node, first: i}
		}
	}
}

func (e *Engine) makeLinks() {
	g := e.plan.graph
	e.meshes = make([][]int, len(g.Simprocs))
	for i := range g.Meshes {
		e.meshes[g.Meshes[i].From] = append(e.meshes[g.Meshes[i].From], i)
	}
	for i := range g.Links {
		l := &g.Links[i]
		if f := e.localOf[g.ID(l.From)]; f >= 0 {
			p, to := &e.procs[f], g.ID(l.To)
			p.links = append(p.links, outLink{to: to, proc: e.localOf[to], peer: e.plan.placement[l.To.Node], lookahead: l.Lookahead})
		}
	}
	predecessors := e.predecessors()
	for i := range e.procs {
		p := &e.procs[i]
		slices.SortFunc(p.links, func(a, b outLink) int {
			return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(a.lookahead, b.lookahead))
		})
		p.queue.preds = newPredecessors(p.Name(), predecessors[p.id])
	}
}

// predecessors lists, for a NodeController that stands alone, who on other workers may
// send to each local simproc.
func (e *Engine) predecessors() map[SimprocID]map[SimprocID]string {
	g := e.plan.graph
	all := make(map[SimprocID]map[SimprocID]string)
	if !e.cfg.ByPromise {
		return all
	}
	add := func(from, to SimprocID) {
		if e.localOf[from] >= 0 || e.localOf[to] < 0 {
			return
		}
		if all[to] == nil {
			all[to] = make(map[SimprocID]string)
		}
		all[to][from] = g.Name(from)
	}
	for i := range g.Links {
		add(g.ID(g.Links[i].From), g.ID(g.Links[i].To))
	}
	for _, m := range g.Meshes {
		for from := range g.Nodes {
			for to := range g.Nodes {
				add(g.ID(Endpoint{from, m.From}), g.ID(Endpoint{to, m.To}))
			}
		}
	}
	return all
}

// fail keeps the first error of the run; Run returns it.
func (e *Engine) fail(err error) error {
	if e.err == nil {
		e.err = err
	}
	return err
}

// Run handles up to limit activations, earliest first, up to span simulated seconds
// behind the first of them, and returns how many there were. 0 means that nothing can
// be done before a peer's event or bound arrives, before there is room in a lane, or at
// all (Next is Never). After an error the Engine is done for; Report still works.
func (e *Engine) Run(limit int, span float64) (int, error) {
	until := math.Inf(1)
	for n := 0; n < limit; n++ {
		c := e.pick()
		if c < 0 || e.classes[c].heap[0].epoch > until {
			return n, nil
		}
		if n == 0 {
			until = e.classes[c].heap[0].epoch + span
		}
		if e.activate(c); e.err != nil {
			return n, e.err
		}
	}
	return limit, nil
}

// pick finds the class with the earliest activation that may be done now, -1: none.
func (e *Engine) pick() int {
	if len(e.classes) == 1 {
		if c := &e.classes[0]; e.ready(c) && !c.congested {
			return 0
		}
		return -1
	}
	best := -1
	for i := range e.classes {
		c := &e.classes[i]
		c.skip = c.congested || !e.ready(c)
	}
	for i := range e.classes {
		c := &e.classes[i]
		if c.skip || best >= 0 && e.classes[best].heap[0].before(&c.heap[0]) || e.heldBySkipped(c, i) {
			continue
		}
		best = i
	}
	return best
}

// ready tells whether the first activation of c comes before everything that
// another worker may still send, and before the horizon.
func (e *Engine) ready(c *class) bool {
	if len(c.heap) == 0 {
		return false
	}
	s := &c.heap[0]
	if s.epoch < c.safe.Epoch {
		return s.epoch < e.cfg.Horizon
	}
	return s.epoch == c.safe.Epoch && e.procs[s.proc].level < c.safe.Level && s.epoch < e.cfg.Horizon
}

// heldBySkipped tells whether a class that was passed over, for want of a bound or of
// room, may still cause something before the first activation of c. A class that is
// not passed over needs no such look: if it is earlier, it goes first.
func (e *Engine) heldBySkipped(c *class, i int) bool {
	for j := range e.classes {
		d := &e.classes[j]
		if d.skip && len(d.heap) > 0 && d.plan.to[i].kind != hopNone && !e.key(c).Before(d.plan.to[i].apply(e.key(d))) {
			return true
		}
	}
	return false
}

// key is the key of c's first activation, Never when it has none before the horizon.
func (e *Engine) key(c *class) Bound {
	if len(c.heap) == 0 || c.heap[0].epoch >= e.cfg.Horizon {
		return Never
	}
	return Bound{c.heap[0].epoch, e.procs[c.heap[0].proc].level}
}

// activate calls the handler of the first simproc of class c with everything it has
// for its first epoch.
func (e *Engine) activate(i int) {
	c := &e.classes[i]
	p := &e.procs[c.heap[0].proc]
	if checked {
		e.checkActivation(c)
	}
	p.now = c.heap[0].epoch
	e.events = p.queue.Pop(e.events[:0])
	e.record(i, p)
	e.current = p
	err := p.handler.Handle(p, e.events)
	e.current = nil
	p.queue.Release()
	if err != nil {
		e.fail(fmt.Errorf("node: %s at epoch %v: %w", p.Name(), p.now, err))
	}
	e.stats.Events += uint64(len(e.events))
	e.stats.Activations++
	if len(p.queue.heap) == 0 {
		c.dropFirst(e.pos)
		return
	}
	c.replaceFirst(e.pos, p.queue.heap[0].epoch)
}

// file puts an entry into a local simproc's queue and moves the simproc up its
// class's heap if that made it earlier. The simproc being called stays at the
// head of its class until its handler has returned.
func (e *Engine) file(p *Simproc, en entry) {
	if p.queue.push(en) && p != e.current {
		e.classes[p.class].lower(e.pos, p, en.epoch)
	}
}

func (e *Engine) sendOut(to SimprocID, epoch float64, number uint64, headers, data []byte) error {
	e.stats.Sent++
	e.out = envelope.Event{Epoch: epoch, Number: number, Target: uint32(to), Sender: uint32(e.current.id), Headers: headers, Data: data}
	if err := e.cfg.Port.SendEvent(&e.out); err != nil {
		return e.fail(fmt.Errorf("node: %s to %s: %w", e.current.Name(), e.plan.graph.Name(to), err))
	}
	return nil
}

// ReceiveEvent files an event that came from a peer. Everything in it is checked:
// ids, that it comes from where its sender lives, and that it keeps the peer's own
// bound. Data is copied, unless lease is not 0: then Data stays in place until
// Release(lease), which the Engine calls when the event's handler has returned.
func (e *Engine) ReceiveEvent(peer int, ev *envelope.Event, lease uint64) error {
	if err := e.checkArrival(peer, ev.Sender, ev.Target); err != nil {
		return e.fail(err)
	}
	p := &e.procs[e.localOf[ev.Target]]
	if !e.cfg.ByPromise && (Bound{ev.Epoch, p.level}).Before(e.in[peer]) || !(ev.Epoch > p.queue.done) {
		return e.fail(fmt.Errorf("node: event from %s to %s at epoch %v breaks worker %d's promise: nothing before %v (handled up to %v)",
			e.plan.graph.Name(SimprocID(ev.Sender)), p.Name(), ev.Epoch, peer, e.in[peer], p.queue.done))
	}
	if p.queue.preds != nil {
		if err := p.queue.preds.event(SimprocID(ev.Sender), ev.Epoch); err != nil {
			return e.fail(err)
		}
		e.settle()
	}
	e.stats.Received++
	en := entry{epoch: ev.Epoch, number: ev.Number, sender: SimprocID(ev.Sender)}
	if lease != 0 {
		en.ref = e.store.lease(ev.Headers, ev.Data, lease)
	} else {
		en.ref = e.store.put(ev.Headers, ev.Data)
	}
	e.file(p, en)
	return nil
}

// ReceivePromise files the promise of one simproc to another (ByPromise), or of a
// whole lane (envelope.WholeLane), as it comes over a stream.
func (e *Engine) ReceivePromise(peer int, p *envelope.Promise) error {
	if p.Target == envelope.WholeLane {
		return e.ReceiveBound(peer, Bound{p.Epoch, p.Level})
	}
	if err := e.checkArrival(peer, p.Sender, p.Target); err != nil {
		return e.fail(err)
	}
	if err := e.procs[e.localOf[p.Target]].queue.Promise(p); err != nil {
		return e.fail(err)
	}
	e.settle()
	return nil
}

// ReceiveBound takes in what a peer promises for all its links to this worker:
// nothing that it will still send is earlier than b. All events that it sent before
// must have been given to ReceiveEvent. A bound that goes back is an error.
func (e *Engine) ReceiveBound(peer int, b Bound) error {
	if peer < 0 || peer >= len(e.in) || !(b.Epoch >= 0) {
		return e.fail(fmt.Errorf("node: bound %v of worker %d, want a time of one of %d workers", b, peer, len(e.in)))
	}
	if b.Before(e.in[peer]) {
		// A jump may have raised what we hold above what the peer has said itself.
		return nil
	}
	e.in[peer] = b
	e.settle()
	return nil
}

// Jump tells the Engine that, at a moment when every worker was blocked and no event
// was under way, the least next activation of all was at b. Everything still to be
// sent is then caused by something at b or later.
func (e *Engine) Jump(b Bound) {
	for peer := range e.in {
		if far := e.plan.across[peer].apply(b); e.in[peer].Before(far) {
			e.in[peer] = far
		}
	}
	e.settle()
}

func (e *Engine) checkArrival(peer int, sender, target uint32) error {
	n := uint32(len(e.localOf))
	if target >= n || e.localOf[target] < 0 {
		return fmt.Errorf("node: worker %d sent to %s, which is not on this worker", peer, e.plan.graph.Name(SimprocID(target)))
	}
	if sender >= n || int(e.plan.placement[int(sender)/len(e.plan.graph.Simprocs)]) != peer {
		return fmt.Errorf("node: worker %d sent in the name of %s, which is not on it", peer, e.plan.graph.Name(SimprocID(sender)))
	}
	return nil
}

// settle recomputes what is safe after a bound has risen.
func (e *Engine) settle() {
	for i := range e.classes {
		c := &e.classes[i]
		c.safe = Never
		if e.cfg.ByPromise {
			for j := range e.procs {
				c.safe = least(c.safe, Bound{e.procs[j].queue.Bound(), 0})
			}
			continue
		}
		for peer := range e.in {
			c.safe = least(c.safe, c.plan.in[peer].apply(e.in[peer]))
		}
	}
}
