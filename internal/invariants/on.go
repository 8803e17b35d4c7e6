//go:build invariants

package invariants

// Enabled is true in the checked build (go build -tags invariants).
const Enabled = true
