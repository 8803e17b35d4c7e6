// SPDX-License-Identifier: Apache-2.0

package until

import (
	"errors"
	"math/rand/v2"
	"testing"
)

// value gives one figure, under a name.
func value(of string, x float64) func(string) (float64, bool) {
	return func(name string) (float64, bool) { return x, name == of }
}

// TestParse: what is written is read again, in each form.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{"a.b±2%": "a.b ± 2 %", " a b +- 0.5 ": "a b ± 0.5",
		"x+/-1e-3": "x ± 0.001"} {
		p, err := Parse(text)
		if err != nil || p.String() != want {
			t.Errorf("%q: found %q (%v), want %q", text, p.String(), err, want)
		}
		if again, err := Parse(p.String()); err != nil || again.String() != want {
			t.Errorf("%q: found %q (%v) again", want, again.String(), err)
		}
	}
	for _, text := range []string{"", "a", "± 1", "a ± 0", "a ± -1", "a ± inf", "a ± nan", "a ± 100 %", "a ± 1 s"} {
		_, err := New([]string{text})
		if bad := (*FormError)(nil); !errors.As(err, &bad) || bad.Found == "" || bad.Want == "" {
			t.Errorf("%q: found the error %v, want what was found, and what is wanted", text, err)
		}
	}
}

// TestRule: it ends behind the first replication at which all intervals are narrow enough, in their order, and a
// replication without a figure is no sample.
func TestRule(t *testing.T) {
	r, err := New([]string{"x ± 10 %", "y ± 0.5"})
	if err != nil {
		t.Fatal(err)
	}
	r.Least = 3
	at := func(i int, all map[string]float64) string {
		return r.Look(i, func(name string) (float64, bool) { x, ok := all[name]; return x, ok })
	}
	if lacks := at(0, map[string]float64{"x.mean": 10}); lacks != "y" {
		t.Errorf("found that %q is missing, want y", lacks)
	}
	if lacks := at(0, map[string]float64{"x.mean": 10, "x": 10, "y.observed.mean": 1}); lacks != "" {
		t.Errorf("found that %q is missing, want nothing", lacks)
	}
	for i, enough := range []bool{false, false, false, true} {
		if r.Enough() != enough || r.Looked() != i+1 {
			t.Errorf("%d replications: enough %v, want %v behind %d", r.Looked(), r.Enough(), enough, i+1)
		}
		next := map[string]float64{"x": 10.1 - 0.1*float64(i%2), "x.mean": 1e9, "y.observed.mean": 1}
		if i == 1 {
			delete(next, "y.observed.mean")
		}
		at(i+1, next)
	}
	for i, name := range []string{"x", "y.observed.mean"} {
		found, of := r.Found(i)
		if found != name || of.N != 5-i || !r.Reached(i) {
			t.Errorf("found %s with %+v, want %s", found, of, name)
		}
	}
}

// TestPredicted: the first sample is predicted before it is there; then about the number that it takes, and never more
// than there may be.
func TestPredicted(t *testing.T) {
	r, err := New([]string{"x ± 0.1"})
	if err != nil {
		t.Fatal(err)
	}
	const most = 5000
	rnd := rand.New(rand.NewPCG(1, 2))
	half := 0
	for i := 0; !r.Enough(); i++ {
		r.Look(i, value("x", rnd.NormFloat64()))
		predicted := r.Predicted(most)
		switch {
		case i+1 < Least && predicted != Least, r.Predicted(20) > 20, predicted <= i+1 && !r.Enough():
			t.Fatalf("behind %d replications: predicted %d", i+1, predicted)
		case i+1 == 200:
			half = predicted
		}
	}
	if n := r.Looked(); half < n*2/3 || half > n*3/2 || r.Predicted(most) != n {
		t.Errorf("it took %d replications, predicted %d behind 200 of them, and %d in the end", n, half,
			r.Predicted(most))
	}
}
