// SPDX-License-Identifier: Apache-2.0

package app

import (
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/race"
)

// TestMergeWarmup: parts of a run that finds its warm-up find the same one, whichever replications they have, and are
// put together to the run; also where they go by a rule.
func TestMergeWarmup(t *testing.T) {
	if race.Enabled {
		t.Skip("figures of runs one after the other; TestMerge and TestResumeWarmup have the same paths")
	}
	call := partsFolder(t)
	for _, c := range []struct {
		replications string
		parts, until []string
	}{
		{"3", []string{"1", "0", "2"}, nil},
		{"40", []string{"7-39", "0-6"}, []string{"--until", "latency_s.mean ± 50 %"}},
	} {
		run := []string{"run", "mini.yml", "--horizon", "60", "--transport", "inproc", "--warmup", "auto",
			"--replications", c.replications}
		call(ExitOK, slices.Concat(run, c.until, []string{"--json", "whole.json"})...)
		dirs := []string{}
		for _, only := range c.parts {
			dir := c.replications + "-" + only
			out, _ := call(ExitOK, slices.Concat(run, []string{"--only", only, "--checkpoint-to", dir})...)
			if !strings.Contains(out, "warm-up of 7.5 s, by MSER-5") {
				t.Errorf("--only %s: found %.300s, want the warm-up", only, out)
			}
			dirs = append(dirs, dir)
		}
		call(ExitOK, slices.Concat([]string{"merge", "--json", "merged.json"}, c.until, dirs)...)
		whole, merged := fieldsOf(t, "whole.json"), fieldsOf(t, "merged.json")
		for _, name := range []string{"results", "trace_hash", "events", "replications", "set", "warmup"} {
			if string(whole[name]) != string(merged[name]) || len(whole[name]) == 0 {
				t.Errorf("%s: found %.300s, want %.300s", name, merged[name], whole[name])
			}
		}
	}
}

// TestMergeWarmupSweep: the point of a sweep at which the warm-up is found is put together from its parts as any other
// one is, with what was found, whether it is told by its number or by its settings; a part with the same time that was
// given is of another point.
func TestMergeWarmupSweep(t *testing.T) {
	if race.Enabled {
		t.Skip("figures of runs one after the other; TestMerge and TestResumeWarmup have the same paths")
	}
	call := partsFolder(t)
	run := []string{"run", "mini.yml", "--horizon", "60", "--transport", "inproc", "--replications", "2"}
	points := map[string][]string{}
	for _, warmup := range []string{"7.5", "auto", "10"} {
		for _, only := range []string{"0", "1"} {
			dir := warmup + "-" + only
			call(ExitOK, append(run, "--only", only, "--checkpoint-to", dir, "--set", "warmup="+warmup)...)
			points[warmup] = append(points[warmup], dir)
		}
	}
	for _, values := range [][]string{{"7.5", "auto"}, {"auto", "10"}, {"auto", "7.5"}} {
		sweep := "warmup=" + strings.Join(values, ",")
		call(ExitOK, append(run, "--sweep", sweep, "--json", "whole.json")...)
		dirs := slices.Concat(points[values[0]], points[values[1]])
		list := ""
		for i, dir := range dirs {
			list += strconv.Itoa(i/2) + "\t" + dir + "\n"
		}
		if err := os.WriteFile("list", []byte(list), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, parts := range [][]string{{"--parts", "list"}, dirs} {
			call(ExitOK, append([]string{"merge", "--sweep", sweep, "--json", "merged.json"}, parts...)...)
			want, found := sweepRows(t, "whole.json"), sweepRows(t, "merged.json")
			if !reflect.DeepEqual(found, want) {
				t.Errorf("%s of %q: found %.3000v, want %.3000v", sweep, parts, found, want)
			}
		}
	}
	for args, want := range map[string]string{
		"--sweep warmup=7.5,10 auto-0 10-0": "found a part of no point of the sweep",
		"auto-0 7.5-1":                      "auto-0 and 7.5-1 differ in warmup",
	} {
		_, errs := call(ExitUsage, append([]string{"merge"}, strings.Fields(args)...)...)
		if !strings.Contains(errs, want) {
			t.Errorf("merge %s: found %s, want %q", args, errs, want)
		}
	}
}

// TestResumeWarmup: a run that goes on, and one that goes on from it with other settings, say which warm-up was found.
func TestResumeWarmup(t *testing.T) {
	call := partsFolder(t)
	call(ExitOK, "run", "mini.yml", "--horizon", "60", "--transport", "inproc", "--warmup", "auto", "--json",
		"whole.json", "--checkpoint-to", "a", "--checkpoint-at", "40=late")
	want := string(fieldsOf(t, "whole.json")["warmup"])
	resume := []string{"resume", "a", "--transport", "inproc", "--json", "again.json"}
	for _, more := range [][]string{nil, {"--at", "late"},
		{"--at", "late", "--replications", "2", "--checkpoint-to", "b"}} {
		out, _ := call(ExitOK, append(resume, more...)...)
		if found := string(fieldsOf(t, "again.json")["warmup"]); found != want || len(want) == 0 {
			t.Errorf("resume %q: found %s, want %s", more, found, want)
		}
		if !strings.Contains(out, "warm-up of 7.5 s, by MSER-5") {
			t.Errorf("resume %q: found %.400s, want the warm-up", more, out)
		}
	}
	call(ExitOK, "merge", "b", "--json", "again.json")
	if found := string(fieldsOf(t, "again.json")["warmup"]); found != want {
		t.Errorf("merge of a variant: found %s, want %s", found, want)
	}
}
