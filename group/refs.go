// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/internal/groupcall"
	"github.com/disco-sim/disco/metastore"
)

// resolved is where a reference leads now, for JSON output.
type resolved struct {
	URI         string        `json:"uri"`
	Server      string        `json:"server"`
	State       cluster.State `json:"state"`
	Experiment  string        `json:"expid"`
	Replication string        `json:"repid"`
	Partition   int           `json:"partition"`
	Member      string        `json:"member"`
	Host        string        `json:"host"`
	Address     string        `json:"address,omitempty"`
}

// reference reads a reference to this group.
func reference(c *app.Call, text string) (cluster.Ref, error) {
	ref, err := cluster.ParseRef(text)
	if err != nil {
		return ref, app.Usage("resolve: %v", err)
	}
	if group := c.String("group"); ref.Cluster != group {
		return ref, app.Usage("resolve: %s: found the cluster %q, want the group %q; --group names another one", text,
			ref.Cluster, group)
	}
	return ref, nil
}

// resolve shows which server hosts what a reference names.
func resolve(ctx context.Context, c *app.Call, s *metastore.Store, ref cluster.Ref) error {
	v, err := cluster.Open(ctx, s)
	if err != nil {
		return err
	}
	defer v.Close()
	target, err := cluster.NewResolver[struct{}](v, ref.Cluster, "", nil).Resolve(ref)
	if err != nil {
		return err
	}
	server, _ := v.Server(target.Server)
	found := resolved{URI: ref.String(), Server: target.Server, State: server.State,
		Replication: target.Place.Replication, Member: server.Info.Member}
	if a := server.Info.Assignment; a != nil {
		found.Experiment, found.Partition = a.Experiment, a.Partition
	}
	for _, m := range v.Members() {
		if m.Name == found.Member {
			found.Host, found.Address = m.Host, m.Address
		}
	}
	if c.Bool("json") {
		return groupcall.WriteJSON(c.Stdout, found, false)
	}
	out := &strings.Builder{}
	groupcall.Columns(out, [][]string{{"server", "state", "hosts", "machine", "host", "address"},
		{found.Server, found.State.String(), server.Info.Assignment.String(), found.Member, found.Host, found.Address}})
	_, err = fmt.Fprint(c.Stdout, out)
	return err
}

// lettersOf is one server's dead letters, for JSON output.
type lettersOf struct {
	Server string `json:"server"`
	cluster.DeadLetters
	Malformed string `json:"malformed,omitempty"`
}

// deadLetters shows which references the group's servers couldn't resolve.
func deadLetters(ctx context.Context, c *app.Call, s *metastore.Store) error {
	found, malformed, err := cluster.ReadDeadLetters(ctx, s)
	if err != nil {
		return err
	}
	all := []lettersOf{}
	for name, letters := range found {
		all = append(all, lettersOf{Server: name, DeadLetters: letters})
	}
	for name, err := range malformed {
		all = append(all, lettersOf{Server: name, Malformed: err.Error()})
	}
	slices.SortFunc(all, func(a, b lettersOf) int { return strings.Compare(a.Server, b.Server) })
	if c.Bool("json") {
		return groupcall.WriteJSON(c.Stdout, all, false)
	}
	out := &strings.Builder{}
	if len(all) == 0 {
		fmt.Fprintln(out, "There are no dead letters: the servers that are there could resolve every reference.")
	}
	for _, l := range all {
		if l.Malformed != "" {
			fmt.Fprintf(out, "%s: its dead letters can't be read: %s\n", l.Server, l.Malformed)
			continue
		}
		fmt.Fprintf(out, "%s: %d; the last %d references:\n", l.Server, l.Times, len(l.Last))
		var rows [][]string
		for _, d := range l.Last {
			rows = append(rows, []string{fmt.Sprintf("  %d times", d.Times), d.URI, d.Reason})
		}
		groupcall.Columns(out, rows)
	}
	_, err = fmt.Fprint(c.Stdout, out)
	return err
}
