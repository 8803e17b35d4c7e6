// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestReplay(t *testing.T) {
	t.Setenv("DISCO_SEED", "0x2a")
	if s := Of(t); s != 42 {
		t.Errorf("seed %d, want that of the environment", s)
	}
	if a, b := Rand(t).Uint64(), Rand(t).Uint64(); a != b {
		t.Errorf("%d and %d from the same seed", a, b)
	}
	t.Setenv("DISCO_SEED", "")
	if a, b := Of(t), Of(t); a == b {
		t.Errorf("twice the seed %d", a)
	}
}
