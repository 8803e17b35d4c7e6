// SPDX-License-Identifier: Apache-2.0

//go:build (amd64 || arm64) && !race

package node

import "unsafe"

// prefetch asks for two lines of memory from one address on and for one line at another.
// Neither is accessed: any address will do. Go has no name for the instruction that others
// may use, and a load in its place is waited for.
//
//go:noescape
func prefetch(two, one unsafe.Pointer)

// prefetchLines asks for so many lines of memory, at least one, from an address on.
//
//go:noescape
func prefetchLines(from unsafe.Pointer, lines int)
