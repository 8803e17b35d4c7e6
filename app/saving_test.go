// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/inspect"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/model/network"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// savedResults are those of the JSON output that don't depend on how a run was divided, stopped and resumed.
type savedResults struct {
	TraceHash   string          `json:"trace_hash"`
	Events      uint64          `json:"events"`
	Activations uint64          `json:"activations"`
	Results     json.RawMessage `json:"results"`
	Checkpoints *savingRow      `json:"checkpoints"`
	Resumed     []resumedRow    `json:"resumed"`
}

// runSaved runs the program, and reads its results.
func runSaved(t *testing.T, kind scenario.Kind, args ...string) (r savedResults) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status := Run(append([]string{"disco-run"}, append(args, "--json", "-")...), strings.NewReader(""), &stdout,
		&stderr, kind)
	if status != ExitOK {
		t.Fatalf("%v: exit status %d: %s", args, status, stderr.String())
	}
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// same reports whether two runs have the same results.
func (r *savedResults) same(o *savedResults) bool {
	return r.TraceHash == o.TraceHash && r.Events == o.Events && r.Activations == o.Activations &&
		bytes.Equal(r.Results, o.Results)
}

// TestResume: a run with checkpoints, and runs that begin with any of these, on any number of workers, have the results
// of one without, also when the scenario's file is gone.
func TestResume(t *testing.T) {
	dir := t.TempDir()
	file, store, trace := filepath.Join(dir, "tiny.yml"), filepath.Join(dir, "store"), filepath.Join(dir, "trace")
	if err := os.WriteFile(file, []byte(launchtest.Scenario(4, 20, "")), 0o666); err != nil {
		t.Fatal(err)
	}
	kind := launchtest.Kind()
	run := []string{"run", file, "--replications", "3", "--workers", "2", "--spread", "nodes", "--trace", trace}
	want := runSaved(t, kind, run...)
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	saved := runSaved(t, kind, append(run, "--checkpoint-to", store, "--checkpoint-at", "3", "--checkpoint-at",
		"1e1=half", "--checkpoint-at", "15")...)
	if !saved.same(&want) || saved.Checkpoints == nil || saved.Checkpoints.Made != 9 || saved.Resumed != nil {
		t.Errorf("with checkpoints: %+v and %+v, want %+v and 9", saved, saved.Checkpoints, want)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at, how  string
		finished bool
		epoch    float64
	}{
		{"latest", "--workers 2", true, 20}, {"half", "--workers 1", false, 10}, {"15", "--workers 3", false, 15},
		{"0.3e1", "--transport inproc --workers 4 --spread nodes", false, 3},
		{"half", "--workers 3 --spread replications", false, 10},
	} {
		args := append([]string{"resume", store, "--at", c.at, "--trace", trace}, strings.Fields(c.how)...)
		got := runSaved(t, kind, args...)
		if !got.same(&want) || len(got.Resumed) != 3 {
			t.Errorf("%v: %+v, want %+v", args, got, want)
		}
		for _, r := range got.Resumed {
			if r.Finished != c.finished || r.EpochSeconds != c.epoch {
				t.Errorf("%v: begins with %+v, want %v, %v", args, r, c.epoch, c.finished)
			}
		}
		if found, err := os.ReadFile(trace); err != nil || !bytes.Equal(found, text) {
			t.Errorf("%v: another trace, %v", args, err)
		}
	}
}

// TestResumeAttached: the files that a scenario refers to are read from run.json.
func TestResumeAttached(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	topology, err := os.ReadFile(filepath.Join(testdataDir, "net.gml"))
	if err != nil {
		t.Fatal(err)
	}
	const text = "model: network\nhorizon: 5\ntopology: net.gml\ntraffic: { matrix: uniform, " +
		"packets_per_second: 500 }\n"
	for name, data := range map[string]string{"net.gml": string(topology), "net.yml": text} {
		if err := os.WriteFile(name, []byte(data), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want := runSaved(t, network.Kind(), "run", "net.yml", "--transport", "inproc", "--horizon", "2", "--checkpoint-to",
		"store", "--checkpoint-at", "1", "--set", "traffic.packets_per_second=400", "--seed", "9")
	for _, name := range []string{"net.gml", "net.yml"} {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	got := runSaved(t, network.Kind(), "resume", "store", "--transport", "inproc", "--workers", "2", "--at", "1")
	if !got.same(&want) || want.Events == 0 || len(got.Resumed) != 1 || got.Resumed[0].EpochSeconds != 1 {
		t.Errorf("found %+v, want %+v", got, want)
	}
}

// testdataDir has a network; tests change their folder.
var testdataDir = func() string {
	dir, err := filepath.Abs("../model/network/testdata")
	if err != nil {
		panic(err)
	}
	return dir
}()

// mute is a kind of scenario whose handlers can't be saved.
func mute() scenario.Kind {
	return scenario.Kind{Name: "mute", Load: func(*scenario.Document, scenario.Options) (scenario.Scenario, error) {
		return muteScenario{}, nil
	}}
}

type muteScenario struct{}

func (muteScenario) Name() string     { return "mute" }
func (muteScenario) Horizon() float64 { return 5 }
func (muteScenario) Graph() *node.Graph {
	return &node.Graph{Simprocs: []string{"main"}, Nodes: []node.Node{{Name: "a"}}}
}
func (muteScenario) NewHandler(*node.Simproc) (node.Handler, error) { return muteHandler{}, nil }
func (muteScenario) Accumulate() scenario.Accumulator               { return nil }

type muteHandler struct{}

func (muteHandler) Handle(*node.Simproc, []node.Event) error { return nil }

// TestNotSaved: a model whose handlers can't be saved is refused, with the flag with which it runs, and each time with
// the same words: nothing stays of the directory.
func TestNotSaved(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("mute.yml", []byte("model: mute\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("empty", 0o777); err != nil {
		t.Fatal(err)
	}
	const (
		not = "a/main: its handler, a app.muteHandler, can't be saved: write StateVersion and State " +
			"(docs/checkpoints.md); "
		ends = "with --checkpoint-ends, which keeps the end of each replication and no checkpoints, the model runs " +
			"as it is\n"
	)
	for args, want := range map[string]string{"--checkpoint-to new/store --checkpoint-every 1": not + ends,
		"--checkpoint-to new/store":                          not + ends,
		"--checkpoint-to empty --checkpoint-at 2":            not + ends,
		"--checkpoint-to new/store --resident 1M":            not + "without --resident and " + ends,
		"--resident 1M --checkpoint-to x --checkpoint-ends":  not + "without --resident, the model runs as it is\n",
		"--checkpoint-to new/store --checkpoint 1m --keep 3": not + ends} {
		for range 2 {
			var stdout, stderr bytes.Buffer
			status := Run(append([]string{"disco-run", "run", "mute.yml", "--transport", "inproc"},
				strings.Fields(args)...), strings.NewReader(""), &stdout, &stderr, mute())
			if status != ExitUsage || stdout.Len() > 0 || !strings.HasSuffix(stderr.String(), want) {
				t.Errorf("%s: exit status %d, want 2: %s%s, want %q alone", args, status, stdout.String(),
					stderr.String(), want)
			}
			there, err := filepath.Glob("*")
			inside, errInside := filepath.Glob("empty/*")
			if err != nil || errInside != nil || !slices.Equal(there, []string{"empty", "mute.yml"}) ||
				len(inside) > 0 {
				t.Errorf("%s: found %q, and %q in the directory that was there: want nothing of a run", args, there,
					inside)
			}
		}
	}
}

// TestKillAndResume: a run that is killed behind a checkpoint that SIGUSR1 has asked for ends with the results of one
// that wasn't.
func TestKillAndResume(t *testing.T) {
	l := launchProgram(t, launchtest.Scenario(4, 1e9, ""), "--checkpoint-to", "store")
	store := filepath.Join(l.dir, "store")
	repo, err := checkpoint.Open(context.Background(), checkpoint.NewDir(store))
	if err != nil {
		t.Fatal(err)
	}
	for wanted := 1; wanted <= 2; wanted++ {
		if err := l.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		l.until("a checkpoint", func() bool {
			points, err := repo.Points(context.Background())
			return err == nil && len(points) == wanted
		})
	}
	if err := l.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	l.end("store")
	points, err := repo.Points(context.Background())
	if err != nil || !slices.IsSortedFunc(points, func(a, b checkpoint.Point) int { return int(a.Epoch - b.Epoch) }) {
		t.Fatalf("checkpoints %v, %v", points, err)
	}
	first, second := points[0].Epoch, points[1].Epoch
	// What the run has at the second epoch is what one has that goes on from the first.
	l.cmd = exec.Command(os.Args[0], "resume", "store", "--at", fmt.Sprint(first), "--checkpoint-at",
		fmt.Sprint(second), "--workers", "1")
	l.cmd.Env = append(os.Environ(), programEnv+"=1")
	l.cmd.Stdout, l.cmd.Stderr, l.cmd.Dir = &l.stdout, &l.stderr, l.dir
	manifest, err := repo.Load(context.Background(), points[1])
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("000000-%016x.json", math.Float64bits(second))
	if err := os.Remove(filepath.Join(store, "points", name)); err != nil {
		t.Fatal(err)
	}
	l.simulating(1)
	l.until("the second checkpoint", func() bool {
		again, err := repo.Load(context.Background(), points[1])
		return err == nil && again.TraceHash == manifest.TraceHash && again.Events == manifest.Events
	})
	if err := l.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	l.end("store")
}

// TestRecover: a run whose worker is killed goes back to its last checkpoint with the other one, and says so.
func TestRecover(t *testing.T) {
	l := launchProgram(t, launchtest.Scenario(4, 1e9, ""), "--checkpoint-to", "store", "--recover", "1", "--json",
		"out.json")
	repo, err := checkpoint.Open(context.Background(), checkpoint.NewDir(filepath.Join(l.dir, "store")))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	var points []checkpoint.Point
	l.until("a checkpoint", func() bool {
		points, err = repo.Points(context.Background())
		return err == nil && len(points) == 1
	})
	if err := syscall.Kill(l.workers[1], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.until("a worker that simulates", func() bool {
		live, err := inspect.Process(l.cmd.Process.Pid)
		if err != nil || len(live.Workers) != 1 || live.Workers[0].Number(worker.NumberEvents) < 100 {
			return false
		}
		l.workers = append(l.workers, live.Workers[0].PID)
		return true
	})
	if err := l.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	l.end("store", "out.json")
	want := fmt.Sprintf("replication 0 goes on from %v s with 1 worker", points[0].Epoch)
	if status := l.cmd.ProcessState.ExitCode(); status != ExitSignal+int(syscall.SIGINT) ||
		!strings.Contains(l.stderr.String(), " resume store` goes on") ||
		!strings.Contains(l.stderr.String(), want) || !strings.Contains(l.stdout.String(), want) {
		t.Errorf("exit status %d, want 130, and %q: %s%s", status, want, l.stdout.String(), l.stderr.String())
	}
	text, err := os.ReadFile(filepath.Join(l.dir, "out.json"))
	var d document
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil || len(d.Recoveries) != 1 || d.Recoveries[0].From != points[0].Epoch || d.Recoveries[0].Workers != 1 {
		t.Errorf("found %+v, %v, want one time back to %v", d.Recoveries, err, points[0].Epoch)
	}
}
