// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"testing"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/alloctest"
	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/internal/linktest"
	"github.com/disco-sim/disco/internal/race"
	"github.com/disco-sim/disco/internal/session"
)

// counter counts what comes, and gives blocks back.
type counter struct {
	in     interface{ Release(uint64) error }
	events uint64
}

func (c *counter) ReceiveEvent(_ int, _ *envelope.Event, lease uint64) error {
	c.events++
	if lease == 0 {
		return nil
	}
	return c.in.Release(lease)
}

func (c *counter) ReceivePromise(int, *envelope.Promise) error { return nil }
func (c *counter) ReceiveBound(int, float64, uint32) error     { return nil }

// Over gRPC and TLS nothing is allocated for an event, small, large or in parts, by anything but gRPC: what pools and
// queues take while they get going is less than one object for a hundred events.
func TestEventsAllocateNothing(t *testing.T) {
	if invariants.Enabled || race.Enabled {
		t.Skip("checks and the race detector allocate")
	}
	dir := certificates(t)
	k := kind{window: 1 << 16, dialler: func(n *network) func(way) (session.Conn, error) {
		join, _ := overGRPC(n.t, 2, dir, false)
		return join(n)
	}}
	e := k.open(t, linktest.Options{Workers: 2, RingBytes: 1 << 14, InlineMax: 256, Blocks: 4, BlockBytes: 5000,
		Parts: true, Wait: func(int) error { return nil }})
	data := make([]byte, 8000)
	var got [2]counter
	for w := range got {
		got[w].in = e.In[w]
	}
	event, sent, bound := envelope.Event{}, uint64(0), 0.0
	send := func(rounds int) {
		for range rounds {
			for w := range got {
				for _, size := range []int{0, 40, 40, 40, 256, 4000} {
					event.Number, event.Data = sent, data[:size]
					must(t, e.Out[w][1-w].SendEvent(&event))
				}
				bound++
				must(t, e.Out[w][1-w].Promise(bound, 0))
			}
			sent += 6
			for got[0].events < sent || got[1].events < sent {
				for w := range got {
					_, err := e.In[w].Poll(&got[w])
					must(t, err)
				}
			}
		}
	}
	send(300)
	c := alloctest.Begin()
	before := sent
	send(1000)
	events := 2 * (sent - before)
	if n, text := c.End(); n*100 > int64(events) {
		t.Errorf("%d objects for %d events, want next to none:\n%s", n, events, text)
	}
}
