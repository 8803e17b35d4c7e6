// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestBatches holds Over against a sum of many thin slices.
func TestBatches(t *testing.T) {
	const seed = 3
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		b := NewBatches(2, 14, 6)
		ref := make([]float64, 6)
		for range 10 {
			from := 16*rnd.Float64() - 2
			to := from + 6*rnd.Float64()
			b.Over(from, to, 2)
			for k := range ref {
				low, high := max(from, 2+2*float64(k)), min(to, 4+2*float64(k))
				ref[k] += 2 * max(0, high-low)
			}
		}
		b.Reach(14)
		for k := range ref {
			if math.Abs(ref[k]-b.Sums()[k]) > 1e-9 {
				t.Fatalf("seed %d: batch %d has %v, want %v", seed, k, b.Sums()[k], ref[k])
			}
		}
	}
	b := NewBatches(2, 14, 6)
	for _, at := range []float64{1.9, 2, 3.99, 4, 13.999, 14, 15} {
		b.At(at, 1)
	}
	for k, want := range []float64{2, 1, 0, 0, 0, 1} {
		if b.Sums()[k] != want {
			t.Errorf("batch %d has %v, want %v", k, b.Sums()[k], want)
		}
	}
	if got := b.Lengths(8.5); got[0] != 2 || got[2] != 2 || got[3] != 0 || got[4] != 0 {
		t.Errorf("at 8.5 the lengths are %v", got)
	}
	if got := b.Lengths(14); got[5] != 2 {
		t.Errorf("at the end the lengths are %v", got)
	}
}

// TestBatchesDouble: whatever the instant that was reached, more than half of the batches
// are full, and they hold what happened in them.
func TestBatchesDouble(t *testing.T) {
	const start, end, count = 3, 1003, 32
	for reached := 3.001; reached < end; reached *= 1.1 {
		b := NewBatches(start, end, count)
		step := (reached - start) / 1000
		for k := range 1000 {
			b.At(start+(float64(k)+0.5)*step, 1)
			b.Over(start+float64(k)*step, start+float64(k+1)*step, 3)
		}
		b.Reach(reached)
		full, seconds := 0, 0.0
		for k, length := range b.Lengths(reached) {
			if length == 0 {
				continue
			}
			full++
			seconds += length
			if want := length/step + 3*length; math.Abs(b.Sums()[k]-want) > 1.5+1e-6*want {
				t.Errorf("reached %v: batch %d of %v s has %v, want %v", reached, k, length, b.Sums()[k], want)
			}
		}
		if full < count/2 || seconds > (reached-start)*(1+1e-9) {
			t.Errorf("reached %v: %d full batches of %v s in all", reached, full, seconds)
		}
		c, err := ReadBatches(start, end, b.Sums(), b.Doublings())
		if err != nil || c.length != b.length {
			t.Errorf("reached %v: read back as %+v, %v, want %+v", reached, c, err, b)
		}
	}
	for _, wrong := range []int{-1, finest + 1, math.MaxInt} {
		if _, err := ReadBatches(start, end, make([]float64, count), wrong); err == nil {
			t.Errorf("%d doublings are no error", wrong)
		}
	}
}

func TestBatchesDoNotAllocate(t *testing.T) {
	b := NewBatches(0, 100, 20)
	if n := testing.AllocsPerRun(100, func() { b.Over(3, 50, 1); b.At(7, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
