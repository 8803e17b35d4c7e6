// SPDX-License-Identifier: Apache-2.0

package group

import (
	"path/filepath"
	"testing"

	"github.com/disco-sim/disco/fleet"
)

// variantsText has a step that warms up, and one whose replications all go on from its checkpoint.
const variantsText = `
steps:
  warm: {file: tiny.yml, seed: 7, checkpoint: 2, export: {n: handled}}
  more: {from: warm, replications: 3, export: {most: handled}}
`

// TestPipelineVariants: replications go on from the checkpoint of a step before, and come to what resume makes of such
// a checkpoint on this machine, also when the first step is begun anew.
func TestPipelineVariants(t *testing.T) {
	h := openByHand(t)
	self := selfProgram(t)
	h.agent("h1", self)
	h.agent("h2", self)
	id, dir := h.submitSteps(variantsText)
	warm, local, merged := filepath.Join(dir, "warm"), filepath.Join(dir, "local.json"),
		filepath.Join(dir, "merged.json")
	if r := runs(t, "run", filepath.Join(dir, "tiny.yml"), "--seed", "7", "--checkpoint-to", warm, "--checkpoint-at",
		"2=w", "--json", filepath.Join(dir, "warm.json")); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	if r := runs(t, "resume", warm, "--at", "w", "--replications", "3", "--json", local); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	for try := range 2 {
		if s := h.ends(id).Standing; s.Status != fleet.StatusFinished || s.Pieces[fleet.Finished] != 1+1+3+1 {
			t.Fatalf("found %+v", s)
		}
		r := runs(t, "results", id, "--step", "more", "--store", h.url, "--json", merged, "--program", self)
		if r.status != 0 {
			t.Fatalf("%+v", r)
		}
		same(t, local, merged)
		if try == 0 {
			if r := runs(t, "retry", id, "--step", "warm", "--store", h.url); r.status != 0 {
				t.Fatalf("%+v", r)
			}
		}
	}
	pieces, _, err := h.client.Pieces(h.ctx, id)
	h.must(err)
	if p := pieces[fleet.PieceID{Step: 1, Replication: 2}]; p.Attempt != 2 || p.Kept == nil {
		t.Errorf("found %+v", p.Piece)
	}
}
