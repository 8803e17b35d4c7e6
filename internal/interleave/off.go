// SPDX-License-Identifier: Apache-2.0

//go:build !invariants

package interleave

// Enabled is false in the plain build.
const Enabled = false

// Point does nothing.
func Point() {}

// Set does nothing: there is no place at which f would be called.
func Set(f func()) {}
