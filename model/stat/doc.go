// Package stat is what models need of statistics: sums over stretches of simulated
// time, and confidence intervals from them.
//
// Guarantee: what it computes depends only on what it was given, in the order in which
// it was given. An Interval never hides that nothing is known: it has HalfWidth 0 and
// N < 2 then.
//
//	wait, arrivals := stat.NewBatches(100, 1100, 20), stat.NewBatches(100, 1100, 20)
//	wait.At(t, waited)
//	arrivals.At(t, 1)
//	…
//	mean, ok := stat.Ratio(wait.Sums(), arrivals.Sums(), 0.95)
package stat
