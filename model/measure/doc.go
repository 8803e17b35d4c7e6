// SPDX-License-Identifier: Apache-2.0

// Package measure is what models measure with: moments and percentiles of durations
// that can be merged and sent, sums over batches of simulated time, and confidence
// intervals.
//
// Guarantee: merging is exact for counts, extremes and histograms, in any order; what
// was sent and received again gives the same percentiles. Reading bytes that are not
// ours ends in an error. An Interval holds the truth as often as its confidence
// promises, or is unbounded: docs/intervals.md has what is claimed and how often it held.
//
//	var l measure.Latencies
//	err := l.Add(0.012)
//	data = l.Append(data)                       // in the worker
//	data, err = all.Read(data)                  // in the launcher
//	p99 := all.P(99)
//	mean, ok := measure.Ratio(series)           // waiting over arrivals, say
package measure
