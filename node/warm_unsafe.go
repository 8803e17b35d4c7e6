// SPDX-License-Identifier: Apache-2.0

package node

import "unsafe"

// warmMin is the number of simprocs from which on warming a run pays: a few thousand of
// them, with handlers, random streams and payloads, are what a core's own cache holds.
const warmMin = 2048

// warm reads one word of everything that the entries of a new run are about to need:
// simproc, handler, payload. Each activation would otherwise wait for memory several
// times, one after the other; here the processor waits for all of the run at once. With
// 10^5 simprocs and more that is a third of the time of an event.
func (e *Engine) warm(s *pending) {
	s.fresh = false
	if len(e.procs) < warmMin {
		return
	}
	sum := uint64(0)
	for i := s.at; i < len(s.run); i++ {
		en := &s.run[i]
		p := &e.procs[en.proc]
		sum += p.number + p.hash + e.store.touch(en.ref)
		// An interface is two words, the second of which points to its value; what kind of
		// value that is doesn't matter for reading one byte of it.
		if value := (*[2]*byte)(unsafe.Pointer(&p.handler))[1]; value != nil {
			sum += uint64(*value)
		}
	}
	e.warmed = sum // used, or the compiler would leave out the reads
}
