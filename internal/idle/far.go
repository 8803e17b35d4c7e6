// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/disco-sim/disco/router"
)

// Over several machines nobody can look at all slots. Each machine's bridge looks at those of its own workers, and at
// its counts of the events that it has exchanged with each other machine; the leader compares the counts by pairs of
// machines and announces the jump (docs/bridge.md, section 4, with the proof).

// JumpBytes is the size of a machine's jump words: one line pair, written by its bridge alone.
const JumpBytes = 128

// Jump says that nothing is to be handled any more that is earlier than (Epoch, Level), anywhere in the run.
type Jump struct {
	Round uint64 // 1, 2, 3, … since the run began, over all its replications
	Epoch float64
	Level uint32 // +Inf is the end of the replication
}

// Quiet is what a machine was at a moment at which it stood still.
type Quiet struct {
	Round uint64 // of the newest jump, which all its workers had taken
	Epoch float64
	Level uint32 // the least next activation of its workers
	In    []uint64
	Out   []uint64 // by machine: events whose frames were applied, and numbered, in this replication
}

// Far is termination detection for a worker of a run over machines. One goroutine.
type Far struct {
	*Slot
	jump  *jumpWords
	local []*words
	ring  func()
	taken uint64
}

var _ router.Detector = (*Far)(nil)

// NewFar opens a worker's slot, its machine's jump words, and the slots of all the machine's workers, its own included.
// ring wakes the bridge: all of them may be posted.
func NewFar(slot, jump []byte, local [][]byte, ring func()) (*Far, error) {
	f := &Far{ring: ring}
	var err error
	if f.Slot, err = NewSlot(slot); err != nil {
		return nil, err
	}
	if f.jump, err = viewJump(jump); err != nil {
		return nil, err
	}
	f.local, err = viewAll(local, 0)
	return f, err
}

// Post implements router.Detector. Whoever is the last of a machine's workers wakes the bridge.
func (f *Far) Post(st State) {
	f.post(st, f.taken)
	// SYNC POINT idle-last: the turn was stored, with a full fence, before the others' are loaded, so that of two
	// workers that post at a time one finds all posted.
	if allPosted(f.local) {
		f.ring()
	}
}

func allPosted(slots []*words) bool {
	for _, s := range slots {
		// SYNC POINT idle-last: behind the store of the worker's own turn.
		if load(&s.turn)&1 == 0 {
			return false
		}
	}
	return true
}

// Look implements router.Detector: it returns each jump once. Nobody jumps again before all workers have posted that
// they have taken the last one, so there is never more than one that is new.
func (f *Far) Look() (epoch float64, level uint32, ok bool, err error) {
	// SYNC POINT idle-jump: a new round comes after the words below.
	round := load(&f.jump.round)
	if round == f.taken {
		return 0, 0, false, nil
	}
	e, l, sum := load(&f.jump.epoch), load(&f.jump.level), load(&f.jump.sum)
	if round != f.taken+1 || sum != sumOf(round, e, l) || l > math.MaxUint32 || !isTime(e) {
		return 0, 0, false, fmt.Errorf("jump words: %w: found round %#x, epoch %#x, level %#x, sum %#x, want round %#x",
			ErrCorrupt, round, e, l, sum, f.taken+1)
	}
	f.taken = round
	return math.Float64frombits(e), uint32(l), true, nil
}

// Wake implements router.Detector. It does nothing: who has stored a jump wakes all workers of its machine.
func (f *Far) Wake() {}

// Counts are a machine's counts of the events that it has exchanged with each machine in this replication. Any
// goroutine may raise them.
type Counts struct{ in, out []uint64 }

// NewCounts makes the counts of a machine in a run over so many.
func NewCounts(machines int) *Counts {
	return &Counts{in: make([]uint64, machines), out: make([]uint64, machines)}
}

// Came counts events that have come from a machine, in a frame that is being applied: before a worker can take them in,
// and in the order of the frames' numbers.
func (c *Counts) Came(machine int, events uint64) {
	// SYNC POINT far-counted: before the events are in a worker's ring, so that a look that finds them taken in finds
	// them counted.
	add(&c.in[machine], events)
}

// Sent counts events that were put into a numbered frame for a machine.
func (c *Counts) Sent(machine int, events uint64) { add(&c.out[machine], events) }

// Reset begins a replication. Nothing is raised or looked at meanwhile.
func (c *Counts) Reset() {
	clear(c.in)
	clear(c.out)
}

// Site is a machine's side, of its bridge. Its methods are called by one goroutine at a time.
type Site struct {
	slots []*words
	first int
	jump  *jumpWords
	wrote Jump
	turns []uint64
	count *Counts
	found Quiet
}

// NewSite opens a machine's jump words, which are zero, and the slots of its workers, of which the first has a number.
func NewSite(jump []byte, first int, local [][]byte, count *Counts) (*Site, error) {
	s := &Site{first: first, turns: make([]uint64, len(local)), count: count,
		found: Quiet{In: make([]uint64, len(count.in)), Out: make([]uint64, len(count.out))}}
	var err error
	if s.jump, err = viewJump(jump); err != nil {
		return nil, err
	}
	s.slots, err = viewAll(local, first)
	return s, err
}

// Still tells whether all workers of the machine are posted. Look is called whenever a worker's Post or the change of a
// count has made it true; any goroutine may ask.
func (s *Site) Still() bool { return allPosted(s.slots) }

// Look reports whether there was a moment during the call at which all workers of the machine were posted, had taken
// the newest jump, and all that was sent here or has come here had been taken in here or had left. What is returned is
// valid until the next call. ErrCorrupt says that somebody else has written over a slot or the jump words.
func (s *Site) Look() (q Quiet, ok bool, err error) {
	if err := s.check(); err != nil {
		return Quiet{}, false, err
	}
	over := uint64(0)
	for i := range s.found.In {
		s.found.In[i], s.found.Out[i] = load(&s.count.in[i]), load(&s.count.out[i])
		over += s.found.In[i] - s.found.Out[i]
	}
	next := least{math.Inf(1), math.MaxUint32}
	for i, w := range s.slots {
		c, ok, err := w.posted()
		if err != nil {
			err = fmt.Errorf("slot of worker %d: %w", s.first+i, err)
		}
		if !ok || c.round != s.wrote.Round {
			return Quiet{}, false, err
		}
		s.turns[i] = c.turn
		next.take(&c)
		over += c.sent - c.received
	}
	if over != 0 || !unchanged(s.slots, s.turns) {
		return Quiet{}, false, nil
	}
	for i := range s.found.In {
		// SYNC POINT far-counted: loaded before the slots, and again behind them.
		if load(&s.count.in[i]) != s.found.In[i] || load(&s.count.out[i]) != s.found.Out[i] {
			return Quiet{}, false, nil
		}
	}
	s.found.Round, s.found.Epoch, s.found.Level = s.wrote.Round, next.epoch, next.level
	return s.found, true, nil
}

// check compares the jump words with what was written.
func (s *Site) check() error {
	j := &s.wrote
	if round, e, l := load(&s.jump.round), load(&s.jump.epoch), load(&s.jump.level); round != j.Round ||
		e != math.Float64bits(j.Epoch) || l != uint64(j.Level) {
		return fmt.Errorf("jump words: %w: found round %#x, epoch %#x, level %#x, want round %#x, epoch %#x, level %#x",
			ErrCorrupt, round, e, l, j.Round, math.Float64bits(j.Epoch), j.Level)
	}
	return nil
}

// Jump stores a jump, and tells whether it is the next one; then all workers of the machine are to be woken. One that
// was stored already changes nothing.
func (s *Site) Jump(j Jump) (bool, error) {
	if j.Round <= s.wrote.Round {
		return false, nil
	}
	if j.Round != s.wrote.Round+1 {
		return false, fmt.Errorf("idle: jump %d came behind jump %d, want the next one", j.Round, s.wrote.Round)
	}
	s.wrote = j
	e, l := math.Float64bits(j.Epoch), uint64(j.Level)
	store(&s.jump.epoch, e)
	store(&s.jump.level, l)
	store(&s.jump.sum, sumOf(j.Round, e, l))
	// SYNC POINT idle-jump: whoever reads the round sees the three words above.
	store(&s.jump.round, j.Round)
	return true, nil
}

// Leader finds the idle moments of the run from those of its machines. One goroutine.
type Leader struct {
	newest []Quiet
	known  []bool
	round  uint64
}

// NewLeader makes the leader of a run over so many machines.
func NewLeader(machines int) *Leader {
	l := &Leader{newest: make([]Quiet, machines), known: make([]bool, machines)}
	for i := range l.newest {
		l.newest[i].In, l.newest[i].Out = make([]uint64, machines), make([]uint64, machines)
	}
	return l
}

// Take takes the newest Quiet of a machine, which it doesn't keep, and reports the next jump when all machines stood
// still together. One that is from before the last jump changes nothing.
func (l *Leader) Take(machine int, q Quiet) (Jump, bool, error) {
	n := len(l.newest)
	switch {
	case machine < 0 || machine >= n || len(q.In) != n || len(q.Out) != n:
		return Jump{}, false, fmt.Errorf("idle: quiet of machine %d with %d and %d counts, want one of %d machines",
			machine, len(q.In), len(q.Out), n)
	case q.Round > l.round:
		return Jump{}, false, fmt.Errorf("idle: machine %d is quiet behind jump %d, and the last one was %d", machine,
			q.Round, l.round)
	case q.Round < l.round:
		return Jump{}, false, nil
	}
	own := &l.newest[machine]
	own.Round, own.Epoch, own.Level = q.Round, q.Epoch, q.Level
	copy(own.In, q.In)
	copy(own.Out, q.Out)
	l.known[machine] = true
	next := least{math.Inf(1), math.MaxUint32}
	for i := range l.newest {
		if !l.known[i] {
			return Jump{}, false, nil
		}
		next.min(l.newest[i].Epoch, l.newest[i].Level)
		for j := range l.newest {
			if l.newest[i].Out[j] != l.newest[j].In[i] {
				return Jump{}, false, nil
			}
		}
	}
	l.round++
	clear(l.known)
	return Jump{Round: l.round, Epoch: next.epoch, Level: next.level}, true, nil
}

// jumpBody is the length of a jump frame's body, and of a quiet frame's without its counts.
const jumpBody = 24

// Append appends the body of a jump frame (docs/bridge.md, section 4).
func (j *Jump) Append(b []byte) []byte { return appendJump(b, j, 0) }

func appendJump(b []byte, j *Jump, machines int) []byte {
	b = binary.LittleEndian.AppendUint64(b, j.Round)
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(j.Epoch))
	b = binary.LittleEndian.AppendUint32(b, j.Level)
	return binary.LittleEndian.AppendUint32(b, uint32(machines))
}

// ParseJump reads the body of a jump frame.
func ParseJump(body []byte) (Jump, error) {
	j, machines, err := parseJump(body)
	if err == nil && (len(body) != jumpBody || machines != 0) {
		err = fmt.Errorf("idle: jump of %d bytes with %d in its last four, want %d bytes and 0", len(body), machines,
			jumpBody)
	}
	return j, err
}

func parseJump(body []byte) (j Jump, machines uint32, err error) {
	if len(body) < jumpBody {
		return j, 0, fmt.Errorf("idle: %d bytes of a quiet or jump frame, want %d or more", len(body), jumpBody)
	}
	epoch := binary.LittleEndian.Uint64(body[8:])
	if !isTime(epoch) {
		return j, 0, fmt.Errorf("idle: epoch %#x in byte 8 of a quiet or jump frame, want a time or +Inf", epoch)
	}
	return Jump{binary.LittleEndian.Uint64(body), math.Float64frombits(epoch), binary.LittleEndian.Uint32(body[16:])},
		binary.LittleEndian.Uint32(body[20:]), nil
}

// Append appends the body of a quiet frame (docs/bridge.md, section 4).
func (q *Quiet) Append(b []byte) []byte {
	b = appendJump(b, &Jump{q.Round, q.Epoch, q.Level}, len(q.In))
	for i := range q.In {
		b = binary.LittleEndian.AppendUint64(b, q.In[i])
		b = binary.LittleEndian.AppendUint64(b, q.Out[i])
	}
	return b
}

// Parse reads the body of a quiet frame of a run over as many machines as q has counts for.
func (q *Quiet) Parse(body []byte) error {
	j, machines, err := parseJump(body)
	if err != nil {
		return err
	}
	if want := jumpBody + 16*len(q.In); int(machines) != len(q.In) || len(body) != want {
		return fmt.Errorf("idle: quiet of %d bytes for %d machines, want %d bytes for %d", len(body), machines, want,
			len(q.In))
	}
	q.Round, q.Epoch, q.Level = j.Round, j.Epoch, j.Level
	for i := range q.In {
		q.In[i] = binary.LittleEndian.Uint64(body[jumpBody+16*i:])
		q.Out[i] = binary.LittleEndian.Uint64(body[jumpBody+16*i+8:])
	}
	return nil
}
