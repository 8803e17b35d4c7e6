// SPDX-License-Identifier: Apache-2.0

package scenario

// Warmed is a Scenario whose results leave out what happens before a simulated time.
type Warmed interface {
	// Warmup is that time in seconds.
	Warmup() float64
}
