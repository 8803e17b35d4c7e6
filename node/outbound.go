package node

import (
	"fmt"
	"math"
	"strings"
)

// OutBound is what this worker can promise a peer right now: nothing that it will
// still send to it is earlier. It may be asked at any time, also from within
// Port.SendEvent, and never falls.
func (e *Engine) OutBound(peer int) Bound {
	b := Never
	if p := e.current; p != nil {
		// What is being handled is no longer pending, but may send more.
		b = e.classes[p.class].plan.out[peer].apply(Bound{p.now, p.level})
	}
	for i := range e.classes {
		c := &e.classes[i]
		b = least(b, c.plan.out[peer].apply(e.key(c)))
	}
	for from := range e.in {
		b = least(b, e.plan.through[from][peer].apply(e.in[from]))
	}
	if f := e.laneFloor(peer); b.Before(Bound{f, 0}) {
		b = Bound{f, 0}
	}
	if b.Epoch >= e.cfg.Horizon {
		return Never
	}
	return b
}

// laneFloor is the least epoch that the models' own promises leave open for the
// links to peer; 0 unless every such link has one.
func (e *Engine) laneFloor(peer int) float64 {
	f := &e.floors[peer]
	if !f.dirty {
		return f.epoch
	}
	*f = laneFloor{epoch: math.Inf(1)}
	for i := range e.procs {
		p := &e.procs[i]
		if p.floor < f.epoch && len(e.meshes[p.Rank()]) > 0 {
			f.epoch, f.by = p.floor, p
		}
		for j := range p.links {
			k := &p.links[j]
			if int(k.peer) != peer || k.proc >= 0 {
				continue
			}
			if floor := max(k.floor, p.floor); floor < f.epoch {
				f.epoch, f.by = floor, p
			}
			if f.epoch == 0 {
				return 0
			}
		}
	}
	return f.epoch
}

// floorRaised marks the lane floors that hung on p.
func (e *Engine) floorRaised(p *Simproc) {
	for peer := range e.floors {
		if e.floors[peer].by == p {
			e.floors[peer].dirty = true
		}
	}
}

// Next is the key of the earliest activation of this worker, whether or not it may
// be done now; Never when nothing is pending before the horizon.
func (e *Engine) Next() Bound {
	b := Never
	for i := range e.classes {
		b = least(b, e.key(&e.classes[i]))
	}
	return b
}

// Blocked tells whether nothing can be done until a peer says more; want of room in
// a lane doesn't count. A worker that has nothing pending is blocked too, until all
// are. While a handler is being called nothing is blocked.
func (e *Engine) Blocked() bool {
	if e.current != nil {
		return false
	}
	for i := range e.classes {
		e.classes[i].skip = !e.ready(&e.classes[i])
	}
	for i := range e.classes {
		if c := &e.classes[i]; !c.skip && !e.heldBySkipped(c, i) {
			return false
		}
	}
	return true
}

// SetCongested tells the Engine that the lane to a peer is short of room, or no
// longer is. Classes that send on it are then passed over while others have work.
func (e *Engine) SetCongested(peer int, short bool) {
	for i := range e.classes {
		c := &e.classes[i]
		if c.plan.outMask[peer/64]&(1<<(peer%64)) != 0 {
			c.congested = short
		}
	}
}

// Limiting is the peer whose bound holds back this worker's earliest class, -1 when
// none does.
func (e *Engine) Limiting() int {
	best, at := Never, -1
	for i := range e.classes {
		c := &e.classes[i]
		if c.set.len() == 0 {
			continue
		}
		for peer := range e.in {
			if b := c.plan.in[peer].apply(e.in[peer]); b.Before(best) {
				best, at = b, peer
			}
		}
	}
	return at
}

// Reached is the epoch before which this worker is done for good.
func (e *Engine) Reached() float64 {
	b := e.Next()
	for peer := range e.in {
		for i := range e.classes {
			b = least(b, e.classes[i].plan.in[peer].apply(e.in[peer]))
		}
	}
	return min(b.Epoch, e.cfg.Horizon)
}

// Stats returns the counts so far.
func (e *Engine) Stats() Stats { return e.stats }

// Pending is the number of events and wakeups that wait on this worker.
func (e *Engine) Pending() int {
	n := 0
	for i := range e.classes {
		n += e.classes[i].set.len()
	}
	return n
}

// Backlog is the number of events that came from other workers and are not handled
// yet, give or take those that were taken in and handled in the same call of Run.
func (e *Engine) Backlog() uint64 { return e.stats.Received - e.stats.HandledRemote }

// Waiting describes, line by line, what each class of simprocs waits for: the text
// of a deadlock report and of a dump of a hung run.
func (e *Engine) Waiting() string {
	var b strings.Builder
	for i := range e.classes {
		c := &e.classes[i]
		en := c.set.first()
		if en == nil {
			fmt.Fprintf(&b, "class %d: nothing pending\n", i)
			continue
		}
		p := &e.procs[en.proc]
		fmt.Fprintf(&b, "class %d: %d pending, the first for %s at %v; safe before %v", i, c.set.len(), p.Name(), e.key(c), c.safe)
		if !e.ready(c) {
			for peer := range e.in {
				if hop := c.plan.in[peer]; hop.kind != hopNone && !e.key(c).Before(hop.apply(e.in[peer])) {
					fmt.Fprintf(&b, "; waits for worker %d, which promised %v", peer, e.in[peer])
				}
			}
			for j := range e.procs {
				if q := &e.procs[j]; q.preds != nil && q.preds.bound() <= c.safe.Epoch {
					fmt.Fprintf(&b, "; %s waits for %v", q.Name(), q.preds.waiting())
				}
			}
		}
		if c.congested {
			b.WriteString("; waits for room in a lane")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Report asks every handler that has results for them. reached is the simulated
// time that the whole run came to: the horizon, or less when it was interrupted.
func (e *Engine) Report(reached float64) (map[uint32][]byte, error) {
	parts := make(map[uint32][]byte)
	for _, i := range e.byID {
		p := &e.procs[i]
		r, ok := p.handler.(Reporter)
		if !ok {
			continue
		}
		p.now = max(p.now, reached)
		part, err := r.Report(p)
		if err != nil {
			return nil, fmt.Errorf("node: results of %s: %w", p.Name(), err)
		}
		parts[uint32(p.id)] = part
	}
	return parts, nil
}
