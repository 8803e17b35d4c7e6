// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"github.com/disco-sim/disco/internal/outfile"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/shm"
)

// simRun is one simulated run: its workers, and what stands in for their launcher.
type simRun struct {
	*simDraw
	*schedule
	workers  []*simWorker
	machines []*simMachine // where there are several
	quiets   int           // quiet frames
	first    int           // replication
	dead     bool          // the victim, or the launcher
	going    bool          // all have been sent Go, and not all are known to be done
	ending   bool          // no other replication follows
	stopped  bool          // Stop was sent
	limited  bool          // Limit was sent
	end      float64       // … with this epoch
	endedIn  int           // … in this replication
	legs     simLegs
	at       string // the state in which it failed
}

// simWorker is one worker: its real lanes, cycle and engine, in a task of the schedule.
type simWorker struct {
	*replications
	sim      *simRun
	task     *task
	waiter   *simWaiter
	messages []*Message    // by the launcher, in order, not yet handled
	down     time.Duration // when the last message to it arrives
	up       time.Duration // when the last message from it arrives
	answer   *Message      // to the last Prepare or Go, at the launcher
	halted   *Stopped      // to Stop, at the launcher
	owed     int           // answers to Stop that are still to come there
	hashes   map[uint32]uint64
	moved    []*Moved // since the last message, at the launcher
	load     []byte   // what its next Load has
	exited   bool
	err      error // that ended it
}

// newSimRun makes the segments and workers of a run.
func newSimRun(d *simDraw, rnd *rand.Rand) (*simRun, error) {
	s := &simRun{simDraw: d, schedule: newSchedule(rnd)}
	s.length = d.meanBurst
	all, err := newSimMachines(s)
	if err != nil {
		return nil, err
	}
	structure, err := node.Compile(d.scenario.graph, nil)
	if err != nil {
		return nil, err
	}
	placed, err := structure.Place(d.placement, d.workers)
	if err != nil {
		return nil, err
	}
	for i := range d.workers {
		if err := s.addWorker(i, placed, all[i]); err != nil {
			return nil, err
		}
	}
	for _, m := range s.machines {
		if err := m.open(all); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *simRun) addWorker(i int, placed *node.Placed, segs Segments) error {
	d := s.simDraw
	setup := &Setup{Worker: i, Workers: d.workers, Seed: d.seed, Tuning: d.tuning, OneProcess: true}
	if d.machines > 1 {
		setup.Machine = d.homes()
	}
	if err := setup.Tuning.Validate(); err != nil {
		return err
	}
	if d.moves {
		setup.Shards = d.shards()
	}
	plan, err := newPlan(placed, setup)
	if err != nil {
		return err
	}
	w := &simWorker{sim: s, replications: &replications{setup: setup, scenario: d.scenario, plan: plan}}
	if setup.Tuning.Resident > 0 {
		file, err := outfile.Temporary(os.TempDir())
		if err != nil {
			return err
		}
		w.scratch = &scratch{file: file}
	}
	if err := w.movesNodes(); err != nil {
		return err
	}
	if w.cycle, err = newCycle(plan, setup, segs); err != nil {
		return err
	}
	w.waiter = &simWaiter{s: s.schedule, bell: w.cycle.lanes.feed.bell(), spins: s.rnd.IntN(4), park: d.park,
		lost: d.lost, late: d.late}
	w.cycle.waiter, w.cycle.now, w.cycle.heldMax = w.waiter, s.clock, d.held
	w.cycle.samples = newSamples(w.replications.moves, setup)
	w.cycle.lead = lead{time: d.lead, calls: d.leadCalls}
	w.cycle.stop.answer = func(a Stopped) error {
		w.reply(func() { w.halted = &a; w.owed--; s.sendLimit() })
		return nil
	}
	w.sendResults = func(p *Results) error {
		for i, id := range p.Simprocs {
			w.hashes[id] = p.Hashes[i]
		}
		return nil
	}
	weight := []int{10, 10, 10, 1, 100}[s.rnd.IntN(5)]
	w.task = s.add(fmt.Sprintf("worker %d", i), weight, w.serve)
	s.workers = append(s.workers, w)
	return nil
}

// simSegments makes the heap segments of all workers.
func simSegments(workers int, t Tuning) ([]Segments, error) {
	plan, err := SegmentLayout(workers, t)
	if err != nil {
		return nil, err
	}
	heap := func(cfg shm.Config, format func([]byte) error) *shm.Segment {
		s, e := shm.Heap(cfg)
		if e == nil {
			e = format(s.Body())
		}
		err = errors.Join(err, e)
		return s
	}
	all := make([]Segments, workers)
	for w := range all {
		all[w] = Segments{Out: make([]*shm.Segment, workers), In: make([]*shm.Segment, workers)}
	}
	for w := range workers {
		board, pool := heap(plan.Board, plan.FormatBoard), heap(plan.Pool, plan.FormatPool)
		for v := range all {
			all[v].Boards, all[v].Pools = append(all[v].Boards, board), append(all[v].Pools, pool)
			if v != w {
				l := heap(plan.Lane, plan.FormatLane)
				all[w].Out[v], all[v].In[w] = l, l
			}
		}
	}
	return all, err
}

// serve is Serve without the stream: messages come from the schedule.
func (w *simWorker) serve() {
	s := server{run: w.replications}
	for w.err == nil {
		w.sim.wait("waits for a message", func() bool { return len(w.messages) > 0 || w.cycle.gone.Load() }, forever)
		if len(w.messages) == 0 {
			w.err = ErrLauncherGone
			break
		}
		m := w.messages[0]
		w.messages = w.messages[1:]
		var answer *Message
		if answer, w.err = s.handle(m); w.err == nil {
			if answer == nil {
				break
			}
			w.reply(func() { w.answer = answer; w.sim.sendLimit() })
		}
	}
	if err := w.close(); err != nil && w.err == nil {
		w.err = err
	}
	w.exited = true
}

// send sends a message that arrives later, and after those before it. What the reader of
// Serve does with it is done when it arrives, between two steps of the worker.
func (s *simRun) send(w *simWorker, m *Message) {
	w.deliver(func() {
		switch m.Type {
		case TypeStop:
			w.cycle.stop.asked.Add(1)
			w.wake()
		case TypeLimit:
			w.cycle.stop.limit.Store(m.Limit)
			w.wake()
		default:
			w.messages = append(w.messages, m)
		}
	})
}

// hangUp ends the worker's control stream.
func (s *simRun) hangUp(w *simWorker) {
	w.deliver(func() {
		w.cycle.gone.Store(true)
		w.wake()
	})
}

// delay is how long a message is under way: mostly short, now and then very long.
func (s *simRun) delay() time.Duration {
	if s.rnd.IntN(20) == 0 {
		return time.Duration(s.rnd.IntN(20)) * time.Millisecond
	}
	return time.Duration(s.rnd.IntN(100)) * time.Microsecond
}

// deliver does what a message to the worker does, when it arrives.
func (w *simWorker) deliver(do func()) {
	s := w.sim
	w.down = max(w.down+1, s.now+s.delay())
	s.after(w.down-s.now, func() {
		if !w.exited && !w.task.killed {
			do()
		}
	})
}

// reply does what a message from the worker does at the launcher, when it arrives.
func (w *simWorker) reply(do func()) {
	s := w.sim
	w.up = max(w.up+1, s.now+s.delay())
	s.after(w.up-s.now, do)
}

// ask sends all workers a message and lets the schedule go on until all have answered, or
// the run has failed.
func (s *simRun) ask(m *Message) error {
	for _, w := range s.workers {
		w.answer, w.halted, w.owed, w.hashes, w.moved = nil, nil, 0, map[uint32]uint64{}, nil
		if m.Type == TypeLoad {
			s.send(w, &Message{Type: TypeLoad, Load: &Load{Data: w.load}})
			continue
		}
		s.send(w, m)
	}
	if m.Type == TypeGo && s.going && s.ending { // asked for between two legs
		s.stopAll()
	}
	return s.goOn(func() bool {
		answered := true
		for _, w := range s.workers {
			answered = answered && w.answer != nil
		}
		return answered || s.over()
	})
}

// goOn lets the schedule go on until done.
func (s *simRun) goOn(done func() bool) error {
	s.quiet = 0
	return s.run(done, s.progressed, 5000*len(s.workers), 2*time.Second)
}

// progressed changes whenever a worker has come nearer to the end.
func (s *simRun) progressed() uint64 {
	var sum uint64
	for _, w := range s.workers {
		if w.cycle.engine != nil {
			st := w.cycle.engine.Stats()
			sum += st.Activations + st.Received + w.cycle.stats.IdleJumps
		}
		if w.exited || w.answer != nil {
			sum += 1 << 40
		}
	}
	return sum
}

// play runs the protocol of a launcher to its end and checks what must hold. The hashes
// are those of the replications that have ended by themselves or at a common limit.
func (s *simRun) play() (hashes []map[uint32]uint64, err error) {
	defer func() {
		if err != nil {
			s.at = s.state()
		}
		s.schedule.end()
	}()
	for r := s.first; r < s.first+s.simDraw.replications && !s.ending; r++ {
		if err := s.prepareBridges(); err != nil {
			return nil, err
		}
		prepare := &Prepare{Replication: r}
		if s.simDraw.legs {
			if prepare.Until, err = s.beginLegs(r); err != nil {
				return nil, err
			}
		}
		if err := s.ask(&Message{Type: TypePrepare, Prepare: prepare}); err != nil {
			return nil, err
		}
		if s.over() || s.ending {
			break
		}
		if r == s.first {
			s.trouble()
		}
		s.going, s.endedIn = true, r
		s.goBridges()
		if err := s.simulateLegs(); err != nil {
			return nil, err
		}
		s.going = false
		if s.over() {
			break
		}
		h, err := s.finished()
		if err != nil {
			return nil, err
		}
		hashes = append(hashes, h)
	}
	return hashes, s.finish()
}

// trouble sets off what is to happen in the first replication.
func (s *simRun) trouble() {
	after := func(steps int, do func()) {
		if steps > 0 {
			s.after(time.Duration(steps)*200*time.Nanosecond, do)
		}
	}
	after(s.kill, func() {
		if v := s.workers[s.victim]; !v.exited {
			v.task.killed, s.dead = true, true
		}
	})
	after(s.hang, func() { s.dead = true })
	after(s.stop, func() {
		s.ending = true
		if !s.going {
			return // workers that get ready are not stopped: the run goes no further
		}
		switch {
		case s.legs.between: // the next Go is followed by Stop
		case s.legs.asked: // the answers serve
			s.legs.asked, s.stopped = false, true
			s.sendLimit()
		default:
			s.stopAll()
		}
	})
}

// stopAll sends Stop to the workers that run.
func (s *simRun) stopAll() {
	s.stopped, s.limited = !s.legs.asked, false
	for _, w := range s.workers {
		if w.answer == nil {
			w.owed++
			s.send(w, &Message{Type: TypeStop})
		}
	}
	s.sendLimit()
}

// sendLimit does what the launcher does once all have answered Stop or are done: it sends
// them the least time at which nobody has handled anything.
func (s *simRun) sendLimit() {
	if (!s.stopped || s.limited) && !s.legs.asked {
		return
	}
	end := 0.0
	for _, w := range s.workers {
		switch {
		case w.answer != nil:
			end = math.MaxFloat64
		case w.owed > 0:
			return
		case w.halted.Handled:
			end = max(end, math.Nextafter(w.halted.Epoch, math.Inf(1)))
		}
	}
	if s.legs.asked {
		s.endLeg(max(end, math.Nextafter(s.legs.began, math.Inf(1))))
		return
	}
	s.limited, s.end = true, end
	s.limit(&Limit{Epoch: end})
}

// limit sends Limit to the workers that run.
func (s *simRun) limit(l *Limit) {
	for _, w := range s.workers {
		if w.answer == nil {
			s.send(w, &Message{Type: TypeLimit, Limit: l})
		}
	}
}

// over reports whether the run has failed.
func (s *simRun) over() bool {
	for _, w := range s.workers {
		if w.exited {
			return true
		}
	}
	return s.dead
}
