// SPDX-License-Identifier: Apache-2.0

package group

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/race"
)

// TestOwnProgram: experiments of a program with models of one's own, whose version says nothing about disco's, are
// simulated by agents that have the same program, and by no others; results are those of its own run.
func TestOwnProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("builds another module")
	}
	own := filepath.Join(t.TempDir(), "mymodel")
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags",
		"-X github.com/disco-sim/disco/app.version=mine", "-o", own, ".")
	build.Dir = "../examples/mymodel"
	build.Env = append(os.Environ(), "GOFLAGS=-mod=readonly -trimpath", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	h := openByHand(t)
	h.must(os.Symlink(selfProgram(t), filepath.Join(filepath.Dir(own), "disco-group")))
	h.agent("h1", own)
	h.agent("h2", selfProgram(t))
	file, err := filepath.Abs("../examples/mymodel/office.yml")
	h.must(err)
	r := runs(t, "submit", file, "--replications", "3", "--store", h.url, "--program", own)
	words := strings.Fields(r.stdout)
	if r.status != 0 || len(words) == 0 {
		t.Fatalf("%+v", r)
	}
	id := words[len(words)-1]
	if e := h.ends(id); e.Status() != fleet.StatusFinished {
		t.Fatalf("found %+v", e.Standing)
	}
	pieces, _, err := h.client.Pieces(h.ctx, id)
	h.must(err)
	for at, p := range pieces {
		if p.Gang[0].Member != "h1" {
			t.Errorf("piece %v was simulated at %s", at, p.Gang[0].Member)
		}
	}
	local, merged := filepath.Join(t.TempDir(), "local.json"), filepath.Join(t.TempDir(), "merged.json")
	run := exec.Command(own, "run", file, "--replications", "3", "--json", local)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if r := runs(t, "results", id, "--store", h.url, "--json", merged, "--program", own); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	same(t, local, merged)
	other := runs(t, "results", id, "--store", h.url, "--json", merged, "--program", selfProgram(t))
	other.refused(t, "results by another program", []string{
		"found " + selfProgram(t) + " (version " + app.Version() + ", digest " + markOf(t, selfProgram(t)),
		"want the program by which office " + id + " was submitted (version " + app.Version() + ", digest " +
			markOf(t, own)})
}

// markOf is by what a program is known to a group.
func markOf(t *testing.T, program string) string {
	t.Helper()
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// TestLeaves: an agent that leaves in order, as for an upgrade, ends what it simulates, which goes on elsewhere though
// there is one attempt only.
func TestLeaves(t *testing.T) {
	h := openByHand(t)
	first := h.agent("h1", selfProgram(t))
	file := filepath.Join(t.TempDir(), "long.yml")
	h.must(os.WriteFile(file, []byte(movingText), 0o600))
	r := runs(t, "submit", file, "--horizon", "200000", "--attempts", "1", "--store", h.url, "--program",
		selfProgram(t))
	words := strings.Fields(r.stdout)
	if r.status != 0 || len(words) == 0 {
		t.Fatalf("%+v", r)
	}
	id := words[len(words)-1]
	h.runsAs(id, 1)
	first.end()
	h.agent("h2", selfProgram(t))
	h.runsAs(id, 2)
	if r := runs(t, "show", id, "--store", h.url, "--why", "0.0.0"); !strings.Contains(r.stdout,
		"attempt 1 ended: left") {
		t.Errorf("found %s", r.stdout)
	}
	if r := runs(t, "cancel", id, "--store", h.url); r.status != 0 {
		t.Errorf("%+v", r)
	}
	h.ends(id)
}

// TestUnsavedModel: experiments of a model that can't be saved are simulated as others: who submits is told what that
// means, what was paused or lost begins anew, and results are those of a run here.
func TestUnsavedModel(t *testing.T) {
	h := openByHand(t)
	agent := h.agent("h1", selfProgram(t))
	file := filepath.Join(t.TempDir(), "mute.yml")
	horizon := 20_000.0 // takes some seconds, so that it is paused and killed in the middle
	if race.Enabled {
		horizon /= 5 // takes about as long
	}
	text := launchtest.Scenario(6, horizon, "{node: 1, at: 0, how: "+launchtest.Mute+"}")
	h.must(os.WriteFile(file, []byte(text), 0o600))
	r := runs(t, "submit", file, "--replications", "2", "--workers", "2", "--store", h.url, "--program",
		selfProgram(t))
	words := strings.Fields(r.stdout)
	if r.status != 0 || len(words) == 0 || !strings.Contains(r.stderr, "what is lost of it begins anew") {
		t.Fatalf("%+v", r)
	}
	id := words[len(words)-1]
	steps := file + ".steps"
	h.must(os.WriteFile(steps, []byte("steps:\n  a: {file: mute.yml, checkpoint: 1}\n  b: {from: a}\n"), 0o600))
	r = runs(t, "submit", steps, "--store", h.url, "--program", selfProgram(t))
	if r.status != app.ExitUsage || !strings.Contains(r.stderr, "found 1 s of a model that can't be saved") {
		t.Errorf("%+v", r)
	}
	h.runsAs(id, 1)
	if r := runs(t, "pause", id, "--store", h.url); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	h.awaits(id, "it stands still", func(e *fleet.Experiment) bool { return e.Standing.Pieces[fleet.Paused] > 0 })
	if r := runs(t, "continue", id, "--store", h.url); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	h.runsAs(id, 1)
	agent.kill()
	h.tries = true
	h.agent("h2", selfProgram(t))
	if e := h.ends(id); e.Status() != fleet.StatusFinished {
		t.Fatalf("found %+v", e.Standing)
	}
	local, merged := filepath.Join(t.TempDir(), "local.json"), filepath.Join(t.TempDir(), "merged.json")
	if r := runs(t, "run", file, "--replications", "2", "--json", local); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	if r := runs(t, "results", id, "--store", h.url, "--json", merged, "--program", selfProgram(t)); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	same(t, local, merged)
}

// runsAs waits until the first piece of an experiment runs, in that attempt.
func (h *byHand) runsAs(id string, attempt int) {
	h.Helper()
	for {
		p, err := h.client.Piece(h.ctx, id, fleet.PieceID{})
		if h.must(err); p.State == fleet.Running && p.Attempt == attempt {
			return
		}
		if p.State.Ended() || p.Attempt > attempt {
			h.Fatalf("found %+v", p.Piece)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-h.ctx.Done():
			h.Fatalf("attempt %d doesn't run: %+v", attempt, p.Piece)
		}
	}
}

// TestResultsGone: results that were removed from their place are told as such, and output that can't be written is an
// error that says why.
func TestResultsGone(t *testing.T) {
	h := openByHand(t)
	h.leads()
	h.agent("h1", selfProgram(t))
	place := filepath.Join(t.TempDir(), "place")
	id := h.submit(movingText, place, 1, "", []string{"tokens=3"})
	h.finish(id, fleet.PieceID{}, "h1")
	results := []string{"results", id, "--store", h.url, "--program", selfProgram(t)}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	h.must(err)
	cmd, _, stderr := command(results...)
	cmd.Stdout = full
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != app.ExitFailed ||
		!strings.Contains(stderr.String(), "standard output can't be written: ") ||
		!strings.Contains(stderr.String(), syscall.ENOSPC.Error()) {
		t.Errorf("found %v, %s", err, stderr)
	}
	h.must(full.Close())
	h.must(os.Rename(place, place+"-elsewhere"))
	if r := runs(t, results...); r.status != app.ExitFailed ||
		!strings.Contains(r.stderr, "the part of piece 0.0.0: it isn't in "+place) {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(place); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the place was made anew: %v", err)
	}
	two := h.submit(movingText, place+"2", 2, "", []string{"tokens=3"})
	h.finish(two, fleet.PieceID{}, "h1")
	h.finish(two, fleet.PieceID{Replication: 1}, "h1")
	h.must(os.RemoveAll(filepath.Join(place+"2", two, "0.0.0")))
	results[1] = two
	r := runs(t, append(results, "--partial", "--json", "-")...)
	if r.status != app.ExitOK || !strings.Contains(r.stderr, "left out: the part of piece 0.0.0: it isn't in ") ||
		!strings.Contains(r.stdout, `"replication": 1`) || strings.Contains(r.stdout, `"replication": 0`) {
		t.Errorf("%+v, want what is there", r)
	}
}
