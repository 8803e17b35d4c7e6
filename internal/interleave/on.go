// SPDX-License-Identifier: Apache-2.0

//go:build invariants

package interleave

import "sync/atomic"

// Enabled is true in the checked build.
const Enabled = true

var hook atomic.Pointer[func()]

// Point calls the hook, if there is one.
func Point() {
	if f := hook.Load(); f != nil {
		(*f)()
	}
}

// Set makes f the hook of the whole process; nil takes it away. f is called in the
// goroutine that reaches the place, possibly in several at once.
func Set(f func()) {
	if f == nil {
		hook.Store(nil)
		return
	}
	hook.Store(&f)
}
