// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

// TestAgainstEveryWindow: spans, sums of pieces and merged windows against a look at
// every window, for random overlapping ones, some touching, some beyond the horizon.
func TestAgainstEveryWindow(t *testing.T) {
	const horizon = 100
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		var pieces []Piece
		var ws []Window
		for range rnd.IntN(7) {
			from := float64(rnd.IntN(120))
			w := Window{from, from + 1 + float64(rnd.IntN(60))}
			ws = append(ws, w)
			pieces = append(pieces, Piece{w, float64(1+rnd.IntN(8)) / 8})
		}
		c, steps := NewSpans(ws, horizon), NewSteps(pieces, Sum).Reader()
		merged := Merge(append([]Window(nil), ws...))
		counts := make([]int, c.Count())
		cursor := c.Cursor()
		var times []float64
		for at := 0.0; at < horizon; at += 0.25 {
			times = append(times, at)
			if got := c.At(at); got != cursor.At(at) {
				t.Fatalf("seed %d: %v is in span %d, the cursor finds another", seed, at, got)
			}
			counts[c.At(at)]++
			want, inside := 0.0, false
			for _, p := range pieces {
				if p.From <= at && at < p.To {
					want += p.Value
					inside = true
				}
			}
			if got := steps.At(at); got != want {
				t.Fatalf("seed %d: %v add up to %v at %v, want %v", seed, pieces, got, at, want)
			}
			if Contains(merged, at) != inside {
				t.Fatalf("seed %d: %v in %v: want %v", seed, at, merged, inside)
			}
		}
		a := rnd.Float64() * horizon
		b := a + rnd.Float64()*(horizon-a)
		seconds := make([]float64, c.Count())
		c.AddSeconds(seconds, a, b)
		for _, w := range ws {
			before, during, after := Around(w, horizon)
			for _, v := range []Window{before, during, after} {
				checkSums(t, c, v, times, counts, a, b, seconds)
			}
		}
	}
}

// checkSums holds what the spans of a window add up to against the window itself.
func checkSums(t *testing.T, c Spans, w Window, times []float64, counts []int, a, b float64, seconds []float64) {
	t.Helper()
	count, sum, want := 0, 0.0, 0
	for i, hi := c.Within(w); i < hi; i++ {
		count += counts[i]
		sum += seconds[i]
	}
	for _, at := range times {
		if w.From <= at && at < w.To {
			want++
		}
	}
	if count != want {
		t.Fatalf("%d times in window %v, want %d (spans %v)", count, w, want, c)
	}
	if want := max(0, min(b, w.To)-max(a, w.From)); math.Abs(sum-want) > 1e-9 {
		t.Fatalf("%v to %v over %+v gives %v, want %v (spans %v)", a, b, w, sum, want, c)
	}
}

// TestMerge: windows that overlap or touch become one; an empty one has no length.
func TestMerge(t *testing.T) {
	got := Merge([]Window{{7, 9}, {1, 3}, {3, 4}, {8, 12}, {2, 2.5}})
	if want := []Window{{1, 4}, {7, 12}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	w := Window{5, 8}
	for end, want := range map[float64]float64{4: 0, 6: 1, 9: 3} {
		if got := w.SecondsBefore(end); got != want {
			t.Errorf("%v s before %v, want %v", got, end, want)
		}
	}
	if !(Window{3, 3}).Empty() || w.Empty() {
		t.Error("Empty")
	}
}
