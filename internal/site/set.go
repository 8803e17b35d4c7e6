// SPDX-License-Identifier: Apache-2.0

package site

import (
	"errors"
	"fmt"
	"sync"

	"github.com/disco-sim/disco/internal/bridge/relay"
	"github.com/disco-sim/disco/internal/child"
	"github.com/disco-sim/disco/internal/machine"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
)

// set is this machine's workers of a set.
type set struct {
	site    *Site
	to      relay.Reporter
	order   child.Order
	joint   *joint // nil: no worker of the set is on another machine
	workers map[int]machine.Worker
	serving sync.WaitGroup
	ends    chan struct{} // closed: the set is being closed

	mu     sync.Mutex      // guards the rest
	memory *machine.Memory // nil: it is freed
	closed bool
}

var errClosed = errors.New("site: the set is closed")

// Make implements relay.Site. There is one set at a time that has workers on other machines, too; the one before it may
// still be about to close.
func (s *Site) Make(o child.Order, to relay.Reporter) (_ relay.Workers, remark string, err error) {
	for n := s.newest.Load(); n < int64(o.Set) && !s.newest.CompareAndSwap(n, int64(o.Set)); n = s.newest.Load() {
	}
	if err := s.checkMemory(&o); err != nil {
		return nil, "", err
	}
	segments, _, err := o.Plan.Needs(s.cfg.Machine, false)
	if err != nil {
		return nil, "", err
	}
	made := &set{site: s, to: to, order: o, workers: map[int]machine.Worker{}, ends: make(chan struct{})}
	made.memory, err = machine.Make(o.Plan, s.cfg.Machine, machine.Config{Input: o.Input,
		Proceed: func() error { return nil }})
	if err != nil {
		return nil, "", err
	}
	if o.Plan.Others(s.cfg.Machine) > 0 {
		if err := made.join(); err != nil {
			return nil, "", errors.Join(err, made.memory.Close())
		}
	}
	s.usage.made(made, int64(segments))
	return made, made.memory.Pages(), nil
}

// Start implements child.Workers.
func (s *set) Start(w int, with child.Spec) {
	s.mu.Lock()
	got, err := s.memory.Start(w, machine.Spec{Executable: s.site.cfg.Executable, Threads: with.Threads,
		Control: with.Control, Trace: with.Trace, Profile: with.Profile, Spool: with.Spool,
		Restore: with.Restore, Raw: &output{s, w}})
	s.mu.Unlock()
	if err != nil {
		with.Close()
		s.to.Exit(s.order.Set, w, workerproc.Exit{Text: err.Error()}, nil)
		return
	}
	with.Control = nil // the worker's
	with.Close()
	s.workers[w] = got
	s.site.usage.runs(got.PID, true)
	s.serving.Go(func() {
		exit := got.Wait()
		s.site.usage.runs(got.PID, false)
		s.mu.Lock()
		exit.Ended = s.closed
		lanes := s.lanes(w, exit.OK)
		s.mu.Unlock()
		s.to.Exit(s.order.Set, w, exit, lanes)
	})
}

// lanes are those from a worker that has ended. mu is held.
func (s *set) lanes(from int, well bool) (lanes []child.Lane) {
	if well {
		return nil
	}
	for to := range s.order.Plan.Workers() {
		if s.memory.Lane(from, to) == nil {
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

// Numbers implements relay.Workers.
func (s *set) Numbers(w int, to []uint64) ([]uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memory == nil {
		return to, errClosed
	}
	before := len(to)
	to, err := worker.AppendNumbers(to, s.memory.Boards()[w])
	if err == nil {
		taken, left := s.site.usage.look()
		worker.AddMemory(to[before:], taken, left)
	}
	return to, err
}

// Control implements relay.Workers.
func (s *set) Control(_ int, t worker.MessageType, anew bool) error {
	if s.joint == nil {
		return nil
	}
	return s.site.explain(s.joint.control(t, anew))
}

// Close implements child.Workers.
func (s *set) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for _, got := range s.workers {
		got.Kill()
	}
	close(s.ends)
	if s.joint != nil {
		s.site.bridge.Store(nil)
		s.joint.part()
		<-s.site.joins
	}
	s.serving.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.memory.Close(); err != nil {
		s.to.Note(fmt.Sprintf("memory of set %d: %v", s.order.Set, err))
	}
	s.memory = nil
	s.site.usage.freed(s)
}
