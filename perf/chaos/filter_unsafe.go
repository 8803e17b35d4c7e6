// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setFilter sets a filter of the system calls of this thread.
func setFilter(program []unix.SockFilter) error {
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&p)), 0, 0); err != nil {
		return fmt.Errorf("filter of system calls: %w", err)
	}
	return nil
}
