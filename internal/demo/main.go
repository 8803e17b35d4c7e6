// SPDX-License-Identifier: Apache-2.0

// Command demo shows a run over three machines on one computer: three network namespaces joined by cables with delay
// and loss, or, where namespaces aren't allowed, three loopback addresses. `make demo-machines` calls it.
//
//	go run ./internal/demo -program bin/disco-run
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/disco-sim/disco/internal/agents"
	"github.com/disco-sim/disco/internal/forward"
	"github.com/disco-sim/disco/internal/storeserver"
)

// insideVariable tells the process that its network is its own.
const insideVariable = "DISCO_DEMO_INSIDE"

const machines = 3

// demo is one demonstration.
type demo struct {
	program, scenario, horizon string
	delay                      time.Duration
	loss                       float64
	out                        io.Writer
	hosts                      *storeserver.Hosts // nil: the loopback
	netem                      bool               // cables are the kernel's
	agents                     *agents.Agents
	pull                       pull
}

// pull says how a cable is pulled out of a run.
type pull struct {
	run     time.Duration // how long it is to take
	after   time.Duration // since its beginning
	out     time.Duration // how long the cable is out
	silence time.Duration // --peer-timeout: less, so that machines take it for a cut
}

func main() {
	d := &demo{out: agents.Locked(os.Stdout),
		pull: pull{run: 8 * time.Second, after: 2 * time.Second, out: 2 * time.Second, silence: time.Second}}
	flag.StringVar(&d.program, "program", "bin/disco-run", "disco-run, with disco-group beside it")
	flag.StringVar(&d.scenario, "scenario", "examples/phold.yml", "what runs")
	flag.StringVar(&d.horizon, "horizon", "20", "its simulated time")
	flag.DurationVar(&d.delay, "delay", 200*time.Microsecond, "of a cable, each way")
	flag.Float64Var(&d.loss, "loss", 0.0001, "share of segments that a cable loses")
	loopback := flag.Bool("loopback", false, "no namespaces")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := d.main(ctx, *loopback); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// main shows it in a network of its own, if there can be one.
func (d *demo) main(ctx context.Context, loopback bool) error {
	if os.Getenv(insideVariable) != "" {
		return d.inside(ctx)
	}
	if !loopback {
		cmd := exec.CommandContext(ctx, "/proc/self/exe", os.Args[1:]...)
		cmd.Env = append(os.Environ(), insideVariable+"=1")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		err := storeserver.OwnNetwork(cmd)
		if err == nil {
			cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
			return cmd.Run()
		}
		d.print("%v: three loopback addresses instead", err)
	}
	return d.show(ctx, agents.Config{Hosts: []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"}, Front: "127.0.0.1"})
}

// inside is main in a network of its own.
func (d *demo) inside(ctx context.Context) (err error) {
	if d.hosts, err = storeserver.NewHosts(machines); err != nil {
		return err
	}
	defer d.hosts.Close()
	cfg := agents.Config{Enter: d.hosts.Enter}
	for i := range machines {
		cfg.Hosts = append(cfg.Hosts, d.hosts.Addr(i).String())
	}
	if err := d.hosts.Slow(d.delay, d.loss); err == nil {
		d.netem = true
		d.print("three network namespaces joined by veth and a switch; tc netem delays each way by %v and "+
			"loses %.2f %%", d.delay, 100*d.loss)
	} else {
		cfg.Front = storeserver.SwitchAddr
		d.print("three network namespaces joined by veth and a switch. No netem here (%v):\na forwarder on the switch "+
			"delays each way by %v, and stalls as for lost segments, %.2f %% of them", err, d.delay, 100*d.loss)
	}
	return d.show(ctx, cfg)
}

func (d *demo) print(format string, args ...any) {
	fmt.Fprintf(d.out, "\n# "+strings.ReplaceAll(format, "\n", "\n# ")+"\n", args...)
}

// show starts agents, and runs the scenario over them.
func (d *demo) show(ctx context.Context, cfg agents.Config) (err error) {
	dir, err := os.MkdirTemp("", "disco-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cfg.Program, cfg.Dir, cfg.Slots, cfg.Secure, cfg.Output = d.program, dir, 1, true, d.out
	d.print("an authority, a certificate, and an agent on each machine")
	if d.agents, err = agents.Start(cfg); err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, d.agents.Close()); err == nil {
			d.print("all agents have ended in order; nothing is left")
		}
	}()
	for _, f := range d.agents.Forwarders {
		f.Set(forward.Traffic{Delay: d.delay, Loss: d.loss})
	}
	if err := d.who(ctx); err != nil {
		return err
	}
	took, err := d.grid(ctx)
	if err == nil {
		err = d.cut(ctx, took)
	}
	return err
}

// who shows which machines are up.
func (d *demo) who(ctx context.Context) error {
	file, err := d.agents.File(machines)
	if err != nil {
		return err
	}
	d.print("disco-run machines %s", file)
	cmd := exec.CommandContext(ctx, d.program, append([]string{"machines", file}, d.agents.Security()...)...)
	cmd.Stdout, cmd.Stderr = d.out, d.out
	return cmd.Run()
}

// grid runs the scenario without agents, and on 1, 2 and 3 machines: the results are the same. It gives the time of the
// last run.
func (d *demo) grid(ctx context.Context) (took float64, err error) {
	alone, err := d.agents.Run(ctx, 0, nil, d.scenario, "--horizon", d.horizon)
	if err != nil {
		return 0, err
	}
	d.print("%s up to %s s, without agents: %d events in %.2f s, trace hash %s", d.scenario, d.horizon, alone.Events,
		alone.Seconds, alone.Hash)
	for n := 1; n <= machines; n++ {
		var out io.Writer
		if n == machines {
			out = d.out
		}
		d.print("disco-run run %s --horizon %s --machines machines-%d.yaml --workers %d --partition block", d.scenario,
			d.horizon, n, n)
		// With the default partition it would choose one machine where the cables are slow.
		r, err := d.agents.Run(ctx, n, out, d.scenario, "--horizon", d.horizon, "--workers", fmt.Sprint(n),
			"--partition", "block")
		if err != nil {
			return 0, err
		}
		if r.Hash != alone.Hash {
			return 0, fmt.Errorf("on %d machines the trace hash is %s, without agents %s", n, r.Hash, alone.Hash)
		}
		d.print("on %d machines: %d events in %.2f s, the same trace hash", n, r.Events, r.Seconds)
		took = r.Seconds
	}
	return took, nil
}

// triesMax is how often a run may end before the cable is in again; each is three times as long as the one before.
const triesMax = 4

// cut pulls the cable of the last machine out for a moment while a longer run is under way.
func (d *demo) cut(ctx context.Context, took float64) error {
	var short float64
	if _, err := fmt.Sscan(d.horizon, &short); err != nil {
		return err
	}
	horizon := max(1, int(short*d.pull.run.Seconds()/took))
	for range triesMax {
		done, err := d.cutAt(ctx, fmt.Sprint(horizon))
		if done || err != nil {
			return err
		}
		d.print("it was over before the cable was in again: once more, longer")
		horizon *= 3
	}
	return errors.New("every run was over before the cable was in again")
}

// cutAt is cut for one run. Not done: it was over too early.
func (d *demo) cutAt(ctx context.Context, horizon string) (done bool, err error) {
	alone, err := d.agents.Run(ctx, 0, nil, d.scenario, "--horizon", horizon)
	if err != nil {
		return false, err
	}
	d.print("the same up to %s s; after %v the cable of h3 is pulled out for %v", horizon, d.pull.after, d.pull.out)
	type ended struct {
		run agents.Run
		err error
	}
	run := make(chan ended, 1)
	go func() {
		r, err := d.agents.Run(ctx, machines, d.out, d.scenario, "--horizon", horizon, "--workers",
			fmt.Sprint(machines), "--partition", "block", "--peer-timeout", d.pull.silence.String())
		run <- ended{r, err}
	}()
	for _, step := range []struct {
		after time.Duration
		in    bool
	}{{d.pull.after, false}, {d.pull.out, true}} {
		select {
		case <-time.After(step.after):
			if err := d.cable(step.in); err != nil {
				<-run
				return false, err
			}
		case e := <-run:
			return false, errors.Join(e.err, d.cable(true))
		}
	}
	e := <-run
	switch {
	case e.err != nil:
		return false, e.err
	case e.run.Hash != alone.Hash:
		return false, fmt.Errorf("with a cut the trace hash is %s, without agents %s", e.run.Hash, alone.Hash)
	}
	d.print("%d events in %.2f s: the run went on, with the same trace hash as without agents", e.run.Events,
		e.run.Seconds)
	return true, nil
}

// cable puts the cable of the last machine in, or pulls it out.
func (d *demo) cable(in bool) error {
	if in {
		d.print("the cable is in")
	} else {
		d.print("the cable is out")
	}
	switch {
	case d.netem && in:
		return d.hosts.Split()
	case d.netem:
		return d.hosts.Split(0, 0, 1)
	}
	// Forwarders stand in front of agents, so those in front of h1 and h2 are for h3, too, as far as it dials: the
	// lower machine dials, and the launcher, so that h3 is always the one that is dialled.
	f := d.agents.Forwarders[machines-1]
	if in {
		f.Heal()
	} else {
		f.Isolate()
	}
	return nil
}
