// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// No example is suspected of anything by verify: its runs agree, and no line of its source is shown.
func TestVerifyExamples(t *testing.T) {
	horizons := map[string]string{"backbone": "0.05", "devstone": "0.5", "phold": "0.5", "shop": "1", "jackson": "2000",
		"md1": "50", "supply": "60"}
	files, err := filepath.Glob("../../examples/*.yml")
	if err != nil || len(files) < 5 {
		t.Fatal(err, files)
	}
	disco := build(t, "")
	t.Setenv("DISCO_DB", exampleGraph(t, disco)) // for those that take something of a database
	for _, file := range files {
		verified(t, disco, file, horizons[strings.TrimSuffix(filepath.Base(file), ".yml")])
	}
	folders, err := filepath.Glob("../../examples/simpy/*/main.go")
	if err != nil || len(folders) < 7 {
		t.Fatal(err, folders)
	}
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin, "../../examples/simpy/...").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, file := range folders {
		folder := filepath.Dir(file)
		name := filepath.Base(folder)
		verified(t, filepath.Join(bin, name), filepath.Join(folder, name+".yml"), "")
	}
}

// exampleGraph makes the database that examples/supply-graph.yml is about, and the program beside disco-run that reads
// it.
func exampleGraph(t *testing.T, disco string) (url string) {
	t.Helper()
	dir := t.TempDir()
	url = "sqlite:" + filepath.Join(dir, "graph.db")
	for _, command := range [][]string{
		{"go", "build", "-buildvcs=false", "-o", filepath.Dir(disco), "../disco-graph"},
		{"sh", "../../examples/supply-graph.sh", dir},
		{disco, "graph", "init", "--db", url},
		{disco, "graph", "import", "base", "--db", url, "--vertices", filepath.Join(dir, "vertices.csv"), "--edges",
			filepath.Join(dir, "edges.csv"), "--labels", filepath.Join(dir, "labels.csv")},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", command, err, out)
		}
	}
	return url
}

// verify takes a model's flags. Where a model never gets past one epoch it ends, with what is done there.
func TestVerifyFlags(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	const folder = "../../examples/simpy/station"
	file, station := folder+"/station.yml", filepath.Join(t.TempDir(), "station")
	if out, err := exec.Command("go", "build", "-o", station, folder).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	hash := func(args ...string) string {
		args = append([]string{"verify", file, "--horizon", "500"}, args...)
		out, err := exec.Command(station, args...).CombinedOutput()
		lines := strings.Split(string(out), "\n")
		if err != nil || len(lines) < 3 || !strings.Contains(string(out), "runs agree") {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return strings.Fields(lines[2])[0]
	}
	if plain, more := hash(), hash("--gap", "40", "--tank", "300"); plain == more {
		t.Errorf("the flags have changed nothing: trace hash %s", plain)
	}
	out, err := exec.Command(station, "verify", file, "--check", "0", "--epoch_limit", "1000").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 ||
		!strings.Contains(string(out), "station, at 0 s: 1000 things were done at this one time") {
		t.Errorf("%v\n%s", err, out)
	}
}

// verified fails where verify finds anything.
func verified(t *testing.T, program, file, horizon string) {
	args := []string{"verify", file}
	if horizon != "" {
		args = append(args, "--horizon", horizon)
	}
	out, err := exec.Command(program, args...).CombinedOutput()
	if text := string(out); err != nil || !strings.Contains(text, "runs agree") || strings.Contains(text, "look at") {
		t.Errorf("%s: %v\n%s", file, err, out)
	}
}
