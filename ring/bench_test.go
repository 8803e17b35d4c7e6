// SPDX-License-Identifier: Apache-2.0

package ring_test

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/disco-sim/disco/internal/aligned"
	"github.com/disco-sim/disco/ring"
)

// The benchmarks stream records between two goroutines, each locked to a thread,
// and touch every payload on both sides. One op is one record. "copy loop" is the
// reference to read them against, from the same run: a bare ring of fixed records
// with cached indices, without checks, wrap-around, closing or errors.

const benchCapacity = 1 << 18

var sizes = []int{64, 1024}

func BenchmarkRing(b *testing.B) {
	for _, size := range sizes {
		for _, batch := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("bytes=%d/batch=%d", size, batch), func(b *testing.B) {
				benchRing(b, size, min(batch, benchCapacity/4/size))
			})
		}
	}
}

func benchRing(b *testing.B, size, batch int) {
	mem := aligned.Bytes(ring.Size(benchCapacity), ring.Alignment)
	if err := ring.Init(mem, ring.Config{}); err != nil {
		b.Fatal(err)
	}
	p, _ := ring.OpenProducer(mem)
	c, _ := ring.OpenConsumer(mem)
	payload := make([]byte, size)
	sum := make(chan uint64, 1)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	go func() { sum <- drain(c, b.N) }()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for sent := 0; sent < b.N; {
		for range min(batch, b.N-sent) {
			buf, err := p.Claim(size)
			for err != nil {
				p.Publish()
				runtime.Gosched()
				buf, err = p.Claim(size)
			}
			binary.LittleEndian.PutUint64(payload, uint64(sent))
			copy(buf, payload)
			p.Commit()
			sent++
		}
		p.Publish()
	}
	check(b, <-sum)
}

// drain reads n records, one Release for all that are there.
func drain(c *ring.Consumer, n int) (sum uint64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for got := 0; got < n; {
		before := got
		for {
			rec, err := c.Next()
			if err != nil {
				panic(err)
			}
			if rec == nil {
				break
			}
			sum += binary.LittleEndian.Uint64(rec)
			got++
		}
		if got != before {
			c.Release()
		}
	}
	return sum
}

func check(b *testing.B, sum uint64) {
	b.Helper()
	b.StopTimer()
	if want := uint64(b.N) * uint64(b.N-1) / 2; sum != want {
		b.Fatalf("sum of the first words is %d, want %d", sum, want)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrec/s")
}

func BenchmarkCopyLoop(b *testing.B) {
	for _, size := range sizes {
		for _, batch := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("bytes=%d/batch=%d", size, batch), func(b *testing.B) {
				benchCopyLoop(b, size, min(batch, benchCapacity/4/size))
			})
		}
	}
}

// bare is the reference: an index ring of fixed slots.
type bare struct {
	_    [128]byte
	tail atomic.Uint64
	_    [120]byte
	head atomic.Uint64
	_    [120]byte
	data []byte
}

func benchCopyLoop(b *testing.B, size, batch int) {
	slot := size + 8
	slots := uint64(1)
	for slots*2*uint64(slot) <= benchCapacity {
		slots *= 2
	}
	r := &bare{data: aligned.Bytes(int(slots)*slot, 128)}
	payload := make([]byte, size)
	sum := make(chan uint64, 1)
	b.SetBytes(int64(size))
	b.ResetTimer()
	go func() { sum <- drainBare(r, b.N, slots, slot) }()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tail, head := uint64(0), uint64(0)
	for sent := 0; sent < b.N; {
		for range min(batch, b.N-sent) {
			for tail-head == slots {
				r.tail.Store(tail)
				if head = r.head.Load(); tail-head == slots {
					runtime.Gosched()
				}
			}
			at := int(tail&(slots-1)) * slot
			binary.LittleEndian.PutUint64(r.data[at:], uint64(size))
			binary.LittleEndian.PutUint64(payload, uint64(sent))
			copy(r.data[at+8:at+8+size], payload)
			tail++
			sent++
		}
		r.tail.Store(tail)
	}
	check(b, <-sum)
}

func drainBare(r *bare, n int, slots uint64, slot int) (sum uint64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for head := uint64(0); head < uint64(n); {
		tail := r.tail.Load()
		if tail == head {
			continue
		}
		for ; head < tail; head++ {
			at := int(head&(slots-1)) * slot
			length := int(binary.LittleEndian.Uint64(r.data[at:]))
			rec := r.data[at+8 : at+8+length]
			sum += binary.LittleEndian.Uint64(rec)
		}
		r.head.Store(head)
	}
	return sum
}
