// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/envelope"
)

// history is what one sender says to a queue, in the order in which it says it.
type history struct {
	name     string
	messages []any // *envelope.Event or *envelope.Promise
}

// correctSender makes a sender that keeps its promises: events at whole and half epochs, not before
// what it promised last; in the end it promises infinity.
func correctSender(rnd *rand.Rand, id int, events int) *history {
	h := &history{name: fmt.Sprintf("n%d/x", id)}
	promised, sent, seqnr := 0.0, uint64(0), uint64(0)
	promise := func(epoch float64) {
		promised = epoch
		seqnr += 1 + rnd.Uint64N(2)
		h.messages = append(h.messages, &envelope.Promise{Sender: uint32(id), Seqnr: seqnr, Epoch: epoch,
			NumEvents: sent})
	}
	for sent < uint64(events) {
		if rnd.IntN(2) == 0 {
			promise(promised + float64(rnd.IntN(3))/2)
			continue
		}
		h.messages = append(h.messages, &envelope.Event{Sender: uint32(id), Number: sent,
			Epoch: promised + float64(rnd.IntN(5))/2, Data: []byte{byte(sent)}})
		sent++
	}
	promise(math.Inf(1))
	return h
}

// channels carries a sender's events in order and its promises in any order, some twice,
// some never; the last promise arrives.
type channels struct {
	events, promises []any
}

func (h *history) overChannels(rnd *rand.Rand) *channels {
	c := &channels{}
	last := h.messages[len(h.messages)-1]
	for _, m := range h.messages {
		if _, ok := m.(*envelope.Event); ok {
			c.events = append(c.events, m)
			continue
		}
		for copies := rnd.IntN(3); copies > 0 || m == last; copies-- {
			c.promises = append(c.promises, m)
			if m == last {
				break
			}
		}
	}
	// Shuffle within a window, so that most of them come about when they were sent.
	for i := range c.promises {
		j := i + rnd.IntN(min(4, len(c.promises)-i))
		c.promises[i], c.promises[j] = c.promises[j], c.promises[i]
	}
	return c
}

// take removes the next message of one of the two channels, nil: both are empty.
func (c *channels) take(rnd *rand.Rand) any {
	from := &c.events
	if len(c.events) == 0 || len(c.promises) > 0 && rnd.IntN(2) == 0 {
		from = &c.promises
	}
	if len(*from) == 0 {
		return nil
	}
	m := (*from)[0]
	*from = (*from)[1:]
	return m
}

func deliver(q *aloneQueue, message any) error {
	if ev, ok := message.(*envelope.Event); ok {
		return q.Push(ev)
	}
	return q.Promise(message.(*envelope.Promise))
}

// model is what an EventQueue is meant to know, found by looking at everything that has
// arrived, over and over.
type model struct {
	newest   map[uint32]*envelope.Promise
	arrived  map[uint32]uint64
	believed map[uint32]float64 // bound of each sender
}

func (m *model) receive(message any) {
	switch v := message.(type) {
	case *envelope.Event:
		m.arrived[v.Sender]++
	case *envelope.Promise:
		if n := m.newest[v.Sender]; n == nil || n.Seqnr < v.Seqnr {
			m.newest[v.Sender] = v
		}
	}
	for s, p := range m.newest {
		if m.arrived[s] >= p.NumEvents {
			m.believed[s] = p.Epoch
		}
	}
}

func (m *model) bound(senders int) float64 {
	least := math.Inf(1)
	for id := 1; id <= senders; id++ {
		least = min(least, m.believed[uint32(id)])
	}
	return least
}

// Correct senders are never refused, whatever the channels do to their promises; no
// epoch is handed out before all of its events are there, and in the end all are. The
// bound is the model's after every message.
func TestCorrectSenders(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 100
	}
	for seed := range uint64(rounds) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		senders := 1 + rnd.IntN(6)
		names := map[SimprocID]string{}
		truth := map[float64][]string{} // every event that is ever sent, by epoch
		var lines []*channels
		for id := 1; id <= senders; id++ {
			h := correctSender(rnd, id, rnd.IntN(40))
			names[SimprocID(id)] = h.name
			for _, m := range h.messages {
				if ev, ok := m.(*envelope.Event); ok {
					truth[ev.Epoch] = append(truth[ev.Epoch], fmt.Sprintf("%d#%d", ev.Sender, ev.Number))
				}
			}
			lines = append(lines, h.overChannels(rnd))
		}
		if err := playHonest(rnd, newAloneQueue("t/x", names), lines, truth); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func playHonest(rnd *rand.Rand, q *aloneQueue, lines []*channels, truth map[float64][]string) error {
	m := &model{map[uint32]*envelope.Promise{}, map[uint32]uint64{}, map[uint32]float64{}}
	for left := slices.Clone(lines); len(left) > 0; {
		i := rnd.IntN(len(left))
		message := left[i].take(rnd)
		if message == nil {
			left = slices.Delete(left, i, i+1)
			continue
		}
		if err := deliver(q, message); err != nil {
			return fmt.Errorf("a correct sender was refused: %w", err)
		}
		m.receive(message)
		if got, want := q.Bound().Epoch, m.bound(len(lines)); got != want {
			return fmt.Errorf("bound %v, the model says %v", got, want)
		}
		if rnd.IntN(3) == 0 {
			if err := popComplete(q, truth); err != nil {
				return err
			}
		}
	}
	if err := popComplete(q, truth); err != nil {
		return err
	}
	if len(truth) != 0 || q.Len() != 0 || q.store.inUse() != 0 {
		return fmt.Errorf("everything has arrived, and %d epochs are still held; %d events in the queue, %d payloads",
			len(truth), q.Len(), q.store.inUse())
	}
	return nil
}

// popComplete takes out all that is complete and compares each epoch with the truth.
func popComplete(q *aloneQueue, truth map[float64][]string) error {
	for {
		epoch, ok := q.Next()
		if !ok {
			return nil
		}
		var got []string
		for _, ev := range q.Pop(nil) {
			got = append(got, fmt.Sprintf("%d#%d", ev.Sender, ev.Number))
			if len(ev.Data) != 1 || ev.Data[0] != byte(ev.Number) {
				return fmt.Errorf("event %s has payload %v", got[len(got)-1], ev.Data)
			}
		}
		q.Release()
		if want := truth[epoch]; !slices.Equal(got, want) { // made by sender, then by number
			return fmt.Errorf("epoch %v was handed out with %v, complete is %v", epoch, got, want)
		}
		delete(truth, epoch)
	}
}

// A sender that breaks a promise on a channel that keeps order is refused, by an error that
// names sender and target, whatever rule is broken.
func TestSendersThatBreakPromises(t *testing.T) {
	violations := []struct {
		name  string
		apply func(rnd *rand.Rand, h *history) bool // false: no occasion
	}{
		{"promises beyond its next event", func(rnd *rand.Rand, h *history) bool {
			for i := rnd.IntN(len(h.messages)); i < len(h.messages)-1; i++ {
				p, ok := h.messages[i].(*envelope.Promise)
				if next, event := h.messages[i+1].(*envelope.Event); ok && event {
					p.Epoch = next.Epoch + 0.25
					return true
				}
			}
			return false
		}},
		{"promises less than before", func(rnd *rand.Rand, h *history) bool {
			seen := 0.0
			for i := range h.messages {
				if p, ok := h.messages[i].(*envelope.Promise); ok {
					if seen > 0 && rnd.IntN(3) == 0 {
						p.Epoch = seen - 0.25
						return true
					}
					seen = p.Epoch
				}
			}
			return false
		}},
		{"counts fewer than before", func(rnd *rand.Rand, h *history) bool {
			seen := uint64(0)
			for i := range h.messages {
				if p, ok := h.messages[i].(*envelope.Promise); ok {
					if seen > 0 && rnd.IntN(3) == 0 {
						p.NumEvents = seen - 1
						return true
					}
					seen = p.NumEvents
				}
			}
			return false
		}},
		{"says two things under one number", func(rnd *rand.Rand, h *history) bool {
			i := rnd.IntN(len(h.messages))
			p, ok := h.messages[i].(*envelope.Promise)
			if !ok {
				return false
			}
			twin := *p
			twin.NumEvents++
			h.messages = slices.Insert(h.messages, i+1, any(&twin))
			return true
		}},
		{"sends after promising infinity", func(_ *rand.Rand, h *history) bool {
			h.messages = append(h.messages, &envelope.Event{Sender: 1, Epoch: 1e9, Number: 1000})
			return true
		}},
	}
	for _, violation := range violations {
		t.Run(violation.name, func(t *testing.T) {
			tried := 0
			for seed := range uint64(200) {
				rnd := rand.New(rand.NewPCG(seed, 4))
				h := correctSender(rnd, 1, 20)
				if !violation.apply(rnd, h) {
					continue
				}
				tried++
				q := newAloneQueue("t/x", map[SimprocID]string{1: h.name})
				var err error
				for i := 0; i < len(h.messages) && err == nil; i++ {
					err = deliver(q, h.messages[i])
				}
				if err == nil || !strings.Contains(err.Error(), "n1/x") || !strings.Contains(err.Error(), "t/x") {
					t.Fatalf("seed %d: error is %v, want one that names n1/x and t/x", seed, err)
				}
			}
			if tried < 50 {
				t.Errorf("only %d of 200 histories had an occasion for the violation", tried)
			}
		})
	}
}

func TestEventQueueDoesNotAllocate(t *testing.T) {
	q := newAloneQueue("t/x", map[SimprocID]string{1: "a/x", 2: "b/x"})
	var events []Event
	n := uint64(0)
	turn := func() {
		for range 1000 {
			n++
			ev := envelope.Event{Sender: uint32(1 + n%2), Epoch: float64(n), Number: n, Data: make([]byte, 0, 8)[:8]}
			p := envelope.Promise{Sender: ev.Sender, Epoch: ev.Epoch + 1, Seqnr: n, NumEvents: (n + 1) / 2}
			if err := q.Push(&ev); err != nil {
				t.Fatal(err)
			}
			p.NumEvents = q.senders[n%2].received
			if err := q.Promise(&p); err != nil {
				t.Fatal(err)
			}
			for _, ok := q.Next(); ok; _, ok = q.Next() {
				events = q.Pop(events[:0])
				q.Release()
			}
		}
	}
	turn()
	if got := testing.AllocsPerRun(5, turn); got > 0 && !checked {
		t.Errorf("%v allocations per 1000 events, want none", got)
	}
}
