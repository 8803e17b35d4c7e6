// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// Slurm has srun start a job of one task for each attempt, wherever Slurm finds room. It is a Scheduler.
type Slurm struct {
	Args []string // of srun: --partition, --account, --time, …
	Host []string // starts a host on Slurm's machines
}

// Command implements Scheduler. A job of its own is asked for, also where the agent is part of one.
func (s Slurm) Command(name string, processors int, without []string) []string {
	c := []string{"env", "-u", "SLURM_JOB_ID", "-u", "SLURM_JOBID", "srun", "--job-name=" + name, "--ntasks=1",
		"--cpus-per-task=" + strconv.Itoa(processors), "--mpi=none"}
	if len(without) > 0 {
		c = append(c, "--exclude="+strings.Join(without, ","))
	}
	return append(append(append(c, s.Args...), "--"), s.Host...)
}

// Left implements Scheduler: squeue lists what waits, runs and ends.
func (s Slurm) Left(ctx context.Context, prefix string) ([]string, error) {
	out, err := run1(ctx, "squeue", "--me", "--noheader", "--format=%j")
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range strings.FieldsSeq(out) {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names, nil
}

// End implements Scheduler.
func (s Slurm) End(ctx context.Context, names []string) error {
	var errs []error
	for _, name := range names {
		_, err := run1(ctx, "scancel", "--me", "--name="+name)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// run1 runs a command to its end, and gives what it says.
func run1(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	out, said := capped{}, tail{}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &said, killAfter
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return "", fmt.Errorf("%s: %w: %s", name, err, said.text())
	}
	return string(out), nil
}

// listMax bounds what a scheduler lists, in bytes.
const listMax = 16 << 20

// capped keeps what is written, up to listMax.
type capped []byte

func (c *capped) Write(b []byte) (int, error) {
	if len(*c)+len(b) > listMax {
		return 0, fmt.Errorf("found a list of more than %d bytes", listMax)
	}
	*c = append(*c, b...)
	return len(b), nil
}
