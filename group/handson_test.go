// SPDX-License-Identifier: Apache-2.0

package group

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/fleet"
)

// handsOnText are steps of which one ends by a rule, and one sweeps: what they hand on are a figure, a text, and the
// value of the sweep at its best point.
const handsOnText = `
steps:
  warm:
    file: tiny.yml
    until: handled ± 2 %
    replications: 40
    figure: by_node.0
    export: {n: handled, hash: trace_hash}
  sweep:
    after: warm
    file: tiny.yml
    sweep: ["tokens=1,3,2"]
    replications: 2
    export: {best: tokens of max handled, most: max handled, two: handled at tokens=2}
  check: {after: [sweep], file: tiny.yml, set: ["tokens={sweep.best}"]}
`

// TestPipelineHandsOn: a step that ends by its rule has the results of run --until, and hands on figures of those
// replications; a sweep hands on what its best point has; texts are handed on, too.
func TestPipelineHandsOn(t *testing.T) { openEach(t, handsOn) }

func handsOn(t *testing.T, h *byHand) {
	self := selfProgram(t)
	h.agent("h1", self)
	id, dir := h.submitSteps(handsOnText)
	if e := h.ends(id); e.Status() != fleet.StatusFinished || e.Enough(0) != 30 {
		t.Fatalf("found %+v", e.Standing)
	}
	pieces, _, err := h.client.Pieces(h.ctx, id)
	h.must(err)
	warm, sweep := pieces[fleet.PieceID{Point: 1}], pieces[fleet.PieceID{Step: 1, Point: 3}]
	if warm.Counts != 30 || warm.Outputs["n"] < 1 || len(warm.Texts["hash"]) != 32 {
		t.Errorf("found %+v", warm.Piece)
	}
	if o := sweep.Outputs; o["best"] != 3 || !(o["most"] > o["two"]) || o["two"] < 1 {
		t.Errorf("found %+v", o)
	}
	for step, args := range map[string]string{"warm": "--until handled±2% --replications 40",
		"sweep": "--sweep tokens=1,3,2 --replications 2", "check": "--set tokens=3"} {
		local, merged := filepath.Join(dir, "local.json"), filepath.Join(dir, step+".json")
		r := runs(t, "results", id, "--store", h.url, "--step", step, "--json", merged, "--program", self)
		if r.status != 0 {
			t.Fatalf("%+v", r)
		}
		one := append([]string{"run", filepath.Join(dir, "tiny.yml"), "--json", local}, strings.Fields(args)...)
		if r := runs(t, one...); r.status != 0 {
			t.Fatalf("%+v", r)
		}
		same(t, local, merged)
	}
	r := runs(t, "show", id, "--store", h.url)
	for _, want := range []string{"best=3", `hash="` + warm.Texts["hash"], "warm   FINISHED", "± 2 %: reached"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("found %s, want %q", r.stdout, want)
		}
	}
}

// TestPipelineUnreached: a step whose rule isn't met with all its replications has failed, with what waits for it.
func TestPipelineUnreached(t *testing.T) {
	h := openByHand(t)
	h.agent("h1", selfProgram(t))
	text := strings.Replace(handsOnText, "± 2 %\n    replications: 40", "± 0.0001 %\n    replications: 30", 1)
	id, _ := h.submitSteps(text)
	s := h.ends(id).Standing
	if s.Status != fleet.StatusFailed || s.Pieces[fleet.Finished] != 30 || len(s.Errors) != 1 ||
		s.Errors[0].Error.Type != fleet.ErrorRequire ||
		!strings.Contains(s.Errors[0].Error.Message, "--until: not reached with 30 replications") {
		t.Errorf("found %+v", s)
	}
}
