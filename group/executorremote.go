// SPDX-License-Identifier: Apache-2.0

package group

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/fleet/executor"
	"github.com/disco-sim/disco/fleet/executor/local"
	"github.com/disco-sim/disco/fleet/executor/remote"
	"github.com/disco-sim/disco/internal/groupcall"
	"github.com/disco-sim/disco/internal/infile"
	"github.com/urfave/cli/v2"
)

// The values of --executor.
const (
	executorLocal      = "local"
	executorSSH        = "ssh"
	executorSlurm      = "slurm"
	executorKubernetes = "kubernetes"
)

// remoteFlags are those of an agent whose experiments are simulated by other machines.
func remoteFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "hosts", Usage: "`FILE` with a line MACHINE SLOTS for each machine of --executor ssh"},
		&cli.StringFlag{Name: "slurm-args", Usage: "`ARGS` of srun, for --executor slurm: --partition=short --time=60"},
		&cli.StringFlag{Name: "image", Usage: "`IMAGE` of pods, for --executor kubernetes"},
		&cli.StringFlag{Name: "kubectl-args", Usage: "`ARGS` of kubectl, for --executor kubernetes: --namespace=sim"},
		&cli.StringFlag{Name: "pod", Usage: "`FILE` of what pods have besides, for --executor kubernetes: " +
			`{"spec": {…}, "container": {…}}`},
		&cli.StringFlag{Name: "host-command", Value: "disco-group host",
			Usage: "`COMMAND` that takes pieces on other machines, with its arguments; not for --executor local"},
	}
}

// executorOnly are the flags that only some executors have.
var executorOnly = map[string][]string{"work": {executorLocal}, "hosts": {executorSSH}, "slurm-args": {executorSlurm},
	"image": {executorKubernetes}, "kubectl-args": {executorKubernetes}, "pod": {executorKubernetes},
	"host-command": {executorSSH, executorSlurm, executorKubernetes}}

// checkRemote refuses flags that don't go with an executor.
func checkRemote(c *app.Call, name string) error {
	for _, flag := range []string{"work", "hosts", "slurm-args", "image", "kubectl-args", "pod", "host-command"} {
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
	switch name {
	case executorSlurm:
		return nil
	case executorKubernetes:
		_, err := kubernetesOf(c)
		return err
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

// kubernetesOf is the cluster of the flags.
func kubernetesOf(c *app.Call) (remote.Scheduler, error) {
	k := remote.Kubernetes{Image: c.String("image"), Args: strings.Fields(c.String("kubectl-args")),
		Host: strings.Fields(c.String("host-command"))}
	if k.Image == "" {
		return nil, app.Usage("--executor kubernetes: found no --image, want one with disco-group and the program " +
			"with the models")
	}
	if path := c.String("pod"); path != "" {
		text, err := infile.Read(path, infile.Kind{Name: "a file with a pod, as JSON", BytesMax: 1 << 20})
		if err != nil {
			return nil, app.Usage("--pod: %v", err)
		}
		var pod struct {
			Spec      json.RawMessage `json:"spec"`
			Container json.RawMessage `json:"container"`
		}
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&pod); err != nil {
			return nil, app.Usage("--pod: %s: want an object with spec, container, or both: %v", path, err)
		}
		k.Pod, k.Container = pod.Spec, pod.Container
		if err := k.CheckPod(); err != nil {
			return nil, app.Usage("--pod: %s: %v", path, err)
		}
	}
	return k, nil
}

// hostVersion is what an agent and its hosts have in common: this program, and the one with the models.
func hostVersion(c *app.Call) (path, version string, err error) {
	f, digest, err := groupcall.OpenProgram(c)
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
	o := remote.Options{Owner: groupcall.URL(c) + " " + lo.Owner, Version: version, Fetch: lo.Fetch, Grace: lo.Grace,
		Report: func(text string) { report(errors.New(text)) }}
	o.Slots = c.Int("slots")
	switch name {
	case executorSSH:
		o.Machines, err = machinesOf(c)
	case executorKubernetes:
		o.Scheduler, err = kubernetesOf(c)
	default:
		o.Scheduler = remote.Slurm{Args: strings.Fields(c.String("slurm-args")),
			Host: strings.Fields(c.String("host-command"))}
	}
	if err != nil {
		return nil, err
	}
	e, err := remote.Open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("--executor %s: %w", name, err)
	}
	return e, nil
}
