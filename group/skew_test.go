// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/fleet"
)

// build is a version of disco's programs, in a folder of its own.
type build struct {
	h   *byHand
	dir string
}

// built builds a version, as the Makefile does.
func built(t *testing.T, version string) *build {
	t.Helper()
	b := &build{dir: filepath.Join(t.TempDir(), version)}
	cmd := exec.Command("go", "build", "-buildvcs=false", "-tags", "urfave_cli_no_docs", "-ldflags",
		"-X github.com/disco-sim/disco/app.version="+version, "-o", b.dir+"/", "../cmd/disco-run", "../cmd/disco-group")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return b
}

// run runs the version's disco-run, and gives what it has written and its exit status.
func (b *build) run(args ...string) (text string, status int) {
	b.h.Helper()
	ctx, cancel := context.WithTimeout(b.h.ctx, 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(b.dir, "disco-run"), args...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		b.h.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// agent starts an agent of the version, and waits until it is up.
func (b *build) agent(name string, more ...string) {
	b.h.Helper()
	cmd := exec.Command(filepath.Join(b.dir, "disco-run"), append([]string{"agent", "--store", b.h.url, "--name", name,
		"--slots", "2", "--executor", "local", "--work", filepath.Join(b.dir, "work-"+name)}, more...)...)
	log, err := os.Create(filepath.Join(b.dir, name+".log"))
	b.h.must(err)
	cmd.Stdout, cmd.Stderr = log, log
	b.h.must(cmd.Start())
	b.h.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = cmd.Wait()                          // how it has is in its log
		_ = log.Close()
	})
	for {
		text, err := os.ReadFile(log.Name())
		b.h.must(err)
		if strings.Contains(string(text), " is up, with 2 servers") {
			return
		}
		if err := b.h.ctx.Err(); err != nil {
			b.h.Fatalf("%s isn't up: %s", name, text)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// submit submits an experiment of two replications with the version's program.
func (b *build) submit(file, name string) (id string) {
	b.h.Helper()
	text, status := b.run("submit", file, "--horizon", "20", "--replications", "2", "--name", name, "--store", b.h.url)
	if status != 0 {
		b.h.Fatalf("%d: %s", status, text)
	}
	words := strings.Fields(text)
	return words[len(words)-1]
}

// endsAt waits for an experiment's end, and holds that all of it was simulated by one machine.
func (h *byHand) endsAt(id, member string) {
	h.Helper()
	for {
		e, err := h.client.Show(h.ctx, id)
		h.must(err)
		if e.Ended() {
			if e.Status() != fleet.StatusFinished {
				h.Fatalf("%s: %+v", id, e.Standing)
			}
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	for r := range 2 {
		p, err := h.client.Piece(h.ctx, id, fleet.PieceID{Replication: r})
		h.must(err)
		if len(p.Gang) != 1 || p.Gang[0].Member != member || p.Attempt != 1 {
			h.Errorf("piece %d of %s: attempt %d at %v, want the first one, at %s", r, id, p.Attempt, p.Gang, member)
		}
	}
}

// TestVersions: two real builds beside each other. An agent of another version is refused, naming both, unless mixed
// builds are allowed. Then each experiment is simulated by the program that has read it, whichever build leads, and has
// the results of a local run; one whose program no machine has waits, and says for what; records of a newer format are
// refused, and unknown fields in records aren't.
func TestVersions(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	one, two, three := built(t, "v9.0.1"), built(t, "v9.0.2"), built(t, "v9.0.3") // before time runs
	h := openByHand(t)
	one.h, two.h, three.h = h, h, h
	file := filepath.Join(t.TempDir(), "tiny.yml")
	text, err := os.ReadFile("../examples/mini.yml")
	h.must(err)
	h.must(os.WriteFile(file, text, 0o600))
	one.agent("h1") // it leads
	refused, status := two.run("agent", "--store", h.url, "--name", "h2", "--slots", "2", "--executor", "local",
		"--work", filepath.Join(two.dir, "work"))
	if status != 1 || !strings.Contains(refused, "member h1 has version v9.0.1, this program is v9.0.2: use the same "+
		"build on all machines, or allow mixed builds") {
		t.Fatalf("another version: found %d, %s", status, refused)
	}
	two.agent("h2", "--mixed-builds")
	ids := map[*build]string{one: one.submit(file, "e1"), two: two.submit(file, "e2")}
	waits := three.submit(file, "e3")
	h.endsAt(ids[one], "h1")
	h.endsAt(ids[two], "h2")
	for i, b := range []*build{one, two} {
		local, merged := filepath.Join(filepath.Dir(file), fmt.Sprint("local", i)), filepath.Join(b.dir, "merged")
		if out, status := b.run("run", file, "--horizon", "20", "--replications", "2", "--json", local); status != 0 {
			t.Fatalf("%s", out)
		}
		if out, status := b.run("results", ids[b], "--store", h.url, "--json", merged); status != 0 {
			t.Fatalf("%s", out)
		}
		same(t, local, merged)
	}
	h.waitsForProgram(three, waits)
	h.records(two, ids[two])
}

// waitsForProgram holds that an experiment whose program no machine has waits, says why, and goes on when there is one.
func (h *byHand) waitsForProgram(b *build, id string) {
	h.Helper()
	if out, status := b.run("show", id, "--why", "0.0.0", "--store", h.url); status != 0 ||
		strings.Count(out, `no: has disco "v9.0.`) != 2 {
		h.Errorf("found %d, %s, want that both machines have another program", status, out)
	}
	b.agent("h3", "--mixed-builds")
	h.endsAt(id, "h3")
}

// records holds that a record with fields that this version doesn't know is read, and a newer layout isn't.
func (h *byHand) records(b *build, id string) {
	h.Helper()
	key := "fleet/experiments/" + id + "/status"
	v, err := h.store.Get(h.ctx, key)
	h.must(err)
	var standing map[string]any
	h.must(v.Decode(&standing))
	standing["moon"] = map[string]int{"phase": 3}
	h.must(h.store.Put(h.ctx, key, standing))
	if out, status := b.run("show", id, "--store", h.url); status != 0 || !strings.Contains(out, "FINISHED") {
		h.Errorf("an unknown field: found %d, %s", status, out)
	}
	h.must(h.store.Put(h.ctx, "fleet/format", fleet.Layout+1))
	for _, command := range [][]string{{"list"}, {"show", id}, {"results", id, "--json", "x"}} {
		if out, status := b.run(append(command, "--store", h.url)...); status != 1 || !strings.Contains(out,
			"the group's experiments have layout 2, this program writes 1: take a program of the same version") {
			h.Errorf("%v: a newer layout: found %d, %s", command, status, out)
		}
	}
	h.must(h.store.Put(h.ctx, "fleet/format", fleet.Layout))
}
