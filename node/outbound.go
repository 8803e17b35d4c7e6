// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"slices"
	"strings"
)

// OutBound is what this worker can promise a peer right now: nothing that it will
// still send to it is earlier. It may be asked at any time, also from within
// Port.SendEvent, and never falls.
func (e *Engine) OutBound(peer int) Bound {
	b := Never
	if p := e.current; p != nil {
		// What is being handled is no longer pending, but may send more.
		b = e.classes[p.class()].plan.out[peer].apply(Bound{p.now, p.level()})
	}
	for i := range e.classes {
		b = least(b, e.classes[i].plan.out[peer].apply(e.key(i)))
	}
	b = least(b, e.passedOn(peer))
	if f := e.laneFloor(peer); b.Before(Bound{f, 0}) {
		b = Bound{f, 0}
	}
	if b.Epoch >= e.cfg.Horizon {
		return Never
	}
	return b
}

// passedOn is what follows for a peer from what all peers have promised.
func (e *Engine) passedOn(peer int) Bound {
	passed := Never
	for _, low := range e.lowestIn() {
		if k := e.plan.through[low.peer][peer].apply(low.bound); k.Before(passed) {
			passed, e.holds[peer] = k, low.peer
		}
	}
	return passed
}

// lowestIn is the least bound of peers that are alike, for each sort of them: with many workers that all send to each
// other there is one sort, and what can be promised to one of them doesn't take a look at all others.
func (e *Engine) lowestIn() []inBound {
	if !e.unread {
		return e.lowest
	}
	e.unread = false
	for i, peers := range e.plan.alike {
		low := inBound{e.in[peers[0]], peers[0]}
		for _, peer := range peers[1:] {
			if e.in[peer].Before(low.bound) {
				low = inBound{e.in[peer], peer}
			}
		}
		e.lowest[i] = low
	}
	return e.lowest
}

// PromiseBeyond is OutBound where that is later than said, which the peer has been promised
// before; ok tells whether it is. It is for who asks for many peers again and again: mostly
// one of them holds back what can be promised to all others, and a look at that one is enough.
func (e *Engine) PromiseBeyond(peer int, said Bound) (b Bound, ok bool) {
	from := e.holds[peer]
	if e.floors[peer] == nil && !said.Before(e.plan.through[from][peer].apply(e.in[from])) {
		return said, false
	}
	b = e.OutBound(peer)
	return b, said.Before(b)
}

// Next is the key of the earliest activation of this worker, whether or not it may
// be done now; Never when nothing is pending before the horizon and the end of the leg (SetUntil).
func (e *Engine) Next() Bound {
	b := Never
	for i := range e.classes {
		b = least(b, e.key(i))
	}
	if b.Epoch >= e.until {
		return Never
	}
	return b
}

// FirstReady is the key of the earliest activation of this worker, the one under way included, that no promise holds
// back; Never when there is none. While the worker waits for room in a lane it is what waits.
func (e *Engine) FirstReady() Bound {
	b := Never
	for i := range e.heads {
		if e.ready(&e.heads[i]) {
			b = least(b, e.key(i))
		}
	}
	return b
}

// InBound is what a peer has promised for everything that it will still send, as far as it is known here.
func (e *Engine) InBound(peer int) Bound { return e.in[peer] }

// Blocked reports whether nothing can be done until a peer says more; want of room in
// a lane doesn't count. A worker that has nothing pending is blocked too, until all
// are. While a handler is being called nothing is blocked.
func (e *Engine) Blocked() bool {
	if e.current != nil {
		return false
	}
	e.takePromises()
	for i := range e.heads {
		e.heads[i].skip = !e.ready(&e.heads[i])
	}
	return e.passOver() < 0
}

// Ready reports whether the next call of Run will handle something.
func (e *Engine) Ready() bool {
	e.takePromises()
	return e.err == nil && e.pick() >= 0
}

// SetCongested records that the lane to a peer is short of room, or no
// longer is. Classes that send on it are then passed over while others have work.
func (e *Engine) SetCongested(peer int, short bool) {
	word, bit := peer/64, uint64(1)<<(peer%64)
	if short == (e.short[word]&bit != 0) {
		return
	}
	e.short[word] ^= bit
	for i := range e.heads {
		h := &e.heads[i]
		h.congested = false
		for w, mask := range e.classes[i].plan.outMask {
			h.congested = h.congested || mask&e.short[w] != 0
		}
	}
}

// Limiting is the peer whose promises hold back this worker's earliest class, -1 when
// none does.
func (e *Engine) Limiting() int {
	e.takePromises()
	best, at := Never, -1
	for i := range e.classes {
		c := &e.classes[i]
		if e.heads[i].key == keyNever {
			continue
		}
		if e.byLink != nil {
			if _, s := e.holder(c); s != nil && c.safe.Before(best) {
				best, at = c.safe, s.peer
			}
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

// Reached is the epoch before which this worker is done for good, at most the end of the leg.
func (e *Engine) Reached() float64 {
	e.takePromises()
	b := e.Next()
	for i := range e.classes {
		b = least(b, e.classes[i].safe)
	}
	return min(b.Epoch, e.cfg.Horizon, e.until)
}

// Stats returns the counts so far.
func (e *Engine) Stats() Stats { return e.stats }

// Pending is the number of events and wakeups that wait on this worker.
func (e *Engine) Pending() int {
	n := 0
	for i := range e.classes {
		n += e.pendingIn(i)
	}
	return n
}

// pendingIn is how much waits for the simprocs of a class.
func (e *Engine) pendingIn(class int) int {
	if e.byLink == nil {
		return e.classes[class].set.len()
	}
	n := 0
	for _, i := range e.byLink.procs[class] {
		n += e.byLink.queues[i].Len()
	}
	return n
}

// Backlog is the number of events that came from other workers and are not handled
// yet, give or take those that were taken in and handled in the same call of Run.
func (e *Engine) Backlog() uint64 { return e.stats.Received - e.stats.HandledRemote }

// BacklogBytes is the headers and data of these events, in bytes.
func (e *Engine) BacklogBytes() int64 { return e.backlogBytes }

// Waiting describes, line by line, what each class of simprocs waits for: the text
// of a deadlock report and of a dump of a hung run.
func (e *Engine) Waiting() string {
	e.takePromises()
	var b strings.Builder
	for i := range e.classes {
		n := e.pendingIn(i)
		if n == 0 {
			fmt.Fprintf(&b, "class %d: nothing pending\n", i)
			continue
		}
		c, h := &e.classes[i], &e.heads[i]
		fmt.Fprintf(&b, "class %d: %d pending, the first for %s at %v; safe before %v", i, n, e.nameAt(h.proc),
			e.key(i), c.safe)
		if !e.ready(h) {
			e.describeHold(&b, i)
		}
		if at := e.key(i).Epoch; at >= e.until && e.until < e.cfg.Horizon {
			fmt.Fprintf(&b, "; the leg ends at %v", e.until)
		} else if at >= e.window {
			fmt.Fprintf(&b, "; it is ahead of the others, and handles nothing at %v or later", e.window)
		}
		if h.congested {
			b.WriteString("; waits for room in a lane")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// describeHold says whose promises hold back class i.
func (e *Engine) describeHold(b *strings.Builder, i int) {
	c := &e.classes[i]
	if e.byLink != nil {
		if i, s := e.holder(c); s != nil {
			w, _ := e.byLink.queues[i].WaitingFor()
			fmt.Fprintf(b, "; %s waits for %v, on worker %d", e.nameAt(i), w, s.peer)
		}
		return
	}
	for peer := range e.in {
		if shift := c.plan.in[peer]; shift.kind != shiftNone && !e.key(i).Before(shift.apply(e.in[peer])) {
			fmt.Fprintf(b, "; waits for worker %d, which promised %v", peer, e.in[peer])
		}
	}
}

// Report is what one simproc reports.
type Report struct {
	Simproc SimprocID
	Data    []byte
}

// Report lists what EachReport yields, without the simprocs that have no results.
func (e *Engine) Report(reached float64) ([]Report, error) {
	parts := make([]Report, 0, e.plan.NumHosted())
	err := e.EachReport(reached, func(id SimprocID, _ uint64, report []byte) error {
		if report != nil {
			parts = append(parts, Report{id, slices.Clone(report)})
		}
		return nil
	})
	return parts, err
}

// EachReport asks every handler that has results for them, in the order of the simprocs' ids, and yields them with the
// simproc's trace hash. reached is the simulated time that the whole run came to: the horizon, or less when it was
// interrupted. The report is nil where the handler isn't a Reporter, and its memory ends with yield. An error of yield
// ends it.
func (e *Engine) EachReport(reached float64, yield func(id SimprocID, hash uint64, report []byte) error) error {
	if e.passive != nil {
		for place := range e.passive.where {
			err := e.visit(uint32(place), func(procs []Simproc) error {
				for r := range procs {
					if err := e.reportOf(&procs[r], reached, yield); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	for n := 0; e.passive == nil && n < len(e.byID); n++ {
		e.prefetchReport(n)
		if err := e.reportOf(e.at(e.byID[n]), reached, yield); err != nil {
			return err
		}
	}
	if checked {
		e.checkForeign(nil)
		return e.err
	}
	return nil
}

// reportOf is EachReport for one simproc.
func (e *Engine) reportOf(p *Simproc, reached float64,
	yield func(id SimprocID, hash uint64, report []byte) error) error {
	var report []byte
	if r, ok := p.handler.(Reporter); ok {
		p.now = max(p.now, reached)
		var err error
		if report, err = e.report(p, r); err != nil {
			return err
		}
	}
	return yield(p.id, p.hash, report)
}

func (e *Engine) report(p *Simproc, r Reporter) (part []byte, err error) {
	defer e.rescueFrom(p, "reporting its results", &err)
	if part, err = r.Report(p); err != nil {
		return nil, &modelError{fmt.Sprintf("node: results of %s: %v", p.Name(), err), err}
	}
	if checked {
		part = slices.Clone(part) // here, where kept memory is explained
	}
	return part, nil
}
