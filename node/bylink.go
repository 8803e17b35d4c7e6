// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/disco-sim/disco/envelope"
)

// byLink is what an Engine keeps where workers promise link by link. All slices by place
// are in the order of linkPlan.
//
// Two lower bounds are kept for every simproc here. safe is on what events that have not
// come yet can still cause at it: from the promises of all predecessors on other workers,
// over the links within this worker. reach is on any activation of it: from the same
// promises, from everything pending here, and from the activation under way. What is safe
// says what may be handled; reach and a link's lookahead are what is promised on the link.
type byLink struct {
	plan    *linkPlan
	safe    []mark
	holds   []int32 // by place: the place whose EventQueue safe comes from
	reach   []mark
	todo    tournament
	scratch []int32 // origins of reach, which nobody asks for

	floors bool // some model has promised something itself
	moved  bool // something has changed since reach was computed

	order  []tournament // by class: the first epochs of its simprocs' queues
	procs  [][]uint32   // by class and leaf of order: the simproc
	leaf   []int32      // by simproc
	queues []EventQueue // by simproc
	place  []int32      // by simproc

	channels [][]channel  // by place, by rising id of the target
	out      []outChannel // by peer

	promise envelope.Promise // what the Port gets
}

// channel is the way from one simproc here to one on another worker.
type channel struct {
	*crossing
	from     uint32 // the simproc here
	sent     uint64
	seqnr    uint64 // of the last promise
	promised mark   // what it promised
}

// outChannel is all channels to one peer. next is where the next promises begin, because
// there may not be room for all of them at once; whole: no channel has more to promise.
type outChannel struct {
	channels []*channel
	next     int
	whole    bool
}

func newByLink(e *Engine) *byLink {
	l := e.plan.links
	places, n := l.edges.len(), len(l.out)
	b := &byLink{
		plan: l, safe: make([]mark, places), holds: make([]int32, places), reach: make([]mark,
			places), scratch: make([]int32, places),
		todo: newTournament(places, math.MaxUint64), moved: true,
		leaf: make([]int32, n), place: make([]int32, n), queues: make([]EventQueue, n),
		order: make([]tournament, len(e.classes)), procs: make([][]uint32, len(e.classes)),
		channels: make([][]channel, n), out: make([]outChannel, e.plan.workers),
	}
	for i := range e.plan.NumHosted() {
		c := e.classAt(uint32(i))
		b.leaf[i] = int32(len(b.procs[c]))
		b.procs[c] = append(b.procs[c], uint32(i))
	}
	for c := range b.order {
		b.order[c] = newTournament(len(b.procs[c]), keyNever)
	}
	for place, i := range e.byID {
		b.place[i] = int32(place)
		b.queues[i].init(e.nameAt(i), e.levelAt(i), e.senders(l.in[place]))
		b.channels[place] = make([]channel, len(l.out[place]))
		for j := range l.out[place] {
			b.channels[place][j] = channel{crossing: &l.out[place][j], from: i}
		}
	}
	for peer, links := range l.byOut {
		for _, k := range links {
			b.out[peer].channels = append(b.out[peer].channels, &b.channels[k.place][k.index])
		}
	}
	return b
}

func (e *Engine) senders(in []crossing) []sender {
	all := make([]sender, len(in))
	for i, c := range in {
		all[i] = sender{id: c.far, name: e.plan.Name(c.far), peer: c.peer, lookahead: c.lookahead}
	}
	return all
}

// file puts an entry into its target's EventQueue.
func (b *byLink) file(c int, en entry) {
	b.queues[en.proc].set.insert(en)
	if leaf := int(b.leaf[en.proc]); en.key < b.order[c].leaves()[leaf] {
		b.order[c].set(leaf, en.key)
	}
	b.change()
}

// follow takes the head of class c from its simprocs' queues after p was called.
func (b *byLink) follow(c int, p *Simproc, h *head) {
	t := b.order[c]
	t.set(int(b.leaf[p.local]), b.queues[p.local].first())
	if h.key = t.least(); h.key != keyNever {
		h.proc = b.procs[c][t.first()]
	}
	b.change()
}

// change notes that reach has to be computed again.
func (b *byLink) change() {
	b.moved = true
}

// settleByLink computes what is safe from the promises that have come.
func (e *Engine) settleByLink() {
	b := e.byLink
	for i := range b.safe {
		b.safe[i], b.holds[i] = markNever, int32(i)
	}
	for place, i := range e.byID {
		b.safe[place] = b.queues[i].least()
	}
	b.plan.spread(b.safe, b.holds, b.todo)
	for c := range e.classes {
		e.classes[c].safe = Never
	}
	for place, i := range e.byID {
		c := &e.classes[e.classAt(i)]
		if s := b.safe[place].bound(e.levelAt(i)); s.Before(c.safe) {
			c.safe, c.holder = s, b.holds[place]
		}
	}
	b.change()
}

// holder is the local index of the simproc whose predecessors hold back class c the most, and the queue's
// first such predecessor; nil: nobody holds it.
func (e *Engine) holder(c *class) (uint32, *sender) {
	if c.safe == Never {
		return 0, nil
	}
	i := e.byID[c.holder]
	q := &e.byLink.queues[i]
	return i, &q.senders[q.bounds.first()]
}

// computeReach computes reach from what is safe, pending and under way.
func (e *Engine) computeReach() {
	b := e.byLink
	copy(b.reach, b.safe)
	for place, i := range e.byID {
		b.reach[place] = min(b.reach[place], b.queues[i].earliest(e.cfg.Horizon))
	}
	if p := e.current; p != nil {
		b.reach[b.place[p.local]] = min(b.reach[b.place[p.local]], markOf(p.now))
	}
	b.plan.spread(b.reach, b.scratch, b.todo)
	b.moved = false
	for peer := range b.out {
		b.out[peer].whole = false
	}
}

// promises is what a channel can promise now.
func (e *Engine) promises(ch *channel) mark {
	m := e.byLink.reach[e.byLink.place[ch.from]].over(ch.lookahead)
	if e.byLink.floors {
		m = max(m, e.floorTo(ch.from, ch.crossing))
	}
	if m.epoch() >= e.cfg.Horizon {
		return markNever
	}
	return m
}

// floorTo is what the model has promised for all links of one simproc to another.
func (e *Engine) floorTo(from uint32, c *crossing) mark {
	own := 0.0
	if e.ownFloors != nil {
		own = e.ownFloors[from]
	}
	if c.mesh {
		return markOf(own)
	}
	floor, links := math.Inf(1), e.linksAt(from)
	i, _ := slices.BinarySearchFunc(links, c.far, func(l outLink, to SimprocID) int { return cmp.Compare(l.to, to) })
	for ; i < len(links) && links[i].to == c.far; i++ {
		promised := 0.0
		if e.linkFloors != nil {
			promised = e.linkFloors[e.firstLinkAt(from)+uint32(i)]
		}
		floor = min(floor, promised)
	}
	return markOf(max(floor, own))
}

// SendPromises sends a peer the promises of all links to it that say more than the last
// ones, but no more than limit of them: the others come with the next call. It returns how
// many were sent. It may be called at any time, also from within Port.SendEvent, but not
// while that waits for room for an event to the same peer.
//
// Precondition: Plan.PromiseByLink.
func (e *Engine) SendPromises(peer, limit int) (n int, err error) {
	b := e.byLink
	e.takePromises()
	if b.moved {
		e.computeReach()
	}
	out := &b.out[peer]
	for range out.channels {
		if out.whole || n == limit {
			return n, nil
		}
		ch := out.channels[out.next]
		if out.next++; out.next == len(out.channels) {
			out.next = 0
		}
		if m := e.promises(ch); m > ch.promised {
			if err := e.controllerOf(e.plan.Node(e.idAt(ch.from))).sendPromise(ch, m); err != nil {
				return n, err
			}
			n++
		}
	}
	out.whole = true
	return n, nil
}

// sendPromise sends a promise of one of the node's simprocs.
func (c *NodeController) sendPromise(ch *channel, m mark) error {
	e := c.engine
	says := m.bound(e.plan.Level(ch.far))
	ch.promised, ch.seqnr = m, ch.seqnr+1
	p := &e.byLink.promise
	*p = envelope.Promise{Epoch: says.Epoch, Level: says.Level, Seqnr: ch.seqnr, NumEvents: ch.sent,
		Target: uint32(ch.far), Sender: uint32(e.idAt(ch.from))}
	if err := e.cfg.Port.SendPromise(ch.peer, p); err != nil {
		return e.fail(fmt.Errorf("node: promise of %s to %s: %w", e.nameAt(ch.from), e.plan.Name(ch.far), err))
	}
	return nil
}

// sentTo counts an event of p to a simproc on another worker.
func (b *byLink) sentTo(p *Simproc, to SimprocID) {
	all := b.channels[b.place[p.local]]
	i, ok := slices.BinarySearchFunc(all, to, func(c channel, to SimprocID) int { return cmp.Compare(c.far, to) })
	if !ok {
		panic(fmt.Sprintf("node: %s has sent to simproc %d, to which no link is declared", p.Name(), to))
	}
	all[i].sent++
}
