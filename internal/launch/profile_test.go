// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// Each worker leaves a profile, which is there when the run has ended; one that was killed leaves none, nor what stood
// there before changed.
func TestProfiles(t *testing.T) {
	for _, c := range []struct {
		transport, trouble string
		want               []bool // by worker: there is a profile
	}{
		{TransportShm, "", []bool{true, true}},
		{TransportShm, trouble(2, 3, launchtest.Fail), []bool{true, true}},
		{TransportShm, trouble(2, 3, launchtest.Kill), []bool{true, false}},
		{away, "", []bool{true, true}},
		{away, trouble(2, 3, launchtest.Kill), []bool{true, false}},
		{TransportInproc, "", []bool{true, false}}, // one of the whole process
	} {
		dir := t.TempDir()
		cfg := config(c.transport, 2, launchtest.Scenario(4, 50, c.trouble))
		cfg.Profiles = dir
		before := []byte("before")
		for w := range c.want {
			if err := os.WriteFile(filepath.Join(dir, profileName(w)), before, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := run(t, cfg); (err != nil) != (c.trouble != "") {
			t.Errorf("%+v: %v", c, err)
		}
		for w, want := range c.want {
			got, err := os.ReadFile(filepath.Join(dir, profileName(w)))
			if want && !bytes.HasPrefix(got, []byte{0x1f, 0x8b}) || !want && !bytes.Equal(got, before) {
				t.Errorf("%+v: worker %d has left %.20q (%v), want a profile: %v", c, w, got, err, want)
			}
		}
	}
	nothingLeft(t, t.TempDir())
}
