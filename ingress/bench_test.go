// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/shm"
)

// The benchmarks stream events from an egress to an ingress, two goroutines that are
// each locked to a thread. One op is one event. Both sides touch the payload: all of
// the words of a small one, one word in each cache line of a large one.

// tally is a sink that reads every payload.
type tally struct {
	in     *Ingress
	events int
	sum    uint64
	stride int
}

func (s *tally) ReceiveEvent(_ int, ev *envelope.Event, lease uint64) error {
	s.events++
	for i := 0; i+8 <= len(ev.Data); i += s.stride {
		s.sum += binary.LittleEndian.Uint64(ev.Data[i:])
	}
	return s.in.Release(lease)
}

func (s *tally) ReceivePromise(int, *envelope.Promise) error { return nil }
func (s *tally) ReceiveBound(int, float64, uint32) error     { return nil }

// receive polls until it has got so many events.
func receive(b *testing.B, w *way, stride int, done chan<- struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(done)
	s := tally{in: w.in, stride: stride}
	for s.events < b.N {
		n, err := w.in.Poll(&s)
		if err != nil {
			b.Error(err)
			return
		}
		if n == 0 {
			runtime.Gosched()
		}
	}
}

// BenchmarkInline sends 64-byte payloads inside the ring, flushed after each batch.
func BenchmarkInline(b *testing.B) {
	for _, bell := range []bool{false, true} {
		for _, batch := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("bell=%v/batch=%d", bell, batch), func(b *testing.B) {
				wait := func() error { runtime.Gosched(); return nil }
				w := setup{lane: lane.Config{RingBytes: 1 << 18}, inline: 4096, publish: batch, bell: bell,
					wait: wait}.open(b)
				payload := make([]byte, 64)
				done := make(chan struct{})
				b.ReportAllocs()
				b.SetBytes(64)
				b.ResetTimer()
				go receive(b, w, 8, done)
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				ev := envelope.Event{Target: 3, Sender: 5, Data: payload}
				for n := range b.N {
					ev.Number = uint64(n)
					binary.LittleEndian.PutUint64(payload, uint64(n))
					if err := w.out.SendEvent(&ev); err != nil {
						b.Fatal(err)
					}
				}
				if err := w.out.Flush(); err != nil {
					b.Fatal(err)
				}
				<-done
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mevents/s")
			})
		}
	}
}

// answerer is a sink that sends back what comes, at once.
type answerer struct {
	out   *egress.Egress
	event envelope.Event
}

func (s *answerer) ReceiveEvent(_ int, ev *envelope.Event, _ uint64) error {
	s.event.Number, s.event.Data = ev.Number, ev.Data
	return s.out.TrySendNow(&s.event)
}

func (s *answerer) ReceivePromise(int, *envelope.Promise) error { return nil }
func (s *answerer) ReceiveBound(int, float64, uint32) error     { return nil }

// BenchmarkTrip is a round trip with both sides in one goroutine: the instructions of one, with nothing to wait for.
// Between two processes they come on top of what the cache lines take. perf/profile/pgo.sh takes the profile of this
// one and of BenchmarkInline.
func BenchmarkTrip(b *testing.B) {
	there, back := setup{lane: lane.Config{RingBytes: 1 << 20}, inline: 4096, publish: 1}.open(b),
		setup{lane: lane.Config{RingBytes: 1 << 20}, inline: 4096, publish: 1}.open(b)
	ev, answers, asked := envelope.Event{Data: make([]byte, 64)}, answerer{out: back.out}, tally{in: back.in, stride: 8}
	for b.Loop() {
		there.in.Look() // in vain, as each side does that waits
		back.in.Look()
		ev.Number++
		if err := there.out.TrySendNow(&ev); err != nil {
			b.Fatal(err)
		}
		there.in.Look()
		if _, err := there.in.Poll(&answers); err != nil {
			b.Fatal(err)
		}
		back.in.Look()
		if _, err := back.in.Poll(&asked); err != nil {
			b.Fatal(err)
		}
	}
	if asked.events != int(ev.Number) {
		b.Fatalf("%d answers to %d events", asked.events, ev.Number)
	}
}

// BenchmarkBlock sends large payloads by pooled blocks: copied into them, or built in
// them (only every cache line is touched, as the reader does).
func BenchmarkBlock(b *testing.B) {
	for _, size := range []int{64 << 10, 256 << 10, 1 << 20} {
		for _, how := range []string{"copied", "loaned"} {
			b.Run(fmt.Sprintf("%s/KiB=%d", how, size>>10), func(b *testing.B) { benchBlock(b, size, how == "loaned") })
		}
	}
}

func benchBlock(b *testing.B, size int, loaned bool) {
	wait := func() error { runtime.Gosched(); return nil }
	w := setup{lane: lane.Config{RingBytes: 1 << 16}, inline: 4096, publish: 1, wait: wait,
		blocks: []shm.BlockSize{{BlockBytes: size, Count: 8}}}.open(b)
	payload := make([]byte, size)
	done := make(chan struct{})
	b.ReportAllocs()
	b.SetBytes(int64(size))
	b.ResetTimer()
	go receive(b, w, 64, done)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for n := range b.N {
		if err := sendBlock(w, payload, n, loaned); err != nil {
			b.Fatal(err)
		}
	}
	<-done
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mevents/s")
}

func sendBlock(w *way, payload []byte, n int, loaned bool) error {
	ev := envelope.Event{Number: uint64(n)}
	if !loaned {
		binary.LittleEndian.PutUint64(payload, uint64(n))
		ev.Data = payload
		return w.out.SendEvent(&ev)
	}
	loan, err := w.out.WaitLoan(context.Background(), len(payload))
	if err != nil {
		return err
	}
	for i := 0; i < len(loan.Data); i += 64 {
		binary.LittleEndian.PutUint64(loan.Data[i:], uint64(n))
	}
	return w.out.SendLoan(context.Background(), &ev, &loan)
}

// BenchmarkAlone sends and receives in one goroutine, in turns of 256: what an event
// costs both sides together when no cache line has to change its owner.
func BenchmarkAlone(b *testing.B) {
	for _, size := range []int{0, 64, 256} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			w := setup{lane: lane.Config{RingBytes: 1 << 18}, inline: 4096, publish: 256}.open(b)
			s := tally{in: w.in, stride: 8}
			ev := envelope.Event{Target: 3, Sender: 5, Data: make([]byte, size)}
			b.ReportAllocs()
			for n := range b.N {
				ev.Number = uint64(n)
				if err := w.out.TrySend(&ev); err != nil {
					b.Fatal(err)
				}
				if n%256 == 255 {
					if _, err := w.in.Poll(&s); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
