// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/state"
)

// Engine runs all nodes that one worker hosts. It is a pure machine: events and
// bounds of other workers are given to it, events for other workers and its own
// bounds are taken from it, and Run does the work in between. It knows no clock, no
// memory, no peer; what it does depends only on what it was given.
//
// Owned by one goroutine.
type Engine struct {
	plan         *Plan
	cfg          Config
	store        *store
	procs        []Simproc        // by (level, id); nil where nodes may leave memory, or have moved
	placed       []*Simproc       // the same where nodes have moved (Resume.From); else nil
	passive      *passive         // … which this is about; else nil
	byID         []uint32         // local indices by rising id (localAt)
	classOf      []int32          // by local index; nil: all in one
	nodes        []NodeController // by place of the node; made when one is asked for
	outLinks     []outLink        // of all simprocs, by rising id
	ownFloors    []float64        // by simproc: nothing is sent before it (HardWakeup); nil: none was promised
	linkFloors   []float64        // by link: nothing is sent on it before (AdvancePromise); nil: none was promised
	findNode     func(name string) (int, bool)
	meshes       [][]int // [rank]: the meshes that start there
	classes      []class
	heads        []head       // by class
	in           []Bound      // [peer] what they have promised
	holds        []int32      // [peer] whose bound held back what was promised to it last
	lowest       []inBound    // by Plan.alike: the least bound; only where unread is false
	unread       bool         // a bound has risen since lowest was computed
	risen        bool         // a bound has risen since safe was computed
	short        []uint64     // peers whose lanes are short of room, as a mask
	floors       []*laneFloor // [peer], nil: none raised
	byLink       *byLink      // nil: one bound promises for everything to a peer
	current      *Simproc
	last         uint32  // index of the simproc that was called last
	events       []Event // what the handler being called gets
	refs         []ref   // their payloads
	woken        bool    // … and whether a wakeup asked for the call
	out          envelope.Event
	stats        Stats
	backlogBytes int64         // headers and data of events from other workers that are not handled yet
	front        uint64        // latest epoch at which a handler was called, as a key
	window       float64       // nothing at it or later is handled (SetWindow)
	until        float64       // … nor at this, where the leg ends (SetUntil)
	journals     bool          // a simproc keeps one
	sent         SentCounter   // nil: nobody wants to know
	coder        state.Coder   // of what is saved and loaded
	lines        int           // of a handler, for prefetchNode; 0: not known
	fleeting     []byte        // memory of the events that are being handled (Config.Fleeting)
	asked        asked         // calls of External
	mutate       func([]Event) // for the test that tests can fail; checked build only
	trouble                    // checked build only
	err          error
}

// Config is what an Engine is made from. All fields but SharedFirst, Resume, Resident, Release,
// Trace, Records, Calls, Outside, Runtime and Guard are needed.
type Config struct {
	Model       Model
	Seed        uint64
	Replication int
	Horizon     float64 // simulated seconds, > 0

	// SharedFirst says that shared streams (Simproc.SharedSource) are those of replication 0, since what all nodes have
	// drawn from them is that of the run, which this one goes on from under other settings.
	SharedFirst bool

	// Port takes events for simprocs on other workers. Not needed where there are none.
	Port Port

	// Resume, when not nil, is a state to begin with, instead of epoch 0.
	Resume *Resume

	// Resident, when not nil, bounds what nodes take of memory: those that have been idle longest leave it. Their
	// handlers must be Savers.
	Resident *Resident

	// Release ends the lease of a payload that ReceiveEvent was given with one.
	Release func(lease uint64)

	// CallOf and CallAt, when not nil, are words that other processes may read at any time,
	// also after this one has died: before each call of a handler, 1 + the id of its
	// simproc and the bits of the call's epoch are stored there. They are plain stores,
	// because an atomic one would cost 5 ns a call; aligned words are stored whole on the
	// machines that disco runs on, and nothing else is promised about the two.
	CallOf, CallAt *uint64

	// Trace, when not nil, receives everything handled; a Journal also what that did.
	Trace Tracer

	// Records, when not nil, receives what handlers record (Simproc.Record).
	Records *RecordLog

	// Calls, when not nil, receives what each call of a handler has come to, at a hundredth of what a Trace costs.
	Calls *CallLog

	// Fleeting, beside a Trace, has the memory of events overwritten behind each call of a handler, so that one that
	// has kept it gives other results.
	Fleeting bool

	// Outside, when not nil, is what handlers may ask of the world outside of the simulation.
	Outside Outside

	// Runtime, when not nil, says where a model's code was when it panicked, and lets the
	// checked build find calls from other goroutines.
	Runtime Runtime

	// Guard, when not nil, is the memory in which the checked build hands out events.
	Guard Guard
}

// Port leads to the simprocs of other workers. SendEvent encodes or copies the event
// before it returns; while there is no room it waits, and may call the Engine's
// Receive methods, OutBound and SendPromises meanwhile. SendPromise doesn't wait: it is
// for who calls SendPromises to know how many there is room for.
type Port interface {
	SendEvent(peer int, ev *envelope.Event) error
	SendPromise(peer int, p *envelope.Promise) error
}

// Tracer receives every event and every wakeup that is handled, class by class in
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

// class is the simprocs that are run in one order, with all that is pending for them.
type class struct {
	set  pending
	safe Bound // work before it can't be surprised by another worker
	last Bound // key of the last activation
	plan *classPlan

	begins uint32 // whose call at epoch 0 is pending, of those that weren't called yet
	holder int32  // place of the simproc that safe comes from, where workers promise by link
}

// inBound is what a peer has promised.
type inBound struct {
	bound Bound
	peer  int32
}

// NewEngine makes all simprocs of the plan's worker and asks the model for their
// handlers.
func NewEngine(plan *Plan, cfg Config) (*Engine, error) {
	if !(cfg.Horizon > 0 && cfg.Horizon <= math.MaxFloat64) {
		return nil, fmt.Errorf("node: horizon %v, want a finite time > 0", cfg.Horizon)
	}
	e := &Engine{
		plan: plan, cfg: cfg, sent: sentCounter(cfg.Trace), store: newStore(),
		in: make([]Bound, plan.workers), holds: make([]int32, plan.workers), floors: make([]*laneFloor, plan.workers),
		short: make([]uint64, (plan.workers+63)/64), window: math.Inf(1), until: math.Inf(1),
		lowest: make([]inBound, len(plan.alike)), unread: true,
	}
	e.store.giveBack = cfg.Release
	if checked {
		e.own()
	}
	from, err := e.takeOver()
	if err != nil {
		return nil, err
	}
	e.makeSimprocs(from)
	e.makeLinks()
	if plan.links != nil {
		e.byLink = newByLink(e)
	}
	if err := e.makeHandlers(from); err != nil {
		return nil, err
	}
	if cfg.Resume != nil {
		if err := e.load(cfg.Resume, from); err != nil {
			return nil, err
		}
	} else {
		e.begin()
	}
	ahead := e.paysAhead()
	for c := range e.classes {
		e.classes[c].set.ahead = ahead
	}
	e.settle()
	return e, nil
}

// begin files the calls at epoch 0: of each class the first, which brings the next with it (begun). So there is no
// entry for each simproc.
func (e *Engine) begin() {
	if e.byLink != nil {
		for i := range e.plan.NumHosted() {
			e.file(entry{route: route{uint32(i), wakeSender}})
		}
		return
	}
	for c := range e.classes {
		e.beginFrom(c, 0)
	}
}

// beginFrom files the call at epoch 0 of the first simproc of a class from an index on.
func (e *Engine) beginFrom(c int, i uint32) {
	for ; int(i) < e.plan.NumHosted(); i++ {
		if e.classAt(i) == c {
			e.file(entry{route: route{i, wakeSender}})
			break
		}
	}
	e.classes[c].begins = i
}

// makeHandlers makes the handlers of all simprocs but those that were taken over.
func (e *Engine) makeHandlers(from *takenOver) error {
	if e.passive != nil {
		return e.makeAll(from)
	}
	for _, i := range e.byID {
		p := e.at(i)
		if p.handler != nil {
			continue // it was taken over
		}
		if err := e.makeHandler(p); err != nil {
			return err
		}
		e.startJournal(p)
	}
	return nil
}

// makeHandler asks the model for p's handler.
func (e *Engine) makeHandler(p *Simproc) (err error) {
	defer e.rescueFrom(p, "making its handler", &err)
	p.handler, err = e.cfg.Model.NewHandler(p)
	if err == nil && p.handler == nil {
		err = errors.New("the model made no handler")
	}
	if err != nil {
		return &modelError{fmt.Sprintf("node: %s: %v", p.Name(), err), err}
	}
	return nil
}

// at is the simproc with an index, of an Engine that has all in memory.
func (e *Engine) at(i uint32) *Simproc {
	if e.placed != nil {
		return e.placed[i]
	}
	return &e.procs[i]
}

func (e *Engine) makeSimprocs(from *takenOver) {
	plan := e.plan
	n := plan.NumHosted()
	e.classes, e.heads = make([]class, len(plan.classes)), make([]head, len(plan.classes))
	for c := range e.classes {
		e.heads[c].key = keyNever
		e.classes[c].plan = &plan.classes[c]
		e.classes[c].set.init()
	}
	if e.cfg.Resident == nil || !plan.blocks || plan.links != nil {
		e.byID = make([]uint32, n)
	}
	switch {
	case e.passive != nil: // it was taken over
	case e.cfg.Resident != nil:
		e.passive = newPassive(e, e.cfg.Resident)
	case from != nil:
		e.placed = from.simprocs(plan)
	default:
		e.procs = make([]Simproc, n)
	}
	if plan.classOf != nil {
		e.classOf = make([]int32, n)
	}
	for k := range plan.NumHosted() {
		id := plan.hostedAt(k)
		i := uint32(plan.indexOn(plan.self, id))
		if e.byID != nil {
			e.byID[k] = i
		}
		if e.passive == nil {
			p := e.at(i)
			p.engine, p.id, p.local = e, id, i
		}
		if plan.classOf != nil {
			e.classOf[i] = plan.classOf[k]
		}
	}
}

func (e *Engine) makeLinks() {
	plan := e.plan
	e.meshes = make([][]int, len(plan.layers))
	for i := range plan.meshes {
		e.meshes[plan.meshes[i].From] = append(e.meshes[plan.meshes[i].From], i)
	}
	count := 0
	for k := range plan.NumHosted() {
		id := plan.hostedAt(k)
		first, end := plan.LinksOf(id)
		count += end - first
	}
	e.outLinks = make([]outLink, 0, count)
	if e.passive != nil && count > 0 {
		e.passive.firsts = make([]uint32, plan.NumHosted())
	}
	for k := range plan.NumHosted() {
		id := plan.hostedAt(k)
		i := e.localAt(k)
		first, end := plan.LinksOf(id)
		switch {
		case e.passive == nil:
			p := e.at(i)
			p.firstLink, p.numLinks = uint32(len(e.outLinks)), uint32(end-first)
		case count > 0:
			e.passive.firsts[i] = uint32(len(e.outLinks))
		}
		for k := first; k < end; k++ {
			to := plan.To(k)
			proc := plan.indexOn(plan.self, to)
			if proc < 0 {
				proc = ^int32(plan.workerOf(to))
			}
			e.outLinks = append(e.outLinks, outLink{to: to, proc: proc, lookahead: plan.lookahead[k]})
		}
	}
}

// fail keeps the first error of the run; Run returns it.
func (e *Engine) fail(err error) error {
	if e.err == nil {
		e.err = err
	}
	return err
}

// activate calls the handler of the first simproc of class c with everything it has
// for its first epoch.
func (e *Engine) activate(i int) {
	c := &e.classes[i]
	p := e.called(e.heads[i].proc)
	if p == nil {
		return
	}
	if checked {
		e.checkActivation(i, p)
	}
	now := math.Float64frombits(e.heads[i].key)
	if !(now > p.now) && p.begun() {
		// Nothing may be wrong in silence: an event has come too late for its simproc.
		e.fail(fmt.Errorf("node: %s is due at epoch %v after it was called at %v: a fault of disco's own "+
			"synchronisation, please report it", p.Name(), now, p.now))
		return
	}
	p.now, e.last = now, p.local
	e.front = max(e.front, e.heads[i].key)
	e.take(c, p)
	if checked && e.mutate != nil {
		e.mutate(e.events)
	}
	e.record(i, p)
	if checked {
		e.lend(p)
	}
	if e.cfg.CallOf != nil {
		*e.cfg.CallOf, *e.cfg.CallAt = uint64(p.id)+1, e.heads[i].key
	}
	e.current = p
	err := p.handler.Handle(p, e.events)
	e.current = nil
	if checked {
		e.unlend(p)
	}
	if e.cfg.Trace != nil {
		e.handled(i, p)
	}
	for _, r := range e.refs {
		e.store.free(r)
	}
	if err != nil {
		e.returned(p, err)
	}
	e.stats.Events += uint64(len(e.events))
	e.stats.Activations++
	if now == 0 && p.local == c.begins && e.byLink == nil {
		e.beginFrom(i, p.local+1)
	}
	if e.byLink != nil {
		e.byLink.follow(i, p, &e.heads[i])
	} else {
		e.heads[i].follow(&c.set)
	}
}

// take moves all that p has for its epoch, the first in c, into e.events and e.refs.
func (e *Engine) take(c *class, p *Simproc) {
	e.events, e.refs, e.woken = e.events[:0], e.refs[:0], false
	set := e.setIn(c, p)
	en := set.first()
	for key := en.key; en != nil && en.key == key && en.proc == p.local; en = set.first() {
		if en.sender == wakeSender {
			e.woken = true
		} else {
			// In place: built elsewhere and copied, it would wait for its own stores, as an entry would.
			if len(e.events) == cap(e.events) {
				e.events = slices.Grow(e.events, 1)
			}
			e.events = e.events[:len(e.events)+1]
			ev := &e.events[len(e.events)-1]
			ev.Headers, ev.Data = e.store.get(en.ref)
			ev.Epoch, ev.Sender, ev.Number = p.now, en.sender, en.number
			e.refs = append(e.refs, en.ref)
			if en.remote {
				e.stats.HandledRemote++
				e.backlogBytes -= int64(len(ev.Headers) + len(ev.Data))
			}
		}
		set.drop()
	}
	if set.ahead {
		e.prefetch(set)
	}
}

// setIn is the pending set with p's entries; c is its class.
func (e *Engine) setIn(c *class, p *Simproc) *pending {
	if e.byLink != nil {
		return &e.byLink.queues[p.local].set
	}
	return &c.set
}

// file puts an entry into the pending set of its target's class, or into its target's
// EventQueue.
func (e *Engine) file(en entry) {
	c := e.classAt(en.proc)
	if e.byLink != nil {
		e.byLink.file(c, en)
	} else {
		e.classes[c].set.insert(en)
	}
	if h := &e.heads[c]; en.key < h.key || en.key == h.key && en.proc < h.proc {
		h.key, h.proc = en.key, en.proc
	}
}

// begun reports whether p was called, as it is at epoch 0: then it has a hash.
func (p *Simproc) begun() bool { return p.hash != 0 }

func (e *Engine) sendOut(to SimprocID, peer int32, epoch float64, number uint64, headers, data []byte) error {
	e.stats.Sent++
	e.out = envelope.Event{Epoch: epoch, Number: number, Target: uint32(to), Sender: uint32(e.current.id),
		Headers: headers, Data: data}
	if err := e.cfg.Port.SendEvent(int(peer), &e.out); err != nil {
		return e.fail(fmt.Errorf("node: %s to %s: %w", e.current.Name(), e.plan.Name(to), err))
	}
	if e.byLink != nil {
		e.byLink.sentTo(e.current, to) // what is promised meanwhile doesn't count it, and is true
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
	local := uint32(e.plan.indexOn(e.plan.self, SimprocID(ev.Target)))
	p := e.proc(local) // nil: its node isn't in memory; that the event isn't too late shows when it comes back
	late := p != nil && !(ev.Epoch > p.now) && p.begun()
	if late || (Bound{ev.Epoch, e.levelAt(local)}).Before(e.in[peer]) {
		return e.fail(e.brokenPromise(peer, ev, p))
	}
	if e.byLink != nil {
		raised, err := e.byLink.queues[local].arrived(SimprocID(ev.Sender), ev.Epoch)
		if err != nil {
			return e.fail(err)
		}
		e.risen = e.risen || raised
	}
	e.stats.Received++
	e.backlogBytes += int64(len(ev.Headers) + len(ev.Data))
	en := entry{keyOf(ev.Epoch), ev.Number, route{local, SimprocID(ev.Sender)}, load{remote: true}}
	if lease != 0 {
		en.ref = e.store.lease(ev.Headers, ev.Data, lease)
	} else {
		en.ref = e.store.put(ev.Headers, ev.Data)
	}
	e.file(en)
	return nil
}

func (e *Engine) brokenPromise(peer int, ev *envelope.Event, target *Simproc) error {
	handled := ""
	if target != nil {
		handled = fmt.Sprintf(" (handled up to %v)", target.now)
	}
	return fmt.Errorf("node: event from %s to %s at epoch %v breaks worker %d's promise: nothing before %v%s",
		e.plan.Name(SimprocID(ev.Sender)), e.plan.Name(SimprocID(ev.Target)), ev.Epoch, peer, e.in[peer], handled)
}

// ReceivePromise files the promise of one simproc to another (Plan.PromiseByLink), or
// one for everything that a peer sends (envelope.WholeLane), as it comes over a stream.
func (e *Engine) ReceivePromise(peer int, p *envelope.Promise) error {
	if p.Target == envelope.WholeLane {
		return e.ReceiveBound(peer, Bound{p.Epoch, p.Level})
	}
	if err := e.checkArrival(peer, p.Sender, p.Target); err != nil {
		return e.fail(err)
	}
	if e.byLink == nil {
		return e.fail(fmt.Errorf("node: promise of %s to %s, but this run promises for whole lanes",
			e.plan.Name(SimprocID(p.Sender)), e.plan.Name(SimprocID(p.Target))))
	}
	target := e.plan.indexOn(e.plan.self, SimprocID(p.Target))
	raised, err := e.byLink.queues[target].promise(p)
	if err != nil {
		return e.fail(err)
	}
	e.risen = e.risen || raised
	return nil
}

// ReceiveBound takes in what a peer promises for all its links to this worker:
// nothing that it will still send is earlier than b. All events that it sent before
// must have been given to ReceiveEvent. A bound that goes back is an error.
func (e *Engine) ReceiveBound(peer int, b Bound) error {
	if peer < 0 || peer >= len(e.in) || !(b.Epoch >= 0) {
		return e.fail(fmt.Errorf("node: bound %v of worker %d, want a time of one of %d workers", b, peer, len(e.in)))
	}
	if e.byLink != nil {
		return e.fail(fmt.Errorf("node: worker %d promises %v for everything that it sends, but this run promises "+
			"link by link", peer, b))
	}
	if b.Before(e.in[peer]) {
		// A jump may have raised what we hold above what the peer has said itself.
		return nil
	}
	e.in[peer], e.risen, e.unread = b, true, true
	return nil
}

// Jump applies that, at a moment when every worker was blocked and no event
// was under way, the least next activation of all was at b. Everything still to be
// sent is then caused by something at b or later.
func (e *Engine) Jump(b Bound) {
	if e.byLink != nil {
		for i := range e.byLink.queues {
			e.byLink.queues[i].jump(b)
		}
	}
	for peer := range e.in {
		if far := e.plan.across[peer].apply(b); e.in[peer].Before(far) {
			e.in[peer] = far
		}
	}
	e.unread = true
	e.settle()
}

func (e *Engine) checkArrival(peer int, sender, target uint32) error {
	n := uint32(e.plan.NumSimprocs())
	if target >= n || e.plan.workerOf(SimprocID(target)) != e.plan.self {
		return fmt.Errorf("node: worker %d sent to %s, which is not on this worker", peer,
			e.plan.Name(SimprocID(target)))
	}
	if sender >= n || e.plan.workerOf(SimprocID(sender)) != peer {
		return fmt.Errorf("node: worker %d sent in the name of %s, which is not on it", peer,
			e.plan.Name(SimprocID(sender)))
	}
	return nil
}
