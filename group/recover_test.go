// SPDX-License-Identifier: Apache-2.0

package group

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	running "github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// TestRecoverOverMachines: a run with --recover goes on over what is left when a worker, the process that joins the
// machines, or a whole machine ends or isn't heard any more, and ends with the trace hash of one that was left alone.
func TestRecoverOverMachines(t *testing.T) {
	file := scenarioFile(t, 150, "{node: 1, at: 0, how: "+launchtest.Slow+"}")
	want := results(t, file, "--seed", "7")
	for _, c := range []struct {
		who     string
		signal  syscall.Signal
		workers int    // with which it goes on, of 4
		lost    string // the machine without which it does
	}{
		{"worker", syscall.SIGKILL, 3, ""},
		{"child", syscall.SIGKILL, 4, ""},
		{"machine", syscall.SIGKILL, 2, "m1"},
		{"machine", syscall.SIGSTOP, 2, "m1"},
		{"agent", syscall.SIGTERM, 2, "m1"},
	} {
		t.Run(c.who+" "+c.signal.String(), func(t *testing.T) {
			dir, m := t.TempDir(), startMachines(t, 2)
			out := filepath.Join(dir, "out.json")
			cmd, _, stderr := command("run", file, "--seed", "7", "--machines", m.file(t, 2), "--crash-dir",
				"none", "--insecure", "--connect-timeout", "10s", "--peer-timeout", "2s", "--reconnect-window", "2s",
				"--recover", "3", "--checkpoint-to", filepath.Join(dir, "store"), "--checkpoint-every", "1",
				"--json", out)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			underWay(t, m)
			await(t, "a checkpoint", func() bool {
				points, _ := filepath.Glob(filepath.Join(dir, "store", "points", "*.json"))
				return len(points) > 0
			})
			agent := m.listeners[1].Process.Pid
			bridge := bridgesOf(t, agent)[0]
			workers := bridgesOf(t, bridge)
			pids := map[string][]int{"child": bridgesOf(t, cmd.Process.Pid), "worker": workers[:1], "agent": {agent},
				"machine": append(workers, bridge, agent)}[c.who]
			for _, pid := range slices.Backward(pids) {
				if err := syscall.Kill(pid, c.signal); err != nil {
					t.Fatal(err)
				}
			}
			defer func() { // of a machine that is stopped nobody else makes an end
				for _, pid := range pids {
					_ = syscall.Kill(pid, syscall.SIGCONT)
				}
				m.stop(t)
			}()
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v: %s", err, stderr)
			}
			var got struct {
				shownResults
				Recoveries []running.Recovery `json:"recoveries"`
			}
			text, err := os.ReadFile(out)
			if err == nil {
				err = json.Unmarshal(text, &got)
			}
			if err != nil || got.Hash != want.Hash || len(got.Recoveries) == 0 {
				t.Fatalf("%v: found %+v, want hash %s; it says\n%s", err, got, want.Hash, stderr)
			}
			if r := got.Recoveries[0]; r.Workers != c.workers || r.Lost != c.lost || !(r.From > 0) ||
				!strings.Contains(stderr.String(), "goes on from ") {
				t.Errorf("found %+v, want %d workers, %q lost; it says\n%s", r, c.workers, c.lost, stderr)
			}
			t.Logf("%+v", got.Recoveries)
			left := []int{0, 1}
			if c.lost != "" {
				left = left[:1]
			}
			m.free(t, left...)
		})
	}
}
