// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestUsage(t *testing.T) {
	for _, c := range []struct{ want, args string }{
		{`found "etcd5", want some of etcd,etcd3,zk,zk3`, "-engines etcd,etcd5"},
		{`found "puts", want some of put,get`, "-rows puts"},
		{"above 0", "-rounds 0"},
		{"above 0", "-watches -1"},
		{`found "x", want numbers of 1 to 4096`, "-callers 1,x"},
		{`found "0"`, "-callers 0"},
		{"want flags only", "put"},
		{"-json", "-json /no/such/folder/rows.json"},
	} {
		var stderr bytes.Buffer
		status := command(t.Context(), strings.Fields(c.args), io.Discard, &stderr)
		if status != exitUsage || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%s: status %d, %q, want %d and %q", c.args, status, &stderr, exitUsage, c.want)
		}
	}
}

// A row's figures are those of its rounds, and its goal is held against the median.
func TestRow(t *testing.T) {
	e := &engine{kind: "zk", servers: 3}
	r := newRow(e, []figure{{"put", "calls/s", 8, 10}, {"put", "calls/s", 30, 10}, {"put", "calls/s", 10, 10}})
	if *r.Ours != (span{8, 10, 30}) || *r.Bare != (span{10, 10, 10}) || *r.Ratio != (span{0.8, 1, 3}) || !*r.Reached {
		t.Errorf("%+v: %v %v %v", r, r.Ours, r.Bare, r.Ratio)
	}
	for _, c := range []struct {
		f       figure
		reached bool
	}{
		{figure{"put", "calls/s", 8.9, 10}, false}, {figure{"put", "calls/s", 9, 10}, true},
		{figure{"put", "calls/s", 9, 0}, false}, // nothing to hold it against
		{figure{"watch-update", "B", 21, 10}, false}, {figure{"watch-update", "B", 20, 10}, true},
		{figure{"view", "ms", 1001, 1}, false}, {figure{"view", "ms", 1000, 1}, true},
	} {
		if r := newRow(e, []figure{c.f}); *r.Reached != c.reached {
			t.Errorf("%+v: reached %v", c.f, *r.Reached)
		}
	}
	if r := newRow(e, []figure{{"queue-in", "items/s", 1, 2}}); r.Reached != nil || r.Goal != "" {
		t.Errorf("a row without a goal: %+v", r)
	}
}

// Two sides get the same number of calls, and the faster one the higher rate.
func TestRates(t *testing.T) {
	var calls [2]int
	mine := func(int) error { calls[0]++; return nil }
	fast, slow, err := rates(100*time.Microsecond, 1, true, mine, func(int) error {
		calls[1]++
		time.Sleep(50 * time.Microsecond)
		return nil
	})
	if err != nil || calls[0] != calls[1] || fast <= slow {
		t.Errorf("%v calls, %v and %v a second, %v", calls, fast, slow, err)
	}
	broken := errors.New("broken")
	if _, _, err := rates(time.Second, 3, false, func(int) error { return broken },
		func(int) error { return nil }); !errors.Is(err, broken) {
		t.Errorf("%v, want the side's error", err)
	}
}

// wantRows are the rows of an engine with one server.
var wantRows = []string{"get", "get-16", "leader-change", "put", "put-16", "queue-in", "queue-out", "updates",
	"updates-8", "updates-seen", "view", "watch-goroutines", "watch-memory", "watch-setup", "watch-update"}

// TestMeasure makes all rows of each engine with one server, small and quick.
func TestMeasure(t *testing.T) {
	for _, engine := range []string{"etcd", "zk"} {
		t.Run(engine, func(t *testing.T) {
			if testing.Short() && engine == "zk" {
				t.Skip("SKIPPED: one engine is enough for a short look")
			}
			file := filepath.Join(t.TempDir(), "rows.json")
			var stdout, stderr bytes.Buffer
			args := []string{"-engines", engine, "-rounds", "1", "-time", "1ms", "-watches", "5", "-servers", "12",
				"-json", file}
			if status := command(t.Context(), args, &stdout, &stderr); status != 0 {
				t.Fatalf("status %d: %s%s", status, &stdout, &stderr)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var rows []row
			if err := json.Unmarshal(text, &rows); err != nil {
				t.Fatal(err)
			}
			if len(rows) == 1 && rows[0].Note != "" {
				t.Skip("SKIPPED: ", stderr.String())
			}
			var names []string
			for _, r := range rows {
				names = append(names, r.Bench)
				if r.Ours == nil || r.Ours.Min <= 0 && r.Bench != "watch-memory" || r.Rounds != 1 || r.Servers != 1 ||
					!strings.Contains(stdout.String(), " "+r.Bench+" ") {
					t.Errorf("%+v", r)
				}
			}
			want := wantRows
			if engine == "etcd" {
				want = append([]string{"put-guarantee", "put-guarantee-16"}, want...)
			}
			slices.Sort(names)
			if slices.Sort(want); !slices.Equal(names, want) {
				t.Errorf("rows %v, want %v", names, want)
			}
		})
	}
}
