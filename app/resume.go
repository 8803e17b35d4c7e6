// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/launch"
	"github.com/urfave/cli/v2"
)

// notResumed are the flags of a run that belong to the run, not to how it goes on.
var notResumed = []string{"seed", "compare", "print", "until", "external-record", "external-from", endsFlag}

// partsOfVariant is said of --only where a run goes on as it was.
const partsOfVariant = "--only: found it without --set, --sweep or --replications, want it with one of them and " +
	"--checkpoint-to: what goes on as it was has the replications with which it was begun"

// resumeCommand goes on with a run.
func (p *program) resumeCommand() *cli.Command {
	flags := slices.DeleteFunc(runFlags(), func(f cli.Flag) bool {
		return slices.Contains(notResumed, f.Names()[0])
	})
	return p.command(cli.Command{
		Name:  "resume",
		Usage: "goes on with a run from a checkpoint, and shows its results",
		Description: "DIR is what --checkpoint-to named. Scenario, files, settings and seed are those of the run,\n" +
			"as they are kept there; results and trace hash are those of a run without a stop, with any number\n" +
			"of workers. Further checkpoints go to DIR.\n" +
			"With --set, --sweep or --replications it is asked what would be if: the state of the checkpoint goes\n" +
			"on with other settings, so many times, of which all but the first draw other random numbers from\n" +
			"there on, the same in all variants. With --sweep the differences between variants are shown, too.\n" +
			"Nothing is written to DIR; --checkpoint-to names another place for a variant's own checkpoints.",
		ArgsUsage: "DIR",
		Flags: append(flags,
			textFlag(groupWhat, "at", newest, "begin with the checkpoints of `WHICH` epoch: "+newest+", a label, an "+
				"epoch in simulated seconds, or at least 8 digits of a check"),
			&cli.BoolFlag{Category: groupWhat, Name: "other-build", DisableDefaultText: true,
				Usage: "go on though this isn't the program that has made the checkpoints"}),
	}, func(c *cli.Context) error {
		args := c.Args().Slice()
		if err := storeArgs(args, 1, 1, wantsDir); err != nil {
			return err
		}
		if slices.ContainsFunc(variesBy, c.IsSet) {
			return storeError(p.vary(c, args[0]))
		}
		if c.IsSet("only") {
			return usage("%s", partsOfVariant)
		}
		if c.IsSet("replayable") {
			return usage("--replayable: found it without --set, --sweep or --replications, want it with one of them " +
				"and --checkpoint-to, or where a run begins: what goes on as it was has a journal if it had one")
		}
		if c.IsSet("checkpoint-to") {
			return usage("--checkpoint-to: found it without --set, --sweep or --replications, want it with one of " +
				"them: the checkpoints of what goes on as it was go to DIR")
		}
		return storeError(p.resume(c, args[0]))
	})
}

// resumed is what is said of a run that goes on, and what is checked.
type resumed struct {
	otherBuild bool
	from       []*checkpoint.Manifest // by replication; nil: its begin
}

// resume is the command.
func (p *program) resume(c *cli.Context, dir string) (err error) {
	o, err := p.order(c, dir, dir)
	if err != nil {
		return err
	}
	v := &values{c: c}
	at := v.which()
	if err := v.err(); err != nil {
		return err
	}
	s := o.saving
	s.resumed = &resumed{otherBuild: c.Bool("other-build")}
	end, err := s.open(c.Context, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	if s.repo, err = checkpoint.Open(c.Context, s.blobs); err != nil {
		return err
	}
	if err := s.repo.Lock(c.Context); err != nil {
		return err
	}
	if s.config.EndsOnly = s.repo.Run().EndsOnly; s.config.EndsOnly {
		if err := v.endsAlone("--" + endsFlag + ", when it was begun"); err != nil {
			return err
		}
	}
	if err := cmp.Or(o.resumeRun(c.Context, s.repo, at), o.checkFiles()); err != nil {
		return err
	}
	err = p.perform(o, nil)
	var damaged *checkpoint.DamagedError
	if errors.As(err, &damaged) {
		err = s.resumed.propose(c.Context, s.repo, damaged, err)
	}
	return err
}

// resumeRun fills in what run.json says, and the checkpoints to begin with.
func (o *order) resumeRun(ctx context.Context, r *checkpoint.Repo, at string) error {
	run, s, cfg := r.Run(), o.saving, &o.config
	if err := o.ofRun(run, r.String()); err != nil {
		return err
	}
	if run.Only != nil {
		cfg.Only = &launch.Only{First: run.Only.First, Last: run.Only.Last}
	}
	labels, err := r.Labels(ctx)
	if err != nil && len(s.config.At) > 0 {
		return err // else one that is damaged is in nobody's way
	}
	for _, at := range s.config.At {
		if epoch, there := labels[at.Label]; there && epoch != at.Epoch {
			return usage("--checkpoint-at: found label %s at %v, which is that of epoch %v: take another one, or "+
				"remove it (checkpoints unlabel)", at.Label, at.Epoch, epoch)
		}
	}
	if cfg.Resume, err = launch.ResumeAt(ctx, r, at); err != nil {
		return err
	}
	s.config.Repo, s.resumed.from = r, cfg.Resume.From
	return nil
}

// ofRun fills in what a run's run.json says of it.
func (o *order) ofRun(run *checkpoint.Run, where string) error {
	cfg := &o.config
	o.file = run.File
	cfg.File, cfg.Text, cfg.Attached, cfg.Set = run.File, run.Text, storedFiles(run), storedSettings(run)
	cfg.Seed, cfg.Replications, cfg.Horizon = run.Seed, run.Replications, run.Horizon
	cfg.Series = run.Series
	switch {
	case run.Trace && cfg.Trace == "":
		return usage("%s: found checkpoints with a trace, want --trace FILE for it", where)
	case !run.Trace && cfg.Trace != "":
		return usage("--trace: found it for a run that was begun without, want a run whose begin is traced, too: %s "+
			"has nothing of it", where)
	case run.Records && o.records == nil:
		return usage("%s: found checkpoints with records, want --out DIR --records for them", where)
	case !run.Records && o.records != nil:
		return usage("--records: found it for a run that was begun without, want a run whose begin is recorded, too: "+
			"%s has nothing of it", where)
	}
	return nil
}

// propose adds to an error about a checkpoint that is damaged which one before it needs nothing of what is damaged.
func (s *resumed) propose(ctx context.Context, r *checkpoint.Repo, damaged *checkpoint.DamagedError, err error) error {
	if damaged.Chunk == nil && !damaged.OfPoint() {
		return err // whatever it goes on from
	}
	points, errPoints := r.Points(ctx)
	if errPoints != nil {
		return errors.Join(err, errPoints)
	}
	for _, m := range s.from {
		if m == nil || m.Finished {
			continue
		}
		for _, p := range slices.Backward(points) {
			if p.Replication == m.Replication && !p.Finished && p.Epoch < m.Epoch && without(ctx, r, p, damaged.Chunk) {
				return fmt.Errorf("%w\n--at %v begins with the checkpoint before it", err, p.Epoch)
			}
		}
	}
	return err
}

// without reports whether a checkpoint is there, and has no such chunk.
func without(ctx context.Context, r *checkpoint.Repo, p checkpoint.Point, damaged *checkpoint.Chunk) bool {
	m, err := r.Load(ctx, p)
	if err != nil || damaged == nil {
		return err == nil
	}
	return r.Chunks(ctx, m, func(c checkpoint.Chunk) error {
		if c.Digest == damaged.Digest {
			return errors.New("it has it, too")
		}
		return nil
	}) == nil
}

// check compares a run that goes on with what it was.
func (s *resumed) check(was, is *checkpoint.Run) error {
	if was.Kind != is.Kind {
		return usage("found checkpoints of a model of kind %q, which this program reads as %q: want the program that "+
			"has made them", was.Kind, is.Kind)
	}
	if !s.otherBuild && (was.Program != is.Program || was.Disco != is.Disco) {
		return usage("found checkpoints that were made by version %s (program %.16v…), and this is version %s "+
			"(program %.16v…): want the same program, or --other-build", was.Disco, was.Program, is.Disco, is.Program)
	}
	if was.Nodes != is.Nodes || was.Simprocs != is.Simprocs || was.Graph != is.Graph {
		return usage("found checkpoints of %d nodes and %d simprocs (graph %.16v…), and the same scenario gives "+
			"%d and %d (graph %.16v…) now: want the program that has made them, or a model that depends on nothing "+
			"but its file", was.Nodes, was.Simprocs, was.Graph, is.Nodes, is.Simprocs, is.Graph)
	}
	return nil
}

// String says in a line where a run goes on.
func (s *resumed) String() string {
	finished, begun := 0, ""
	left := 0
	for i, m := range s.from {
		switch {
		case m == nil:
		case m.Finished:
			finished++
		case left < resumedShown:
			left++
			begun += fmt.Sprintf(", replication %d goes on at %v s", i, m.Epoch)
		default:
			left++
		}
	}
	if left > resumedShown {
		begun += fmt.Sprintf(", and %d others go on", left-resumedShown)
	}
	switch {
	case finished+left == 0:
		return "none yet: it begins anew"
	case finished > 0:
		begun = fmt.Sprintf(", %d of %s had ended", finished, count(len(s.from), "replication")) + begun
	}
	return strings.TrimPrefix(begun, ", ")
}

// resumedShown is how many replications are named.
const resumedShown = 4
