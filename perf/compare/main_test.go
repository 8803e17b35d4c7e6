// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/perf/bench"
)

func row(name string, trip bool, lo, mid, hi float64) bench.Row {
	r := bench.Row{Bench: name, PayloadBytes: 64, Limit: "limit", Ratio: &bench.Range{Min: lo, Median: mid, Max: hi}}
	if trip {
		r.RTT = &bench.RTT{P50: 1}
	} else {
		r.RatePerSecond = 1
	}
	return r
}

func TestJudgement(t *testing.T) {
	for _, c := range []struct {
		name     string
		old, now bench.Row
		want     string
		worse    int
	}{
		{"a longer trip", row("a", true, 1, 1.1, 1.2), row("a", true, 1.5, 1.6, 1.7), "WORSE", 1},
		{"a shorter trip", row("a", true, 1.5, 1.6, 1.7), row("a", true, 1, 1.1, 1.2), "better", 0},
		{"a lower rate", row("a", false, .5, .6, .7), row("a", false, .2, .3, .4), "WORSE", 1},
		{"a higher rate", row("a", false, .2, .3, .4), row("a", false, .5, .6, .7), "better", 0},
		{"within the spread", row("a", true, 1, 1.1, 1.6), row("a", true, 1.5, 1.6, 1.7), "~", 0},
		{"within the threshold", row("a", true, 1, 1.01, 1.02), row("a", true, 1.03, 1.04, 1.05), "~", 0},
		{"another row", row("a", true, 1, 1, 1), row("b", true, 1, 1, 1), "MISSING", 1},
	} {
		var out bytes.Buffer
		if worse := compare(&out, []bench.Row{c.old}, []bench.Row{c.now}, 0.1); worse != c.worse ||
			!strings.Contains(out.String(), c.want) {
			t.Errorf("%s: %d worse, want %d and %q:\n%s", c.name, worse, c.worse, c.want, out.String())
		}
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, rows ...bench.Row) string {
		path := filepath.Join(dir, name)
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := bench.WriteJSON(f, rows); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, bad := write("good.json", row("a", true, 1, 1, 1)), write("bad.json", row("a", true, 2, 2, 2))
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{good, good}, 0},
		{[]string{good, bad}, 1},
		{[]string{bad, good}, 0},
		{[]string{good}, 2},
		{[]string{good, filepath.Join(dir, "none.json")}, 2},
		{[]string{"--threshold", "-1", good, good}, 2},
		{[]string{"--nonsense"}, 2},
	} {
		var out, errs bytes.Buffer
		if got := run(c.args, &out, &errs); got != c.want {
			t.Errorf("%q: exit %d, want %d: %s%s", c.args, got, c.want, out.String(), errs.String())
		}
	}
}

// The baselines that come with the project can be read, and have changed in nothing
// against themselves.
func TestBaselines(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "baselines", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no baselines: %v", err)
	}
	for _, f := range files {
		var out, errs bytes.Buffer
		if got := run([]string{f, f}, &out, &errs); got != 0 {
			t.Errorf("%s: exit %d: %s", f, got, errs.String())
		}
	}
}
