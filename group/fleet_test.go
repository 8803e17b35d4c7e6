// SPDX-License-Identifier: Apache-2.0

package group

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/procfs"
)

// marked are the processes of runs of agents with folders below dir.
func marked(t *testing.T, dir string) (pids []int) {
	t.Helper()
	all, err := procfs.Processes()
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range all {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
		if err == nil && strings.Contains(string(text), "DISCO_FLEET_WORK="+dir) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestFleet: agents lead themselves and simulate an experiment, while agents, runs and workers are killed; its results
// are those of one run on this machine, to the bit, and nothing is left.
func TestFleet(t *testing.T) {
	h := openByHand(t)
	self := selfProgram(t)
	names := []string{"h1", "h2", "h3"}
	agents := map[string]*agentProcess{}
	for _, name := range names {
		agents[name] = h.agent(name, self)
	}
	const replications = 8
	text := launchtest.Scenario(6, 25, "{node: 2, at: 1, how: slow}")
	id := h.submit(text, "", replications, "", []string{"tokens=3"})
	random := rand.New(rand.NewPCG(1, 2))
	kills := 0
	for {
		e, err := h.client.Show(h.ctx, id)
		h.must(err)
		if e.Ended() {
			break
		}
		select {
		case <-time.After(700 * time.Millisecond):
		case <-h.ctx.Done():
			h.Fatalf("it doesn't end: %+v", e.Standing)
		}
		if kills == 5 { // what is killed for ever never ends
			continue
		}
		name := names[random.IntN(len(names))]
		pids := marked(t, agents[name].work)
		if len(pids) == 0 {
			continue
		}
		if kills++; kills == 2 {
			agents[name].kill()
			agents[name] = h.again(agents[name])
		} else {
			_ = syscall.Kill(pids[random.IntN(len(pids))], syscall.SIGKILL) // it may have ended
		}
	}
	pieces, malformed, err := h.client.Pieces(h.ctx, id)
	if h.must(err); len(pieces) != replications || len(malformed) > 0 {
		t.Fatalf("found %v, %v", pieces, malformed)
	}
	attempts := 0
	for _, p := range pieces {
		attempts += p.Attempt
	}
	if attempts == replications || kills < 2 {
		t.Errorf("found %d attempts at %d pieces behind %d kills, one of them of an agent", attempts, replications,
			kills)
	}
	e, err := h.client.Show(h.ctx, id)
	h.must(err)
	if s := e.Standing; s.Status != fleet.StatusFinished || s.Pieces[fleet.Finished] != replications {
		t.Fatalf("found %+v, want all finished", s)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "tiny.yml")
	h.must(os.WriteFile(file, []byte(text), 0o600))
	fromFleet, local := filepath.Join(dir, "fleet.json"), filepath.Join(dir, "local.json")
	if r := runs(t, "results", id, "--store", h.url, "--json", fromFleet, "--program", self); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	if r := runs(t, "run", file, "--seed", "3", "--set", "tokens=3", "--replications", "8", "--json",
		local); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	same(t, local, fromFleet)
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

// TestFleetFails: a model's error is final at once, and tells what and where; nothing else of the experiment is hurt.
func TestFleetFails(t *testing.T) {
	h := openByHand(t)
	h.agent("h1", selfProgram(t))
	id := h.submit(launchtest.Scenario(6, 25, "{node: 2, at: 1, how: panic}"), "", 1, "", []string{})
	for {
		e, err := h.client.Show(h.ctx, id)
		h.must(err)
		if e.Ended() {
			s := e.Standing
			if s.Status != fleet.StatusFailed || len(s.Errors) != 1 || s.Errors[0].Attempt != 1 ||
				s.Errors[0].Error.Type != fleet.ErrorModel || s.Errors[0].Error.Where != "h1" {
				t.Errorf("found %+v", s)
			}
			break
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-h.ctx.Done():
			h.Fatalf("it doesn't end: %+v", e.Standing)
		}
	}
	h.must(h.view.Await(h.ctx, func() bool {
		s, ok := h.view.Server("h1-0")
		return ok && s.State == cluster.Available
	}))
}
