// SPDX-License-Identifier: Apache-2.0

package launchtest

import (
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/scenario"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// Both models go on from what was saved anywhere.
func TestResume(t *testing.T) {
	for _, s := range []scenario.Scenario{modeltest.MustLoad(t, Kind(), Scenario(6, 10, "")),
		modeltest.MustLoad(t, StreamKind(), StreamScenario(4, 3, 20, 100, 2))} {
		modeltest.ResumeEverywhere(t, s, 1)
		modeltest.DamagedStates(t, s, 1)
	}
}
