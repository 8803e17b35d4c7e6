// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"

	"github.com/disco-sim/disco/shm"
)

// Adaptive parks on a crowded machine of several, and nowhere else; other modes are what they are.
func TestWaitMode(t *testing.T) {
	for _, x := range []struct {
		wait    string
		crowded bool
		machine []int32
		want    shm.Mode
	}{
		{"adaptive", true, []int32{0, 0, 1}, shm.ModePark},
		{"adaptive", true, []int32{2, 2, 2}, shm.ModeAdaptive},
		{"adaptive", true, nil, shm.ModeAdaptive},
		{"adaptive", false, []int32{0, 1}, shm.ModeAdaptive},
		{"spin", true, []int32{0, 1}, shm.ModeSpin},
		{"yield", true, []int32{0, 1}, shm.ModeYield},
		{"park", false, []int32{0, 1}, shm.ModePark},
	} {
		mode, err := waitMode(&Setup{Tuning: Tuning{Wait: x.wait}, Crowded: x.crowded, Machine: x.machine})
		if mode != x.want || err != nil {
			t.Errorf("%s, crowded %t, machines %v: %v, %v, want %v", x.wait, x.crowded, x.machine, mode, err, x.want)
		}
	}
	if _, err := waitMode(&Setup{Tuning: Tuning{Wait: "dream"}}); err == nil {
		t.Error("an unknown mode was taken")
	}
}
