// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/disco-sim/disco/app"
	fleetagent "github.com/disco-sim/disco/fleet/agent"
)

// gangRuns are the runs of a host whose slots are servers of the fleet.
type gangRuns struct {
	host  *hosting
	leave time.Duration // that a run has to end by itself: its launcher makes a checkpoint, and then ends it
}

var _ fleetagent.Runs = (*gangRuns)(nil)

// leaveMore is how long a run may take to end here beside the grace of its launcher.
const leaveMore = 5 * time.Second

// End implements agent.Runs.
func (g *gangRuns) End(ctx context.Context, name string) error {
	late := time.NewTimer(g.leave)
	defer late.Stop()
	for {
		_, known, changed := g.host.book.Serving(name)
		if !known {
			return nil
		}
		select {
		case <-changed:
		case <-late.C:
			g.host.quitRun(name, "the servers of the attempt were taken back")
			late.Reset(time.Second) // one that was only starting is found then
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// quitRun ends the run of a name, if it is here.
func (h *hosting) quitRun(name, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.works {
		if w.offer.Name == name {
			w.quit(reason)
		}
	}
}

// joinFlags are the flags of runs that this agent begins over several machines, with others of its group.
func joinFlags(c *app.Call) ([]string, error) {
	flags := []string{"--group", c.String("group"), "--connect-timeout", gangConnectTimeout.String()}
	if dir := c.String("tls-dir"); dir != "" {
		dir, err := filepath.Abs(dir)
		if err != nil {
			return nil, fmt.Errorf("--tls-dir: %w", err)
		}
		flags = append(flags, "--tls-dir", dir)
	}
	for range c.Count("insecure") {
		flags = append(flags, "--insecure")
	}
	return flags, nil
}

// gangConnectTimeout is how long each step of the start of an attempt over several machines may take. Nobody waits for
// it at a screen, and the machines may be busy.
const gangConnectTimeout = 30 * time.Second
