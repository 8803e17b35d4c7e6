// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/experiments"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/groupcall"
	"github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/dial"
	"github.com/urfave/cli/v2"
)

// childVariable tells the agent's process that its supervisor has started it.
const childVariable = "DISCO_AGENT_CHILD"

func agentCommand() app.Command {
	return app.Command{
		Name: "agent", Usage: "makes this machine one of a group, and takes runs over several machines",
		Description: "With --listen it takes runs over several machines, with --slots workers at a time.\n" +
			"With --store it is a member of a group, and offers --slots servers, which simulate the\n" +
			"group's experiments with --executor. Ctrl-C or SIGTERM end what it has, and then itself.\n" +
			"A supervisor watches over a member, so that the group learns at once when it dies.",
		Examples: []string{"agent --listen 10.0.0.1:7000 --slots 8 --tls-dir tls",
			"agent --store etcd://10.0.0.9:2379 --name h1",
			"agent --store etcd://10.0.0.9:2379 --slots 8 --executor local"},
		Flags: slices.Concat(groupcall.Flags(), securityFlags(), namesFlags(), executorFlags(), []cli.Flag{
			&cli.StringFlag{Name: "listen", Usage: "`HOST:PORT` at which it takes runs; with port 0 any free one"},
			groupcall.ProgramFlag(),
			&cli.StringFlag{Name: "name", Usage: "`NAME` of the machine in the group; the host's if not given"},
			&cli.IntFlag{Name: "slots", Value: runtime.NumCPU(),
				Usage: "`NUMBER` of workers at a time, and of servers; 0 takes part without hosting"},
			&cli.StringFlag{Name: "roles", Usage: "`WORDS` with commas, for those who look for members"},
			&cli.StringSliceFlag{Name: "label", Usage: "`KEY=VALUE`; may be repeated"},
			&cli.StringFlag{Name: "address", Usage: "`HOST:PORT` at which other machines reach this one; " +
				"that of --listen if not given"},
			&cli.DurationFlag{Name: "session", Value: 10 * time.Second,
				Usage: "`TIME` after which the group takes a silent machine for dead"},
			&cli.DurationFlag{Name: "stop-after",
				Usage: "give partitions up when there has been no session for `TIME`; 0: never"},
			&cli.BoolFlag{Name: "mixed-builds", Usage: "join members of other versions, too"}}),
		Run: runAgent,
	}
}

func runAgent(c *app.Call) error {
	options, err := agentOptions(c)
	if err != nil {
		return err
	}
	if err := errors.Join(checkListen(c), checkExecutor(c)); err != nil {
		return err
	}
	switch {
	case groupcall.URL(c) == "" && !c.IsSet("listen"):
		return app.Usage("there is neither --listen nor --store: want --listen HOST:PORT to take runs over several "+
			"machines, or --store URL to be a member of a group (%s), or both", dial.Form)
	case groupcall.URL(c) == "":
		ctx, undo := c.Interruptible()
		defer undo()
		return serveRuns(ctx, c, options.Name)
	case os.Getenv(childVariable) == "":
		return supervise(c, options.Name)
	}
	member := groupcall.Access{Makes: true, Session: c.Duration("session")}
	return groupcall.WithStore(c, member, func(ctx context.Context, s *metastore.Store) error {
		if !c.IsSet("listen") {
			return agent(ctx, c, s, options, nil)
		}
		h, err := listen(c, options.Name)
		if err != nil {
			return err
		}
		if options.Address == "" {
			options.Address = h.address()
		}
		return errors.Join(agent(ctx, c, s, options, h.hosting), h.close())
	})
}

// agentOptions reads the flags.
func agentOptions(c *app.Call) (o cluster.Options, err error) {
	if c.NArg() > 0 {
		return o, app.Usage("found the argument %q, want none: flags say everything", c.Args().First())
	}
	name := c.String("name")
	if name == "" {
		if name, err = os.Hostname(); err != nil {
			return o, fmt.Errorf("the host's name: %w", err)
		}
	}
	if err := groupcall.CheckName(name); err != nil {
		return o, app.Usage("--name: the name of a machine: %v", err)
	}
	if address := c.String("address"); address != "" {
		if _, err := dial.CompleteAddress(address, ""); err != nil {
			return o, app.Usage("--address: found %q, want HOST:PORT: %v", address, err)
		}
	}
	for flag, least := range map[string]time.Duration{"session": 100 * time.Millisecond, "stop-after": 0} {
		if d := c.Duration(flag); d < least {
			return o, app.Usage("--%s: found %v, want at least %v", flag, d, least)
		}
	}
	if slots := c.Int("slots"); slots < 0 || slots > 1024 {
		return o, app.Usage("--slots: found %d, want 0 to 1024", slots)
	}
	labels := map[string]string{}
	for _, label := range c.StringSlice("label") {
		if err := groupcall.AddLabel(labels, label); err != nil {
			return o, app.Usage("--label: %v", err)
		}
	}
	if c.String("executor") != "" {
		if labels[experiments.ProgramLabel], err = experiments.ProgramMark(c, labels); err != nil {
			return o, err
		}
	}
	return cluster.Options{Name: name, Version: app.Version(), Address: c.String("address"), Slots: c.Int("slots"),
		Roles: strings.FieldsFunc(c.String("roles"), func(r rune) bool { return r == ',' }), Labels: labels,
		MixedBuilds: c.Bool("mixed-builds"), StopAfter: c.Duration("stop-after"),
		Runner: func(int, *cluster.Reporter) cluster.Runner { return idle{} },
		Report: func(problem error) { fmt.Fprintf(c.Stderr, "%s: %v\n", c.Program, problem) }}, nil
}

// agent is the member, for as long as it lasts; h takes runs over several machines, if it does.
func agent(ctx context.Context, c *app.Call, s *metastore.Store, o cluster.Options, h *hosting) (failed error) {
	own, err := digest()
	if err != nil {
		return err
	}
	o.Digest = hex.EncodeToString(own[:])
	a, err := newFleetAgent(ctx, c, s, &o, h)
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, closeFleetAgent(c, a)) }()
	joining, cancel, err := boundedJoin(ctx, c)
	if err != nil {
		return err
	}
	defer cancel()
	if a != nil {
		o.Roles = append(o.Roles, fleet.Role)
	}
	m, err := join(joining, c, s, o, h)
	if err != nil {
		return err
	}
	stop, err := leadFleet(joining, s, m, &o, rulesOf(c), h)
	switch {
	case err == nil:
	case ctx.Err() != nil: // it was asked to end when it had joined, and leaves
		stop = func() {}
	default:
		return err
	}
	defer stop()
	if a != nil {
		looking, end := context.WithCancel(ctx)
		var left sync.WaitGroup
		left.Go(func() { removeLeftParts(looking, c, s, o.Report) })
		defer func() {
			end()
			left.Wait()
		}()
	}
	if err == nil {
		fmt.Fprintf(c.Stdout, "%s: %s is up, with %s, in the group %s\n", c.Program, o.Name,
			table.Plural(o.Slots, "server"), c.String("group"))
	}
	select {
	case <-m.Done():
		fmt.Fprintf(c.Stdout, "%s: all servers of %s have exited\n", c.Program, o.Name)
		return nil
	case <-s.Wrong(): // its session is lost for good, and it hosts nothing that anybody knows of
		return fmt.Errorf("%s has ended: %w", o.Name, metastore.ErrWrongCluster)
	case <-ctx.Done():
		limit := c.Duration("store-timeout")
		if a != nil { // its runs end at a checkpoint first
			limit += 2*c.Duration("grace") + executorEndMax
		}
		leaving, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		stop() // somebody else is to lead at once
		how := "has left"
		if !m.Ready() {
			how = "has ended without a session: its keys go, if they are still there, when the store ends the last one"
		}
		if err := m.Leave(leaving); err != nil {
			return err
		}
		_, err := fmt.Fprintf(c.Stdout, "%s: %s %s\n", c.Program, o.Name, how)
		return err
	}
}

// join joins the group, and says then that h takes runs: an agent with the name of another one doesn't come so far.
func join(ctx context.Context, c *app.Call, s *metastore.Store, o cluster.Options, h *hosting) (*cluster.Membership,
	error) {
	m, err := cluster.Join(ctx, s, o)
	if err == nil {
		err = h.announce(c)
	}
	return m, err
}

// joinMore is what joining may take besides --store-timeout and the session of another life of the machine, whose end
// is waited for.
const joinMore = 10 * time.Second

// boundedJoin is a context for joining.
func boundedJoin(ctx context.Context, c *app.Call) (context.Context, context.CancelFunc, error) {
	limit := c.Duration("store-timeout") + c.Duration("session") + joinMore
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%v are over (--store-timeout, --session and %v)",
		limit, joinMore))
	return ctx, cancel, nil
}

// digest is that of the program's file.
func digest() (d [sha256.Size]byte, err error) {
	f, err := os.Open(ownFile)
	if err != nil {
		return d, fmt.Errorf("this program's file: %w", err)
	}
	defer f.Close()
	return groupcall.Digest(f)
}

// ownFile is the file of the program that this process runs, also when another one lies at its path now.
const ownFile = "/proc/self/exe"

// supervise starts the agent's process and waits for its end. If it was killed, its keys go at once, and not
// only at the end of its session. The process ends in order when its supervisor dies.
func supervise(c *app.Call, name string) error {
	runtime.LockOSThread() // the kernel tells the child when this thread ends
	defer runtime.UnlockOSThread()
	child := exec.Command(ownFile, os.Args[1:]...)
	child.Args[0] = os.Args[0]
	child.Stdin, child.Stdout, child.Stderr = nil, os.Stdout, os.Stderr
	child.Env = append(os.Environ(), childVariable+"=1")
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	in, done := make(chan os.Signal, 8), make(chan struct{})
	signal.Notify(in, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	if err := child.Start(); err != nil {
		return fmt.Errorf("starting the agent's process: %w", err)
	}
	var asked atomic.Value // the signal that was passed on last
	go func() {
		for {
			select {
			case s := <-in:
				asked.Store(s)
				_ = child.Process.Signal(s) // it may have ended
			case <-done:
				return
			}
		}
	}()
	err := child.Wait()
	close(done)
	signal.Stop(in)
	state, ok := child.ProcessState.Sys().(syscall.WaitStatus)
	if err == nil || !ok || !state.Signaled() {
		return groupcall.Exit(child.ProcessState.ExitCode())
	}
	killed := fmt.Errorf("the agent's process was ended by signal %d (%v)", state.Signal(), state.Signal())
	if asked.Load() == os.Signal(state.Signal()) { // before it had come to heed that: as one that isn't up yet
		killed = &app.Ended{Signal: state.Signal()}
	}
	killed = errors.Join(killed, sweepKilled(c, name))
	return errors.Join(killed, groupcall.WithStore(c, groupcall.Looks, func(ctx context.Context,
		s *metastore.Store) error {
		ctx, cancel, err := groupcall.Bounded(ctx, c)
		if err != nil {
			return err
		}
		defer cancel()
		return cluster.Remove(ctx, s, name, child.Process.Pid)
	}))
}

// idle is the runner of servers that have nothing to do yet but to go through their states.
type idle struct{}

func (idle) Initialize(context.Context, cluster.Assignment) ([]string, error) { return nil, nil }
func (idle) Activate(context.Context) error                                   { return nil }
func (idle) Pause(context.Context) error                                      { return nil }
func (idle) Terminate(context.Context) error                                  { return nil }
