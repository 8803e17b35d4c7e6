// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/graph/frame/parquetfile"
	"github.com/disco-sim/disco/internal/race"
	"github.com/disco-sim/disco/model/network"
	"github.com/disco-sim/disco/model/phold"
	"github.com/disco-sim/disco/model/queueing"
	"github.com/disco-sim/disco/model/service"
	"github.com/disco-sim/disco/model/supply"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/sim"
)

// recorded are runs whose records are looked at.
var recorded = []struct {
	name string
	kind scenario.Kind
	args string
	at   string // of a checkpoint
}{
	{"service", service.Kind(), "../../examples/mini.yml --horizon 60 --set rqs_input.avg_active_users.mean=90", "20"},
	{"network", network.Kind(), "../../examples/backbone.yml --horizon 14 --set traffic.bits_per_second=1e6", "12"},
	{"queueing", queueing.Kind(), "../../examples/jackson.yml --horizon 400 --warmup 0 --set stations.0.buffer=1",
		"100"},
	{"supply", supply.Kind(), "../../examples/supply.yml --horizon 16", "8"},
	{"sim", sim.Kind("till", till), "till.yml", "20"},
}

// runRecorded runs a command, and returns its records and its JSON.
func runRecorded(t *testing.T, kind scenario.Kind, args ...string) (records []byte, text map[string]any) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "out")
	args = append(append([]string{"disco-run"}, args...), "--transport", "inproc", "--out", dir)
	var stdout, stderr bytes.Buffer
	if status := app.Run(args, strings.NewReader(""), &stdout, &stderr, kind); status != app.ExitOK {
		t.Fatalf("%v: exit status %d: %s", args, status, stderr.String())
	}
	records, err := os.ReadFile(filepath.Join(dir, "records.parquet"))
	if err != nil && slices.Contains(args, "--records") {
		t.Fatal(err)
	}
	result, err := os.ReadFile(filepath.Join(dir, "result.json"))
	if err == nil {
		err = json.Unmarshal(result, &text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return records, text
}

// TestRecords: the records of each kind are the same, to the byte, with any number of workers, with nodes that move,
// from a checkpoint; a run that is recorded handles the same events as one that isn't; and there is a row for all that
// results have counted.
func TestRecords(t *testing.T) {
	if testing.Short() || race.Enabled {
		t.Skip("simulates every kind several times")
	}
	for _, c := range recorded {
		t.Run(c.name, func(t *testing.T) {
			run := append([]string{"run"}, strings.Fields(c.args)...)
			if c.name == "sim" {
				run[1] = filepath.Join(t.TempDir(), run[1])
				if err := os.WriteFile(run[1], []byte("model: till\nhorizon: 40\n"), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			with := func(more ...string) []string { return append(append(slices.Clone(run), "--records"), more...) }
			none, plain := runRecorded(t, c.kind, append(slices.Clone(run), "--replications", "2")...)
			want, text := runRecorded(t, c.kind, with("--replications", "2")...)
			if none != nil || plain["trace_hash"] != text["trace_hash"] {
				t.Errorf("recording has changed what is handled: trace hashes %v and %v; %d bytes without --records",
					plain["trace_hash"], text["trace_hash"], len(none))
			}
			for _, how := range []string{
				"--workers 2 --spread nodes --partition round-robin",
				"--workers 3 --spread nodes --processors 3", "--workers 2 --spread replications",
				"--workers 2 --spread nodes --partition round-robin --rebalance 5 --shards 3 --legs " + c.at,
			} {
				if got, _ := runRecorded(t, c.kind, with(append(strings.Fields(how), "--replications",
					"2")...)...); !bytes.Equal(got, want) {
					t.Errorf("%s: records differ: %d and %d bytes", how, len(got), len(want))
				}
			}
			compareRecords(t, c.name, want, text)
			store := filepath.Join(t.TempDir(), "store")
			one, _ := runRecorded(t, c.kind, with("--checkpoint-at", c.at+"=there", "--checkpoint-to", store)...)
			args := []string{"resume", store, "--at", "there", "--records"}
			if got, _ := runRecorded(t, c.kind, append(args, "--workers", "2")...); !bytes.Equal(got, one) {
				t.Errorf("resumed: records differ: %d and %d bytes", len(got), len(one))
			}
			if got, _ := runRecorded(t, c.kind, "resume", store, "--records"); !bytes.Equal(got, one) {
				t.Errorf("resumed when it had ended: records differ: %d and %d bytes", len(got), len(one))
			}
		})
	}
}

// outcomes reads how many rows have each text in a column, and how many there are.
func outcomes(t *testing.T, file []byte, column string) (rows int, counts map[string]int) {
	t.Helper()
	r, err := parquetfile.Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	counts = map[string]int{}
	err = r.Read([]string{column}, func(b arrow.RecordBatch) error {
		texts := b.Column(0).(*array.String)
		for i := range texts.Len() {
			counts[texts.Value(i)]++
		}
		rows += texts.Len()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows, counts
}

// compareRecords holds the rows of two replications against the results.
func compareRecords(t *testing.T, name string, file []byte, text map[string]any) {
	t.Helper()
	results := text["results"].(map[string]any)
	number := func(path string) int {
		at := any(results)
		for _, step := range strings.Split(path, ".") {
			at = at.(map[string]any)[step]
		}
		return int(at.(float64))
	}
	column := "outcome"
	if name == "sim" {
		column = "statistic"
	}
	rows, got := outcomes(t, file, column)
	want := map[string]int{}
	switch name {
	case "service":
		want = map[string]int{"completed": number("requests_completed"), "dropped": number("requests_dropped"),
			"in_flight": number("requests_in_flight")}
	case "network":
		want = map[string]int{"delivered": number("packets_delivered"), "in_flight": number("packets_in_flight"),
			"full_buffer": number("lost.full_buffer"), "outage": number("lost.outage"),
			"no_route": number("lost.no_route"), "random": number("lost.random")}
	case "sim":
		want["wait"] = int(results["statistics"].(map[string]any)["till/wait"].(map[string]any)["count"].(float64))
	}
	for outcome, n := range want {
		if got[outcome] != n {
			t.Errorf("found %d rows with %s, want %d", got[outcome], outcome, n)
		}
	}
	if rows < 100 || len(got) < 1 {
		t.Errorf("found %d rows: %v", rows, got)
	}
	t.Logf("%d rows: %v", rows, got)
}

// TestRecordsRefused: what --records doesn't go with.
func TestRecordsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	for args, want := range map[string]string{
		"--records":                            "--records: found it without --out",
		"--records --out DIR --sweep lps=8,16": "found it with --sweep",
		"--records --out DIR --compare --workers 2 --horizon 1": "found it with --compare",
		"--records --out DIR --horizon 1":                       "whose kind records nothing",
	} {
		var stdout, stderr bytes.Buffer
		all := append([]string{"disco-run", "run", "../../examples/phold.yml", "--transport", "inproc"},
			strings.Fields(strings.ReplaceAll(args, "DIR", dir))...)
		if status := app.Run(all, strings.NewReader(""), &stdout, &stderr, phold.Kind()); status != app.ExitUsage ||
			!strings.Contains(stderr.String(), want) {
			t.Errorf("%s: exit status %d: %s", args, status, stderr.String())
		}
	}
}
