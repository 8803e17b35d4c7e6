// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"
	"strings"
	"testing"
)

// TestMergeWarmup: parts of a run that finds its warm-up find the same one, whichever replications they have, and are
// put together to the run; also where they go by a rule.
func TestMergeWarmup(t *testing.T) {
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
		for _, name := range []string{"results", "trace_hash", "events", "replications", "set"} {
			if string(whole[name]) != string(merged[name]) || len(whole[name]) == 0 {
				t.Errorf("%s: found %.300s, want %.300s", name, merged[name], whole[name])
			}
		}
	}
}
