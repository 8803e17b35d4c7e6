// SPDX-License-Identifier: Apache-2.0

package group

import (
	"cmp"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/fleet/executor/remote"
	"github.com/disco-sim/disco/internal/groupcall"
	"github.com/urfave/cli/v2"
)

// hostCommandName is what an agent of the fleet starts on other machines.
const hostCommandName = "host"

func hostCommand() app.Command {
	return app.Command{
		Name: hostCommandName, Hidden: true,
		Usage: "is what an agent of the fleet starts on other machines; no command for people",
		Description: "It simulates what the agent asks for, over standard input and output, until they are closed,\n" +
			"nothing comes from the agent any more, or a signal comes. Then its runs end at checkpoints.",
		Flags: []cli.Flag{groupcall.ProgramFlag(), &cli.StringFlag{Name: "work",
			Usage: "`FOLDER` for scenarios and what runs write; one of the user's cache if not given"}},
		Run: runHost,
	}
}

// runHost is the process of a host.
func runHost(c *app.Call) error {
	if c.NArg() > 0 {
		return app.Usage("found the argument %q, want none: an agent of the fleet starts this", c.Args().First())
	}
	path, version, err := hostVersion(c)
	if err != nil {
		return err
	}
	ctx, undo := c.Interruptible()
	defer undo()
	return remote.ServeStandard(ctx, remote.HostOptions{Program: path, Version: version,
		Work: cmp.Or(c.String("work"), remote.HostWork())})
}
