// SPDX-License-Identifier: Apache-2.0

package linktest

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/router"
)

// limit is how long anything may take before a test says that it hangs.
const limit = 60 * time.Second

// Payload fills dst with the data of one event: different for each event of each
// lane, and each byte depends on its place.
func Payload(dst []byte, from, to int, number uint64) {
	x := uint64(from)<<40 ^ uint64(to)<<20 ^ number*0x9E3779B97F4A7C15 ^ 0xD1B54A32D192ED03
	for i := range dst {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		dst[i] = byte(x)
	}
}

// headers are those of every seventh event; the others have none.
func headers(number uint64) []byte {
	if number%7 != 0 {
		return nil
	}
	return headerBytes[:number%uint64(len(headerBytes))]
}

var headerBytes = []byte("any bytes will do: links don't look into them")

// Event makes the event of a lane with a number. Its epoch is the number, so that the
// bound n says that all events below n have been sent.
func Event(from, to int, number uint64, data []byte) envelope.Event {
	return envelope.Event{Epoch: float64(number), Number: number, Target: uint32(to), Sender: uint32(from),
		Headers: headers(number), Data: data}
}

// outbox makes a worker's events for one peer, in order.
type outbox struct {
	from, to int
	number   uint64 // of the next event
	buf      []byte
	ev       envelope.Event
}

// next makes the next event, of size bytes; it lives until the call after.
func (o *outbox) next(size int) *envelope.Event {
	if cap(o.buf) < size {
		o.buf = make([]byte, size)
	}
	o.buf = o.buf[:size]
	Payload(o.buf, o.from, o.to, o.number)
	o.ev = Event(o.from, o.to, o.number, o.buf)
	o.number++
	return &o.ev
}

// unsent takes the last event back, because it could not be sent.
func (o *outbox) unsent() { o.number-- }

// inbox is the sink of all tests: it checks that every peer's events come in order,
// whole and once, and its bounds after them.
type inbox struct {
	self  int
	peers []arrivals
	hold  bool // keep leases instead of releasing them

	// onlyBounds lets bounds pass that promise more than the events that came.
	onlyBounds bool

	in router.Receiver

	refuse error // returned for everything, if not nil
	leases []held
	buf    []byte
	onto   func(peer int, ev *envelope.Event) error // extra look at each event; may be nil
}

// arrivals is what has come from one peer.
type arrivals struct {
	events   uint64
	promises uint64
	bounds   int
	epoch    float64
	level    uint32
}

// held is a lease that a test keeps.
type held struct {
	peer  int
	lease uint64
	data  []byte
	event uint64
}

func newInbox(m *Ends, self int) *inbox {
	return &inbox{self: self, peers: make([]arrivals, len(m.Out)), in: m.In[self]}
}

// ReceiveEvent implements router.Sink.
func (b *inbox) ReceiveEvent(peer int, ev *envelope.Event, lease uint64) error {
	if b.refuse != nil {
		return b.refuse
	}
	a := &b.peers[peer]
	if ev.Number != a.events || ev.Epoch != float64(a.events) || int(ev.Sender) != peer || int(ev.Target) != b.self {
		return fmt.Errorf("linktest: %v from worker %d, want its event %d", ev, peer, a.events)
	}
	if ev.Epoch < a.epoch {
		return fmt.Errorf("linktest: %v below the bound (%v, %d)", ev, a.epoch, a.level)
	}
	if string(ev.Headers) != string(headers(ev.Number)) {
		return fmt.Errorf("linktest: %v has headers %q, want %q", ev, ev.Headers, headers(ev.Number))
	}
	if cap(b.buf) < len(ev.Data) {
		b.buf = make([]byte, len(ev.Data))
	}
	want := b.buf[:len(ev.Data)]
	Payload(want, peer, b.self, ev.Number)
	if string(want) != string(ev.Data) {
		return fmt.Errorf("linktest: %v has the wrong data", ev)
	}
	a.events++
	if b.onto != nil {
		if err := b.onto(peer, ev); err != nil {
			return err
		}
	}
	if b.hold && lease != 0 {
		b.leases = append(b.leases, held{peer, lease, ev.Data, ev.Number})
		return nil
	}
	return b.in.Release(lease)
}

// ReceivePromise implements router.Sink.
func (b *inbox) ReceivePromise(peer int, p *envelope.Promise) error {
	if b.refuse != nil {
		return b.refuse
	}
	a := &b.peers[peer]
	if p.NumEvents != a.events || p.Seqnr != a.promises+1 {
		return fmt.Errorf("linktest: %v after %d events and %d promises", p, a.events, a.promises)
	}
	a.promises++
	return nil
}

// ReceiveBound implements router.Sink.
func (b *inbox) ReceiveBound(peer int, epoch float64, level uint32) error {
	if b.refuse != nil {
		return b.refuse
	}
	a := &b.peers[peer]
	if epoch < a.epoch || epoch == a.epoch && level <= a.level {
		return fmt.Errorf("linktest: bound (%v, %d) from worker %d after (%v, %d)", epoch, level, peer, a.epoch,
			a.level)
	}
	if float64(a.events) < epoch && !b.onlyBounds {
		return fmt.Errorf("linktest: bound (%v, %d) from worker %d after %d events", epoch, level, peer, a.events)
	}
	a.epoch, a.level = epoch, level
	a.bounds++
	return nil
}

// poll polls once and fails the test on an error.
func (b *inbox) poll(t testing.TB) int {
	t.Helper()
	n, err := b.in.Poll(b)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// drain polls until nothing comes.
func (b *inbox) drain(t testing.TB) {
	t.Helper()
	for b.poll(t) != 0 {
	}
}

// until polls until done, or fails.
func (b *inbox) until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := newDeadline(); !done(); {
		if b.poll(t) == 0 {
			deadline.yield(t, what)
		}
	}
}

// end polls until a lane's end comes out, and returns it.
func (b *inbox) end(t testing.TB, what string) error {
	t.Helper()
	for deadline := newDeadline(); ; {
		n, err := b.in.Poll(b)
		if err != nil {
			return err
		}
		if n == 0 {
			deadline.yield(t, what)
		}
	}
}

// deadline is the watchdog of a loop that polls.
type deadline struct{ at time.Time }

func newDeadline() deadline { return deadline{time.Now().Add(limit)} }

func (d deadline) passed() bool { return time.Now().After(d.at) }

func (d deadline) yield(t testing.TB, what string) {
	t.Helper()
	if d.passed() {
		t.Fatalf("nothing happens any more while waiting for %s", what)
	}
	runtime.Gosched()
}

// wantErr fails unless err is of a kind.
func wantErr(t testing.TB, what string, err, kind error) {
	t.Helper()
	if kind == nil {
		t.Fatalf("%s: the factory names no such error", what)
	}
	if !errors.Is(err, kind) {
		t.Errorf("%s: %v, want %v", what, err, kind)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
