// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/model/service"
)

// partsFolder gives what calls a program with the service kind, in a folder that has mini.yml.
func partsFolder(t *testing.T) (call func(want int, args ...string) (stdout, stderr string)) {
	t.Helper()
	mini, err := os.ReadFile(filepath.Join("..", "examples", "mini.yml"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	other := string(mini) + "\n# another text\n"
	for name, text := range map[string]string{"mini.yml": string(mini), "other.yml": other} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return func(want int, args ...string) (string, string) {
		t.Helper()
		var stdout, stderr strings.Builder
		if status := Run(append([]string{"disco-run"}, args...), strings.NewReader(""), &stdout, &stderr,
			service.Kind()); status != want {
			t.Fatalf("%q: exit status %d, want %d: %s", args, status, want, stderr.String())
		}
		return stdout.String(), stderr.String()
	}
}

// part simulates some replications of mini.yml.
func part(only, dir string, more ...string) []string {
	return append([]string{"run", "mini.yml", "--horizon", "40", "--transport", "inproc", "--replications", "7",
		"--only", only, "--checkpoint-to", dir}, more...)
}

// TestMerge: what parts of a run are put together to is the run, to the byte: trace, files, and all of the JSON that
// isn't about workers and wall time, whatever each part is spread over.
func TestMerge(t *testing.T) {
	call := partsFolder(t)
	call(ExitOK, "run", "mini.yml", "--horizon", "40", "--transport", "inproc", "--replications", "7",
		"--json", "whole.json", "--trace", "whole", "--out", "whole.d", "--records")
	call(ExitOK, part("0-2", "a", "--workers", "2", "--spread", "replications", "--trace", "a.t", "--out", "a.d",
		"--records")...)
	call(ExitOK, part("6", "c", "--trace", "c.t", "--out", "c.d", "--records")...)
	call(ExitOK, part("2-5", "b", "--workers", "3", "--trace", "b.t", "--out", "b.d", "--records",
		"--checkpoint-at", "20=half")...)
	first, _ := call(ExitOK, "merge", "a", "b", "c", "--json", "merged.json", "--trace", "merged", "--out",
		"merged.d", "--records")
	for _, want := range []string{"7 replications, put together from 3 parts", "all of them in the parts"} {
		if !strings.Contains(first, want) {
			t.Errorf("found %s, want %q", first, want)
		}
	}
	sameFiles(t, "whole", "merged")
	names, err := filepath.Glob("whole.d/*")
	if err != nil || len(names) < 10 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if filepath.Base(name) != "result.json" {
			sameFiles(t, name, filepath.Join("merged.d", filepath.Base(name)))
		}
	}
	whole, merged := fieldsOf(t, "whole.json"), fieldsOf(t, "merged.json")
	for _, name := range []string{"results", "trace_hash", "figures", "events", "activations", "replications", "ended",
		"interrupted", "seed", "horizon_s", "scenario", "file", "set"} {
		if string(whole[name]) != string(merged[name]) || name != "set" && len(whole[name]) == 0 {
			t.Errorf("%s: found %.300s, want %.300s", name, merged[name], whole[name])
		}
	}
	// An end that is there already isn't simulated again, and a part is the run of its replications.
	_, again := call(ExitOK, "resume", "b", "--transport", "inproc", "--trace", "b2.t", "--json", "b.json",
		"--out", "b2.d", "--records")
	sameFiles(t, "b.d/records.parquet", "b2.d/records.parquet")
	sameFiles(t, "b.t", "b2.t")
	if got := fieldsOf(t, "b.json"); string(got["only"]) != `"2-5"` || string(got["replications"]) != "4" {
		t.Errorf("only %s, %s replications, want 2-5, 4: %s", got["only"], got["replications"], again)
	}
}

// fieldsOf reads a JSON object.
func fieldsOf(t *testing.T, path string) (fields map[string]json.RawMessage) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

func sameFiles(t *testing.T, a, b string) {
	t.Helper()
	x, errX := os.ReadFile(a)
	y, errY := os.ReadFile(b)
	if errX != nil || errY != nil || string(x) != string(y) || len(x) == 0 {
		t.Errorf("%s and %s differ, or have nothing: %d and %d bytes, %v, %v", a, b, len(x), len(y), errX, errY)
	}
}

// TestMergeRefused: parts of another run, and parts that aren't all, are refused with what to do; --partial takes those
// that are there, and says which aren't. An end that was simulated twice with different results is the model's fault.
func TestMergeRefused(t *testing.T) {
	call := partsFolder(t)
	call(ExitOK, part("0-1", "a")...)
	call(ExitOK, part("4-6", "c")...)
	call(ExitOK, part("2-3", "seed", "--seed", "2")...)
	call(ExitOK, part("2-3", "set", "--set", "rqs_input.avg_active_users.mean=3")...)
	call(ExitOK, slices.Replace(part("2-3", "text"), 1, 2, "other.yml")...)
	for _, c := range []struct {
		status int
		want   string
		args   []string
	}{
		{ExitFailed, "2 of 7 replications are missing: 2-3; simulate them", []string{"a", "c"}},
		{ExitUsage, "a and seed differ in seed", []string{"a", "seed", "c"}},
		{ExitUsage, "a and set differ in set", []string{"a", "set", "c"}},
		{ExitUsage, "a and text differ in file", []string{"a", "text", "c"}},
		{ExitUsage, "nothing: found no run.json", []string{"a", "nothing"}},
		{ExitUsage, "found nothing, want the directories", nil},
		{ExitUsage, "--require: found it with --partial", []string{"a", "--partial", "--require", "latency_s.p99 < 1"}},
		{ExitUsage, "--trace: found it for a run that was begun without", []string{"a", "--partial", "--trace", "x"}},
	} {
		if _, errs := call(c.status, append([]string{"merge"}, c.args...)...); !strings.Contains(errs, c.want) {
			t.Errorf("merge %q: found %s, want %q", c.args, errs, c.want)
		}
	}
	if err := os.WriteFile("list", []byte("a\nc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	call(ExitOK, "merge", "--parts", "list", "--partial", "--json", "l.json")
	call(ExitOK, "merge", "a", "c", "--partial", "--json", "p.json")
	for _, name := range []string{"missing", "results"} {
		l, p := string(fieldsOf(t, "l.json")[name]), string(fieldsOf(t, "p.json")[name])
		if l != p || l == "" {
			t.Errorf("from a list: %s: %.300s, want %.300s", name, l, p)
		}
	}
	got := fieldsOf(t, "p.json")
	if string(got["ended"]) != `"partial"` || string(got["trace_hash"]) != `""` || string(got["replications"]) != "5" ||
		strings.Join(strings.Fields(string(got["missing"])), "") != "[2,3]" {
		t.Errorf("ended %s, hash %s, %s replications, missing %s", got["ended"], got["trace_hash"], got["replications"],
			got["missing"])
	}
	for _, text := range []string{"7", "3-1", "-1", "1-", "a", "1-7", "0-1-2"} {
		_, errs := call(ExitUsage, "run", "mini.yml", "--replications", "7", "--only="+text)
		if !strings.Contains(errs, "of 0 to 6 (--replications 7)") {
			t.Errorf("--only=%s: %s", text, errs)
		}
	}
	_, errs := call(ExitUsage, "run", "mini.yml", "--until", "latency_s.p99 ± 2 %", "--only", "1")
	if !strings.Contains(errs, "--until: found it with --only") {
		t.Error(errs)
	}
}

// TestRepeat: the command that a page and the view show repeats what they show: after --until the replications that
// were simulated, of a part of a run that part, and of a scenario from standard input the file that it is to be put
// into.
func TestRepeat(t *testing.T) {
	call := partsFolder(t)
	run := func(file string, args ...string) string {
		t.Helper()
		all := []string{"run", file, "--horizon", "40", "--transport", "inproc", "--out", "out"}
		call(ExitOK, append(all, args...)...)
		lines := strings.Split(string(fieldsOf(t, "out/overview.json")["repeat"]), ",")
		return lines[len(lines)-1]
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"run mini.yml --seed 1 --replications 30 --horizon 40\"",
			[]string{"--until", "latency_s.mean ± 50 %", "--replications", "100"}},
		{"run mini.yml --seed 3 --replications 7 --only 2-4 --horizon 40\"",
			[]string{"--seed", "3", "--replications", "7", "--only", "2-4"}},
	} {
		if found := run("mini.yml", c.args...); !strings.Contains(found, c.want) {
			t.Errorf("%q: %s, want %s", c.args, found, c.want)
		}
	}
	o, d := &order{}, &document{Seed: 1}
	o.config.File = StandardInput
	p := &program{name: "disco-run"}
	if lines := p.repeat(o, d); len(lines) != 2 || lines[1] != "disco-run run scenario.yml --seed 1" {
		t.Errorf("from standard input: %q", lines)
	}
}

// TestMergeNamed: parts of a scenario from standard input, which machines had as a file, are put together to what a run
// from there gives, and those of a file that really has such a name to what a run of that gives. A model's name, and so
// what its results are called, comes from the file's.
func TestMergeNamed(t *testing.T) {
	call := partsFolder(t)
	text, err := os.ReadFile("mini.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{StandardInput, "-"} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range []struct{ named, file string }{{"-", StandardInput}, {StandardInput, StandardInput},
		{"./-", "./-"}} {
		whole, merged, dir := fmt.Sprint("whole", i), fmt.Sprint("merged", i), fmt.Sprint("part", i)
		var out, errs strings.Builder
		status := Run([]string{"disco-run", "run", c.named, "--horizon", "5", "--transport", "inproc", "--json", whole},
			strings.NewReader(string(text)), &out, &errs, service.Kind())
		if status != ExitOK {
			t.Fatalf("%s: %d: %s", c.named, status, errs.String())
		}
		call(ExitOK, "run", c.file, "--horizon", "5", "--transport", "inproc", "--checkpoint-to", dir)
		call(ExitOK, "merge", dir, "--named="+c.named, "--json", merged)
		want, found := fieldsOf(t, whole), fieldsOf(t, merged)
		for _, name := range []string{"scenario", "file", "trace_hash", "seed"} {
			if string(found[name]) != string(want[name]) || len(want[name]) == 0 {
				t.Errorf("%s: found the %s %s, want %s", c.named, name, found[name], want[name])
			}
		}
	}
}
