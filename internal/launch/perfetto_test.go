// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// What workers were at is written however they run, and of a run that fails before any worker has told it the file
// stays as it is.
func TestPerfetto(t *testing.T) {
	for _, c := range []struct {
		transport, trouble, spread string
		want                       []string
	}{
		{TransportShm, "", SpreadNodes, []string{"worker 0, process ", "worker 1, process ", "handling", "replication",
			"CLOCK_MONOTONIC", "events/s", "merged spans"}},
		{TransportShm, "", SpreadReplications, []string{"worker ", ", process ", "handling"}},
		{away, "", SpreadNodes, []string{"worker 0", "worker 1", " on ", "that machine's own", "handling"}},
		{TransportInproc, "", SpreadNodes, []string{"worker 0", "worker 1", "handling"}},
		{TransportInproc, trouble(2, 3, launchtest.Fail), SpreadNodes, nil},
	} {
		path := filepath.Join(t.TempDir(), "trace")
		if err := os.WriteFile(path, []byte("before"), 0o644); err != nil {
			t.Fatal(err)
		}
		cfg := config(c.transport, 2, launchtest.Scenario(4, 50, c.trouble))
		cfg.Perfetto, cfg.Spread, cfg.Replications = path, c.spread, 2
		if c.spread == SpreadReplications {
			cfg.Pins, cfg.Partition = nil, ""
		}
		if _, err := run(t, cfg); (err != nil) != (c.trouble != "") {
			t.Errorf("%+v: %v", c, err)
		}
		got, err := os.ReadFile(path)
		if err != nil || c.want == nil != (string(got) == "before") {
			t.Errorf("%+v: %v, %d bytes", c, err, len(got))
		}
		for _, want := range c.want {
			if !strings.Contains(string(got), want) {
				t.Errorf("%+v: %q isn't in the file", c, want)
			}
		}
	}
	cfg := config(TransportInproc, 1, launchtest.Scenario(4, 50, ""))
	cfg.Perfetto = filepath.Join(t.TempDir(), "no", "trace")
	if _, err := run(t, cfg); err == nil || !strings.Contains(err.Error(), "trace-perfetto: ") {
		t.Errorf("a folder that isn't there: %v", err)
	}
	cfg.Perfetto = "/dev/full"
	if _, err := run(t, cfg); err == nil || !strings.Contains(err.Error(), "launch: trace for Perfetto: ") {
		t.Errorf("a device that is full: %v", err)
	}
}
