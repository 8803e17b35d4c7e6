// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"
	"testing"
)

// Why no nodes moved is said as it was: there was no look, or none was worth it.
func TestNoMoves(t *testing.T) {
	for looks, want := range map[int]string{
		0: "no nodes moved: the run gave no reason to look whether that is worth it",
		1: "no nodes moved: none of 1 look was worth it",
		3: "no nodes moved: none of 3 looks was worth it",
	} {
		r := &movesRow{Shards: 4, Looks: looks}
		if got := r.lines(); !slices.Equal(got, []string{want}) {
			t.Errorf("found %q, want %q", got, want)
		}
	}
}
