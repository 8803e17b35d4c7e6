// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/internal/bridge/offer"
	"github.com/disco-sim/disco/internal/bridge/stream"
	"github.com/disco-sim/disco/internal/groupcall"
	"github.com/disco-sim/disco/internal/machinefile"
	"github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/scenario"
	"github.com/urfave/cli/v2"
)

// lookEvery is how often `machines --watch` asks all machines.
const lookEvery = 2 * time.Second

func machinesCommand() app.Command {
	return app.Command{
		Name: "machines", Usage: "shows which machines take runs, and how they are",
		ArgsUsage: "FILE | --machines FILE | --store URL",
		Description: "Of each machine that the file lists, or of each member of the group that has an address, it\n" +
			"shows whether its agent is up, how many slots are free, which build of disco it has, the load,\n" +
			"the round trip, by how much its clock is ahead of this one's, and the runs that it has.\n" +
			"It ends with 1 if a machine is unreachable, or would refuse a run of this program.",
		Examples: []string{"machines machines.yml --tls-dir tls", "machines --store etcd://127.0.0.1:2379 --watch"},
		Flags: slices.Concat(groupcall.Flags(), securityFlags(), []cli.Flag{
			&cli.StringFlag{Name: "machines", Usage: "`FILE` that lists them"}, labelsFlag(), groupcall.ProgramFlag(),
			&cli.DurationFlag{Name: "connect-timeout", Value: 5 * time.Second,
				Usage: "`TIME` after which a machine that doesn't answer is unreachable"},
			&cli.BoolFlag{Name: "json", Usage: "write JSON; with --watch one object a line"},
			&cli.BoolFlag{Name: "watch", Usage: "show it again every 2 s, until Ctrl-C"}}),
		Run: runMachines,
	}
}

func runMachines(c *app.Call) error {
	file := c.String("machines")
	switch {
	case c.NArg() > 1 || c.NArg() == 1 && file != "":
		return app.Usage("found %q beside another FILE, want one file of machines", c.Args().Slice())
	case c.NArg() == 1:
		file = c.Args().First()
	}
	l := &looker{call: c, timeout: c.Duration("connect-timeout")}
	switch {
	case file != "" && c.IsSet("store"):
		return app.Usage("found --store and the file %s, want one list of machines", file)
	case file == "" && groupcall.URL(c) == "":
		return app.Usage("which machines are meant? Name a FILE that lists them, or the --store of their group")
	}
	if err := app.CheckConnectTimeout(l.timeout); err != nil {
		return err
	}
	list, err := listOf(c, file)
	if err != nil {
		return err
	}
	if l.security, err = securityOf(c); err != nil {
		return err
	}
	if l.bridge, err = digest(); err != nil {
		return err
	}
	if c.String("program") != "" {
		f, digest, err := groupcall.OpenProgram(c)
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			return err
		}
		l.program = &digest
	}
	if list == nil {
		return groupcall.WithStore(c, groupcall.Looks, func(ctx context.Context, s *metastore.Store) error {
			return l.members(ctx, s)
		})
	}
	if err := checkAddresses(list, l.security); err != nil {
		return err
	}
	ctx, undo := c.Interruptible()
	defer undo()
	return l.show(ctx, func() (*machinefile.List, error) { return list, nil })
}

// listOf is the machines that a file lists and --labels chooses; nil: no file is named.
func listOf(c *app.Call, file string) (*machinefile.List, error) {
	if file == "" {
		return nil, nil
	}
	list, err := machinefile.Read(file)
	if err == nil {
		list, err = chosen(c, list)
	}
	if problems := (scenario.Problems)(nil); err != nil && !errors.As(err, &problems) {
		err = app.Usage("%v", err)
	}
	return list, err
}

// labelsFlag chooses among machines.
func labelsFlag() cli.Flag {
	return &cli.StringFlag{Name: "labels", Usage: "only machines that have all `LABELS`, KEY=VALUE with commas between"}
}

// chosen are the machines that have the --labels.
func chosen(c *app.Call, list *machinefile.List) (*machinefile.List, error) {
	if c.String("labels") == "" {
		return list, nil
	}
	labels := map[string]string{}
	for label := range strings.SplitSeq(c.String("labels"), ",") {
		if err := groupcall.AddLabel(labels, label); err != nil {
			return nil, app.Usage("--labels: %v", err)
		}
	}
	return list.Select(labels)
}

// checkAddresses refuses addresses at which the flags don't allow to reach a machine.
func checkAddresses(list *machinefile.List, s *stream.Security) error {
	for _, m := range list.Machines {
		if err := s.CheckAddress(m.Address); err != nil {
			return app.Usage("%s: machine %s: %v", list.File, m.Name, err)
		}
	}
	return nil
}

func targetsOf(list *machinefile.List) (all []offer.Target) {
	for _, m := range list.Machines {
		all = append(all, offer.Target{Name: m.Name, Address: m.Address, Slots: m.Slots})
	}
	return all
}

// members shows the machines of a group.
func (l *looker) members(ctx context.Context, s *metastore.Store) error {
	v, err := openView(ctx, l.call, s)
	if err != nil {
		return err
	}
	defer v.Close()
	return l.show(ctx, func() (*machinefile.List, error) { return listIn(l.call, v) })
}

// openView opens the view of a group.
func openView(ctx context.Context, c *app.Call, s *metastore.Store) (*cluster.View, error) {
	limited, cancel, err := groupcall.Bounded(ctx, c)
	if err != nil {
		return nil, err
	}
	defer cancel()
	return cluster.Open(limited, s)
}

// listIn are the members of a group that take runs, and have the --labels: those that are up, have an address, and
// aren't drained.
func listIn(c *app.Call, v *cluster.View) (*machinefile.List, error) {
	list := &machinefile.List{File: "the group " + c.String("group")}
	members, drained := v.Members(), v.Drained()
	for _, m := range members {
		if m.Status == cluster.Up && m.Address != "" && !slices.Contains(drained, m.Name) {
			list.Machines = append(list.Machines, machinefile.Machine{Name: m.Name, Address: m.Address,
				Slots: min(m.Slots, offer.SlotsMax), Labels: m.Labels})
		}
	}
	if len(list.Machines) == 0 {
		return nil, fmt.Errorf("of %s of the group none is up, has an address and isn't drained: "+
			"`agent --listen HOST:PORT --store URL` makes a machine such a member",
			table.Plural(len(members), "member"))
	}
	return chosen(c, list)
}

// looker asks machines how they are.
type looker struct {
	call     *app.Call
	security *stream.Security
	timeout  time.Duration
	program  *[32]byte // that runs would have; nil: not known
	bridge   [32]byte  // that joins machines here
}

// States of a machine, as `machines` shows them.
const (
	stateUp          = "up"
	stateUnreachable = "unreachable"
	stateRefused     = "refused"
)

// shownMachine is a machine at one moment, for JSON output.
type shownMachine struct {
	Name       string     `json:"name"`
	Address    string     `json:"address"`
	State      string     `json:"state"`
	Reason     string     `json:"reason,omitempty"`
	Host       string     `json:"host,omitempty"` // what its agent calls it
	Slots      int        `json:"slots"`
	Free       int        `json:"free"`
	Version    string     `json:"version,omitempty"`
	Digest     string     `json:"digest,omitempty"`
	Processors int        `json:"processors,omitempty"`
	Memory     int        `json:"memory_bytes,omitempty"`
	Load       float64    `json:"load"`
	RoundTrip  float64    `json:"round_trip_seconds"`
	Offset     float64    `json:"clock_offset_seconds"`
	Runs       []shownRun `json:"runs"`
}

type shownRun struct {
	Name    string  `json:"name"`
	Slots   int     `json:"slots"`
	From    string  `json:"from"`
	Seconds float64 `json:"seconds"`

	Unreachable string `json:"unreachable,omitempty"` // machines from which nothing comes here
}

// show shows all machines, once or until ctx ends.
func (l *looker) show(ctx context.Context, list func() (*machinefile.List, error)) error {
	watch := l.call.Bool("watch")
	for {
		var all []offer.Target
		now, err := list()
		if err == nil {
			all = targetsOf(now)
		} else if !watch {
			return err
		}
		machines := l.lookAt(ctx, all)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		l.call.Clear()
		if err == nil {
			err = l.write(machines)
		} else {
			_, err = fmt.Fprintf(l.call.Stderr, "%s: %v\n", l.call.Program, err)
		}
		if err != nil || !watch {
			return errors.Join(err, verdict(machines))
		}
		if l.call.Unread() {
			return app.ErrUnread
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// verdict is an error unless all machines are up.
func verdict(machines []shownMachine) error {
	var down []string
	for _, m := range machines {
		if m.State != stateUp {
			down = append(down, m.Name)
		}
	}
	if len(down) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d machines take no run of this program: %s", len(down), len(machines),
		strings.Join(down, ", "))
}

// lookAt asks all machines at a time.
func (l *looker) lookAt(ctx context.Context, targets []offer.Target) []shownMachine {
	machines := make([]shownMachine, len(targets))
	var all sync.WaitGroup
	for i, t := range targets {
		all.Go(func() { machines[i] = l.look(ctx, t) })
	}
	all.Wait()
	return machines
}

// look asks one machine.
func (l *looker) look(ctx context.Context, t offer.Target) shownMachine {
	m := shownMachine{Name: t.Name, Address: t.Address, State: stateUnreachable, Runs: []shownRun{}}
	ctx, cancel := context.WithTimeoutCause(ctx, l.timeout, fmt.Errorf("the --connect-timeout of %v is over",
		l.timeout))
	defer cancel()
	client, err := offer.Dial(ctx, t.Address, l.security)
	var s *offer.Looked
	if err == nil {
		defer client.Close()
		s, err = client.Look(ctx)
	}
	if err != nil {
		var refused *stream.RefusedError
		var version *offer.VersionError
		if errors.As(err, &refused) || errors.As(err, &version) {
			m.State = stateRefused
		}
		m.Reason = err.Error()
		return m
	}
	m.State, m.Host, m.Slots, m.Free, m.Version = stateUp, s.Name, s.Slots, s.Free, s.Disco
	m.Digest, m.Processors, m.Memory, m.Load = fmt.Sprintf("%x", s.Program), s.Processors, s.Memory, s.Load
	m.RoundTrip, m.Offset = s.RoundTrip.Seconds(), s.Offset.Seconds()
	for _, r := range s.Runs {
		m.Runs = append(m.Runs, shownRun{r.Name, r.Slots, r.From, r.For.Seconds(), r.Unreachable})
	}
	if m.Reason = l.refusal(s.Status); m.Reason != "" {
		m.State = stateRefused
	}
	return m
}

// refusal is why an agent would refuse each run of this program, or "".
func (l *looker) refusal(s *offer.Status) string {
	group := l.call.String("group")
	switch {
	case s.Cluster != group:
		return fmt.Sprintf("it belongs to the group %q, and this is for %q: --group names another one", s.Cluster,
			group)
	case s.Disco != app.Version():
		return fmt.Sprintf("it has version %s of disco, and this one is %s: use one build on all machines", s.Disco,
			app.Version())
	case l.program != nil && s.Program != *l.program:
		return fmt.Sprintf("its program has the digest %.4x, and this one %.4x: use one build on all machines, and "+
			"start its agent again", s.Program, *l.program)
	case s.Bridge != l.bridge:
		return fmt.Sprintf("its disco-group has the digest %.4x, and this one %.4x: use one build on all machines, "+
			"and start its agent again", s.Bridge, l.bridge)
	}
	return ""
}

// write shows machines.
func (l *looker) write(machines []shownMachine) error {
	if l.call.Bool("json") {
		return groupcall.WriteJSON(l.call.Stdout, map[string][]shownMachine{"machines": machines}, l.call.Bool("watch"))
	}
	rows := [][]string{{"machine", "state", "slots", "free", "version", "program", "load", "round trip", "clock",
		"runs"}}
	for i := range machines {
		rows = append(rows, machines[i].row())
	}
	out := &strings.Builder{}
	groupcall.Columns(out, rows)
	for _, m := range machines {
		if m.Reason != "" {
			fmt.Fprintf(out, "%s is %s: %s\n", m.Name, m.State, m.Reason)
		}
	}
	_, err := io.WriteString(l.call.Stdout, out.String())
	return err
}

// row is a machine as a line of the table.
func (m *shownMachine) row() []string {
	if m.Version == "" {
		return []string{m.Name, m.State, "-", "-", "-", "-", "-", "-", "-", "-"}
	}
	runs := make([]string, len(m.Runs))
	for i, r := range m.Runs {
		runs[i] = fmt.Sprintf("%s (%d)", r.Name, r.Slots)
		if r.Unreachable != "" {
			runs[i] = fmt.Sprintf("%s (%d; unreachable: %s)", r.Name, r.Slots, r.Unreachable)
		}
	}
	if len(runs) == 0 {
		runs = []string{"-"}
	}
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	sign, offset := "", seconds(m.Offset).Round(10*time.Microsecond)
	if offset > 0 {
		sign = "+"
	}
	version, _, _ := strings.Cut(m.Version, " ") // without the commit, which --json has
	return []string{m.Name, m.State, fmt.Sprint(m.Slots), fmt.Sprint(m.Free), version, m.Digest[:8],
		fmt.Sprintf("%.2f of %d", m.Load, m.Processors), seconds(m.RoundTrip).Round(time.Microsecond).String(),
		sign + offset.String(), strings.Join(runs, ", ")}
}
