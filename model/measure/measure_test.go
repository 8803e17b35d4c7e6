// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// TestLatencies holds merged and sent sets against sorted numbers.
func TestLatencies(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var all []float64
	var merged Latencies
	var data []byte
	for range 10 {
		var part Latencies
		for range rnd.IntN(3000) {
			x := rnd.ExpFloat64() * 0.01
			all = append(all, x)
			if err := part.Add(x); err != nil {
				t.Fatal(err)
			}
		}
		data = part.Append(data)
		merged.Merge(&part)
	}
	var sent Latencies
	for rest := data; len(rest) > 0; {
		var err error
		if rest, err = sent.Read(rest); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(sent.Summary(), merged.Summary()) || sent.Count != int64(len(all)) {
		t.Errorf("sent: %+v, merged %+v", sent.Summary(), merged.Summary())
	}
	slices.Sort(all)
	for _, p := range []float64{50, 90, 99, 99.9} {
		want := all[int(math.Ceil(p/100*float64(len(all))))-1]
		got, low, high := merged.Percentile(p)
		if math.Abs(got-want) > 1e-3*want || want < low-1e-12 || want > high+1e-12 || got < low || got > high ||
			high-low > 1e-3*want {
			t.Errorf("p%v is %v, from %v to %v, want %v", p, got, low, high, want)
		}
	}
	sum := 0.0
	for _, x := range all {
		sum += x
	}
	if mean := sum / float64(len(all)); math.Abs(merged.Mean-mean) > 1e-12*mean || merged.Min != all[0] ||
		merged.Max != all[len(all)-1] {
		t.Errorf("moments %+v, want the mean %v", merged.Moments, mean)
	}
}

func TestEmpty(t *testing.T) {
	var l Latencies
	data := l.Append([]byte{7})
	var back Latencies
	rest, err := back.Read(data[1:])
	if err != nil || len(rest) != 0 || back.Summary() != nil || back.P(50) != 0 || back.StdDev() != 0 {
		t.Errorf("%v, %v, %+v", rest, err, back)
	}
	if l.Add(math.NaN()) == nil || l.Add(-1) == nil || l.Count != 0 {
		t.Error("a duration that is none was taken")
	}
	if err := l.Add(math.MaxFloat64); err != nil || l.Max != math.MaxFloat64 {
		t.Errorf("the longest duration: %v, %+v", err, l)
	}
}

// TestWrongBytes: whatever the bytes, there is an error or a set that holds together.
func TestWrongBytes(t *testing.T) {
	var l Latencies
	for i := range 50 {
		if err := l.Add(float64(i) / 10); err != nil {
			t.Fatal(err)
		}
	}
	good := l.Append(nil)
	for n := range len(good) {
		if _, err := new(Latencies).Read(good[:n]); err == nil {
			t.Errorf("no error after %d of %d bytes", n, len(good))
		}
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 20000 {
		bad := slices.Clone(good)
		bad[rnd.IntN(len(bad))] = byte(rnd.Uint32())
		var back Latencies
		if _, err := back.Read(bad); err == nil && back.Count > 0 && back.histogram.TotalCount() != back.Count {
			t.Fatalf("%+v", back)
		}
	}
}

// TestRank: the nearest rank is the documented ⌈pn⌉, in exact arithmetic.
func TestRank(t *testing.T) {
	for _, p := range []struct {
		text  float64
		milli int64
	}{{0, 0}, {0.001, 1}, {1, 1000}, {25, 25000}, {50, 50000}, {90, 90000}, {95, 95000}, {99, 99000}, {99.9, 99900},
		{99.999, 99999}, {100, 100000}} {
		for n := int64(1); n < 3000; n++ {
			want := max(1, (p.milli*n+99999)/100000)
			if got := rank(p.text, n); got != want {
				t.Fatalf("p%v of %d: rank %d, want %d", p.text, n, got, want)
			}
		}
	}
	if got := rank(99.9, math.MaxInt64); got != 9214148664817921032 {
		t.Errorf("the rank of the largest set is %d", got)
	}
}

// TestPercentileOfFew: the percentile of a small set is one of its values, which buckets
// of one value each show. That of 12 at 95 % is the 12th, not the 11th.
func TestPercentileOfFew(t *testing.T) {
	for n := 1; n <= 40; n++ {
		var l Latencies
		var all []float64
		for i := range n {
			x := 0.1 + 0.0171*float64((i*7)%n)
			all = append(all, x)
			if err := l.Add(x); err != nil {
				t.Fatal(err)
			}
		}
		slices.Sort(all)
		for _, p := range []int{1, 5, 50, 90, 95, 99, 100} {
			want := all[(p*n+99)/100-1]
			if got := l.P(float64(p)); math.Abs(got-want) > 0.5e-3*want {
				t.Errorf("p%d of %d is %v, want %v", p, n, got, want)
			}
		}
	}
}

// TestInterpolation: with many values in a bucket a percentile is much better known than
// by the bucket's edge, which is up to 1/1024 too high.
func TestInterpolation(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	var l Latencies
	for range 1_000_000 {
		if err := l.Add(1 + 0.01*rnd.Float64()); err != nil {
			t.Fatal(err)
		}
	}
	for p := 5.0; p < 100; p += 5 {
		want := 1 + 0.01*p/100
		if got, low, high := l.Percentile(p); math.Abs(got-want) > 5e-5 || high-low < 0.4e-3 {
			t.Errorf("p%v is %v from %v to %v, want %v", p, got, low, high, want)
		}
	}
}

// TestRecorder: what a Recorder takes out and Latencies reads is the set that Latencies
// would hold, for one set after the other; longer durations count as the longest.
func TestRecorder(t *testing.T) {
	r := NewRecorder(2)
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1000, 0, 1, 300} {
		var want Latencies
		for range n {
			x := rnd.Float64() * 1.5
			if err := errors.Join(r.Add(x), want.Add(x)); err != nil {
				t.Fatal(err)
			}
		}
		var got Latencies
		encoded := r.Take(nil)
		if rest, err := got.Read(encoded); err != nil || len(rest) > 0 {
			t.Fatalf("%d bytes are left, %v", len(rest), err)
		}
		if !bytes.Equal(encoded, want.Append(nil)) {
			t.Errorf("%d durations: the bytes of Recorder and Latencies differ", n)
		}
		if got.Moments != want.Moments {
			t.Errorf("%d durations: %+v, want %+v", n, got.Moments, want.Moments)
		}
		for p := 0.5; p <= 100; p += 0.5 {
			if got.P(p) != want.P(p) {
				t.Errorf("%d durations: p%v is %v, want %v", n, p, got.P(p), want.P(p))
			}
		}
	}
	if err := r.Add(-1); err == nil {
		t.Error("a negative duration was added")
	}
	if err := r.Add(1e9); err != nil {
		t.Error(err)
	}
	var last Latencies
	if _, err := last.Read(r.Take(nil)); err != nil || last.Count != 1 || last.Max != 1e9 {
		t.Errorf("%+v, %v", last.Moments, err)
	}
}
