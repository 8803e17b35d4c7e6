// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"os"
	"time"

	"github.com/disco-sim/disco/internal/graphproc"
	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/disco-sim/disco/scenario"
	"github.com/urfave/cli/v2"
)

// databaseTimeout is how long a database may take to answer the first call.
const databaseTimeout = 30 * time.Second

// databaseFlag is of all commands that read a file of a scenario.
func databaseFlag() cli.Flag {
	return textFlag(groupWhat, "db", "DISCO_DB", "`URL` of the database for the file's graph: section, sqlite:FILE or "+
		"postgres://USER@HOST/DATABASE")
}

// files reads the files of scenarios, and databases, which a process beside this one does. It gives up when cfg.Stop,
// as it is then, asks for an end; nil: nothing asks for one.
func (p *program) files(c *cli.Context, cfg *launch.Config) *scenario.Files {
	if dir := c.String(graphFilesFlag); dir != "" {
		return graphFiles(dir)
	}
	url := cmp.Or(c.String("db"), os.Getenv("DISCO_DB"))
	if url == "" {
		return &scenario.Files{}
	}
	return &scenario.Files{Graph: func(request []byte) ([]byte, error) {
		executable, err := p.beside(graphproc.Command, "read databases")
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		if cfg != nil && cfg.Stop != nil {
			done := make(chan struct{})
			defer close(done)
			go func() {
				select {
				case <-cfg.Stop:
					cancel(errors.New("it was stopped"))
				case <-done:
				}
			}()
		}
		return graphproc.Ask(ctx, graphproc.Config{Executable: executable, URL: url, Timeout: databaseTimeout,
			Log: workerproc.NewLineWriter(p.stderr)}, request)
	}}
}
