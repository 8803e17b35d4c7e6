// SPDX-License-Identifier: Apache-2.0

package executortest

import (
	"os"
	"strings"
	"testing"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// closes: a step's parts are put together, its exports are figures of the whole; requirements that aren't met fail it
// for good, and so does a part that is missing.
func (tr *trial) closes(t *testing.T) {
	text := launchtest.Scenario(6, 20, "")
	place := t.TempDir()
	spec := &fleet.Spec{ID: "closes", Steps: []fleet.Step{{Name: "a", File: "tiny.yml", Text: tr.digest(text),
		Args: []string{"--seed", "7"}, Points: [][]string{{}}, Replications: 2, Workers: 1,
		Export: map[string]string{"n": "handled"}}}}
	do := func(p fleet.PieceID, attempt int) executor.Outcome {
		j, err := executor.NewJob(spec, fleet.AttemptID{PieceID: p, Attempt: attempt}, place+"/"+p.String())
		if err != nil {
			t.Fatal(err)
		}
		out := tr.ends(t, j, tr.start(t, j))
		if err := tr.e.Release(j); err != nil {
			t.Error(err)
		}
		return out
	}
	for r := range 2 {
		if out := do(fleet.PieceID{Replication: r}, 1); out.Kept == nil {
			t.Fatalf("replication %d: found %+v", r, out.Error)
		}
	}
	out := do(spec.Closing(0), 1)
	if out.Kept == nil || out.Kept.Hash == "" || out.Outputs["n"] < 1 || len(out.Outputs) != 1 {
		t.Errorf("found %+v, %+v", out, out.Error)
	}
	spec.Steps[0].Require = []string{"handled < 0"}
	out = do(spec.Closing(0), 2)
	if e := out.Error; e == nil || e.Type != fleet.ErrorRequire || !strings.Contains(e.Message, "handled < 0") {
		t.Errorf("found %+v, %+v", out, out.Error)
	}
	spec.Steps[0].Require = nil
	if err := os.RemoveAll(place + "/0.0.1"); err != nil {
		t.Fatal(err)
	}
	out = do(spec.Closing(0), 3)
	if e := out.Error; e == nil || e.Type != fleet.ErrorModel {
		t.Errorf("found %+v, %+v", out, out.Error)
	}
}
