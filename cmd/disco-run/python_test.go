// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"os"
	"os/exec"
	"testing"

	"github.com/disco-sim/disco/internal/race"
)

// TestPython runs the tests of the Python package, where Python 3.9 or later and pandas are installed (DISCO_PYTHON
// names a Python that has them).
func TestPython(t *testing.T) {
	if testing.Short() || race.Enabled {
		t.Skip("it starts some 15 runs")
	}
	python := cmp.Or(os.Getenv("DISCO_PYTHON"), "python3")
	check := exec.Command(python, "-c", "import sys, pandas; sys.exit(sys.version_info < (3, 9))")
	if out, err := check.CombinedOutput(); err != nil {
		t.Skipf("the package in python/ isn't tested: %s: %v: want Python 3.9 or later with pandas\n%s", python, err,
			out)
	}
	bin := build(t, "")
	cmd := exec.Command(python, "-B", "-m", "unittest", "discover", "-s", "../../python/tests", "-t", "../../python")
	cmd.Env = append(os.Environ(), "DISCO_RUN="+bin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
