// SPDX-License-Identifier: Apache-2.0

// Package childtest has a child for tests: it runs the workers of a run over machines on this one, without a network.
//
// Guarantee: nothing of a set is left when it is closed, or when the process ends.
//
//	func TestMain(m *testing.M) {
//		if child.IsChild() {
//			os.Exit(childtest.Main())
//		}
//		leaktest.Main(m)
//	}
package childtest

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/disco-sim/disco/internal/child"
	"github.com/disco-sim/disco/internal/machine"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/disco-sim/disco/shm"
)

// Name is the name of the one machine.
const Name = "h1"

// Arguments of the child.
const (
	Refuses = "--refuses" // every run
	Loses   = "--loses"   // the machine, when a worker ends badly
	Three   = "--three"   // machines, of which only the first can run anything: with two slots and one processor each
)

// RefusesText is what it says about a run that it refuses.
const RefusesText = "machine " + Name + " doesn't answer"

// LosesText is what it says of the machine that is lost.
const LosesText = Name + " is cut off"

// Main is the whole of a process for which child.IsChild holds: its exit status. Workers are started from the program
// that it runs itself.
func Main() int {
	to, err := child.Inherit()
	if err == nil {
		err = to.Serve(&host{to: to})
	}
	if err != nil {
		return 1
	}
	return 0
}

type host struct{ to *child.Launcher }

// Machines implements child.Host.
func (h *host) Machines(child.Hello, *child.Launcher) (child.Network, error) {
	if slices.Contains(os.Args, Refuses) {
		return child.Network{}, child.Refuse(errors.New(RefusesText))
	}
	if slices.Contains(os.Args, Three) {
		return child.Network{
			Machines: []child.Machine{{Name: Name, Slots: 2, Processors: 1}, {Name: "h2", Slots: 2, Processors: 1},
				{Name: "h3", Slots: 2, Processors: 1}},
			RoundTrip:      []float64{0, 1e-3, 2e-3, 1e-3, 0, 4e-3, 2e-3, 4e-3, 0},
			SecondsPerByte: []float64{0, 1e-9, 1e-9, 1e-9, 0, 1e-9, 1e-9, 1e-9, 0},
		}, nil
	}
	return child.Network{Machines: []child.Machine{{Name: Name, Slots: worker.WorkersMax,
		Processors: runtime.GOMAXPROCS(0)}}, RoundTrip: []float64{0}, SecondsPerByte: []float64{0}}, nil
}

// set is a set of workers that are processes of this one.
type set struct {
	to      *child.Launcher
	order   child.Order
	exe     string
	input   *shm.Segment
	end     chan struct{} // closed: boards are shown no more
	serving sync.WaitGroup
	workers map[int]machine.Worker

	mu     sync.Mutex // guards the rest
	memory *machine.Memory
	closed bool
}

// showPeriod is the time between two copies of the boards.
const showPeriod = 20 * time.Millisecond

// Make implements child.Host.
func (h *host) Make(o child.Order) (_ child.Workers, remark string, err error) {
	s := &set{to: h.to, order: o, end: make(chan struct{}), workers: map[int]machine.Worker{}}
	if s.exe, err = workerproc.Executable(); err != nil {
		return nil, "", err
	}
	cfg := shm.Config{Name: "disco-input", Kind: worker.KindInput, Size: o.Plan.InputBytes}
	if s.input, err = shm.Create(cfg); err != nil {
		return nil, "", err
	}
	copy(s.input.Body(), o.Input.Body())
	s.memory, err = machine.Make(o.Plan, 0, machine.Config{Input: s.input, Proceed: func() error { return nil }})
	if err != nil {
		return nil, "", errors.Join(err, s.input.Close())
	}
	s.serving.Add(1)
	go s.showAll()
	return s, s.memory.Pages(), nil
}

// showAll keeps the launcher's boards up to date.
func (s *set) showAll() {
	defer s.serving.Done()
	ticker := time.NewTicker(showPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-s.end:
			return
		case <-ticker.C:
			for w := range s.order.Boards {
				s.show(w)
			}
		}
	}
}

func (s *set) show(w int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	numbers, err := worker.AppendNumbers(nil, s.memory.Boards()[w])
	if err == nil {
		err = worker.ShowNumbers(s.order.Boards[w], numbers)
	}
	if err != nil {
		s.to.Note(err.Error())
	}
}

// Start implements child.Workers.
func (s *set) Start(w int, with child.Spec) {
	s.mu.Lock()
	got, err := s.memory.Start(w, machine.Spec{Executable: s.exe, Threads: with.Threads, Control: with.Control,
		Trace: with.Trace, Profile: with.Profile, Raw: &output{s, w}})
	s.mu.Unlock()
	if err != nil {
		with.Close()
		s.to.Exit(s.order.Set, w, workerproc.Exit{Text: err.Error()}, nil)
		return
	}
	with.Control = nil // the worker's
	with.Close()
	s.workers[w] = got
	s.serving.Add(1)
	go func() {
		defer s.serving.Done()
		exit := got.Wait()
		s.show(w)
		if !exit.OK && slices.Contains(os.Args, Loses) {
			s.to.Lost(0, LosesText)
			return
		}
		s.mu.Lock()
		exit.Ended = s.closed
		s.mu.Unlock()
		s.to.Exit(s.order.Set, w, exit, s.lanes(w, exit.OK))
	}()
}

// lanes are those from a worker that has ended.
func (s *set) lanes(from int, well bool) (lanes []child.Lane) {
	if well {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for to, ring := range s.order.Plan.Rings[from] {
		if ring == 0 {
			continue
		}
		if status, err := s.memory.InspectLane(from, to); err == nil {
			lanes = append(lanes, child.Lane{To: to, Status: status})
		}
	}
	return lanes
}

// output passes on what a worker writes.
type output struct {
	s      *set
	worker int
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	o.s.to.Output(o.s.order.Set, o.worker, b)
	return len(b), nil
}

// Kill implements child.Workers.
func (s *set) Kill(w int) {
	if got, ok := s.workers[w]; ok {
		got.Kill()
	}
}

// Release implements child.Workers.
func (s *set) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory.Release()
}

// Close implements child.Workers.
func (s *set) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for _, got := range s.workers {
		got.Kill()
	}
	close(s.end)
	s.serving.Wait()
	if err := errors.Join(s.memory.Close(), s.input.Close()); err != nil {
		s.to.Note(fmt.Sprintf("memory of set %d: %v", s.order.Set, err))
	}
}
