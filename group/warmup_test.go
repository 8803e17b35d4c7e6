// SPDX-License-Identifier: Apache-2.0

package group

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/fleet"
)

// warmupText has steps that find their warm-up, all of them or at a point of a sweep, and one that goes on from such.
const warmupText = `
steps:
  some: {file: mini.yml, horizon: 60, replications: 3, warmup: auto, export: {rate: throughput_rps}}
  rule: {file: mini.yml, horizon: 60, replications: 40, warmup: auto, until: latency_s.mean ± 50 %}
  sweep: {file: auto.yml, horizon: 60, replications: 2, sweep: ["warmup=auto,7.5"]}
  warm: {file: auto.yml, horizon: 60, checkpoint: 40}
  more: {from: warm, replications: 2}
`

// TestFleetWarmup: pieces that are simulated apart find the warm-up that one run finds, and their results are that
// run's, with what was found and how.
func TestFleetWarmup(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	dir := t.TempDir()
	own := filepath.Join(dir, "disco-run")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", own, "../cmd/disco-run")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	h := openByHand(t)
	h.must(os.Symlink(selfProgram(t), filepath.Join(dir, "disco-group")))
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	h.agent("h1", own)
	h.agent("h2", own)
	mini, err := os.ReadFile("../examples/mini.yml")
	h.must(err)
	for name, text := range map[string]string{"mini.yml": string(mini), "auto.yml": string(mini) + "\nwarmup: auto\n",
		"night.yml": warmupText} {
		h.must(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	r := runs(t, "submit", filepath.Join(dir, "night.yml"), "--store", h.url, "--program", own)
	words := strings.Fields(r.stdout)
	if r.status != 0 || len(words) == 0 {
		t.Fatalf("%+v", r)
	}
	id := words[len(words)-1]
	if s := h.ends(id).Standing; s.Status != fleet.StatusFinished {
		t.Fatalf("found %+v", s)
	}
	plain, finds := filepath.Join(dir, "mini.yml"), filepath.Join(dir, "auto.yml")
	for step, args := range map[string][]string{
		"some":  {plain, "--replications", "3", "--warmup", "auto"},
		"rule":  {plain, "--replications", "40", "--warmup", "auto", "--until", "latency_s.mean ± 50 %"},
		"sweep": {finds, "--replications", "2", "--sweep", "warmup=auto,7.5"},
		"warm":  {finds, "--checkpoint-to", "saved", "--checkpoint-at", "40=w"},
	} {
		h.local(dir, own, step, append([]string{"run", "--horizon", "60"}, args...)...)
	}
	h.local(dir, own, "more", "resume", "saved", "--at", "w", "--replications", "2")
	for _, step := range []string{"some", "rule", "sweep", "warm", "more"} {
		merged := filepath.Join(dir, step+".fleet")
		r := runs(t, "results", id, "--step", step, "--store", h.url, "--json", merged, "--program", own)
		if r.status != 0 {
			t.Fatalf("%s: %+v", step, r)
		}
		same(t, filepath.Join(dir, step), merged)
		if text, err := os.ReadFile(merged); err != nil || !strings.Contains(string(text), `"method": "MSER-5"`) {
			t.Errorf("%s: found nothing about the warm-up: %v", step, err)
		}
	}
}

// local is a step as it is simulated on this machine, whose results go to a file of its name.
func (h *byHand) local(dir, program, step string, args ...string) {
	h.Helper()
	cmd := exec.Command(program, append(args, "--json", step)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		h.Fatalf("%s: %v: %s", step, err, out)
	}
}
