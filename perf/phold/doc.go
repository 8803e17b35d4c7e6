// SPDX-License-Identifier: Apache-2.0

// Package phold holds the reference for the speed of one worker: a bare Go heap loop of
// PHOLD (Fujimoto, Performance of Time Warp under synthetic workloads, 1990), and the
// same events through the public model interface.
//
// Guarantee: both make the same events of the same distribution with the same generator,
// so the ratio of their rates is the price of everything else that an engine does: the
// model interface, payloads, links, order, hashes, promises.
//
//	go test ./perf/phold -bench Ratio -benchtime 20x
//
// measures them in turns, a tenth of a second each, and reports the least, the median and
// the greatest ratio: a machine that is slow for a second is slow for both.
package phold
