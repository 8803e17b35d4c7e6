// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"slices"

	"github.com/disco-sim/disco/internal/plain"
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/sim/dist"
	"github.com/disco-sim/disco/state"
)

// What a node saves at a checkpoint (docs/sim.md, "Checkpoints"). Go can save neither functions nor stacks, so what
// waits in the schedule is named by the place of its declaration in the setup function, which is called again where a
// node is loaded.

// saves is what a node knows of its own saving.
type saves struct {
	variables []savedVariable
	actions   []savedAction // what may wait in the schedule; an action's id is 1 + its place
	stateless bool
	sum       uint64 // of the declarations; 0: not made yet

	// What can't be saved, and the model's function that it is about, which may be nil; "": nothing was declared.
	refused string
	code    any
}

// savedVariable is a variable of any type.
type savedVariable interface {
	declaration() (name string, typ uint32)
	state(c *state.Codec)
}

// savedAction is what may wait in the schedule, or has something waiting there.
type savedAction interface {
	// declaration tells it from others, and is the same in each run of the model, whatever its parameters.
	declaration() string
	// state is its own, besides what waits.
	state(c *state.Codec)
	// entry writes what waits at a Timer or, where that is nil, reads it.
	entry(c *state.Codec, waits action, at Timer) action
}

// numbered is an action that can be saved.
type numbered interface {
	savedAs() uint32 // id of its savedAction; 0: none
}

// saving is the node's saves.
func (n *Node) savesOf() *saves {
	if n.saves == nil {
		n.saves = &saves{}
	}
	return n.saves
}

// enrol gives an action of a setup function its id.
func (n *Node) enrol(a savedAction) uint32 {
	s := n.savesOf()
	s.actions = append(s.actions, a)
	return uint32(len(s.actions))
}

// unsaved notes that a setup function has declared what can't be saved; code is the model's function, if any.
func (n *Node) unsaved(what string, code any) {
	if s := n.savesOf(); s.refused == "" {
		s.refused, s.code = what, code
	}
}

// Saved declares a variable of the node that its functions change: it is saved and loaded with the node. V travels as
// an event does: booleans, numbers, text, arrays, slices and structs of them, or types with AppendBinary and
// UnmarshalBinary. It is called in the setup function; name is for messages, and differs from the node's others.
//
//	waiting := []Order{}
//	sim.Saved(n, "waiting", &waiting)
func Saved[V any](n *Node, name string, v *V) {
	n.setupOnly("Saved")
	s := n.savesOf()
	x := &variable[V]{n.m.within + name, v, typeOf[V](n.m).plan}
	for _, other := range s.variables {
		if name, _ := other.declaration(); name == x.name {
			n.misuse("Saved(%q): there is a variable of this name already", x.name)
		}
	}
	s.variables = append(s.variables, x)
}

// Stateless declares that the node's functions change no variables: all that they change are statistics, and what waits
// in the schedule. A node that has functions and declares neither this nor a variable with Saved isn't saved, because
// one was probably forgotten. It is called in the setup function.
func (n *Node) Stateless() {
	n.setupOnly("Stateless")
	n.savesOf().stateless = true
}

// variable is a variable of one type.
type variable[V any] struct {
	name string
	v    *V
	plan *plain.Plan[V]
}

func (v *variable[V]) declaration() (string, uint32) { return v.name, v.plan.Hash() }
func (v *variable[V]) state(c *state.Codec)          { valueState(c, v.plan, v.v, v.name) }

// valueState writes or reads a value of any type.
func valueState[V any](c *state.Codec, p *plain.Plan[V], v *V, name string) {
	var b []byte
	if !c.Loading() {
		b = p.Append(nil, v)
	}
	if c.Bytes(&b); !c.Loading() || c.Failed() {
		return
	}
	if err := p.Decode(v, b); err != nil {
		c.Fail("%s: %v", name, err)
	}
}

// CheckState implements node.StateChecker. From then on the node refuses what can't be saved when it is called.
func (n *Node) CheckState(*node.Simproc) error {
	n.saving = true
	s := n.savesOf()
	switch {
	case s.refused != "" && s.code != nil:
		return fmt.Errorf("sim: %s: %s can't be saved: %s: write events and timers (sim.NewLater, docs/sim.md)", n.name,
			s.refused, codeOf(s.code))
	case s.refused != "":
		return fmt.Errorf("sim: %s: %s can't be saved", n.name, s.refused)
	case len(s.variables) == 0 && !s.stateless && (len(n.starts) > 0 || n.input.typ != nil || len(s.actions) > 0):
		setup := n.group.setups[n.layer]
		return fmt.Errorf("sim: %s: no variable is declared with sim.Saved, so it can't be saved: declare those that "+
			"its functions change, or call Stateless where they change none, in %s", n.name, codeOf(setup))
	}
	return nil
}

// refuse ends a run that is to be saved, where a function of the model calls what can't be.
func (n *Node) refuse(what string) {
	n.misuse("%s: a function can't be saved: use NewLater, or run with --checkpoint-ends in place of checkpoints, and "+
		"without --rebalance", what)
}

// StateVersion implements node.Saver.
func (n *Node) StateVersion() uint32 { return 1 }

// State implements node.Saver.
func (n *Node) State(p *node.Simproc, c *state.Codec) {
	s := n.savesOf()
	if s.refused != "" || len(n.workers.all) > 0 {
		c.Fail("found %s, which can't be saved", s.refused)
		return
	}
	sum := s.declared(n)
	found := sum
	if c.Uint64(&found); found != sum {
		c.Fail("found a state of other variables, timers, resources or statistics than this program's declare")
		return
	}
	if c.Loading() {
		n.now, n.begun, n.starts = p.Now(), true, nil // what was done at 0 is in the state
	}
	for _, v := range s.variables {
		v.state(c)
	}
	for _, a := range s.actions {
		a.state(c)
	}
	n.schedule.state(c, n)
	n.wakeupsState(c)
	n.streamsState(c)
	for _, x := range n.stats.list {
		if c.Failed() {
			return
		}
		x.state(c)
	}
}

// declared is a number that two sets of declarations hardly share, above 0.
func (s *saves) declared(n *Node) uint64 {
	if s.sum != 0 {
		return s.sum
	}
	h := declarationSum(fnvBasis)
	for _, v := range s.variables {
		name, typ := v.declaration()
		h.text(name)
		h.byte(byte(typ), byte(typ>>8), byte(typ>>16), byte(typ>>24))
	}
	h.byte(1)
	for _, a := range s.actions {
		h.text(a.declaration())
	}
	h.byte(2)
	for i, x := range n.stats.list {
		h.text(n.stats.names[i])
		switch x.(type) {
		case *Counter:
			h.byte(byte(counterKind))
		case *Gauge:
			h.byte(byte(gaugeKind))
		}
	}
	s.sum = max(1, uint64(h))
	return s.sum
}

// declarationSum is FNV-1a with 64 bits.
type declarationSum uint64

const fnvBasis, fnvPrime = 14695981039346656037, 1099511628211

func (h *declarationSum) byte(bytes ...byte) {
	for _, b := range bytes {
		*h = (*h ^ declarationSum(b)) * fnvPrime
	}
}

func (h *declarationSum) text(s string) {
	for i := range len(s) {
		*h = (*h ^ declarationSum(s[i])) * fnvPrime
	}
	h.byte(0xff) // in no UTF-8
}

// wakeupsState is the epochs of wakeups that haven't come.
func (n *Node) wakeupsState(c *state.Codec) {
	state.Words(c, &n.wakeups)
	before := math.Inf(1)
	for _, epoch := range n.wakeups {
		if !(epoch < before && epoch >= 0) {
			c.Fail("found a wakeup at %v behind one at %v, want falling times, at least 0", epoch, before)
			return
		}
		before = epoch
	}
}

// streamsState is the random streams by the names of their distributions: first the one that was drawn from first.
func (n *Node) streamsState(c *state.Codec) {
	var names []string
	if !c.Loading() {
		for i := range n.streams {
			if n.streams[i].of != 0 {
				names = append(names, dist.NameOf(n.streams[i].of-1))
			}
		}
		slices.Sort(names)
		if n.stream.of != 0 {
			names = slices.Insert(names, 0, dist.NameOf(n.stream.of-1))
		}
	}
	i, before := 0, ""
	state.List(c, &names, 4+16, func(name *string) {
		c.String(name)
		if i > 1 && *name <= before {
			c.Fail("found the stream %q behind %q, want rising names", *name, before)
		}
		if c.Failed() {
			return
		}
		d, s := dist.Constant(0).Named(*name), &n.stream
		switch {
		case i > 0 && s.of == 1+d.ID():
			c.Fail("found the stream %q twice", *name)
			return
		case s.of != 1+d.ID():
			s = n.find(&d)
		}
		s.State(c)
		i, before = i+1, *name
	})
}

// state is what waits in the schedule, cancelled entries included: a Timer stays good.
func (s *schedule) state(c *state.Codec, n *Node) {
	if s.head < len(s.queue) {
		c.Fail("found %d things due at %v that weren't done", len(s.queue)-s.head, n.now)
		return
	}
	state.List(c, &s.heap, 24, func(e *entry) {
		c.Float(&e.epoch)
		c.Uint64(&e.number)
		c.Uint32(&e.slot)
		c.Uint32(&e.generation)
	})
	actions := n.saves.actions
	at := uint32(0)
	state.List(c, &s.slots, 12, func(p *slot) {
		at++
		if c.Loading() {
			*p = slot{}
		}
		id := uint32(0)
		if p.do != nil {
			if a, ok := p.do.(numbered); ok {
				id = a.savedAs()
			}
			if id == 0 {
				c.Fail("found %s waiting, a function that can't be saved: use sim.NewLater", describe(p.do))
				return
			}
		}
		c.Uint32(&p.generation)
		c.Uint32(&p.nextFree)
		c.Uint32(&id)
		switch {
		case int64(id) > int64(len(actions)):
			c.Fail("found action %d waiting, want 0 to %d", id, len(actions))
		case id > 0:
			p.do = actions[id-1].entry(c, p.do, Timer{at, p.generation})
		}
	})
	c.Uint32(&s.free)
	c.Uint64(&s.next)
	if !c.Failed() {
		s.sound(c, n.now)
	}
}

// sound refuses what can't be a schedule, and counts what follows from the rest.
func (s *schedule) sound(c *state.Codec, now float64) {
	live := 0
	for i := range s.heap {
		e := &s.heap[i]
		if !(e.epoch > now) || i > 0 && e.before(&s.heap[(i-1)/heapWidth]) || int64(e.slot) >= int64(len(s.slots)) ||
			e.number >= s.next {
			c.Fail("found something waiting for %v in slot %d of %d, number %d of %d, want a time after %v, not before"+
				" what is in front of it", e.epoch, e.slot, len(s.slots), e.number, s.next, now)
			return
		}
		if p := &s.slots[e.slot]; p.generation == e.generation && p.do != nil {
			if p.queued {
				c.Fail("found slot %d waiting twice", e.slot)
				return
			}
			p.queued = true // seen; cleared below
			live++
		} else if p.generation == e.generation {
			c.Fail("found a free slot %d waiting for %v", e.slot, e.epoch)
			return
		}
	}
	used := 0
	for i := range s.slots {
		s.slots[i].queued = false
		if s.slots[i].do != nil {
			used++
		}
	}
	free := 0
	for at := s.free; at != 0; at = s.slots[at-1].nextFree {
		if free++; int64(at) > int64(len(s.slots)) || s.slots[at-1].do != nil || free > len(s.slots)-used {
			c.Fail("found slot %d among those that are free, want %d that are", at, len(s.slots)-used)
			return
		}
	}
	if used != live || used+free != len(s.slots) {
		c.Fail("found %d slots, %d of them used, %d free, and %d things waiting", len(s.slots), used, free, live)
		return
	}
	s.entries, s.dead = len(s.heap), len(s.heap)-live
}

// amountsState is numbers that a statistic has.
func amountsState(c *state.Codec, xs ...*float64) {
	for _, x := range xs {
		if c.Float(x); !(math.Abs(*x) <= math.MaxFloat64) {
			c.Fail("found %v in a statistic, want a finite number", *x)
		}
	}
}

func (s *stretch) state(c *state.Codec) {
	c.Float(&s.until)
	amountsState(c, &s.at)
	if math.IsNaN(s.until) {
		c.Fail("found a stretch of time until %v", s.until)
	}
}

// batchesState is batches, which may not be there yet.
func (s *stretch) batchesState(c *state.Codec, b **measure.Batches) {
	there := *b != nil
	c.Bool(&there)
	switch {
	case c.Failed() || !there:
		return
	case s.count == 0:
		c.Fail("found sums by stretches of time, want none with so many nodes")
		return
	case *b == nil:
		*b = measure.NewBatches(s.n.m.warmup, s.n.proc.Horizon(), s.count)
	}
	(*b).State(c)
}

func (x *Counter) state(c *state.Codec) {
	x.stretch.state(c)
	amountsState(c, &x.part, &x.total)
	x.batchesState(c, &x.batches)
}

func (t *Tally) state(c *state.Codec) {
	t.stretch.state(c)
	t.values.State(c)
	amountsState(c, &t.part)
	if c.Int64(&t.before); t.before < 0 || t.before > t.values.Count {
		c.Fail("found %d values before this stretch of time, want 0 to %d", t.before, t.values.Count)
	}
	t.batchesState(c, &t.sums)
	t.batchesState(c, &t.counts)
	if (t.sums == nil) != (t.counts == nil) {
		c.Fail("found sums without counts of a tally")
	}
	t.begin()
	t.windows.State(c)
}

func (g *Gauge) state(c *state.Codec) {
	g.stretch.state(c)
	amountsState(c, &g.value, &g.since, &g.part, &g.area, &g.least, &g.top)
	c.Bool(&g.begun)
	g.batchesState(c, &g.batches)
}
