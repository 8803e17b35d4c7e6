// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
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
