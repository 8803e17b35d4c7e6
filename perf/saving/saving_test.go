// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/agents/agentstest"
	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/perf/bench"
)

func TestMain(m *testing.M) {
	agentstest.Program()
	if bench.IsWorker() {
		os.Exit(bench.ServeWorker(bench.Jobs(Command(), MovesCommand())))
	}
	leaktest.Main(m)
}

// execute is the command with some flags, for as short as can be.
func execute(args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	args = append([]string{"disco-bench", "checkpoint", "--nodes", "50", "--time", "1ms", "--rounds", "2"}, args...)
	status = bench.Execute(args, &out, &errs, Command())
	return status, out.String(), errs.String()
}

// Every row has its figures and a limit, and all files that were made are gone.
func TestRows(t *testing.T) {
	program := agentstest.Install(t)
	scenario := filepath.Join(t.TempDir(), "phold.yml")
	if err := os.WriteFile(scenario, []byte("model: phold\nlps: 20\nlookahead: 0.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := t.TempDir()
	t.Setenv("TMPDIR", files)
	status, out, errs := execute("--json", "-", "--program", program, "--before", program, "--scenario", scenario,
		"--horizon", "40", "--between", "10", "--workers", "1")
	if status != bench.ExitOK {
		t.Fatalf("exit %d: %s", status, errs)
	}
	rows, err := bench.ReadJSON(strings.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range rows {
		names = append(names, strings.TrimPrefix(r.Bench, "checkpoint-"))
		if r.RatePerSecond <= 0 || r.Ratio == nil || r.Ratio.Min <= 0 || r.Limit == "" || r.Note != "" {
			t.Errorf("%+v", r)
		}
	}
	const want = "encode decode copy-pending encode-pending decode-pending restore-pending write resume resume-wall " +
		"run run-wall minute minute-wall replayable replayable-wall none none-wall pause"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("rows %s, want %s", got, want)
	}
	if left, err := os.ReadDir(files); err != nil || len(left) > 0 {
		t.Errorf("%v left behind, %v", left, err)
	}
}

// So has every row of runs whose nodes move.
func TestMovesRows(t *testing.T) {
	program := agentstest.Install(t)
	scenario := filepath.Join(t.TempDir(), "phold.yml")
	if err := os.WriteFile(scenario, []byte("model: phold\nlps: 20\nlookahead: 0.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := t.TempDir()
	t.Setenv("TMPDIR", files)
	var out, errs bytes.Buffer
	run := func(args ...string) int {
		out.Reset()
		errs.Reset()
		return bench.Execute(append([]string{"disco-bench", "rebalance", "--program", program, "--rounds", "2",
			"--scenario", scenario}, args...), &out, &errs, MovesCommand())
	}
	status := run("--wander", "3", "--heat", "100", "--even", "2", "--horizon", "20", "--json", "-")
	rows, err := bench.ReadJSON(&out)
	if status != bench.ExitOK || err != nil {
		t.Fatalf("exit %d: %s, %v", status, errs.String(), err)
	}
	var names []string
	for _, r := range rows {
		names = append(names, strings.TrimPrefix(r.Bench, "rebalance-"))
		if r.RatePerSecond <= 0 || r.Ratio == nil || r.Ratio.Min <= 0 || r.Limit != "off" || r.Note != "" {
			t.Errorf("%+v", r)
		}
	}
	if got, want := strings.Join(names, " "), "wander-wall even even-wall other other-wall"; got != want {
		t.Errorf("rows %s, want %s", got, want)
	}
	if left, err := os.ReadDir(files); err != nil || len(left) > 0 {
		t.Errorf("%v left behind, %v", left, err)
	}
	for want, args := range map[string][]string{
		"--wander: found 0, want more than 0":              {"--wander", "0"},
		"--rows: found \"x\", want some of":                {"--rows", "x"},
		"hot: found 2, want a number from 0 to 1":          {"--hot", "2", "--wander", "3"},
		"heat: found -1, want a whole number from 0 to 10": {"--heat", "-1", "--wander", "3"},
	} {
		if status := run(args...); status == bench.ExitOK || !strings.Contains(errs.String(), want) {
			t.Errorf("%q: exit %d, %s, want %q", args, status, errs.String(), want)
		}
	}
}

// --rows measures those alone.
func TestChosenRows(t *testing.T) {
	status, out, errs := execute("--rows", "checkpoint-write,checkpoint-encode")
	if status != bench.ExitOK || strings.Count(out, "checkpoint-") != 2 || !strings.Contains(out, "limit-write") {
		t.Errorf("exit %d: %s%s", status, out, errs)
	}
}

// Mistakes are found before anything is measured.
func TestMistakes(t *testing.T) {
	for want, args := range map[string][]string{
		"--nodes: found 0, want 1 to 10000000":                        {"--nodes", "0"},
		"--between: found 50, want more than 0, less than the horizo": {"--between", "50", "--horizon", "50"},
		"--workers: found 0":                                          {"--workers", "0"},
		"--before has no meaning without --program":                   {"--before", "x"},
		`--rows: found "write", want some of ["checkpoint-encode"`:    {"--rows", "write"},
		"missing: no such file or directory":                          {"--program", "missing"},
		`"more" is too much: it takes flags only`:                     {"more"},
	} {
		status, out, errs := execute(args...)
		if status != bench.ExitUsage || !strings.Contains(errs, want) || out != "" {
			t.Errorf("%q: exit %d, %s%s, want %q", args, status, out, errs, want)
		}
	}
}
