// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/model/service"
	"github.com/disco-sim/disco/scenario"
)

// runOut runs a command with --out, and returns what is in the files beside result.json and the list.
func runOut(t *testing.T, kind scenario.Kind, dir string, args ...string) map[string]string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	args = append(append([]string{"disco-run"}, args...), "--out", dir)
	if status := Run(args, strings.NewReader(""), &stdout, &stderr, kind); status != ExitOK {
		t.Fatalf("%v: exit status %d: %s", args, status, stderr.String())
	}
	all := map[string]string{}
	for _, name := range namesIn(t, dir) {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if name != "result.json" && name != "output.json" {
			all[name] = string(b)
		}
	}
	if len(all["series.csv"]) < 1000 {
		t.Fatalf("%v: found %d files, and series %.100q", args, len(all), all["series.csv"])
	}
	return all
}

// namesIn are the files of a directory.
func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func sameOut(t *testing.T, what string, want, got map[string]string) {
	t.Helper()
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s: %s differs", what, name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: found %d files, want %d", what, len(got), len(want))
	}
}

// TestOut: files are the same, to the byte, with any number of workers, from a checkpoint, and with nodes that move.
// result.json is what --json writes.
func TestOut(t *testing.T) {
	dir, file, kind := t.TempDir(), filepath.Join("..", "examples", "mini.yml"), service.Kind()
	store, out := filepath.Join(dir, "store"), filepath.Join(dir, "out")
	run := []string{"run", file, "--horizon", "60", "--transport", "inproc"}
	want := runOut(t, kind, out, append(run, "--json", filepath.Join(dir, "json"))...)
	result, err := os.ReadFile(filepath.Join(out, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	same, err := os.ReadFile(filepath.Join(dir, "json"))
	if err != nil || !bytes.Equal(result, same) {
		t.Errorf("%v: result.json isn't what --json writes", err)
	}
	if !strings.Contains(want["graph.json"], `"id": "client-server"`) {
		t.Errorf("graph.json has %.200q", want["graph.json"])
	}
	scenario, err := os.ReadFile(file)
	if err != nil || want["scenario.yml"] != string(scenario) {
		t.Errorf("%v: the scenario differs", err)
	}
	for _, how := range []string{
		"--workers 2 --spread nodes --partition round-robin", "--workers 3 --spread nodes",
		"--workers 7 --spread nodes --processors 7 --partition round-robin",
		"--workers 2 --spread nodes --rebalance 5 --shards 3",
		"--checkpoint-at 20=warm --checkpoint-to " + store,
	} {
		sameOut(t, how, want, runOut(t, kind, out, append(slices.Clone(run), strings.Fields(how)...)...))
	}
	for _, how := range []string{"--workers 1", "--workers 3 --spread nodes --partition block"} {
		args := append([]string{"resume", store, "--at", "warm", "--transport", "inproc"}, strings.Fields(how)...)
		sameOut(t, "resume "+how, want, runOut(t, kind, out, args...))
	}
	three := append(slices.Clone(run), "--replications", "3")
	want = runOut(t, kind, out, three...)
	sameOut(t, "3 replications", want, runOut(t, kind, out, append(three, "--workers", "2", "--spread", "nodes")...))
	sameOut(t, "3 replications apart", want, runOut(t, kind, out, append(three, "--workers", "3", "--spread",
		"replications")...))
}

// TestOutRefused: what is in the way is said before the run, with exit status 2, and stays.
func TestOutRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine.txt"), []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	status := Run([]string{"disco-run", "run", filepath.Join("..", "examples", "mini.yml"), "--out", dir},
		strings.NewReader(""), &stdout, &stderr, service.Kind())
	if status != ExitUsage || !strings.Contains(stderr.String(), "isn't empty and has no output.json") {
		t.Errorf("exit status %d: %s", status, stderr.String())
	}
	if stdout.Len() > 0 || len(namesIn(t, dir)) != 1 {
		t.Errorf("%q was printed, found %d files", stdout.String(), len(namesIn(t, dir)))
	}
}

// TestOutLate: a run that was begun without --out goes on with it, and says what it hasn't recorded.
func TestOutLate(t *testing.T) {
	dir, file, kind := t.TempDir(), filepath.Join("..", "examples", "mini.yml"), service.Kind()
	store, out := filepath.Join(dir, "store"), filepath.Join(dir, "out")
	runSaved(t, kind, "run", file, "--horizon", "60", "--transport", "inproc", "--checkpoint-to", store,
		"--checkpoint-at", "20=warm")
	var stdout, stderr bytes.Buffer
	status := Run([]string{"disco-run", "resume", store, "--at", "warm", "--transport", "inproc", "--out", out},
		strings.NewReader(""), &stdout, &stderr, kind)
	if status != ExitOK || !strings.Contains(stderr.String(), "the run was begun without --out") {
		t.Errorf("exit status %d: %s", status, stderr.String())
	}
	text, err := os.ReadFile(filepath.Join(out, "series.csv"))
	if err != nil || strings.Count(string(text), "\n") != 1 {
		t.Errorf("%v: series %q", err, text)
	}
}

// TestOutSweep: a sweep has its table, and the time series of each of its points. So have variants.
func TestOutSweep(t *testing.T) {
	dir, file, kind := t.TempDir(), filepath.Join("..", "examples", "mini.yml"), service.Kind()
	out := filepath.Join(dir, "out")
	all := runOut(t, kind, out, "run", file, "--horizon", "60", "--sweep", cores+"=1,2", "--transport", "inproc")
	rows := func(name string) [][]string {
		list, err := csv.NewReader(strings.NewReader(all[name])).ReadAll()
		if err != nil || len(list) < 2 {
			t.Fatalf("%s: %v, %d rows", name, err, len(list))
		}
		return list
	}
	points, series := rows("sweep.csv"), rows("series.csv")
	if len(points) != 3 || points[0][0] != cores || points[2][0] != "2" {
		t.Errorf("points %q", points)
	}
	count := map[string]int{}
	for _, row := range series[1:] {
		count[row[0]]++
	}
	if series[0][0] != "point" || len(count) != 2 || count["1"] == 0 || count["1"] != count["2"] {
		t.Errorf("head %q, rows by point %v", series[0], count)
	}
	var doc struct{ Points int }
	text, err := os.ReadFile(filepath.Join(out, "result.json"))
	if err != nil || json.Unmarshal(text, &doc) != nil || doc.Points != 2 {
		t.Errorf("%v: result.json has %d points", err, doc.Points)
	}
}

// TestOutWithout: a model without time series and tables has the others.
func TestOutWithout(t *testing.T) {
	dir := t.TempDir()
	file, out := filepath.Join(dir, "tiny.yml"), filepath.Join(dir, "out")
	if err := os.WriteFile(file, []byte(launchtest.Scenario(4, 5, "")), 0o666); err != nil {
		t.Fatal(err)
	}
	runSaved(t, launchtest.Kind(), "run", file, "--transport", "inproc", "--out", out)
	got := strings.Join(namesIn(t, out), " ")
	if !strings.HasPrefix(got, "output.json ") || strings.Contains(got, "series") ||
		!strings.Contains(got, "result.json scenario.yml") {
		t.Errorf("found %s", got)
	}
}

// TestReport: a page has the figures of the first screen, series, outages, the command, and the scenario; with a sweep,
// or to standard output, it is refused.
func TestReport(t *testing.T) {
	file, kind := filepath.Join("..", "examples", "shop.yml"), service.Kind()
	page := filepath.Join(t.TempDir(), "page.html")
	run := func(args ...string) (int, string) {
		var stdout, stderr bytes.Buffer
		args = append([]string{"disco-run", "run", file, "--horizon", "150", "--transport", "inproc", "--report"},
			args...)
		return Run(args, strings.NewReader(""), &stdout, &stderr, kind), stderr.String()
	}
	if status, text := run(page, "--seed", "7"); status != ExitOK {
		t.Fatalf("exit status %d: %s", status, text)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"throughput (requests/s)", "latency (s)", "utilisation", "web-3 down",
		"busiest servers", "run ../examples/shop.yml --seed 7 --horizon 150", "rqs_input:", "trace hash",
		`class="span"`, "links", `class="box q1"`, "latency (s) by percentile"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("found no %q", want)
		}
	}
	for want, args := range map[string][]string{
		"want the name of a file": {"-"},
		"both name":               {page, "--json", page},
		"not a directory":         {filepath.Join(page, "x", "y")},
	} {
		if status, text := run(args...); status != ExitUsage || !strings.Contains(text, want) {
			t.Errorf("%v: exit status %d: %s", args, status, text)
		}
	}
	if got := shellWord("a b'c"); got != `'a b'\''c'` || shellWord("a=b/c") != "a=b/c" || shellWord("") != "''" {
		t.Errorf("found %s", got)
	}
}

// TestReportSweep: the page of a sweep has curves with intervals.
func TestReportSweep(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.html")
	var stdout, stderr bytes.Buffer
	if status := Run([]string{"disco-run", "run", filepath.Join("..", "examples", "mini.yml"), "--horizon", "30",
		"--transport", "inproc", "--report", page, "--replications", "3", "--sweep", cores + "=1,2"},
		strings.NewReader(""), &stdout, &stderr, service.Kind()); status != ExitOK {
		t.Fatalf("exit status %d: %s", status, stderr.String())
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`class="band"`, "3 at each point", "--sweep " + cores + "=1,2", "2 of 2",
		"rqs_input:"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page of a sweep has no %q", want)
		}
	}
}

// TestOutTwice: of two runs that write to one directory at the same time the second is refused, with what the first is;
// one that was killed keeps nobody out.
func TestOutTwice(t *testing.T) {
	dir := t.TempDir()
	file, short, out := filepath.Join(dir, "endless.yml"), filepath.Join(dir, "tiny.yml"), filepath.Join(dir, "out")
	for path, text := range map[string]string{file: endless(4), short: launchtest.Scenario(4, 5, "")} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	first := startBeside(t, "run", file, "--workers", "1", "--out", out)
	pid := first.cmd.Process.Pid
	first.until("the lock", func() bool {
		locks, err := os.ReadFile("/proc/locks")
		return err == nil && strings.Contains(string(locks), fmt.Sprintf("FLOCK  ADVISORY  WRITE %d ", pid))
	})
	second := func() (status int, said string) {
		var stderr bytes.Buffer
		status = Run([]string{"disco-run", "run", short, "--transport", "inproc", "--out", out}, strings.NewReader(""),
			io.Discard, &stderr, launchtest.Kind())
		return status, stderr.String()
	}
	status, said := second()
	want := fmt.Sprintf("--out: %s: process %d (", out, pid)
	if status != ExitUsage || !strings.Contains(said, want) || !strings.Contains(said, "--workers 1 --out") {
		t.Errorf("exit status %d, %s, want 2, and %q", status, said, want)
	}
	_, _ = first.cmd.Process.Kill(), first.cmd.Wait()
	for range 2 {
		if status, said := second(); status != ExitOK {
			t.Errorf("when the first is gone: exit status %d, %s", status, said)
		}
	}
}
