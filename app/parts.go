// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/infile"
	"github.com/disco-sim/disco/internal/launch"
	tables "github.com/disco-sim/disco/internal/table"
	"github.com/urfave/cli/v2"
)

// partsMost is how many directories are merged at most: as many as an experiment has pieces. Of a point of a sweep
// there are at most as many as there are replications.
const partsMost = 1_000_000

// partsListMax bounds the file that lists them, in bytes.
const partsListMax = 512 << 20

func onlyFlag() cli.Flag {
	return textFlag(groupWhat, "only", "all", "simulate replication `A` alone, or A-B, of --replications, the first "+
		"of which is 0: with --checkpoint-to a part of the run; merge makes the whole of its parts")
}

// only reads --only: some of so many replications; nil: it isn't given.
func (v *values) only(replications int) *launch.Only {
	if !v.c.IsSet("only") {
		return nil
	}
	text := v.c.String("only")
	a, b, two := strings.Cut(text, "-")
	first, errA := strconv.Atoi(strings.TrimSpace(a))
	last, errB := first, error(nil)
	if two {
		last, errB = strconv.Atoi(strings.TrimSpace(b))
	}
	if errA != nil || errB != nil || first < 0 || last < first || last >= replications {
		v.refuse("only", strconv.Quote(text), fmt.Sprintf("a replication, or the first and the last one as A-B, of 0 "+
			"to %d (--replications %d)", replications-1, replications))
		return nil
	}
	return &launch.Only{First: first, Last: last}
}

// ofAll says which replications are simulated of how many.
func ofAll(cfg *launch.Config) string {
	switch o := cfg.Only; {
	case o == nil:
		return count(cfg.Replications, "replication")
	case o.First == o.Last:
		return fmt.Sprintf("replication %d of %d", o.First, cfg.Replications)
	default:
		return fmt.Sprintf("replications %d to %d of %d", o.First, o.Last, cfg.Replications)
	}
}

// merging is what a run is put together from.
type merging struct {
	resumed resumed
	dirs    []string           // of parts that aren't open
	parts   []*checkpoint.Repo // those that are
	missing []int              // replications that no part has
	file    string             // the scenario's, as it was named to who had the parts simulated; "": as in the parts
	all     int
	partial bool
	points  []*merging    // of a sweep, in the order of its points
	first   launch.Config // of a sweep: that of the first point that has parts, of which all are
}

// mergeCommand makes one run's results of its parts.
func (p *program) mergeCommand() *cli.Command {
	of := []string{"json", "csv", "tables", "require", "trace", "progress", "out", "report", "columns", "records",
		"sweep", "until"}
	flags := slices.DeleteFunc(runFlags(), func(f cli.Flag) bool { return !slices.Contains(of, f.Names()[0]) })
	return p.command(cli.Command{
		Name:  "merge",
		Usage: "puts together the results of a run whose replications were simulated apart",
		Description: "Each DIR is what --checkpoint-to named for a part of the run (--only); parts are of the same\n" +
			"scenario, seed, --replications and program. Results, trace and trace hash are those of one run, as far\n" +
			"as they aren't about workers and wall time. Nothing is simulated, and nothing is written to DIR.\n" +
			"With --sweep, as it was given to the run, each point has parts of its own. With --until replications\n" +
			"are taken in their order until the intervals are narrow enough: of those behind that no parts are needed.",
		ArgsUsage: "DIR …",
		Flags: append(flags,
			&cli.BoolFlag{Category: groupWhat, Name: "partial", DisableDefaultText: true,
				Usage: "also where replications are missing: results are then about those that are there"},
			&cli.BoolFlag{Category: groupWhat, Name: "other-build", DisableDefaultText: true,
				Usage: "also where this isn't the program that has simulated them"},
			&cli.StringSliceFlag{Category: groupWhat, Name: exportFlag, Hidden: true,
				Usage: "have the JSON give the `FIGURE` that a step of a pipeline exports"},
			&cli.StringFlag{Category: groupWhat, Name: calledFlag, Hidden: true,
				Usage: "`COMMAND` that calls this one"},
			&cli.StringFlag{Category: groupWhat, Name: "named", Hidden: true,
				Usage: "`FILE` of the scenario as results are to name it: parts may have been simulated elsewhere"},
			&cli.StringFlag{Category: groupWhat, Name: "parts", Hidden: true,
				Usage: "read directories from `FILE`, one a line: there may be more than a command line takes"}),
	}, func(c *cli.Context) error {
		dirs, points, err := partsOf(c)
		if err != nil {
			return err
		}
		err = storeArgs(dirs, 1, partsMost, "the directories of all parts: what --checkpoint-to named")
		if err != nil {
			return err
		}
		return storeError(p.merge(c, dirs, points))
	})
}

// unknownPoint is that of a part of which nobody has said it.
const unknownPoint = -1

// partsOf are the directories of parts, and of which points of a sweep they are, as far as that is said: a line of
// --parts may begin with a point's number and a tab.
func partsOf(c *cli.Context) (dirs []string, points []int, err error) {
	dirs = c.Args().Slice()
	for range dirs {
		points = append(points, unknownPoint)
	}
	file := c.String("parts")
	if file == "" {
		return dirs, points, nil
	}
	text, err := infile.Read(file, infile.Kind{Name: "a list of directories", BytesMax: partsListMax})
	if err != nil {
		return nil, nil, usage("--parts: %v", err)
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(text), "\n"), "\n") {
		at := unknownPoint
		if before, dir, ok := strings.Cut(line, "\t"); ok {
			if point, err := strconv.Atoi(before); err == nil && point >= 0 {
				at, line = point, dir
			}
		}
		dirs, points = append(dirs, line), append(points, at)
	}
	return dirs, points, nil
}

// merge is the command. Of a sweep the parts of one point at a time are open.
func (p *program) merge(c *cli.Context, dirs []string, points []int) (err error) {
	o, err := p.order(c, dirs[0], "")
	if err != nil {
		return err
	}
	m := &merging{dirs: dirs, file: c.String("named")}
	o.merging = m
	o.exports = c.StringSlice(exportFlag)
	m.partial, m.resumed.otherBuild = c.Bool("partial"), c.Bool("other-build")
	if len(o.sweeps) > 0 {
		err = p.mergePoints(c.Context, o, points)
	} else {
		leave, opened := p.openParts(c.Context, m)
		defer func() { err = errors.Join(err, leave()) }()
		if err = opened; err == nil {
			err = o.mergeParts(c.Context)
		}
	}
	if err != nil {
		return err
	}
	if err := o.checkFiles(); err != nil {
		return err
	}
	return p.perform(o, nil)
}

// openParts opens the parts, until leave is called. What they have in common is in memory once.
func (p *program) openParts(ctx context.Context, m *merging) (leave func() error, err error) {
	var leaves []func() error
	leave = func() (err error) {
		for _, one := range leaves {
			err = errors.Join(err, one())
		}
		m.parts = nil
		return err
	}
	for _, dir := range m.dirs {
		blobs, end, err := p.openBlobs(ctx, dir)
		if err != nil {
			return leave, err
		}
		leaves = append(leaves, end)
		r, err := checkpoint.Open(ctx, blobs)
		if err != nil {
			return leave, err
		}
		if m.parts = append(m.parts, r); len(m.parts) > 1 {
			r.Share(m.parts[0])
		}
	}
	return leave, nil
}

// mergeParts fills in what the parts have of a run, which must be one run's.
func (o *order) mergeParts(ctx context.Context) error {
	m, cfg, partial := o.merging, &o.config, o.merging.partial
	run := m.parts[0].Run()
	for _, r := range m.parts[1:] {
		if field := differs(run, r.Run()); field != "" {
			return usage("found parts of two runs: %v and %v differ in %s; want parts of one", m.parts[0], r, field)
		}
	}
	if partial && len(o.requires) > 0 {
		return usage("--require: found it with --partial, want one of them: what is missing might change the figure")
	}
	var err error
	if cfg.Resume, m.missing, err = launch.Ends(ctx, m.parts); err != nil {
		return err
	}
	if o.until != nil {
		return o.mergeUntil(ctx, run)
	}
	switch n := len(m.missing); {
	case n == run.Replications:
		return fmt.Errorf("none of the %s has ended: %s", count(n, "replication"), m.unended(ctx))
	case n > 0 && !partial:
		return fmt.Errorf("%d of %s are missing: %s; simulate them (run … --only A-B, or resume DIR where it was "+
			"begun), or merge those that are there with --partial", n, count(run.Replications, "replication"),
			ranges(m.missing))
	}
	m.all = run.Replications
	return o.ofParts(run)
}

// ofParts fills in what the run of parts is.
func (o *order) ofParts(run *checkpoint.Run) error {
	err := o.ofRun(run, o.merging.parts[0].String())
	if named := o.merging.file; named != "" {
		o.file, o.config.File = named, named
		if named == "-" { // what models call it, as where it was read
			o.config.File = StandardInput
		}
	}
	return err
}

// simulation is what gives the run's outcome.
func (o *order) simulation(l *launch.Launch, screen *screen) func(context.Context) (*launch.Outcome, error) {
	if o.merging != nil {
		return o.mergeBy(l)
	}
	return func(ctx context.Context) (*launch.Outcome, error) {
		return l.RunRecovering(ctx, o.recover, func(back launch.Recovery, failed error) {
			screen.recovered(&back, failed)
		})
	}
}

// unended says what parts there are without an end.
func (m *merging) unended(ctx context.Context) string {
	begun := 0
	for _, r := range m.parts {
		if points, err := r.Points(ctx); err == nil && len(points) > 0 {
			begun++
		}
	}
	return fmt.Sprintf("resume goes on with those that were begun, of which %d have checkpoints", begun)
}

// differs names a field in which two runs differ; "": they are one, or parts of one.
func differs(a, b *checkpoint.Run) string {
	fields := func(r *checkpoint.Run) (m map[string]json.RawMessage) {
		one := *r
		one.ID, one.Only, one.Check = checkpoint.ID{}, nil, checkpoint.Digest{}
		text, err := json.Marshal(&one)
		if err == nil {
			err = json.Unmarshal(text, &m)
		}
		if err != nil {
			panic("app: a run that was read can't be written: " + err.Error())
		}
		return m
	}
	is, was := fields(a), fields(b)
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if string(is[name]) != string(was[name]) {
			return name
		}
		delete(was, name)
	}
	return strings.Join(slices.Sorted(maps.Keys(was)), ", ")
}

// ranges lists numbers that rise, those in a row as first-last; not all of very many.
func ranges(numbers []int) string {
	const most = 8
	var all []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		if len(all) == most {
			return strings.Join(append(all, "…"), ", ")
		}
		text := strconv.Itoa(numbers[i])
		if j > i {
			text += "-" + strconv.Itoa(numbers[j])
		}
		all, i = append(all, text), j+1
	}
	return strings.Join(all, ", ")
}

// String says what was put together.
func (m *merging) String() string {
	there := m.all - len(m.missing)
	text := fmt.Sprintf("put together from %s", tables.Plural(len(m.dirs), "part"))
	if len(m.missing) > 0 {
		text += fmt.Sprintf(": %d of %s, without %s", there, count(m.all, "replication"), ranges(m.missing))
	}
	return text
}
