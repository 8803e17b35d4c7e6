// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/disco-sim/disco/internal/inspect"
	tables "github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/urfave/cli/v2"
)

// inspectPause lies between the two looks at a run that show whether it moves.
const inspectPause = 500 * time.Millisecond

func (p *program) inspectCommand() *cli.Command {
	return p.command(cli.Command{
		Name:      "inspect",
		Usage:     "shows what the workers of a run that is under way are doing",
		ArgsUsage: "[PID]",
		Description: "PID is the process of the run or of one of its workers; without it, all runs are\n" +
			"shown. The run isn't touched and doesn't notice. Runs with --transport inproc can't\n" +
			"be seen from outside.",
	}, p.inspect)
}

// inspect shows one run, or all.
func (p *program) inspect(c *cli.Context) error {
	pids, err := p.inspected(c.Args().Slice())
	if err != nil {
		return err
	}
	var failed []error
	for i, pid := range pids {
		if i > 0 {
			fmt.Fprintln(p.stdout)
		}
		err := p.inspectRun(pid)
		if errors.Is(err, inspect.ErrNoRun) && c.NArg() == 0 {
			err = nil // it existed when runs were listed
			p.hasEnded(pid)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// inspected is the process to look at, or all runs there are.
func (p *program) inspected(args []string) ([]int, error) {
	if len(args) > 1 {
		return nil, usage("found %s (%s), want one PID, or none for all runs", tables.Plural(len(args), "argument"),
			quoted(args))
	}
	if len(args) == 1 {
		pid, err := strconv.Atoi(args[0])
		if err != nil || pid < 1 {
			return nil, usage("found %q, want the PID of a run: `%s inspect` without one shows all", args[0], p.name)
		}
		return []int{pid}, nil
	}
	pids, err := inspect.Runs()
	if err == nil && len(pids) == 0 {
		return nil, errors.New("there is no run over processes under way that you may look at")
	}
	return pids, err
}

// inspectRun looks twice at a run, so that it is seen whether it moves.
func (p *program) inspectRun(pid int) error {
	before, err := inspect.Process(pid)
	if err != nil {
		return err
	}
	began := time.Now()
	time.Sleep(inspectPause)
	after, err := inspect.Process(pid)
	if errors.Is(err, inspect.ErrNoRun) || err == nil && len(after.Workers) != len(before.Workers) {
		p.hasEnded(before.PID)
		return nil
	}
	if err != nil {
		return err
	}
	p.showLive(before, after, time.Since(began).Seconds())
	return nil
}

// hasEnded reports a run that has ended since it was listed.
func (p *program) hasEnded(pid int) {
	fmt.Fprintf(p.stdout, "process %d: the run has ended\n", pid)
}

// showLive prints the second look at a run, and what has changed since the first.
func (p *program) showLive(before, after *inspect.Run, seconds float64) {
	fmt.Fprintf(p.stdout, "process %d: %s\n", after.PID, after.Command)
	t := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "worker\tprocess\tstate\tCPU\treplication\tepoch\tevents\tevents/s\tsent\treceived\tfull "+
		"waits\twaits for\t")
	moved := false
	for i := range after.Workers {
		w, was := &after.Workers[i], &before.Workers[min(i, len(before.Workers)-1)]
		rate := (w.Number(worker.NumberEvents) - was.Number(worker.NumberEvents)) / seconds
		moved = moved || rate != 0 || w.Number(worker.NumberEpoch) != was.Number(worker.NumberEpoch)
		state, cpu := w.State, 0.0
		switch {
		case w.PID == 0 && after.Elsewhere:
			state = "elsewhere"
		case w.PID == 0:
			state = "gone"
		default:
			cpu = (w.CPUSeconds - was.CPUSeconds) / seconds
		}
		waits := "-"
		switch {
		case w.Number(worker.NumberBlocked) != 0:
			waits = "peers"
		case w.Number(worker.NumberRoom) != 0:
			waits = "room"
		}
		fmt.Fprintf(t, "%d\t%d\t%s\t%.0f %%\t%.0f\t%.6g\t%.0f\t%s\t%.0f\t%.0f\t%.0f\t%s\t\n", w.Index, w.PID, state,
			100*max(cpu, 0), max(w.Number(worker.NumberReplications)-1, 0), w.Number(worker.NumberEpoch),
			w.Number(worker.NumberEvents), short(max(rate, 0)),
			w.Number(worker.NumberSent), w.Number(worker.NumberReceived), w.Number(worker.NumberFullWaits), waits)
	}
	// The writer behind it keeps its errors.
	_ = t.Flush()
	if !moved {
		fmt.Fprintf(p.stdout, "nothing has moved for %.1f s: kill -QUIT a worker's process to see where it stands "+
			"(the run then ends)\n", seconds)
	}
}
