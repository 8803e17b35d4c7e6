// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"fmt"
	"os"

	"github.com/disco-sim/disco/internal/inspect"
	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/internal/machine"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/disco-sim/disco/shm"
)

// everyMachine stands for all of them where the child itself is lost.
const everyMachine = -1

// Set is a set of workers on other machines, with the methods of machine.Memory. One goroutine uses it.
type Set struct {
	p      *Process
	number int
	plan   machine.Plan
	boards []*shm.Segment // by worker: a copy of its numbers, which the child writes
	made   chan string
	remark string

	workers []remote // guarded by p.mu
}

// remote is a worker on another machine.
type remote struct {
	started, ended bool
	output         *workerproc.Output
	exit           chan workerproc.Exit
	lanes          []Lane // as they stood at its end
}

// Make has the machines make the memory of a set of workers. The input is that of machine.Config, and stays the
// caller's. proceed is called now and then; its error ends Make.
func (p *Process) Make(plan machine.Plan, input *shm.Segment, proceed func() error) (*Set, error) {
	plan.InputBytes = input.Size()
	encoded, err := plan.Append(nil)
	if err != nil {
		return nil, fmt.Errorf("child: plan: %w", err)
	}
	s := &Set{p: p, plan: plan, made: make(chan string, 1), workers: make([]remote, plan.Workers())}
	if err := s.makeBoards(); err != nil {
		return nil, errors.Join(err, s.closeBoards())
	}
	files := []*os.File{input.File()}
	for _, b := range s.boards {
		files = append(files, b.File())
	}
	p.mu.Lock()
	s.number = p.next
	p.next++
	p.sets[s.number] = s
	p.mu.Unlock()
	p.send(KindPlan, s.number, &PlanBody{encoded}, files...)
	if s.remark, err = await(p, s.made, proceed); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Set) makeBoards() error {
	layout, err := worker.SegmentLayout(s.plan.Workers(), s.plan.Tuning)
	if err != nil {
		return fmt.Errorf("child: %w", err)
	}
	for w := range s.plan.Workers() {
		named := layout.Board
		named.Name = inspect.BoardName(s.plan.First + w)
		b, err := shm.Create(named)
		if err != nil {
			return fmt.Errorf("child: segment %s of %d bytes: %w", named.Name, named.Size, err)
		}
		s.boards = append(s.boards, b)
		if err := layout.FormatBoard(b.Body()); err != nil {
			return fmt.Errorf("child: segment %s: %w", named.Name, err)
		}
	}
	return nil
}

// Boards are the boards of all workers. They stay s's.
func (s *Set) Boards() []*shm.Segment { return s.boards }

// Pages is the machines' remark about pages, where huge ones were asked for.
func (s *Set) Pages() string { return s.remark }

// name is the machine of a worker.
func (s *Set) name(w int) string {
	if m := int(s.plan.Machine[w]); m < len(s.p.known.Machines) {
		return s.p.known.Machines[m].Name
	}
	return fmt.Sprintf("machine %d", s.plan.Machine[w])
}

// Start has a worker started. That it can't be is how it has ended.
func (s *Set) Start(index int, spec machine.Spec) (machine.Worker, error) {
	ours, theirs, err := workerproc.ControlStream()
	if err != nil {
		return machine.Worker{}, err
	}
	defer theirs.Close()
	p, r := s.p, &s.workers[index]
	output := workerproc.NewOutput(fmt.Sprintf("worker %d", s.plan.First+index), spec.Log)
	ended := make(chan workerproc.Exit, 1)
	p.mu.Lock()
	*r = remote{started: true, output: output, exit: ended}
	if p.err != nil {
		s.endOf(index, lostExit(p.err.Error())) // nobody else will
	}
	p.mu.Unlock()
	files := []*os.File{theirs}
	for _, f := range []*os.File{spec.Trace, spec.Profile, spec.Spool, spec.Restore} {
		if f != nil {
			files = append(files, f)
		}
	}
	b := &StartBody{Worker: index, Threads: spec.Threads, Trace: spec.Trace != nil, Profile: spec.Profile != nil,
		Saves: spec.Spool != nil}
	p.send(KindStart, s.number, b, files...)
	return machine.Worker{Control: ours, Machine: s.name(index), Output: output,
		Kill: func() { p.send(KindKill, s.number, &WorkerBody{index}) },
		Wait: func() workerproc.Exit {
			exit := <-ended
			workerproc.LastMessages(ours)
			return exit
		}}, nil
}

// handle takes a packet about the set.
func (s *Set) handle(m *packet) error {
	switch b := m.Body.(type) {
	case *TextBody:
		select {
		case s.made <- b.Text:
			return nil
		default:
			return errors.New("found that the set was made once more")
		}
	case *OutputBody:
		r, err := s.running(b.Worker)
		if err == nil && r != nil {
			_, _ = r.output.Write(b.Bytes) // it never fails
		}
		return err
	case *ExitBody:
		r, err := s.running(b.Worker)
		if err == nil && r != nil {
			s.p.mu.Lock()
			defer s.p.mu.Unlock()
			r.lanes = b.Lanes
			s.endOf(b.Worker, b.Exit)
		}
		return err
	}
	return nil
}

// running is a worker that was started; nil: it was lost before.
func (s *Set) running(w int) (*remote, error) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	switch {
	case w >= len(s.workers) || !s.workers[w].started:
		return nil, fmt.Errorf("found worker %d, which wasn't started", w)
	case s.workers[w].ended:
		return nil, fmt.Errorf("found worker %d, which has ended", w)
	}
	return &s.workers[w], nil
}

// endOf reports a worker's end, once. The caller holds p.mu.
func (s *Set) endOf(w int, exit workerproc.Exit) {
	if r := &s.workers[w]; r.started && !r.ended {
		r.ended = true
		r.exit <- exit
	}
}

func lostExit(text string) workerproc.Exit { return workerproc.Exit{Lost: true, Text: text} }

// lose ends the workers of a machine, or of all, that are left. The caller holds p.mu.
func (s *Set) lose(of int, text string) {
	if of != everyMachine {
		text = workerproc.LostPrefix + text
	}
	for w := range s.workers {
		if of == everyMachine || of == int(s.plan.Machine[w]) {
			s.endOf(w, lostExit(text))
		}
	}
}

// Release has the machines give up what only workers need, once they have attached.
func (s *Set) Release() { s.p.send(KindRelease, s.number, &NoBody{}) }

// InspectLane is the status of a lane when its sender ended badly; that of others isn't known.
func (s *Set) InspectLane(from, to int) (lane.Status, error) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	for _, l := range s.workers[from].lanes {
		if l.To == to {
			return l.Status, nil
		}
	}
	return lane.Status{}, fmt.Errorf("%s hasn't said how it stood", s.name(from))
}

// Close ends what is left of the set, on all machines, and frees what this process has of it. The child may still be
// about it.
func (s *Set) Close() error {
	s.p.mu.Lock()
	delete(s.p.sets, s.number)
	s.lose(everyMachine, "its set was closed")
	s.p.mu.Unlock()
	s.p.send(KindClose, s.number, &NoBody{})
	return s.closeBoards()
}

func (s *Set) closeBoards() error {
	var errs []error
	for _, b := range s.boards {
		errs = append(errs, b.Close())
	}
	s.boards = nil
	return errors.Join(errs...)
}
