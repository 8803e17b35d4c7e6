// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/internal/heap"
)

// State is what a leader knows: what the store has, the cluster's view, and since when this leader has seen it so. What
// it is told by its Put methods is looked at by the next Decide. One goroutine uses it.
type State struct {
	rules  Rules
	leader string
	token  uint64
	now    time.Duration // of the last Decide
	began  time.Duration // the first

	experiments map[string]*underway
	order       []*underway // as they were submitted
	machines    map[string]*machine
	servers     map[string]*server
	byName      []*machine     // all machines; machine.number is their place by age
	open, free  int            // machines with free servers, and those servers
	present     int            // servers that machines have
	drained     []string       // sorted
	users       map[string]int // servers that are promised to each

	pieces    []*piece    // to be looked at
	touched   []*underway // to be looked at
	strays    []*server   // to be looked at
	stale     []ReportAt  // reports to be removed
	due       heap.Heap[deadline]
	head      *claim
	ended     int  // experiments that are kept
	placeable bool // something may be placed that couldn't before
	bare      bool // no machine has a server: State.explainBare
	ahead     bool // what is placed may turn out not to count
	looked    time.Duration
	wantsLook bool

	thirds thirds
	said   HealthReport // the last

	demands map[string]*demand
	altered []*machine // since round began: State.alter
	round   int
	pass    int // of placing

	explains   bool          // this pass: State.explain
	explained  time.Duration // when one did last
	explaining bool          // another one will

	queued    int     // pieces that wait, of all experiments
	endsRate  float64 // of pieces, a second
	endedNow  int     // pieces since loadAt
	load      Load    // the last that was written
	loadKnown bool    // it was
	loadAt    time.Duration

	retries retries

	judging
	lines
	moves, rest []Action        // what this Decide has decided
	gangIs      []cluster.State // memory of gangNow.is
}

// deadline is what is to be looked at when its time has come.
type deadline struct {
	piece      *piece
	experiment *underway
	server     *server
}

// claim is what the first in the queue reserves.
type claim struct {
	step  *step
	fault []string
	since time.Duration
}

// underway is what a leader knows of one.
type underway struct {
	Spec
	filed
	demand   *demand
	warm     map[*machine]bool // those that have its scenario: they have led a gang of it
	order    uint64
	wish     Wish
	standing Standing
	written  bool               // standing is that of the store
	steps    []*step            // and closing pieces, each as a step of its own; each behind all that it waits for
	pieces   map[PieceID]*piece // those that have begun
	holding  int                // of them: servers are promised to them
	lefts    int                // of them: servers wouldn't give them up
	again    heap.Heap[*piece]  // those that wait for another attempt, and may begin
	waits    time.Duration      // since when nothing of it was placed; -1: not seen yet
	passed   time.Duration      // it reserves nothing before
	counted  time.Duration      // when its standing was written last
	ailing   string             // what illness has given as its reason last
	ails     bool               // that is the reason in its standing
	ended    time.Duration      // since when it has been seen ended; -1: it hasn't
	reason   string             // why nothing of it is placed
	due      time.Duration
	dirty    bool
	queued   int  // pieces, of those that are counted in the state's
	blocked  bool // nothing of it is placed: Block
	gone     bool
	gates    bool            // what its steps may do may have changed for pieces that wait
	moves    int             // gauges of pieces that get on
	still    map[*gauge]bool // and of those that stand still
}

// step is what a leader knows of a step.
type step struct {
	*Step
	experiment *underway
	number     int     // in the specification
	order      int     // in underway.steps
	depth      int     // Graph.Depth
	point      int     // of its first piece: a closing piece comes behind its step's points
	closes     *step   // the step that its piece closes; nil: it is no closing piece
	before     []*step // what it waits for
	sources    []*step // the closing pieces whose outputs its pieces are simulated with
	until      *ending // nil: it has no rule
	next       int     // pieces from here on may have no key, by point and replication
	begun      int
	counts     [Canceled + 1]int
	unfit      int           // pieces that have failed because no machine will ever do
	small      time.Duration // since when the machines are too few; -1: they aren't
}

// piece is what a leader knows of a piece that has begun.
type piece struct {
	Piece
	id        PieceID
	step      *step
	report    *ReportAt     // of the attempt that counts
	since     time.Duration // in its state; -1: not seen yet
	amiss     time.Duration // since when something is wrong with its gang; -1: nothing is
	meter     meter
	known     known
	noted     time.Duration // when its age was written last
	overdue   []Left        // servers that wouldn't give it up
	due       time.Duration // of its deadline that comes first
	queued    bool
	paid      bool // it may be tried again
	inLine    bool // for that
	dirty     bool
	gauge     *gauge // nil: it doesn't simulate, as far as is known
	unsettled bool   // it isn't as its gauge has it
	name      string // of its attempt: AttemptID; "": it isn't needed yet
	left      struct {
		attempt  int
		machines []string // of its gang in that attempt, that have begun to leave
	}
}

// machine is a member.
type machine struct {
	cluster.Member
	number   int       // of this one, in the order in which they were told
	changes  uint64    // of what the leader was told of it: it isn't what a demand knows
	joins    string    // what those of a gang have in common; "": it has a part of none with others
	left     bool      // it leaves in order, or has done so, and isn't back
	servers  []*server // by name
	here     int       // of them: those that can be used
	free     int
	promised int

	condition Condition
	present   bool    // it has been
	vitals    *Vitals // as they were judged
	newVitals *Vitals // to be judged
	vitalsAt  time.Duration
	pace      float64 // by that of others; 0: not known
	paceAt    time.Duration
	fellAt    time.Duration // since when it has been stuck or gone
	verdict
}

// server is a server, as the view has it, or one that a piece names and that isn't there.
type server struct {
	cluster.Server
	there    bool
	machine  *machine
	promised *piece
	part     int
	due      time.Duration
	free     bool // counted in the machine's
	here     bool // the same
	dirty    bool
	asked    asked
}

// asked is what a server was asked for last by this leader.
type asked struct {
	state       cluster.State
	assignment  cluster.Assignment
	incarnation string
	at          time.Duration
}

// NewState is that of a leader that has read nothing yet.
func NewState(leader string, token uint64, rules Rules) *State {
	return &State{rules: rules.withDefaults(), leader: leader, token: token, began: never, explained: -ailsEvery,
		experiments: map[string]*underway{}, machines: map[string]*machine{}, servers: map[string]*server{},
		users: map[string]int{}, demands: map[string]*demand{}, pass: 1, judging: judging{unjudged: true, untold: true,
			points: map[pointKey]*pointOf{}}}
}

// never is a time that hasn't been seen yet.
const never = -1

// PutExperiment tells of an experiment; order is its key's Version.Created. One that is known stays as it is.
func (s *State) PutExperiment(spec Spec, order uint64) {
	if s.experiments[spec.ID] != nil {
		return
	}
	e := &underway{Spec: spec, order: order, wish: Wish{Want: WantRun, Priority: Normal}, pieces: map[PieceID]*piece{},
		waits: never, ended: never, counted: never, again: heap.New(before), warm: map[*machine]bool{},
		demand: s.demandOf(&spec)}
	e.steps = newSteps(e)
	for _, t := range e.steps {
		t.until = s.endingOf(t.Step)
	}
	s.experiments[spec.ID] = e
	at, _ := slices.BinarySearchFunc(s.order, e, byOrder)
	s.order = slices.Insert(s.order, at, e)
	if slices.ContainsFunc(e.steps, func(t *step) bool { return t.until != nil }) {
		at, _ := slices.BinarySearchFunc(s.ruled, e, byOrder)
		s.ruled = slices.Insert(s.ruled, at, e)
	}
	s.touch(e)
	s.placeable = true
}

// before orders pieces of an experiment.
func before(a, b *piece) bool {
	return cmp.Or(a.step.turn(b.step), a.id.compare(b.id)) < 0
}

func (p PieceID) compare(q PieceID) int {
	return cmp.Or(cmp.Compare(p.Step, q.Step), cmp.Compare(p.Point, q.Point), cmp.Compare(p.Replication, q.Replication))
}

// PutWish tells what people want of an experiment.
func (s *State) PutWish(id string, w Wish) {
	e := s.experiments[id]
	if e == nil || w.Number == e.wish.Number && w == e.wish {
		return
	}
	e.wish = w
	s.touch(e)
	for _, p := range e.pieces {
		if !p.State.Ended() {
			s.mark(p)
		}
	}
	s.placeable = true
}

// Block has nothing of an experiment begin, for a reason that people are told: it can't be read as a whole.
func (s *State) Block(id, reason string) {
	if e := s.experiments[id]; e != nil {
		e.blocked, e.reason = true, bounded(reason, MaxReason)
		s.touch(e)
	}
}

// PutStanding tells how far an experiment is, as the store has it. It is told before the experiment's pieces, once.
func (s *State) PutStanding(id string, standing Standing) {
	if e := s.experiments[id]; e != nil {
		e.standing, e.written = standing, true
		s.touch(e)
	}
}

// PutPiece tells of a piece that has begun, as the store has it. It is told once: whatever follows this leader decides.
func (s *State) PutPiece(id string, at PieceID, value Piece) {
	e := s.experiments[id]
	if e == nil || !e.Has(at) || e.pieces[at] != nil {
		return
	}
	s.become(s.begin(e, at), value)
}

// begin makes a piece that hasn't begun.
func (s *State) begin(e *underway, at PieceID) *piece {
	p := &piece{id: at, step: e.stepOf(at), since: never, amiss: never}
	e.pieces[at] = p
	p.step.begun++
	return p
}

// PutReport tells of a report. Those of attempts that don't count are removed.
func (s *State) PutReport(r ReportAt) {
	e := s.experiments[r.ID]
	var p *piece
	if e != nil {
		p = e.pieces[r.Piece]
	}
	if p == nil || p.State.Ended() || p.State == Waiting || r.Report.Attempt != p.Attempt {
		s.stale = append(s.stale, r)
		return
	}
	if p.report != nil && p.report.Version == r.Version && p.report.Member == r.Member {
		return
	}
	p.report = &r
	s.mark(p)
}

// mark has a piece looked at.
func (s *State) mark(p *piece) {
	s.unsettle(p)
	if !p.dirty {
		p.dirty = true
		s.pieces = append(s.pieces, p)
	}
}

// touch has an experiment looked at.
func (s *State) touch(e *underway) {
	s.unfile(e)
	if !e.dirty {
		e.dirty = true
		s.touched = append(s.touched, e)
	}
}

// at has something looked at when a time has come. Who is looked at says what comes after that, so one deadline of each
// is enough, the first.
func (s *State) at(when time.Duration, d deadline) {
	if due := d.at(); due != nil {
		if *due > s.now && *due <= when {
			return
		}
		*due = when
	}
	s.due.Push(float64(when), d)
}

// at is where the time of a deadline is kept; nil: it is that of placing.
func (d *deadline) at() *time.Duration {
	switch {
	case d.piece != nil:
		return &d.piece.due
	case d.experiment != nil:
		return &d.experiment.due
	case d.server != nil:
		return &d.server.due
	}
	return nil
}

// become gives a piece its next value, and promises or frees servers accordingly.
func (s *State) become(p *piece, value Piece) {
	e := p.step.experiment
	if p.State != 0 {
		s.count(p, -1)
		if p.State.Holds() && !value.State.Holds() {
			s.release(p)
		}
	}
	held := p.State != 0 && p.State.Holds()
	e.lefts += min(len(value.Left), 1) - min(len(p.Left), 1)
	if value.Attempt != p.Attempt || value.State.Ended() {
		p.name = ""
	}
	p.Piece, p.since, p.amiss, p.queued = value, never, never, false
	p.paid = p.paid && value.State == Waiting
	s.count(p, 1)
	if value.State.Holds() && !held {
		e.holding++
		s.users[e.User] += len(p.Gang)
		for i, member := range p.Gang {
			s.promise(p, i, member)
		}
	}
	if len(p.Gang) > 0 { // the others of a gang get what they need from it
		e.warm[s.machine(p.Gang[0].Member)] = true
	}
	if p.State.Ended() || p.State == Waiting {
		p.report, p.known = nil, known{}
	}
	if len(e.steps) > 1 && p.State.Ended() {
		e.gates = e.gates || p.step.failed() || p.step.counts[Finished] == p.step.total()
	}
	s.mark(p)
	s.touch(e)
}

func (s *State) count(p *piece, by int) {
	p.step.counts[p.State] += by
	if p.State == Failed && p.Error != nil && p.Error.Type == ErrorFit {
		p.step.unfit += by
	}
}

// promise notes that a server is a piece's. Of two pieces that name one server, which no leader writes, the first
// keeps it: the other one's gang isn't whole then.
func (s *State) promise(p *piece, part int, member Server) {
	sv := s.server(member.Name)
	if sv.promised != nil {
		return
	}
	sv.promised, sv.part = p, part
	if sv.machine == nil {
		m := s.machine(member.Member)
		sv.Info.Member = member.Member
		s.attach(sv, m)
	}
	sv.machine.promised++
	s.refree(sv)
}

// release frees a piece's servers.
func (s *State) release(p *piece) {
	e := p.step.experiment
	e.holding--
	if s.users[e.User] -= len(p.Gang); s.users[e.User] == 0 {
		delete(s.users, e.User)
	}
	for _, g := range p.Gang {
		sv := s.servers[g.Name]
		if sv == nil || sv.promised != p {
			continue
		}
		sv.promised = nil
		sv.machine.promised--
		s.alter(sv.machine)
		s.changed(sv)
		if !sv.there {
			s.forget(sv)
		}
	}
}

// Next is when the next Decide is due though nothing has changed; false: never.
func (s *State) Next() (when time.Duration, any bool) {
	if len(s.pieces)+len(s.touched)+len(s.strays)+len(s.stale) > 0 {
		return s.now, true
	}
	if s.due.Len() == 0 {
		return math.MaxInt64, false
	}
	return time.Duration(s.due.First().Key), true
}
