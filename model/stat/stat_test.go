package stat

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestMean compares with the textbook: 1 … 5 has mean 3, standard deviation √2.5, and
// t for 4 degrees of freedom at 95 % is 2.776445.
func TestMean(t *testing.T) {
	i, ok := Mean([]float64{1, 2, 3, 4, 5}, 0.95)
	want := 2.776445105 * math.Sqrt(2.5/5)
	if !ok || i.Mean != 3 || i.N != 5 || math.Abs(i.HalfWidth-want) > 1e-8 || i.Low != 3-i.HalfWidth || i.High != 3+i.HalfWidth {
		t.Errorf("got %+v, want 3 ± %v", i, want)
	}
	if i, ok := Mean([]float64{7}, 0.95); !ok || i.HalfWidth != 0 || i.N != 1 || i.Mean != 7 {
		t.Errorf("one value: %+v", i)
	}
	if _, ok := Mean(nil, 0.95); ok {
		t.Error("no value has a mean")
	}
	if _, ok := Ratio([]float64{1, 2}, []float64{0, 0}, 0.95); ok {
		t.Error("a ratio over nothing")
	}
}

// TestRatioCovers: the interval holds the true ratio about as often as it says.
func TestRatioCovers(t *testing.T) {
	const seed, runs, n = 7, 2000, 25
	rnd := rand.New(rand.NewPCG(seed, 0))
	hits := 0
	for range runs {
		var y, x [n]float64
		for i := range n {
			x[i] = 10 + 3*rnd.Float64()
			y[i] = 0.5*x[i] + rnd.NormFloat64()
		}
		if r, _ := Ratio(y[:], x[:], 0.95); r.Holds(0.5) {
			hits++
		}
	}
	if share := float64(hits) / runs; share < 0.93 || share > 0.97 {
		t.Errorf("seed %d: %v of the intervals hold the truth, want 0.95", seed, share)
	}
}

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
