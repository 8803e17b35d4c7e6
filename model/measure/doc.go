// Package measure is what models measure with: moments and percentiles of durations
// that can be merged and sent, and confidence intervals over replications.
//
// Guarantee: merging is exact for counts, extremes and histograms, in any order; what
// was sent and received again gives the same percentiles. Reading bytes that are not
// ours ends in an error.
//
//	var l measure.Latencies
//	err := l.Add(0.012)
//	data = l.Append(data)                       // in the worker
//	data, err = all.Read(data)                  // in the launcher
//	p99 := all.Percentile(99)
package measure
