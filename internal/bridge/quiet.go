// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"slices"
	"sync"

	"github.com/disco-sim/disco/internal/idle"
	"github.com/disco-sim/disco/internal/session"
	"github.com/disco-sim/disco/shm"
)

// Worker is one of this machine's.
type Worker struct {
	Slot []byte // of package idle, on its board
	Bell *shm.Doorbell
}

// detector finds, with those of the other machines, the idle moments of the run: docs/bridge.md, section 4. The pump
// for the first other machine looks; the run's lowest machine leads.
type detector struct {
	workers []Worker
	count   *idle.Counts
	rank    int   // of this machine among all of the set, whose counts are in that order
	looks   *peer // whose pump looks
	leads   *peer // machine of the leader; nil: this one

	mu     sync.Mutex // of all below; taken behind all locks of a peer
	site   *idle.Site
	leader *idle.Leader // nil: another machine leads
	quiet  idle.Quiet   // the newest of this machine
	known  bool         // there is one
	jump   idle.Jump    // the newest one that this machine has announced; round 0: none
	parsed idle.Quiet   // of the frame being applied
}

// openDetector makes the detector of a run over several machines.
func (b *Bridge) openDetector() (err error) {
	if b.cfg.Workers == nil {
		return nil
	}
	machines := len(b.peers) + 1
	d := &detector{workers: b.cfg.Workers, count: idle.NewCounts(machines)}
	lowest := b.cfg.Machine
	for _, p := range b.peers {
		for _, other := range b.peers {
			if other.machine < p.machine {
				p.rank++
			}
		}
		if p.machine < b.cfg.Machine {
			d.rank++
		} else {
			p.rank++
		}
		if d.looks == nil || p.machine < d.looks.machine {
			d.looks = p
		}
		if p.machine < lowest {
			lowest, d.leads = p.machine, p
		}
	}
	if d.looks == nil {
		return nil // there is no other machine
	}
	if d.leads == nil {
		d.leader = idle.NewLeader(machines)
	}
	for _, q := range []*idle.Quiet{&d.quiet, &d.parsed} {
		q.In, q.Out = make([]uint64, machines), make([]uint64, machines)
	}
	var slots [][]byte
	for _, w := range d.workers {
		slots = append(slots, w.Slot)
	}
	d.site, err = idle.NewSite(b.cfg.Jump, b.cfg.First, slots, d.count)
	b.detector = d
	return err
}

// counted follows the change of a count: who looks is to do so if it may have been what was missing.
func (d *detector) counted() {
	// SYNC POINT far-still: the count was changed, by a full fence, before the turns are loaded. A worker that posts
	// stores its turn before it rings whoever looks.
	if d.site.Still() {
		d.looks.bell.Ring()
	}
}

// came counts events that are about to be put into rings, and sent those that were put into a frame.
func (d *detector) came(rank int, events uint32) {
	if d != nil && events > 0 {
		d.count.Came(rank, uint64(events))
		d.counted()
	}
}

func (d *detector) sent(rank int, events uint32) {
	if d != nil && events > 0 {
		d.count.Sent(rank, uint64(events))
		d.counted()
	}
}

// look looks whether this machine stands still, if it is this peer's pump that does so, and passes on what is new.
func (d *detector) look(p *peer) (work bool, err error) {
	// SYNC POINT far-still: loaded behind the arming of the doorbell.
	if d == nil || d.looks != p || !d.site.Still() {
		return false, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	q, ok, err := d.site.Look()
	if err != nil {
		return false, fmt.Errorf("bridge: %w", err)
	}
	if !ok || d.known && same(&q, &d.quiet) {
		return false, nil
	}
	d.quiet.Round, d.quiet.Epoch, d.quiet.Level, d.known = q.Round, q.Epoch, q.Level, true
	copy(d.quiet.In, q.In)
	copy(d.quiet.Out, q.Out)
	if d.leads != nil {
		d.leads.quietDue.Store(true)
		d.leads.bell.Ring()
		return true, nil
	}
	return true, d.take(d.rank, &q, p.b)
}

func same(a, b *idle.Quiet) bool {
	return a.Round == b.Round && a.Epoch == b.Epoch && a.Level == b.Level && slices.Equal(a.In, b.In) &&
		slices.Equal(a.Out, b.Out)
}

// take is the leader's: a machine stands still. mu is held.
func (d *detector) take(rank int, q *idle.Quiet, b *Bridge) error {
	j, ok, err := d.leader.Take(rank, *q)
	if err != nil || !ok {
		return err
	}
	d.jump = j
	for _, p := range b.peers {
		p.jumpDue.Store(true)
		p.bell.Ring()
	}
	return d.leap(j)
}

// leap stores a jump for the workers here, and wakes them. mu is held.
func (d *detector) leap(j idle.Jump) error {
	fresh, err := d.site.Jump(j)
	if fresh {
		for _, w := range d.workers {
			// SYNC POINT idle-jump: stored, with a full fence, before the doorbells are rung.
			w.Bell.Ring()
		}
	}
	return err
}

// send adds the state frames that are due to a peer, or all that there are where a connection has come up.
func (d *detector) send(p *peer, again bool) (work bool) {
	if d == nil || !again && !p.quietDue.Load() && !p.jumpDue.Load() {
		return false
	}
	if b := d.body(&d.quiet, p.quietDue.Swap(false) || again && d.leads == p, p.scratch[:0]); len(b) > 0 {
		p.state(session.Quiet, b)
		work = true
	}
	if b := d.body(&d.jump, p.jumpDue.Swap(false) || again, p.scratch[:0]); len(b) > 0 {
		p.state(session.Jump, b)
		work = true
	}
	return work
}

// appender is a Quiet or a Jump.
type appender interface{ Append([]byte) []byte }

// body appends the newest quiet or jump, if it is due and there is one. Sending it may take a while, so it isn't done
// with mu held.
func (d *detector) body(of appender, due bool, b []byte) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if due && (of == appender(&d.quiet) && d.known || of == appender(&d.jump) && d.jump.Round > 0) {
		b = of.Append(b)
	}
	return b
}

// state adds a state frame, whose body lies in scratch.
func (p *peer) state(t session.Type, body []byte) {
	p.scratch = body
	copy(p.express.State(p.header(t, 0), len(body)), body)
}

// apply takes a quiet or a jump frame.
func (d *detector) apply(p *peer, t session.Type, body []byte) error {
	if d == nil || t == session.Quiet && d.leader == nil || t == session.Jump && d.leads != p {
		return badHead(offsetType, fmt.Sprint("type ", uint8(t)), "quiet to the leader only, jump from it only")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var err error
	if t == session.Quiet {
		if err = d.parsed.Parse(body); err == nil {
			err = d.take(p.rank, &d.parsed, p.b)
		}
	} else {
		var j idle.Jump
		if j, err = idle.ParseJump(body); err == nil {
			err = d.leap(j)
		}
	}
	if err != nil {
		return bad(0, err, "what another build of this run would have sent")
	}
	return nil
}

// reset follows lanes that begin anew. No frame of them has come, and nothing is taken from lanes.
func (d *detector) reset() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count.Reset()
}
