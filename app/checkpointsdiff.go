// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/nodediff"
	tables "github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
	"github.com/urfave/cli/v2"
)

const (
	diffNodesDefault = 20
	diffNodesMax     = 10000
)

// diffDocument is what diff shows, in JSON.
type diffDocument struct {
	A         diffSide   `json:"a"`
	B         diffSide   `json:"b"`
	NumNodes  int64      `json:"nodes"`
	Differing int64      `json:"nodes_that_differ"`
	Bytes     int64      `json:"bytes_that_differ"`
	Nodes     []diffNode `json:"differences"` // largest first
}

// diffSide is one of two checkpoints.
type diffSide struct {
	Dir          string  `json:"dir"`
	Run          string  `json:"run"`
	Replication  int     `json:"replication"`
	EpochSeconds float64 `json:"epoch_s"`
	TraceHash    string  `json:"trace_hash"`
	Check        string  `json:"check"`
}

// diffNode is a node that differs.
type diffNode struct {
	Node     int64         `json:"node"`
	Name     string        `json:"name"` // empty where the scenario can't be read
	Bytes    int64         `json:"bytes_that_differ"`
	Simprocs []diffSimproc `json:"simprocs"` // that differ
}

// diffSimproc is one of its simprocs.
type diffSimproc struct {
	Rank int    `json:"rank"`
	Name string `json:"name"`
	At   int    `json:"handler_differs_at"` // byte of its handler's state; -1: nowhere
	// Floors tells that floors of single links differ.
	Floors bool `json:"floors_of_links_differ"`

	A diffState `json:"a"`
	B diffState `json:"b"`
}

// diffState is what a checkpoint has of a simproc.
type diffState struct {
	NowSeconds   float64    `json:"now_s"`
	Number       uint64     `json:"number"`
	Hash         string     `json:"hash"`
	FloorSeconds float64    `json:"floor_s"`
	NumFloors    int        `json:"links_with_floors"`
	Pending      int        `json:"pending"`
	Event        *diffEvent `json:"first_pending_that_differs"` // null: none
	Version      uint32     `json:"handler_version"`
	HandlerBytes int        `json:"handler_bytes"`
	ShownFrom    int        `json:"shown_from"`
	Shown        string     `json:"shown"` // hexadecimal
}

// diffEvent is something pending.
type diffEvent struct {
	EpochSeconds float64 `json:"epoch_s"`
	Wakeup       bool    `json:"wakeup"`
	Sender       string  `json:"sender"`
	Number       uint64  `json:"number"`
	DataBytes    int     `json:"data_bytes"`
}

// diffCommand compares two checkpoints.
func (p *program) diffCommand() *cli.Command {
	const wants = "DIR A B, or DIR A OTHER-DIR B, where A and B are latest, labels, epochs or digits of checks"
	return p.storeCommand(cli.Command{
		Name:      "diff",
		Usage:     "compares two checkpoints, and shows the nodes that differ most",
		ArgsUsage: "DIR A [OTHER-DIR] B",
		Description: "A and B are latest, labels, epochs, or at least 8 digits of checks; the second one is in\n" +
			"OTHER-DIR, where that is given. Nodes with the most bytes that differ come first. The exit status is 0\n" +
			"where all nodes are equal, 1 where some differ.",
		Flags: []cli.Flag{replicationFlag(replicationDefault),
			textFlag(groupOutput, "nodes", fmt.Sprint(diffNodesDefault), "show the first `N` nodes that differ"),
			storeJSONFlag()},
	}, func(c *cli.Context) error {
		args := c.Args().Slice()
		if err := storeArgs(args, 3, 4, wants); err != nil {
			return err
		}
		if len(args) == 3 {
			args = []string{args[0], args[1], args[0], args[2]}
		}
		v := &values{c: c}
		path, most := v.jsonPath(), v.integer("nodes", diffNodesDefault, 1, diffNodesMax)
		side := func(r *checkpoint.Repo, at string) (nodediff.Side, error) {
			replication := v.replication(r)
			if err := v.err(); err != nil {
				return nodediff.Side{}, err
			}
			m, err := findAt(c.Context, r, at, replication)
			return nodediff.Side{Repo: r, Manifest: m}, err
		}
		return p.readStore(c.Context, args[0], func(a *checkpoint.Repo) error {
			return p.readStore(c.Context, args[2], func(b *checkpoint.Repo) error {
				sideA, errA := side(a, args[1])
				sideB, errB := side(b, args[3])
				if err := cmp.Or(errA, errB); err != nil {
					return err
				}
				return p.diff(c.Context, [2]nodediff.Side{sideA, sideB}, most, path)
			})
		})
	})
}

// diff compares and shows.
func (p *program) diff(ctx context.Context, sides [2]nodediff.Side, most int, path string) error {
	found, err := nodediff.Compare(ctx, sides[0], sides[1], most)
	if err != nil {
		return err
	}
	var names storeNames
	if found.Nodes > 0 {
		if names, err = p.namesOf(sides[0].Repo.Run()); err != nil {
			fmt.Fprintf(p.stderr, "%s: nodes have no names here, because the scenario can't be read: %v\n", p.name, err)
		}
	}
	d := newDiffDocument(sides, found, &names)
	if path != "-" {
		p.showDiff(d)
	}
	if err := p.writeStoreJSON(path, d); err != nil {
		return err
	}
	if found.Nodes > 0 {
		return fmt.Errorf("%s of %s differ", tables.Count(found.Nodes), tables.Plural(int(d.NumNodes), "node"))
	}
	return nil
}

// storeNames are the names of a run's nodes, where its scenario can be read.
type storeNames struct{ graph *node.Graph }

// namesOf reads a run's scenario.
func (p *program) namesOf(run *checkpoint.Run) (names storeNames, err error) {
	doc, err := storedDocument(run)
	if err != nil {
		return names, err
	}
	s, err := p.registry.Load(doc, scenario.Options{Horizon: run.Horizon, Series: run.Series})
	if err != nil {
		return names, err
	}
	g, err := scenario.GraphOf(s)
	if err != nil {
		return names, err
	}
	if int64(g.Len()) != run.Nodes || int64(g.NumSimprocs()) != run.Simprocs {
		return names, fmt.Errorf("it has %d nodes and %d simprocs now, and had %d and %d", g.Len(), g.NumSimprocs(),
			run.Nodes, run.Simprocs)
	}
	names.graph = g
	return names, nil
}

// storedDocument is the scenario of a run, with what was set, and the files that it refers to.
func storedDocument(run *checkpoint.Run) (*scenario.Document, error) {
	doc, err := scenario.Parse(run.File, run.Text)
	if err != nil {
		return nil, err
	}
	if doc, err = doc.With(storedSettings(run)); err != nil {
		return nil, err
	}
	return doc.Attach(storedFiles(run)), nil
}

func (n *storeNames) node(i int64) string {
	if n.graph == nil {
		return ""
	}
	return n.graph.Node(int(i)).Name
}

func (n *storeNames) layer(rank int) string {
	if n.graph == nil {
		return fmt.Sprintf("simproc %d", rank)
	}
	return n.graph.Simprocs[rank]
}

func (n *storeNames) simproc(id uint32) string {
	if n.graph == nil {
		return fmt.Sprintf("simproc %d", id)
	}
	return n.graph.Name(node.SimprocID(id))
}

func newDiffDocument(sides [2]nodediff.Side, found *nodediff.Difference, names *storeNames) *diffDocument {
	d := &diffDocument{NumNodes: sides[0].Repo.Run().Nodes, Differing: found.Nodes, Bytes: found.Bytes,
		Nodes: []diffNode{}}
	for i, side := range []*diffSide{&d.A, &d.B} {
		m := sides[i].Manifest
		*side = diffSide{sides[i].Repo.String(), m.Run.String(), m.Replication, m.Epoch, m.TraceHash.String(),
			m.Check.String()}
	}
	for i := range found.Most {
		n := &found.Most[i]
		row := diffNode{Node: n.Index, Name: names.node(n.Index), Bytes: n.Bytes, Simprocs: []diffSimproc{}}
		for k := range n.Simprocs {
			s := &n.Simprocs[k]
			row.Simprocs = append(row.Simprocs, diffSimproc{s.Rank, names.layer(s.Rank), s.Handler, s.Floors,
				newDiffState(&s.States[0], names), newDiffState(&s.States[1], names)})
		}
		d.Nodes = append(d.Nodes, row)
	}
	return d
}

func newDiffState(s *nodediff.State, names *storeNames) diffState {
	d := diffState{NowSeconds: finite(s.Now), Number: s.Number, Hash: fmt.Sprintf("%016x", s.Hash),
		FloorSeconds: finite(s.Floor), NumFloors: s.Floors, Pending: s.Pending, Version: s.Version,
		HandlerBytes: s.Size, ShownFrom: s.From, Shown: fmt.Sprintf("%x", s.Around)}
	if e := s.Event; e != nil {
		d.Event = &diffEvent{EpochSeconds: finite(e.Epoch), Wakeup: e.Wakeup, Number: e.Number, DataBytes: len(e.Data)}
		if !e.Wakeup {
			d.Event.Sender = names.simproc(e.Sender)
		}
	}
	return d
}

// showDiff prints what differs.
func (p *program) showDiff(d *diffDocument) {
	for _, side := range []struct {
		name string
		*diffSide
	}{{"A", &d.A}, {"B", &d.B}} {
		fmt.Fprintf(p.stdout, "%s: %s, replication %d, epoch %v, trace hash %s, check %.8s\n", side.name, side.Dir,
			side.Replication, side.EpochSeconds, side.TraceHash, side.Check)
	}
	if d.Differing == 0 {
		fmt.Fprintf(p.stdout, "all %s are equal\n", tables.Plural(int(d.NumNodes), "node"))
		return
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		name := ""
		if n.Name != "" {
			name = " (" + n.Name + ")"
		}
		fmt.Fprintf(p.stdout, "\nnode %d%s: %s differ\n", n.Node, name, tables.Plural(int(n.Bytes), "byte"))
		for k := range n.Simprocs {
			showDiffSimproc(p.stdout, &n.Simprocs[k])
		}
	}
	if left := d.Differing - int64(len(d.Nodes)); left > 0 {
		fmt.Fprintf(p.stdout, "\nand %s, of which --nodes shows more\n", tables.Plural(int(left), "node"))
	}
}

// showDiffSimproc prints both sides of a simproc; what differs is marked.
func showDiffSimproc(w io.Writer, s *diffSimproc) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	a, b := &s.A, &s.B
	fmt.Fprintf(t, "  %s\tA\tB\n", s.Name)
	for _, row := range []struct {
		name, a, b string
		differs    bool // though the texts may be the same
	}{
		{"now", fmt.Sprintf("%v s", a.NowSeconds), fmt.Sprintf("%v s", b.NowSeconds), false},
		{"events sent", fmt.Sprint(a.Number), fmt.Sprint(b.Number), false},
		{"hash", a.Hash, b.Hash, false},
		{"nothing sent before", a.floors(), b.floors(), s.Floors},
		{"pending", a.pending(), b.pending(), a.Event != nil || b.Event != nil},
		{"handler", a.handler(s.At), b.handler(s.At), s.At >= 0},
	} {
		mark := "   "
		if row.differs || row.a != row.b {
			mark = "  ≠"
		}
		fmt.Fprintf(t, "%s %s\t%s\t%s\n", mark, row.name, row.a, row.b)
	}
	_ = t.Flush() // the writer behind it keeps its errors
}

func (s *diffState) floors() string {
	text := fmt.Sprintf("%v s", s.FloorSeconds)
	if s.NumFloors > 0 {
		text += fmt.Sprintf(", %s with their own", tables.Plural(s.NumFloors, "link"))
	}
	return text
}

// pending is how many events wait, and the first one that differs.
func (s *diffState) pending() string {
	text := fmt.Sprint(s.Pending)
	switch e := s.Event; {
	case e == nil:
		return text
	case e.Wakeup:
		return text + fmt.Sprintf(", a wakeup at %v s", e.EpochSeconds)
	default:
		return text + fmt.Sprintf(", event %d of %s at %v s (%s)", e.Number, e.Sender, e.EpochSeconds,
			shortBytes(int64(e.DataBytes)))
	}
}

// handler is how large a handler's state is, and its bytes around the first one that differs.
func (s *diffState) handler(at int) string {
	text := shortBytes(int64(s.HandlerBytes))
	if s.Version != 1 {
		text += fmt.Sprintf(", version %d", s.Version)
	}
	if at < 0 && s.Shown == "" {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(s.Shown); i += 2 {
		digits := s.Shown[i : i+2]
		if s.ShownFrom+i/2 == at {
			digits = "[" + digits + "]"
		}
		b.WriteString(" " + digits)
	}
	return text + fmt.Sprintf(", from %d:%s", s.ShownFrom, b.String())
}
