// Package race tells the race detector about orderings that it can't see. Memory
// that comes from mmap lies outside the Go heap: the detector ignores accesses to
// it and doesn't take its atomics for synchronisation, so heap values that one
// goroutine hands to another by way of a mapped word would be reported although
// they are in order.
//
// Guarantee: without -race every function is empty and costs nothing. With -race
// the notes only add orderings that the annotated atomics really give; they never
// hide a race on the annotated words themselves when those are on the heap.
//
//	race.ReleaseMerge(&word)        // just before the store that publishes
//	atomic.StoreUint64(&word, v)
//
//	v := atomic.LoadUint64(&word)
//	race.Acquire(&word)             // just after the load that may see it
package race
