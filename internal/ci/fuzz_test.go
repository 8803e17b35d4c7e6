// SPDX-License-Identifier: Apache-2.0

// Package ci tests the scripts beside it, which the Makefile calls.
//
// Guarantee: each script passes where all is well, and fails, or says what it skips, where it isn't.
package ci

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// The script that runs the fuzz targets fails where one has found something, stands
// still, or misses a floor of its own, and says which; and not where all is well.
func TestFuzzScript(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	script, err := filepath.Abs("fuzz.sh")
	if err != nil {
		t.Fatal(err)
	}
	canary, err := os.ReadFile(filepath.Join("testdata", "canary_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := map[string]string{"go.mod": "module canary\n\ngo 1.26\n", "canary_test.go": string(canary)}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(only string) (said string, ok bool) {
		cmd := exec.Command("sh", script)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "FUZZTIME=2s", "FUZZ="+only, "GOFLAGS=")
		out, err := cmd.CombinedOutput()
		return string(out), err == nil
	}
	said, ok := run(".")
	if ok || !strings.Contains(said, "4 targets, 3 failed") {
		t.Errorf("with defects, ok is %v:\n%s", ok, said)
	}
	for target, want := range map[string]string{
		"FuzzDefect": "FOUND", "FuzzStandsStill": "TOO FEW", "FuzzGood": "ok", "FuzzFloorOfItsOwn": "TOO FEW",
	} {
		found := false
		for line := range strings.Lines(said) {
			found = found || strings.Contains(line, " "+target+" ") && strings.HasSuffix(strings.TrimSpace(line), want)
		}
		if !found {
			t.Errorf("%s isn't called %q:\n%s", target, want, said)
		}
	}
	if said, ok := run("FuzzGood"); !ok || !strings.Contains(said, "1 targets, 0 failed") {
		t.Errorf("without a defect, ok is %v:\n%s", ok, said)
	}
	if said, ok := run("NoSuchTarget"); ok || !strings.Contains(said, "no fuzz target") {
		t.Errorf("without a target, ok is %v:\n%s", ok, said)
	}
}
