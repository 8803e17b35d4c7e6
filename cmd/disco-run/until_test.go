// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/disco-sim/disco/model/modeltest"
)

// untilText is a queue whose mean number in it is skewed over replications.
const untilText = `
model: queueing
horizon: 1500
warmup: 500
stations:
  - { id: a, arrivals: 0.8, service: { distribution: exponential, mean: 1 } }
`

// TestUntilCoverage: the interval with which --until ends a run holds the truth nearly as often as one of a number of
// replications that is given, though it was ended by it (docs/until.md).
func TestUntilCoverage(t *testing.T) {
	bin := build(t, "")
	file := filepath.Join(t.TempDir(), "queue.yml")
	if err := os.WriteFile(file, []byte(untilText), 0o666); err != nil {
		t.Fatal(err)
	}
	modeltest.Coverage(t, func(seed uint64) map[string]modeltest.Covered {
		status, out, failed := command(t, bin, "run", file, "--seed", strconv.FormatUint(seed, 10), "--until",
			"stations.a.in_system ± 10 %", "--transport", "inproc", "--json", "-")
		var d struct {
			Until struct {
				Reached    bool
				Precisions []struct {
					Interval struct{ Mean, Low, High float64 }
				}
			}
		}
		if err := json.Unmarshal([]byte(out), &d); err != nil || status != 0 || !d.Until.Reached ||
			len(d.Until.Precisions) != 1 {
			t.Fatalf("seed %d: exit status %d, %v: %s", seed, status, err, failed)
		}
		i := d.Until.Precisions[0].Interval
		return map[string]modeltest.Covered{"in system": {Low: i.Low, High: i.High, Truth: 0.8 / (1 - 0.8)}}
	})
}
