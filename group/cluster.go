// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/user"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/metastore"
	"github.com/urfave/cli/v2"
)

func clusterCommand() app.Command {
	return app.Command{
		Name: "cluster", Usage: "shows the machines of a group, their servers, and what these do",
		ArgsUsage: "[drain|resume NAME]",
		Description: "drain NAME   places nothing new on a machine or a server; what runs goes on\n" +
			"resume NAME  undoes that",
		Flags: append(storeFlags(),
			&cli.BoolFlag{Name: "json", Usage: "write JSON; with --watch one object a line"},
			&cli.BoolFlag{Name: "watch", Usage: "show it again whenever something changes, until Ctrl-C"}),
		Run: runCluster,
	}
}

func runCluster(c *app.Call) error {
	args := c.Args().Slice()
	switch {
	case len(args) == 0:
		return withStore(c, 0, func(ctx context.Context, s *metastore.Store) error { return showCluster(ctx, c, s) })
	case args[0] != "drain" && args[0] != "resume":
		return app.Usage("there is no verb %q: want drain or resume, or none", args[0])
	case len(args) != 2:
		return app.Usage("%s: found %d arguments behind it, want the NAME of a machine or a server", args[0],
			len(args)-1)
	case c.Bool("watch") || c.Bool("json"):
		return app.Usage("--watch and --json are for showing, %s shows nothing", args[0])
	}
	if _, err := metastore.Path("", args[1]); err != nil || strings.Contains(args[1], "/") {
		return app.Usage("%q can't be the name of a machine or a server", args[1])
	}
	return withStore(c, 0, func(ctx context.Context, s *metastore.Store) error {
		ctx, cancel, err := bounded(ctx, c)
		if err != nil {
			return err
		}
		defer cancel()
		if args[0] == "resume" {
			return cluster.Resume(ctx, s, args[1])
		}
		return drain(ctx, c, s, args[1])
	})
}

// drain also takes names that aren't there now, and says so.
func drain(ctx context.Context, c *app.Call, s *metastore.Store, name string) error {
	v, err := cluster.Open(ctx, s)
	if err != nil {
		return err
	}
	defer v.Close()
	known := slices.ContainsFunc(v.Members(), func(m cluster.Member) bool { return m.Name == name })
	if _, ok := v.Server(name); !ok && !known {
		fmt.Fprintf(c.Stderr, "%s: %s isn't there now: it is drained when it comes\n", c.Program, name)
	}
	return cluster.Drain(ctx, s, name, who())
}

// who is the user, for others to ask.
func who() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	if u, err := user.Current(); err == nil {
		return u.Username + "@" + host
	}
	return host
}

// picture is the cluster at one moment.
type picture struct {
	Leader    string            `json:"leader,omitempty"`
	Members   []cluster.Member  `json:"members"`
	Servers   []cluster.Server  `json:"servers"`
	Drained   []string          `json:"drained"`
	Malformed map[string]string `json:"malformed,omitempty"` // members whose values can't be read
}

func look(ctx context.Context, v *cluster.View) (*picture, error) {
	leader, _, err := v.Leader(ctx)
	if err != nil {
		return nil, err
	}
	p := &picture{Leader: leader.Member, Members: append([]cluster.Member{}, v.Members()...),
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
	limited, cancel, err := bounded(ctx, c)
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
		p, err := look(limited, v)
		if err == nil {
			err = p.write(c)
		}
		return err
	}
	for change := uint64(0); ; {
		if change, err = v.AwaitAvailable(ctx, change); err != nil {
			return err
		}
		p, err := look(ctx, v)
		if err != nil {
			return err
		}
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
		return writeJSON(c.Stdout, p)
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
		rows = append(rows, []string{m.Name, string(m.Status), since(m.Since), fmt.Sprint(m.Slots), m.Version, m.Host,
			strings.Join(m.Roles, ","), strings.Join(note, ", ")})
	}
	columns(out, rows)
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
		rows = append(rows, []string{s.Name, s.State.String(), since(s.Since), hosts,
			fmt.Sprint(len(s.Info.Nodes)), note})
	}
	fmt.Fprintln(out)
	columns(out, rows)
}

// since is how long ago another machine's clock says that something was; clocks differ, so that it is 0 at least.
func since(t time.Time) string {
	return max(0, time.Since(t)).Round(time.Second).String()
}

// columns writes rows below each other.
func columns(out *strings.Builder, rows [][]string) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	_ = w.Flush() // a Builder takes everything
}
