// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/submission"
	"github.com/disco-sim/disco/model/network"
	"github.com/disco-sim/disco/model/phold"
)

// checkSubmission is what submit starts: the exit status, and what it said.
func checkSubmission(t *testing.T, dir string, args ...string) (status int, said string) {
	t.Helper()
	var out, errs bytes.Buffer
	args = append([]string{"disco-run", submission.Command, "--" + submission.Into, dir}, args...)
	status = Run(args, strings.NewReader(""), &out, &errs, phold.Kind(), network.Kind())
	return status, out.String() + errs.String()
}

// The files that a scenario refers to are handed over with it, and each point is checked.
func TestSubmissionWithFiles(t *testing.T) {
	folder, into := t.TempDir(), t.TempDir()
	const name = "backbone.gml"
	example, err := os.ReadFile("../examples/backbone.yml")
	graph, errGraph := os.ReadFile("../examples/" + name)
	if err != nil || errGraph != nil {
		t.Fatal(err, errGraph)
	}
	file := filepath.Join(folder, "net.yml")
	write := func(path string, data []byte) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(file, example)
	write(filepath.Join(folder, name), graph)
	status, said := checkSubmission(t, into, "--replications", "3", "--seed", "0x10", "--set",
		"topology=backbone.gml", "--sweep", "horizon=1,2", "--workers", "2", file)
	if status != 0 {
		t.Fatalf("status %d: %s", status, said)
	}
	s, err := submission.Read(into)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintln(s.File, s.Args, s.Sweep, s.Points, s.Replications, s.Workers, s.Files)
	want := file + " [--set topology=backbone.gml --seed 16] [horizon=1,2] [[horizon=1] [horizon=2]] 3 2 " +
		"[backbone.gml]\n"
	if got != want || !bytes.Equal(s.Text, example) || len(s.Attached) != 1 || !bytes.Equal(s.Attached[0], graph) {
		t.Errorf("found %s, want %s", got, want)
	}
	outside := filepath.Join(folder, "below", "net.yml")
	write(outside, bytes.ReplaceAll(example, []byte(name), []byte("../"+name)))
	status, said = checkSubmission(t, t.TempDir(), outside)
	if status != ExitUsage || !strings.Contains(said, "below it") || !strings.Contains(said, "../"+name) {
		t.Errorf("status %d: %s", status, said)
	}
	status, said = checkSubmission(t, t.TempDir(), "--sweep", "horizon=1,-1", file)
	if status != ExitUsage || !strings.Contains(said, "horizon") {
		t.Errorf("status %d: %s", status, said)
	}
}

// A scenario from standard input is named so, and not as a file could be.
func TestSubmissionFromInput(t *testing.T) {
	into := t.TempDir()
	var out, errs bytes.Buffer
	status := Run([]string{"disco-run", submission.Command, "--" + submission.Into, into, "--", "-"},
		strings.NewReader("model: phold\n"), &out, &errs, phold.Kind())
	s, err := submission.Read(into)
	if status != ExitOK || err != nil || s.File != "-" || string(s.Text) != "model: phold\n" {
		t.Errorf("found %+v, %v, status %d: %s", s, err, status, errs.String())
	}
	const pipe = "/dev/fd/63" // that submit has read
	into, text := t.TempDir(), "model: phold\n"
	args := []string{"disco-run", submission.Command, "--" + submission.Into, into, "--" + submission.Named, pipe}
	status = Run(append(args, "--", "-"), strings.NewReader(text), &out, &errs, phold.Kind())
	s, err = submission.Read(into)
	if status != ExitOK || err != nil || s.File != pipe || string(s.Text) != text {
		t.Errorf("found %+v, %v, status %d: %s", s, err, status, errs.String())
	}
	status = Run(append(args, "--", "-"), strings.NewReader("model: ["), &out, &errs, phold.Kind())
	if status != ExitUsage || !strings.Contains(errs.String(), pipe+":") {
		t.Errorf("status %d: %s", status, errs.String())
	}
}

// It is no command for people.
func TestSubmissionAlone(t *testing.T) {
	var out, errs bytes.Buffer
	status := Run([]string{"disco-run", submission.Command, "x.yml"}, strings.NewReader(""), &out, &errs, phold.Kind())
	if status != ExitUsage || !strings.Contains(errs.String(), "use `disco-run submit FILE`") {
		t.Errorf("status %d: %s", status, errs.String())
	}
}

// What --until and --figure ask for is handed over as it was written, with how many replications there may be.
func TestSubmissionUntil(t *testing.T) {
	into := t.TempDir()
	const file = "../examples/phold.yml"
	status, said := checkSubmission(t, into, "--until", "handled+-2%", "--until", "x ± 3", "--figure", "y", file)
	s, err := submission.Read(into)
	if err != nil || status != 0 {
		t.Fatal(status, err, said)
	}
	if got, want := fmt.Sprintf("%q %q %d", s.Until, s.Figures, s.Replications),
		`["handled+-2%" "x ± 3"] ["y"] 1000`; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	for _, bad := range [][]string{{"--until", "handled ± 0"}, {"--until", "x ± 1", "--replications", "7"},
		{"--until", "x ± 1", "--sweep", "horizon=1,2"}} {
		if status, said := checkSubmission(t, t.TempDir(), append(bad, file)...); status != ExitUsage ||
			!strings.Contains(said, "--until: found ") {
			t.Errorf("%q: status %d: %s", bad, status, said)
		}
	}
}

// Records of a sweep are refused before anything is simulated: `results` refuses them, too.
func TestSubmissionRecordsOfSweep(t *testing.T) {
	const file = "../examples/phold.yml"
	status, said := checkSubmission(t, t.TempDir(), "--records", "--sweep", "end=1,2", file)
	if status != ExitUsage || !strings.Contains(said, "--records goes with one run: found it with --sweep") {
		t.Errorf("status %d: %s", status, said)
	}
}

// What no step can export is refused before anything is simulated, and the list of what can be has only that.
func TestSubmissionExports(t *testing.T) {
	const file = "../examples/phold.yml"
	for name, want := range map[string]string{"ended": "says how the run was simulated", "workers": "want a figure",
		"tuning": "want a figure", "results": "want a figure", "replications": "want a figure",
		"wall_s": "isn't the same on each machine", "trace_hash": "", "events": "", "horizon_s": "", "any": ""} {
		status, said := checkSubmission(t, t.TempDir(), "--export", name, file)
		if want == "" && status != 0 || want != "" && (status != ExitUsage || !strings.Contains(said, want)) {
			t.Errorf("%s: status %d: %s, want %q", name, status, said, want)
		}
	}
	row := &sweepRow{document: &document{}, cells: []cell{{name: "events", text: "7", number: true},
		{name: "wall_s", text: "1", number: true}, {name: "events_per_s", text: "7", number: true},
		{name: "trace_hash", text: "ab"}, {name: "handled", text: "3", number: true},
		{name: "handled.low", text: "2", number: true}}}
	err := row.export([]string{"nothing_like_it"})
	if err == nil || !strings.Contains(err.Error(), "there are events, trace_hash, handled") ||
		strings.Contains(err.Error(), "wall_s") || strings.Contains(err.Error(), "low") {
		t.Errorf("found %v", err)
	}
	for name, want := range map[string]any{"handled": 3.0, "trace_hash": "ab"} {
		if err := row.export([]string{name}); err != nil || row.Exports[name] != want {
			t.Errorf("%s: found %v, %v, want %v", name, row.Exports[name], err, want)
		}
	}
}

// Of a model whose handlers can't be saved only ends are kept, and people are told so; nothing of the try stays.
func TestSubmissionNotSaved(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	file := filepath.Join(t.TempDir(), "mute.yml")
	if err := os.WriteFile(file, []byte("model: mute\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	into := t.TempDir()
	status := Run([]string{"disco-run", submission.Command, "--" + submission.Into, into, file},
		strings.NewReader(""), &out, &errs, mute())
	for _, want := range []string{"what is lost of it begins anew",
		"a/main: its handler, a app.muteHandler, can't be saved"} {
		if status != ExitOK || !strings.Contains(errs.String(), want) {
			t.Errorf("exit status %d, want 0: %s, want %q", status, errs.String(), want)
		}
	}
	if s, err := submission.Read(into); err != nil || !slices.Contains(s.Args, submission.EndsOnly) {
		t.Errorf("found %+v, %v", s, err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("found %v, %v left behind", left, err)
	}
}
