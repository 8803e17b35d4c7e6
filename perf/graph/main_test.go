// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestUsage(t *testing.T) {
	for _, c := range []struct{ want, args string }{
		{`found "mysql", want some of memory,sqlite`, "-engines mysql"},
		{`found "loads", want some of csr-sorted`, "-rows loads"},
		{"-rounds above 0", "-rounds 0"},
		{"a tenth of all pairs", "-vertices 100 -edges 1001"},
		{"want flags only", "load"},
		{"-json", "-json /no/such/folder/rows.json"},
	} {
		var stderr bytes.Buffer
		status := command(t.Context(), strings.Fields(c.args), io.Discard, &stderr)
		if status != exitUsage || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%s: status %d, %q, want %d and %q", c.args, status, &stderr, exitUsage, c.want)
		}
	}
}

// A row is held against its goal by its median.
func TestGoals(t *testing.T) {
	for _, c := range []struct {
		row     row
		goal    goal
		reached bool
	}{
		{row{Wall: &span{1, 2, 9}}, goal{seconds: 2}, true}, {row{Wall: &span{1, 2.1, 9}}, goal{seconds: 2}, false},
		{row{CPURatio: &span{1, 1.5, 9}}, goal{ratio: 1.5}, true},
		{row{CPURatio: &span{1, 1.6, 9}, Ratio: &span{1, 1, 1}}, goal{ratio: 1.5}, false},
		{row{CPURatio: &span{1, 1.6, 9}, Ratio: &span{1, 1, 1}}, goal{ratio: 1.5, wall: true}, true},
		{row{Bytes: &span{25, 25, 25}}, goal{bytes: 30}, true}, {row{Bytes: &span{31, 31, 31}}, goal{bytes: 30}, false},
	} {
		if c.row.hold(c.goal); *c.row.Reached != c.reached {
			t.Errorf("%+v: reached %v, want %v", c.goal, *c.row.Reached, c.reached)
		}
	}
	if s := spanOf([]float64{3, 1, 2, 9}); *s != (span{1, 2.5, 9}) {
		t.Errorf("found %v", s)
	}
}

// TestMeasure makes all rows, small; both sides of each have found the same edges, or it would be an error.
func TestMeasure(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rows.json")
	var stdout, stderr bytes.Buffer
	args := []string{"-vertices", "1000", "-edges", "9000", "-rounds", "2", "-json", file, "-dir", t.TempDir()}
	if status := command(t.Context(), args, &stdout, &stderr); status != 0 {
		t.Fatalf("status %d: %s%s", status, &stdout, &stderr)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var list []row
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, r := range list {
		if r.Note != "" {
			t.Log("SKIPPED: ", r.Engine, r.Note)
			continue
		}
		seen[r.Bench]++
		if r.Bytes == nil && (r.Wall.Min <= 0 || r.BareWall.Min <= 0 || r.Rounds != 2) ||
			!strings.Contains(stdout.String(), " "+r.Bench+" ") {
			t.Errorf("%+v", r)
		}
	}
	for _, name := range rowNames() {
		if seen[name] == 0 {
			t.Errorf("no row %s among %v", name, seen)
		}
	}
}
