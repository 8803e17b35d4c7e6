// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/disco-sim/disco/internal/child"
	"github.com/disco-sim/disco/internal/session"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
)

// hubSet is a set as the hub has it. Hub.mu guards its fields, but for those of who makes it.
type hubSet struct {
	h        *Hub
	number   int
	order    child.Order
	progress func() // the time of Make begins anew; any goroutine may call it
	serving  sync.WaitGroup

	parts   map[int]*part // by machine
	workers []*hubWorker  // nil until started
	failed  error         // why it can't be made
	late    bool          // it takes too long
	givenUp bool          // the launcher doesn't wait for it any more
	closed  bool

	othersTimer *time.Timer // since a machine has refused it; nil: none has
	othersLate  bool        // what the others say isn't waited for any more
	refused     error       // of all machines that have refused it
}

// part is what one machine has of a set.
type part struct {
	number int // of the machine
	m      *peer
	made   bool
	remark string

	refused error // why the machine doesn't make it
}

// hubWorker is a worker as the hub has it.
type hubWorker struct {
	s             *hubSet
	index         int
	spec          child.Spec
	express, bulk *flow
	killed        bool
	shown         bool // its board shows the end

	sent  uint64      // bytes of files, of passDown
	fresh atomic.Bool // what comes of the spool next is its begin
}

func newHubSet(h *Hub, o child.Order) *hubSet {
	s := &hubSet{h: h, number: o.Set, order: o, parts: map[int]*part{}, workers: make([]*hubWorker, o.Plan.Workers())}
	for _, m := range o.Plan.Machine {
		s.parts[int(m)] = &part{number: int(m), m: h.machines[m]}
	}
	return s
}

// expire ends a Make for one of the reasons late, givenUp and othersLate.
func (s *hubSet) expire(reason *bool) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	*reason = true
	s.h.moved.Broadcast()
}

// trouble is why the set can't be made. The caller holds h.mu.
func (s *hubSet) trouble() error {
	if s.h.closing || s.givenUp {
		return errors.New("relay: the run has ended")
	}
	if s.othersTimer != nil {
		return s.refusal()
	}
	for _, p := range s.parts {
		if p.m.lost != nil {
			return child.Refuse(fmt.Errorf("relay: a machine was lost: %w", p.m.lost))
		}
	}
	return s.failed
}

// refusalBytes is how much of refusals is said in full: a text of a child's has room for little more.
const refusalBytes = 3 << 10

// refusal is why machines have refused the set, once all have said something of it, or no more of that is waited for:
// each in full, as long as there is room, in the machines' order. The caller holds h.mu.
func (s *hubSet) refusal() error {
	var refused, names []string
	size, open := 0, false
	for _, m := range slices.Sorted(maps.Keys(s.parts)) {
		switch p := s.parts[m]; {
		case p.refused == nil:
			open = open || !p.made && p.m.lost == nil
		case size > 0 && size+len(p.refused.Error()) > refusalBytes:
			names = append(names, p.m.name)
		default:
			size += len(p.refused.Error())
			refused = append(refused, p.refused.Error())
		}
	}
	if open && !s.othersLate && !s.late && s.failed == nil {
		return nil
	}
	if len(names) > 0 {
		refused = append(refused, "refused as well by "+strings.Join(names, ", "))
	}
	s.othersTimer.Stop()
	s.refused = child.Refuse(errors.New(strings.Join(refused, "\n")))
	return s.refused
}

// unmade names the machines that haven't made their memory.
func (s *hubSet) unmade() string {
	var names []string
	for _, m := range slices.Sorted(maps.Keys(s.parts)) {
		if p := s.parts[m]; !p.made {
			names = append(names, p.m.name)
		}
	}
	return strings.Join(names, ", ")
}

// begin sends the plan and the input.
func (s *hubSet) begin() error {
	plan, err := s.order.Plan.Append(nil)
	if err != nil {
		return fmt.Errorf("relay: plan: %w", err)
	}
	h := s.h
	h.mu.Lock()
	defer h.mu.Unlock()
	// Machines count a set until they have closed it.
	if err := h.await(s, func() bool { return len(h.sets) < child.SetsMax }); err != nil {
		return err
	}
	shared := map[int]int{}
	for m := range s.parts {
		shared[m] = h.sharing(&s.order, m)
	}
	h.sets[s.number], h.next = s, s.number+1
	for m, p := range s.parts {
		from := shared[m]
		s.serving.Go(func() { s.feed(p, plan, from) })
	}
	return nil
}

// feed sends the plan to a machine, and the input unless a set there has it already.
func (s *hubSet) feed(p *part, plan []byte, sharing int) {
	input := p.m.bulk.open(flow{id: flowID{uint32(s.number), noWorker}, sendWindow: inputWindow, blobs: noFiles})
	err := p.m.express.process(child.Packet{Kind: child.KindPlan, Set: s.number, Body: &child.PlanBody{Plan: plan}},
		sharing)
	if err != nil || sharing != s.number {
		return // the session's end is for Changed to take
	}
	body, hd := s.order.Input.Body(), make([]byte, headBytes)
	for at := 0; at < len(body); at += chunkBytes {
		(&head{uint32(s.number), noWorker, fileInput, uint64(at)}).put(hd)
		if !input.send(session.Blob, hd, body[at:min(at+chunkBytes, len(body))]) {
			return
		}
		s.progress()
	}
}

// made waits until all machines have made their memory, and gives their remarks.
func (s *hubSet) made() (remark string, err error) {
	h := s.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.await(s, func() bool { return s.unmade() == "" }); err != nil {
		return "", err
	}
	var all []string
	for _, m := range slices.Sorted(maps.Keys(s.parts)) {
		if p := s.parts[m]; p.remark != "" {
			all = append(all, p.m.name+": "+p.remark)
		}
	}
	return strings.Join(all, "; "), nil
}

// send sends a packet about the set to a machine. An error is the session's end, which Changed takes.
func (s *hubSet) send(m *peer, k child.Kind, body child.Body) {
	_ = m.express.process(child.Packet{Kind: k, Set: s.number, Body: body}, 0)
}

// Start implements child.Workers.
func (s *hubSet) Start(index int, spec child.Spec) {
	h, m := s.h, s.h.machines[s.order.Plan.Machine[index]]
	id := flowID{uint32(s.number), uint16(index)}
	w := &hubWorker{s: s, index: index, spec: spec}
	h.mu.Lock()
	lost := m.lost
	if lost == nil {
		w.express = m.express.open(flow{id: id, limit: windowBytes, sendWindow: windowBytes, granted: windowBytes,
			window: windowBytes})
		w.bulk = m.bulk.open(flow{id: id, limit: windowBytes, sendWindow: windowBytes, granted: windowBytes,
			window: windowBytes, blobs: [files]int64{-1, fileFrom(spec.Trace), fileFrom(spec.Profile),
				fileFrom(spec.Spool), -1}})
		s.workers[index] = w
	}
	h.mu.Unlock()
	if lost != nil {
		spec.Close()
		h.cfg.To.Exit(s.number, index, workerproc.Exit{Lost: true,
			Text: workerproc.LostPrefix + lost.Error()}, nil)
		return
	}
	s.send(m, child.KindStart, &child.StartBody{Worker: index, Threads: spec.Threads, Trace: spec.Trace != nil,
		Profile: spec.Profile != nil, Saves: spec.Spool != nil})
	s.serving.Go(w.passDown)
	s.serving.Go(w.store)
	s.serving.Go(func() {
		w.passUp()
		w.express.stop()
		w.bulk.stop()
	})
}

// fileFrom is where a file begins, for flow.blobs.
func fileFrom(f *os.File) int64 {
	if f == nil {
		return -1
	}
	return 0
}

// passDown passes on what the launcher sends the worker, "prepare" behind what it begins with.
func (w *hubWorker) passDown() {
	err := pass(w.spec.Control, hubWriter{w}, func(t worker.MessageType, body []byte) error {
		switch {
		case t == worker.TypeSave:
			w.fresh.Store(true) // all of the part before has come
		case t == worker.TypePrepare && w.spec.Restore != nil && worker.Restores(body):
			return w.sendState()
		}
		return nil
	})
	if err != nil {
		w.s.h.cfg.To.Fail(err)
	}
	b := make([]byte, headBytes)
	(&head{uint32(w.s.number), uint16(w.index), isEnd, w.sent}).put(b)
	w.express.send(session.Control, b)
}

// hubWriter sends what the launcher has sent, at most chunkBytes at a time.
type hubWriter struct{ w *hubWorker }

func (to hubWriter) Write(b []byte) (int, error) {
	w, hd := to.w, make([]byte, headBytes)
	(&head{uint32(w.s.number), uint16(w.index), isBytes, w.sent}).put(hd)
	if !w.express.send(session.Control, hd, b) {
		return 0, errShut
	}
	return len(b), nil
}

// sendState sends the state that the worker begins with: all of the launcher's file.
func (w *hubWorker) sendState() error {
	b := make([]byte, headBytes+chunkBytes)
	for at := int64(0); ; {
		n, err := w.spec.Restore.ReadAt(b[headBytes:], at)
		(&head{uint32(w.s.number), uint16(w.index), fileRestore, w.sent}).put(b)
		if n > 0 && !w.bulk.send(session.Blob, b[:headBytes+n]) {
			return nil
		}
		at, w.sent = at+int64(n), w.sent+uint64(n)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("relay: reading what worker %d begins with: %w", w.s.order.Plan.First+w.index, err)
		}
	}
}

// passUp passes on what the worker sends the launcher, each behind what it has traced before, and its end.
func (w *hubWorker) passUp() {
	to := w.s.h.cfg.To
	for {
		it, ok := w.express.next()
		if !ok {
			return
		}
		switch b := it.packet.Body.(type) {
		case *child.OutputBody:
			to.Output(w.s.number, w.index, b.Bytes)
		case *child.ExitBody:
			to.Exit(w.s.number, w.index, b.Exit, b.Lanes)
			return
		default:
			if !w.bulk.await(it.head.at) {
				return
			}
			if it.head.what == isEnd {
				w.finish(it.bytes)
			} else {
				_, _ = w.spec.Control.Write(it.bytes) // an error: the launcher has closed its end
			}
		}
		w.express.done()
	}
}

// finish ends the worker's control stream, with the last numbers of its board.
func (w *hubWorker) finish(numbers []byte) {
	w.spec.Control.Close()
	h := w.s.h
	h.mu.Lock()
	var err error
	if w.shown = true; len(numbers) > 0 && !w.s.closed {
		err = w.s.show(w.index, parseNumbers(numbers))
	}
	h.mu.Unlock()
	if err != nil {
		h.cfg.To.Note(err.Error())
	}
}

// show puts a worker's numbers onto its board. The caller holds h.mu, and the set isn't closed.
func (s *hubSet) show(index int, numbers []uint64) error {
	return worker.ShowNumbers(s.order.Boards[index], numbers)
}

// store writes the worker's trace, profile and spool. Where that fails nothing more of the worker is passed on: its
// "done" is about what isn't in the file.
func (w *hubWorker) store() {
	spooled := int64(0)
	for {
		it, ok := w.bulk.next()
		if !ok {
			return
		}
		name, err := "", error(nil)
		switch it.head.what {
		case fileTrace:
			name = "trace"
			_, err = w.spec.Trace.Write(it.bytes)
		case fileProfile:
			name = "profile"
			_, err = w.spec.Profile.Write(it.bytes)
		default:
			name = "checkpoints"
			if w.fresh.Swap(false) {
				spooled, err = 0, w.spec.Spool.Truncate(0)
			}
			if err == nil {
				_, err = w.spec.Spool.WriteAt(it.bytes, spooled)
			}
			spooled += int64(len(it.bytes))
		}
		if err != nil {
			w.bulk.stop()
			if at := (*fs.PathError)(nil); errors.As(err, &at) { // the name is no file's
				err = at.Err
			}
			w.s.h.cfg.To.Fail(fmt.Errorf("on the launcher's machine: writing the %s of worker %d: %w", name,
				w.s.order.Plan.First+w.index, err))
			return
		}
		w.bulk.done()
	}
}

// Kill implements child.Workers.
func (s *hubSet) Kill(index int) {
	s.h.mu.Lock()
	w := s.workers[index]
	again := w == nil || w.killed
	if !again {
		w.killed = true
	}
	s.h.mu.Unlock()
	if !again {
		s.send(s.h.machines[s.order.Plan.Machine[index]], child.KindKill, &child.WorkerBody{Worker: index})
	}
}

// Release implements child.Workers.
func (s *hubSet) Release() {
	for _, p := range s.parts {
		s.send(p.m, child.KindRelease, &child.NoBody{})
	}
}

// Close implements child.Workers: nothing here uses the set's memory any more, and all machines are to close it.
func (s *hubSet) Close() {
	h := s.h
	h.mu.Lock()
	if s.closed {
		h.mu.Unlock()
		return
	}
	s.closed = true
	if s.othersTimer != nil {
		s.othersTimer.Stop()
	}
	begun := h.sets[s.number] == s
	parts := slices.Collect(maps.Values(s.parts))
	h.mu.Unlock()
	for _, p := range parts {
		p.m.express.drop(s.number)
		p.m.bulk.drop(s.number)
	}
	for _, w := range s.workers {
		if w != nil {
			w.spec.Control.Close()
		}
	}
	s.serving.Wait()
	for _, w := range s.workers {
		if w != nil {
			w.spec.Close()
		}
	}
	if !begun {
		return
	}
	for _, p := range parts {
		s.send(p.m, child.KindClose, &child.NoBody{})
		h.mu.Lock()
		if p.m.lost != nil {
			h.gone(s, p.number)
		}
		h.mu.Unlock()
	}
}
