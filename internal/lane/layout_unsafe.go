// SPDX-License-Identifier: Apache-2.0

package lane

import "unsafe"

// Compile-time pins: an array of negative length doesn't compile, so each offset
// and size is held from both sides.
var (
	_ [unsafe.Offsetof(control{}.identity) - identityOffset]struct{}
	_ [identityOffset - unsafe.Offsetof(control{}.identity)]struct{}
	_ [unsafe.Offsetof(control{}.promise) - promiseOffset]struct{}
	_ [promiseOffset - unsafe.Offsetof(control{}.promise)]struct{}
	_ [unsafe.Sizeof(control{}) - forwardOffset]struct{}
	_ [forwardOffset - unsafe.Sizeof(control{})]struct{}

	_ [unsafe.Offsetof(identityLines{}.ringBytes) - 8]struct{}
	_ [8 - unsafe.Offsetof(identityLines{}.ringBytes)]struct{}
	_ [unsafe.Offsetof(identityLines{}.returnBlocks) - 16]struct{}
	_ [16 - unsafe.Offsetof(identityLines{}.returnBlocks)]struct{}
	_ [unsafe.Offsetof(promiseLines{}.epochBits) - 8]struct{}
	_ [8 - unsafe.Offsetof(promiseLines{}.epochBits)]struct{}
)

// controlOf is the control area at the start of mem, whose length and alignment
// the caller has checked.
func controlOf(mem []byte) *control {
	return (*control)(unsafe.Pointer(&mem[0]))
}
