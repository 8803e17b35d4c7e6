// SPDX-License-Identifier: Apache-2.0

// Package canary has fuzz targets that fuzz.sh must call failed: one with a
// defect, one that stands still. A check that they can't fail would be none.
package canary

import (
	"testing"
	"time"
)

func FuzzDefect(f *testing.F) {
	f.Add([]byte("a"))
	f.Fuzz(func(_ *testing.T, raw []byte) {
		if len(raw) > 2 {
			panic("more than two bytes")
		}
	})
}

func FuzzStandsStill(f *testing.F) {
	f.Add([]byte("a"))
	f.Fuzz(func(*testing.T, []byte) { time.Sleep(50 * time.Millisecond) })
}

func FuzzGood(f *testing.F) {
	f.Add([]byte("a"))
	f.Fuzz(func(*testing.T, []byte) {})
}

// fuzz floor: 1000000000
func FuzzFloorOfItsOwn(f *testing.F) {
	f.Add([]byte("a"))
	f.Fuzz(func(*testing.T, []byte) {})
}
