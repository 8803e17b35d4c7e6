// SPDX-License-Identifier: Apache-2.0

package ring

// access is one kind of access to shared memory on the event path. The names are
// those of docs/format/ring.md.
type access uint8

const (
	putHeader     access = iota + 1 // plain store of a staged header, or of the zero behind the last one
	publishHeader                   // release store of the first staged header
	loadHeader                      // atomic load of a header
	storeHead                       // release store of the head
	loadHead                        // atomic load of the head
	touchLine                       // load of a word of a published record's body, which is not used
	putBody                         // plain store to a word of a body, where the ring does it itself
)
