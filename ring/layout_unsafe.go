// SPDX-License-Identifier: Apache-2.0

package ring

import "unsafe"

// Compile-time pins: an array of negative length doesn't compile, so each offset
// and size is held from both sides.
var (
	_ [unsafe.Offsetof(control{}.identity) - identityOffset]struct{}
	_ [identityOffset - unsafe.Offsetof(control{}.identity)]struct{}
	_ [unsafe.Offsetof(control{}.producer) - producerOffset]struct{}
	_ [producerOffset - unsafe.Offsetof(control{}.producer)]struct{}
	_ [unsafe.Offsetof(control{}.consumer) - consumerOffset]struct{}
	_ [consumerOffset - unsafe.Offsetof(control{}.consumer)]struct{}
	_ [unsafe.Sizeof(control{}) - ControlBytes]struct{}
	_ [ControlBytes - unsafe.Sizeof(control{})]struct{}

	_ [unsafe.Offsetof(identityLines{}.format) - 0]struct{}
	_ [0 - unsafe.Offsetof(identityLines{}.format)]struct{}
	_ [unsafe.Offsetof(identityLines{}.capacity) - 8]struct{}
	_ [8 - unsafe.Offsetof(identityLines{}.capacity)]struct{}
	_ [unsafe.Offsetof(identityLines{}.start) - 16]struct{}
	_ [16 - unsafe.Offsetof(identityLines{}.start)]struct{}

	_ [unsafe.Offsetof(producerLines{}.owner) - 8]struct{}
	_ [8 - unsafe.Offsetof(producerLines{}.owner)]struct{}

	_ [unsafe.Offsetof(consumerLines{}.head) - 0]struct{}
	_ [0 - unsafe.Offsetof(consumerLines{}.head)]struct{}
	_ [unsafe.Offsetof(consumerLines{}.owner) - 8]struct{}
	_ [8 - unsafe.Offsetof(consumerLines{}.owner)]struct{}
)

// controlOf is the control area at the start of mem, whose length and alignment
// the caller has checked.
func controlOf(mem []byte) *control {
	return (*control)(unsafe.Pointer(&mem[0]))
}
