// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
)

// await has a process wait in a list until grant, for a time at most, in seconds, +Inf for any; where it can't be
// interrupted, for ever. It reports whether it was granted.
func (l *waitList) await(p *Process, delay float64, interruptible bool) bool {
	p.ready()
	l.add(p)
	if !interruptible {
		p.pause(holding)
		return true
	}
	if !math.IsInf(delay, 1) {
		p.timer = p.n.after("a wait", delay, p)
	}
	return p.wait() == resumed
}

// grant takes a process off the list and has it go on.
func (l *waitList) grant(p *Process) {
	l.remove(p)
	p.grant()
}

// shared is what all resources with puts and gets have: two queues, first come first served each.
type shared struct {
	n                *Node
	name             string
	puts, gets       waitList
	amount           *Gauge
	putWait, getWait *Tally
	reneged          *Counter
}

func (s *shared) declare(n *Node, name, what string, owner settler) {
	s.n, s.name = n, n.m.within+name
	s.puts.owner, s.gets.owner = owner, owner
	s.amount = n.Gauge(name+".amount", Doc(what))
	s.putWait = n.Tally(name+".put_wait", Unit("s"), Doc("until what was put had room"))
	s.getWait = n.Tally(name+".get_wait", Unit("s"), Doc("until there was what was asked for"))
	s.reneged = n.Counter(name+".reneged", Doc("puts and gets that were given up"))
}

// misuse ends the run with the resource's name, the time and the place.
func (s *shared) misuse(format string, args ...any) {
	panic(&failure{fmt.Sprintf("%s/%s: %s, at %v s%s", s.n.name, s.name, fmt.Sprintf(format, args...), s.n.now,
		place())})
}

// enter refuses a caller of another node, a process that isn't running, and a time below 0.
func (s *shared) enter(c Caller, delay float64) {
	if other := c.context().n; other != s.n {
		s.misuse("used in %s: it belongs to its node", other.name)
	}
	if p, ok := c.(*Process); ok && p.state != running {
		s.misuse("a process was used by something other than the function that it was given to")
	}
	if !(delay >= 0) {
		s.misuse("waiting for %v s: want a time of 0 s or more", delay)
	}
}

// ended records how a wait that began at a time has ended.
func (s *shared) ended(granted bool, wait *Tally, since float64) bool {
	if granted {
		wait.Add(s.n.now - since)
	} else {
		s.reneged.Inc()
	}
	return granted
}

// Container holds an amount of something, such as fuel or pieces that are all alike, from 0 to a capacity. Who wants to
// put more than has room waits, and who wants to get more than there is, each in a queue, first come first served:
// nobody goes ahead of one who waits for more.
//
// It records name.amount, name.put_wait, name.get_wait and name.reneged. It belongs to its node, and its operations
// take O(1) and no memory.
type Container struct {
	shared
	capacity float64
	has      float64
}

// Container declares a container of the node, with a capacity, +Inf for any, and what is in it at first.
func (n *Node) Container(name string, capacity, initial float64) *Container {
	if !(initial >= 0 && initial <= capacity) || math.IsInf(initial, 1) {
		n.misuse("Container(%q): %v of %v: want an amount from 0 to the capacity", name, initial, capacity)
	}
	k := &Container{capacity: capacity, has: initial}
	k.declare(n, name, "what is in it", k)
	n.enrol(k)
	n.Start(func(*Context) { k.amount.Set(k.has) })
	return k
}

// Amount is what is in it.
func (k *Container) Amount() float64 { return k.has }

// Capacity is what it can hold.
func (k *Container) Capacity() float64 { return k.capacity }

// Put puts an amount in, and waits, however long, until it has room.
func (k *Container) Put(p *Process, amount float64) {
	k.do(p, &k.puts, k.putWait, amount, math.Inf(1), false)
}

// PutWithin is Put for a time at most, in seconds, +Inf for any. It returns false, and nothing is put in, when that is
// over first, or the process is interrupted.
func (k *Container) PutWithin(p *Process, delay, amount float64) bool {
	return k.do(p, &k.puts, k.putWait, amount, delay, true)
}

// Get takes an amount out, and waits, however long, until there is as much.
func (k *Container) Get(p *Process, amount float64) {
	k.do(p, &k.gets, k.getWait, amount, math.Inf(1), false)
}

// GetWithin is Get for a time at most, in seconds, +Inf for any. It returns false, and nothing is taken out, when that
// is over first, or the process is interrupted.
func (k *Container) GetWithin(p *Process, delay, amount float64) bool {
	return k.do(p, &k.gets, k.getWait, amount, delay, true)
}

// TryPut puts an amount in where that takes no wait; false where it would.
func (k *Container) TryPut(c Caller, amount float64) bool {
	return k.try(c, &k.puts, k.putWait, amount)
}

// TryGet takes an amount out where that takes no wait; false where it would.
func (k *Container) TryGet(c Caller, amount float64) bool {
	return k.try(c, &k.gets, k.getWait, amount)
}

func (k *Container) try(c Caller, l *waitList, wait *Tally, amount float64) bool {
	k.check(c, amount, 0)
	if l.count > 0 || !k.moves(l, amount) {
		return false
	}
	wait.Add(0)
	k.settle()
	return true
}

func (k *Container) check(c Caller, amount, delay float64) {
	k.enter(c, delay)
	if !(amount >= 0 && amount <= k.capacity) || math.IsInf(amount, 1) {
		k.misuse("an amount of %v: want 0 to %v", amount, k.capacity)
	}
}

func (k *Container) do(p *Process, l *waitList, wait *Tally, amount, delay float64, interruptible bool) bool {
	k.check(p, amount, delay)
	if interruptible && p.interruptedBefore() {
		return false
	}
	if l.count == 0 && k.moves(l, amount) {
		wait.Add(0)
		k.settle()
		return true
	}
	since := k.n.now
	p.amount = amount
	if k.n.journaled {
		k.noteWait(p, l, amount, delay)
	}
	return k.ended(l.await(p, delay, interruptible), wait, since)
}

func (k *Container) noteWait(p *Process, l *waitList, amount, delay float64) {
	what := "to put %v into %s, which has %v"
	if l == &k.gets {
		what = "to get %v from %s, which has %v"
	}
	p.noteWait(fmt.Sprintf(what, amount, k.name, k.has), delay)
}

// moves puts or gets an amount where that is possible.
func (k *Container) moves(l *waitList, amount float64) bool {
	after := k.has + amount
	if l == &k.gets {
		after = k.has - amount
	}
	if !(after >= 0 && after <= k.capacity) {
		return false
	}
	k.has = after
	if k.n.journaled {
		k.n.note("%s: %v, %v in it", k.name, map[bool]string{true: "-", false: "+"}[l == &k.gets]+number(amount), after)
	}
	return true
}

// settle does what has become possible.
func (k *Container) settle() {
	for again := true; again; {
		again = false
		for _, l := range [...]*waitList{&k.puts, &k.gets} {
			for l.first != nil && k.moves(l, l.first.amount) {
				l.grant(l.first)
				again = true
			}
		}
	}
	if k.has != k.amount.Value() {
		k.amount.Set(k.has)
	}
}
