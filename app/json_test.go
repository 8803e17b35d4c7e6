// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/model/network"
	"github.com/disco-sim/disco/model/service"
)

// promised are the names of the JSON output, in their order.
var promised = []string{
	"scenario", "seed", "replications", "workers", "transport", "horizon_s", "events",
	"wall_s", "events_per_s", "trace_hash", "results",
}

// runJSON runs the program on a scenario and returns standard output.
func runJSON(t *testing.T, text string, args ...string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "scenario.yml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	args = append([]string{"disco-run", "run", file, "--transport", "inproc"}, args...)
	if !slices.Contains(args, "--json") {
		args = append(args, "--json", "-")
	}
	if status := Run(args, strings.NewReader(""), &stdout, &stderr, service.Kind(),
		launchtest.Kind()); status != ExitOK {
		t.Fatalf("exit status %d: %s", status, stderr.String())
	}
	return stdout.Bytes()
}

// Standard output is one object, and its first fields are the promised ones in their
// order.
func TestJSON(t *testing.T) {
	text := runJSON(t, launchtest.Scenario(4, 5, ""), "--workers", "2", "--seed", "7", "--replications", "3",
		"--processors", "3")
	dec := json.NewDecoder(bytes.NewReader(text))
	expect := func(want json.Token) {
		t.Helper()
		if got, err := dec.Token(); err != nil || got != want {
			t.Fatalf("found %v (%v), want %v", got, err, want)
		}
	}
	expect(json.Delim('{'))
	got := map[string]any{}
	for _, name := range promised {
		expect(name)
		var v any
		if err := dec.Decode(&v); err != nil {
			t.Fatal(err)
		}
		got[name] = v
	}
	for dec.More() { // further fields are allowed
		name, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := dec.Decode(&v); err != nil {
			t.Fatal(err)
		}
		got[fmt.Sprint(name)] = v
	}
	expect(json.Delim('}'))
	if dec.More() {
		t.Error("something follows the object")
	}
	for name, want := range map[string]any{
		"scenario": "tiny", "seed": 7.0, "replications": 3.0, "workers": 2.0, "transport": "inproc", "horizon_s": 5.0,
		"processors": 3.0,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if events, ok := got["events"].(float64); !ok || events < 100 {
		t.Errorf("events is %v", got["events"])
	}
	if hash, ok := got["trace_hash"].(string); !ok || len(hash) != 32 {
		t.Errorf("trace_hash is %v", got["trace_hash"])
	}
}

// The results of a service scenario have the names that are promised for them.
func TestServiceJSON(t *testing.T) {
	text, err := os.ReadFile("../examples/mini.yml")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Results struct {
			Generated  *float64                  `json:"requests_generated"`
			Completed  *float64                  `json:"requests_completed"`
			Dropped    *float64                  `json:"requests_dropped"`
			Throughput *float64                  `json:"throughput_rps"`
			Latency    map[string]any            `json:"latency_s"`
			Servers    map[string]map[string]any `json:"servers"`
		} `json:"results"`
	}
	if err := json.Unmarshal(runJSON(t, string(text), "--horizon", "60"), &d); err != nil {
		t.Fatal(err)
	}
	r := d.Results
	for name, v := range map[string]*float64{"requests_generated": r.Generated, "requests_completed": r.Completed,
		"requests_dropped": r.Dropped, "throughput_rps": r.Throughput} {
		if v == nil {
			t.Errorf("results.%s is missing", name)
		}
	}
	for _, name := range []string{"mean", "p50", "p95", "p99", "min", "max"} {
		if v, ok := r.Latency[name].(float64); !ok || v <= 0 {
			t.Errorf("results.latency_s.%s is %v", name, r.Latency[name])
		}
	}
	if len(r.Servers) != 1 {
		t.Errorf("results.servers is %v", r.Servers)
	}
}

// The file of --json holds what standard output would.
func TestJSONFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.json")
	if out := runJSONTo(t, path); out == "" {
		t.Error("nothing for people on standard output")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(text, &d); err != nil || d.Scenario != "tiny" || d.Ended != "horizon" {
		t.Errorf("%+v, %v", d, err)
	}
}

func runJSONTo(t *testing.T, path string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	args := []string{"disco-run", "run", "-", "--transport", "inproc", "--json", path}
	if status := Run(args, strings.NewReader(launchtest.Scenario(4, 5, "")), &stdout, &stderr,
		launchtest.Kind()); status != ExitOK {
		t.Fatalf("exit status %d: %s", status, stderr.String())
	}
	return stdout.String()
}

// A sweep's JSON has a row for every point with everything that one run's has, and its
// CSV the same numbers.
func TestSweepOutputs(t *testing.T) {
	text := runJSON(t, launchtest.Scenario(4, 5, ""), "--sweep", "nodes=2,4", "--sweep", "horizon=3,5")
	var d struct {
		Points int
		Rows   []struct {
			Point     map[string]float64
			Events    uint64
			Horizon   float64 `json:"horizon_s"`
			TraceHash string  `json:"trace_hash"`
			Results   struct{ Handled uint64 }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if d.Points != 4 || len(d.Rows) != 4 {
		t.Fatalf("%d points, %d rows, want 4", d.Points, len(d.Rows))
	}
	csvText := runJSON(t, launchtest.Scenario(4, 5, ""), "--sweep", "nodes=2,4", "--sweep", "horizon=3,5", "--json",
		os.DevNull, "--csv", "-")
	rows, err := csv.NewReader(bytes.NewReader(csvText)).ReadAll()
	if err != nil || len(rows) != 5 {
		t.Fatalf("%d lines of CSV (%v), want a heading and 4", len(rows), err)
	}
	column := func(name string) int {
		i := slices.Index(rows[0], name)
		if i < 0 {
			t.Fatalf("the CSV has no column %s: %q", name, rows[0])
		}
		return i
	}
	for i, r := range d.Rows {
		want := []float64{2, 3, 2, 5, 4, 3, 4, 5}[2*i : 2*i+2]
		line := rows[i+1]
		if r.Point["nodes"] != want[0] || r.Point["horizon"] != want[1] || r.Horizon != want[1] ||
			r.Results.Handled != r.Events {
			t.Errorf("row %d: %+v, want nodes and horizon %v", i, r, want)
		}
		if line[column("events")] != fmt.Sprint(r.Events) || line[column("handled")] != fmt.Sprint(r.Results.Handled) ||
			line[column("trace_hash")] != r.TraceHash || line[column("nodes")] != fmt.Sprint(want[0]) {
			t.Errorf("line %d of the CSV: %q, want %+v", i, line, r)
		}
	}
	// A point is the same as a file with its values.
	alone := runJSON(t, launchtest.Scenario(2, 5, ""))
	if !bytes.Contains(alone, []byte(d.Rows[1].TraceHash)) {
		t.Errorf("nodes=2 horizon=5 has the trace hash %s, but a file with these values has another one",
			d.Rows[1].TraceHash)
	}
}

// TestFilesAreReadOnce: a sweep and a comparison prepare their scenario several times, and
// read the files that it refers to once: a pipe can't be read twice.
func TestFilesAreReadOnce(t *testing.T) {
	gml, err := os.ReadFile("../model/network/testdata/net.gml")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--sweep", "links.buffer_packets=5,6"}, {"--workers", "2", "--compare"}} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, _ = w.Write(gml) // who doesn't read it complains
			_ = w.Close()
		}()
		text := fmt.Sprintf("model: network\nhorizon: 0.1\ntopology: /dev/fd/%d\nlinks: {}\n"+
			"traffic: { matrix: uniform, packets_per_second: 1000 }\n", r.Fd())
		var stdout, stderr bytes.Buffer
		args = append([]string{"disco-run", "run", "-", "--transport", "inproc"}, args...)
		status := Run(args, strings.NewReader(text), &stdout, &stderr, network.Kind())
		if status != ExitOK {
			t.Errorf("%v: exit status %d: %s", args, status, stderr.String())
		}
		_ = r.Close()
	}
}
