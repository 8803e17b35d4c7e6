// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/model/service"
)

// TestVariants: a state goes on as often as is asked for, and with other settings. The first one without any is the run
// itself, all others differ from it, and each is the same with any number of workers. Nothing is written to the place
// of the checkpoints, and what would make the state meaningless is refused, field by field.
func TestVariants(t *testing.T) {
	dir := t.TempDir()
	store, file := filepath.Join(dir, "store"), filepath.Join("..", "examples", "mini.yml")
	kind := service.Kind()
	want := runSaved(t, kind, "run", file, "--horizon", "60", "--transport", "inproc",
		"--checkpoint-to", store, "--checkpoint-at", "20=warm")
	before := filesOf(t, store)
	alone := runSaved(t, kind, "resume", store, "--at", "warm", "--replications", "1", "--transport", "inproc")
	if !alone.same(&want) {
		t.Errorf("one replication with the same settings is %+v, want the run itself, %+v", alone, want)
	}
	seen := map[string]string{want.TraceHash: "the run"}
	for _, args := range [][]string{{"--replications", "3"}, {"--set", cores + "=2"}, {"--set", cores + "=3"},
		{"--set", cores + "=3", "--replications", "2"}} {
		text := strings.Join(args, " ")
		args = append([]string{"resume", store, "--at", "warm", "--transport", "inproc"}, args...)
		first := runSaved(t, kind, args...)
		if other, there := seen[first.TraceHash]; there {
			t.Errorf("%s gives what %s gives", text, other)
		}
		seen[first.TraceHash] = text
		for _, how := range []string{"--workers 3 --spread nodes", "--workers 2"} {
			again := runSaved(t, kind, append(slices.Clone(args), strings.Fields(how)...)...)
			if !again.same(&first) {
				t.Errorf("%s %s gives %+v, want %+v", text, how, again, first)
			}
		}
	}
	for _, c := range []struct{ args, want string }{
		{"--set sim_settings.total_simulation_time=90", "total_simulation_time: found 90"},
		{"--set topology_graph.nodes.servers.server.id=other", "found"},
		{"--set nothing.like.this=1", "nothing"},
		{"--set " + cores + "=0", "found 0"},
		{"--replications 0", "found 0"},
		{"--replications 2 --checkpoint 1m", "no meaning without --checkpoint-to"},
		{"--checkpoint-to other", "want it with one of"},
		{"--replications 2 --at cold", "--at is given twice"},
	} {
		var stdout, stderr bytes.Buffer
		args := append([]string{"disco-run", "resume", store, "--at", "warm"}, strings.Fields(c.args)...)
		status := Run(args, strings.NewReader(""), &stdout, &stderr, kind)
		if status != ExitUsage || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%s: exit status %d, %s; want %d and %q", c.args, status, stderr.String(), ExitUsage, c.want)
		}
	}
	if after := filesOf(t, store); after != before {
		t.Errorf("the place of the checkpoints has\n%s, want\n%s", after, before)
	}
}

// TestVariantsSaved: a variant with checkpoints of its own is a run of its own. It has what it begins with, so the
// other run may be gone; from wherever it goes on, with any number of workers, it ends as without checkpoints: with the
// hash, and with the trace, which begins at the checkpoint where the other run had none.
func TestVariantsSaved(t *testing.T) {
	dir := t.TempDir()
	store, own := filepath.Join(dir, "store"), filepath.Join(dir, "own")
	file := filepath.Join("..", "examples", "mini.yml")
	kind := service.Kind()
	runSaved(t, kind, "run", file, "--horizon", "60", "--transport", "inproc", "--checkpoint-to", store,
		"--checkpoint-at", "20=warm")
	before := filesOf(t, store)
	trace := func(i int) string { return filepath.Join(dir, fmt.Sprint("trace", i)) }
	args := []string{"resume", store, "--at", "warm", "--set", cores + "=2", "--replications", "3"}
	want := runSaved(t, kind, append(args, "--transport", "inproc", "--trace", trace(0))...)
	text, err := os.ReadFile(trace(0))
	if err != nil || !strings.HasPrefix(string(text), "# replication 0\n20.0") {
		t.Fatalf("%v: a trace that begins with %.40q, want one that begins behind the checkpoint", err, text)
	}
	got := runSaved(t, kind, append(args, "--transport", "inproc", "--checkpoint-to", own, "--checkpoint-at", "40",
		"--trace", trace(1), "--workers", "3", "--spread", "nodes")...)
	if !got.same(&want) {
		t.Errorf("with checkpoints it is %+v, want %+v", got, want)
	}
	if after := filesOf(t, store); after != before {
		t.Errorf("the place of the other run's checkpoints has\n%s, want\n%s", after, before)
	}
	if err := os.RemoveAll(store); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct{ at, gone, how string }{
		{"40", "", "--workers 2"},
		{"20", "", "--workers 3 --spread nodes"},
		{"latest", "done/000001.json done/000002.json points/000001-*", "--workers 1"},
		{"latest", "done/* points/000002-*", "--workers 2"},
	} {
		for _, pattern := range strings.Fields(c.gone) {
			files, err := filepath.Glob(filepath.Join(own, pattern))
			if err != nil || len(files) == 0 {
				t.Fatalf("%s: %v, want files", pattern, err)
			}
			for _, f := range files {
				if err := os.Remove(f); err != nil {
					t.Fatal(err)
				}
			}
		}
		got := runSaved(t, kind, append([]string{"resume", own, "--at", c.at, "--transport", "inproc", "--trace",
			trace(i + 2)}, strings.Fields(c.how)...)...)
		if !got.same(&want) {
			t.Errorf("from %s, without %q, it is %+v, want %+v", c.at, c.gone, got, want)
		}
	}
	for i := range 5 {
		if again, err := os.ReadFile(trace(i + 1)); err != nil || !bytes.Equal(again, text) {
			t.Errorf("trace %d: %v, %d bytes, want those of the first, %d bytes", i+1, err, len(again), len(text))
		}
	}
}

// TestVariantsRefused: a state that can't go on is refused by who has it, with its name and the numbers, and the place
// that was to have the variant's checkpoints is as it was.
func TestVariantsRefused(t *testing.T) {
	dir := t.TempDir()
	store, own := filepath.Join(dir, "store"), filepath.Join(dir, "own")
	file := filepath.Join("..", "examples", "shop.yml")
	kind := service.Kind()
	runSaved(t, kind, "run", file, "--horizon", "20", "--transport", "inproc", "--checkpoint-to", store,
		"--checkpoint-at", "10")
	var stdout, stderr bytes.Buffer
	args := []string{"disco-run", "resume", store, "--transport", "inproc", "--checkpoint-to", own, "--set",
		"topology_graph.nodes.servers.web-1.server_resources.ram_mb=300"}
	status, text := Run(args, strings.NewReader(""), &stdout, &stderr, kind), stderr.String()
	if status != ExitUsage || !strings.Contains(text, "web-1") || !strings.Contains(text, "300") {
		t.Errorf("exit status %d: %s, want 2, the server, and what it has", status, text)
	}
	if _, err := os.Lstat(own); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was to have its checkpoints is there (%v):\n%s", err, filesOf(t, own))
	}
}

// TestVariantsSweep: variants side by side, the run as it was in front, and how they differ from it: what is the same
// has no difference, and what is swept is no other than with --set.
func TestVariantsSweep(t *testing.T) {
	dir := t.TempDir()
	store, out := filepath.Join(dir, "store"), filepath.Join(dir, "out")
	file := filepath.Join("..", "examples", "mini.yml")
	kind := service.Kind()
	runSaved(t, kind, "run", file, "--horizon", "60", "--transport", "inproc", "--checkpoint-to", store,
		"--checkpoint-at", "20=warm")
	type table struct {
		Variant *variantRow
		Rows    []struct {
			Point       map[string]json.RawMessage
			TraceHash   string `json:"trace_hash"`
			Differences []struct {
				Name       string
				Difference struct{ Mean, Low, High *float64 }
			}
		}
	}
	swept := func(sweep string) (all table, text string) {
		var stdout, stderr bytes.Buffer
		status := Run([]string{"disco-run", "resume", store, "--at", "warm", "--transport", "inproc", "--replications",
			"4", "--sweep", sweep, "--json", out}, strings.NewReader(""), &stdout, &stderr, kind)
		b, err := os.ReadFile(out)
		if err == nil {
			err = json.Unmarshal(b, &all)
		}
		if status != 0 || err != nil {
			t.Fatalf("exit status %d, %v: %s", status, err, stderr.String())
		}
		return all, stdout.String()
	}
	all, text := swept(cores + "=3,2")
	if len(all.Rows) != 3 || len(all.Rows[0].Point) != 0 || len(all.Rows[0].Differences) != 0 || all.Variant == nil ||
		all.Variant.EpochSeconds != 20 {
		t.Fatalf("rows %+v of %+v, want the run as it was, and two others", all.Rows, all.Variant)
	}
	for _, row := range all.Rows[1:] {
		set := cores + "=" + string(row.Point[cores])
		alone := runSaved(t, kind, "resume", store, "--at", "warm", "--transport", "inproc", "--replications", "4",
			"--set", set)
		if alone.TraceHash != row.TraceHash {
			t.Errorf("%s: hash %s, with --set %s", set, row.TraceHash, alone.TraceHash)
		}
		found := false
		for _, d := range row.Differences {
			if d := d.Difference; d.Mean == nil || d.Low != nil && !(*d.Low <= *d.Mean && *d.Mean <= *d.High) {
				t.Errorf("%s: difference %+v, want a mean inside of its interval", set, d)
			}
			found = found || d.Name == "latency_s.mean" && *d.Difference.High < 0
		}
		if !found {
			t.Errorf("%s: differences %+v, want that latencies are shorter", set, row.Differences)
		}
	}
	for _, want := range []string{"goes on from the checkpoint at 20 s",
		"also about the run that was saved, up to 20 s", "latency_s.mean",
		"differences from the first row, in the mean of 4 replications"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s\nhas no %q", text, want)
		}
	}
	if all, _ = swept(cores + "=2,1"); len(all.Rows) != 2 || string(all.Rows[0].Point[cores]) != "1" {
		t.Errorf("rows %+v, want the one that the run had in front, and the other", all.Rows)
	}
}

const cores = "topology_graph.nodes.servers.server.server_resources.cpu_cores"

// filesOf is what a folder has: names and bytes.
func filesOf(t *testing.T, dir string) string {
	t.Helper()
	all := map[string]int{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			b, errRead := os.ReadFile(path)
			all[path], err = len(b), errRead
		}
		return err
	})
	text, errText := json.MarshalIndent(all, "", " ")
	if err != nil || errText != nil {
		t.Fatal(err, errText)
	}
	return string(text)
}
