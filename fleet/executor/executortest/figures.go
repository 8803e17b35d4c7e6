// SPDX-License-Identifier: Apache-2.0

package executortest

import (
	"maps"
	"strings"
	"testing"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// figures: an end says what the replication comes to in the figures that are asked for, also one that an earlier
// attempt has left, and a job whose results must have one that they don't have fails for good.
func (tr *trial) figures(t *testing.T) {
	text := launchtest.Scenario(6, 20, "")
	hash, events := tr.reference(t, text)
	j := tr.job(t, text)
	j.Figures, j.Must = []string{"handled", "zebra"}, []string{"handled"}
	want := map[string]float64{"handled": float64(tr.handled(t, text))}
	for attempt := 1; attempt <= 3; attempt++ {
		if j.Attempt.Attempt = attempt; attempt == 3 {
			j.Must = []string{"handled", "zebra"}
		}
		out := tr.ends(t, j, tr.start(t, j))
		if attempt == 3 {
			if e := out.Error; e == nil || e.Type != fleet.ErrorModel || !strings.Contains(e.Message, "zebra") ||
				!strings.Contains(e.Message, "there are handled") {
				t.Errorf("found %+v, %+v, want an error of the model about zebra, and what there is", out, out.Error)
			}
		} else if kept(t, out, hash, events); out.Kept != nil && !maps.Equal(out.Kept.Figures, want) {
			t.Errorf("attempt %d: found the figures %v, want %v", attempt, out.Kept.Figures, want)
		}
		if err := tr.e.Release(j); err != nil {
			t.Error(err)
		}
	}
}
