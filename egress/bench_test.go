// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"
	"fmt"
	"testing"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/shm"
)

// The benchmarks send in one goroutine and let the bare ring drop what was sent: what
// sending costs by itself. Streams from an egress to an ingress are measured beside
// ingress. One op is one event.

// drop reads everything that is visible and returns its blocks.
func (b *bench) drop(tb testing.TB) {
	var ev envelope.Event
	for {
		rec, err := b.recv.Forward().Next()
		if err != nil {
			tb.Fatal(err)
		}
		if rec == nil {
			break
		}
		if rec[1] != 0 { // refers to a block
			if err := ev.Decode(rec); err != nil {
				tb.Fatal(err)
			}
			if err := b.recv.Return(ev.Block.Block, ev.Block.Seq); err != nil {
				tb.Fatal(err)
			}
		}
	}
	b.recv.Forward().Release()
}

// BenchmarkSend sends 64-byte payloads one by one with a flush after each batch, and as
// batches.
func BenchmarkSend(b *testing.B) {
	for _, batch := range []int{1, 16, 256} {
		evs := make([]envelope.Event, batch)
		for i := range evs {
			evs[i].Data = make([]byte, 64)
		}
		run := func(b *testing.B, send func(e *bench) error) {
			e := open(b, Config{InlineMax: 4096, PublishRecords: batch})
			b.ReportAllocs()
			for n := 0; n < b.N; n += batch {
				if err := send(e); err != nil {
					b.Fatal(err)
				}
				e.drop(b)
			}
		}
		b.Run(fmt.Sprintf("singly/batch=%d", batch), func(b *testing.B) {
			run(b, func(e *bench) error {
				for i := range evs {
					if err := e.SendEvent(&evs[i]); err != nil {
						return err
					}
				}
				return e.Flush()
			})
		})
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			run(b, func(e *bench) error {
				_, err := e.SendBatch(context.Background(), evs)
				return err
			})
		})
	}
}

// BenchmarkSendBlock sends large payloads: copied into a block, or in a loan whose data
// nobody touches, which leaves the handling of the block itself.
func BenchmarkSendBlock(b *testing.B) {
	for _, size := range []int{64 << 10, 1 << 20} {
		data := make([]byte, size)
		b.Run(fmt.Sprintf("copied/KiB=%d", size>>10), func(b *testing.B) {
			e := open(b, Config{}, shm.BlockSize{BlockBytes: size, Count: 2})
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for range b.N {
				if err := e.SendEvent(&envelope.Event{Data: data}); err != nil {
					b.Fatal(err)
				}
				if err := e.Flush(); err != nil {
					b.Fatal(err)
				}
				e.drop(b)
			}
		})
		b.Run(fmt.Sprintf("loaned/KiB=%d", size>>10), func(b *testing.B) {
			e := open(b, Config{}, shm.BlockSize{BlockBytes: size, Count: 2})
			b.ReportAllocs()
			for range b.N {
				loan, err := e.Loan(size)
				if err == nil {
					err = e.SendLoan(context.Background(), &envelope.Event{}, &loan)
				}
				if err == nil {
					err = e.Flush()
				}
				if err != nil {
					b.Fatal(err)
				}
				e.drop(b)
			}
		})
	}
}
