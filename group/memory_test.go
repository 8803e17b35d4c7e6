// SPDX-License-Identifier: Apache-2.0

package group

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/memorygroup"
)

// A run over machines whose memory is used up on one of them ends at a checkpoint, and says where: the kernel kills
// nobody.
func TestMemoryOfMachineUsedUp(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute")
	}
	for _, spread := range []string{"nodes", "replications"} {
		t.Run(spread, func(t *testing.T) { usedUp(t, spread) })
	}
}

func usedUp(t *testing.T, spread string) {
	m := startMachines(t, 2)
	defer m.stop(t)
	for _, l := range m.listeners {
		g := memorygroup.New(t)
		g.Add(l.Process.Pid)
		g.Limit(200 << 20)
	}
	file := scenarioFile(t, 2000, "{node: 1, at: 0, how: "+launchtest.Flood+"}")
	store := filepath.Join(t.TempDir(), "store")
	got := runs(t, append([]string{"run", file, "--machines", m.file(t, 2), "--workers", "3", "--checkpoint-to",
		store, "--spread", spread, "--replications", "3"}, generous...)...)
	for _, want := range []string{"memory: the run took ", " on m", "n1/token",
		"goes on where that machine has as much"} {
		if got.status != 1 || !strings.Contains(got.stderr, want) || strings.Contains(got.stderr, "kill") {
			t.Fatalf("%+v, want %q", got, want)
		}
	}
	t.Log(got.stderr)
	good := runs(t, "checkpoints", "verify", store)
	if good.status != 0 || !strings.Contains(good.stdout, ", all as they were written") {
		t.Errorf("%+v, want one that is good", good)
	}
}
