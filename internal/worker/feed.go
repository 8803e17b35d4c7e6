// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/router"
	"github.com/disco-sim/disco/shm"
)

// feed is how what peers send reaches the cycle: straight from the ingress, or through
// a goroutine that empties the lanes beside it.
type feed interface {
	// poll hands what has come to sink and returns how much it was. only names the one
	// peer to listen to, -1 all.
	poll(sink router.Sink, only int) (int, error)
	// release ends the lease of a payload that lies in a peer's pool. What goes wrong
	// there is the peer's fault, and the next poll returns it.
	release(lease uint64)
	// check looks for words that only this end writes and that somebody else has overwritten.
	check() error
	// bell is the doorbell that rings when there is something to poll.
	bell() *shm.Doorbell
	// reset forgets everything of the last replication; listen starts and stops taking
	// in. Nothing is taken in between reset and listen(true): peers may not have reset
	// their ends yet.
	reset() error
	listen(on bool)
	close() error
}

// newFeed makes the feed for what the peers send, which rise. Peers ring bell when they have sent something; cycle is
// what the duty cycle sleeps on, the same one unless a thread takes in.
func newFeed(in router.Receiver, peers []int, setup *Setup, bell, cycle *shm.Doorbell) (feed, error) {
	if setup.Tuning.Ingress == IngressDuty {
		return &dutyFeed{in: in, rung: bell}, nil
	}
	return newThreadFeed(in, peers, setup, bell, cycle)
}

// dutyFeed polls the lanes in the worker's own cycle.
type dutyFeed struct {
	in   router.Receiver
	rung *shm.Doorbell
	err  error // of a release
}

func (f *dutyFeed) poll(sink router.Sink, only int) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	if only >= 0 {
		return f.in.PollPeer(sink, only)
	}
	return f.in.Poll(sink)
}

func (f *dutyFeed) release(lease uint64) { f.err = errors.Join(f.err, f.in.Release(lease)) }

func (f *dutyFeed) check() error {
	if err := f.in.Check(); err != nil {
		return err
	}
	return f.in.CheckReturns()
}

func (f *dutyFeed) bell() *shm.Doorbell { return f.rung }
func (f *dutyFeed) reset() error        { return f.in.Reset() }
func (f *dutyFeed) listen(bool)         {}
func (f *dutyFeed) close() error        { return nil }

// threadFeed polls the lanes on a thread of its own and hands the cycle a batch of each peer under a
// lock: the cycle takes what one peer has sent and leaves the rest where it holds enough (cycle.takeInLeast), and what
// it leaves holds up no other peer. It keeps lanes moving while a handler takes long, at the price of one more copy
// and one more thread; docs/ARCHITECTURE.md has what it measured.
type threadFeed struct {
	in     router.Receiver
	outer  *shm.Doorbell // rung by peers: wakes the thread
	inner  *shm.Doorbell // rung by the thread, and by peers that give room back: wakes the cycle
	waiter *shm.Waiter
	stop   atomic.Bool
	done   chan struct{}

	each  int         // bytes of a batch that is full; immutable
	peers []*peerFeed // immutable

	mu  sync.Mutex
	err error // guarded by mu
	on  bool  // guarded by mu: the thread takes in

	released error // owned by the cycle: of a release
	kept     int   // owned by the cycle: bytes of memory of all batches that it has emptied
}

// peerFeed is what one peer has sent.
type peerFeed struct {
	peer  int   // immutable
	fresh batch // guarded by threadFeed.mu: filled by the thread
	back  batch // owned by the cycle
}

// batch is what has come since the last look, in order.
type batch struct {
	items []item
	bytes []byte // headers and data of the items
	kept  int    // owned by the cycle: bytes of threadFeed.kept
}

type item struct {
	peer  int
	kind  itemKind
	ev    envelope.Event // Headers and Data stand in bytes, but for leased Data
	at    int            // where they start
	lease uint64
	p     envelope.Promise
	epoch float64
	level uint32
}

type itemKind uint8

const (
	itemEvent itemKind = iota
	itemPromise
	itemBound
)

// batchBytesMax bounds what the thread holds for the cycle, and what the cycle takes from it at once: the items, and
// headers and data that were copied. Each peer has a share of it. Beyond that its lane fills, and it waits; one look at
// the lane, which is at most what its ring holds, and one payload that came in parts, may come on top. 2 MiB are some
// 10,000 small events.
const batchBytesMax = 2 << 20

// batchKeptMax bounds the memory of empty batches that is kept for what comes next, for all peers together: what a full
// batch of each takes, twice because memory grows by doubling, and twice because each has two.
const batchKeptMax = 4 * batchBytesMax

const itemBytes = 192 // an item, rounded up

func newThreadFeed(in router.Receiver, peers []int, setup *Setup, bell, cycle *shm.Doorbell) (*threadFeed, error) {
	w, err := newWaiter(setup, bell)
	if err != nil {
		return nil, err
	}
	f := &threadFeed{in: in, outer: bell, inner: cycle, waiter: w, done: make(chan struct{}),
		each: batchBytesMax / max(1, len(peers))}
	for _, peer := range peers {
		f.peers = append(f.peers, &peerFeed{peer: peer})
	}
	go f.run()
	return f, nil
}

func (f *threadFeed) run() {
	defer close(f.done)
	for !f.stop.Load() {
		n, failed := f.takeIn()
		if n > 0 || failed {
			f.inner.Ring()
		}
		f.waiter.Idle(n > 0)
	}
}

// takeIn looks once at the lanes of all peers whose batches aren't full.
func (f *threadFeed) takeIn() (n int, failed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.on || f.err != nil {
		return 0, f.err != nil
	}
	for _, p := range f.peers {
		if p.fresh.bytesHeld() < f.each {
			taken, err := f.in.PollPeer(&p.fresh, p.peer)
			n, f.err = n+taken, errors.Join(f.err, err)
		}
	}
	if n == 0 && f.err == nil {
		f.err = f.in.Check()
	}
	return n, f.err != nil
}

func (f *threadFeed) poll(sink router.Sink, only int) (n int, err error) {
	f.mu.Lock()
	for _, p := range f.peers {
		if only < 0 || p.peer == only {
			p.fresh, p.back = p.back, p.fresh
		}
	}
	err = errors.Join(f.err, f.released)
	f.mu.Unlock()
	full := false
	for _, p := range f.peers {
		if only >= 0 && p.peer != only {
			continue
		}
		n, full = n+len(p.back.items), full || p.back.bytesHeld() >= f.each
		for i := range p.back.items {
			if e := p.back.deliver(&p.back.items[i], sink); e != nil && err == nil {
				err = e
			}
		}
		f.clear(&p.back)
	}
	if full {
		f.outer.Ring() // the thread may sleep because a batch was full
	}
	return n, err
}

func (b *batch) bytesHeld() int { return len(b.items)*itemBytes + len(b.bytes) }

// clear forgets all items of a batch that the cycle has taken. Its memory is kept where all that is kept isn't more
// than batchKeptMax: one look at a lane may have taken far more than the peer's share.
func (f *threadFeed) clear(b *batch) {
	f.kept -= b.kept
	b.kept = cap(b.items)*itemBytes + cap(b.bytes)
	if f.kept+b.kept > batchKeptMax {
		*b = batch{}
	}
	f.kept += b.kept
	b.items, b.bytes = b.items[:0], b.bytes[:0]
}

func (b *batch) deliver(it *item, sink router.Sink) error {
	switch it.kind {
	case itemEvent:
		h := it.at + len(it.ev.Headers)
		if it.lease == 0 {
			it.ev.Data = b.bytes[h : h+len(it.ev.Data)]
		}
		it.ev.Headers = b.bytes[it.at:h]
		return sink.ReceiveEvent(it.peer, &it.ev, it.lease)
	case itemPromise:
		return sink.ReceivePromise(it.peer, &it.p)
	}
	return sink.ReceiveBound(it.peer, it.epoch, it.level)
}

// ReceiveEvent implements router.Sink: it keeps a copy, because the record's memory
// ends with the call. The slices in the item are set again when the bytes have stopped
// moving.
func (b *batch) ReceiveEvent(peer int, ev *envelope.Event, lease uint64) error {
	b.items = append(b.items, item{peer: peer, kind: itemEvent, ev: *ev, at: len(b.bytes), lease: lease})
	b.bytes = append(b.bytes, ev.Headers...)
	if lease == 0 {
		b.bytes = append(b.bytes, ev.Data...)
	}
	return nil
}

// ReceivePromise implements router.Sink.
func (b *batch) ReceivePromise(peer int, p *envelope.Promise) error {
	b.items = append(b.items, item{peer: peer, kind: itemPromise, p: *p})
	return nil
}

// ReceiveBound implements router.Sink.
func (b *batch) ReceiveBound(peer int, epoch float64, level uint32) error {
	b.items = append(b.items, item{peer: peer, kind: itemBound, epoch: epoch, level: level})
	return nil
}

// release may run beside the thread's poll: package ingress allows that.
func (f *threadFeed) release(lease uint64) { f.released = errors.Join(f.released, f.in.Release(lease)) }

// check leaves what the thread writes to the thread.
func (f *threadFeed) check() error { return f.in.CheckReturns() }

func (f *threadFeed) bell() *shm.Doorbell { return f.inner }

func (f *threadFeed) reset() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.peers {
		f.clear(&p.fresh)
	}
	return f.in.Reset()
}

func (f *threadFeed) listen(on bool) {
	f.mu.Lock()
	f.on = on
	f.mu.Unlock()
	f.outer.Ring()
}

// errThread is returned by close when the thread doesn't end: nothing that it uses may be closed then.
var errThread = errors.New("worker: the thread that takes in events doesn't end")

// threadEnd is how long the thread may take to end: it looks at its order after each pass.
const threadEnd = 5 * time.Second

func (f *threadFeed) close() error { return f.closeWithin(threadEnd) }

func (f *threadFeed) closeWithin(limit time.Duration) error {
	f.stop.Store(true)
	deadline := time.After(limit)
	for {
		f.outer.Ring()
		select {
		case <-f.done:
			return nil
		case <-deadline:
			return fmt.Errorf("%w within %v", errThread, limit)
		case <-time.After(time.Millisecond):
		}
	}
}
