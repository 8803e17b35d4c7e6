// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/inspect"
	"github.com/disco-sim/disco/internal/worker"
)

// stopped is what an interrupted run says.
type stopped struct {
	Results        map[string]any
	PerReplication []struct {
		Reached     float64 `json:"reached_s"`
		Interrupted bool
		Events      uint64
		Activations uint64
		TraceHash   string `json:"trace_hash"`
	} `json:"per_replication"`
	trace []byte
}

// interrupt runs a scenario and sends SIGINT once every worker has handled so many
// events, or lets it end by itself if it is to handle none.
func interrupt(t *testing.T, bin string, events float64, args ...string) *stopped {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace")
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(bin, append([]string{"run", "--json", "-", "--trace", trace}, args...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill() // it has ended, as a rule
	for deadline := time.Now().Add(time.Minute); events > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%v: no %v events within a minute\n%s", cmd.Args, events, stderr.Bytes())
		}
		live, err := inspect.Process(cmd.Process.Pid)
		if err != nil {
			continue
		}
		least := events
		for _, w := range live.Workers {
			least = min(least, w.Number(worker.NumberEvents))
		}
		if least >= events {
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	_ = cmd.Wait() // what it has written tells more than its status
	s := &stopped{}
	if err := json.Unmarshal(stdout.Bytes(), s); err != nil || len(s.PerReplication) != 1 {
		t.Fatalf("%v: %v, %d replications\n%s%s", cmd.Args, err, len(s.PerReplication), stdout.Bytes(), stderr.Bytes())
	}
	var err error
	if s.trace, err = os.ReadFile(trace); err != nil {
		t.Fatal(err)
	}
	return s
}

// differences lists where two results differ, but for fields of the given names.
func differences(path string, a, b any, except []string) (list []string) {
	switch a := a.(type) {
	case map[string]any:
		b, _ := b.(map[string]any)
		for k := range a {
			if !slices.Contains(except, k) {
				list = append(list, differences(path+"."+k, a[k], b[k], except)...)
			}
		}
		if len(a) != len(b) {
			list = append(list, fmt.Sprintf("%s: %d fields, %d", path, len(a), len(b)))
		}
	case []any:
		b, _ := b.([]any)
		if len(a) != len(b) {
			return []string{fmt.Sprintf("%s: %d items, %d", path, len(a), len(b))}
		}
		for i := range a {
			list = append(list, differences(fmt.Sprint(path, ".", i), a[i], b[i], except)...)
		}
	case float64:
		// An edge's requests under way at the end are summed up in another order.
		if b, ok := b.(float64); !ok || a != b &&
			!(strings.HasSuffix(path, "concurrent_mean") && math.Abs(a-b) < 1e-12*a) {
			list = append(list, fmt.Sprintf("%s: %v, %v", path, a, b))
		}
	default:
		if a != b {
			list = append(list, fmt.Sprintf("%s: %v, %v", path, a, b))
		}
	}
	return list
}

// withoutNumbers takes the senders' numbers of events out of a trace.
func withoutNumbers(trace []byte) []byte {
	var out []byte
	for line := range bytes.Lines(trace) {
		fields := bytes.Split(line, []byte("\t"))
		if len(fields) > 3 {
			fields[3] = nil
		}
		out = append(out, bytes.Join(fields, []byte("\t"))...)
	}
	return out
}

// An interrupted run is the beginning of the whole run, up to one simulated time for all
// of its workers; and its results are, to the bit, those of a run with that time for its
// horizon, but for what a kind works out from the horizon itself.
func TestInterruptedIsShorterRun(t *testing.T) {
	bin := build(t, "")
	for _, c := range []struct {
		file    string
		horizon string
		numbers bool     // events have the same numbers, and with them runs the same hash, whatever the horizon
		except  []string // fields of the results that are about the horizon
	}{
		{"phold.yml", "60", true, []string{"end_s", "theory", "interrupted"}},
		{"shop.yml", "60", false, []string{"horizon_s", "to_s", "interrupted"}},
		{"backbone.yml", "2", false, []string{"horizon_s", "to_s", "interrupted"}},
		// Its figures are those of a number of batches from warm-up to horizon.
		{"jackson.yml", "4e5", true, []string{"horizon_s", "interrupted", "batches", "stations", "network"}},
	} {
		file := "../../examples/" + c.file
		whole := interrupt(t, bin, 0, file, "--horizon", c.horizon)
		for _, workers := range []string{"1", "3"} {
			t.Run(c.file+"/"+workers, func(t *testing.T) {
				// In blocks, so that every worker has something: by itself, min-cut gives jackson.yml to one of them.
				spread := []string{file, "--workers", workers, "--partition", "block", "--horizon", c.horizon}
				got := interrupt(t, bin, 3000, spread...)
				at := got.PerReplication[0]
				if lines := bytes.Count(got.trace, []byte("\n")); at.Events < 3000 || lines < 3000 || !at.Interrupted {
					t.Fatalf("%+v, %d lines of trace: nothing to compare", at, lines)
				}
				if !bytes.HasPrefix(whole.trace, got.trace) {
					t.Error("the trace isn't the beginning of the whole one")
				}
				want := interrupt(t, bin, 0, file, "--horizon", strconv.FormatFloat(at.Reached, 'g', -1, 64))
				same := want.PerReplication[0]
				if at.Reached != same.Reached || at.Events != same.Events || at.Activations != same.Activations {
					t.Errorf("interrupted %+v, with that horizon %+v", at, same)
				}
				if c.numbers && (at.TraceHash != same.TraceHash || !bytes.Equal(got.trace, want.trace)) {
					t.Errorf("trace hash %s, with that horizon %s", at.TraceHash, same.TraceHash)
				}
				if !bytes.Equal(withoutNumbers(got.trace), withoutNumbers(want.trace)) {
					t.Errorf("the traces differ: %d and %d bytes", len(got.trace), len(want.trace))
				}
				for _, d := range differences("results", got.Results, want.Results, c.except) {
					t.Error(d)
				}
			})
		}
	}
}
