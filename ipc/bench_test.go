// SPDX-License-Identifier: Apache-2.0

package ipc_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/disco-sim/disco/ipc"
)

// One way, two goroutines, the receiver reading the first and the last byte. perf has
// the measurements between processes.
func BenchmarkOneWay(b *testing.B) {
	for _, c := range []struct{ size, batch int }{{64, 1}, {64, 64}, {1024, 64}, {1 << 20, 1}} {
		for _, poll := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dB/batch=%d/poll=%v", c.size, c.batch, poll),
				func(b *testing.B) { oneWay(b, c.size, c.batch, poll) })
		}
	}
}

func oneWay(b *testing.B, size, batch int, poll bool) {
	ctx, dir := context.Background(), newDir(b)
	r := mustListen(b, "bench", ipc.ListenConfig{Dir: dir})
	s := mustDial(b, "bench", ipc.DialConfig{Dir: dir})
	data, messages := make([]byte, size), make([][]byte, batch)
	for i := range messages {
		messages[i] = data
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	failed := make(chan error, 1)
	go func() {
		for left := b.N; left > 0; left -= batch {
			var err error
			if batch == 1 {
				err = s.Send(ctx, data)
			} else {
				_, err = s.SendBatch(ctx, messages[:min(batch, left)])
			}
			if err != nil {
				failed <- err
				return
			}
		}
		failed <- nil
	}()
	sum := 0
	visit := func(m *ipc.Message) { sum += 1 + int(m.Data[0]) + int(m.Data[size-1]) }
	for sum < b.N {
		var err error
		if poll {
			if err = r.Wait(ctx); err == nil {
				_, err = r.Poll(visit)
			}
		} else {
			var m ipc.Message
			if m, err = r.Receive(ctx); err == nil {
				visit(&m)
				r.Release(&m)
			}
		}
		if err != nil {
			b.Fatal(errors.Join(err, <-failed))
		}
	}
	if err := <-failed; err != nil {
		b.Fatal(err)
	}
}

// There and back, between two goroutines.
func BenchmarkRoundTrip(b *testing.B) {
	ctx, dir := context.Background(), newDir(b)
	there, back := mustListen(b, "there", ipc.ListenConfig{Dir: dir}), mustListen(b, "back", ipc.ListenConfig{Dir: dir})
	ping, pong := mustDial(b, "there", ipc.DialConfig{Dir: dir}), mustDial(b, "back", ipc.DialConfig{Dir: dir})
	data := make([]byte, 64)
	ended := make(chan error, 1)
	pass := func(r *ipc.Receiver, s *ipc.Sender) error {
		m, err := r.Receive(ctx)
		if err != nil {
			return err
		}
		defer r.Release(&m)
		return s.Send(ctx, m.Data)
	}
	go func() {
		for range b.N {
			if err := pass(there, pong); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	b.ReportAllocs()
	b.ResetTimer()
	if err := ping.Send(ctx, data); err != nil {
		b.Fatal(err)
	}
	for range b.N - 1 {
		if err := pass(back, ping); err != nil {
			b.Fatal(err)
		}
	}
	if m, err := back.Receive(ctx); err != nil {
		b.Fatal(err)
	} else {
		back.Release(&m)
	}
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}
