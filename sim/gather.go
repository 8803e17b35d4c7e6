// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
)

// Batch has processes wait for each other: when a number of them has come, or a time after the first, they go on
// together. It records name.size and name.wait, and belongs to its node.
type Batch struct {
	n     *Node
	list  waitList
	size  int
	most  float64
	timer Timer
	sizes *Tally
	wait  *Tally
}

// Batch declares a batch of a size. After a time from its first process on, in seconds, +Inf for never, it is taken as
// complete.
func (n *Node) Batch(name string, size int, delay float64) *Batch {
	if size < 1 || !(delay >= 0) {
		n.misuse("Batch(%q): size %d within %v s: want a size of 1 or more and a time of 0 s or more", name, size,
			delay)
	}
	n.unsaved("the batch "+name, nil)
	return &Batch{n: n, size: size, most: delay, sizes: n.Tally(name+".size", Doc("processes of a batch")),
		wait: n.Tally(name+".wait", Unit("s"), Doc("from coming to a batch until it is complete"))}
}

// Join waits until the batch is complete, and returns how many its processes are and the number of this one among
// them, from 0 in the order in which they came. Nothing shortens the wait: an interrupt meanwhile is delivered to the
// next wait that can be interrupted.
func (b *Batch) Join(p *Process) (size, number int) {
	if p.n != b.n || p.state != running {
		p.n.misuse("Batch.Join: a batch of %s is for running processes of that node", b.n.name)
	}
	since := b.n.now
	number = b.list.count
	b.list.add(p)
	switch {
	case b.list.count == b.size:
		b.complete()
	case b.list.count == 1 && !math.IsInf(b.most, 1):
		b.timer = b.n.schedule.set(since, since+b.most, b)
	}
	if p.list != nil {
		if b.n.journaled {
			p.noteWait(fmt.Sprintf("in a batch, %d of %d", b.list.count, b.size), math.Inf(1))
		}
		p.pause(holding)
	}
	b.wait.Add(b.n.now - since)
	return int(p.amount), number
}

// complete has all who wait go on. Who calls Join is running and needs nothing.
func (b *Batch) complete() {
	b.n.schedule.cancel(b.timer)
	count := b.list.count
	b.sizes.Add(float64(count))
	for p := b.list.first; p != nil; p = b.list.first {
		p.amount = float64(count)
		b.list.grant(p)
	}
}

func (b *Batch) fire(*Context) { b.complete() }

// Waiting is how many processes wait in the batch.
func (b *Batch) Waiting() int { return b.list.count }

// Gate is open or closed: processes wait at it while it is closed, and all go on when it opens. It belongs to its node.
type Gate struct {
	list waitList
	open bool
}

// NewGate makes a gate. It needs no node until a process comes to it.
func NewGate(open bool) *Gate {
	g := &Gate{open: open}
	g.list.owner = g
	return g
}

// settle implements settler: nobody goes on because another leaves.
func (g *Gate) settle() {}

// Open has all who wait go on, in the order in which they came, and lets all through who come until Close.
func (g *Gate) Open() {
	g.open = true
	for g.list.first != nil {
		g.list.grant(g.list.first)
	}
}

// Close has those wait who come from now on.
func (g *Gate) Close() { g.open = false }

// IsOpen reports whether the gate is open.
func (g *Gate) IsOpen() bool { return g.open }

// Waiting is how many processes wait.
func (g *Gate) Waiting() int { return g.list.count }

// Pass waits until the gate is open. Nothing shortens the wait.
func (g *Gate) Pass(p *Process) {
	if !g.open {
		if p.n.journaled {
			p.noteWait("for a gate to open", math.Inf(1))
		}
		g.list.await(p, math.Inf(1), false)
	}
}

// PassWithin is Pass for a time at most, in seconds, +Inf for any; false when that is over first, or the process is
// interrupted.
func (g *Gate) PassWithin(p *Process, delay float64) bool {
	if p.interruptedBefore() {
		return false
	}
	if !g.open && p.n.journaled {
		p.noteWait("for a gate to open", delay)
	}
	return g.open || g.list.await(p, delay, true)
}
