// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/fleet/executor"
	"github.com/disco-sim/disco/fleet/executor/local"
	"github.com/disco-sim/disco/fleet/executor/remote"
	"github.com/urfave/cli/v2"
)

// The values of --executor.
const (
	executorLocal = "local"
	executorSSH   = "ssh"
	executorSlurm = "slurm"
)

// remoteFlags are those of an agent whose experiments are simulated by other machines.
func remoteFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "hosts", Usage: "`FILE` with a line MACHINE SLOTS for each machine of --executor ssh"},
		&cli.StringFlag{Name: "slurm-args", Usage: "`ARGS` of srun, for --executor slurm: --partition=short --time=60"},
		&cli.StringFlag{Name: "host-command", Value: "disco-group host",
			Usage: "`COMMAND` that takes pieces on machines of --executor ssh and slurm, with its arguments"},
	}
}

// executorOnly are the flags that only some executors have.
var executorOnly = map[string][]string{"work": {executorLocal}, "hosts": {executorSSH}, "slurm-args": {executorSlurm},
	"host-command": {executorSSH, executorSlurm}}

// checkRemote refuses flags that don't go with an executor.
func checkRemote(c *app.Call, name string) error {
	for _, flag := range []string{"work", "hosts", "slurm-args", "host-command"} {
		if of := executorOnly[flag]; c.IsSet(flag) && !slices.Contains(of, name) {
			return app.Usage("--%s: found --executor %s, want %s: no other one has it", flag, name,
				strings.Join(of, " or "))
		}
	}
	if name == executorLocal {
		return nil
	}
	if len(strings.Fields(c.String("host-command"))) == 0 {
		return app.Usage("--host-command: found no command, want one such as disco-group host")
	}
	if name == executorSlurm {
		return nil
	}
	machines, err := machinesOf(c)
	if err != nil {
		return err
	}
	all := 0
	for _, m := range machines {
		all += m.Slots
	}
	if c.Int("slots") > all {
		return app.Usage("--slots: found %d, want at most the %d of all machines of %s", c.Int("slots"), all,
			c.String("hosts"))
	}
	return nil
}

// machinesOf are the machines of --hosts.
func machinesOf(c *app.Call) ([]remote.Machine, error) {
	if c.String("hosts") == "" {
		return nil, app.Usage("--executor ssh: found no --hosts, want a file with lines MACHINE SLOTS")
	}
	machines, err := remote.ReadMachines(c.String("hosts"))
	if err != nil {
		return nil, app.Usage("--hosts: %v", err)
	}
	return remote.SSH(machines, nil, strings.Fields(c.String("host-command"))), nil
}

// hostVersion is what an agent and its hosts have in common: this program, and the one with the models.
func hostVersion(c *app.Call) (path, version string, err error) {
	f, digest, err := program(c)
	if err != nil {
		return "", "", err
	}
	return f.Name(), app.Version() + ", program " + hex.EncodeToString(digest[:8]), f.Close()
}

// openExecutor opens the executor that was asked for.
func openExecutor(ctx context.Context, c *app.Call, lo local.Options, report func(error)) (executor.Executor, error) {
	name := c.String("executor")
	if name == executorLocal {
		return local.Open(ctx, lo)
	}
	_, version, err := hostVersion(c)
	if err != nil {
		return nil, err
	}
	// Names are a group's own, and groups a store's: an agent of another store must not end this one's hosts.
	o := remote.Options{Owner: storeURL(c) + " " + lo.Owner, Version: version, Fetch: lo.Fetch, Grace: lo.Grace,
		Report: func(text string) { report(errors.New(text)) }}
	if name == executorSSH {
		if o.Machines, err = machinesOf(c); err != nil {
			return nil, err
		}
	} else {
		o.Slots = c.Int("slots")
		o.Scheduler = remote.Slurm{Args: strings.Fields(c.String("slurm-args")),
			Host: strings.Fields(c.String("host-command"))}
	}
	e, err := remote.Open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("--executor %s: %w", name, err)
	}
	return e, nil
}
