// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// TestMergeUntil: of parts a run with --until is put together that is the run, whichever replications there are behind
// the last that counts; where it can't be decided the first that is missing is named.
func TestMergeUntil(t *testing.T) {
	call := partsFolder(t)
	const rule, least = "latency_s.mean ± 0.7 %", 30
	run := []string{"run", "mini.yml", "--horizon", "5", "--transport", "inproc", "--replications", "60"}
	call(ExitOK, append(run, "--until", rule, "--json", "whole.json")...)
	whole := fieldsOf(t, "whole.json")
	n, err := strconv.Atoi(string(whole["replications"]))
	if err != nil || n <= least || n > 50 {
		t.Fatalf("found %d replications, want more than %d and at most 50: %v", n, least, err)
	}
	part := func(only, dir string) { call(ExitOK, append(run, "--only", only, "--checkpoint-to", dir)...) }
	part(fmt.Sprintf("0-%d", n-2), "a")
	part(fmt.Sprint(n-1), "last")
	part(fmt.Sprintf("%d-%d", n+3, n+5), "behind")
	for _, dirs := range [][]string{{"a", "last"}, {"behind", "last", "a"}} {
		call(ExitOK, append([]string{"merge", "--until", rule, "--json", "merged.json"}, dirs...)...)
		merged := fieldsOf(t, "merged.json")
		for _, name := range []string{"results", "trace_hash", "figures", "events", "replications", "ended", "until",
			"interrupted", "seed", "horizon_s"} {
			if string(whole[name]) != string(merged[name]) || len(whole[name]) == 0 {
				t.Errorf("%v: %s: found %.300s, want %.300s", dirs, name, merged[name], whole[name])
			}
		}
	}
	for _, c := range []struct {
		status int
		want   string
		args   []string
	}{
		{ExitFailed, fmt.Sprintf("the first %d replications of at most 60, and replication %d is missing", n-1, n-1),
			[]string{"a", "behind", "--until", rule}},
		{ExitFailed, "replication 0 is missing", []string{"last", "--until", rule}},
		{ExitUsage, "no figure zebra", []string{"a", "--until", "zebra ± 2 %"}},
		{ExitUsage, "found it with --partial", []string{"a", "--partial", "--until", rule}},
	} {
		if _, errs := call(c.status, append([]string{"merge"}, c.args...)...); !strings.Contains(errs, c.want) {
			t.Errorf("merge %q: found %s, want %q", c.args, errs, c.want)
		}
	}
}

// TestFigure: a replication that is simulated alone says in its JSON what it comes to in figures that are named, in the
// bits that --until would go by, and which it doesn't have.
func TestFigure(t *testing.T) {
	call := partsFolder(t)
	run := []string{"run", "mini.yml", "--horizon", "5", "--transport", "inproc", "--replications", "3"}
	call(ExitOK, append(run, "--json", "whole.json")...)
	all := figuresIn(t, "whole.json")
	figures := []string{"--figure", "latency_s.p99", "--figure", "throughput_rps", "--figure", "zebra"}
	call(ExitOK, append(append(run, "--only", "1", "--checkpoint-to", "a", "--json", "one.json"), figures...)...)
	call(ExitOK, append([]string{"resume", "a", "--transport", "inproc", "--json", "again.json"}, figures...)...)
	for _, file := range []string{"one.json", "again.json"} {
		found := figuresIn(t, file)
		if len(found) < 2 || len(found) > 6 {
			t.Errorf("%s: found the figures %v", file, found)
		}
		for name, values := range found {
			if len(values) != 1 || len(all[name]) != 3 || values[0] != all[name][1] {
				t.Errorf("%s: %s: found %v, want one: the second of %v", file, name, values, all[name])
			}
		}
		var lacks []string
		if err := json.Unmarshal(fieldsOf(t, file)["no_figures"], &lacks); err != nil || len(lacks) != 1 ||
			!strings.Contains(lacks[0], "no figure zebra") {
			t.Errorf("%s: found %q (%v), want one text about zebra", file, lacks, err)
		}
	}
}

func figuresIn(t *testing.T, file string) map[string][]figureValue {
	t.Helper()
	var rows []figureRow
	if err := json.Unmarshal(fieldsOf(t, file)["figures"], &rows); err != nil {
		t.Fatal(file, err)
	}
	all := map[string][]figureValue{}
	for _, row := range rows {
		all[row.Name] = row.Values
	}
	return all
}
