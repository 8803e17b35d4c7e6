// SPDX-License-Identifier: Apache-2.0

//go:build invariants

package invariants

// Enabled is true in the checked build (go build -tags invariants).
const Enabled = true
