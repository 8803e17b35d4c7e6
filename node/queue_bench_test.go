// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"testing"

	"github.com/disco-sim/disco/envelope"
)

// BenchmarkEventQueue files events from predecessors in turn, each followed by a promise
// that covers it, and takes out every epoch as soon as it is complete.
func BenchmarkEventQueue(b *testing.B) {
	for _, senders := range []int{1, 16, 256} {
		for _, payload := range []int{0, 16} {
			b.Run(fmt.Sprintf("predecessors=%d/payload=%d", senders, payload), func(b *testing.B) {
				benchQueue(b, senders, payload)
			})
		}
	}
}

func benchQueue(b *testing.B, senders, payload int) {
	names := map[SimprocID]string{}
	for i := range senders {
		names[SimprocID(i+1)] = fmt.Sprintf("n%d/x", i)
	}
	q := newAloneQueue("t/x", names)
	ev := envelope.Event{Data: make([]byte, payload)}
	p := envelope.Promise{}
	var events []Event
	got := 0
	b.ReportAllocs()
	b.ResetTimer()
	for n := range b.N {
		sender := uint32(n%senders + 1)
		epoch := float64(n)
		ev.Sender, ev.Number, ev.Epoch = sender, uint64(n/senders), epoch
		if err := q.Push(&ev); err != nil {
			b.Fatal(err)
		}
		p.Sender, p.Seqnr, p.NumEvents, p.Epoch = sender, uint64(n/senders+1), uint64(n/senders+1), epoch+1
		if err := q.Promise(&p); err != nil {
			b.Fatal(err)
		}
		for {
			if _, ok := q.Next(); !ok {
				break
			}
			events = q.Pop(events[:0])
			got += len(events)
			q.Release()
		}
	}
	if q.Len() > senders || got+q.Len() != b.N {
		b.Fatalf("%d events in, %d out, %d wait", b.N, got, q.Len())
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mevents/s")
}
