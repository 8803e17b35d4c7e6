// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"math"
	"math/rand/v2"
	"testing"
)

// mserByHand is the definition of MSER-5, term by term.
func mserByHand(course []float64) (cut int) {
	var means []float64
	for i := 0; i+5 <= len(course); i += 5 {
		means = append(means, (course[i]+course[i+1]+course[i+2]+course[i+3]+course[i+4])/5)
	}
	best := math.Inf(1)
	for d := 0; d <= len(means)/2; d++ {
		rest := means[d:]
		mean, squares, n := 0.0, 0.0, float64(len(rest))
		for _, x := range rest {
			mean += x / n
		}
		for _, x := range rest {
			squares += (x - mean) * (x - mean)
		}
		if x := squares / (n * n); x < best*(1-1e-12) {
			best, cut = x, 5*d
		}
	}
	return cut
}

// TestMSER: of a course that begins elsewhere the beginning is left out, as the definition says, of one that goes on to
// change nothing is said.
func TestMSER(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, decay := range []float64{0, 10, 40} {
		for range 50 {
			course := make([]float64, 1000)
			for i := range course {
				course[i] = 10 + rnd.NormFloat64()
				if decay > 0 {
					course[i] += 20 * math.Exp(-float64(i)/decay)
				}
			}
			cut, settled := MSER(course)
			if want := mserByHand(course); cut != want || !settled {
				t.Fatalf("decay %v: %d, %v, want %d", decay, cut, settled, want)
			}
			if rest := 20 * math.Exp(-float64(cut)/decay); decay > 0 && rest > 3 {
				t.Errorf("decay %v: from %d on, where %v are left of the beginning", decay, cut, rest)
			}
		}
	}
	rising := make([]float64, 1000)
	for i := range rising {
		rising[i] = float64(i)
	}
	if cut, settled := MSER(rising); settled {
		t.Errorf("what rises all the time has settled at %d", cut)
	}
	if cut, settled := MSER(make([]float64, 200)); cut != 0 || !settled {
		t.Errorf("what is always 0 has settled at %d, %v, want at once", cut, settled)
	}
	if _, settled := MSER(make([]float64, 4)); settled {
		t.Error("four numbers have settled")
	}
}
