// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"github.com/disco-sim/disco/internal/plain"
	"github.com/disco-sim/disco/state"
)

// Later is a function of a node that is done at later times, each time with data of its own. What waits can be saved at
// a checkpoint, which what After and At are given can't; and once as much has waited before, nothing is allocated. T
// travels as an event does.
type Later[T any] struct {
	n    *Node
	id   uint32
	name string
	f    func(c *Context, data T)
	plan *plain.Plan[T]
	free []*laterCall[T]
}

// NewLater declares a function of the node. It is called in the setup function; name is for messages.
func NewLater[T any](n *Node, name string, f func(c *Context, data T)) *Later[T] {
	n.setupOnly("NewLater")
	l := &Later[T]{n: n, name: n.m.within + name, f: f, plan: typeOf[T](n.m).plan}
	l.id = n.enrol(l)
	return l
}

// After has the function called with data after a time, in seconds >= 0. 0 is at the same epoch, behind all that is
// already due.
func (l *Later[T]) After(delay float64, data T) Timer {
	return l.n.after("Later.After", delay, l.call(data))
}

// At has the function called with data at a simulated time, in seconds, now or later.
func (l *Later[T]) At(epoch float64, data T) Timer {
	l.n.checkAt(epoch)
	return l.n.set(epoch, l.call(data))
}

// laterCall is one call that waits.
type laterCall[T any] struct {
	of   *Later[T]
	data T
}

func (l *Later[T]) call(data T) *laterCall[T] {
	last := len(l.free) - 1
	if last < 0 {
		return &laterCall[T]{l, data}
	}
	w := l.free[last]
	l.free = l.free[:last]
	w.data = data
	return w
}

func (w *laterCall[T]) fire(c *Context) {
	l, data := w.of, w.data
	var zero T
	w.data = zero
	l.free = append(l.free, w)
	l.f(c, data)
}

func (w *laterCall[T]) function() string { return codeOf(w.of.f) }
func (w *laterCall[T]) savedAs() uint32  { return w.of.id }

func (l *Later[T]) declaration() string { return l.name }
func (l *Later[T]) state(*state.Codec)  {}

func (l *Later[T]) entry(c *state.Codec, waits action, _ Timer) action {
	w, ok := waits.(*laterCall[T])
	if !ok {
		w = &laterCall[T]{of: l}
	}
	valueState(c, l.plan, &w.data, l.name)
	return w
}
