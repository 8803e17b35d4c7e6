// SPDX-License-Identifier: Apache-2.0

// Package dist is distributions of times and amounts as values, the random streams from which they are drawn, and
// rates of arrivals that change over time.
//
// Guarantee: what is drawn is finite and lies from Min to Max. The same stream gives the same numbers everywhere.
// Drawing doesn't allocate. A distribution that was made or read is good; bad parameters never get that far: Read
// refuses them with their place, constructors panic. Distributions and rates never change and may be used by several
// goroutines; a Stream is for one.
//
//	service := dist.Exponential(3)           // mean 3 s
//	transfer := dist.Gamma(0.2, 0.5).Plus(0.1) // never below 0.1 s
//	s := dist.MakeStream(high, low, dist.Unpaired)
//	t := service.Draw(&s)
//
// docs/sim-distributions.md has the kinds, their parameters, and how they stand in a file.
package dist
