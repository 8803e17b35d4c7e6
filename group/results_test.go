// SPDX-License-Identifier: Apache-2.0

package group

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/dial"
)

// byHand is a group with agents as processes, in which the test does what a leader does.
type byHand struct {
	*testing.T
	ctx    context.Context
	url    string
	store  *metastore.Store
	client *fleet.Client
	view   *cluster.View

	tries bool                // agents that didn't come up are started again
	enter map[string][]string // what stands before an agent's command, by its name
	certs []string            // flags by which the store is reached
}

// openByHand opens the group.
func openByHand(t *testing.T) *byHand {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	return openGroup(t, ctx, etcd(ctx, t), dial.Options{})
}

// openEach is openByHand on each engine.
func openEach(t *testing.T, f func(t *testing.T, h *byHand)) {
	stores(t, func(t *testing.T, url string) {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		t.Cleanup(cancel)
		f(t, openGroup(t, ctx, url, dial.Options{}))
	})
}

// openGroup is openByHand for a store that is there, which options reach.
func openGroup(t *testing.T, ctx context.Context, url string, o dial.Options) *byHand {
	h := &byHand{T: t, ctx: ctx, url: url}
	var err error
	h.store, err = dial.Open(ctx, dial.Options{URL: h.url, CA: o.CA, Cert: o.Cert, Key: o.Key,
		Store: metastore.Options{Group: "disco",
			Base: append(cluster.Base(), fleet.Base()...)}})
	h.must(err)
	t.Cleanup(func() { h.must(h.store.Close()) })
	h.client, err = fleet.New(ctx, h.store, fleet.Options{})
	h.must(err)
	h.view, err = cluster.Open(ctx, h.store)
	h.must(err)
	t.Cleanup(h.view.Close)
	return h
}

// leads makes the test the leader, so that no agent is one.
func (h *byHand) leads() {
	lead, err := h.store.Campaign(h.ctx, "cluster/leader", "the test")
	h.must(err)
	h.Cleanup(func() { h.must(lead.Resign(h.ctx)) })
}

func (h *byHand) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// agentProcess is an agent with its supervisor.
type agentProcess struct {
	h                   *byHand
	name, work, program string
	more                []string // flags
	cmd                 *exec.Cmd
	stdout, stderr      *bytes.Buffer
	ended               bool
	once                sync.Once
	err                 error // once it was waited for
	gone                atomic.Bool
}

// wait returns when the supervisor has ended, and how. Any goroutine may call it.
func (a *agentProcess) wait() error {
	a.once.Do(func() {
		a.err = a.cmd.Wait()
		a.gone.Store(true)
	})
	return a.err
}

// agent starts one with two servers, and returns when it is up; the test ends it.
func (h *byHand) agent(name, program string, more ...string) *agentProcess {
	h.Helper()
	return h.again(&agentProcess{h: h, name: name, work: filepath.Join(h.TempDir(), "work"), program: program,
		more: more})
}

// upSaid is an agent's standard output. up is closed when that says that it is up.
type upSaid struct {
	text *bytes.Buffer // not embedded: it would be read into without Write
	up   chan struct{}
	once sync.Once
}

func (s *upSaid) Write(b []byte) (int, error) {
	n, err := s.text.Write(b)
	if strings.Contains(s.text.String(), " is up, with ") {
		s.once.Do(func() { close(s.up) })
	}
	return n, err
}

// again starts an agent where another one was. One that ends before it is up is an error, unless the test tries again:
// then there is another one. Its servers alone don't say that it is up: those of one that was killed are there until
// its session is over.
func (h *byHand) again(was *agentProcess) *agentProcess {
	h.Helper()
	a := &agentProcess{h: h, name: was.name, work: was.work, program: was.program, more: was.more}
	a.cmd, a.stdout, a.stderr = command(append([]string{"agent", "--store", h.url, "--name", a.name, "--slots", "2",
		"--executor", "local", "--work", a.work, "--program", a.program, "--grace", "5s"}, a.more...)...)
	a.cmd.Args = append(a.cmd.Args, h.certs...)
	if in := h.enter[a.name]; in != nil {
		own := append(slices.Clone(in), selfProgram(h.T))
		a.cmd.Path, a.cmd.Args = "/usr/bin/env", slices.Concat([]string{"env"}, own, a.cmd.Args[1:])
	}
	said := &upSaid{text: a.stdout, up: make(chan struct{})}
	a.cmd.Stdout = said
	h.must(a.cmd.Start())
	h.Cleanup(a.end)
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	up, gone := make(chan error, 1), make(chan error, 1)
	go func() {
		select {
		case <-said.up:
		case <-ctx.Done():
		}
		up <- h.view.Await(ctx, func() bool {
			s, ok := h.view.Server(a.name + "-1")
			return ok && s.State == cluster.Available
		})
	}()
	go func() { gone <- a.wait() }()
	select {
	case err := <-up:
		h.must(err)
		return a
	case err := <-gone:
		a.ended = true
		cancel()
		<-up
		if h.must(h.ctx.Err()); !h.tries {
			h.Fatalf("%s: %v: %s%s", a.name, err, a.stdout, a.stderr)
		}
		h.Logf("%s: %v: %s%s", a.name, err, a.stdout, a.stderr)
		return h.again(a)
	}
}

// end ends it in order.
func (a *agentProcess) end() {
	if a.ended {
		return
	}
	a.ended = true
	_ = a.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	if err := a.wait(); err != nil {
		a.h.Errorf("%s: %v: %s%s", a.name, err, a.stdout, a.stderr)
	} else if a.h.Failed() {
		a.h.Logf("%s: %s%s", a.name, a.stdout, a.stderr)
	}
}

// kill kills the agent, and waits for its supervisor.
func (a *agentProcess) kill() {
	a.h.Helper()
	for _, m := range a.h.view.Members() {
		if m.Name == a.name {
			a.h.must(syscall.Kill(m.Pid, syscall.SIGKILL))
		}
	}
	a.ended = true
	if err := a.wait(); err == nil {
		a.h.Errorf("%s was killed, and its supervisor says nothing", a.name)
	}
}

// submit submits a scenario with so many replications, in the place.
func (h *byHand) submit(text, place string, replications int, sweep string, points ...[]string) string {
	h.Helper()
	return h.submitFile("tiny.yml", text, place, replications, sweep, points...)
}

// submitFile is submit of a scenario that was named so.
func (h *byHand) submitFile(file, text, place string, replications int, sweep string, points ...[]string) string {
	h.Helper()
	step := fleet.Step{File: file, Args: []string{"--seed", "3"}, Points: points, Replications: replications,
		Workers: 2}
	if sweep != "" {
		step.Sweep = []string{sweep}
	}
	id, _, err := h.client.Submit(h.ctx, &fleet.Submission{Key: fmt.Sprint(time.Now()), Name: "tiny", User: "me",
		Version: app.Version(), Place: place, Priority: fleet.Normal, Steps: []fleet.SubmittedStep{{Step: step,
			Scenario: []byte(text)}}})
	h.must(err)
	return id
}

// move changes a piece, and takes its report.
func (h *byHand) move(id string, p fleet.PieceID, change func(*fleet.Piece), takes *fleet.ReportAt) {
	h.Helper()
	was, err := h.client.Piece(h.ctx, id, p)
	h.must(err)
	m := fleet.Move{ID: id, Piece: p, At: was.Version, To: was.Piece, Takes: takes}
	if was.Attempt > 0 {
		m.Was = &was.Piece
	}
	change(&m.To)
	_, err = h.client.MovePieces(h.ctx, []fleet.Move{m})
	h.must(err)
}

// standingAt is the version of an experiment's standing.
func (h *byHand) standingAt(id string) metastore.Version {
	h.Helper()
	e, err := h.client.Show(h.ctx, id)
	h.must(err)
	return e.StandingAt
}

// dispatch gives a piece to both servers of an agent, which simulate it when it returns.
func (h *byHand) dispatch(id string, p fleet.PieceID, member string) (attempt int) {
	h.Helper()
	h.move(id, p, func(to *fleet.Piece) {
		to.State, to.Attempt, to.Token, to.Gang = fleet.Dispatched, to.Attempt+1, 1, nil
		for i := range 2 {
			s, _ := h.view.Server(fmt.Sprintf("%s-%d", member, i))
			to.Gang = append(to.Gang, fleet.Server{Name: s.Name, Member: member, Incarnation: s.Incarnation})
		}
		attempt = to.Attempt
	}, nil)
	for _, states := range [][]cluster.State{{cluster.Reserved, cluster.Ready}, {cluster.Active}} {
		for i := range 2 {
			as := &cluster.Assignment{Experiment: id, Partition: i,
				Replication: fleet.AttemptID{PieceID: p, Attempt: attempt}.String()}
			for _, state := range states {
				ack, err := h.view.Ask(h.ctx, fmt.Sprintf("%s-%d", member, i), state, as, "the test")
				h.must(err)
				if ack.Phase != cluster.Applied {
					h.Fatalf("found %+v, want %v applied", ack, state)
				}
			}
		}
	}
	return attempt
}

// report waits for a report of a state, and moves the piece to it.
func (h *byHand) report(id string, p fleet.PieceID, member string, state fleet.PieceState) *fleet.Report {
	h.Helper()
	for {
		r, err := h.client.Report(h.ctx, member, id, p)
		h.must(err)
		if r != nil && r.Report.State == state {
			if state == fleet.Finished || state == fleet.Held || state == fleet.Failed {
				h.move(id, p, func(to *fleet.Piece) {
					to.State, to.Kept, to.Error = state, r.Report.Kept, r.Report.Error
				}, r)
			}
			return &r.Report
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-h.ctx.Done():
			h.Fatalf("piece %v: found the report %+v, want %v", p, r, state)
		}
	}
}

// finish simulates a piece to its end.
func (h *byHand) finish(id string, p fleet.PieceID, member string) {
	h.Helper()
	h.dispatch(id, p, member)
	h.report(id, p, member, fleet.Finished)
	h.must(h.view.Await(h.ctx, func() bool {
		a, _ := h.view.Server(member + "-0")
		b, _ := h.view.Server(member + "-1")
		return a.State == cluster.Available && b.State == cluster.Available
	}))
}

// comparable are the results in a file, without what is about workers, wall time and the machine.
func comparableResults(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	leave := []string{"wall_s", "events_per_s", "setup_s", "per_worker", "phases_s", "phases", "workers", "placement",
		"transport", "checkpoints", "machine", "coupling", "variant"} // the last has a place, and a run's random id
	var clean func(v any)
	clean = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				if slices.Contains(leave, key) {
					delete(v, key)
				} else {
					clean(value)
				}
			}
		case []any:
			for _, value := range v {
				clean(value)
			}
		}
	}
	clean(all)
	text, err = json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// selfProgram is a program that runs the test's models: this one.
func selfProgram(t *testing.T) string {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

// TestResults: pieces that agents have simulated, on machines with other folders and in mixed order, are put together
// to what one run on this machine gives, whether their parts are in the store or in a directory, and a sweep to its
// table. Before the end nothing is written.
func TestResults(t *testing.T) {
	h := openByHand(t)
	h.leads()
	self := selfProgram(t)
	h.agent("h1", self)
	h.agent("h2", self)
	text := launchtest.Scenario(6, 20, "")
	dir := t.TempDir()
	file := filepath.Join(dir, "tiny.yml")
	h.must(os.WriteFile(file, []byte(text), 0o600))
	for _, place := range []string{"", filepath.Join(t.TempDir(), "place")} {
		id := h.submitFile(file, text, place, 3, "", []string{"tokens=3"})
		h.finish(id, fleet.PieceID{Replication: 2}, "h1")
		h.finish(id, fleet.PieceID{Replication: 0}, "h2")
		out, merged := filepath.Join(dir, "out"), filepath.Join(dir, "merged.json")
		results := []string{"results", id, "--store", h.url, "--out", out, "--json", merged, "--program", self}
		early := runs(t, results...)
		if _, err := os.Stat(out); early.status != 1 || !errors.Is(err, os.ErrNotExist) ||
			!strings.Contains(early.stderr, "2 of 3 pieces have ended well (1 WAITING, 2 FINISHED)") {
			t.Errorf("before the end: %+v, %v", early, err)
		}
		if part := runs(t, append(results, "--partial")...); part.status != 0 {
			t.Errorf("--partial: %+v", part)
		}
		h.finish(id, fleet.PieceID{Replication: 1}, "h1")
		if whole := runs(t, results...); whole.status != 0 {
			t.Fatalf("%+v", whole)
		}
		local := runs(t, "run", file, "--seed", "3", "--set", "tokens=3", "--replications", "3", "--json",
			filepath.Join(dir, "local.json"))
		if local.status != 0 {
			t.Fatalf("%+v", local)
		}
		same(t, filepath.Join(dir, "local.json"), merged)
		same(t, filepath.Join(dir, "local.json"), filepath.Join(out, "result.json"))
		h.must(os.RemoveAll(out))
	}
	id := h.submitFile(file, text, "", 1, "tokens=2,4", []string{"tokens=2"}, []string{"tokens=4"})
	h.finish(id, fleet.PieceID{Point: 1}, "h1")
	h.finish(id, fleet.PieceID{}, "h2")
	table := runs(t, "results", id, "--store", h.url, "--json", filepath.Join(dir, "sweep.json"), "--program", self)
	local := runs(t, "run", file, "--seed", "3", "--sweep", "tokens=2,4", "--json", filepath.Join(dir, "local.json"))
	if table.status != 0 || local.status != 0 {
		t.Fatalf("%+v, %+v", table, local)
	}
	same(t, filepath.Join(dir, "local.json"), filepath.Join(dir, "sweep.json"))
	wrong := runs(t, "results", id, "--store", h.url, "--program", self, "--columns", "nosuch", "--json",
		filepath.Join(dir, "wrong.json"))
	if wrong.status != 2 || !strings.Contains(wrong.stderr, ": results: --columns: ") {
		t.Errorf("%+v", wrong)
	}
	if none := runs(t, "results", "nosuch", "--store", h.url, "--program", self); none.status != 2 ||
		!strings.Contains(none.stderr, "no experiment") {
		t.Errorf("%+v", none)
	}
}

// TestResultsNamed: a scenario from standard input, from a pipe, and from a file whose name looks like a flag, is
// simulated by machines as by a run here, whose results these are.
func TestResultsNamed(t *testing.T) {
	h := openByHand(t)
	self := selfProgram(t)
	h.agent("h1", self)
	t.Chdir(t.TempDir())
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	text := launchtest.Scenario(6, 20, "")
	for _, name := range []string{"-tiny.yml", "tiny.yml"} {
		h.must(os.WriteFile(name, []byte(text), 0o600))
	}
	for _, file := range []string{"-", "/dev/stdin", "./-tiny.yml"} {
		pipe := func(args ...string) string {
			t.Helper()
			cmd := exec.CommandContext(h.ctx, self, args...)
			cmd.Env = append(os.Environ(), programVariable+"=1")
			cmd.Stdin = strings.NewReader(text)
			out, err := cmd.Output()
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
				t.Fatalf("%q: %v: %s", args, err, exit.Stderr)
			}
			h.must(err)
			return string(out)
		}
		flags := []string{file, "--replications", "2", "--seed", "3"}
		words := strings.Fields(pipe(append([]string{"submit", "--store", h.url, "--program", self}, flags...)...))
		id := words[len(words)-1]
		if e := h.ends(id); e.Standing.Status != fleet.StatusFinished {
			t.Fatalf("%s: found %+v", file, e.Standing)
		}
		pipe("results", id, "--store", h.url, "--program", self, "--json", "merged.json")
		pipe(append([]string{"run", "--json", "local.json"}, flags...)...)
		same(t, "local.json", "merged.json")
	}
}

// same holds that two files have the same results.
func same(t *testing.T, local, merged string) {
	t.Helper()
	sameElsewhere(t, "", local, merged)
}

// sameElsewhere is same where a scenario was submitted from its own folder, and file is how the local run has named it.
func sameElsewhere(t *testing.T, file, local, merged string) {
	t.Helper()
	want := comparableResults(t, local)
	if file != "" {
		want = strings.ReplaceAll(want, file, filepath.Base(file))
	}
	if found := comparableResults(t, merged); found != want {
		t.Errorf("found %s\nwant %s", found, want)
	}
}
