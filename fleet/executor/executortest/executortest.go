// SPDX-License-Identifier: Apache-2.0

// Package executortest has the tests that every executor passes.
//
// Guarantee: each rule of executor.Executor is tried with real runs of the model of package launchtest, and behind each
// test nothing of it is left.
package executortest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// Config is an executor that is tested.
type Config struct {
	// New makes one whose grace is a second, and which fetches by fetch. The test closes it.
	New func(t *testing.T, fetch func(context.Context, fleet.Digest) ([]byte, error)) executor.Executor
	// Program runs scenarios of package launchtest on this machine.
	Program string
	// Left lists what is left of processes and folders of jobs.
	Left func(t *testing.T) []string
	// Processes are those of a job, the one first that Start has started.
	Processes func(job string) []int
}

// Run runs all tests.
func Run(t *testing.T, c Config) {
	for name, f := range map[string]func(tr *trial, t *testing.T){
		"finishes": (*trial).finishes, "stops": (*trial).stops, "killed": (*trial).killed, "fails": (*trial).fails,
		"named": (*trial).named, "hangs": (*trial).hangs, "refuses": (*trial).refuses, "many": (*trial).many,
		"locked": (*trial).locked, "figures": (*trial).figures, "closes": (*trial).closes,
	} {
		t.Run(name, func(t *testing.T) {
			tr := &trial{Config: c, texts: map[string]string{}}
			tr.e = c.New(t, tr.fetch)
			f(tr, t)
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := tr.e.Close(ctx); err != nil {
				t.Errorf("closing: %v", err)
			}
			if left := c.Left(t); len(left) > 0 {
				t.Errorf("this is left: %q", left)
			}
		})
	}
}

// waitMax is how long anything may take on a machine on which others have the processors.
const waitMax = 2 * time.Minute

// trial is one test.
type trial struct {
	Config
	e executor.Executor

	mu    sync.Mutex
	texts map[string]string // by SHA-256
}

// fetch is that of the executor.
func (tr *trial) fetch(_ context.Context, d fleet.Digest) ([]byte, error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	text, ok := tr.texts[d.SHA256]
	if !ok {
		return nil, errors.New("there is no such blob")
	}
	return []byte(text), nil
}

// digest is a text's, which can be fetched from then on.
func (tr *trial) digest(text string) fleet.Digest {
	sum := sha256.Sum256([]byte(text))
	d := fleet.Digest{SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(text))}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.texts[d.SHA256] = text
	return d
}

// job is one of a scenario, in a place of its own: attempt 1 of replication 1 of 3.
func (tr *trial) job(t *testing.T, text string) *executor.Job {
	spec := &fleet.Spec{ID: "x" + strconv.Itoa(len(text)), Steps: []fleet.Step{{File: "folder/tiny.yml",
		Text: tr.digest(text), Args: []string{"--seed", "7"}, Points: [][]string{{"tokens=3"}}, Replications: 3,
		Workers: 2}}}
	a := fleet.AttemptID{PieceID: fleet.PieceID{Replication: 1}, Attempt: 1}
	j, err := executor.NewJob(spec, a, filepath.Join(t.TempDir(), "place"))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// start prepares and starts.
func (tr *trial) start(t *testing.T, j *executor.Job) executor.Run {
	t.Helper()
	if err := tr.e.Prepare(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	r, err := tr.e.Start(j)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ends waits for the end of a run, releases it, and checks that no process is left.
func (tr *trial) ends(t *testing.T, j *executor.Job, r executor.Run) executor.Outcome {
	t.Helper()
	select {
	case <-r.Done():
	case <-time.After(waitMax):
		t.Fatalf("%s doesn't end; it is at %+v, and has said %s", j.Name(), r.Progress(), r.Output())
	}
	if p := tr.Processes(j.Name()); len(p) > 0 {
		t.Errorf("%s has ended, and has the processes %v", j.Name(), p)
	}
	return r.Outcome()
}

// begins waits until a run has handled events.
func (tr *trial) begins(t *testing.T, r executor.Run) {
	t.Helper()
	for began := time.Now(); r.Progress().Events == 0; time.Sleep(10 * time.Millisecond) {
		select {
		case <-r.Done():
			t.Fatalf("it has ended: %+v", r.Outcome())
		default:
		}
		if time.Since(began) > waitMax {
			t.Fatalf("it doesn't begin, and has said %s", r.Output())
		}
	}
}

// reference is the end of the same replication by a run of the program itself.
func (tr *trial) reference(t *testing.T, text string) (hash string, events uint64) {
	t.Helper()
	found := tr.results(t, text)
	return found.Hash, found.Events
}

// handled is the figure of that name of the reference.
func (tr *trial) handled(t *testing.T, text string) int {
	t.Helper()
	return tr.results(t, text).Results.Handled
}

// results are what is looked at of the reference's.
type results struct {
	Hash    string `json:"trace_hash"`
	Events  uint64 `json:"events"`
	Results struct {
		Handled int `json:"handled"`
	} `json:"results"`
}

// references are the results of what was run already: program and text of a scenario (string) to results. The same few
// scenarios are run in each test of each executor.
var references sync.Map

func (tr *trial) results(t *testing.T, text string) (found results) {
	t.Helper()
	key := tr.Program + "\n" + text
	if known, ok := references.Load(key); ok {
		return known.(results)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "tiny.yml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(tr.Program, "run", file, "--seed", "7", "--set", "tokens=3", "--replications", "3",
		"--only", "1", "--workers", "1", "--json", "-")
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &found)
	}
	if err != nil || found.Hash == "" {
		t.Fatalf("%v: %s", err, out)
	}
	references.Store(key, found)
	return found
}

// kept holds that a run has ended as the reference.
func kept(t *testing.T, out executor.Outcome, hash string, events uint64) {
	t.Helper()
	if out.Kept == nil || out.Kept.Hash != hash || out.Kept.Events != events || out.Stopped || out.Error != nil {
		t.Errorf("found %+v (%+v, %+v), want the hash %s and %d events", out, out.Kept, out.Error, hash, events)
	}
}

// finishes: a run to its end, again in the same place, and with an attachment.
func (tr *trial) finishes(t *testing.T) {
	text := launchtest.Scenario(6, 20, "")
	hash, events := tr.reference(t, text)
	j := tr.job(t, text)
	j.Attachments = []fleet.Attachment{{Name: "data/table.csv", Digest: tr.digest("a,b\n1,2\n")}}
	for attempt := 1; attempt <= 2; attempt++ { // the second finds the end of the first
		j.Attempt.Attempt = attempt
		out := tr.ends(t, j, tr.start(t, j))
		kept(t, out, hash, events)
		if err := tr.e.Release(j); err != nil {
			t.Error(err)
		}
	}
}

// named: a scenario's file may have any name, also one that looks like a flag, or like standard input.
func (tr *trial) named(t *testing.T) {
	text := launchtest.Scenario(6, 20, "")
	hash, events := tr.reference(t, text)
	for i, name := range []string{"-tiny.yml", "--help", "-", "a b=c,d.yml"} {
		j := tr.job(t, text)
		j.File, j.Attempt.Attempt = name, i+1
		kept(t, tr.ends(t, j, tr.start(t, j)), hash, events)
		if err := tr.e.Release(j); err != nil {
			t.Error(err)
		}
	}
}

// long is a scenario that takes minutes: each call of one node takes a millisecond.
func long() string { return slow(100000) }

// slow takes some 30 ms for each simulated second.
func slow(horizon float64) string { return launchtest.Scenario(6, horizon, trouble(launchtest.Slow)) }

func trouble(how string) string { return "{node: 2, at: 1, how: " + how + "}" }

// stops: in mid-run, where it goes on from by another attempt or the same, and before it has begun.
func (tr *trial) stops(t *testing.T) {
	text := slow(60)
	hash, events := tr.reference(t, text)
	j := tr.job(t, text)
	r := tr.start(t, j)
	if _, err := tr.e.Start(j); err == nil {
		t.Error("a job runs twice")
	}
	if err := tr.e.Release(j); err == nil {
		t.Error("a job that runs is released")
	}
	tr.begins(t, r)
	for range 2 {
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if out := tr.ends(t, j, r); !out.Stopped || !r.Progress().Stopping {
		t.Fatalf("found %+v, %+v, want it stopped", out, out.Error)
	}
	r = tr.start(t, j)
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out := tr.ends(t, j, r); !out.Stopped {
		t.Fatalf("found %+v, %+v, want it stopped", out, out.Error)
	}
	out := tr.ends(t, j, tr.start(t, j))
	kept(t, out, hash, events)
}

// killed: the run's own process, or one of its workers. Another attempt ends as if nothing had been.
func (tr *trial) killed(t *testing.T) {
	text := slow(60)
	hash, events := tr.reference(t, text)
	j := tr.job(t, text)
	for _, worker := range []bool{false, true} {
		r := tr.start(t, j)
		tr.begins(t, r)
		all := tr.Processes(j.Name())
		if len(all) < 3 {
			t.Fatalf("found the processes %v, want the run's and two workers'", all)
		}
		at := all[0]
		if worker {
			at = all[1]
		}
		if err := syscall.Kill(at, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if out := tr.ends(t, j, r); out.Error == nil || out.Error.Type != fleet.ErrorMachine {
			t.Fatalf("killed: found %+v, %+v, want an error of the machine", out, out.Error)
		}
		j.Attempt.Attempt++
	}
	out := tr.ends(t, j, tr.start(t, j))
	kept(t, out, hash, events)
}

// fails: by itself, and by what others do to it.
func (tr *trial) fails(t *testing.T) {
	for how, want := range map[string]string{
		launchtest.Panic: fleet.ErrorModel, launchtest.Fail: fleet.ErrorModel, launchtest.Exit: fleet.ErrorModel,
		launchtest.Kill: fleet.ErrorMachine, "a typo": fleet.ErrorModel,
	} {
		j := tr.job(t, launchtest.Scenario(6, 10, trouble(how)))
		out := tr.ends(t, j, tr.start(t, j))
		if out.Error == nil || out.Error.Type != want || out.Error.Message == "" || out.Error.Trace == "" {
			t.Errorf("%s: found %+v, %+v, want an error of type %s, with a message and a trace", how, out, out.Error,
				want)
		}
	}
}

// hangs: a model that hears nothing is killed, and so is what a model has started.
func (tr *trial) hangs(t *testing.T) {
	for _, how := range []string{launchtest.Hang, launchtest.Child} {
		text := launchtest.Scenario(6, 100000, trouble(how))
		j := tr.job(t, text)
		r := tr.start(t, j)
		for began := time.Now(); len(tr.Processes(j.Name())) < 3 && time.Since(began) < waitMax; {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(300 * time.Millisecond) // so that most times it hangs already; it is right in any case
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if out := tr.ends(t, j, r); !out.Stopped {
			t.Errorf("%s: found %+v, %+v, want it stopped", how, out, out.Error)
		}
	}
}

// refuses: what isn't as it should be, before anything is started.
func (tr *trial) refuses(t *testing.T) {
	good := tr.job(t, launchtest.Scenario(6, 10, ""))
	if _, err := tr.e.Start(good); err == nil {
		t.Error("a job is started that wasn't prepared")
	}
	for name, change := range map[string]func(j *executor.Job){
		"no such blob":       func(j *executor.Job) { j.Text.SHA256 = strings.Repeat("ab", 32) },
		"another length":     func(j *executor.Job) { j.Text.Bytes++ },
		"no digest":          func(j *executor.Job) { j.Text.SHA256 = "../../etc/passwd" },
		"too long":           func(j *executor.Job) { j.Text.Bytes = 1 << 40 },
		"another experiment": func(j *executor.Job) { j.Experiment = "../x" },
	} {
		j := *good
		change(&j)
		if err := tr.e.Prepare(t.Context(), &j); err == nil {
			t.Errorf("%s: it is prepared", name)
		}
	}
	spec := &fleet.Spec{ID: "x", Steps: []fleet.Step{{File: "x.yml", Points: [][]string{{}}, Replications: 1,
		Attachments: []fleet.Attachment{{Name: "../x"}}}}}
	for _, p := range []fleet.PieceID{{}, {Step: 1}, {Point: 1}, {Replication: 1}} {
		if _, err := executor.NewJob(spec, fleet.AttemptID{PieceID: p, Attempt: 1}, "place"); err == nil {
			t.Errorf("piece %v of %+v is a job", p, spec)
		}
	}
}

// many: jobs at the same time, all of which are stopped by Close but some.
func (tr *trial) many(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 6 {
		j := tr.job(t, launchtest.Scenario(6, 20+float64(i), ""))
		j.Experiment = fmt.Sprintf("many%d", i)
		r := tr.start(t, j)
		wg.Go(func() {
			<-r.Done()
			if out := r.Outcome(); out.Kept == nil {
				t.Errorf("found %+v, %+v, want an end", out, out.Error)
			}
		})
	}
	wg.Wait()
	for i := range 2 {
		j := tr.job(t, long())
		j.Experiment = fmt.Sprintf("long%d", i)
		tr.begins(t, tr.start(t, j))
	}
	if ended, err := tr.e.Sweep(t.Context()); err != nil || ended > 0 {
		t.Errorf("a sweep has ended %d processes of jobs that run, %v", ended, err)
	}
}

// locked: a place in which another process writes is waited for.
func (tr *trial) locked(t *testing.T) {
	text := slow(60)
	hash, events := tr.reference(t, text)
	j := tr.job(t, text)
	first := tr.start(t, j)
	tr.begins(t, first)
	second := *j
	second.Attempt.Attempt = 2
	r := tr.start(t, &second)
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	out := tr.ends(t, &second, r)
	kept(t, out, hash, events)
}
