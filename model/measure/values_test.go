// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/disco-sim/disco/internal/seed"
)

// Percentiles are those of a sorted list within one part in 1,024, for numbers of all sizes and both signs.
func TestValues(t *testing.T) {
	rnd := seed.Rand(t)
	for range 300 {
		var v Values
		var all []float64
		for range 1 + rnd.IntN(500) {
			x := rnd.NormFloat64()
			switch rnd.IntN(4) {
			case 0:
				x = math.Exp(20 * x)
			case 1:
				x = math.Round(4 * x)
			case 2:
				x = -math.Exp(x)
			}
			all = append(all, x)
			if err := v.Add(x); err != nil {
				t.Fatal(err)
			}
		}
		slices.Sort(all)
		for _, p := range []float64{0, 1, 50, 90, 99, 100} {
			at, low, high := v.Percentile(p)
			want := all[rank(p, int64(len(all)))-1]
			if math.Abs(at-want) > math.Abs(want)/1024 || !(low <= want && want <= high) || at < low || at > high {
				t.Fatalf("p%v is %v (%v to %v), want %v", p, at, low, high, want)
			}
			if want == math.Trunc(want) && math.Abs(want) <= 2048 && at != want {
				t.Fatalf("p%v is %v, want exactly %v", p, at, want)
			}
		}
	}
}

// However a set is split, its parts make the same counts, extremes and percentiles, and the same bytes for these; in
// one order they make the same of everything.
func TestValuesMerge(t *testing.T) {
	rnd := seed.Rand(t)
	for range 200 {
		var whole Values
		parts := make([]Values, 1+rnd.IntN(5))
		for range rnd.IntN(400) {
			x := math.Exp(3*rnd.NormFloat64()) - 1
			_, _ = whole.Add(x), parts[rnd.IntN(len(parts))].Add(x)
		}
		var there, merged Values
		for i := range parts {
			rest, err := there.Read(append(parts[i].Append(nil), 7))
			if err != nil || len(rest) != 1 {
				t.Fatal(rest, err)
			}
			merged.Merge(&parts[i])
		}
		if there.Moments != merged.Moments || !slices.Equal(there.list, merged.list) {
			t.Fatalf("%v through bytes, %v without", there, merged)
		}
		whole.settle()
		same := merged.Count == whole.Count && merged.Min == whole.Min && merged.Max == whole.Max
		if !same || !slices.Equal(merged.list, whole.list) || math.Abs(merged.Mean-whole.Mean) > 1e-9*whole.StdDev() {
			t.Fatalf("%v, want %v", merged, whole)
		}
	}
}

// The intervals of percentiles hold the truth, in the short tail and the long one; where nothing lies beyond there is
// none, and none in a single sample.
func TestValuesInterval(t *testing.T) {
	const experiments = 400
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, p := range []float64{2, 50, 97} {
		hits := 0
		for range experiments {
			var all Values
			var parts []*Values
			for range 10 {
				one := &Values{}
				for range 200 {
					_ = one.Add(rnd.ExpFloat64() - 1)
				}
				parts = append(parts, one)
				all.Merge(one)
			}
			i := all.Interval(p, parts)
			if !i.Known() {
				t.Fatalf("p%v: %+v", p, i)
			}
			if i.Holds(-math.Log1p(-p/100) - 1) {
				hits++
			}
			if i := all.Interval(p, parts[:1]); i.Known() {
				t.Fatalf("p%v of a single sample: %+v", p, i)
			}
			if i := all.Interval(100, parts); i.Known() || i.Mean != all.Max {
				t.Fatalf("p100: %+v", i)
			}
		}
		t.Logf("p%v: %d of %d", p, hits, experiments)
		if hits < experiments*92/100 || hits > experiments*99/100 {
			t.Errorf("p%v: %d of %d intervals hold the truth", p, hits, experiments)
		}
	}
	var none, same Values
	_, _ = same.Add(3), same.Add(3)
	if i := same.Interval(50, []*Values{&same, &same}); i.Low != 3 || i.Mean != 3 || none.Interval(50, nil) != nil {
		t.Errorf("%+v", i)
	}
}

// What isn't a number of a bounded size is refused and changes nothing.
func TestValuesRefuse(t *testing.T) {
	var v Values
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e101, -1e101} {
		if v.Add(x) == nil {
			t.Error(x, "was taken")
		}
	}
	if v.Add(math.Copysign(0, -1)) != nil || v.Add(0) != nil || v.Count != 2 || v.used != 1 || v.P(50) != 0 {
		t.Errorf("%+v", v)
	}
}

// Recording doesn't allocate once the histogram has its buckets.
func TestValuesAllocate(t *testing.T) {
	var v Values
	x := 1.0
	record := func() {
		for range 1000 {
			x = math.Mod(x*1.7, 100)
			_ = v.Add(x)
		}
	}
	for range 100 {
		record()
	}
	if n := testing.AllocsPerRun(10, record); n > 1 {
		t.Errorf("%v allocations for 1,000 values", n)
	}
}

// FuzzValues: bytes that are not ours end in an error, or in a set that can be written and read again.
func FuzzValues(f *testing.F) {
	var v Values
	f.Add(v.Append(nil))
	for _, x := range []float64{-3, 0, 1, 1, 1e9} {
		_ = v.Add(x)
	}
	f.Add(v.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var v, again Values
		if _, err := v.Read(b); err != nil {
			return
		}
		if rest, err := again.Read(v.Append(nil)); err != nil || len(rest) > 0 || again.Moments != v.Moments {
			t.Fatalf("%v %v, want %v", err, again, v)
		}
		for _, p := range []float64{0, 50, 100} {
			if x := v.P(p); !(x >= v.Min && x <= v.Max) {
				t.Fatalf("p%v is %v, outside of %v to %v", p, x, v.Min, v.Max)
			}
		}
	})
}

func BenchmarkValues(b *testing.B) {
	var v Values
	xs := make([]float64, 1<<12)
	rnd := seed.Rand(b)
	for i := range xs {
		xs[i] = rnd.ExpFloat64()
	}
	i := 0
	for b.Loop() {
		_ = v.Add(xs[i&(len(xs)-1)])
		i++
	}
}
