// SPDX-License-Identifier: Apache-2.0

package group

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/procfs"
)

// marked are the processes of runs of agents with folders below dir.
func marked(t *testing.T, dir string) (pids []int) {
	t.Helper()
	all, err := procfs.Processes()
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range all {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
		if err == nil && strings.Contains(string(text), "DISCO_FLEET_WORK="+dir) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestFleetFails: a model's error is final at once, and tells what and where; nothing else of the experiment is hurt.
func TestFleetFails(t *testing.T) {
	h := openByHand(t)
	h.agent("h1", selfProgram(t))
	id := h.submit(launchtest.Scenario(6, 25, "{node: 2, at: 1, how: panic}"), "", 1, "", []string{})
	for {
		e, err := h.client.Show(h.ctx, id)
		h.must(err)
		if e.Ended() {
			s := e.Standing
			if s.Status != fleet.StatusFailed || len(s.Errors) != 1 || s.Errors[0].Attempt != 1 ||
				s.Errors[0].Error.Type != fleet.ErrorModel || s.Errors[0].Error.Where != "h1" {
				t.Errorf("found %+v", s)
			}
			break
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-h.ctx.Done():
			h.Fatalf("it doesn't end: %+v", e.Standing)
		}
	}
	h.must(h.view.Await(h.ctx, func() bool {
		s, ok := h.view.Server("h1-0")
		return ok && s.State == cluster.Available
	}))
}
