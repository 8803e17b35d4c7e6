// SPDX-License-Identifier: Apache-2.0

//go:build !race

package race

// Enabled is false in a build without -race.
const Enabled = false

// Acquire does nothing.
func Acquire[T uint32 | uint64](word *T) {}

// ReleaseMerge does nothing.
func ReleaseMerge[T uint32 | uint64](word *T) {}
