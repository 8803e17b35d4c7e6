// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"fmt"
	"hash/maphash"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/race"
)

// Idle moments over machines (docs/bridge.md, section 4), taken apart into the loads of a bridge's look, what happens
// to each event between two workers, and frames that come late or twice, in every order there is.
//
// A worker's Post, Withdraw and what it does in between are one step: model_test.go has them apart, and a look that
// finds a worker withdrawn has no effect. The steps of a look are those of Site.Look, in its order; those of the leader
// are Leader.Take. A change there belongs here too. A look that is going to find a change is given up at once: it has
// no effect either, and the change is followed by another look.
//
// What a worker may handle without a jump is the most that any promises could allow: what nothing that is pending or
// under way anywhere can still precede. So a jump to F is right when nothing pending or under way is earlier than F,
// whoever has done what in the meantime.

// farRules is a small run and the protocol under test: the real one, or one with a part changed.
type farRules struct {
	machines, workers int // workers of each machine
	links             []farLink
	pending           [farWorkers]uint8 // what every worker begins with: a bit for each epoch
	sends, whims      int8              // in all: events sent, and what is handled because promises allow it
	replications      int8
	cuts              int8 // connections that are cut and made anew

	totals    bool // the leader compares sums of counts, not pairs
	noSum     bool // a machine's own counts aren't compared
	inStaged  bool // an event counts as come when it is in a ring, not when its frame is applied
	noTurns   bool // the turns of slots aren't loaded again
	noCounts  bool // the counts of frames aren't loaded again
	noOrder   bool // frames are applied in any order
	oldSlots  bool // a slot may be from before the newest jump
	oldQuiets bool // the leader takes what was seen before the newest jump
	pairLater bool // the counts of frames are loaded behind the slots alone
	deaf      bool // a change during a look isn't followed by another look
	anew      bool // rounds begin at 0 with each replication
}

type farLink struct{ from, to, lookahead int8 }

const (
	farWorkers  = 4 // at most
	farMachines = 3
	farEvents   = 4
	farEnd      = 15 // the epoch of a jump that is the end
)

// Where an event is.
const (
	farInRing  = iota + 1 // to a worker here, or to the bridge
	farInFrame            // numbered
	farInQueue            // applied, and not in its worker's ring yet
	farStaged             // in its worker's ring
	farTaken
)

type farEvent struct{ from, to, epoch, place, number int8 }

// Where a worker is in a replication.
const (
	farRuns = iota
	farEnded
	farReset // prepared, and waits for go
)

type farWorker struct {
	pending    uint8 // a bit for each epoch
	sent, recv int8
	round      int8 // of the jump that it has taken
	jump       int8 // … and its epoch
	at         int8
}

type farQuiet struct {
	round, epoch int8
	in, out      [farMachines]int8
}

type farMachine struct {
	in, out      [farMachines]int8
	round, epoch int8 // the newest jump here
	rung         bool
	reset        bool // for the next replication

	look   int8 // its next step, 0: no look
	found  farQuiet
	diff   int8 // sent + in - received - out as found
	sent   bool // newest is at the leader
	newest farQuiet
}

type farState struct {
	w            [farWorkers]farWorker
	m            [farMachines]farMachine
	ev           [farEvents]farEvent
	known        [farMachines]farQuiet // at the leader
	round, epoch int8                  // of the leader's newest jump
	sends, whims int8                  // made
	cuts, done   int8
}

// farStep is a step for the message of a failure: what, and of whom.
type farStep struct {
	what string
	a, b int
}

type farRun struct {
	farRules
	seed  maphash.Seed
	seen  map[uint64]struct{} // fingerprints of states: two are taken for one once in 10⁶ runs of this test
	way   []farStep
	bad   string
	jumps int
	ends  int
}

func (r *farRun) machineOf(w int8) int { return int(w) / r.workers }
func (r *farRun) all() int8            { return int8(r.machines * r.workers) }

// lookSteps: in and out of each other machine, the round, the slots, their turns, and in and out again.
func (r *farRun) lookSteps() int8 { return int8(4*(r.machines-1) + 1 + 2*r.workers) }

func (r *farRun) fail(text string, args ...any) {
	if r.bad != "" {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, text+" after", args...)
	for _, s := range r.way {
		fmt.Fprintf(&b, "\n\t%s %d %d", s.what, s.a, s.b)
	}
	r.bad = b.String()
}

// next is what a worker posts.
func (w *farWorker) next() int8 {
	for e := range int8(8) {
		if w.pending&(1<<e) != 0 {
			return e
		}
	}
	return farEnd
}

// posted: a worker whose next activation its last jump allows goes on with it.
func (w *farWorker) posted() bool { return w.at == farEnded || w.at == farRuns && w.next() > w.jump }

// least is the earliest of all that is pending or under way, and can be sent to a worker before it has handled what it
// is to handle: with to < 0 of everything.
func (r *farRun) least(s *farState, to int8) int8 {
	least := int8(farEnd)
	for w := range r.all() {
		if next := s.w[w].next(); next != farEnd {
			least = min(least, r.shift(next, w, to))
		}
	}
	for i := range s.ev {
		if p := s.ev[i].place; p != 0 && p != farTaken {
			at := s.ev[i].epoch
			if s.ev[i].to != to {
				at = r.shift(at, s.ev[i].to, to)
			}
			least = min(least, at)
		}
	}
	return least
}

// shift is the earliest epoch of an event to a worker that something at another one, or itself, can cause.
func (r *farRun) shift(epoch, from, to int8) int8 {
	if to < 0 {
		return epoch
	}
	least := int8(farEnd)
	for _, l := range r.links {
		if l.from != from {
			continue
		}
		at := epoch + l.lookahead
		if l.to != to {
			if at >= 8 {
				continue
			}
			at = r.shift(at, l.to, to)
		}
		least = min(least, at)
	}
	return least
}

// visit goes on from a state in every way there is.
func (r *farRun) visit(s farState) {
	key := maphash.Comparable(r.seed, s)
	if _, seen := r.seen[key]; seen || r.bad != "" {
		return
	}
	r.seen[key] = struct{}{}
	moved := false
	step := func(n farState, what string, a, b int) {
		moved = moved || what != "whim" && what != "cut"
		r.way = append(r.way, farStep{what, a, b})
		r.visit(n)
		r.way = r.way[:len(r.way)-1]
	}
	for m := range r.machines {
		r.frames(&s, m, step)
		for v := s; ; {
			r.change(&v, m, step)
			if b := &v.m[m]; !b.begin() || !r.lookStep(&v, m) {
				break
			}
		}
	}
	r.launcher(&s, step)
	if !moved {
		r.ends++
		for w := range r.all() {
			if s.w[w].at != farEnded || s.done+1 < r.replications {
				r.fail("everything stands still, and worker %d hasn't ended: %+v", w, s)
			}
		}
	}
}

// acted notes that a worker has withdrawn its slot and perhaps posted again.
func (r *farRun) acted(s *farState, w int8) {
	m := &s.m[r.machineOf(w)]
	m.rung = true
	slot := int8(2*(r.machines-1)+1) + w%int8(r.workers)
	if !r.noTurns && m.between(slot, slot+int8(r.workers)) {
		r.abort(m)
	}
}

// counted notes that the count of events from or to a machine has changed, 0 and 1, which is loaded in this step.
func (r *farRun) counted(b *farMachine, load int8) {
	b.rung = true
	if !r.noCounts && !r.pairLater && b.between(load, load+int8(2*(r.machines-1)+1+2*r.workers)) {
		r.abort(b)
	}
}

// between: a look has made one step, and not the other.
func (b *farMachine) between(load, again int8) bool { return b.look-1 > load && b.look-1 <= again }

// loads is the step of machine m's look that loads its count of events from machine j.
func (r *farRun) loads(m, j int) int8 { return int8(2 * ((j - m - 1 + r.machines) % r.machines)) }

// worker makes what a worker can do: take the newest jump, take in an event, handle what is earliest.
func (r *farRun) worker(s *farState, w int8, step func(farState, string, int, int)) {
	if s.w[w].at != farRuns {
		return
	}
	if m := &s.m[r.machineOf(w)]; m.round > s.w[w].round && s.w[w].posted() {
		n := *s
		self := &n.w[w]
		if m.epoch == farEnd {
			self.round, self.at = m.round, farEnded // its slot stays as it is
			if least := r.least(s, -1); least != farEnd {
				r.fail("worker %d ends, and something is at %d", w, least)
			}
		} else {
			self.round, self.jump = m.round, m.epoch
			r.acted(&n, w)
		}
		step(n, "jump of worker, to", int(w), int(m.epoch))
	}
	for i := range s.ev {
		if e := &s.ev[i]; e.to == w && e.place == farStaged && r.isFirst(s, i) {
			n := *s
			n.ev[i] = farEvent{place: farTaken}
			n.w[w].pending |= 1 << e.epoch
			n.w[w].recv++
			r.acted(&n, w)
			step(n, "taken by worker, event", int(w), i)
		}
	}
	next := s.w[w].next()
	whim := next > s.w[w].jump
	if next == farEnd || whim && (s.whims == r.whims || r.least(s, w) <= next) {
		return
	}
	n := *s
	n.w[w].pending &^= 1 << next
	r.acted(&n, w)
	what := "handled by worker, epoch"
	if whim {
		n.whims++
		what = "whim"
	}
	step(n, what, int(w), int(next))
	for i, l := range r.links {
		if l.from != w || s.sends == r.sends || next+l.lookahead >= 8 {
			continue
		}
		one := n
		r.send(&one, l, next)
		step(one, what, int(w), int(next))
		for _, k := range r.links[i:] {
			if k.from == w && one.sends < r.sends && next+k.lookahead < 8 {
				two := one
				r.send(&two, k, next)
				step(two, what, int(w), int(next))
			}
		}
	}
}

// send sends an event over a link; one to itself is a wakeup, which nobody counts.
func (r *farRun) send(s *farState, l farLink, now int8) {
	if l.from == l.to {
		s.w[l.to].pending |= 1 << (now + l.lookahead)
		s.ev[s.sends].place = farTaken
		s.sends++
		return
	}
	s.ev[s.sends] = farEvent{from: l.from, to: l.to, epoch: now + l.lookahead, place: farInRing}
	if r.machineOf(l.from) == r.machineOf(l.to) {
		s.ev[s.sends].place = farStaged
	}
	s.sends++
	s.w[l.from].sent++
}

// isFirst: no earlier event of the same lane is where this one is, or before that.
func (r *farRun) isFirst(s *farState, i int) bool {
	for j := range i {
		if s.ev[j].from == s.ev[i].from && s.ev[j].to == s.ev[i].to && s.ev[j].place <= s.ev[i].place {
			return false
		}
	}
	return true
}

// carry brings an event on: into a numbered frame, out of it, into its worker's ring.
func (r *farRun) carry(s *farState, i int, step func(farState, string, int, int)) {
	e := s.ev[i]
	if e.place == 0 || e.place >= farStaged {
		return
	}
	n := *s
	from, to := r.machineOf(e.from), r.machineOf(e.to)
	switch e.place {
	case farInRing:
		if r.isFirst(s, i) {
			n.ev[i].place, n.ev[i].number = farInFrame, s.m[from].out[to]
			n.m[from].out[to]++
			r.counted(&n.m[from], r.loads(from, to)+1)
			step(n, "numbered: event, by machine", i, from)
		}
	case farInFrame:
		if e.number != s.m[to].in[from] && !r.noOrder && !r.inStaged {
			return
		}
		if r.inStaged && !r.isApplied(s, i) {
			return
		}
		n.ev[i].place = farStaged
		if r.inStaged {
			n.ev[i].place = farInQueue
		} else {
			n.m[to].in[from]++
			r.counted(&n.m[to], r.loads(to, from))
		}
		step(n, "applied: event, by machine", i, to)
	case farInQueue:
		if r.isFirst(s, i) {
			n.ev[i].place = farStaged
			n.m[to].in[from]++
			r.counted(&n.m[to], r.loads(to, from))
			step(n, "staged: event, by machine", i, to)
		}
	}
}

// isApplied: all frames with lower numbers were applied.
func (r *farRun) isApplied(s *farState, i int) bool {
	for _, e := range s.ev {
		if e.place == farInFrame && r.machineOf(e.from) == r.machineOf(s.ev[i].from) &&
			r.machineOf(e.to) == r.machineOf(s.ev[i].to) && e.number < s.ev[i].number {
			return false
		}
	}
	return true
}

// change makes every step that changes something on machine m which a look reads.
func (r *farRun) change(s *farState, m int, step func(farState, string, int, int)) {
	for w := range r.workers {
		r.worker(s, int8(m*r.workers+w), step)
	}
	for i := range s.ev {
		of := s.ev[i].to
		if s.ev[i].place == farInRing {
			of = s.ev[i].from
		}
		if r.machineOf(of) == m {
			r.carry(s, i, step)
		}
	}
	if s.m[m].round != s.round {
		n := *s
		n.m[m].round, n.m[m].epoch = s.round, s.epoch
		step(n, "machine has jump, to", m, int(s.epoch))
	}
	r.prepare(s, m, step)
}

// frames makes the end of machine m's look, and what happens to its frames to the leader.
func (r *farRun) frames(s *farState, m int, step func(farState, string, int, int)) {
	if n := *s; n.m[m].begin() {
		for r.lookStep(&n, m) {
		}
		step(n, "end of look of machine, after step", m, int(s.m[m].look))
	}
	if b := &s.m[m]; !b.sent {
		n := *s
		n.m[m].sent = true
		n.known[m] = b.newest
		r.lead(&n)
		step(n, "leader has quiet of machine, round", m, int(b.newest.round))
	}
	if s.cuts < r.cuts && s.m[m].sent && s.m[m].newest != (farQuiet{}) {
		n := *s
		n.cuts++
		n.m[m].sent = false
		step(n, "cut", m, 0)
	}
}

// begin begins a look where there is a reason and none is under way.
func (b *farMachine) begin() bool {
	if b.look == 0 && b.rung {
		b.look, b.rung, b.diff, b.found = 1, false, 0, farQuiet{epoch: farEnd}
	}
	return b.look > 0
}

// lookStep makes the next step of machine m's look, and tells whether there are more.
func (r *farRun) lookStep(s *farState, m int) bool {
	b := &s.m[m]
	peers, workers := int8(r.machines-1), int8(r.workers)
	i := b.look - 1
	b.look++
	again := i >= 2*peers+1+2*workers
	switch slot := i - 2*peers - 1; {
	case i < 2*peers || again:
		if again {
			i -= 2*peers + 1 + 2*workers
		}
		j := (m + 1 + int(i/2)) % r.machines
		now, found := b.in[j], &b.found.in[j]
		if i%2 == 1 {
			now, found = b.out[j], &b.found.out[j]
		}
		switch {
		case !again && !r.pairLater, again && r.pairLater:
			*found = now
			b.diff += now * (1 - 2*(i%2))
		}
	case slot < 0:
		b.found.round = b.round
	case slot < workers:
		w := &s.w[m*r.workers+int(slot)]
		round := w.round
		if w.at == farEnded {
			round-- // of the post, which is from before the end
		}
		if !w.posted() || round != b.found.round && !r.oldSlots {
			r.abort(b)
			return false
		}
		b.found.epoch = min(b.found.epoch, w.next())
		b.diff += w.sent - w.recv
		if slot == workers-1 && b.diff != 0 && !r.noSum && !r.pairLater {
			r.abort(b)
			return false
		}
	}
	if b.look > r.lookSteps() {
		if (b.diff == 0 || r.noSum) && b.newest != b.found {
			b.newest, b.sent = b.found, false
		}
		r.abort(b)
		return false
	}
	return true
}

// abort ends a look, and forgets what it has found.
func (r *farRun) abort(b *farMachine) {
	b.look, b.found, b.diff = 0, farQuiet{}, 0
	if r.deaf {
		b.rung = false
	}
}

// lead announces the next jump when it can.
func (r *farRun) lead(s *farState) {
	epoch, sum := int8(farEnd), int8(0)
	pairs := true
	for m := range r.machines {
		q := &s.known[m]
		if q.round != s.round && !r.oldQuiets || *q == (farQuiet{}) {
			return
		}
		epoch = min(epoch, q.epoch)
		for j := range r.machines {
			sum += q.out[j] - q.in[j]
			pairs = pairs && q.out[j] == s.known[j].in[m]
		}
	}
	if !pairs && !r.totals || sum != 0 {
		return
	}
	if s.epoch != farEnd && epoch <= s.epoch {
		r.fail("jump to %d again", epoch) // a worker that has it as its next activation would call that a deadlock
	}
	s.round, s.epoch = s.round+1, epoch
	s.known = [farMachines]farQuiet{}
	r.jumps++
	if least := r.least(s, -1); least < epoch {
		r.fail("jump to %d, and something is at %d", epoch, least)
	}
}

// launcher lets the next replication begin.
func (r *farRun) launcher(s *farState, step func(farState, string, int, int)) {
	if s.done+1 >= r.replications {
		return
	}
	for w := range r.all() {
		if s.w[w].at != farReset {
			return
		}
	}
	n := *s
	n.done++
	n.ev, n.sends, n.whims = [farEvents]farEvent{}, 0, 0
	for w := range r.all() {
		n.w[w].at, n.w[w].pending = farRuns, r.pending[w]
		r.acted(&n, w)
	}
	for m := range r.machines {
		n.m[m].reset = false
	}
	if r.anew {
		n.round = 0
	}
	step(n, "go", int(n.done), 0)
}

// prepare makes the steps of machine m and its workers between two replications.
func (r *farRun) prepare(s *farState, m int, step func(farState, string, int, int)) {
	if s.done+1 >= r.replications {
		return
	}
	for w := range r.all() {
		if s.w[w].at == farRuns {
			return
		}
	}
	if !s.m[m].reset {
		n := *s
		b := &n.m[m]
		for j := range r.machines {
			b.in[j], b.out[j] = 0, 0
			r.counted(b, r.loads(m, j))
			r.counted(b, r.loads(m, j)+1)
		}
		b.reset = true
		if r.anew {
			b.round, b.epoch = 0, 0
		}
		step(n, "prepare of machine", m, 0)
		return
	}
	for w := int8(m * r.workers); r.machineOf(w) == m && w < r.all(); w++ {
		if s.w[w].at == farEnded {
			n := *s
			n.w[w] = farWorker{round: s.w[w].round, at: farReset}
			if r.anew {
				n.w[w].round = 0
			}
			r.acted(&n, w)
			step(n, "prepare of worker", int(w), 0)
		}
	}
}

func runFar(rules farRules) *farRun {
	r := &farRun{farRules: rules, seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}}
	var s farState
	for w := range r.all() {
		s.w[w].pending = rules.pending[w]
		s.m[r.machineOf(w)].rung = true
	}
	for m := range s.m {
		s.m[m].sent = true
	}
	r.visit(s)
	return r
}

func epochs(list ...int) (mask uint8) {
	for _, e := range list {
		mask |= 1 << e
	}
	return mask
}

// The small runs. Epoch 0 is before all: what a worker's last jump allows is after it.
var (
	farPair = farRules{machines: 2, workers: 1, sends: 3, whims: 1, replications: 1,
		links:   []farLink{{0, 1, 1}, {1, 0, 1}},
		pending: [farWorkers]uint8{epochs(1), epochs(3)}}
	farTwo = farRules{machines: 2, workers: 2, sends: 2, whims: 1, replications: 1,
		links:   []farLink{{0, 2, 1}, {2, 0, 1}, {1, 3, 1}, {3, 2, 1}},
		pending: [farWorkers]uint8{epochs(1), epochs(4)}}
	farThree = farRules{machines: 3, workers: 1, sends: 2, replications: 1,
		links:   []farLink{{0, 1, 1}, {1, 2, 1}, {2, 0, 1}},
		pending: [farWorkers]uint8{epochs(1), epochs(4)}}
	farAgain = farRules{machines: 2, workers: 1, sends: 1, whims: 1, replications: 2, cuts: 1,
		links:   []farLink{{0, 1, 1}, {1, 0, 1}},
		pending: [farWorkers]uint8{epochs(1), epochs(2)}}
	farCross = farRules{machines: 2, workers: 2, sends: 2, whims: 1, replications: 1,
		links:   []farLink{{0, 2, 1}, {3, 1, 1}},
		pending: [farWorkers]uint8{epochs(1), 0, 0, epochs(4)}}
	farWakeup = farRules{machines: 2, workers: 2, sends: 3, whims: 1, replications: 1,
		links:   []farLink{{0, 2, 1}, {2, 2, 1}, {2, 3, 2}},
		pending: [farWorkers]uint8{epochs(1)}}
)

// farAll are the small runs, and whether they are tried with -short, too.
var farAll = []struct {
	what  string
	rules farRules
	short bool
}{
	{"2 machines of 1 worker", farPair, true}, {"2 machines of 2", farTwo, false}, {"3 machines of 1", farThree, false},
	{"2 replications", farAgain, false}, {"crossing events", farCross, false}, {"wakeups", farWakeup, true},
}

// In no order of steps is a jump announced beyond what is yet to be handled, is one announced again, or does a run
// stand still without having ended.
func TestEveryOrderFar(t *testing.T) {
	for _, one := range farAll {
		if testing.Short() && !one.short || race.Enabled {
			continue
		}
		r := runFar(one.rules)
		if r.bad != "" {
			t.Errorf("%s: %s", one.what, r.bad)
		}
		if r.jumps == 0 || r.ends == 0 {
			t.Errorf("%s: %d jumps, %d ends: the model has come to nothing", one.what, r.jumps, r.ends)
		}
		t.Logf("%s: %d states, %d jumps, %d ends", one.what, len(r.seen), r.jumps, r.ends)
	}
}

// Each part of the protocol is needed: without it, the model finds a wrong jump, or a run that stands still.
func TestEveryPartIsNeededFar(t *testing.T) {
	for what, broken := range map[string]struct {
		rules  farRules
		change func(*farRules)
		short  bool
	}{
		"sums of counts instead of pairs":            {farCross, func(r *farRules) { r.totals = true }, false},
		"a machine's own counts not compared":        {farTwo, func(r *farRules) { r.noSum = true }, true},
		"an event counted when it is in a ring":      {farTwo, func(r *farRules) { r.inStaged = true }, false},
		"turns not loaded again":                     {farWakeup, func(r *farRules) { r.noTurns = true }, true},
		"counts of frames not loaded again":          {farCross, func(r *farRules) { r.noCounts = true }, false},
		"counts of frames loaded behind the slots":   {farCross, func(r *farRules) { r.pairLater = true }, false},
		"frames applied in any order":                {farTwo, func(r *farRules) { r.noOrder = true }, false},
		"a slot from before the newest jump":         {farTwo, func(r *farRules) { r.oldSlots = true }, true},
		"what was seen before the newest jump":       {farThree, func(r *farRules) { r.oldQuiets = true }, true},
		"a change during a look not followed by one": {farThree, func(r *farRules) { r.deaf = true }, true},
		"rounds anew with each replication":          {farAgain, func(r *farRules) { r.anew = true }, true},
	} {
		if testing.Short() && !broken.short || race.Enabled {
			continue
		}
		broken.change(&broken.rules)
		r := runFar(broken.rules)
		if r.bad == "" {
			t.Errorf("%s: nothing wrong found in %d states", what, len(r.seen))
		}
		found, _, _ := strings.Cut(r.bad, " after\n")
		t.Logf("%s: %.60s (in %d states)", what, found, len(r.seen))
	}
}
