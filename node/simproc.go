// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/disco-sim/disco/envelope"
)

// Simproc is what a handler holds of its own simproc: the clock, the links to send
// on, its random streams. Its methods may be called from Handle only, those marked
// "wiring time" from NewHandler too. None of them may be called from another
// goroutine. Send, Schedule and the wakeups don't allocate.
//
// An error of any method also ends the run, so that a handler that drops it can't
// hide it.
type Simproc struct {
	// One cache line, which Engine.prefetch asks for. What is rare or follows from the plan is the Engine's.
	handler   Handler
	engine    *Engine
	now       float64
	number    uint64 // of the next event sent
	hash      uint64 // of everything handled so far; 0: nothing yet
	id        SimprocID
	local     uint32 // index among the worker's simprocs
	firstLink uint32 // place of its first declared link in Engine.outLinks
	numLinks  uint32
}

// level is the simproc's in the total order.
func (p *Simproc) level() uint32 { return p.engine.plan.Level(p.id) }

// class is that which the simproc belongs to.
func (p *Simproc) class() int { return p.engine.classAt(p.local) }

// links are the declared ones.
func (p *Simproc) links() []outLink {
	return p.engine.outLinks[p.firstLink : p.firstLink+p.numLinks]
}

// floor is the epoch before which nothing is sent (HardWakeup).
func (p *Simproc) floor() float64 {
	if floors := p.engine.ownFloors; floors != nil {
		return floors[p.local]
	}
	return 0
}

// outLink is one declared link of a simproc.
type outLink struct {
	to        SimprocID
	proc      int32 // local index of the target; below 0: it is on worker ^proc
	lookahead float64
}

// ID is the simproc's dense id.
func (p *Simproc) ID() SimprocID { return p.id }

// Name is "<node>/<simproc>".
func (p *Simproc) Name() string { return p.engine.plan.Name(p.id) }

// NodeIndex is the node's index of the node in the Graph.
func (p *Simproc) NodeIndex() int { return p.engine.plan.Node(p.id) }

// Rank is the simproc's rank among the layers, 0 first.
func (p *Simproc) Rank() int { return p.engine.plan.Endpoint(p.id).Simproc }

// Now is the epoch that is being handled, in simulated seconds; in Report, the time
// up to which this simproc's work is done.
func (p *Simproc) Now() float64 { return p.now }

// Horizon is where the run ends: events at or after it are never handled.
func (p *Simproc) Horizon() float64 { return p.engine.cfg.Horizon }

// Replication is the number of this repetition of the experiment, from 0.
func (p *Simproc) Replication() int { return p.engine.cfg.Replication }

// Woken reports whether a wakeup asked for this call.
func (p *Simproc) Woken() bool { return p.engine.woken }

// Controller is the controller of the simproc's node.
func (p *Simproc) Controller() *NodeController { return p.engine.controllerOf(p.NodeIndex()) }

// Source makes one random stream, seeded from (seed, replication, node's name,
// stream). Asking twice for a name gives two sources with the same numbers, so ask
// once, at wiring time, and keep it.
func (p *Simproc) Source(stream string) rand.Source {
	return newSource(p.engine.cfg.Seed, p.engine.cfg.Replication, p.engine.plan.nodeName(p.NodeIndex()), stream)
}

// Seed is what Source(stream) starts from, for a generator that is a part of the handler
// itself: reaching one through pointers costs as much as the rest of an event where a
// worker has more simprocs than its caches hold.
//
//	var g rand.PCG
//	g.Seed(p.Seed("steps")) // draws what p.Source("steps") draws
func (p *Simproc) Seed(stream string) (high, low uint64) {
	return newSeed(p.engine.cfg.Seed, p.engine.cfg.Replication, p.engine.plan.nodeName(p.NodeIndex()), stream)
}

// SeedOf is Seed in another replication, for models that give two replications one seed (antithetic variates).
func (p *Simproc) SeedOf(stream string, replication int) (high, low uint64) {
	return newSeed(p.engine.cfg.Seed, replication, p.engine.plan.nodeName(p.NodeIndex()), stream)
}

// SharedSource makes one random stream that is the same for all nodes, seeded from
// (seed, replication, stream): for what happens to the whole scenario, which every
// node computes by itself instead of receiving it. Wiring time, as Source.
func (p *Simproc) SharedSource(stream string) rand.Source {
	replication := p.engine.cfg.Replication
	if p.engine.cfg.SharedFirst {
		replication = 0
	}
	return newSource(p.engine.cfg.Seed, replication, nil, stream)
}

// Link finds the declared link to target, "<node>/<simproc>" or "self/<simproc>".
// It looks up strings: wiring time.
func (p *Simproc) Link(target string) (LinkID, error) {
	e, err := p.engine.parse(target, p.NodeIndex())
	if err != nil {
		return -1, fmt.Errorf("node: %s: %w", p.Name(), err)
	}
	return p.LinkTo(e)
}

// LinkTo finds the declared link to e; of several, the one with the least
// lookahead. Wiring time, though it only searches a sorted list.
func (p *Simproc) LinkTo(e Endpoint) (LinkID, error) {
	if checked {
		if err := p.checkGoroutine("LinkTo"); err != nil {
			return -1, err
		}
	}
	g := p.engine.plan
	if !g.valid(e) {
		return -1, fmt.Errorf("node: %s: no endpoint %v, the scenario has %d nodes with %d simprocs", p.Name(), e,
			g.nodes, len(g.layers))
	}
	to := g.ID(e)
	i, ok := slices.BinarySearchFunc(p.links(), to, func(l outLink, to SimprocID) int { return cmp.Compare(l.to, to) })
	for m, mesh := range p.engine.meshes[p.Rank()] {
		if !ok && g.meshes[mesh].To == e.Simproc {
			return LinkID(int(p.numLinks) + m*g.nodes + e.Node), nil
		}
	}
	if !ok {
		return -1, fmt.Errorf("node: no link from %s to %s is declared in the scenario's graph", p.Name(), g.Name(to))
	}
	return LinkID(i), nil
}

// Send sends data over a link; the target handles it at epoch, which must be at
// least Now plus the link's lookahead, and later than Now on a link that has one.
// data is copied before Send returns. When the lane to another worker is full, Send
// waits until there is room.
func (p *Simproc) Send(l LinkID, epoch float64, data []byte) error {
	return p.SendHeaders(l, epoch, nil, data)
}

// SendHeaders is Send with encoded headers (envelope.EncodeHeaders).
func (p *Simproc) SendHeaders(l LinkID, epoch float64, headers, data []byte) error {
	if checked {
		if err := p.checkGoroutine("Send"); err != nil {
			return err
		}
	}
	e := p.engine
	if uint(l) >= uint(p.numLinks) || e.current != p || len(headers) > envelope.HeadersMax ||
		len(data) > envelope.DataMax {
		return p.sendMesh(l, epoch, headers, data)
	}
	k := &e.outLinks[int(p.firstLink)+int(l)]
	if !(epoch >= p.now+k.lookahead && epoch <= math.MaxFloat64) || epoch == p.now && k.lookahead > 0 ||
		e.ownFloors != nil && epoch < p.floor() || e.linkFloors != nil && epoch < p.linkFloor(int(l)) {
		return p.fail(p.badEpoch(k.to, k.lookahead, p.linkFloor(int(l)), epoch))
	}
	return p.emit(k.to, k.proc, epoch, headers, data)
}

// linkFloor is the epoch before which nothing is sent on one of the declared links.
func (p *Simproc) linkFloor(l int) float64 {
	if floors := p.engine.linkFloors; floors != nil {
		return floors[int(p.firstLink)+l]
	}
	return 0
}

// sendMesh sends over a link of a mesh, or says what was wrong with the call.
func (p *Simproc) sendMesh(l LinkID, epoch float64, headers, data []byte) error {
	e := p.engine
	i, nodes := int(l)-int(p.numLinks), e.plan.nodes
	if i < 0 || i >= len(e.meshes[p.Rank()])*nodes || e.current != p || len(headers) > envelope.HeadersMax ||
		len(data) > envelope.DataMax {
		return p.fail(p.badSend(l, headers, data))
	}
	m := &e.plan.meshes[e.meshes[p.Rank()][i/nodes]]
	to := e.plan.ID(Endpoint{i % nodes, m.To})
	if !(epoch >= p.now+m.Lookahead && epoch > p.now && epoch <= math.MaxFloat64) || e.ownFloors != nil &&
		epoch < p.floor() {
		return p.fail(p.badEpoch(to, m.Lookahead, 0, epoch))
	}
	where := e.plan.at(to)
	proc := int32(uint32(where))
	if w := int32(where >> 32); w != int32(e.plan.self) {
		proc = ^w
	}
	return p.emit(to, proc, epoch, headers, data)
}

// emit numbers an event that was found in order and takes it to its target: its local
// index, or below 0, ^ its worker.
func (p *Simproc) emit(to SimprocID, local int32, epoch float64, headers, data []byte) error {
	number := p.number
	p.number++
	e := p.engine
	if epoch >= e.cfg.Horizon {
		e.stats.BeyondHorizon++
		return nil
	}
	if local < 0 {
		return e.sendOut(to, ^local, epoch, number, headers, data)
	}
	e.file(entry{keyOf(epoch), number, route{uint32(local), p.id}, load{ref: e.store.put(headers, data)}})
	return nil
}

func (p *Simproc) badSend(l LinkID, headers, data []byte) error {
	switch {
	case p.engine.current != p:
		return fmt.Errorf("node: %s sent outside its own Handle: only the handler that is being called may send",
			p.Name())
	case len(headers) > envelope.HeadersMax || len(data) > envelope.DataMax:
		return fmt.Errorf("node: %s sent %d bytes of data and %d of headers, at most %d and %d are allowed", p.Name(),
			len(data), len(headers), envelope.DataMax, envelope.HeadersMax)
	}
	return fmt.Errorf("node: %s sent on link %d at epoch %v, but it has links 0 to %d: take the number from Link",
		p.Name(), l, p.now, int(p.numLinks)+len(p.engine.meshes[p.Rank()])*p.engine.plan.nodes-1)
}

func (p *Simproc) badEpoch(target SimprocID, lookahead, floor, epoch float64) error {
	to := p.engine.plan.Name(target)
	switch {
	case !(epoch <= math.MaxFloat64):
		return fmt.Errorf("node: %s sent to %s at epoch %v with target epoch %v, want a finite time", p.Name(), to,
			p.now, epoch)
	case lookahead > 0 && p.now+lookahead == p.now && epoch <= p.now:
		return fmt.Errorf("node: %s sent to %s at epoch %v with target epoch %v, but the link's lookahead is %v, "+
			"which is lost in rounding there: want an epoch after %v", p.Name(), to, p.now, epoch, lookahead, p.now)
	case epoch == p.now && lookahead > 0 || !(epoch >= p.now+lookahead):
		return fmt.Errorf("node: %s sent to %s at epoch %v with target epoch %v, but the link's lookahead is %v: "+
			"want %v or later", p.Name(), to, p.now, epoch, lookahead, p.now+lookahead)
	}
	return fmt.Errorf("node: %s sent to %s at epoch %v with target epoch %v after it promised to send nothing "+
		"before %v", p.Name(), to, p.now, epoch, max(floor, p.floor()))
}

// Schedule sends an event to the simproc itself, without a declared link. epoch
// must be later than Now.
func (p *Simproc) Schedule(epoch float64, data []byte) error {
	if checked {
		if err := p.checkGoroutine("Schedule"); err != nil {
			return err
		}
	}
	if err := p.checkLater(epoch); err != nil {
		return err
	}
	number := p.number
	p.number++
	if epoch >= p.engine.cfg.Horizon {
		p.engine.stats.BeyondHorizon++
		return nil
	}
	p.engine.file(entry{keyOf(epoch), number, route{p.local, p.id}, load{ref: p.engine.store.put(nil, data)}})
	return nil
}

// Wakeup asks for a call at epoch, later than Now, whether or not there are events
// then. Asking twice for an epoch is one call.
func (p *Simproc) Wakeup(epoch float64) error {
	if checked {
		if err := p.checkGoroutine("Wakeup"); err != nil {
			return err
		}
	}
	if err := p.checkLater(epoch); err != nil {
		return err
	}
	if epoch < p.engine.cfg.Horizon {
		p.engine.file(entry{key: keyOf(epoch), route: route{p.local, wakeSender}})
	}
	return nil
}

// HardWakeup is Wakeup with a promise: the simproc sends nothing at all with an
// epoch before it, whatever it is sent meanwhile. Peers may then run on.
func (p *Simproc) HardWakeup(epoch float64) error {
	if err := p.Wakeup(epoch); err != nil {
		return err
	}
	if epoch > p.floor() {
		p.engine.raiseFloor(p, epoch)
		p.engine.floorRaised(p, -1)
	}
	return nil
}

// AdvancePromise promises that nothing will be sent on the link with an epoch
// before the given one. An epoch that is not later than what was promised already
// changes nothing.
func (p *Simproc) AdvancePromise(l LinkID, epoch float64) error {
	if checked {
		if err := p.checkGoroutine("AdvancePromise"); err != nil {
			return err
		}
	}
	if uint(l) >= uint(p.numLinks) || p.engine.current != p {
		return p.fail(p.badSend(l, nil, nil))
	}
	if math.IsNaN(epoch) {
		return p.fail(fmt.Errorf("node: %s promised epoch NaN to %s, want a time or +Inf", p.Name(),
			p.engine.plan.Name(p.links()[l].to)))
	}
	if epoch > p.linkFloor(int(l)) {
		p.engine.raiseLinkFloor(p, int(l), epoch)
		p.engine.floorRaised(p, l)
	}
	return nil
}

func (p *Simproc) checkLater(epoch float64) error {
	if p.engine.current != p {
		return p.fail(fmt.Errorf("node: %s scheduled outside its own Handle: only the handler that is being called "+
			"may schedule", p.Name()))
	}
	if !(epoch > p.now && epoch <= math.MaxFloat64) {
		return p.fail(fmt.Errorf("node: %s scheduled itself at epoch %v for %v, want a finite time later than now",
			p.Name(), p.now, epoch))
	}
	return nil
}

// parse reads "<node>/<simproc>" or "self/<simproc>".
func (e *Engine) parse(target string, self int) (Endpoint, error) {
	i := strings.LastIndexByte(target, '/')
	if i < 0 {
		return Endpoint{}, fmt.Errorf("target %q, want \"<node>/<simproc>\" or \"self/<simproc>\"", target)
	}
	nodeName, layer := target[:i], target[i+1:]
	rank := slices.Index(e.plan.layers, layer)
	if rank < 0 {
		return Endpoint{}, fmt.Errorf("target %q names an unknown simproc %q, the scenario has %s", target, layer,
			strings.Join(e.plan.layers, ", "))
	}
	if nodeName == "self" {
		return Endpoint{self, rank}, nil
	}
	n, ok := e.nodeIndex(nodeName)
	if !ok {
		return Endpoint{}, fmt.Errorf("target %q names an unknown node %q", target, nodeName)
	}
	return Endpoint{n, rank}, nil
}

// localAt is the index of the simproc in a place.
func (e *Engine) localAt(place int) uint32 {
	if e.byID == nil { // nodes may leave memory, and this takes some, too
		return uint32(place)
	}
	return e.byID[place]
}

// classAt is the class of a simproc.
func (e *Engine) classAt(i uint32) int {
	if e.classOf == nil {
		return 0
	}
	return int(e.classOf[i])
}
