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
		b := NewBatches(2, 12, 5)
		dumb := make([]float64, 5)
		for range 10 {
			from := 16*rnd.Float64() - 2
			to := from + 6*rnd.Float64()
			b.Over(from, to, 2)
			for k := range dumb {
				low, high := max(from, 2+2*float64(k)), min(to, 4+2*float64(k))
				dumb[k] += 2 * max(0, high-low)
			}
		}
		for k := range dumb {
			if math.Abs(dumb[k]-b.Sums()[k]) > 1e-9 {
				t.Fatalf("seed %d: batch %d has %v, want %v", seed, k, b.Sums()[k], dumb[k])
			}
		}
	}
	b := NewBatches(2, 12, 5)
	for _, at := range []float64{1.9, 2, 3.99, 4, 11.999, 12, 13} {
		b.At(at, 1)
	}
	for k, want := range []float64{2, 1, 0, 0, 1} {
		if b.Sums()[k] != want {
			t.Errorf("batch %d has %v, want %v", k, b.Sums()[k], want)
		}
	}
	if got := b.Lengths(8.5); got[0] != 2 || got[2] != 2 || got[3] != 0 || got[4] != 0 {
		t.Errorf("at 8.5 the lengths are %v", got)
	}
	if got := b.Lengths(12); got[4] != 2 {
		t.Errorf("at the end the lengths are %v", got)
	}
}

func TestBatchesDoNotAllocate(t *testing.T) {
	b := NewBatches(0, 100, 20)
	if n := testing.AllocsPerRun(100, func() { b.Over(3, 50, 1); b.At(7, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
