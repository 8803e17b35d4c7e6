// SPDX-License-Identifier: Apache-2.0

package byname

import (
	"testing"

	"github.com/disco-sim/disco/internal/alloctest"
	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/internal/ipctest"
	"github.com/disco-sim/disco/internal/race"
	"github.com/disco-sim/disco/ipc"
)

// Between two machines nothing is allocated for a message, whether it is in one frame or in several, and whether many
// are under way or each is awaited, by anything but gRPC: what queues take while they get going is less than one object
// for a hundred messages.
func TestMessagesAllocateNothing(t *testing.T) {
	if invariants.Enabled || race.Enabled {
		t.Skip("checks and the race detector allocate")
	}
	w := far(t)
	r := ipctest.Listen(t, "lean", ipc.ListenConfig{Dir: w.Receivers})
	cfg := ipctest.Small(w.Senders)
	cfg.PoolBytes = 4 << 20
	s := ipctest.Dial(t, w.Prefix+"lean", cfg)
	ctx := ipctest.Within(t)
	data := make([]byte, 100_000)
	var err error
	receive := func(count int) {
		for range count {
			m, e := r.Receive(ctx)
			if e != nil {
				err = e
				return
			}
			r.Release(&m)
		}
	}
	send := func(rounds int) (messages int64) {
		for range rounds {
			for range 10 {
				must(t, s.Send(ctx, data[:64]))
			}
			receive(10)
			must(t, s.Send(ctx, data[:64]))
			receive(1)
			must(t, s.Send(ctx, data))
			receive(1)
			must(t, err)
			messages += 12
		}
		return messages
	}
	send(100)
	c := alloctest.Begin()
	messages := send(500)
	if n, text := c.End(); n*100 > messages {
		t.Errorf("%d objects for %d messages, want next to none:\n%s", n, messages, text)
	}
}
