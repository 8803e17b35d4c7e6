// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/disco-sim/disco/internal/checkpoint"
	tables "github.com/disco-sim/disco/internal/table"
	"github.com/urfave/cli/v2"
)

// storeRow is what is shown of a run that has checkpoints, in JSON.
type storeRow struct {
	Dir            string   `json:"dir"`
	Run            string   `json:"run"`
	File           string   `json:"file"`
	Kind           string   `json:"kind"`
	Seed           uint64   `json:"seed"`
	Replications   int      `json:"replications"`
	HorizonSeconds float64  `json:"horizon_s"`
	NumNodes       int64    `json:"nodes"`
	NumSimprocs    int64    `json:"simprocs"`
	Version        string   `json:"version"`
	Program        string   `json:"program"`
	Graph          string   `json:"graph"`
	From           *fromRow `json:"from,omitempty"` // of a run that goes on from another one's checkpoint
}

// fromRow is the checkpoint of another run, in JSON.
type fromRow struct {
	Run          string               `json:"run"`
	EpochSeconds float64              `json:"epoch_s"`
	Check        string               `json:"check"`
	Set          []checkpoint.Setting `json:"set"` // what the other run was run with
}

// String is as in "from epoch 20 of run 1234abcd…".
func (f *fromRow) String() string {
	text := fmt.Sprintf("goes on from epoch %v of run %.8s…", f.EpochSeconds, f.Run)
	for i, s := range f.Set {
		if i == 0 {
			text += ", which was run with"
		}
		text += fmt.Sprintf(" %s=%s", s.Key, s.Value)
	}
	return text
}

// checkpointRow is a checkpoint, in JSON.
type checkpointRow struct {
	Replication  int      `json:"replication"`
	EpochSeconds float64  `json:"epoch_s"` // finished: what was reached; 0 where its manifest is damaged
	Finished     bool     `json:"finished"`
	Labels       []string `json:"labels"`
	Events       uint64   `json:"events"`
	Activations  uint64   `json:"activations"`
	TraceHash    string   `json:"trace_hash"`
	Check        string   `json:"check"`
	Written      string   `json:"written"`
	PauseSeconds float64  `json:"pause_s"`
	RawBytes     int64    `json:"raw_bytes"`
	StoredBytes  int64    `json:"stored_bytes"`
	NewBytes     int64    `json:"new_bytes"`
	Damage       string   `json:"damage,omitempty"` // then the rest isn't known
}

// labelRow is a label, in JSON.
type labelRow struct {
	Label        string  `json:"label"`
	EpochSeconds float64 `json:"epoch_s"`
}

// checkpointList is what list shows.
type checkpointList struct {
	storeRow
	Checkpoints []checkpointRow `json:"checkpoints"` // by replication and epoch, the end of a replication behind these
	Labels      []labelRow      `json:"labels"`
}

func newStoreRow(r *checkpoint.Repo) storeRow {
	run := r.Run()
	row := storeRow{r.String(), run.ID.String(), run.File, run.Kind, run.Seed, run.Replications, run.Horizon, run.Nodes,
		run.Simprocs, run.Disco, run.Program.String(), run.Graph.String(), nil}
	if f := run.From; f != nil {
		row.From = &fromRow{f.Run.String(), f.Epoch, f.Manifest.String(), f.Settings}
	}
	return row
}

// String describes a run in one line.
func (s *storeRow) String() string {
	return fmt.Sprintf("%s: run %.8s…, %s (%s), seed %d, %s, horizon %g s, %s", s.Dir, s.Run, s.File, s.Kind, s.Seed,
		count(s.Replications, "replication"), s.HorizonSeconds, count(int(s.NumNodes), "node")) + s.from()
}

// from is a line of its own about what the run goes on from.
func (s *storeRow) from() string {
	if s.From == nil {
		return ""
	}
	return "\n" + s.From.String()
}

func newCheckpointRow(m *checkpoint.Manifest, labels map[string]float64) checkpointRow {
	row := checkpointRow{m.Replication, m.Epoch, m.Finished, []string{}, m.Events, m.Activations, m.TraceHash.String(),
		m.Check.String(), m.Wall.Written, m.Wall.Pause, m.Wall.Raw, m.Wall.Stored, m.Wall.New, ""}
	for _, label := range sortedLabels(labels) {
		if labels[label] == m.Epoch && !m.Finished {
			row.Labels = append(row.Labels, label)
		}
	}
	return row
}

func sortedLabels(labels map[string]float64) []string { return slices.Sorted(maps.Keys(labels)) }

// labelNames lists some labels, for a message.
func labelNames(labels map[string]float64) string {
	const shown = 10
	names := sortedLabels(labels)
	if len(names) == 0 {
		return "one of those that there are: none"
	}
	list := strings.Join(names[:min(shown, len(names))], ", ")
	if len(names) > shown {
		list += ", …"
	}
	return "one of " + list
}

// listCommand lists checkpoints.
func (p *program) listCommand() *cli.Command {
	return p.storeCommand(cli.Command{
		Name:      "list",
		Usage:     "lists the checkpoints of a run",
		ArgsUsage: "DIR",
		Flags:     []cli.Flag{replicationFlag("all"), storeJSONFlag()},
	}, func(c *cli.Context) error {
		args := c.Args().Slice()
		if err := storeArgs(args, 1, 1, wantsDir); err != nil {
			return err
		}
		return p.readStore(c.Context, args[0], func(r *checkpoint.Repo) error { return p.list(c, r) })
	})
}

// list is the command.
func (p *program) list(c *cli.Context, r *checkpoint.Repo) error {
	v := &values{c: c}
	replication, path := v.replication(r), v.jsonPath()
	if err := v.err(); err != nil {
		return err
	}
	list, damage, err := listStore(c.Context, r, replication)
	if err != nil {
		return err
	}
	if path != "-" {
		p.showList(list)
	}
	return errors.Join(damage, p.writeStoreJSON(path, list))
}

// writeStoreJSON writes what a command shows where --json says; "" is nowhere.
func (p *program) writeStoreJSON(path string, shown any) error {
	if path == "" {
		return nil
	}
	text, err := encode(shown)
	if err != nil {
		return err
	}
	return p.write("--json", path, (&jsonText{before: text}).writeTo)
}

// listStore reads the manifests of a replication, of all for -1. damage says which are damaged, of labels, too.
func listStore(ctx context.Context, r *checkpoint.Repo, replication int) (
	list *checkpointList, damage, err error) {
	list = &checkpointList{storeRow: newStoreRow(r), Checkpoints: []checkpointRow{}, Labels: []labelRow{}}
	points, err := r.Points(ctx)
	if err != nil {
		return nil, nil, err
	}
	slices.SortStableFunc(points, func(a, b checkpoint.Point) int {
		if a.Replication == b.Replication && a.Finished != b.Finished {
			if a.Finished {
				return 1
			}
			return -1
		}
		return a.Replication - b.Replication // each by epoch already
	})
	labels, damage := r.Labels(ctx)
	for _, label := range sortedLabels(labels) {
		list.Labels = append(list.Labels, labelRow{label, labels[label]})
	}
	for _, point := range points {
		if replication >= 0 && point.Replication != replication {
			continue
		}
		m, err := r.Load(ctx, point)
		var missing *checkpoint.MissingError
		switch {
		case errors.As(err, &missing):
			continue // pruned meanwhile
		case err != nil:
			damage = errors.Join(damage, err)
			list.Checkpoints = append(list.Checkpoints, checkpointRow{Replication: point.Replication,
				EpochSeconds: point.Epoch, Finished: point.Finished, Labels: []string{}, Damage: err.Error()})
		default:
			list.Checkpoints = append(list.Checkpoints, newCheckpointRow(m, labels))
		}
	}
	return list, damage, nil
}

// showList prints a list of checkpoints.
func (p *program) showList(list *checkpointList) {
	fmt.Fprintln(p.stdout, &list.storeRow)
	t := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "replication\tepoch\tevents\tcalls\tstored\tnew\twritten\tcheck\tlabels\t")
	here := map[float64]bool{}
	for i := range list.Checkpoints {
		c := &list.Checkpoints[i]
		epoch := fmt.Sprint(c.EpochSeconds)
		here[c.EpochSeconds] = true
		if c.Finished {
			epoch = "finished"
		}
		if c.Damage != "" {
			fmt.Fprintf(t, "%d\t%s\t-\t-\t-\t-\tdamaged\t-\t-\t\n", c.Replication, epoch)
			continue
		}
		labels := strings.Join(c.Labels, ",")
		if labels == "" {
			labels = "-"
		}
		fmt.Fprintf(t, "%d\t%s\t%d\t%d\t%s\t%s\t%s\t%.8s\t%s\t\n", c.Replication, epoch, c.Events, c.Activations,
			shortBytes(c.StoredBytes), shortBytes(c.NewBytes), orNone(c.Written), c.Check, labels)
	}
	if len(list.Checkpoints) == 0 {
		fmt.Fprintln(p.stdout, "there is no checkpoint yet")
		return
	}
	_ = t.Flush() // the writer behind it keeps its errors
	for _, l := range list.Labels {
		if !here[l.EpochSeconds] {
			fmt.Fprintf(p.stdout, "label %s is epoch %v, of which no checkpoint is listed\n", l.Label, l.EpochSeconds)
		}
	}
}

func orNone(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// shortBytes is a number of bytes for people.
func shortBytes(n int64) string {
	text := short(float64(n))
	if !strings.Contains(text, " ") {
		text += " "
	}
	return text + "B"
}

// checkpointDocument is what show shows.
type checkpointDocument struct {
	storeRow
	Checkpoint checkpointRow        `json:"checkpoint"`
	Chunks     []chunkRow           `json:"chunks"` // by kind
	Packs      []checkpoint.Pack    `json:"packs"`
	Versions   []checkpoint.Version `json:"versions"`
}

// chunkRow is all chunks of a kind.
type chunkRow struct {
	Kind        string `json:"kind"`
	Chunks      int    `json:"chunks"`
	RawBytes    int64  `json:"raw_bytes"`
	StoredBytes int64  `json:"stored_bytes"`
	NewBytes    int64  `json:"new_bytes"` // in its own pack
}

// showCommand shows one checkpoint.
func (p *program) showCommand() *cli.Command {
	return p.storeCommand(cli.Command{
		Name:      "show",
		Usage:     "shows what a checkpoint is of, and what it has",
		ArgsUsage: "DIR",
		Flags:     []cli.Flag{whichFlag(), replicationFlag(replicationDefault), storeJSONFlag()},
	}, func(c *cli.Context) error {
		args := c.Args().Slice()
		if err := storeArgs(args, 1, 1, wantsDir); err != nil {
			return err
		}
		return p.readStore(c.Context, args[0], func(r *checkpoint.Repo) error { return p.showStored(c, r) })
	})
}

// showStored is the command.
func (p *program) showStored(c *cli.Context, r *checkpoint.Repo) error {
	v := &values{c: c}
	path := v.jsonPath()
	if err := v.err(); err != nil {
		return err
	}
	m, err := find(c, r)
	if err != nil {
		return err
	}
	d, err := newCheckpointDocument(c.Context, r, m)
	if err != nil {
		return err
	}
	if path != "-" {
		p.showCheckpoint(d)
	}
	return p.writeStoreJSON(path, d)
}

// newCheckpointDocument reads what chunks a checkpoint has.
func newCheckpointDocument(ctx context.Context, r *checkpoint.Repo, m *checkpoint.Manifest) (
	*checkpointDocument, error) {
	labels, err := r.Labels(ctx)
	if err != nil {
		return nil, err
	}
	d := &checkpointDocument{storeRow: newStoreRow(r), Checkpoint: newCheckpointRow(m, labels), Chunks: []chunkRow{},
		Packs: m.Packs, Versions: m.Versions}
	err = r.Chunks(ctx, m, func(c checkpoint.Chunk) error {
		if n := len(d.Chunks); n == 0 || d.Chunks[n-1].Kind != c.Kind.String() {
			d.Chunks = append(d.Chunks, chunkRow{Kind: c.Kind.String()})
		}
		row := &d.Chunks[len(d.Chunks)-1]
		row.Chunks++
		row.RawBytes += c.Raw
		row.StoredBytes += c.Size
		if c.Pack == m.Packs[0] {
			row.NewBytes += c.Size
		}
		return nil
	})
	return d, err
}

// showCheckpoint prints one checkpoint.
func (p *program) showCheckpoint(d *checkpointDocument) {
	c := &d.Checkpoint
	fmt.Fprintf(p.stdout, "%s\nmade with %s, program %.16s…, graph %.16s…\n\n", &d.storeRow, orNone(d.Version),
		d.Program, d.Graph)
	fmt.Fprintf(p.stdout, "replication %d, epoch %v\n", c.Replication, c.EpochSeconds)
	fmt.Fprintf(p.stdout, "events %d, calls of handlers %d\ntrace hash %s\ncheck %s\n", c.Events, c.Activations,
		c.TraceHash, c.Check)
	if len(c.Labels) > 0 {
		fmt.Fprintf(p.stdout, "labels %s\n", strings.Join(c.Labels, ", "))
	}
	fmt.Fprintf(p.stdout, "written %s, after a pause of %s; in %s\n\n", orNone(c.Written),
		tables.Seconds(c.PauseSeconds), tables.Plural(len(d.Packs), "pack"))
	t := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "kind\tchunks\tbytes\tstored\tnew\t")
	for _, row := range d.Chunks {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t\n", row.Kind, row.Chunks, shortBytes(row.RawBytes),
			shortBytes(row.StoredBytes), shortBytes(row.NewBytes))
	}
	_ = t.Flush() // the writer behind it keeps its errors
	if len(d.Versions) == 0 {
		return
	}
	t = tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\nhandler\tversion of its state\t")
	for _, v := range d.Versions {
		fmt.Fprintf(t, "%s\t%d\t\n", v.Handler, v.Version)
	}
	_ = t.Flush()
}
