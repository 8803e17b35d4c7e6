// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/ingress"
	"github.com/disco-sim/disco/internal/idle"
	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/router"
	"github.com/disco-sim/disco/shm"
)

// simMachine is one machine of a simulated run over several: its segments, and a bridge that carries what its workers
// send through channels with delays. The bridge is a substitute, but for idle.Site, idle.Leader and the mirrors: what
// it takes from a lane it puts into the lane there as events, not as bytes.
type simMachine struct {
	s       *simRun
	self    int
	local   []int // workers
	site    *idle.Site
	count   *idle.Counts
	lead    *idle.Leader // of machine 0
	got     idle.Quiet   // memory for what that gets
	pumps   []*simPump   // by machine, nil for itself
	looks   *simPump     // the one that looks for idle moments
	views   []*View      // of the workers here
	mirrors map[int]*Mirror
	jumps   []idle.Jump // that have come
	quiet   string      // the body of the newest quiet frame
	going   bool        // between go and the next prepare
	round   int         // times that lanes have begun anew
}

// simPump is what a bridge has for one other machine: a task of the schedule.
type simPump struct {
	m              *simMachine
	to             int
	bell           *shm.Doorbell
	waiter         *simWaiter
	ins            []*simTaken
	outs           []*simGiven
	sent           []Shown   // of the workers here
	shown          [][]Shown // that have come, of those there
	frames, states time.Duration
	round          int // the same, of its own
	err            error
}

// simRecord is what came over a lane: one of these, or its end.
type simRecord struct {
	event   *envelope.Event
	promise *envelope.Promise
	bound   *envelope.Promise
}

// simTaken is the lane from a worker here to one there.
type simTaken struct {
	p      *simPump
	lane   [2]int // from, to
	in     *ingress.Ingress
	got    []simRecord
	events int
	under  int // records that aren't in the ring there yet
	ended  bool
}

// simGiven is the lane from a worker there to one here.
type simGiven struct {
	p     *simPump
	lane  [2]int
	out   *egress.Egress
	queue []simRecord
	busy  bool // within Send
}

// newSimMachines makes the machines of a run, and all workers' segments.
func newSimMachines(s *simRun) ([]Segments, error) {
	d := s.simDraw
	all, err := simSegments(d.workers, d.tuning)
	if err != nil || d.machines == 1 {
		return all, err
	}
	home := d.homes()
	for self := range d.machines {
		// Another set of all segments: of it are mirrors, pools and lanes of what is on other machines.
		own, err := simSegments(d.workers, d.tuning)
		if err != nil {
			return nil, err
		}
		m := &simMachine{s: s, self: self, mirrors: map[int]*Mirror{}}
		for w, at := range home {
			if int(at) == self {
				m.local = append(m.local, w)
			}
		}
		for _, w := range m.local {
			segs := Segments{Boards: slices.Clone(own[w].Boards), Pools: slices.Clone(own[w].Pools),
				Out: all[w].Out, In: slices.Clone(own[w].In)}
			for _, v := range m.local {
				segs.Boards[v], segs.Pools[v], segs.In[v] = all[w].Boards[v], all[w].Pools[v], all[w].In[v]
			}
			all[w] = segs
		}
		s.machines = append(s.machines, m)
	}
	return all, nil
}

// homes is the machine of each worker.
func (d *simDraw) homes() []int32 {
	home := make([]int32, d.workers)
	for w := range home {
		home[w] = int32(w * d.machines / d.workers)
	}
	return home
}

// open opens the bridge's ends, once the workers have theirs.
func (m *simMachine) open(all []Segments) error {
	var slots [][]byte
	for _, w := range m.local {
		slots = append(slots, slot(all[w].Boards[w]))
		v, err := OpenView(all[w].Boards[w])
		if err != nil {
			return err
		}
		m.views = append(m.views, v)
	}
	machines := len(m.s.machines)
	m.count = idle.NewCounts(machines)
	var err error
	jump := slot(all[m.local[0]].Boards[m.s.workers[m.local[0]].setup.elsewhere()])
	if m.site, err = idle.NewSite(jump, m.local[0], slots, m.count); err != nil {
		return err
	}
	if m.self == 0 {
		m.lead = idle.NewLeader(machines)
		m.got = idle.Quiet{In: make([]uint64, machines), Out: make([]uint64, machines)}
	}
	for to := range machines {
		m.pumps = append(m.pumps, nil)
		if to == m.self {
			continue
		}
		if m.pumps[to], err = m.newPump(to, all); err != nil {
			return err
		}
		if m.looks == nil {
			m.looks = m.pumps[to]
		}
	}
	return nil
}

func (m *simMachine) newPump(to int, all []Segments) (*simPump, error) {
	p := &simPump{m: m, to: to}
	var err error
	if p.bell, err = shm.OpenDoorbell(bell(all[m.local[0]].Boards[m.s.machines[to].local[0]])); err != nil {
		return nil, err
	}
	d := m.s.simDraw
	p.waiter = &simWaiter{s: m.s.schedule, bell: p.bell, spins: m.s.rnd.IntN(4), park: d.park, lost: d.lost,
		late: d.late}
	sizes, err := poolSizes(d.tuning)
	if err != nil {
		return nil, err
	}
	for _, there := range m.s.machines[to].local {
		mirror := all[m.local[0]].Boards[there]
		if m.mirrors[there], err = OpenMirror(mirror); err != nil {
			return nil, err
		}
		pool, err := shm.NewGrowingPool(all[m.local[0]].Pools[there].Body(), all[m.local[0]].Pools[there].Take)
		if err != nil {
			return nil, err
		}
		for _, here := range m.local {
			w := m.s.workers[here]
			if w.setup.sends(w.plan, there) {
				l := &simTaken{p: p, lane: [2]int{here, there}}
				l.in, err = ingress.New(ingress.Config{RecordsMax: d.window, Lanes: []ingress.Source{{Peer: here,
					Lane: all[here].Out[there].Body(), Pool: all[here].Pools[here].Body(), PoolSizes: sizes,
					Parts: true, Bell: w.cycle.lanes.cycles[here]}}})
				p.ins = append(p.ins, l)
			}
			if err == nil && w.setup.receives(w.plan, there) {
				o := &simGiven{p: p, lane: [2]int{there, here}}
				o.out, err = egress.New(egress.Config{Peer: here, Lane: all[here].In[there].Body(), Pool: pool,
					Bell: w.cycle.lanes.bell, InlineMax: d.tuning.InlineMax, Parts: true, Wait: p.wait})
				p.outs = append(p.outs, o)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	m.s.add(fmt.Sprintf("pump of machine %d for %d", m.self, to), []int{10, 10, 1, 100}[m.s.rnd.IntN(4)], p.run)
	return p, nil
}

func (p *simPump) run() {
	for p.err == nil {
		if p.round != p.m.round {
			p.reset()
		}
		p.waiter.Idle(p.turn())
	}
}

// wait is called while there is no room for an event: all other lanes go on.
func (p *simPump) wait() error {
	p.waiter.Idle(p.turn())
	return p.err
}

// turn does what there is to do, and tells whether that was anything that somebody has rung for.
func (p *simPump) turn() (work bool) {
	if !p.m.going {
		return false
	}
	for _, l := range p.ins {
		work = l.take() || work
	}
	for _, o := range p.outs {
		work = o.give() || work
	}
	for len(p.shown) > 0 {
		all := p.shown[0]
		p.shown = p.shown[1:]
		work = true
		for i, w := range p.m.s.machines[p.to].local {
			p.m.mirrors[w].Show(all[i], p.m.views, p.m.ring)
		}
	}
	if p == p.m.looks {
		work = p.look() || work
	}
	if !work {
		p.show()
	}
	return work
}

// ring wakes a worker of this machine.
func (m *simMachine) ring(i int) {
	l := m.s.workers[m.local[i]].cycle.lanes
	l.bell.Ring()
	l.cycles[m.local[i]].Ring()
}

// look stores the jumps that have come, and looks whether the machine stands still.
func (p *simPump) look() (work bool) {
	m := p.m
	for len(m.jumps) > 0 {
		j := m.jumps[0]
		m.jumps = m.jumps[1:]
		work = true
		next, err := m.site.Jump(j)
		p.fail(err)
		for i := range m.local {
			if next {
				m.ring(i)
			}
		}
	}
	q, ok, err := m.site.Look()
	p.fail(err)
	if body := string(q.Append(nil)); ok && body != m.quiet {
		m.quiet = body
		m.s.quiets++
		if m.self == 0 {
			m.leads(0, body)
			return true
		}
		m.pumps[0].state(func(lead *simPump) { lead.m.leads(m.self, body) })
	}
	return work
}

// leads gives the leader what a machine was, and announces the jump.
func (m *simMachine) leads(from int, body string) {
	err := m.got.Parse([]byte(body))
	m.looks.fail(err)
	j, ok, err := m.lead.Take(from, m.got)
	m.looks.fail(err)
	if !ok {
		return
	}
	body = string(j.Append(nil))
	for to, p := range m.pumps {
		if to == m.self {
			m.jumps = append(m.jumps, j)
			m.looks.bell.Ring()
			continue
		}
		p.state(func(there *simPump) {
			j, err := idle.ParseJump([]byte(body))
			there.fail(err)
			there.m.jumps = append(there.m.jumps, j)
			there.m.looks.bell.Ring()
		})
	}
}

// show sends what the workers here show, where that has changed.
func (p *simPump) show() {
	var now []Shown
	for _, v := range p.m.views {
		now = append(now, v.Shown())
	}
	if slices.Equal(now, p.sent) {
		return
	}
	p.sent = now
	round := p.round
	p.state(func(there *simPump) {
		if there.round == round {
			there.shown = append(there.shown, now)
			there.bell.Ring()
		}
	})
}

func (p *simPump) fail(err error) { p.err = errors.Join(p.err, err) }

// frame sends a numbered frame, and state one that may overtake those: do is called on the other machine.
func (p *simPump) frame(do func(*simPump)) { p.send(&p.frames, do) }
func (p *simPump) state(do func(*simPump)) { p.send(&p.states, do) }

func (p *simPump) send(last *time.Duration, do func(*simPump)) {
	s := p.m.s
	*last = max(*last+1, s.now+s.delay())
	there := s.machines[p.to].pumps[p.m.self]
	s.after(*last-s.now, func() { do(there) })
}

// counted wakes who looks for idle moments, where a count has changed and all workers are posted.
func (m *simMachine) counted() {
	if m.site.Still() {
		m.looks.bell.Ring()
	}
}

// take takes from a lane what its window allows, and sends it in one frame.
func (l *simTaken) take() bool {
	if l.ended {
		return false
	}
	// Also without a window: it rings for the room that it has given back before.
	l.in.Pause(l.lane[0], l.under >= l.p.m.s.window)
	n, err := l.in.Poll(l)
	if errors.Is(err, lane.ErrClosed) {
		l.ended = true
		l.got = append(l.got, simRecord{})
	} else {
		l.p.fail(err)
	}
	if len(l.got) == 0 {
		return n > 0 // a part of an event
	}
	records, events, round := l.got, l.events, l.p.round
	l.got, l.events = nil, 0
	l.under += len(records)
	l.p.m.count.Sent(l.p.to, uint64(events))
	l.p.m.counted()
	l.p.frame(func(there *simPump) {
		if there.m.round != round {
			return
		}
		there.m.count.Came(there.to, uint64(events))
		for _, o := range there.outs {
			if o.lane == l.lane {
				o.queue = append(o.queue, records...)
			}
		}
		there.m.counted()
		there.bell.Ring()
	})
	return true
}

// ReceiveEvent implements router.Sink.
func (l *simTaken) ReceiveEvent(_ int, ev *envelope.Event, lease uint64) error {
	e := *ev
	e.Headers, e.Data = slices.Clone(ev.Headers), slices.Clone(ev.Data)
	e.Block, e.InBlock, e.Parts = envelope.BlockRef{}, false, 0
	l.got, l.events = append(l.got, simRecord{event: &e}), l.events+1
	if lease != 0 {
		return l.in.Release(lease)
	}
	return nil
}

// ReceivePromise implements router.Sink.
func (l *simTaken) ReceivePromise(_ int, p *envelope.Promise) error {
	kept := *p
	l.got = append(l.got, simRecord{promise: &kept})
	return nil
}

// ReceiveBound implements router.Sink.
func (l *simTaken) ReceiveBound(_ int, epoch float64, level uint32) error {
	l.got = append(l.got, simRecord{bound: &envelope.Promise{Epoch: epoch, Level: level}})
	return nil
}

var _ router.Sink = (*simTaken)(nil)

// give puts what has come into the lane, and lets the other side send as much again.
func (o *simGiven) give() bool {
	given := 0
	for !o.busy && len(o.queue) > 0 {
		r := o.queue[0]
		if r.promise != nil && o.out.Room() < router.PromiseRoom {
			break
		}
		o.busy = true
		err := o.put(r)
		o.busy = false
		if err != nil && !errors.Is(err, lane.ErrClosed) {
			o.p.fail(err)
		}
		o.queue = o.queue[1:]
		given++
	}
	if !o.busy {
		if err := o.out.Flush(); err != nil && !errors.Is(err, lane.ErrClosed) {
			o.p.fail(err)
		}
	}
	if given == 0 {
		return false
	}
	round := o.p.round
	o.p.state(func(there *simPump) {
		for _, l := range there.ins {
			if l.lane == o.lane && there.round == round {
				l.under -= given
				there.bell.Ring()
			}
		}
	})
	return true
}

func (o *simGiven) put(r simRecord) error {
	switch {
	case r.event != nil:
		return o.out.SendEvent(r.event)
	case r.promise != nil:
		return o.out.SendPromise(r.promise)
	case r.bound != nil:
		return o.out.Promise(r.bound.Epoch, r.bound.Level)
	}
	o.out.Close()
	return nil
}

// reset has the pump begin its lanes anew.
func (p *simPump) reset() {
	p.round, p.sent, p.shown = p.m.round, nil, nil
	for _, l := range p.ins {
		if !l.ended {
			p.fail(l.in.Reset())
		}
		l.got, l.events, l.under = nil, 0, 0
	}
	for _, o := range p.outs {
		o.queue = nil
		p.fail(o.out.Flush())
		o.out.Reset()
	}
}

// prepareBridges has all bridges begin their lanes anew, before any worker does.
func (s *simRun) prepareBridges() error {
	for _, m := range s.machines {
		m.going, m.round = false, m.round+1
		for _, p := range m.pumps {
			if p != nil {
				p.bell.Ring()
			}
		}
	}
	if err := s.goOn(func() bool {
		for _, m := range s.machines {
			for _, p := range m.pumps {
				if p != nil && p.round != m.round && p.err == nil {
					return false
				}
			}
		}
		return true
	}); err != nil {
		return fmt.Errorf("bridges get ready: %w", err)
	}
	for _, m := range s.machines {
		m.count.Reset()
		for _, mirror := range m.mirrors {
			mirror.Show(ShownFirst, nil, nil)
		}
	}
	return nil
}

// goBridges lets all bridges take from their lanes.
func (s *simRun) goBridges() {
	for _, m := range s.machines {
		m.going = true
		for _, p := range m.pumps {
			if p != nil {
				p.bell.Ring()
			}
		}
	}
}

// bridgeErrors checks what the bridges ended with.
func (s *simRun) bridgeErrors() (all error) {
	for _, m := range s.machines {
		for to, p := range m.pumps {
			if p == nil {
				continue
			}
			if p.err != nil {
				all = errors.Join(all, fmt.Errorf("pump of machine %d for %d: %w", m.self, to, p.err))
			}
			if p.waiter.unrung > 0 && s.held == HeldMax {
				all = errors.Join(all, fmt.Errorf("pump of machine %d for %d found work %d times that nobody rang for",
					m.self, to, p.waiter.unrung))
			}
		}
	}
	return all
}
