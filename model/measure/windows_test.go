// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/disco-sim/disco/state"
)

// observed is what was recorded, one by one.
type observed struct {
	from, to float64
	amount   float64
	value    bool
}

// fill records random amounts, areas and values up to an instant in windows with fields for amounts and areas, and
// returns them. Amounts and times are such that sums are exact.
func fill(rnd *rand.Rand, w *Windows, until float64) (list []observed) {
	for t := 0.0; t < until*63/64; t += float64(rnd.IntN(64)) / 64 * until / 40 {
		o := observed{from: t, to: t, amount: float64(rnd.IntN(9))}
		switch rnd.IntN(3) {
		case 0:
			w.At(t, 0, o.amount)
		case 1:
			o.to = min(until, t+float64(1+rnd.IntN(63))/64*until/5)
			w.Over(o.from, o.to, 1, o.amount)
		case 2:
			o.value, o.amount = true, rnd.ExpFloat64()-0.1
			w.Value(t, o.amount)
		}
		list = append(list, o)
	}
	return list
}

// TestWindows: sums, areas and percentiles against a look at all that was recorded, of runs that end anywhere.
func TestWindows(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		horizon := []float64{1, 64, 600, 1e-7, 12345, 3e9}[rnd.IntN(6)]
		until := horizon
		if seed%3 == 0 {
			until *= rnd.Float64() * rnd.Float64()
		}
		count := 2 * (1 + rnd.IntN(WindowsMax/2))
		w := NewWindows(horizon, count, 2)
		list := fill(rnd, w, until)
		w.Reach(until)
		if w.Count() > count || w.Width()*float64(w.Count()) < until {
			t.Fatalf("seed %d: %d windows of %v s up to %v of %v", seed, w.Count(), w.Width(), until, horizon)
		}
		if whole := until / w.Width(); until > 1e-6*horizon && whole < float64(count)/10 {
			t.Fatalf("seed %d: %v windows of %v up to %v of %v", seed, whole, count, until, horizon)
		}
		checkWindows(t, seed, w, list)
	}
}

func checkWindows(t *testing.T, seed uint64, w *Windows, list []observed) {
	t.Helper()
	amounts, areas, medians := w.Sums(0), w.Sums(1), w.Percentile(50)
	for k := range w.Count() {
		low, high := float64(k)*w.Width(), float64(k+1)*w.Width()
		if k == 0 {
			low = math.Inf(-1)
		}
		amount, area := 0.0, 0.0
		var values []float64
		for _, o := range list {
			switch inside := o.from >= low && o.from < high; {
			case inside && o.value:
				values = append(values, o.amount)
			case inside && o.from == o.to && !o.value:
				amount += o.amount
			case o.to > o.from:
				area += o.amount * max(0, min(high, o.to)-max(low, o.from))
			}
		}
		if amounts[k] != amount || math.Abs(areas[k]-area) > 1e-9*w.Width()*float64(len(list)) {
			t.Fatalf("seed %d: window %d from %v to %v has %v and %v, want %v and %v", seed, k, low, high, amounts[k],
				areas[k], amount, area)
		}
		if len(values) == 0 {
			if !math.IsNaN(medians[k]) {
				t.Fatalf("seed %d: window %d has the median %v of nothing", seed, k, medians[k])
			}
			continue
		}
		slices.Sort(values)
		if want := values[(len(values)+1)/2-1]; math.Abs(medians[k]-want) > 0.016*math.Abs(want) {
			t.Fatalf("seed %d: window %d has the median %v, want %v", seed, k, medians[k], want)
		}
	}
}

// TestWindowsApart: windows that were saved and loaded, or sent, at any time have the same bytes in the end; those of
// several nodes have the sums of all, whatever their widths.
func TestWindowsApart(t *testing.T) {
	for seed := range uint64(100) {
		one := NewWindows(600, 64, 2)
		list := fill(rand.New(rand.NewPCG(seed, 6)), one, 600)
		other := NewWindows(600, 64, 2)
		for i, o := range list {
			switch {
			case o.value:
				other.Value(o.from, o.amount)
			case o.to > o.from:
				other.Over(o.from, o.to, 1, o.amount)
			default:
				other.At(o.from, 0, o.amount)
			}
			if i%7 == int(seed%7) {
				other = saved(t, other)
			}
		}
		if a, b := one.Append(nil), other.Append(nil); !bytes.Equal(a, b) {
			t.Fatalf("seed %d: saving changes what comes later", seed)
		}
		early := NewWindows(600, 64, 2)
		more := fill(rand.New(rand.NewPCG(seed, 7)), early, 1+float64(seed))
		all := NewWindows(600, 64, 2)
		for _, w := range []*Windows{early, one} {
			rest, err := all.Read(append(w.Append(nil), 7))
			if err != nil || len(rest) != 1 {
				t.Fatalf("seed %d: %v, %d bytes left", seed, err, len(rest))
			}
		}
		all.Reach(600)
		checkWindows(t, seed, all, append(list, more...))
	}
}

// saved is what State loads of what it has written.
func saved(t *testing.T, w *Windows) *Windows {
	t.Helper()
	o := NewWindows(600, 64, 2)
	b, err := state.Append(nil, 1, w.State)
	if err == nil {
		err = state.Decode(b, 1, false, o.State)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestWindowsWidth: windows are as wide as people would make them, and begin where they would say so.
func TestWindowsWidth(t *testing.T) {
	for horizon, want := range map[float64]float64{600: 5, 1: 0.005, 3600: 20, 200: 1, 0.3: 0.002, 1e9: 5e6, 256: 1} {
		w := NewWindows(horizon, WindowsMax, 1)
		w.Reach(horizon)
		if w.Width() != want || w.Count()%2 != 0 || float64(w.Count()-2)*want >= horizon {
			t.Errorf("%v s: %d windows of %v s, want %v s", horizon, w.Count(), w.Width(), want)
		}
	}
	w := NewWindows(1, 10, 1)
	w.Reach(1)
	want := []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75}
	if got := w.Edges(0.75); !reflect.DeepEqual(got, want) {
		t.Errorf("edges %v, want %v", got, want)
	}
	if got := Quotients([]float64{1, 2}, []float64{4, 0}); got[0] != 0.25 || !math.IsNaN(got[1]) {
		t.Errorf("quotients %v", got)
	}
	if n := WindowCount(1 << 30); n != windowsLeast || WindowCount(1) != WindowsMax || !WindowsFit(n) || WindowsFit(3) {
		t.Errorf("%d windows of many nodes", n)
	}
}

// TestWindowsNil: without windows nothing is recorded, and nothing fails.
func TestWindowsNil(t *testing.T) {
	var w *Windows
	w.At(1, 0, 1)
	w.Over(1, 2, 0, 1)
	w.Value(1, 1)
	w.Reach(3)
	if rest, err := w.Read([]byte("x")); w.Append(nil) != nil || w.Clone() != nil || string(rest) != "x" || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	var c *Course
	c.Begin(1)
	if c.Read(0, 1, nil) != nil || c.Read(0, 1, []byte("x")) == nil {
		t.Error("a course that isn't there reads something")
	}
}

// TestWindowsAllocate: recording allocates nothing, but for values that are new to their window.
func TestWindowsAllocate(t *testing.T) {
	w := NewWindows(1000, 64, 3)
	for i := range 1000 {
		w.Value(float64(i), 1.5)
	}
	now := 0.0
	if n := testing.AllocsPerRun(900, func() {
		w.At(now, 1, 1)
		w.Over(now, now+30, 2, 1)
		w.Value(now, 1.5)
		now++
	}); n != 0 {
		t.Errorf("%v allocations a call, want 0", n)
	}
}

// TestCourse: replications and nodes add up, and those that end early have less time.
func TestCourse(t *testing.T) {
	c := NewCourse(100, 10, 2)
	for rep, reached := range []float64{100, 100, 25} {
		c.Begin(reached)
		for n := range 2 {
			w := NewWindows(100, 10, 2)
			for at := 0.5; at < reached; at++ {
				w.At(at, n, float64(1+rep))
				w.Value(at, float64(n))
			}
			w.Reach(reached)
			if err := c.Read(n, 2, w.Append(nil)); err != nil {
				t.Fatal(err)
			}
		}
	}
	edges, seconds := c.Close()
	if len(edges) != 11 || edges[10] != 100 || !reflect.DeepEqual(seconds[1:5], []float64{30, 25, 20, 20}) {
		t.Errorf("edges %v, seconds %v", edges, seconds)
	}
	if got := c.Total(0, 2, 0); !reflect.DeepEqual(got[:4], []float64{60, 60, 45, 30}) ||
		!reflect.DeepEqual(got, c.Sums(0, 0)) || !reflect.DeepEqual(got, c.Sums(1, 1)) {
		t.Errorf("total %v", got)
	}
	if p := c.Percentiles(50, 51); p[0][3] != 0 || math.Abs(p[1][3]-1) > 0.016 {
		t.Errorf("percentiles %v", p)
	}
}

// FuzzWindows: bytes that aren't those of windows are refused, and what is read is written again.
func FuzzWindows(f *testing.F) {
	w := NewWindows(600, 64, 2)
	fill(rand.New(rand.NewPCG(1, 2)), w, 600)
	f.Add(w.Append(nil))
	f.Add(NewWindows(600, 64, 2).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		w := NewWindows(600, 64, 2)
		if _, err := w.Read(b); err != nil {
			return
		}
		again := NewWindows(600, 64, 2)
		if rest, err := again.Read(w.Append(nil)); err != nil || len(rest) > 0 {
			t.Fatalf("%v, %d bytes left", err, len(rest))
		}
		if !bytes.Equal(again.Append(nil), w.Append(nil)) {
			t.Fatal("other windows came back")
		}
	})
}

// TestWindowsDamaged: every part of the bytes of windows, and what can't be theirs, is refused.
func TestWindowsDamaged(t *testing.T) {
	w := NewWindows(600, 64, 2)
	fill(rand.New(rand.NewPCG(1, 2)), w, 600)
	good := w.Append(nil)
	for n := range good {
		if _, err := NewWindows(600, 64, 2).Read(good[:n]); err == nil {
			t.Fatalf("%d of %d bytes were taken for all", n, len(good))
		}
	}
	for name, b := range map[string][]byte{
		"doublings":        {31, 0, 0},
		"sums":             {0, 121, 0},
		"not a number":     append([]byte{0, 1}, append(notANumber(), 0)...),
		"window too large": {0, 0, 1, 0x80, 0x80, 0x80, 8, 1},
		"nothing counted":  {0, 0, 1, 5, 0},
		"twice":            {0, 0, 2, 5, 1, 0, 1},
	} {
		if _, err := NewWindows(600, 64, 2).Read(b); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

// notANumber is a NaN as windows are written.
func notANumber() []byte {
	return []byte{0xff, 0xf0, 0x03} // 0x7ff8 in reverse, as a varint: 0xf87f
}

var sink float64

// BenchmarkWindows is what recording costs an event.
func BenchmarkWindows(b *testing.B) {
	b.Run("At", func(b *testing.B) {
		w := NewWindows(float64(b.N), WindowsMax, 1)
		for i := range b.N {
			w.At(float64(i), 0, 1)
		}
		sink = w.sums[0]
	})
	b.Run("Over", func(b *testing.B) {
		w := NewWindows(float64(b.N), WindowsMax, 1)
		for i := range b.N {
			w.Over(float64(i), float64(i+1), 0, 1)
		}
		sink = w.sums[0]
	})
	b.Run("Value", func(b *testing.B) {
		w := NewWindows(float64(b.N), WindowsMax, 1)
		for i := range b.N {
			w.Value(float64(i), float64(1+i&1023))
		}
	})
}
