// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"math"
	"text/tabwriter"
	"time"

	"github.com/disco-sim/disco/internal/inspect"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/urfave/cli/v2"
)

// lookPause lies between two looks at a run that show whether it moves.
const lookPause = 500 * time.Millisecond

// noRuns says that there is nothing to look at.
const noRuns = "there is no run over processes under way that you may look at"

func (p *program) psCommand() *cli.Command {
	return p.command(cli.Command{
		Name:  "ps",
		Usage: "lists the runs of this machine that are under way",
		Description: "The runs aren't touched and don't notice. Those with --transport inproc can't be\n" +
			"seen from outside, nor those of other users.",
		Flags: []cli.Flag{storeJSONFlag()},
	}, p.ps)
}

// seenRun is a run of ps, in its JSON.
type seenRun struct {
	Process   int          `json:"process"`
	Command   string       `json:"command"`
	Scenario  string       `json:"scenario"`
	Seconds   float64      `json:"age_s"`
	Epoch     float64      `json:"epoch_s"`
	PerSecond float64      `json:"events_per_s"`
	CPU       float64      `json:"processors"`
	Workers   []seenWorker `json:"workers"`
}

type seenWorker struct {
	Worker  int                `json:"worker"`
	Process int                `json:"process"` // 0: it isn't there
	State   string             `json:"state"`
	CPU     float64            `json:"processors"`
	Numbers map[string]float64 `json:"numbers"` // of its board, without those that are infinite
}

// ps lists the runs.
func (p *program) ps(c *cli.Context) error {
	if c.NArg() > 0 {
		return usage("found %q, want no arguments: `%s top PID` shows one run", c.Args().First(), p.name)
	}
	val := &values{c: c}
	file := val.jsonPath()
	if err := val.err(); err != nil {
		return err
	}
	views, err := lookTwice()
	if err != nil {
		return err
	}
	runs := []seenRun{}
	for _, v := range views {
		runs = append(runs, seen(v))
	}
	if file == "-" {
		return p.writeStoreJSON(file, map[string]any{"runs": runs})
	}
	if len(runs) == 0 {
		fmt.Fprintln(p.stdout, noRuns)
		return p.writeStoreJSON(file, map[string]any{"runs": runs})
	}
	t := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "process\tfor\tworkers\tCPU\tepoch\tevents/s\t  run")
	for _, r := range runs {
		fmt.Fprintf(t, "%d\t%s\t%d\t%.0f %%\t%.6g s\t%s\t  %s\n", r.Process, duration(r.Seconds), len(r.Workers),
			100*r.CPU, r.Epoch, short(r.PerSecond), r.Scenario)
	}
	return errors.Join(t.Flush(), p.writeStoreJSON(file, map[string]any{"runs": runs}))
}

// lookTwice looks at all runs twice. Those that end meanwhile are left out.
func lookTwice() (views []*inspect.View, err error) {
	pids, err := inspect.Runs()
	if err != nil {
		return nil, err
	}
	var all []*inspect.Live
	defer func() {
		for _, l := range all {
			err = errors.Join(err, l.Close())
		}
	}()
	for _, pid := range pids {
		l, err := inspect.Open(pid)
		if err == nil {
			all = append(all, l)
			_, err = l.Look()
		}
		if err != nil && !errors.Is(err, inspect.ErrNoRun) {
			return nil, err
		}
	}
	time.Sleep(lookPause)
	for _, l := range all {
		v, err := l.Look()
		if err == nil && v.Before != nil {
			views = append(views, v)
		} else if err != nil && !errors.Is(err, inspect.ErrNoRun) {
			return nil, err
		}
	}
	return views, nil
}

// seen is what ps says of a run.
func seen(v *inspect.View) seenRun {
	r := seenRun{Process: v.PID, Command: v.Command, Scenario: v.Scenario, Seconds: v.Age.Seconds(), Epoch: math.Inf(1)}
	for i := range v.Workers {
		w := &v.Workers[i]
		s := seenWorker{Worker: w.Index, Process: w.PID, State: shownState(v, w), CPU: v.CPU(i),
			Numbers: map[string]float64{}}
		for _, n := range w.Numbers {
			if x := w.Number(n.Name); !math.IsInf(x, 0) && !math.IsNaN(x) {
				s.Numbers[n.Name] = x
			}
		}
		r.Workers = append(r.Workers, s)
		r.CPU += s.CPU
		r.PerSecond += v.PerSecond(i, worker.NumberEvents)
		r.Epoch = min(r.Epoch, w.Number(worker.NumberEpoch))
	}
	if math.IsInf(r.Epoch, 0) { // no worker, or all are through
		r.Epoch = 0
	}
	return r
}

// shownState is a worker's process as it is seen from here.
func shownState(v *inspect.View, w *inspect.Worker) string {
	switch {
	case w.PID == 0 && v.Elsewhere:
		return "elsewhere"
	case w.PID == 0:
		return "gone"
	}
	return w.State
}
