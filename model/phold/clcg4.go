// SPDX-License-Identifier: Apache-2.0

package phold

// clcg4 is one stream of CLCG4, the combined generator of four multiplicative linear
// congruential ones by L'Ecuyer and Andres (A random number generator based on the
// combination of four LCGs, Mathematics and Computers in Simulation 44, 1997). Its
// period is near 2^121, and the state a stream starts from is reached from any other
// by raising the multipliers to a power, so every logical process has a stream far
// away from all others. ROSS uses it, which is why it is here: with the same streams,
// the same model handles the same events.
//
// Owned by one goroutine.
type clcg4 struct {
	s0, s1, s2, s3 uint64 // 1 … modulus-1 each
}

// The four moduli are primes just below 2^31, written here as 2^31 minus something,
// which is what makes reducing a product cheap.
const (
	below0, below1, below2, below3     = 1, 105, 225, 325
	modulus0                           = 1<<31 - below0
	modulus1                           = 1<<31 - below1
	modulus2                           = 1<<31 - below2
	modulus3                           = 1<<31 - below3
	factor0, factor1, factor2, factor3 = 45991, 207707, 138556, 49689
	weight0                            = 4.65661287524579692e-10 // 1 / modulus0
	weight1                            = 4.65661310075985993e-10
	weight2                            = 4.65661336096842131e-10
	weight3                            = 4.65661357780891134e-10
	apartLog2                          = 31 + 41 // streams lie 2^72 numbers apart
)

// newCLCG4 is the start of stream i of those that begin at 11111111, 22222222,
// 33333333, 44444444.
func newCLCG4(i uint64) clcg4 {
	start := func(factor, modulus, seed uint64) uint64 {
		apart := factor
		for range apartLog2 {
			apart = apart * apart % modulus
		}
		return power(apart, i, modulus) * seed % modulus
	}
	return clcg4{
		start(factor0, modulus0, 11111111),
		start(factor1, modulus1, 22222222),
		start(factor2, modulus2, 33333333),
		start(factor3, modulus3, 44444444),
	}
}

// power is base^exponent modulo a modulus below 2^32.
func power(base, exponent, modulus uint64) uint64 {
	result := uint64(1)
	for ; exponent > 0; exponent >>= 1 {
		if exponent&1 != 0 {
			result = result * base % modulus
		}
		base = base * base % modulus
	}
	return result
}

// draw returns the next number between 0 and 1.
//
// A product of a factor and a state is below 2^49. With x = high·2^31 + low and the
// modulus 2^31 - b, x is congruent to high·b + low, which is below twice the modulus:
// one subtraction is left. The weighted sum is kept between 0 and 1 after every
// step, in the order in which the authors do it, and with conversions that forbid the
// compiler to fuse a product and a sum: the last bit must be the same everywhere.
func (g *clcg4) draw() float64 {
	g.s0 = reduce(g.s0*factor0, below0)
	g.s1 = reduce(g.s1*factor1, below1)
	g.s2 = reduce(g.s2*factor2, below2)
	g.s3 = reduce(g.s3*factor3, below3)
	u := float64(weight0*float64(int64(g.s0))) - float64(weight1*float64(int64(g.s1)))
	if u < 0 {
		u++
	}
	u += float64(weight2 * float64(int64(g.s2)))
	if u >= 1 {
		u--
	}
	u -= float64(weight3 * float64(int64(g.s3)))
	if u < 0 {
		u++
	}
	return u
}

// reduce is x modulo 2^31 - below, for x < 2^49 and below < 2^9.
func reduce(x, below uint64) uint64 {
	x = x>>31*below + x&(1<<31-1)
	if m := 1<<31 - below; x >= m {
		x -= m
	}
	return x
}
