// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/sim/dist"
)

// Node is one simulated node, or one layer of it: what a setup function fills. Its methods are for setup functions,
// but for those that say otherwise; Context has what is done while the run is under way.
//
// A Node is used by one goroutine at a time.
type Node struct {
	// What every activation needs comes first, so that it takes two cache lines where nodes are many: the first type
	// of events that the node handles, and the first stream that it draws from.
	ctx       Context
	now       float64
	proc      *node.Simproc // nil while only the structure is asked for
	m         *Model
	input     input
	begun     bool // the functions of starts were called
	active    bool // an activation is under way, or the report
	journaled bool // there is a journal
	layer     int32
	stream    stream
	schedule  schedule
	wakeups   []float64 // epochs of wakeups that were asked for and haven't come, falling
	err       error     // of a process
	journal   *journal

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
}

// stream is a node's random stream of one name.
type stream struct {
	id     uint32 // of the name
	seeded bool
	dist.Stream
}

// Name is the node's whole name.
func (n *Node) Name() string { return n.name }

// Index is the node's number among those that Builder.Nodes made with it, from 0.
func (n *Node) Index() int { return n.index }

// Start has f called at simulated time 0, before everything else. Several are called in the order in which Start was.
func (n *Node) Start(f func(c *Context)) { n.atStart("Start", call(f)) }

// Go starts a process at simulated time 0.
func (n *Node) Go(f func(p *Process)) {
	n.m.processes = true
	n.atStart("Go", call(func(*Context) { n.start(f) }))
}

// Every calls f again and again, each time after a gap drawn from a distribution, the first time after the first gap.
// A gap that is always 0 is refused: nothing would ever be later.
func (n *Node) Every(gap dist.Dist, f func(c *Context)) {
	if !(gap.Max() > 0) {
		n.misuse("Every, or Each: a gap of always %v s: want one that can be above 0", gap.Max())
	}
	n.atStart("Every", call(func(*Context) { (&source{n: n, gap: gap, f: f}).wait() }))
}

// Each starts a process again and again, each time after a gap drawn from a distribution: arrivals.
func (n *Node) Each(gap dist.Dist, f func(p *Process)) {
	n.m.processes = true
	n.Every(gap, func(*Context) { n.start(f) })
}

func (n *Node) atStart(what string, do action) {
	if n.begun {
		n.misuse("%s: only a setup function may call it; the run is under way", what)
	}
	n.starts = append(n.starts, do)
}

// source is what Every does.
type source struct {
	n   *Node
	gap dist.Dist
	f   func(c *Context)
}

func (s *source) wait() { s.n.set(s.n.now+max(0, s.n.draw(&s.gap)), s) }

func (s *source) fire(c *Context) {
	s.wait()
	s.f(c)
}

// draw draws from d with the stream of its name.
func (n *Node) draw(d *dist.Dist) float64 {
	id, s := d.ID(), &n.stream
	if s.id != id || !s.seeded {
		s = n.find(id, d.Name())
	}
	x := d.Draw(&s.Stream)
	if n.journaled {
		n.note("drew %v from %s", x, cmp.Or(d.Name(), "a distribution without a name"))
	}
	return x
}

// set puts an action into the schedule.
func (n *Node) set(epoch float64, do action) Timer {
	if n.journaled {
		n.note("set for %v s: %s", epoch, describe(do))
	}
	return n.schedule.set(n.now, epoch, do)
}

// find is the stream of a distribution's name.
func (n *Node) find(id uint32, name string) *stream {
	if int(id) < len(n.streams) && n.streams[id].seeded {
		return &n.streams[id]
	}
	return n.seed(id, name)
}

// seed makes the stream of a distribution's name.
func (n *Node) seed(id uint32, name string) *stream {
	n.running("drawing a random number")
	s := &n.stream
	if s.seeded {
		for len(n.streams) <= int(id) {
			n.streams = append(n.streams, stream{})
		}
		s = &n.streams[id]
	}
	*s = stream{id, true, n.m.stream(n.proc, name)}
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
	defer n.ends(&err)
	n.now, n.active = p.Now(), true
	if !n.begun {
		n.begin()
	}
	for i := range events {
		if err := n.receive(&events[i]); err != nil {
			return err
		}
	}
	if n.schedule.entries == 0 {
		n.active = false
		return nil
	}
	for do := n.schedule.due(n.now); do != nil; do = n.schedule.due(n.now) {
		if n.journaled {
			n.note("did %s", describe(do))
		}
		do.fire(&n.ctx)
		if n.err != nil {
			return n.err
		}
	}
	n.active = false
	return n.wake(p)
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

// receive gives an event to the function that On was given for its type.
func (n *Node) receive(ev *node.Event) error {
	if len(ev.Data) >= keyBytes {
		key := binary.LittleEndian.Uint32(ev.Data)
		if n.input.key == key && n.input.do != nil {
			return n.input.do.receive(&n.ctx, ev.Data[keyBytes:])
		}
		for i := range n.inputs {
			if in := &n.inputs[i]; in.key == key {
				return in.do.receive(&n.ctx, ev.Data[keyBytes:])
			}
		}
	}
	return fmt.Errorf("sim: %sfound an event of %d bytes that no On of this node is for", n.at(), len(ev.Data))
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
