// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/disco-sim/disco/internal/plain"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/sim/dist"
)

// On has f called for every event of type E that comes to the node. A node has one function for a type. E consists of
// booleans, numbers, text, and arrays, slices and structs of them, or has AppendBinary and UnmarshalBinary.
func On[E any](n *Node, f func(c *Context, e E)) {
	t := typeOf[E](n.m)
	for _, key := range n.keys() {
		if key == t.key {
			n.misuse("On: there is a function for %s already", t.plan)
		}
	}
	in := input{&t.inputType, f}
	if n.input.typ == nil {
		n.input = in
	} else {
		n.inputs = append(n.inputs, in)
	}
}

// input is what a node does with the events of one type. An interface holds a function without memory of its own, which
// would be one place more to wait for.
type input struct {
	typ *inputType
	f   any // func(c *Context, e E), as On was given it
}

// inputType is what an eventType is for those who don't know the type.
type inputType struct {
	key     uint32 // what events of the type begin with
	receive func(c *Context, f any, ev *node.Event) error
}

// keys are the numbers of the types that the node handles.
func (n *Node) keys() []uint32 {
	if n.input.typ == nil {
		return nil
	}
	keys := append(make([]uint32, 0, 1+len(n.inputs)), n.input.typ.key)
	for _, in := range n.inputs {
		keys = append(keys, in.typ.key)
	}
	return keys
}

// eventType is what all nodes of a worker know about a type of events.
type eventType[E any] struct {
	inputType
	plan *plain.Plan[E]
	buf  []byte // the type's number, and room for the event that is being sent
}

func typeOf[E any](m *Model) *eventType[E] {
	of := reflect.TypeFor[E]()
	if t, ok := m.types[of]; ok {
		return t.(*eventType[E])
	}
	p, err := plain.For[E]()
	if err != nil {
		panic(&failure{err.Error() + place()})
	}
	if other, taken := m.numbers[p.Hash()]; taken {
		panic(&failure{fmt.Sprintf("%s of %q and %s of %q have the same number, so that one's events would be taken "+
			"for the other's: give one of them another name", of, of.PkgPath(), other, other.PkgPath()) + place()})
	}
	m.numbers[p.Hash()] = of
	size, _ := p.Size()
	t := &eventType[E]{plan: p}
	t.buf = binary.LittleEndian.AppendUint32(make([]byte, 0, keyBytes+size), p.Hash())
	t.inputType = inputType{p.Hash(), func(c *Context, f any, ev *node.Event) error {
		var e E
		if err := p.Decode(&e, ev.Data[keyBytes:]); err != nil {
			return fmt.Errorf("sim: %s%w", c.n.at(), err)
		}
		f.(func(c *Context, e E))(c, e)
		return nil
	}}
	m.types[of] = t
	return t
}

// encode puts an event into the buffer of its type.
func (t *eventType[E]) encode(e *E) []byte {
	t.buf = t.plan.Append(t.buf[:keyBytes], e)
	return t.buf
}

// Link is a declared way from a node to another for events of one type. It belongs to the node that declared it.
type Link[E any] struct {
	n      *Node
	typ    *eventType[E]
	id     node.LinkID
	least  float64 // the lookahead
	delay  dist.Dist
	target string
}

// declared is a link, for those who ask for the structure.
type declared struct {
	link node.Link
	key  uint32
	typ  string
}

// LinkTo declares a link from n to the node of a name, "expert", or of a layer of it, "expert/orders". It takes
// events a time drawn from delay to get there; the least time that delay allows is the link's lookahead: the larger
// it is, the more the workers can do at the same time. A delay without a least time above 0 is refused where links
// form a cycle.
func LinkTo[E any](n *Node, target string, delay dist.Dist) *Link[E] {
	l := &Link[E]{n: n, typ: typeOf[E](n.m), delay: delay, least: delay.Min(), target: target}
	if !(l.least >= 0) || math.IsInf(l.least, 1) {
		n.misuse("LinkTo(%s): a delay of at least %v s: want 0 or more", target, l.least)
	}
	to := n.m.endpoint(n, target)
	if n.proc == nil {
		from := node.Endpoint{Node: n.group.first + n.index, Simproc: int(n.layer)}
		link := node.Link{From: from, To: to, Lookahead: l.least}
		n.links = append(n.links, declared{link, l.typ.key, l.typ.plan.String()})
		return l
	}
	id, err := n.proc.LinkTo(to)
	if err != nil {
		n.misuse("LinkTo(%s): %v", target, err)
	}
	l.id = id
	return l
}

// endpoint is where a target's name leads.
func (m *Model) endpoint(n *Node, target string) node.Endpoint {
	name, layer, layered := strings.Cut(target, "/")
	rank := int(n.layer)
	if layered {
		rank = -1
		for i, l := range m.layers {
			if l == layer {
				rank = i
			}
		}
	}
	g, i, ok := m.find(name)
	if !ok || rank < 0 {
		n.misuse("LinkTo(%s): there is no such node", target)
	}
	return node.Endpoint{Node: g.first + i, Simproc: rank}
}

// Send sends an event, which arrives after a time drawn from the link's delay. It doesn't allocate for events of
// fixed size.
func (l *Link[E]) Send(c Caller, e E) {
	n := nodeOf(c) // rather than l.n: it is known before the link has come from memory
	if n != l.n {
		l.foreign(n)
	}
	data := l.typ.encode(&e) // the draw takes the time until what was written can be copied
	delay := n.draw(&l.delay)
	if delay < l.least {
		delay = l.least
	}
	if n.journaled {
		l.note(n, delay, data)
	}
	if err := n.proc.Send(l.id, n.now+delay, data); err != nil {
		unsent(err)
	}
}

// SendAfter sends an event, which arrives after a time of its own, in seconds, at least the link's lookahead.
func (l *Link[E]) SendAfter(c Caller, delay float64, e E) {
	n := nodeOf(c)
	if n != l.n {
		l.foreign(n)
	}
	if !(delay >= l.least) || math.IsInf(delay, 1) {
		n.misuse("the link to %s: sent with a delay of %v s, want at least its lookahead, %v s", l.target, delay,
			l.least)
	}
	data := l.typ.encode(&e)
	if n.journaled {
		l.note(n, delay, data)
	}
	if err := n.proc.Send(l.id, n.now+delay, data); err != nil {
		unsent(err)
	}
}

// foreign refuses a caller of another node.
func (l *Link[E]) foreign(n *Node) {
	n.misuse("the link of %s to %s: every node declares and uses its own links", l.n.name, l.target)
}

func (l *Link[E]) note(n *Node, delay float64, data []byte) {
	n.note("sent %s to %s, there at %v s", l.typ.plan.Text(data[keyBytes:]), l.target, n.now+delay)
}

// Target is the name of the node that the link leads to, as it was declared.
func (l *Link[E]) Target() string { return l.target }

// Lookahead is the least time that an event is under way, in seconds.
func (l *Link[E]) Lookahead() float64 { return l.least }

// Mesh is links between all nodes of a model, for events of one type: anybody may send to anybody.
type Mesh[E any] struct {
	m     *Model
	typ   *eventType[E]
	delay dist.Dist
	least float64
	layer int
}

type meshDecl struct {
	rank      int
	lookahead float64
}

// MeshOf declares links from every node to every node, itself included, on the builder's layer, without listing them.
// delay is that of LinkTo; its least time must be above 0.
func MeshOf[E any](b *Builder, delay dist.Dist) *Mesh[E] {
	if !(delay.Min() > 0) || math.IsInf(delay.Min(), 1) {
		panic(&failure{fmt.Sprintf("MeshOf: a delay of at least %v s: want more than 0", delay.Min()) + place()})
	}
	b.m.meshes = append(b.m.meshes, meshDecl{b.layer, delay.Min()})
	return &Mesh[E]{m: b.m, typ: typeOf[E](b.m), delay: delay, least: delay.Min(), layer: b.layer}
}

// Send sends an event to the node of an index among all nodes of the model, in the order in which they were made,
// from 0. It arrives after a time drawn from the mesh's delay.
func (l *Mesh[E]) Send(c Caller, to int, e E) {
	l.SendAfter(c, max(l.least, c.context().n.draw(&l.delay)), to, e)
}

// SendAfter is Send with a time of its own, in seconds, at least the least of the mesh's delay.
func (l *Mesh[E]) SendAfter(c Caller, delay float64, to int, e E) {
	n := c.context().n
	if to < 0 || to >= l.m.count || !(delay >= l.least) || math.IsInf(delay, 1) {
		n.misuse("mesh: an event to node %d of %d after %v s, want at least %v s", to, l.m.count, delay, l.least)
	}
	data := l.typ.encode(&e)
	if n.journaled {
		n.note("sent %s to %s, there at %v s", l.typ.plan.Text(data[keyBytes:]), l.m.nodeName(to), n.now+delay)
	}
	id, err := n.proc.LinkTo(node.Endpoint{Node: to, Simproc: l.layer})
	if err == nil {
		err = n.proc.Send(id, n.now+delay, data)
	}
	if err != nil {
		unsent(err)
	}
}

// unsent ends the run with an error of package node.
func unsent(err error) { panic(&failure{err.Error() + place()}) }

// Len is the number of nodes of the model.
func (l *Mesh[E]) Len() int { return l.m.count }
