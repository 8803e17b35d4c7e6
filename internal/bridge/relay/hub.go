// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/disco-sim/disco/internal/child"
	"github.com/disco-sim/disco/internal/session"
)

// Machine is one of the machines of a run, by its number.
type Machine struct {
	Name     string              // for people
	Sessions [2]*session.Session // with it, by stream
}

// HubConfig says what a hub joins.
type HubConfig struct {
	Machines []Machine
	To       Launcher

	// MakeTimeout is how long Make waits without progress: while no byte of the input goes, and no machine is done.
	MakeTimeout time.Duration
	// RefuseTimeout is how long, since a machine has refused a set, Make waits for what the others say of it.
	RefuseTimeout time.Duration
}

// Hub is the child's end. Apply, Changed and Acked are those of the sessions' Config, which wait for nothing; any
// goroutine may call the others. The sessions stay their owner's, who closes them behind Close.
type Hub struct {
	cfg      HubConfig
	machines []*peer

	mu      sync.Mutex // guards the rest, what machines are, and what sets say so; taken before that of a carrier
	moved   *sync.Cond // something has changed that a Make waits for
	sets    map[int]*hubSet
	next    int // above the numbers of all sets so far
	closing bool
	serving sync.WaitGroup
}

// peer is one of them, as the hub sees it.
type peer struct {
	name          string
	express, bulk *carrier
	own           *flow // notes and failures of the machine itself
	lost          error // why it can't be reached any more; guarded by Hub.mu
}

// NewHub begins to serve sessions. They have been made before; those to machines without workers carry nothing.
func NewHub(cfg HubConfig) *Hub {
	h := &Hub{cfg: cfg, sets: map[int]*hubSet{}}
	h.moved = sync.NewCond(&h.mu)
	for _, m := range cfg.Machines {
		own := &peer{name: m.Name, express: newCarrier(m.Sessions[session.Express], nil),
			bulk: newCarrier(m.Sessions[session.Bulk], nil)}
		own.own = own.express.open(flow{id: ownID, granted: windowBytes, window: windowBytes})
		h.machines = append(h.machines, own)
		h.serving.Go(func() { h.report(own) })
	}
	return h
}

func (m *peer) carrier(on session.Stream) *carrier {
	if on == session.Bulk {
		return m.bulk
	}
	return m.express
}

// Alone calls f while the hub sends nothing to a machine, so that f may use its sessions. What the hub has to send then
// waits: f has to end by itself, and before Close.
func (h *Hub) Alone(machine int, f func()) {
	m := h.machines[machine]
	m.express.turn.Lock()
	defer m.express.turn.Unlock()
	m.bulk.turn.Lock()
	defer m.bulk.turn.Unlock()
	f()
}

// Make has the machines of a plan make the memory of a set. It is a child.Host's: one goroutine calls it, for sets
// whose numbers rise.
func (h *Hub) Make(o child.Order) (w child.Workers, remark string, err error) {
	s := newHubSet(h, o)
	late := time.AfterFunc(h.cfg.MakeTimeout, func() { s.expire(&s.late) })
	defer late.Stop()
	s.progress = func() { late.Reset(h.cfg.MakeTimeout) }
	ended := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-o.GivenUp:
			s.expire(&s.givenUp)
		case <-ended:
		}
	})
	defer watching.Wait()
	defer close(ended)
	if err = s.begin(); err == nil {
		remark, err = s.made()
	}
	if err != nil {
		if s.refused == err {
			h.cfg.To.Fail(err)
		}
		s.Close()
		return nil, "", err
	}
	return s, remark, nil
}

// await waits until ready reports true, or the set can't be made. The caller holds h.mu.
func (h *Hub) await(s *hubSet, ready func() bool) error {
	for {
		switch err := s.trouble(); {
		case err != nil:
			return err
		case ready():
			return nil
		case s.late:
			return child.Refuse(fmt.Errorf("relay: no answer for %v from %s about the memory of set %d",
				h.cfg.MakeTimeout, s.unmade(), s.number))
		}
		h.moved.Wait()
	}
}

// sharing is the number of a set that a machine has made and that has the same input as o; o's own where there is none.
// The caller holds h.mu.
func (h *Hub) sharing(o *child.Order, on int) int {
	for number, s := range h.sets {
		p := s.parts[on]
		if p != nil && p.made && !s.closed && s.order.Input.ID() == o.Input.ID() {
			return number
		}
	}
	return o.Set
}

// Apply takes a frame from a machine.
func (h *Hub) Apply(from int, on session.Stream, hd session.Header, body []byte) error {
	h.mu.Lock()
	closing := h.closing
	h.mu.Unlock()
	if closing {
		return nil
	}
	m := h.machines[from]
	switch hd.Type {
	case session.Control, session.Blob:
		return h.applyFlow(m, on, hd.Type, body)
	case session.Process:
		return h.applyProcess(from, body)
	case session.Credit:
		return m.carrier(on).applyCredits(body)
	case session.Boards:
		return h.applyBoards(from, body)
	case session.Pong:
		return nil
	}
	return badType(hd, "control, process, boards, credit; blob, credit")
}

// applyFlow takes bytes of a worker.
func (h *Hub) applyFlow(m *peer, on session.Stream, t session.Type, body []byte) error {
	it := item{of: t}
	most := files
	if t == session.Control {
		most = isEnd + 1
	}
	var err error
	if it.bytes, err = it.head.parse(body, 0, most); err != nil {
		return err
	}
	if it.head.worker == noWorker {
		return bad(4, "no worker", "one that was started there")
	}
	if t == session.Control && it.head.what == isEnd && len(it.bytes) != 0 && len(it.bytes) != numbersBytes {
		return bad(headBytes, fmt.Sprint(len(it.bytes), " bytes of a board"), fmt.Sprint("0 or ", numbersBytes))
	}
	if t == session.Control && it.head.at > 0 && !m.bulk.stores(it.head.flow()) {
		return bad(8, fmt.Sprint("behind ", it.head.at, " bytes of files"), "0 of a worker without any")
	}
	return h.take(m.carrier(on), it.head.flow(), it, len(body))
}

// take puts what has come into its flow.
func (h *Hub) take(c *carrier, id flowID, it item, size int) error {
	known, err := c.apply(id, it, size)
	if known || err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over(int(id.set)) {
		return nil // it was on its way
	}
	return bad(0, fmt.Sprintf("worker %d of set %d", id.worker, id.set), "one that was started there")
}

// over reports whether there was such a set, which is closed or to be closed. The caller holds h.mu.
func (h *Hub) over(set int) bool {
	s := h.sets[set]
	return s == nil && set < h.next || s != nil && s.closed
}

// applyProcess takes a packet.
func (h *Hub) applyProcess(from int, body []byte) error {
	it := item{of: session.Process}
	if _, err := it.parsePacket(body); err != nil {
		return err
	}
	p := &it.packet
	id := ownID
	switch p.Kind {
	case child.KindMade:
		return h.applyMade(from, p.Set, p.Body.(*child.TextBody).Text)
	case child.KindClose:
		return h.applyClosed(from, p.Set)
	case child.KindOutput:
		id = flowID{uint32(p.Set), uint16(p.Body.(*child.OutputBody).Worker)}
	case child.KindExit:
		id = flowID{uint32(p.Set), uint16(p.Body.(*child.ExitBody).Worker)}
	case child.KindLost:
		if m := p.Body.(*child.LostBody).Machine; m < 0 || m >= len(h.machines) || m == from {
			return bad(packetAt, fmt.Sprint("machine ", m, " lost"), "another one of the run's")
		}
	case child.KindNote, child.KindFailed:
	default:
		return bad(packetAt+1, p.Kind, "made, output, exit, lost, note, failed or close")
	}
	return h.take(h.machines[from].express, id, it, len(body))
}

// applyMade takes that a machine has made its memory of a set.
func (h *Hub) applyMade(from, set int, remark string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.sets[set]
	if s == nil || s.parts[from] == nil || s.parts[from].made {
		return bad(packetAt+4, fmt.Sprint("set ", set, " made"), "one of this machine's, once")
	}
	s.parts[from].made, s.parts[from].remark = true, remark
	if s.progress(); s.closed {
		return nil
	}
	h.moved.Broadcast()
	return nil
}

// applyClosed takes that a machine has closed a set.
func (h *Hub) applyClosed(from, set int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.sets[set]
	if s == nil || !s.closed || s.parts[from] == nil {
		return bad(packetAt+4, fmt.Sprint("set ", set, " closed"), "one that was to be closed")
	}
	h.gone(s, from)
	return nil
}

// gone forgets what a machine has of a set, and the set with the last one. The caller holds h.mu.
func (h *Hub) gone(s *hubSet, machine int) {
	delete(s.parts, machine)
	if len(s.parts) == 0 && s.closed {
		delete(h.sets, s.number)
		h.moved.Broadcast()
	}
}

// applyBoards puts numbers onto the launcher's boards.
func (h *Hub) applyBoards(from int, body []byte) error {
	const entry = headBytes + numbersBytes
	if len(body)%entry != 0 {
		return bad(0, fmt.Sprint("a body of ", len(body)), fmt.Sprint("a multiple of ", entry))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for at := 0; at < len(body); at += entry {
		var hd head
		rest, err := hd.parse(body, at, 1)
		if err != nil {
			return err
		}
		s, w := h.sets[int(hd.set)], int(hd.worker)
		if h.over(int(hd.set)) {
			continue // it was on its way
		}
		if s == nil || w >= len(s.workers) || int(s.order.Plan.Machine[w]) != from || s.workers[w] == nil {
			return bad(at, fmt.Sprintf("worker %d of set %d", w, hd.set), "one that was started there")
		}
		if s.workers[w].shown {
			continue // its last ones
		}
		if err := s.show(w, parseNumbers(rest)); err != nil {
			return err
		}
	}
	return nil
}

// report passes on what a machine reports about itself.
func (h *Hub) report(m *peer) {
	for {
		it, ok := m.own.next()
		if !ok {
			return
		}
		switch b := it.packet.Body.(type) {
		case *child.TextBody:
			h.cfg.To.Note(m.name + ": " + b.Text)
		case *child.LostBody:
			h.Lost(b.Machine, b.Text)
		case *child.FailedBody:
			err := errors.New(b.Text)
			if !strings.HasPrefix(b.Text, m.name) {
				err = fmt.Errorf("%s: %s", m.name, b.Text)
			}
			if !b.Refused {
				h.fail(err)
			} else if !h.refuse(m, err) {
				h.fail(child.Refuse(err))
			}
		}
		m.own.done()
	}
}

// refuse takes that a machine refuses the set that is being made; false: it is none of it. Others may refuse it, too.
func (h *Hub) refuse(m *peer, err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.sets {
		for _, p := range s.parts {
			if p.m == m && !p.made && !s.closed && p.refused == nil {
				p.refused = err
				if s.othersTimer == nil {
					s.othersTimer = time.AfterFunc(h.cfg.RefuseTimeout, func() { s.expire(&s.othersLate) })
				}
				h.moved.Broadcast()
				return true
			}
		}
	}
	return false
}

// fail ends the run, and what is being made.
func (h *Hub) fail(err error) {
	h.mu.Lock()
	for _, s := range h.sets {
		if s.failed == nil {
			s.failed = err
		}
	}
	h.moved.Broadcast()
	h.mu.Unlock()
	h.cfg.To.Fail(err)
}

// Changed takes a new state of a session. The end of one is that of the machine.
func (h *Hub) Changed(machine int, on session.Stream, s session.State) {
	c := h.machines[machine].carrier(on)
	if !c.changed(s) {
		return
	}
	err := c.s.Err()
	if err == nil {
		err = errors.New("it has ended its session")
	}
	h.Lost(machine, fmt.Sprintf("%s: %v", h.machines[machine].name, err))
}

// Acked takes that a session has room.
func (h *Hub) Acked(machine int, on session.Stream) { notify(h.machines[machine].carrier(on).room) }

// Lost ends everything that waits for a machine, and reports that it is lost. Only the first call for a machine does
// anything, and none behind Close.
func (h *Hub) Lost(machine int, text string) {
	m := h.machines[machine]
	h.mu.Lock()
	again := m.lost != nil || h.closing
	if m.lost == nil {
		m.lost = errors.New(text)
	}
	for _, s := range h.sets {
		if s.closed {
			h.gone(s, machine)
		}
	}
	h.moved.Broadcast()
	h.mu.Unlock()
	if !again {
		h.cfg.To.Lost(machine, text)
	}
	m.express.end()
	m.bulk.end()
}

// Close ends the hub, with the sets that are left, and returns when nothing of it runs any more. What was sent before
// is still kept by the sessions.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closing = true
	var left []*hubSet
	for _, s := range h.sets {
		left = append(left, s)
	}
	h.moved.Broadcast()
	h.mu.Unlock()
	for _, s := range left {
		s.Close()
	}
	for _, m := range h.machines {
		m.express.end()
		m.bulk.end()
	}
	h.serving.Wait()
	for _, m := range h.machines {
		m.express.ended.Wait()
		m.bulk.ended.Wait()
	}
}
