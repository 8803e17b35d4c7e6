// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/model/service"
)

// TestCheckpointMost leaves checkpoints out that would write more than they may: that is said, and is no failure, since
// it was asked for; results, and the end of the replication, are there. So is a part of a run (--only), of which a
// machine of the fleet makes one.
func TestCheckpointMost(t *testing.T) {
	kind, file := service.Kind(), filepath.Join("..", "examples", "mini.yml")
	want := runSaved(t, kind, "run", file, "--horizon", "60", "--transport", "inproc")
	for _, more := range [][]string{nil, {"--only", "0"}} {
		store := filepath.Join(t.TempDir(), "store")
		args := append([]string{"disco-run", "run", file, "--horizon", "60", "--transport", "inproc", "--checkpoint-to",
			store, "--checkpoint-at", "20", "--checkpoint-at", "40", "--checkpoint-most", "100"}, more...)
		var out, stderr bytes.Buffer
		status := Run(args, strings.NewReader(""), &out, &stderr, kind)
		if status != 0 || !strings.Contains(stderr.String(), "one may write at most 100 here") ||
			!strings.Contains(out.String(), want.TraceHash) {
			t.Errorf("%q: exit status %d: %s\n%s", more, status, &stderr, &out)
		}
		if ends, err := filepath.Glob(filepath.Join(store, "done", "*")); err != nil || len(ends) != 1 {
			t.Errorf("%q: found the ends %v, %v, want one", more, ends, err)
		}
	}
}
