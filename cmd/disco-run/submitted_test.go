// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/submission"
)

// submitted are the examples, with what they are submitted with. TestSubmitted looks for files that aren't here.
var submitted = map[string]string{
	"backbone.yml": "--horizon 1 --replications 2 --warmup 0.5 --records",
	"devstone.yml": "--horizon 2 --replications 2",
	"jackson.yml":  "--horizon 100 --replications 2 --records",
	"md1.yml":      "--horizon 200 --replications 3 --seed 5",
	"mini.yml":     "--horizon 20 --replications 2 --sweep " + cores + "=1,2",
	"phold.yml":    "--horizon 1 --replications 2 --set idle=0.25",
	"shop.yml":     "--horizon 3 --replications 2 --warmup 1 --records",
	"supply.yml":   "--horizon 60 --replications 2 --records",

	"supply-graph.yml": "", // its database is made by a script: internal/graphread: TestSubmission
}

// cores is a field of mini.yml.
const cores = "topology_graph.nodes.servers.server.server_resources.cpu_cores"

// TestSubmitted: for every example, what machines simulate piece by piece, each in a folder with nothing but what was
// submitted, is put together to the same files as those of a run here, but for wall times, workers and the machine.
func TestSubmitted(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates every example, which takes the race detector ten minutes")
	}
	all, err := filepath.Glob("../../examples/*.yml")
	if err != nil || len(all) != len(submitted) {
		t.Fatalf("found %q, %v, want %d examples", all, err, len(submitted))
	}
	for _, path := range all {
		args, known := submitted[filepath.Base(path)]
		if !known {
			t.Errorf("%s isn't among those that are tried", path)
		} else if args != "" {
			t.Run(filepath.Base(path), func(t *testing.T) { submits(t, path, strings.Fields(args)) })
		}
	}
}

// must runs a command well.
func must(t *testing.T, args ...string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	args = append([]string{"disco-run"}, args...)
	if status := app.Run(args, strings.NewReader(""), &stdout, &stderr, kinds()...); status != app.ExitOK {
		t.Fatalf("%q: exit status %d: %s", args, status, stderr.String())
	}
}

// submits compares the files of a run with those of its pieces.
func submits(t *testing.T, path string, args []string) {
	local, merged, into := filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "out"), t.TempDir()
	must(t, slices.Concat([]string{"run", path, "--transport", "inproc", "--out", local}, args)...)
	must(t, slices.Concat([]string{submission.Command, "--" + submission.Into, into, path}, args)...)
	s, err := submission.Read(into)
	if err != nil {
		t.Fatal(err)
	}
	merge := []string{"merge", "--out", merged}
	for _, axis := range s.Sweep {
		merge = append(merge, "--sweep", axis)
	}
	if slices.Contains(s.Args, "--records") {
		merge = append(merge, "--records")
	}
	for _, point := range s.Points {
		for r := range s.Replications {
			folder := t.TempDir()
			unpack(t, folder, s)
			one := []string{"run", filepath.Base(s.File), "--only", strconv.Itoa(r), "--replications",
				strconv.Itoa(s.Replications),
				"--checkpoint-to", filepath.Join(folder, "place"), "--out", filepath.Join(folder, "out"), "--transport",
				"inproc"}
			one = append(one, s.Args...)
			for _, setting := range point {
				one = append(one, "--set", setting)
			}
			t.Chdir(folder)
			must(t, one...)
			merge = append(merge, filepath.Join(folder, "place"))
		}
	}
	must(t, merge...)
	files := entriesOf(t, local)
	if got := entriesOf(t, merged); !slices.Equal(got, files) {
		t.Errorf("found the files %q, want %q", got, files)
	}
	for _, name := range files {
		if table, ok := strings.CutSuffix(name, ".parquet"); ok && slices.Contains(files, table+".csv") {
			continue // it has the same, with times
		}
		want, got := comparable(t, filepath.Join(local, name)), comparable(t, filepath.Join(merged, name))
		if !reflect.DeepEqual(want, got) {
			t.Errorf("%s: found %.3000v\nwant  %.3000v", name, got, want)
		}
	}
}

// unpack puts what was submitted into a folder.
func unpack(t *testing.T, folder string, s *submission.Submission) {
	t.Helper()
	err := os.WriteFile(filepath.Join(folder, filepath.Base(s.File)), s.Text, 0o600)
	for i, name := range s.Files {
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name), s.Attached[i], 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func entriesOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}

// comparable is a file's content, without what is about wall times, workers and the machine, and without folders of
// scenarios.
func comparable(t *testing.T, path string) any {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	switch filepath.Ext(path) {
	case ".json":
		var v any
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(path, err)
		}
		return without(v)
	case ".csv":
		rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
		if err != nil {
			t.Fatal(path, err)
		}
		for _, row := range rows[1:] {
			for i := range row {
				if slices.Contains(ofTheMachine, rows[0][i]) {
					row[i] = ""
				}
			}
		}
		return rows
	}
	return string(text)
}

// ofTheMachine are fields and columns that differ from run to run, or with who was where.
var ofTheMachine = []string{"wall_s", "events_per_s", "setup_s", "per_worker", "phases_s", "phases", "workers",
	"placement", "transport", "checkpoints", "machine", "coupling"}

// repeated is how a run is repeated: of parts the horizon is said, whether it is the scenario's own or not.
var repeated = regexp.MustCompile(`^(disco-run run .*) --horizon \S+`)

// without is a value without these, and without the folder of files.
func without(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if slices.Contains(ofTheMachine, key) {
				delete(v, key)
			} else {
				v[key] = without(value)
			}
		}
	case []any:
		for i := range v {
			v[i] = without(v[i])
		}
	case string:
		v = strings.ReplaceAll(v, "../../examples/", "")
		return repeated.ReplaceAllString(v, "$1")
	}
	return v
}
