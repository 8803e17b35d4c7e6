// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"reflect"

	"github.com/disco-sim/disco/internal/plain"
	"github.com/disco-sim/disco/sim/dist"
	"github.com/disco-sim/disco/state"
)

// Context is what functions of a node are given while the run is under way: the clock, random numbers, timers. It
// is the same for all functions of a node, and may be kept by them; it is of no use to others.
type Context struct{ n *Node }

// Caller is who calls a method that works in a node: a *Context, or a *Process.
type Caller interface{ context() *Context }

func (c *Context) context() *Context { return c }

// nodeOf is the node of a caller.
func nodeOf(c Caller) *Node {
	if c, ok := c.(*Context); ok {
		return c.n
	}
	return c.context().n
}

// Node is the node that the context belongs to.
func (c *Context) Node() *Node { return c.n }

// Now is the simulated time, in seconds.
func (c *Context) Now() float64 { return c.n.now }

// Horizon is the simulated time at which the run ends, in seconds: what is due then or later isn't done.
func (c *Context) Horizon() float64 { return c.n.proc.Horizon() }

// Replication is the number of this repetition of the experiment, from 0.
func (c *Context) Replication() int { return c.n.proc.Replication() }

// Draw draws from a distribution, with the node's stream of the distribution's name; all distributions without a name
// share one stream.
func (c *Context) Draw(d dist.Dist) float64 { return c.n.draw(&d) }

// After does f after a time, in seconds >= 0. 0 is at the same epoch, behind all that is already due. It allocates
// what f captures; a Timeout doesn't.
func (c *Context) After(delay float64, f func(c *Context)) Timer {
	if c.n.saving {
		c.n.refuse("After")
	}
	return c.n.after("After", delay, call(f))
}

// At does f at a simulated time, in seconds, now or later.
func (c *Context) At(epoch float64, f func(c *Context)) Timer {
	n := c.n
	if n.saving {
		n.refuse("At")
	}
	n.checkAt(epoch)
	return n.set(epoch, call(f))
}

// checkAt refuses a time that something can't be set for.
func (n *Node) checkAt(epoch float64) {
	n.running("At")
	if !(epoch >= n.now) { // NaN too
		n.misuse("At(%v): the time is before now", epoch)
	}
}

// Cancel takes back what a Timer names, and reports whether it was still to be done. The zero Timer names nothing.
func (c *Context) Cancel(t Timer) bool { return c.n.schedule.cancel(t) }

// Pending reports whether what a Timer names is still to be done.
func (c *Context) Pending(t Timer) bool { return c.n.schedule.live(t) }

// Go starts a process, which runs from this epoch on, behind all that is already due.
func (c *Context) Go(f func(p *Process)) *Process { return c.n.start(f) }

// Fail ends the run with an error in the model's words.
func (c *Context) Fail(err error) { panic(&failure{text: c.n.at() + err.Error()}) }

// after asks for do after a delay; what names the method, for messages.
func (n *Node) after(what string, delay float64, do action) Timer {
	n.running(what)
	if !(delay >= 0) || math.IsInf(delay, 1) {
		n.misuse("%s(%v): want a time of 0 s or more", what, delay)
	}
	return n.set(n.now+delay, do)
}

// Timeout is a timer that is set again and again and calls one function with one value: for what is usually
// cancelled before it happens. Set and Cancel don't allocate. Make it in a setup function or later with NewTimeout;
// it belongs to its node.
type Timeout[T any] struct {
	n     *Node
	f     func(c *Context, data T)
	data  T
	timer Timer
	id    uint32
	plan  *plain.Plan[T] // nil: it can't be saved
}

// NewTimeout makes a Timeout of a node that calls f. In a run with checkpoints it is called in the setup function, and
// T travels as an event does.
func NewTimeout[T any](n *Node, f func(c *Context, data T)) *Timeout[T] {
	t := &Timeout[T]{n: n, f: f}
	switch {
	case n.saving:
		n.misuse("NewTimeout: only a setup function may call it in a run with checkpoints")
	case n.begun:
	default:
		if t.plan = planOf[T](n); t.plan == nil {
			n.unsaved(fmt.Sprintf("a timeout with a %s", reflect.TypeFor[T]()), f)
		}
		t.id = n.enrol(t)
	}
	return t
}

// planOf is how values of a type travel; nil: they don't.
func planOf[T any](n *Node) *plain.Plan[T] {
	of := reflect.TypeFor[T]()
	if t, ok := n.m.types[of]; ok {
		return t.(*eventType[T]).plan
	}
	if n.m.plans == nil {
		n.m.plans = map[reflect.Type]any{}
	}
	if p, ok := n.m.plans[of]; ok {
		return p.(*plain.Plan[T])
	}
	p, err := plain.For[T]()
	if err != nil {
		p = nil
	}
	n.m.plans[of] = p
	return p
}

// Set has the function called with data after a time, in seconds >= 0, and nothing else: if the Timeout was set
// already, that is taken back.
func (t *Timeout[T]) Set(delay float64, data T) {
	t.n.schedule.cancel(t.timer)
	t.data = data
	t.timer = t.n.after("Timeout.Set", delay, t)
}

// Cancel takes back what was set last, and reports whether it was still to be done.
func (t *Timeout[T]) Cancel() bool { return t.n.schedule.cancel(t.timer) }

// Pending reports whether the function is still to be called.
func (t *Timeout[T]) Pending() bool { return t.n.schedule.live(t.timer) }

func (t *Timeout[T]) fire(c *Context) { t.f(c, t.data) }

func (t *Timeout[T]) savedAs() uint32     { return t.id }
func (t *Timeout[T]) declaration() string { return reflect.TypeFor[T]().String() }

func (t *Timeout[T]) state(c *state.Codec) {
	c.Uint32(&t.timer.slot)
	c.Uint32(&t.timer.generation)
}

func (t *Timeout[T]) entry(c *state.Codec, _ action, _ Timer) action {
	valueState(c, t.plan, &t.data, "a timeout")
	return t
}
