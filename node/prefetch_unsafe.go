// SPDX-License-Identifier: Apache-2.0

package node

import "unsafe"

// aheadMin is the number of simprocs from which on looking ahead pays: a few thousand of
// them, with handlers and payloads, are what a core's own cache holds (docs/pending-set.md).
const aheadMin = 3000

// paysAhead tells whether there are so many, those not counted whose handlers have no state: they get nothing to do.
func (e *Engine) paysAhead() bool {
	var none any = struct{}{}
	stateless := (*[2]unsafe.Pointer)(unsafe.Pointer(&none))[1] // one address for all values without size
	count := 0
	if e.passive != nil {
		return false
	}
	for i := range e.byID {
		if (*[2]unsafe.Pointer)(unsafe.Pointer(&e.at(uint32(i)).handler))[1] != stateless {
			count++
		}
	}
	return count >= aheadMin
}

// How many entries before it is handled an entry's memory is asked for: its simproc and its
// payload first, then its handler, which only the simproc tells.
const (
	farAhead  = 16
	nearAhead = 8
)

// prefetch asks for the memory that the next entries of a set will need, so that it comes
// while the handlers before them are called. With 10^5 simprocs and more an activation would
// otherwise wait for memory three times, one after the other, for longer than it works.
func (e *Engine) prefetch(s *pending) {
	s.lookAhead()
	s.far, s.near = max(s.far, s.at), max(s.near, s.at)
	for end := min(s.at+nearAhead, s.far); s.near < end; s.near++ {
		// An interface is two words, the second of which points to its value; what kind of
		// value that is doesn't matter.
		words := (*[2]unsafe.Pointer)(unsafe.Pointer(&e.at(s.run[s.near].proc).handler))
		prefetch(words[1], nil)
	}
	for end := min(s.at+farAhead, len(s.run)); s.far < end; s.far++ {
		en := &s.run[s.far]
		prefetch(unsafe.Pointer(e.at(en.proc)), unsafe.Pointer(e.store.at(en.ref)))
	}
}

// What EachReport asks for beforehand: a report reads about all that a handler has.
const (
	reportFar   = 16 // simprocs before it: the simproc
	reportNear  = 8  // … and its handler
	reportLines = 16 // of its handler: a server of model/service has 15
)

// prefetchReport asks for the memory of those that report soon after the nth simproc.
func (e *Engine) prefetchReport(n int) {
	if far := n + reportFar; far < len(e.byID) {
		prefetch(unsafe.Pointer(e.at(e.byID[far])), nil)
	}
	if near := n + reportNear; near < len(e.byID) {
		words := (*[2]unsafe.Pointer)(unsafe.Pointer(&e.at(e.byID[near]).handler))
		prefetchLines(words[1], reportLines)
	}
}

// prefetchNode asks for the handlers of a node whose state AppendNode is asked for soon, if it is asked for all in
// order. Simprocs lie one behind the other: of them the processor knows by itself.
func (e *Engine) prefetchNode(n int) {
	if n += reportNear; e.passive != nil || n >= e.plan.nodes {
		return
	}
	for rank := range e.plan.layers {
		i := e.plan.indexOn(e.plan.self, e.plan.ID(Endpoint{n, rank}))
		if i < 0 {
			return
		}
		words := (*[2]unsafe.Pointer)(unsafe.Pointer(&e.at(uint32(i)).handler))
		prefetchLines(words[1], max(1, e.lines))
	}
}

// linesOf is how many cache lines are asked for of a handler that saves so many bytes: it has about twice as many.
func linesOf(size int) int { return max(1, min(size/32, reportLines)) }

// prefetchChunk asks for the chunk that is visited next: chunks of a bucket lie anywhere.
func prefetchChunk(c *chunk) { prefetchLines(unsafe.Pointer(c), int(unsafe.Sizeof(*c)/64)) }

// What gather asks for beforehand: entries lie anywhere, and so do their payloads.
const (
	gatherFar  = 64 // entries before it: the entry
	gatherNear = 32 // … and its payload
)

// prefetchPending asks for the memory of entries that are gathered soon after the ith, and of their payloads.
func (s *store) prefetchPending(all []*entry, i int) {
	if i += gatherNear; i >= len(all) {
		return
	}
	far := all[min(i+gatherFar-gatherNear, len(all)-1)]
	prefetch(unsafe.Pointer(far), unsafe.Pointer(s.at(all[i].ref)))
}
