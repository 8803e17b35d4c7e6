// SPDX-License-Identifier: Apache-2.0

package ci

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A tag changes the tests of packages with such files, and of those that ask what the tag says.
func TestTaggedScript(t *testing.T) {
	list := func(tag string) ([]string, error) {
		cmd := exec.Command("sh", "internal/ci/tagged.sh", tag)
		cmd.Dir = "../.."
		out, err := cmd.Output()
		return strings.Fields(strings.ReplaceAll(string(out), "github.com/disco-sim/disco/", "")), err
	}
	found, err := list("invariants")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"ring", "node", "internal/interleave", "internal/worker", "internal/launch"} {
		if !slices.Contains(found, p) {
			t.Errorf("%s isn't among %q", p, found)
		}
	}
	for _, p := range []string{"app", "internal/certs", "internal/ci", "metastore/mem"} {
		if slices.Contains(found, p) {
			t.Errorf("%s is among %q", p, found)
		}
	}
	if found, err := list("unknown"); err == nil {
		t.Errorf("a tag that no file has gives %q", found)
	}
}
