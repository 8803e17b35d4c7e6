// SPDX-License-Identifier: Apache-2.0

package byname

import (
	"context"
	"testing"

	"github.com/disco-sim/disco/internal/ipctest"
	"github.com/disco-sim/disco/ipc"
)

// 64 bytes to another machine and back, with both agents and both programs in one process.
func BenchmarkRoundTrip(b *testing.B) {
	h1, h2 := newPlace(b, "127.0.0.1", "c", timeouts{}), newPlace(b, "127.0.0.2", "c", timeouts{})
	there := ipctest.Listen(b, "there", ipc.ListenConfig{Dir: h2.dir})
	back := ipctest.Listen(b, "back", ipc.ListenConfig{Dir: h1.dir})
	ping := ipctest.Dial(b, h2.address+"/there", ipctest.Small(h1.dir))
	pong := ipctest.Dial(b, h1.address+"/back", ipctest.Small(h2.dir))
	ctx, end := context.WithCancel(context.Background())
	defer end()
	pass := func(r *ipc.Receiver, s *ipc.Sender) error {
		m, err := r.Receive(ctx)
		if err != nil {
			return err
		}
		defer r.Release(&m)
		return s.Send(ctx, m.Data)
	}
	ended := make(chan error, 1)
	go func() {
		var err error
		for n := 0; n < b.N && err == nil; n++ {
			err = pass(there, pong)
		}
		ended <- err
	}()
	b.ReportAllocs()
	b.ResetTimer()
	must(b, ping.Send(ctx, make([]byte, 64)))
	for range b.N - 1 {
		must(b, pass(back, ping))
	}
	m, err := back.Receive(ctx)
	must(b, err)
	back.Release(&m)
	must(b, <-ended)
}
