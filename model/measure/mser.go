// SPDX-License-Identifier: Apache-2.0

package measure

// MSER finds where a course has settled: after how many of its numbers, a multiple of five, the rest is steady. The
// numbers are joined by fives, and of all beginnings to leave out, up to half of the course, it is the one by which the
// mean of the rest is estimated best: with the least variance of what is left, divided by its number (MSER-5: K. P.
// White, M. J. Cobb and S. C. Spratt, A comparison of five steady-state truncation heuristics for simulation, Winter
// Simulation Conference 2000). settled is false where that is half of the course: it may go on to change behind that
// (K. Hoad, S. Robinson and R. Davies, Automating warm-up length estimation, Journal of the Operational Research
// Society 61, 2010). Behind the
// half nothing is looked at: the end of a course, where few numbers are left, looks steady by chance.
func MSER(course []float64) (cut int, settled bool) {
	means := make([]float64, len(course)/mserBatch)
	for i := range means {
		for _, x := range course[i*mserBatch : (i+1)*mserBatch] {
			means[i] += x / mserBatch
		}
	}
	// From the last one to the first, so that one pass gives the variance of every rest (Welford 1962).
	rest, best, at := Moments{}, 0.0, -1
	for i := len(means) - 1; i >= 0; i-- {
		rest.Add(means[i])
		if n := float64(rest.Count); i <= len(means)/2 {
			if x := rest.M2 / (n * n); at < 0 || x <= best {
				best, at = x, i
			}
		}
	}
	if at < 0 {
		return 0, false
	}
	return at * mserBatch, at < len(means)/2
}

// mserBatch is how many numbers MSER joins.
const mserBatch = 5
