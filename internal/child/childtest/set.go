// SPDX-License-Identifier: Apache-2.0

package childtest

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/disco-sim/disco/internal/child"
	"github.com/disco-sim/disco/internal/site"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/disco-sim/disco/shm"
)

// set is a set of workers, on the machines that its plan names.
type set struct {
	h       *host
	order   child.Order
	input   *shm.Segment
	parts   map[int]*site.Set // by machine
	taps    []*tap            // by worker
	end     chan struct{}     // closed: boards are shown no more
	serving sync.WaitGroup

	mu sync.Mutex // of boards
}

// showPeriod is the time between two copies of the boards.
const showPeriod = 20 * time.Millisecond

// Make implements child.Host.
func (h *host) Make(o child.Order) (_ child.Workers, remark string, err error) {
	s := &set{h: h, order: o, parts: map[int]*site.Set{}, taps: make([]*tap, o.Plan.Workers()),
		end: make(chan struct{})}
	cfg := shm.Config{Name: "disco-input", Kind: worker.KindInput, Size: o.Plan.InputBytes}
	if s.input, err = shm.Create(cfg); err != nil {
		return nil, "", err
	}
	copy(s.input.Body(), o.Input.Body())
	for _, m := range o.Plan.Machine {
		if s.parts[int(m)] != nil {
			continue
		}
		part, text, err := h.sites[m].Make(child.Order{Set: o.Set, Plan: o.Plan, Input: s.input})
		if err != nil {
			close(s.end)
			s.closeParts()
			return nil, "", err
		}
		s.parts[int(m)], remark = part, text
	}
	h.mu.Lock()
	h.sets[o.Set] = s
	h.mu.Unlock()
	s.serving.Go(s.showAll)
	return s, remark, nil
}

func (h *host) setOf(number int) *set {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sets[number]
}

// showAll keeps the launcher's boards up to date.
func (s *set) showAll() {
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
	select {
	case <-s.end:
		return
	default:
	}
	numbers, err := s.part(w).Numbers(w, nil)
	if err == nil {
		err = worker.ShowNumbers(s.order.Boards[w], numbers)
	}
	if err != nil {
		s.h.to.Note(err.Error())
	}
}

// part is the set on a worker's machine.
func (s *set) part(w int) *site.Set { return s.parts[int(s.order.Plan.Machine[w])] }

// Start implements child.Workers.
func (s *set) Start(w int, with child.Spec) {
	ours, theirs, err := workerproc.ControlStream()
	if err != nil {
		with.Close()
		s.h.to.Exit(s.order.Set, w, workerproc.Exit{Text: err.Error()}, nil)
		return
	}
	t := &tap{launcher: with.Control, worker: ours, done: make(chan struct{})}
	s.taps[w] = t
	with.Control = theirs
	s.serving.Go(t.up)
	s.serving.Go(func() {
		if err := t.down(func(m worker.MessageType) error { return s.part(w).Control(w, m) }); err != nil {
			s.h.Fail(err)
		}
	})
	s.part(w).Start(w, with)
}

// Kill implements child.Workers.
func (s *set) Kill(w int) { s.part(w).Kill(w) }

// Release implements child.Workers.
func (s *set) Release() {
	for _, p := range s.parts {
		p.Release()
	}
}

// Close implements child.Workers.
func (s *set) Close() {
	close(s.end)
	s.closeParts()
	s.h.mu.Lock()
	delete(s.h.sets, s.order.Set)
	s.h.mu.Unlock()
}

func (s *set) closeParts() {
	var all sync.WaitGroup
	for _, p := range s.parts {
		all.Go(p.Close)
	}
	all.Wait()
	for _, t := range s.taps {
		if t != nil {
			t.launcher.Close()
			t.worker.Close()
		}
	}
	s.serving.Wait()
	_ = s.input.Close() // it goes with the process
}

// tap passes on a worker's control stream.
type tap struct {
	launcher, worker *os.File
	done             chan struct{} // closed when nothing more comes from the worker
}

// down passes on what the launcher sends. before is called with the type of each message.
func (t *tap) down(before func(worker.MessageType) error) error {
	defer t.worker.Close()
	var head [8]byte // docs/format/control.md
	for {
		if _, err := io.ReadFull(t.launcher, head[:]); err != nil {
			return nil // it has ended
		}
		if err := before(worker.MessageType(head[5])); err != nil {
			return err
		}
		_, err := t.worker.Write(head[:])
		if err == nil {
			_, err = io.CopyN(t.worker, t.launcher, int64(binary.LittleEndian.Uint32(head[:])))
		}
		if err != nil {
			return nil // one of them has
		}
	}
}

// up passes on what the worker sends.
func (t *tap) up() {
	_, _ = io.Copy(t.launcher, t.worker) // one of them has ended
	t.launcher.Close()
	close(t.done)
}

// wait waits for the last message of a worker that has ended.
func (t *tap) wait() {
	workerproc.LastMessages(t.worker)
	if err := t.launcher.SetWriteDeadline(time.Now().Add(time.Second)); !errors.Is(err, os.ErrClosed) {
		<-t.done
	}
}
