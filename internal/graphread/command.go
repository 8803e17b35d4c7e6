// SPDX-License-Identifier: Apache-2.0

package graphread

import (
	"context"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/graph/sqldb"
	"github.com/disco-sim/disco/internal/graphproc"
)

// Command is what a run with a graph: section starts to read its database.
func Command() app.Command {
	return app.Command{
		Name: graphproc.Command, Hidden: true,
		Usage:       "is what reads a database for a scenario's graph: section; no command for people",
		Description: "A run, or another command that reads such a scenario, starts it.",
		Run: func(c *app.Call) error {
			control, err := graphproc.Inherit()
			if err != nil {
				return app.Usage("runs of scenarios with a graph: section start this (%v)", err)
			}
			return graphproc.Serve(control, func(ctx context.Context, url string, timeout time.Duration,
				request []byte) ([]byte, error) {
				return Read(sqldb.WatchSilence(ctx, c.Stderr), url, timeout, request)
			})
		},
	}
}
