// SPDX-License-Identifier: Apache-2.0

package router

import (
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/envelope"
)

// recorder is a Sender that remembers what it was sent.
type recorder struct {
	Sender
	events, promises []uint64
}

func (l *recorder) SendEvent(ev *envelope.Event) error {
	l.events = append(l.events, ev.Number)
	return nil
}

func (l *recorder) SendPromise(p *envelope.Promise) error {
	l.promises = append(l.promises, p.Seqnr)
	return nil
}

// Everything goes over the link of the peer that is named, and nothing gets lost where
// there is none.
func TestRouter(t *testing.T) {
	a, b := &recorder{}, &recorder{}
	links := []Sender{nil, a, nil, b}
	r := New(0, links)
	links[1] = b // what New was given may change
	for peer, want := range map[int]*recorder{1: a, 3: b} {
		if err := r.SendEvent(peer, &envelope.Event{Number: uint64(peer)}); err != nil {
			t.Error(err)
		}
		if err := r.SendPromise(peer, &envelope.Promise{Seqnr: uint64(peer)}); err != nil {
			t.Error(err)
		}
		if !slices.Equal(want.events, []uint64{uint64(peer)}) || !slices.Equal(want.promises, []uint64{uint64(peer)}) {
			t.Errorf("the link to %d got events %v and promises %v", peer, want.events, want.promises)
		}
	}
	for _, peer := range []int{0, 2} {
		for _, err := range []error{r.SendEvent(peer, &envelope.Event{}), r.SendPromise(peer, &envelope.Promise{})} {
			if err == nil || !strings.Contains(err.Error(), "from worker 0 to worker "+string(rune('0'+peer))) {
				t.Errorf("to %d: %v, want an error that names both ends", peer, err)
			}
		}
	}
	if !slices.Equal(r.Senders(), []Sender{a, b}) || !slices.Equal(r.Peers(), []int{1, 3}) {
		t.Errorf("links %v to %v", r.Senders(), r.Peers())
	}
}

func TestRoutingDoesNotAllocate(t *testing.T) {
	l := &recorder{events: make([]uint64, 0, 1<<10)}
	r := New(0, []Sender{nil, l})
	ev := &envelope.Event{}
	if n := testing.AllocsPerRun(100, func() {
		if err := r.SendEvent(1, ev); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
