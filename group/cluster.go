// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/groupcall"
	"github.com/disco-sim/disco/metastore"
	"github.com/urfave/cli/v2"
)

func clusterCommand() app.Command {
	return app.Command{
		Name: "cluster", Usage: "shows the machines of a group, their servers, and what these do",
		ArgsUsage: "[drain|resume NAME | resolve URI | dead-letters]",
		Description: "drain NAME    places nothing new on a machine or a server; what runs goes on\n" +
			"resume NAME   undoes that\n" +
			"resolve URI   shows which server hosts what disco://GROUP/NODE/SIMPROC?rep=REPID names\n" +
			"dead-letters  shows the references that servers couldn't resolve, how often, and why",
		Examples: []string{"cluster --store etcd://127.0.0.1:2379", "cluster --watch", "cluster drain h1",
			"cluster resume h1", "cluster resolve disco://disco/shop/server?rep=0", "cluster dead-letters"},
		Flags: append(groupcall.Flags(),
			&cli.BoolFlag{Name: "json", Usage: "write JSON; with --watch one object a line"},
			&cli.BoolFlag{Name: "watch", Usage: "show it again whenever something changes, until Ctrl-C"}),
		Run: runCluster,
	}
}

func runCluster(c *app.Call) error {
	args := c.Args().Slice()
	if len(args) == 0 {
		return groupcall.WithStore(c, groupcall.Looks, func(ctx context.Context, s *metastore.Store) error {
			return showCluster(ctx, c, s)
		})
	}
	switch want := map[string]string{"drain": "the NAME of a machine or a server", "resume": "the NAME of one",
		"resolve": "a reference disco://GROUP/NODE/SIMPROC", "dead-letters": ""}; {
	case want[args[0]] == "" && args[0] != "dead-letters":
		return app.Usage("there is no verb %q: want drain, resume, resolve or dead-letters, or none", args[0])
	case want[args[0]] == "" && len(args) != 1:
		return app.Usage("%s: found %d arguments behind it, want none", args[0], len(args)-1)
	case want[args[0]] != "" && len(args) != 2:
		return app.Usage("%s: found %d arguments behind it, want %s", args[0], len(args)-1, want[args[0]])
	case c.Bool("watch"):
		return app.Usage("--watch follows the whole cluster, and has no meaning for %s", args[0])
	case c.Bool("json") && (args[0] == "drain" || args[0] == "resume"):
		return app.Usage("--json is for showing, %s shows nothing", args[0])
	}
	run, err := clusterVerb(c, args)
	if err != nil {
		return err
	}
	return groupcall.WithStore(c, groupcall.Looks, func(ctx context.Context, s *metastore.Store) error {
		ctx, cancel, err := groupcall.Bounded(ctx, c)
		if err != nil {
			return err
		}
		defer cancel()
		return run(ctx, s)
	})
}

// clusterVerb checks a verb's argument, and returns what it does.
func clusterVerb(c *app.Call, args []string) (func(context.Context, *metastore.Store) error, error) {
	switch args[0] {
	case "dead-letters":
		return func(ctx context.Context, s *metastore.Store) error { return deadLetters(ctx, c, s) }, nil
	case "resolve":
		ref, err := reference(c, args[1])
		return func(ctx context.Context, s *metastore.Store) error { return resolve(ctx, c, s, ref) }, err
	}
	if err := groupcall.CheckName(args[1]); err != nil {
		return nil, app.Usage("%s: the name of a machine or a server: %v", args[0], err)
	}
	return func(ctx context.Context, s *metastore.Store) error {
		v, err := cluster.Open(ctx, s)
		if err != nil {
			return err
		}
		defer v.Close()
		if args[0] == "resume" {
			return resume(ctx, c, s, v, args[1])
		}
		return drain(ctx, c, s, v, args[1])
	}, nil
}

// resume says so where there is nothing to undo: the name may be mistyped.
func resume(ctx context.Context, c *app.Call, s *metastore.Store, v *cluster.View, name string) error {
	if drained := v.Drained(); !slices.Contains(drained, name) {
		fmt.Fprintf(c.Stderr, "%s: %s wasn't drained; drained are: %.500q\n", c.Program, name, drained)
	}
	return cluster.Resume(ctx, s, name)
}

// drain also takes names that aren't there now, and says so.
func drain(ctx context.Context, c *app.Call, s *metastore.Store, v *cluster.View, name string) error {
	known := slices.ContainsFunc(v.Members(), func(m cluster.Member) bool { return m.Name == name })
	if _, ok := v.Server(name); !ok && !known {
		fmt.Fprintf(c.Stderr, "%s: %s isn't there now: it is drained when it comes\n", c.Program, name)
	}
	return cluster.Drain(ctx, s, name, groupcall.Who())
}

// picture is the cluster at one moment.
type picture struct {
	Leader    string            `json:"leader,omitempty"`
	Members   []cluster.Member  `json:"members"`
	Servers   []cluster.Server  `json:"servers"`
	Drained   []string          `json:"drained"`
	Health    healths           `json:"health,omitempty"`    // of machines that simulate experiments; others are good
	Apart     map[string]string `json:"apart,omitempty"`     // machines that can't reach others of the group, and which
	Malformed map[string]string `json:"malformed,omitempty"` // members whose values can't be read
}

// healths is what the leader of experiments says of machines.
type healths map[string]fleet.Condition

// healthOf reads that.
func healthOf(ctx context.Context, s *metastore.Store) (healths, error) {
	r, err := fleet.ReadHealth(ctx, s)
	if bad := (*fleet.MalformedError)(nil); errors.As(err, &bad) {
		return nil, nil // a newer leader's: it isn't shown
	}
	return r.Machines, err
}

// look makes a picture. Where the store can't say who leads now, it is who led before.
func look(ctx context.Context, c *app.Call, s *metastore.Store, v *cluster.View, before string) (*picture, error) {
	limited, cancel, err := groupcall.Bounded(ctx, c)
	if err != nil {
		return nil, err
	}
	defer cancel()
	leader, _, err := v.Leader(limited)
	switch {
	case err != nil && ctx.Err() != nil, err != nil && !c.Bool("watch"):
		return nil, err
	case err != nil:
		leader.Member = before
	}
	health, err := healthOf(limited, s)
	if err != nil && (ctx.Err() != nil || !c.Bool("watch")) {
		return nil, err
	}
	apart, err := fleet.ReadUnreachable(limited, s)
	if err != nil && (ctx.Err() != nil || !c.Bool("watch")) {
		return nil, err
	}
	p := &picture{Leader: leader.Member, Health: health, Apart: apart,
		Members: append([]cluster.Member{}, v.Members()...),
		Servers: append([]cluster.Server{}, v.Servers()...), Drained: append([]string{}, v.Drained()...)}
	for name, err := range v.Malformed() {
		if p.Malformed == nil {
			p.Malformed = map[string]string{}
		}
		p.Malformed[name] = err.Error()
	}
	return p, nil
}

func showCluster(ctx context.Context, c *app.Call, s *metastore.Store) error {
	limited, cancel, err := groupcall.Bounded(ctx, c)
	if err != nil {
		return err
	}
	defer cancel()
	v, err := cluster.Open(limited, s)
	if err != nil {
		return err
	}
	defer v.Close()
	if !c.Bool("watch") {
		p, err := look(ctx, c, s, v, "")
		if err == nil {
			err = p.write(c)
		}
		return err
	}
	changed := make(chan struct{}, 1)
	note := func() {
		select {
		case changed <- struct{}{}:
		default: // it is to be shown anyway
		}
	}
	w, err := v.WatchLeader(limited, note)
	if err != nil {
		return err
	}
	defer w.Stop()
	h, err := fleet.FollowHealth(s, func() bool { note(); return ctx.Err() == nil })
	if err != nil {
		return err
	}
	defer h.Stop()
	go func() {
		for change, err := v.AwaitAvailable(ctx, 0); err == nil; change, err = v.AwaitAvailable(ctx, change) {
			note()
		}
	}()
	return follow(ctx, c, s, note, func(ctx context.Context) error { return showChanges(ctx, c, s, v, changed) })
}

// showChanges shows the cluster after each change.
func showChanges(ctx context.Context, c *app.Call, s *metastore.Store, v *cluster.View,
	changed <-chan struct{}) error {
	for leader := ""; ; {
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		p, err := look(ctx, c, s, v, leader)
		if err != nil {
			return err
		}
		leader = p.Leader
		c.Clear()
		if err := p.write(c); err != nil {
			return err
		}
		// What happens at once is shown at once, but not more often than people can read.
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (p *picture) write(c *app.Call) error {
	if c.Bool("json") {
		return groupcall.WriteJSON(c.Stdout, p, c.Bool("watch"))
	}
	out := &strings.Builder{}
	p.members(out)
	p.servers(out)
	for _, name := range slices.Sorted(maps.Keys(p.Malformed)) {
		fmt.Fprintf(out, "%s: its value can't be read: %s\n", name, p.Malformed[name])
	}
	_, err := io.WriteString(c.Stdout, out.String()+"\n")
	return err
}

func (p *picture) members(out *strings.Builder) {
	if len(p.Members) == 0 {
		fmt.Fprintln(out, "There is no machine: `agent --store URL` makes one a member.")
		return
	}
	rows := [][]string{{"machine", "status", "for", "slots", "version", "host", "roles", ""}}
	for _, m := range p.Members {
		note := []string{}
		if m.Name == p.Leader {
			note = append(note, "leads")
		}
		if slices.Contains(p.Drained, m.Name) {
			note = append(note, "drained")
		}
		if h, not := p.Health[m.Name]; not && h.Health != fleet.Gone {
			note = append(note, fmt.Sprintf("%v: %s", h.Health, h.Reason))
		}
		if why := p.Apart[m.Name]; why != "" {
			note = append(note, why)
		}
		rows = append(rows, []string{m.Name, string(m.Status), groupcall.Since(m.Since), fmt.Sprint(m.Slots), m.Version,
			m.Host,
			strings.Join(m.Roles, ","), strings.Join(note, ", ")})
	}
	groupcall.Columns(out, rows)
}

func (p *picture) servers(out *strings.Builder) {
	if len(p.Servers) == 0 {
		return
	}
	rows := [][]string{{"server", "state", "for", "hosts", "nodes", ""}}
	for _, s := range p.Servers {
		hosts, note := "", s.Reason
		if s.Info.Assignment != nil && s.State != cluster.Available {
			hosts = s.Info.Assignment.String()
		}
		if slices.Contains(p.Drained, s.Name) || slices.Contains(p.Drained, s.Info.Member) {
			note = strings.TrimPrefix(note+", drained", ", ")
		}
		rows = append(rows, []string{s.Name, s.State.String(), groupcall.Since(s.Since), hosts,
			fmt.Sprint(len(s.Info.Nodes)), note})
	}
	fmt.Fprintln(out)
	groupcall.Columns(out, rows)
}
