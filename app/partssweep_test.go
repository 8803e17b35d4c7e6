// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// sweepRows reads the JSON of a sweep, without what is about workers and wall times.
func sweepRows(t *testing.T, name string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for _, row := range all["rows"].([]any) {
		row := row.(map[string]any)
		for _, of := range [][]any{{row}, row["per_replication"].([]any)} {
			for _, one := range of {
				for _, name := range []string{"wall_s", "events_per_s", "setup_s", "per_worker", "phases_s", "phases",
					"workers", "placement", "transport", "coupling"} {
					delete(one.(map[string]any), name)
				}
			}
		}
	}
	return all
}

// TestMergeSweep: the parts of a sweep's points are put together to the sweep: its JSON but for workers and wall times.
func TestMergeSweep(t *testing.T) {
	call := partsFolder(t)
	const key = "rqs_input.avg_active_users.mean"
	sweep := []string{"--sweep", key + "=10,20", "--sweep", "rqs_input.user_sampling_window=20,30"}
	run := []string{"run", "mini.yml", "--horizon", "40", "--transport", "inproc", "--replications", "3",
		"--seed", "5"}
	call(ExitOK, append(append([]string{}, run...), append(sweep, "--json", "whole.json", "--out", "whole.d")...)...)
	var dirs []string
	for _, users := range []string{"10", "20"} {
		for _, window := range []string{"20", "30"} {
			for _, only := range []string{"0", "1-2"} {
				dir := strings.Join([]string{"p", users, window, only}, "-")
				call(ExitOK, append(append([]string{}, run...), "--only", only, "--checkpoint-to", dir, "--set",
					key+"="+users, "--set", "rqs_input.user_sampling_window="+window)...)
				dirs = append([]string{dir}, dirs...)
			}
		}
	}
	merge := append([]string{"merge", "--json", "merged.json", "--out", "merged.d"}, sweep...)
	out, _ := call(ExitOK, append(merge, dirs...)...)
	if !strings.Contains(out, "latency_s.mean") {
		t.Errorf("found %s, want a table", out)
	}
	sameFiles(t, "whole.d/scenario.yml", "merged.d/scenario.yml")
	if a, b := sweepRows(t, "whole.json"), sweepRows(t, "merged.json"); !reflect.DeepEqual(a, b) {
		want, _ := json.MarshalIndent(a, "", " ")
		found, _ := json.MarshalIndent(b, "", " ")
		t.Errorf("found %.3000s, want %.3000s", found, want)
	}
	if _, errs := call(ExitFailed, append(merge, dirs[1:]...)...); !strings.Contains(errs, "are missing") {
		t.Errorf("found %s, want which replications are missing", errs)
	}
	if _, errs := call(ExitFailed, append(merge, dirs[2:]...)...); !strings.Contains(errs, "no parts of the point") {
		t.Errorf("found %s, want which point is missing", errs)
	}
	call(ExitOK, append(append(merge, "--partial"), dirs[3:]...)...)
	if rows := sweepRows(t, "merged.json")["rows"].([]any); len(rows) != 3 {
		t.Errorf("found %d rows of 3 points that have parts", len(rows))
	}
	call(ExitUsage, append([]string{"merge", "--sweep", key + "=10,30"}, dirs...)...)
}

// TestMergeList: a list of parts may say of which points they are, and a part may be listed many times; a point that is
// another one is refused, and so is a list of nothing.
func TestMergeList(t *testing.T) {
	call := partsFolder(t)
	run := []string{"run", "mini.yml", "--horizon", "10", "--transport", "inproc", "--replications", "2"}
	const key = "rqs_input.avg_active_users.mean"
	var list strings.Builder
	for point, users := range []string{"10", "20"} {
		for _, only := range []string{"0", "1"} {
			dir := "p-" + users + "-" + only
			call(ExitOK, append(append([]string{}, run...), "--only", only, "--checkpoint-to", dir, "--set",
				key+"="+users)...)
			list.WriteString(strings.Repeat(fmt.Sprintf("%d\t%s\n", point, dir), 500))
		}
	}
	merge := func(want int, text string) (errs string) {
		t.Helper()
		if err := os.WriteFile("list", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, errs = call(want, "merge", "--parts", "list", "--sweep", key+"=10,20", "--json", "merged.json")
		return errs
	}
	call(ExitOK, append(append([]string{}, run...), "--sweep", key+"=10,20", "--json", "whole.json")...)
	merge(ExitOK, list.String())
	if a, b := sweepRows(t, "whole.json"), sweepRows(t, "merged.json"); !reflect.DeepEqual(a, b) {
		t.Errorf("found %.3000v, want %.3000v", b, a)
	}
	for text, want := range map[string]string{
		"1\tp-10-0\n0\tp-20-0\n": "found a part of another point than",
		"2\tp-10-0\n":            "found a part of no point of the sweep",
		"\n":                     "found an empty argument",
	} {
		if errs := merge(ExitUsage, text); !strings.Contains(errs, want) {
			t.Errorf("%q: found %s, want %q", text, errs, want)
		}
	}
}
