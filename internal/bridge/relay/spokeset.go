// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"fmt"
	"sync"

	"github.com/disco-sim/disco/internal/child"
	"github.com/disco-sim/disco/internal/machine"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/shm"
)

// input is the bytes that workers of one or more sets read. Spoke.mu guards it.
type input struct {
	owner   int // the set with whose number its bytes come
	size    int
	filled  int
	segment *shm.Segment
	whole   chan struct{} // closed when all has come
	sets    int           // that have it
}

func newInput(owner, size int) *input {
	return &input{owner: owner, size: size, whole: make(chan struct{})}
}

func (in *input) complete() bool { return in.filled == in.size }

// fill takes the next part.
func (in *input) fill(at uint64, b []byte) error {
	if at != uint64(in.filled) || len(b) == 0 || len(b) > in.size-in.filled {
		return bad(8, fmt.Sprintf("%d bytes from %d of the input", len(b), at), fmt.Sprintf("1 to %d from %d",
			in.size-in.filled, in.filled))
	}
	in.filled += copy(in.segment.Body()[in.filled:], b)
	if in.complete() {
		close(in.whole)
	}
	return nil
}

// spokeSet is a set as its machine has it.
type spokeSet struct {
	sp     *Spoke
	number int
	plan   machine.Plan
	input  *input
	todo   chan child.Body // for serve; each comes a bounded number of times
	closed chan struct{}   // with closing

	// guarded by Spoke.mu
	all      map[int]*spokeWorker // that were started, by worker
	made     bool
	released bool
	closing  bool

	workers Workers        // of serve, and of what it starts
	pumps   sync.WaitGroup // of workers

	mu      sync.Mutex // guards the rest; while it is held boards are read
	live    bool       // there are boards
	running []*spokeWorker
}

func newSpokeSet(sp *Spoke, number int, plan machine.Plan) *spokeSet {
	return &spokeSet{sp: sp, number: number, plan: plan, closed: make(chan struct{}),
		todo: make(chan child.Body, 2*worker.WorkersMax+1), // start and kill of each, and release
		all:  map[int]*spokeWorker{}}
}

// order takes a packet about the set. The caller holds Spoke.mu.
func (s *spokeSet) order(p *child.Packet) error {
	switch b := p.Body.(type) {
	case *child.StartBody:
		if b.Worker >= s.plan.Workers() || int(s.plan.Machine[b.Worker]) != s.sp.cfg.Machine ||
			s.all[b.Worker] != nil || !s.made {
			return bad(packetAt+8, fmt.Sprint("start of worker ", b.Worker),
				"each of this machine's, once, when the set was made")
		}
		s.all[b.Worker] = newSpokeWorker(s, b)
	case *child.WorkerBody:
		w := s.all[b.Worker]
		if w == nil || w.killed {
			return bad(packetAt+8, fmt.Sprint("kill of worker ", b.Worker), "one that was started, once")
		}
		w.killed = true
	case *child.NoBody:
		if p.Kind == child.KindClose {
			s.close()
			return nil
		}
		if p.Kind != child.KindRelease || s.released || !s.made {
			return bad(packetAt+1, p.Kind, "release, once, when the set was made; close")
		}
		s.released = true
	default:
		return bad(packetAt+1, p.Kind, "plan, start, kill, release or close")
	}
	s.todo <- p.Body
	return nil
}

// close begins the set's end: whoever waits for something of it ends. The caller holds Spoke.mu.
func (s *spokeSet) close() {
	if s.closing {
		return
	}
	s.closing = true
	close(s.closed)
	close(s.todo)
	for _, w := range s.all {
		w.express.stop()
		w.bulk.stop()
	}
}

// serve is the set, from its plan to its end.
func (s *spokeSet) serve() {
	if err := s.make(); err != nil {
		s.sp.trouble(s, err)
	}
	for b := range s.todo {
		select {
		case <-s.closed:
			continue // Close ends all
		default:
		}
		switch b := b.(type) {
		case *child.StartBody:
			s.start(b)
		case *child.WorkerBody:
			s.workers.Kill(b.Worker)
		case *child.NoBody:
			s.workers.Release()
		}
	}
	s.end()
}

// make makes the input and the memory.
func (s *spokeSet) make() error {
	if s.input.owner == s.number {
		if err := s.makeInput(); err != nil {
			return err
		}
	}
	select {
	case <-s.input.whole:
	case <-s.closed:
		return nil
	}
	w, remark, err := s.sp.cfg.Site.Make(child.Order{Set: s.number, Plan: s.plan, Input: s.input.segment}, s.sp)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.workers, s.live = w, true
	s.mu.Unlock()
	s.sp.mu.Lock()
	s.made = true
	s.sp.mu.Unlock()
	_ = s.sp.express.process(child.Packet{Kind: child.KindMade, Set: s.number, Body: &child.TextBody{Text: remark}}, 0)
	return nil
}

// makeInput makes the segment, and grants its bytes.
func (s *spokeSet) makeInput() error {
	segment, err := shm.Create(shm.Config{Name: "disco-input", Kind: worker.KindInput, Size: s.input.size})
	if err != nil {
		return child.Refuse(fmt.Errorf("relay: input of %d bytes: %w", s.input.size, err))
	}
	s.sp.mu.Lock()
	s.input.segment = segment
	s.sp.mu.Unlock()
	s.sp.bulk.open(flow{id: flowID{uint32(s.number), noWorker}, window: inputWindow, blobs: noFiles})
	notify(s.sp.bulk.wake)
	return nil
}

// end closes what there is of the set, and says so.
func (s *spokeSet) end() {
	s.mu.Lock()
	s.live = false
	s.mu.Unlock()
	if s.workers != nil {
		s.workers.Close()
	}
	for _, w := range s.all {
		w.free()
	}
	s.pumps.Wait()
	sp := s.sp
	sp.express.drop(s.number)
	sp.bulk.drop(s.number)
	sp.mu.Lock()
	delete(sp.sets, s.number)
	last := s.input.sets == 1
	s.input.sets--
	sp.mu.Unlock()
	if last && s.input.segment != nil {
		if err := s.input.segment.Close(); err != nil {
			sp.Note(err.Error())
		}
	}
	_ = sp.express.process(child.Packet{Kind: child.KindClose, Set: s.number, Body: &child.NoBody{}}, 0)
}

// numbers are what a worker shows. nil: its board isn't there any more, or the worker has broken it, which then shows
// people nothing, as on one machine. The caller holds mu.
func (s *spokeSet) numbers(w *spokeWorker) []uint64 {
	if !s.live {
		return nil
	}
	numbers, err := s.workers.Numbers(w.index, nil)
	if err != nil || len(numbers) != worker.NumbersCount {
		return nil
	}
	return numbers
}

// boards is what the workers show, as a frame has it.
func (s *spokeSet) boards() (b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.running {
		numbers := s.numbers(w)
		if numbers == nil {
			continue
		}
		b = append(b, make([]byte, headBytes)...)
		(&head{uint32(s.number), uint16(w.index), 0, 0}).put(b[len(b)-headBytes:])
		b = putNumbers(b, numbers)
	}
	return b
}
