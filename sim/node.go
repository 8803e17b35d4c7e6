// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/sim/dist"
	"github.com/disco-sim/disco/state"
)

// Node is one simulated node, or one layer of it: what a setup function fills. Its methods are for setup functions,
// but for those that say otherwise; Context has what is done while the run is under way.
//
// A Node is used by one goroutine at a time.
type Node struct {
	// What every activation needs comes first, so that it takes two cache lines where nodes are many: the first type
	// of events that the node handles, and the first stream that it draws from. The activation looks into both at once,
	// at proc and at begun.
	ctx     Context
	now     float64
	proc    *node.Simproc // nil while only the structure is asked for
	m       *Model
	input   input
	journal *journal

	begun     bool // the functions of starts were called
	active    bool // an activation is under way, or the report
	journaled bool // there is a journal
	saving    bool // the run is to be saved: what can't be is refused
	layer     int32
	stream    stream
	schedule  schedule
	wakeups   []float64 // epochs of wakeups that were asked for and haven't come, falling
	err       error     // of a process

	inputs  []input  // of further types
	streams []stream // further ones, by the number of a distribution's name
	group   *group
	index   int    // among the group's
	name    string // whole
	starts  []action
	links   []declared // while only the structure is asked for
	stats   statistics
	workers coroutines
	remotes *remotes // servers that others use, and others' that this node uses
	saves   *saves   // nil: nothing was declared that it is for
}

// stream is a node's random stream of one name.
type stream struct {
	of uint32 // 1 + the name's number; 0: there is no stream
	dist.Stream
}

// Name is the node's whole name.
func (n *Node) Name() string { return n.name }

// Index is the node's number among those that Builder.Nodes made with it, from 0.
func (n *Node) Index() int { return n.index }

// In places a part of the node, a component: the names of servers, containers, stores, batches and statistics that part
// declares begin with name and a dot. So a part can be placed several times on one node; parts may have parts.
//
//	func (s Desk) Place(n *sim.Node) { agents := n.Server("agents", s.Agents); … }
//	…
//	n.In("sales", Desk{Agents: 3}.Place)   // sales.agents, sales.agents.wait, …
//	n.In("support", Desk{Agents: 5}.Place) // support.agents, …
//
// Random streams are named by their distributions, not by parts: two parts that draw from one distribution take turns
// at its stream, unless each has its own (dist.Dist.Named).
func (n *Node) In(name string, part func(n *Node)) {
	if n.begun {
		n.misuse("In(%q): only a setup function may call it; the run is under way", name)
	}
	if name == "" || strings.ContainsRune(name, '/') {
		n.misuse("In(%q): want a name without '/'", name)
	}
	n.in(n.m.within+name+".", func() { part(n) })
}

// in calls f with a prefix before the names that it declares.
func (n *Node) in(prefix string, f func()) {
	was := n.m.within
	defer func() { n.m.within = was }()
	n.m.within = prefix
	f()
}

// Start has f called at simulated time 0, before everything else. Several are called in the order in which Start was.
func (n *Node) Start(f func(c *Context)) { n.atStart("Start", call(f)) }

// Go starts a process at simulated time 0.
func (n *Node) Go(f func(p *Process)) {
	n.m.processes = true
	n.unsaved("a process, of Go,", f)
	n.atStart("Go", call(func(*Context) { n.start(f) }))
}

// Every calls f again and again, each time after a gap drawn from a distribution, the first time after the first gap.
// A gap that is always 0 is refused: nothing would ever be later.
func (n *Node) Every(gap dist.Dist, f func(c *Context)) {
	n.every(gap, f, f)
}

// Each starts a process again and again, each time after a gap drawn from a distribution: arrivals.
func (n *Node) Each(gap dist.Dist, f func(p *Process)) {
	n.m.processes = true
	n.unsaved("a process, of Each,", f)
	n.every(gap, func(*Context) { n.start(f) }, f)
}

// every is Every; code is the model's function.
func (n *Node) every(gap dist.Dist, f func(c *Context), code any) {
	if !(gap.Max() > 0) {
		n.misuse("Every, or Each: a gap of always %v s: want one that can be above 0", gap.Max())
	}
	s := &source{n: n, gap: gap, f: f, code: code}
	s.id = n.enrol(s)
	n.atStart("Every", (*opening)(s))
}

// setupOnly refuses a call that isn't of a setup function.
func (n *Node) setupOnly(what string) {
	if n.begun {
		n.misuse("%s: only a setup function may call it; the run is under way", what)
	}
}

func (n *Node) atStart(what string, do action) {
	n.setupOnly(what)
	n.starts = append(n.starts, do)
}

// source is what Every does.
type source struct {
	n    *Node
	gap  dist.Dist
	f    func(c *Context)
	code any // the model's function
	id   uint32
}

// opening is that a source begins.
type opening source

func (s *opening) fire(*Context) { (*source)(s).wait() }

func (s *source) savedAs() uint32                          { return s.id }
func (s *source) declaration() string                      { return "every" }
func (s *source) state(*state.Codec)                       {}
func (s *source) entry(*state.Codec, action, Timer) action { return s }

func (s *source) wait() { s.n.set(s.n.now+max(0, s.n.draw(&s.gap)), s) }

func (s *source) fire(c *Context) {
	s.wait()
	s.f(c)
}

// draw draws from d with the stream of its name.
func (n *Node) draw(d *dist.Dist) float64 {
	s := &n.stream
	if s.of != 1+d.ID() {
		s = n.find(d)
	}
	x := d.Draw(&s.Stream)
	if n.journaled {
		n.noteDraw(d, x)
	}
	return x
}

func (n *Node) noteDraw(d *dist.Dist, x float64) {
	n.note("drew %v from %s", x, cmp.Or(d.Name(), "a distribution without a name"))
}

// set puts an action into the schedule.
func (n *Node) set(epoch float64, do action) Timer {
	if n.journaled {
		n.noteSet(epoch, do)
	}
	return n.schedule.set(n.now, epoch, do)
}

// setSoon has an action done at this epoch, behind all that is already due. It can't be cancelled.
func (n *Node) setSoon(do action) {
	if n.journaled {
		n.noteSet(n.now, do)
	}
	n.schedule.setSoon(do)
}

// find is the stream of a distribution's name, where it isn't the first.
func (n *Node) find(d *dist.Dist) *stream {
	id := d.ID()
	if int(id) >= len(n.streams) || n.streams[id].of == 0 {
		return n.seed(id, d.Name())
	}
	return &n.streams[id]
}

// seed makes the stream of a distribution's name.
func (n *Node) seed(id uint32, name string) *stream {
	n.running("drawing a random number")
	s := &n.stream
	if s.of != 0 {
		for len(n.streams) <= int(id) {
			n.streams = append(n.streams, stream{})
		}
		s = &n.streams[id]
	}
	*s = stream{1 + id, n.m.stream(n.proc, name)}
	return s
}

// Stream is the node's random stream of a name: the numbers depend on the node's name, this name, seed and
// replication, and on nothing else. Asking twice gives two streams with the same numbers: ask once, in Start or
// later, and keep it.
func (c *Context) Stream(name string) *dist.Stream {
	c.n.running("Stream")
	s := c.n.m.stream(c.n.proc, name)
	return &s
}

// Handle implements node.Handler.
func (n *Node) Handle(p *node.Simproc, events []node.Event) (err error) {
	ok := false
	defer func() {
		if !ok { // else there is nothing to recover, and asking costs time
			n.ends(recover(), &err)
		}
	}()
	n.now, n.active = p.Now(), true
	if !n.begun {
		n.begin()
	}
	for i := range events {
		ev, in := &events[i], &n.input
		if len(ev.Data) < keyBytes || in.typ == nil || in.typ.key != binary.LittleEndian.Uint32(ev.Data) {
			if in, err = n.inputOf(ev); err != nil {
				return err
			}
		}
		if err := in.typ.receive(&n.ctx, in.f, ev); err != nil {
			return err
		}
	}
	if n.schedule.entries == 0 {
		n.active, ok = false, true
		return nil
	}
	left := n.m.epochLimit
	for do := n.schedule.due(n.now); do != nil; do = n.schedule.due(n.now) {
		if left--; left < endlessShown {
			if err := n.endless(left, do); err != nil {
				return err
			}
		}
		if n.journaled {
			n.noteDue(do)
		}
		if process, is := do.(*Process); is { // as its fire does
			process.state = running
			process.run.next()
			n.entered()
		} else {
			do.fire(&n.ctx)
		}
		if n.err != nil {
			return n.err
		}
	}
	n.active = false
	err = n.wake(p)
	ok = err == nil
	return err
}

func (n *Node) begin() {
	n.begun = true
	for _, do := range n.starts {
		do.fire(&n.ctx)
	}
	n.starts = nil
}

// keyBytes is the length of a type's number in front of an event's data.
const keyBytes = 4

// inputOf is what the node does with an event that isn't of the first type.
func (n *Node) inputOf(ev *node.Event) (*input, error) {
	if len(ev.Data) >= keyBytes {
		key := binary.LittleEndian.Uint32(ev.Data)
		for i := range n.inputs {
			if n.inputs[i].typ.key == key {
				return &n.inputs[i], nil
			}
		}
	}
	return nil, fmt.Errorf("sim: %sfound an event of %d bytes that no On of this node is for", n.at(), len(ev.Data))
}

// wake asks for an activation when the schedule's first entry is due, unless one is asked for that comes no later.
func (n *Node) wake(p *node.Simproc) error {
	for len(n.wakeups) > 0 && n.wakeups[len(n.wakeups)-1] <= n.now {
		n.wakeups = n.wakeups[:len(n.wakeups)-1]
	}
	epoch, any := n.schedule.first()
	if !any || epoch >= p.Horizon() || len(n.wakeups) > 0 && n.wakeups[len(n.wakeups)-1] <= epoch {
		return nil
	}
	n.wakeups = append(n.wakeups, epoch)
	return p.Wakeup(epoch)
}

// Report implements node.Reporter. The run is over for this node: live processes are ended.
func (n *Node) Report(p *node.Simproc) (data []byte, err error) {
	defer rescue(&err)
	n.now, n.active = p.Now(), true // processes that are ended may still record what nobody will read
	data = n.report()
	n.workers.close()
	delete(n.m.hosts, n)
	return data, n.err
}
