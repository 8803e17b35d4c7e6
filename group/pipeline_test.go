// SPDX-License-Identifier: Apache-2.0

package group

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// pipelineText are steps over one scenario.
const pipelineText = `
steps:
  warm:  {file: tiny.yml, set: [tokens=2], replications: 3, export: {n: handled}}
  sweep: {after: warm, file: tiny.yml, set: ["horizon=0.{warm.n}"], sweep: ["tokens=1,2"], replications: 2}
  check: {after: [sweep], file: tiny.yml, workers: 2, require: ["handled > 1"], priority: high}
`

// submitSteps submits a file with steps.
func (h *byHand) submitSteps(text string) (id, dir string) {
	h.Helper()
	dir = h.TempDir()
	h.must(os.WriteFile(filepath.Join(dir, "tiny.yml"), []byte(launchtest.Scenario(6, 5, "")), 0o600))
	file := filepath.Join(dir, "night.yml")
	h.must(os.WriteFile(file, []byte(text), 0o600))
	h.Setenv("XDG_STATE_HOME", h.TempDir())
	r := runs(h.T, "submit", file, "--store", h.url, "--program", selfProgram(h.T))
	words := strings.Fields(r.stdout)
	if r.status != 0 || len(words) == 0 || !strings.Contains(r.stdout, "night: ") {
		h.Fatalf("%+v", r)
	}
	return words[len(words)-1], dir
}

// ends waits until an experiment has ended.
func (h *byHand) ends(id string) *fleet.Experiment {
	h.Helper()
	for {
		e, err := h.client.Show(h.ctx, id)
		h.must(err)
		if e.Ended() {
			return e
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-h.ctx.Done():
			h.Fatalf("it doesn't end: %+v", e.Standing)
		}
	}
}

// TestPipeline: a file with steps runs end to end on each engine; its settings get what steps before export, each
// step's results are those of a run here, and a step that is begun anew comes to the same.
func TestPipeline(t *testing.T) {
	openEach(t, pipeline)
}

func pipeline(t *testing.T, h *byHand) {
	self := selfProgram(t)
	h.agent("h1", self)
	id, dir := h.submitSteps(pipelineText)
	first := h.ends(id)
	if s := first.Standing; s.Status != fleet.StatusFinished || s.Pieces[fleet.Finished] != 3+1+4+1+1 {
		t.Fatalf("found %+v", s)
	}
	pieces, malformed, err := h.client.Pieces(h.ctx, id)
	h.must(err)
	n := pieces[fleet.PieceID{Point: 1}].Outputs["n"]
	sweep := pieces[fleet.PieceID{Step: 1}]
	if len(malformed) > 0 || n < 1 || sweep.Inputs["warm"] != 1 || len(pieces) != 10 {
		t.Fatalf("found %+v, %v", pieces, malformed)
	}
	r := runs(t, "show", id, "--store", h.url)
	if !strings.Contains(r.stdout, "check  FINISHED  2 of 2  sweep  -") || !strings.Contains(r.stdout, "n=") {
		t.Errorf("found %s", r.stdout)
	}
	out := filepath.Join(dir, "out")
	if r := runs(t, "results", id, "--store", h.url, "--out", out, "--program", self); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	local, warm := filepath.Join(dir, "local.json"), filepath.Join(dir, "warm.json")
	if r := runs(t, "results", id, "--store", h.url, "--step", "warm", "--json", warm, "--program",
		self); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	if r := runs(t, "run", filepath.Join(dir, "tiny.yml"), "--set", "tokens=2", "--replications", "3", "--json",
		local); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	same(t, local, warm)
	for _, step := range []string{"warm", "sweep", "check"} {
		if files, err := os.ReadDir(filepath.Join(out, step)); err != nil || len(files) == 0 {
			t.Errorf("found %v, %v", files, err)
		}
	}
	for args, want := range map[string]string{"--json -": "want --step NAME", "--step worm": `want one of "warm"`} {
		r := runs(t, slices.Concat([]string{"results", id, "--store", h.url, "--program", self},
			strings.Fields(args))...)
		r.refused(t, args, []string{want})
	}
	if r := runs(t, "retry", id, "--store", h.url, "--step", "sweep"); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	h.ends(id)
	again, _, err := h.client.Pieces(h.ctx, id)
	h.must(err)
	for at, p := range again {
		was := pieces[at]
		if want := was.Attempt + min(at.Step, 1); p.Attempt != want || p.State != fleet.Finished ||
			p.Kept.Hash != was.Kept.Hash {
			t.Errorf("piece %v: found %+v, want attempt %d and %s", at, p.Piece, want, was.Kept.Hash)
		}
	}
}

// TestPipelineFails: results that aren't as they must be fail their step for good, and what waits for it is given up.
func TestPipelineFails(t *testing.T) {
	h := openByHand(t)
	h.agent("h1", selfProgram(t))
	id, _ := h.submitSteps(strings.Replace(pipelineText, "export: {n: handled}",
		"export: {n: handled}, require: [handled < 0]", 1))
	s := h.ends(id).Standing
	if s.Status != fleet.StatusFailed || s.Pieces[fleet.Finished] != 3 || s.Pieces[fleet.Failed] != 1 ||
		s.Pieces[fleet.Canceled] != 6 || len(s.Errors) != 1 || s.Errors[0].Error.Type != fleet.ErrorRequire ||
		!strings.Contains(s.Errors[0].Error.Message, "1 of 1 requirement not met: handled < 0") {
		t.Errorf("found %+v", s)
	}
	r := runs(t, "show", id, "--store", h.url)
	if !strings.Contains(r.stdout, "dependency: it waits for warm, which won't be finished") {
		t.Errorf("found %s", r.stdout)
	}
	merged := filepath.Join(t.TempDir(), "warm.json")
	r = runs(t, "results", id, "--store", h.url, "--step", "warm", "--json", merged, "--program", selfProgram(t))
	if _, err := os.Stat(merged); err != nil || r.status != app.ExitUnmet ||
		!strings.Contains(r.stderr, "step warm: 1 of 1 requirement not met: handled < 0") {
		t.Errorf("found %+v, %v, want its results, and status 3", r, err)
	}
	r = runs(t, "results", id, "--store", h.url, "--out", t.TempDir(), "--program", selfProgram(t))
	if r.status != app.ExitFailed || !strings.Contains(r.stderr, "step warm: 1 of 1 requirement not met: handled < 0: "+
		"it is 1201; its results are those of --step warm") {
		t.Errorf("found %+v, want what has failed, and status 1", r)
	}
	r = runs(t, "retry", id, "--store", h.url, "--step", "nonesuch")
	if r.status != app.ExitUsage || !strings.Contains(r.stderr, `found the step "nonesuch", want one of `) {
		t.Errorf("found %+v, want status 2", r)
	}
}
