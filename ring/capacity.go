// SPDX-License-Identifier: Apache-2.0

package ring

import "math/bits"

// CapacityFor is the least capacity of a ring that always has room for so many records of length bytes that haven't
// been released, each of them published by itself, whatever was published before: for a ring whose producer must never
// find it full. Both are 0 or more; the result can be more than CapacityMax.
func CapacityFor(records, length int) int {
	each := headerBytes + int(alignUp(uint64(length)))
	// Padding in front of the end of the data area is shorter than a record; one word stays free behind the last.
	need := records*each + each + headerBytes
	if need > lineCapacityMin/2 && each <= aloneMax {
		// From a moment on at which the ring was empty, as many records may begin at lines as there are up to the next
		// look at the consumer, with the one that was looked for. The first of them may end anywhere before.
		lines := (each + lineBytes - 1) &^ (lineBytes - 1)
		need += min(records, looksEvery+1)*(lines-each) + lineBytes - headerBytes
	}
	return max(CapacityMin, 1<<bits.Len(uint(need-1)))
}
