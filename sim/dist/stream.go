// SPDX-License-Identifier: Apache-2.0

package dist

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mathext"

	"github.com/disco-sim/disco/state"
)

// Stream is a stream of random numbers, PCG-DXSM (O'Neill 2014) as in math/rand/v2. *Stream is a rand.Source. The zero
// Stream is good, and the same each time. A copy gives the same numbers again.
type Stream struct {
	pcg    rand.PCG
	flip   uint64 // all ones in the opposite of a pair: x and ^x, u and 1 − u
	paired bool   // every draw inverts one Float64, so that pairs are opposite whatever the distribution
}

// Pair is a stream's part in a pair of replications with opposite numbers (antithetic variates).
type Pair uint8

// What streams there are. In both of a pair a draw takes one number and inverts the distribution at it: slower for some
// kinds, and other numbers than without a pair.
const (
	Unpaired Pair = iota
	Paired        // the first of a pair
	Opposite      // the second: 1 − u where the first has u
)

// MakeStream makes the stream of a seed of 128 bits, such as node's Simproc.Seed gives.
func MakeStream(high, low uint64, pair Pair) Stream {
	s := Stream{paired: pair != Unpaired}
	s.pcg.Seed(high, low)
	if pair == Opposite {
		s.flip = math.MaxUint64
	}
	return s
}

// State writes or reads how far the stream is, for a checkpoint, of a stream with the same part in a pair.
func (s *Stream) State(c *state.Codec) { c.PCG(&s.pcg) }

// Uint64 is 64 random bits.
func (s *Stream) Uint64() uint64 { return s.pcg.Uint64() ^ s.flip }

// Float64 is a number above 0 and below 1: the middle of one of 2⁵² equal parts, so that 1 − u is another.
func (s *Stream) Float64() float64 { return (float64(s.Uint64()>>12) + 0.5) * 0x1p-52 }

// ExpFloat64 is exponential with mean 1.
func (s *Stream) ExpFloat64() float64 {
	if s.paired {
		return -math.Log1p(-s.Float64())
	}
	return rand.New(s).ExpFloat64()
}

// NormFloat64 is normal with mean 0 and deviation 1.
func (s *Stream) NormFloat64() float64 {
	if s.paired {
		return mathext.NormalQuantile(s.Float64())
	}
	return rand.New(s).NormFloat64()
}

// IntN is a whole number from 0 to n − 1, each with the same probability. n must be above 0.
func (s *Stream) IntN(n int) int { return rand.New(s).IntN(n) }

// Shuffle puts n things into a random order; swap swaps two of them.
func (s *Stream) Shuffle(n int, swap func(i, j int)) { rand.New(s).Shuffle(n, swap) }

// Perm is the numbers from 0 to n − 1 in a random order. It allocates.
func (s *Stream) Perm(n int) []int { return rand.New(s).Perm(n) }
