// SPDX-License-Identifier: Apache-2.0

package app

import (
	"reflect"
	"strings"
	"testing"
)

// TestVariantParts: variants whose replications go on apart are put together to those that go on together; parts of
// variants and of the run, or of two variants, are no one run's.
func TestVariantParts(t *testing.T) {
	call := partsFolder(t)
	call(ExitOK, "run", "mini.yml", "--horizon", "40", "--transport", "inproc", "--checkpoint-to", "run",
		"--checkpoint-at", "20=w")
	resume := func(more ...string) []string {
		return append([]string{"resume", "run", "--at", "w", "--transport", "inproc", "--replications", "2"}, more...)
	}
	sweep := []string{"--sweep", cores + "=2,3"}
	for _, n := range []string{"2", "3"} {
		for _, one := range []string{"0", "1"} {
			call(ExitOK, resume("--set", cores+"="+n, "--only", one, "--checkpoint-to", "p"+n+one)...)
		}
	}
	call(ExitOK, resume(append(sweep, "--json", "whole.json")...)...)
	call(ExitOK, append([]string{"merge", "p20", "p21", "p30", "p31", "--json", "merged.json"}, sweep...)...)
	whole, merged := sweepRows(t, "whole.json")["rows"].([]any)[1:], sweepRows(t, "merged.json")["rows"].([]any)
	for i, row := range merged { // the first one of all is the base, without differences
		want, found := whole[i].(map[string]any), row.(map[string]any)
		delete(want, "differences")
		from := found["variant"].(map[string]any)
		if from["run"] != want["variant"].(map[string]any)["run"] || from["epoch_s"] != 20.0 {
			t.Errorf("found %v, want %v", from, want["variant"])
		}
		delete(want, "variant")
		delete(found, "variant")
		if !reflect.DeepEqual(want, found) {
			t.Errorf("found %.2000v\nwant  %.2000v", found, want)
		}
	}
	for _, dirs := range [][]string{{"p20", "run"}, {"p20", "p31"}} {
		if _, errs := call(ExitUsage, append([]string{"merge"}, dirs...)...); !strings.Contains(errs, "of two runs") {
			t.Errorf("%q: found %s", dirs, errs)
		}
	}
	if _, errs := call(ExitUsage, "resume", "run", "--only", "0"); !strings.Contains(errs, "--only: found it without") {
		t.Errorf("found %s", errs)
	}
}
