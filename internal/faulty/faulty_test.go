// SPDX-License-Identifier: Apache-2.0

package faulty

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/scenario"
)

func TestMain(m *testing.M) {
	if launch.IsWorker() {
		app.Main(Kinds()...)
	}
	leaktest.Main(m)
}

// disco runs a command on a scenario in a file.
func disco(t *testing.T, text, command string, flags ...string) (status int, stdout, stderr string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "scenario.yml")
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	status = app.Run(append([]string{"test", command, file}, flags...), strings.NewReader(""), &out, &errs,
		Kinds()...)
	return status, out.String(), errs.String()
}

// repetitions is how often a finding must come: each time.
func repetitions() int {
	if testing.Short() {
		return 2
	}
	return 10
}

// Each fault gives wrong numbers with status 0 in a plain run, and verify finds it, shows where, and names it, every
// time.
func TestVerifyFindsFaults(t *testing.T) {
	for _, test := range []struct{ text, cause, probably string }{
		{"model: clock", "clock", "time.Now"},
		{"model: random", "random numbers", "rand.Float64"},
		{"model: maporder", "order of a map", "ranges over a map"},
		{"model: goroutine", "goroutine", "starts a goroutine"},
		{"model: shared", "shared state", "total"},
		{"model: memory", "kept memory", ""},
		{"model: random\nhorizon: 8\nnodes: 3", "random numbers", "rand.Float64"},
	} {
		t.Run(strings.ReplaceAll(test.text, "\n", ","), func(t *testing.T) {
			if invariants.Enabled && test.cause == "kept memory" {
				t.Skip("the checked build ends a run that keeps the memory of events")
			}
			if status, _, errs := disco(t, test.text, "run", "--workers", "2"); status != 0 {
				t.Fatalf("a plain run ends with %d: %s", status, errs)
			}
			for range repetitions() {
				status, out, errs := disco(t, test.text, "verify", "--json", "-", "--horizon", "30")
				if status != app.ExitFailed {
					t.Fatalf("verify ends with %d: %s %s", status, out, errs)
				}
				checkFinding(t, out, test.cause, test.probably)
			}
		})
	}
}

// checkFinding holds verify's JSON against what is expected.
func checkFinding(t *testing.T, out, cause, probably string) {
	t.Helper()
	var found struct {
		Agree      bool
		Difference struct {
			Sides [2]*struct {
				Epoch, Simproc string
				Events, Did    []string
			}
			Other [2]string
			Cause struct {
				Name     string
				Nodes    []string
				Probably []struct {
					File, What string
					Line       int
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		t.Fatal(err)
	}
	d := found.Difference
	if found.Agree || !strings.Contains(d.Cause.Name, cause) {
		t.Errorf("found %q, want %q: %s", d.Cause.Name, cause, out)
	}
	if d.Sides[0] == nil && d.Sides[1] == nil && d.Other[0] == d.Other[1] {
		t.Errorf("no difference is shown: %s", out)
	}
	at := slices.IndexFunc(d.Cause.Probably, func(f struct {
		File, What string
		Line       int
	}) bool {
		return strings.Contains(f.What, probably) && strings.Contains(f.File, "internal/faulty/") && f.Line > 0
	})
	if probably != "" && at < 0 {
		t.Errorf("no place says %q: %s", probably, out)
	}
	t.Logf("%+v", d)
}

// What varies so seldom that all runs may agree is named for what it is where they don't, and where they do the source
// is shown that may be at fault.
func TestVerifySeldom(t *testing.T) {
	for range 2 * repetitions() {
		status, out, errs := disco(t, "model: seldom", "verify")
		want := []string{"order of a map: ", "probably seldom.go:16: ranges over a map"}
		if status == app.ExitOK {
			want = []string{"runs agree", "what may make others differ", "look at seldom.go:16: ranges over a map"}
		}
		for _, part := range want {
			if !strings.Contains(out, part) {
				t.Fatalf("status %d, and %q isn't in\n%s%s", status, part, out, errs)
			}
		}
	}
}

// A model that fails over three workers only is found, with the error, and by what its nodes share.
func TestVerifyFailsOverThree(t *testing.T) {
	if status, _, errs := disco(t, "model: crowd", "run", "--workers", "2"); status != app.ExitOK {
		t.Fatalf("a plain run ends with %d: %s", status, errs)
	}
	status, out, errs := disco(t, "model: crowd", "verify")
	if status != app.ExitFailed || !strings.Contains(errs, "the runs don't agree") {
		t.Fatalf("status %d: %s%s", status, out, errs)
	}
	for _, part := range []string{"failed                            3 workers", "one of them fails:\n",
		"panic: two is a crowd", "faulty.crowd.func1", "shared state: ",
		"probably crowd.go:17: changes the package variable begun"} {
		if !strings.Contains(out, part) {
			t.Errorf("%q isn't in\n%s", part, out)
		}
	}
}

// Several replications are compared, and a difference in a later one has its number.
func TestVerifyReplications(t *testing.T) {
	if status, out, errs := disco(t, "model: good", "verify", "--replications", "3", "--horizon", "20"); status !=
		app.ExitOK {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
	status, out, errs := disco(t, "model: later", "verify", "--replications", "3")
	if status != app.ExitFailed || !strings.Contains(out, " s, replication 2\n") ||
		!strings.Contains(out, "probably later.go:14: calls time.Now") {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
}

// Two nodes that share something are named, of two on one worker with little traffic too, which --compare can't find.
func TestVerifyNamesNodes(t *testing.T) {
	if status, _, errs := disco(t, "model: shared", "run", "--workers", "2", "--compare"); status != 0 {
		t.Errorf("--compare finds it: status %d: %s", status, errs)
	}
	status, out, errs := disco(t, "model: shared", "verify")
	if status != app.ExitFailed || !strings.Contains(out, "others perhaps too: rome-0, rome-1\n") {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
}

// The first activation that differs is shown with both sides, in the model's words.
func TestVerifyShowsTheActivation(t *testing.T) {
	status, out, errs := disco(t, "model: random", "verify")
	if status != app.ExitFailed || !strings.Contains(errs, "the runs don't agree") {
		t.Fatalf("status %d: %s", status, errs)
	}
	for _, part := range []string{"the first activation that differs", "n-", "recorded value: ", "got  ",
		"probably random.go:"} {
		if !strings.Contains(out, part) {
			t.Errorf("%q isn't in\n%s", part, out)
		}
	}
}

// A good model agrees with itself.
func TestVerifyAgrees(t *testing.T) {
	for _, text := range []string{"model: good", "model: good\nnodes: 5"} {
		status, out, errs := disco(t, text, "verify")
		if status != app.ExitOK || !strings.Contains(out, "runs agree") {
			t.Errorf("status %d: %s%s", status, out, errs)
		}
	}
}

// What a node does is printed in the model's words, for that node and time alone.
func TestPrint(t *testing.T) {
	for _, workers := range []string{"1", "2"} {
		status, _, errs := disco(t, "model: good", "run", "--workers", workers, "--print", "node=n-1,from=1,until=2")
		if status != app.ExitOK {
			t.Fatalf("status %d: %s", status, errs)
		}
		for _, part := range []string{"1 s  n-1/main\n    got event 0 of n-0/main: Lap{Round: 0, Value: 0}\n",
			"recorded value: 1\n", "    sent Lap{Round: 1, Value: 1} to n-0, there at 2 s\n", "    drew ",
			"    set for ", "    did faulty.ring."} {
			if !strings.Contains(errs, part) {
				t.Errorf("%q isn't in\n%s", part, errs)
			}
		}
		if strings.Contains(errs, " s  n-0/") || strings.Contains(errs, "\n0.") || strings.Contains(errs, "\n3 s") {
			t.Errorf("other nodes or times are in\n%s", errs)
		}
	}
	for _, what := range []string{"n-1", "node=n-7", "until=3", "node=n-1,until=x", "node=n-1,from=-1", ""} {
		if status, _, errs := disco(t, "model: good", "run", "--print", what); status != app.ExitUsage {
			t.Errorf("%q: status %d: %s", what, status, errs)
		}
	}
}

// Bad input is refused before anything is run.
func TestVerifyRefuses(t *testing.T) {
	for _, flags := range [][]string{{"--replications", "0"}, {"--seed", "x"}, {"--json", "/nowhere/x"},
		{"--set", "x"}} {
		if status, _, errs := disco(t, "model: good", "verify", flags...); status != app.ExitUsage {
			t.Errorf("%q: status %d: %s", flags, status, errs)
		}
	}
	for text, want := range map[string]string{"model: good\nnodes: [": "scenario.yml:2", "model: best": `found "best"`,
		"model: good\nnodes: 1": "want a whole number >= 2", "": "", "model: good\nnode: 3": "node"} {
		status, out, errs := disco(t, text, "verify")
		if status != app.ExitUsage || out != "" || !strings.Contains(errs, want) ||
			!strings.Contains(errs, "scenario.yml") {
			t.Errorf("%q: status %d: %s%s", text, status, out, errs)
		}
	}
	if status := app.Run([]string{"test", "verify", "nowhere.yml"}, strings.NewReader(""), io.Discard, io.Discard,
		Kinds()...); status != app.ExitUsage {
		t.Errorf("no file: status %d", status)
	}
}

// failing is a test that may fail.
type failing struct {
	testing.TB
	text string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// A Saver that forgets a field is found, and the node that then has another state is named.
func TestForgetful(t *testing.T) {
	resume := func(s scenario.Scenario, seed uint64) string {
		f, done := &failing{}, make(chan struct{})
		go func() {
			defer close(done)
			modeltest.ResumeEverywhere(f, s, seed)
		}()
		<-done
		return f.text
	}
	for seed := range uint64(10) {
		if text := resume(Whole(), seed); text != "" {
			t.Errorf("without the fault: %s", text)
		}
		if text := resume(Forgetful(), seed); !strings.Contains(text, "of the node of f") {
			t.Errorf("a field that isn't saved: %q", text)
		}
	}
}
