// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"fmt"
	"sync"
	"time"

	"github.com/disco-sim/disco/internal/child"
	"github.com/disco-sim/disco/internal/session"
)

// carrier sends and receives on one session, for all flows there. Frames are sent by whoever has turn; they wait for
// nobody who receives them, since the other side takes them without waiting.
type carrier struct {
	s *session.Session

	turn sync.Mutex    // held from Frame or State to Flush; never with mu
	room chan struct{} // Acked was called

	mu    sync.Mutex // guards the rest, and flows
	flows map[flowID]*flow
	again bool // all credits are to be sent: there is another connection
	over  bool // nothing is sent any more, and what comes is dropped

	wake  chan struct{} // there are credits to be sent, or it is over
	ended sync.WaitGroup
}

// flowID says whose bytes they are.
type flowID struct {
	set    uint32
	worker uint16
}

// flow is what is sent and received for one worker on one session, each within its window. c.mu guards it.
type flow struct {
	c     *carrier
	id    flowID
	moved *sync.Cond // something below has changed
	shut  bool       // nothing is sent any more, and what comes is dropped

	sent, limit uint64 // costs: sent; up to which the other side has room
	sendWindow  uint64 // most that limit may be above sent

	items       []item // came, and weren't passed on
	came, taken uint64 // costs: of all that came, of what was passed on
	granted     uint64 // up to which the other side may send
	window      uint64

	blobs  [files]int64 // bytes of each file that came; below 0: none does
	passed uint64       // bytes of blobs that were passed on
}

// item is a frame that came.
type item struct {
	of     session.Type
	head   head         // of a control or blob frame
	bytes  []byte       // behind it
	packet child.Packet // of a process frame
	cost   uint64
}

// noFiles is for flows in which no file comes.
var noFiles = [files]int64{-1, -1, -1, -1, -1}

// newCarrier begins to carry. show is called now and then, by the goroutine that sends credits; nil: there is nothing.
func newCarrier(s *session.Session, show func(*carrier)) *carrier {
	c := &carrier{s: s, room: make(chan struct{}, 1), flows: map[flowID]*flow{}, again: true,
		wake: make(chan struct{}, 1)}
	c.ended.Go(func() { c.serve(show) })
	return c
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// changed takes a new state of the session. It reports whether that was its end, which end is to follow.
func (c *carrier) changed(s session.State) (over bool) {
	if s == session.Up {
		c.mu.Lock()
		c.again = true
		c.mu.Unlock()
		notify(c.wake)
	}
	return s == session.Lost || s == session.Ended
}

// end ends every wait for something to be sent, or to come.
func (c *carrier) end() {
	c.mu.Lock()
	c.over = true
	for _, f := range c.flows {
		f.close()
	}
	c.mu.Unlock()
	notify(c.wake)
}

// open adds a flow with these numbers.
func (c *carrier) open(with flow) *flow {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := &with
	f.c, f.moved, f.shut = c, sync.NewCond(&c.mu), c.over
	c.flows[f.id] = f
	return f
}

// drop forgets the flows of a set.
func (c *carrier) drop(set int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, f := range c.flows {
		if id.set == uint32(set) {
			f.close()
			delete(c.flows, id)
		}
	}
}

// send sends one frame. The error is why the session has ended.
func (c *carrier) send(t session.Type, parts ...[]byte) error {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	c.turn.Lock()
	defer c.turn.Unlock()
	for {
		if body, ok := c.s.Frame(session.Header{Type: t}, size); ok {
			for _, p := range parts {
				body = body[copy(body, p):]
			}
			return c.s.Flush()
		}
		if err := c.s.Flush(); err != nil {
			return err
		}
		<-c.room // the other side has acknowledged something, or the session has ended
	}
}

// process sends a packet. sharing is for a plan: the set whose input is that of this one too; 0 otherwise.
func (c *carrier) process(p child.Packet, sharing int) error {
	b, err := p.Append(le.AppendUint32(nil, uint32(sharing)))
	if err != nil {
		return err
	}
	return c.send(session.Process, b)
}

// state sends one frame that isn't kept.
func (c *carrier) state(t session.Type, body []byte) {
	if len(body) == 0 {
		return
	}
	c.turn.Lock()
	defer c.turn.Unlock()
	copy(c.s.State(session.Header{Type: t}, len(body)), body)
	_ = c.s.Flush() // whoever waits for the session learns why it has ended
}

// serve sends credits, and has boards shown, until the end.
func (c *carrier) serve(show func(*carrier)) {
	ticker := time.NewTicker(showEvery)
	defer ticker.Stop()
	if show == nil {
		ticker.Stop()
	}
	for {
		select {
		case <-c.wake:
		case <-ticker.C:
			show(c)
		}
		credits, over := c.credits()
		if over {
			return
		}
		c.state(session.Credit, credits)
	}
}

// credits are those that are due.
func (c *carrier) credits() (b []byte, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, f := range c.flows {
		n := f.taken + f.window
		if n == 0 || !c.again && !f.due() {
			continue
		}
		f.granted = n
		h := head{id.set, id.worker, 0, n}
		b = append(b, make([]byte, headBytes)...)
		h.put(b[len(b)-headBytes:])
	}
	c.again = false
	return b, c.over
}

// due reports whether the other side is to learn of room: a quarter of the window.
func (f *flow) due() bool {
	n := f.taken + f.window
	return n > f.granted && n-f.granted >= f.window/4
}

// applyCredits takes what the other side has room for.
func (c *carrier) applyCredits(body []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := 0; at < len(body); at += headBytes {
		var h head
		if _, err := h.parse(body, at, 1); err != nil {
			return err
		}
		f := c.flows[h.flow()]
		if f == nil {
			continue // of a set that was closed: a newer one has come before
		}
		if h.at > f.sent+f.sendWindow {
			return bad(at+8, fmt.Sprint("credit ", h.at), fmt.Sprint("up to ", f.sent+f.sendWindow))
		}
		if h.at > f.limit {
			f.limit = h.at
			f.moved.Broadcast()
		}
	}
	return nil
}

// apply takes a frame of a flow, whose bytes it copies. False: there is no such flow.
func (c *carrier) apply(id flowID, it item, body int) (known bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.flows[id]
	if f == nil {
		return false, nil
	}
	it.cost = costOf(body)
	if f.came+it.cost > f.granted+costMost {
		return true, bad(0, fmt.Sprint(f.came+it.cost, " bytes in all"), fmt.Sprint("up to ", f.granted,
			" and one frame"))
	}
	if it.of == session.Blob {
		if err := f.follow(&it); err != nil {
			return true, err
		}
	}
	f.came += it.cost
	if f.shut {
		f.taken = f.came
		return true, nil
	}
	it.bytes = append([]byte(nil), it.bytes...)
	f.items = append(f.items, it)
	f.moved.Broadcast()
	return true, nil
}

// stores reports whether files come in a flow, or it isn't there.
func (c *carrier) stores(id flowID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.flows[id]
	return f == nil || f.blobs != noFiles
}

// follow checks that a blob frame goes on where the one before has ended.
func (f *flow) follow(it *item) error {
	came := &f.blobs[it.head.what]
	if *came < 0 || it.head.at != uint64(*came) || len(it.bytes) == 0 {
		return bad(6, fmt.Sprintf("file %d, %d bytes from %d", it.head.what, len(it.bytes), it.head.at),
			fmt.Sprintf("of a file that was asked for 1 or more, here from %d", *came))
	}
	*came += int64(len(it.bytes))
	return nil
}

// send sends a frame in the flow when there is room for it. False: it is shut. Any goroutine may call it; the frames of
// one are in order.
func (f *flow) send(t session.Type, parts ...[]byte) bool {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	f.c.mu.Lock()
	for f.sent >= f.limit && !f.shut {
		f.moved.Wait()
	}
	shut := f.shut
	f.sent += costOf(size)
	f.c.mu.Unlock()
	return !shut && f.c.send(t, parts...) == nil
}

// process sends a packet in the flow. A flow that is shut is no error.
func (f *flow) process(p child.Packet) error {
	b, err := p.Append(le.AppendUint32(nil, 0))
	if err == nil {
		f.send(session.Process, b)
	}
	return err
}

// next waits for the first frame that wasn't passed on. done has to follow. False: the flow is shut.
func (f *flow) next() (it *item, ok bool) {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	for len(f.items) == 0 && !f.shut {
		f.moved.Wait()
	}
	if f.shut {
		return nil, false
	}
	return &f.items[0], true
}

// done follows when what next has given was passed on.
func (f *flow) done() {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	if f.shut {
		return
	}
	it := f.items[0]
	f.items[0] = item{}
	f.items = f.items[1:]
	f.taken += it.cost
	if it.of == session.Blob {
		f.passed += uint64(len(it.bytes))
	}
	f.moved.Broadcast()
	if f.due() {
		notify(f.c.wake)
	}
}

// await waits until so many bytes of blobs were passed on. False: the flow is shut.
func (f *flow) await(blobs uint64) bool {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	for f.passed < blobs && !f.shut {
		f.moved.Wait()
	}
	return f.passed >= blobs
}

// stop shuts the flow.
func (f *flow) stop() {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	f.close()
}

// close shuts the flow. Its caller holds c.mu.
func (f *flow) close() {
	f.shut, f.items, f.taken = true, nil, f.came
	f.moved.Broadcast()
}
