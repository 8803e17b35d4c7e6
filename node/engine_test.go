// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/disco-sim/disco/envelope"
)

// sink is a model of two nodes: "far" on worker 1 sends to "near" on worker 0, which
// calls back.
type sink struct {
	handle func(p *Simproc, events []Event) error
}

func (s sink) Graph() *Graph {
	return &Graph{
		Simprocs: []string{"x"},
		Nodes:    []Node{{Name: "near"}, {Name: "far"}},
		Links:    []Link{{From: Endpoint{Node: 1}, To: Endpoint{Node: 0}, Lookahead: 1}},
	}
}

func (s sink) NewHandler(*Simproc) (Handler, error) { return s, nil }

func (s sink) Handle(p *Simproc, events []Event) error { return s.handle(p, events) }

func newSink(t *testing.T, release func(uint64), handle func(p *Simproc, events []Event) error) *Engine {
	t.Helper()
	s := sink{handle}
	plan, err := NewPlan(s.Graph(), []int32{0, 1}, 0, 2)
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEngine(plan, Config{Model: s, Horizon: 100, Release: release})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// A payload that a transport lends is read in place, and given back exactly once, when
// the handler has returned and not before, also after an error.
func TestLeasesAreReleasedOnce(t *testing.T) {
	released := map[uint64]int{}
	blocks := map[float64][]byte{}
	e := newSink(t, func(lease uint64) { released[lease]++ }, func(p *Simproc, events []Event) error {
		for _, ev := range events {
			if &ev.Data[0] != &blocks[ev.Epoch+float64(ev.Number)/1000][0] {
				t.Errorf("event %d at %v is not read in place", ev.Number, ev.Epoch)
			}
			if released[ev.Number] != 0 {
				t.Errorf("lease %d was given back before its handler returned", ev.Number)
			}
		}
		if p.Now() == 50 {
			return fmt.Errorf("that is enough")
		}
		return nil
	})
	number := uint64(0)
	for epoch := 1.0; epoch <= 60; epoch++ {
		for range 1 + int(epoch)%3 {
			number++
			data := make([]byte, 100_000)
			blocks[epoch+float64(number)/1000] = data
			ev := envelope.Event{Epoch: epoch, Number: number, Sender: 1, Target: 0, Data: data}
			if err := e.ReceiveEvent(1, &ev, number); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(released) != 0 {
		t.Fatalf("%d leases were given back before anything was handled", len(released))
	}
	if err := e.ReceiveBound(1, Never); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Run(math.MaxInt, math.Inf(1)); err == nil || !strings.Contains(err.Error(), "that is enough") {
		t.Fatalf("error is %v, want the handler's", err)
	}
	handled := e.stats.HandledRemote
	if uint64(len(released)) != handled || handled == 0 || handled == number {
		t.Errorf("%d of %d leases given back, %d events handled", len(released), number, handled)
	}
	for lease, n := range released {
		if n != 1 {
			t.Errorf("lease %d was given back %d times", lease, n)
		}
	}
}

// A run that was interrupted reports how far each simproc came.
func TestReachedAndBacklog(t *testing.T) {
	e := newSink(t, nil, func(*Simproc, []Event) error { return nil })
	for n := range uint64(5) {
		if err := e.ReceiveEvent(1, &envelope.Event{Epoch: float64(n + 1), Number: n, Sender: 1}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if e.Backlog() != 5 || e.Pending() != 6 || e.Reached() != 0 {
		t.Errorf("backlog %d, pending %d, reached %v, want 5, 6 and 0", e.Backlog(), e.Pending(), e.Reached())
	}
	if err := e.ReceiveBound(1, Bound{3.5, 0}); err != nil {
		t.Fatal(err)
	}
	if n, err := e.Run(100, math.Inf(1)); n != 4 || err != nil {
		t.Errorf("%d activations, %v, want 4: epochs 0, 1, 2 and 3", n, err)
	}
	if e.Backlog() != 2 || e.Reached() != 3.5 || e.Limiting() != 1 {
		t.Errorf("backlog %d, reached %v, limited by %d, want 2, 3.5 and 1", e.Backlog(), e.Reached(), e.Limiting())
	}
	// A bound that says less than what is known changes nothing.
	if err := e.ReceiveBound(1, Bound{2, 0}); err != nil || e.Reached() != 3.5 {
		t.Errorf("reached %v, %v, want 3.5", e.Reached(), err)
	}
	for _, b := range []Bound{{-1, 0}, {math.NaN(), 0}} {
		if err := newSink(t, nil, nil).ReceiveBound(1, b); err == nil {
			t.Errorf("a bound at %v was taken", b.Epoch)
		}
	}
}

// Methods of a Simproc that is not being called end the run: nothing could order what
// they ask for.
func TestOutsideItsOwnHandle(t *testing.T) {
	calls := map[string]func(p *Simproc) error{
		"sent outside":      func(p *Simproc) error { return p.Send(0, 50, nil) },
		"scheduled outside": func(p *Simproc) error { return p.Schedule(50, nil) },
		"outside a handler": func(p *Simproc) error { return p.Controller().SendEvent("far/x", 50, nil, nil) },
	}
	for want, call := range calls {
		e := newSink(t, nil, func(*Simproc, []Event) error { return nil })
		if err := call(&e.procs[0]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
		if _, err := e.Run(1, math.Inf(1)); err == nil {
			t.Errorf("the run goes on after %q", want)
		}
	}
}

// Ten million pending events are ten million times 100 bytes at the most, beyond their
// payloads.
func TestMemoryPerPendingEvent(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a third of a gigabyte")
	}
	const events = 10_000_000
	s := &pending{}
	s.init()
	for i := range uint64(events) {
		s.insert(entry{key: keyOf(float64(i*0x9E3779B97F4A7C15>>11) * 0x1p-53), number: i})
	}
	s.first()
	chunks := 0
	for i := range s.radix.buckets {
		for c := s.radix.buckets[i].head; c != nil; c = c.next {
			chunks++
		}
	}
	for c := s.radix.free; c != nil; c = c.next {
		chunks++
	}
	bytes := chunks*512 + (cap(s.run)+cap(s.late)+cap(s.radix.sorting))*32
	if per := float64(bytes) / events; per > 100 {
		t.Errorf("%.1f bytes for each of %d pending events, want 100 at the most", per, events)
	} else {
		t.Logf("%.1f bytes for each of %d pending events", per, events)
	}
	last := uint64(0)
	for n := range events {
		en := s.first()
		if en == nil || en.key < last {
			t.Fatalf("entry %d of %d is %+v after key %d", n, events, en, last)
		}
		last = en.key
		s.drop()
	}
}
