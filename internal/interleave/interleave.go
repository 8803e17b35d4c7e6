// SPDX-License-Identifier: Apache-2.0

// Package interleave marks the places in front of accesses to shared memory at which
// the order of two workers' steps matters. A simulation stops a worker there and lets
// another one run, so that it can try the orders that a machine would rarely take.
//
// Guarantee: in the plain build Point is empty and costs nothing. In the checked build
// (`-tags invariants`) it costs one load, unless a test has set a hook.
//
//	interleave.Point()
//	atomic.StoreUint64(&word, v)
package interleave
