// SPDX-License-Identifier: Apache-2.0

// Package invariants holds the checks of the checked build.
//
// Guarantee: with the build tag `invariants` off, Enabled is the constant false
// and every check behind it is removed by the compiler; the plain build does
// exactly what it would do without them.
//
//	if invariants.Enabled {
//		invariants.Assert(head <= tail, "ring: head %d beyond tail %d", head, tail)
//	}
package invariants

import (
	"bytes"
	"fmt"
	"runtime"
	"strconv"
)

// mangled is the byte that Mangle writes: unlikely as text, as a small integer
// and as the top byte of a float64 epoch.
const mangled = 0xDB

// Assert panics with the formatted text when ok is false. A failed assertion is
// a defect of disco, never the fault of a peer, a file or a model. Callers guard
// it with Enabled, so that its arguments are not evaluated in the plain build.
func Assert(ok bool, format string, args ...any) {
	if !ok {
		panic("invariant broken: " + fmt.Sprintf(format, args...))
	}
}

// Goroutine is the number of the calling goroutine, 1 or more: the one in the first line of a stack dump, because Go
// has no other name for it. That takes 15 us and more, and memory.
func Goroutine() uint64 {
	var text [40]byte
	line := bytes.TrimPrefix(text[:runtime.Stack(text[:], false)], []byte("goroutine "))
	end := max(0, bytes.IndexByte(line, ' '))
	n, err := strconv.ParseUint(string(line[:end]), 10, 64)
	if err != nil {
		panic(fmt.Sprintf("invariants: a stack begins with %q", text[:]))
	}
	return n
}

// Mangle overwrites memory whose lease has ended, so that a reader who kept a
// slice of it too long sees nonsense at once in tests instead of stale data in
// production. It does nothing in the plain build.
func Mangle(b []byte) {
	if !Enabled {
		return
	}
	for i := range b {
		b[i] = mangled
	}
}
