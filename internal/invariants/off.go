// SPDX-License-Identifier: Apache-2.0

//go:build !invariants

package invariants

// Enabled is false in the plain build, so that `if invariants.Enabled { … }`
// costs nothing there.
const Enabled = false
