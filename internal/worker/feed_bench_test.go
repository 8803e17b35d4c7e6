// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/ingress"
	"github.com/disco-sim/disco/internal/aligned"
	"github.com/disco-sim/disco/shm"
)

// worksFor is a sink that spends a while on every event, as a pending set and a handler do.
type worksFor struct {
	steps  int
	events int
	state  uint64
}

func (w *worksFor) ReceiveEvent(_ int, ev *envelope.Event, _ uint64) error {
	w.events++
	w.state += uint64(len(ev.Data)) + uint64(ev.Data[0])
	for range w.steps {
		w.state = w.state*6364136223846793005 + 1442695040888963407
	}
	return nil
}

func (w *worksFor) ReceivePromise(int, *envelope.Promise) error { return nil }
func (w *worksFor) ReceiveBound(int, float64, uint32) error     { return nil }

// BenchmarkFeed takes in lanes that were filled before: nobody sends meanwhile, so that on a machine with two
// processors the duty cycle has one and the ingress thread the other, as on a machine with more processors than
// workers. work is what the cycle does with an event, in steps of about a nanosecond.
func BenchmarkFeed(b *testing.B) {
	for _, work := range []int{0, 50, 200} {
		for _, way := range []string{IngressDuty, IngressGoroutine} {
			b.Run(fmt.Sprintf("work=%d/%s", work, way), func(b *testing.B) { benchmarkFeed(b, way, work) })
		}
	}
}

func benchmarkFeed(b *testing.B, way string, work int) {
	const ringBytes = 8 << 20
	size, err := egress.LaneBytes(ringBytes, nil)
	if err != nil {
		b.Fatal(err)
	}
	lane := aligned.Bytes(size, 128)
	var bells [2]*shm.Doorbell
	for i := range bells {
		if bells[i], err = shm.OpenDoorbell(aligned.Bytes(shm.DoorbellBytes, shm.DoorbellBytes)); err != nil {
			b.Fatal(err)
		}
	}
	if err := egress.FormatLane(lane, ringBytes, nil); err != nil {
		b.Fatal(err)
	}
	out, err := egress.New(egress.Config{Peer: 0, Lane: lane, Bell: bells[0], InlineMax: 4 << 10,
		Wait: func() error { return errors.New("no room") }})
	if err != nil {
		b.Fatal(err)
	}
	in, err := ingress.New(ingress.Config{Lanes: []ingress.Source{{Peer: 1, Lane: lane, Bell: bells[1]}}})
	if err != nil {
		b.Fatal(err)
	}
	setup := &Setup{Tuning: Tuning{Ingress: way, Wait: "spin"}}
	f, err := newFeed(in, []int{1}, setup, bells[0], bells[1])
	if err != nil {
		b.Fatal(err)
	}
	defer f.close()
	waiter, err := newWaiter(setup, f.bell())
	if err != nil {
		b.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	sink, sent := &worksFor{steps: work}, 0
	event := envelope.Event{Data: make([]byte, 64)}
	for b.Loop() {
		b.StopTimer()
		f.listen(false)
		for out.TrySend(&event) == nil {
			event.Number++
			sent++
		}
		if err := out.Flush(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		f.listen(true)
		for sink.events < sent {
			n, err := f.poll(sink, -1)
			if err != nil {
				b.Fatal(err)
			}
			waiter.Idle(n > 0)
		}
	}
	b.ReportMetric(float64(sink.events)/b.Elapsed().Seconds()/1e6, "Mevents/s")
}
