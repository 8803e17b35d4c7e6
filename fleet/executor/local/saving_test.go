// SPDX-License-Identifier: Apache-2.0

package local

import (
	"strings"
	"testing"

	"github.com/disco-sim/disco/fleet/executor"
)

// TestSaving has each job make checkpoints, by which the next attempt goes on: in a metadata store less often, and none
// that is large. A job that says something of them itself decides.
func TestSaving(t *testing.T) {
	for _, c := range []struct{ place, args, want string }{
		{"/shared/e/0.0.0", "--seed 3", "--checkpoint 1m"},
		{"s3://b/e/0.0.0", "", "--checkpoint 1m"},
		{"etcd://h:2379/g-parts/e/0.0.0", "--seed 3", "--checkpoint 2m --checkpoint-most 4M"},
		{"zk://h:2181/g-parts/e/0.0.0", "", "--checkpoint 2m --checkpoint-most 4M"},
		{"etcd://h:2379/g-parts/e/0.0.0", "--checkpoint-every 5", ""},
		{"/shared/e/0.0.0", "--checkpoint=5s", ""},
	} {
		j := &executor.Job{Place: c.place, Args: strings.Fields(c.args)}
		if got := strings.Join(saving(j), " "); got != c.want {
			t.Errorf("%s, %s: found %q, want %q", c.place, c.args, got, c.want)
		}
	}
	args := strings.Fields("--seed 3 --checkpoint-most 4M --checkpoint=5s --records --set a=b")
	if got := strings.Join(saved(args), " "); got != "--checkpoint-most 4M --checkpoint=5s --records" {
		t.Errorf("resume gets %q", got)
	}
}
