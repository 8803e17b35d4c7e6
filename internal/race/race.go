// SPDX-License-Identifier: Apache-2.0

// Package race tells the race detector about orderings that it can't see. Memory
// that comes from mmap lies outside the Go heap: the detector ignores accesses to
// it and doesn't take its atomics for synchronisation, so heap values that one
// goroutine hands to another by way of a mapped word would be reported although
// they are in order.
//
// Guarantee: without -race every function is empty and costs nothing. With -race a
// note on a word of the Go heap does nothing either, because there the detector
// judges by the atomics themselves: a test on heap memory is never made blinder by
// a note. On other memory a note may order more than the atomics really do, never
// less.
//
//	race.ReleaseMerge(&word)        // just before the store that publishes
//	atomic.StoreUint64(&word, v)
//
//	v := atomic.LoadUint64(&word)
//	race.Acquire(&word)             // just after the load that may see it
package race
