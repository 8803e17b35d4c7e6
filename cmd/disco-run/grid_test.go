// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// programs are those that were built already, by their tags. A test has its own file of it: what lasts for all of them
// would count as left behind.
var programs = map[string][]byte{}

// build makes the program, plain or checked, and returns its path. Tests that have it built are for the plain build
// only: beside the checked build or the race detector they would run the same program once more.
func build(t *testing.T, tags string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the program")
	}
	bin := filepath.Join(t.TempDir(), "disco-run")
	if text, ok := programs[tags]; ok {
		if err := os.WriteFile(bin, text, 0o777); err != nil {
			t.Fatal(err)
		}
		return bin
	}
	cmd := exec.Command("go", "build", "-buildvcs=false", "-tags", tags, "-o", bin, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	text, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	programs[tags] = text
	return bin
}

// outcome is what may not depend on how a scenario was spread.
type outcome struct {
	Scenario     string
	Seed         uint64
	Replications int
	Horizon      float64 `json:"horizon_s"`
	Events       uint64
	TraceHash    string `json:"trace_hash"`
	Results      any
	trace        string
}

func (o *outcome) String() string { return fmt.Sprintf("%d events, hash %s", o.Events, o.TraceHash) }

// run runs the program and takes its answer.
func run(t *testing.T, bin string, args ...string) *outcome {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace")
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(bin, append([]string{"run", "--json", "-", "--trace", trace}, args...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, stderr.Bytes())
	}
	var o outcome
	if err := json.Unmarshal(stdout.Bytes(), &o); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, stdout.Bytes())
	}
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	o.trace = string(text)
	return &o
}

// The same file and seed give the same events, hash, results and trace with 1 to 4
// workers, as processes and as goroutines, with rings so small that they wrap and fill
// all the time and with large ones, in the plain and in the checked build.
func TestGrid(t *testing.T) {
	files := map[string][]string{
		"../../examples/shop.yml":                         {"--horizon", "20"},
		"../../../shared/data/asyncflow/event_inj_lb.yml": {"--horizon", "60", "--replications", "2"},
	}
	builds := []string{"", "invariants"}
	transports := []string{"shm", "inproc"}
	rings := [][]string{{"--ring-bytes", "1K", "--batch", "3"}, {"--ring-bytes", "1M"}}
	bins := map[string]string{}
	for _, tags := range builds {
		bins[tags] = build(t, tags)
	}
	for file, args := range files {
		if _, err := os.Stat(file); err != nil {
			t.Logf("SKIPPED: %s is not here", file)
			continue
		}
		var want *outcome
		for _, tags := range builds {
			for i, transport := range transports {
				for j, ring := range rings {
					for workers := 1; workers <= 4; workers++ {
						if tags == "" && (i+j+workers)%2 > 0 { // any two of them meet
							continue
						}
						// The checked build guards the memory of every event with two system calls.
						if tags != "" && (workers != 3 || ring[1] == "1M") {
							continue
						}
						all := append([]string{file, "--seed", "7", "--workers", fmt.Sprint(workers), "--transport",
							transport}, append(ring, args...)...)
						got := run(t, bins[tags], all...)
						if want == nil {
							want = got
							if got.Events < 1000 || strings.Count(got.trace, "\n") < 1000 || got.Results == nil {
								t.Fatalf("%v: %v and %d lines of trace: too little to compare", all, got,
									strings.Count(got.trace, "\n"))
							}
						}
						if !reflect.DeepEqual(got, want) {
							t.Errorf("build %q, %v: %v; want %v", tags, all, got, want)
						}
					}
				}
			}
		}
		other := run(t, bins[""], append([]string{file, "--seed", "8"}, args...)...)
		if other.TraceHash == want.TraceHash {
			t.Errorf("%s: seeds 7 and 8 have the same trace hash %s", file, want.TraceHash)
		}
	}
}
