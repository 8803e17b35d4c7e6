// SPDX-License-Identifier: Apache-2.0

package phold

import (
	"math/rand/v2"
	"testing"
)

// TestReduce holds the cheap reduction against a division.
func TestReduce(t *testing.T) {
	const seed = 1
	rnd := rand.New(rand.NewPCG(seed, 0))
	for _, below := range []uint64{below0, below1, below2, below3} {
		m := uint64(1<<31 - below)
		for _, x := range []uint64{0, 1, m - 1, m, m + 1, 2*m - 1, 2 * m, 1<<31 - 1, 1 << 31, 207707 * (m - 1),
			1<<49 - 1} {
			if got := reduce(x, below); got != x%m {
				t.Errorf("reduce(%d, %d) is %d, want %d", x, below, got, x%m)
			}
		}
		for range 100_000 {
			if x := rnd.Uint64N(1 << 49); reduce(x, below) != x%m {
				t.Fatalf("seed %d: reduce(%d, %d) is %d, want %d", seed, x, below, reduce(x, below), x%m)
			}
		}
	}
}

// TestStreamsLieApart: stepping through one of the four components as often as streams
// lie apart leads from one stream to the next; a full walk is out of reach, so the
// power of the multiplier stands in, in another way than newCLCG4 takes it.
func TestStreamsLieApart(t *testing.T) {
	streams := []clcg4{newCLCG4(0), newCLCG4(1), newCLCG4(2), newCLCG4(1 << 40)}
	if s := streams[0]; s != (clcg4{11111111, 22222222, 33333333, 44444444}) {
		t.Errorf("stream 0 starts at %v", s)
	}
	// 2^72 modulo the order of the group, p-1, is enough of an exponent (Fermat).
	step := func(factor, modulus, state uint64) uint64 {
		exponent := uint64(1)
		for range 72 {
			exponent = exponent * 2 % (modulus - 1)
		}
		return power(factor, exponent, modulus) * state % modulus
	}
	for i := range 2 {
		a, b := streams[i], streams[i+1]
		if step(factor0, modulus0, a.s0) != b.s0 || step(factor1, modulus1, a.s1) != b.s1 ||
			step(factor2, modulus2, a.s2) != b.s2 || step(factor3, modulus3, a.s3) != b.s3 {
			t.Errorf("stream %d is %v, stream %d is %v: not 2^72 apart", i, a, i+1, b)
		}
	}
	for i, s := range streams {
		for range 1000 {
			if u := s.draw(); !(u > 0 && u < 1) {
				t.Fatalf("stream %d drew %v", i, u)
			}
		}
	}
}

// TestDrawsAreUniform: a coarse look at mean and at each tenth.
func TestDrawsAreUniform(t *testing.T) {
	g := newCLCG4(77)
	var tenths [10]int
	sum := 0.0
	const n = 100_000
	for range n {
		u := g.draw()
		sum += u
		tenths[int(10*u)]++
	}
	if mean := sum / n; mean < 0.497 || mean > 0.503 {
		t.Errorf("the mean is %v", mean)
	}
	for i, k := range tenths {
		if k < n/10-500 || k > n/10+500 {
			t.Errorf("%d of %d draws in tenth %d", k, n, i)
		}
	}
}

func TestRenewals(t *testing.T) {
	// On both sides of the change from sums to limits, and in between.
	for _, lookahead := range []float64{0.01, 0.3} {
		m1, v1 := renewals(19_999, lookahead)
		m2, v2 := renewals(20_001, lookahead)
		scale := 1 - lookahead
		if d := m2 - m1; d < 1.999 || d > 2.001 {
			t.Errorf("lookahead %v: the means are %v and %v", lookahead, m1, m2)
		}
		if d := v2 - v1 - 2*scale*scale; d < -0.02 || d > 0.02 {
			t.Errorf("lookahead %v: the variances are %v and %v", lookahead, v1, v2)
		}
	}
	if m, v := renewals(0.5, 0.5); m != 0 || v != 0 {
		t.Errorf("before the first event: %v, %v", m, v)
	}
}

var sink float64

func BenchmarkCLCG4(b *testing.B) {
	g := newCLCG4(3)
	for range b.N {
		sink += g.draw()
	}
}
