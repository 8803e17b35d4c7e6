// SPDX-License-Identifier: Apache-2.0

package group

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/procfs"
)

// gangOf waits until an attempt at a piece simulates and has got so far, and gives the piece.
func (h *byHand) gangOf(id string, attempt int, from float64) fleet.Piece {
	h.Helper()
	for {
		p, err := h.client.Piece(h.ctx, id, fleet.PieceID{})
		h.must(err)
		if p.State.Ended() {
			h.Fatalf("it has ended before: %+v", p)
		}
		if p.State == fleet.Running && p.Attempt == attempt {
			r, err := h.client.Report(h.ctx, p.Gang[0].Member, id, fleet.PieceID{})
			h.must(err)
			if r != nil && r.Report.Attempt == attempt && r.Report.Progress.Now >= from {
				return p.Piece
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-h.ctx.Done():
			h.Fatalf("attempt %d doesn't simulate: %+v, %+v", attempt, p.Piece, p.Error)
		}
	}
}

// gangVariable is in the environment of all processes of a test.
const gangVariable = "DISCO_GANG_TEST"

// bridges are the processes of runs over machines that a test's agents have.
func bridges(t *testing.T) (pids []int) {
	t.Helper()
	all, err := procfs.Processes()
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range all {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
		if err == nil && strings.Contains(string(text), gangVariable+"="+os.Getenv(gangVariable)+"\x00") &&
			slices.Contains(procfs.Command(pid), bridgeName) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestGangs: three agents with two servers each simulate a piece with four workers; the one that leads the gang, or
// another one of it, is killed in mid-run. The next attempt goes on from the last checkpoint with the others, and its
// results are those of one run on this machine, to the bit. Nothing is left.
func TestGangs(t *testing.T) {
	for _, victim := range []int{3, 0} {
		t.Run(fmt.Sprintf("server %d", victim), func(t *testing.T) {
			testGang(t, victim, filepath.Join(t.TempDir(), "place"))
		})
	}
	t.Run("checkpoints in the store", func(t *testing.T) { testGang(t, 0, "") })
}

func testGang(t *testing.T, victim int, place string) {
	t.Setenv(gangVariable, t.TempDir())
	h := openByHand(t)
	self := selfProgram(t)
	agents := map[string]*agentProcess{}
	for _, name := range []string{"h1", "h2", "h3"} {
		agents[name] = h.agent(name, self, "--listen", "127.0.0.1:0", "--insecure")
	}
	text := launchtest.Scenario(6, 300, "{node: 2, at: 1, how: slow}")
	id, _, err := h.client.Submit(h.ctx, &fleet.Submission{Key: "k", Name: "tiny", User: "me", Version: app.Version(),
		Place: place, Priority: fleet.Normal, Steps: []fleet.SubmittedStep{{Scenario: []byte(text), Step: fleet.Step{
			File: "tiny.yml", Args: []string{"--seed", "3", "--checkpoint", "500ms"}, Points: [][]string{{"tokens=3"}},
			Replications: 1, Workers: 4}}}})
	h.must(err)
	first := h.gangOf(id, 1, 20)
	machines := map[string]int{}
	for _, s := range first.Gang {
		machines[s.Member]++
		if s.Address == "" {
			t.Errorf("found no address in %+v", s)
		}
	}
	if len(first.Gang) != 4 || len(machines) != 2 || len(bridges(t)) != 2 {
		t.Errorf("found the gang %+v and %d bridges, want four servers of two machines", first.Gang, len(bridges(t)))
	}
	killed := first.Gang[victim].Member
	agents[killed].kill()
	for {
		e, err := h.client.Show(h.ctx, id)
		h.must(err)
		if e.Ended() {
			if e.Status() != fleet.StatusFinished {
				t.Fatalf("found %+v", e.Standing)
			}
			break
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-h.ctx.Done():
			h.Fatalf("it doesn't end: %+v", e.Standing)
		}
	}
	p, err := h.client.Piece(h.ctx, id, fleet.PieceID{})
	h.must(err)
	if slices.ContainsFunc(p.Gang, func(s fleet.Server) bool { return s.Member == killed }) {
		t.Errorf("found the gang %+v, of which %s is dead", p.Gang, killed)
	}
	if p.Attempt != 2 || !slices.Equal(p.Fault, []string{killed}) || p.Error != nil && p.Error.Where != "" &&
		p.Error.Where != killed {
		t.Errorf("found %+v, %+v, want %s at fault with attempt 1, and no other", p.Piece, p.Error, killed)
	}
	log, err := h.client.Log(h.ctx, id, fleet.AttemptID{Attempt: 2})
	if h.must(err); !strings.Contains(log, "replication 0 goes on at ") {
		t.Errorf("the second attempt says nothing of a checkpoint from which it goes on: %s", log)
	}
	h.comparesGang(id, text, self)
	for _, a := range agents {
		if a.name == killed {
			continue
		}
		h.must(h.view.Await(h.ctx, func() bool {
			s, ok := h.view.Server(a.name + "-0")
			o, too := h.view.Server(a.name + "-1")
			return ok && too && s.State == cluster.Available && o.State == cluster.Available
		}))
	}
	if left := bridges(t); len(left) > 0 {
		t.Errorf("bridges are left, and no server has anything: %v", left)
	}
	for _, a := range agents {
		a.end()
		if left := marked(t, a.work); len(left) > 0 {
			t.Errorf("of %s are left: %v", a.name, left)
		}
		if left, err := filepath.Glob(filepath.Join(a.work, "runs", "*")); err != nil || len(left) > 0 {
			t.Errorf("of %s are left: %q, %v", a.name, left, err)
		}
	}
}

// comparesGang holds that the results are those of a run on this machine.
func (h *byHand) comparesGang(id, text, self string) {
	h.Helper()
	dir := h.TempDir()
	file := filepath.Join(dir, "tiny.yml")
	h.must(os.WriteFile(file, []byte(text), 0o600))
	fromFleet, local := filepath.Join(dir, "fleet.json"), filepath.Join(dir, "local.json")
	if r := runs(h.T, append([]string{"results", id, "--store", h.url, "--json", fromFleet, "--program", self},
		h.certs...)...); r.status != 0 {
		h.Fatalf("%+v", r)
	}
	if r := runs(h.T, "run", file, "--seed", "3", "--set", "tokens=3", "--json", local); r.status != 0 {
		h.Fatalf("%+v", r)
	}
	sameElsewhere(h.T, file, local, fromFleet)
}

// TestCauseOfRefusal: machines that can't be joined are at fault, and not the model: who has begun the run may try
// again.
func TestCauseOfRefusal(t *testing.T) {
	got := runs(t, "run", scenarioFile(t, 5, ""), "--machines", machineFile(t, "127.0.0.1:1"), "--insecure",
		"--connect-timeout", "500ms", "--progress", "json")
	if got.status != 2 || !strings.Contains(got.stderr, `"event":"failed"`) ||
		!strings.Contains(got.stderr, `"cause":"machine"`) {
		t.Errorf("found %+v", got)
	}
}
