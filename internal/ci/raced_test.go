// SPDX-License-Identifier: Apache-2.0

package ci

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The race detector is for packages that start goroutines, or guard what they share, themselves or in their tests.
func TestRacedScript(t *testing.T) {
	list := func(but ...string) ([]string, error) {
		cmd := exec.Command("sh", append([]string{"internal/ci/raced.sh"}, but...)...)
		cmd.Dir = "../.."
		out, err := cmd.Output()
		return strings.Fields(strings.ReplaceAll(string(out), "github.com/disco-sim/disco/", "")), err
	}
	found, err := list()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"ring", "sim", "node", "fleet", "group", "app", "cluster", "internal/worker",
		"internal/launch", "internal/lane", "internal/bridge", "internal/interleave", "metastore/zk", "perf/chaos"} {
		if !slices.Contains(found, p) {
			t.Errorf("%s isn't among %q", p, found)
		}
	}
	for _, p := range []string{"shard", "envelope", "internal/phi", "internal/report", "internal/docs"} {
		if slices.Contains(found, p) {
			t.Errorf("%s is among %q", p, found)
		}
	}
	found, err = list("/disco/(perf|sim/dist)(/|$)")
	if err != nil || slices.Contains(found, "perf/chaos") || slices.Contains(found, "sim/dist") ||
		!slices.Contains(found, "sim") {
		t.Errorf("without perf and sim/dist: %v, %q", err, found)
	}
}
