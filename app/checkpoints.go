// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/nodediff"
	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/outfile"
	tables "github.com/disco-sim/disco/internal/table"
	"github.com/urfave/cli/v2"
)

const (
	newest = "latest" // the checkpoint of the greatest epoch

	replicationDefault = "the first that has it; for latest the last one with any"

	wantsDir = "one DIR: what --checkpoint-to named"

	keepDefault = 5 // checkpoints of each replication
	keepMax     = 1 << 20
)

// checkpointsCommand has a command for each thing to be done with checkpoints that are there.
func (p *program) checkpointsCommand() *cli.Command {
	all := p.command(cli.Command{
		Name:      "checkpoints",
		Usage:     "lists, shows, verifies, compares, labels and removes the checkpoints of a run",
		ArgsUsage: "COMMAND DIR",
		Description: "DIR is what --checkpoint-to named. Only label, unlabel and prune write, and only while the\n" +
			"run itself doesn't.",
	}, func(*cli.Context) error {
		return usage("there is no command: `%s checkpoints --help` lists them", p.name)
	})
	all.Subcommands = []*cli.Command{p.listCommand(), p.showCommand(), p.verifyCheckpointsCommand(), p.diffCommand(),
		p.labelCommand(), p.unlabelCommand(), p.pruneCommand()}
	return all
}

// storeCommand is one of these commands.
func (p *program) storeCommand(c cli.Command, action func(*cli.Context) error) *cli.Command {
	command := p.command(c, func(c *cli.Context) error { return storeError(action(c)) })
	inner := command.Action
	command.Action = func(c *cli.Context) error {
		err := inner(c)
		var u *usageError
		if errors.As(err, &u) {
			return fmt.Errorf("checkpoints %w", err)
		}
		return err
	}
	return command
}

// storeError makes an error that is the command line's fault one: a wrong directory, a checkpoint or a label that isn't
// there, missing permissions.
func storeError(err error) error {
	var not *checkpoint.NotRepoError
	var none *checkpoint.FoundError
	var label *checkpoint.LabelError
	var graph *nodediff.OtherGraphError
	var other *checkpoint.OtherRunError
	var pruned *checkpoint.PrunedError
	var begin *launch.NoBeginError
	wrong := errors.As(err, &not) || errors.As(err, &pruned) || errors.As(err, &none) || errors.As(err, &label) ||
		errors.As(err, &graph) || errors.As(err, &other) && other.Name == "" || errors.As(err, &begin) ||
		errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist)
	if wrong {
		return &usageError{err.Error(), err}
	}
	return err
}

// storeArgs are the arguments of a command about checkpoints: DIR and others, as wants says.
func storeArgs(args []string, least, most int, wants string) error {
	if len(args) < least || len(args) > most {
		found := "found nothing"
		if len(args) > 0 {
			found = fmt.Sprintf("found %s (%s)", tables.Plural(len(args), "argument"), quoted(args))
		}
		return usage("%s, want %s", found, wants)
	}
	for _, arg := range args {
		if strings.TrimSpace(arg) == "" {
			return usage("found an empty argument among %s, want %s", quoted(args), wants)
		}
	}
	return nil
}

// readStore opens the checkpoints at an address, and does what is to be done with them.
func (p *program) readStore(ctx context.Context, address string, do func(*checkpoint.Repo) error) error {
	blobs, end, err := p.openBlobs(ctx, address)
	if err != nil {
		return err
	}
	r, err := checkpoint.Open(ctx, blobs)
	if err == nil {
		err = do(r)
	}
	return errors.Join(err, end())
}

// writeStore does it as the one that writes.
func (p *program) writeStore(ctx context.Context, address string, do func(*checkpoint.Repo) error) error {
	return p.readStore(ctx, address, func(r *checkpoint.Repo) error {
		if err := r.Lock(ctx); err != nil {
			return err
		}
		return errors.Join(do(r), p.giveBack(r))
	})
}

func whichFlag() cli.Flag {
	return textFlag(groupWhat, "at", newest, "`WHICH` checkpoint: "+newest+", a label, an epoch in simulated seconds, "+
		"or at least 8 digits of its check")
}

func replicationFlag(value string) cli.Flag {
	return textFlag(groupWhat, "replication", value, "of replication `R`, 0 for the first")
}

func storeJSONFlag() cli.Flag {
	return textFlag(groupOutput, "json", "none",
		"write it to `FILE` as JSON, - for standard output and nothing else there")
}

// jsonPath reads --json and sees that the file can be written.
func (v *values) jsonPath() string {
	path := v.path("json")
	if path != "" && path != "-" {
		if err := outfile.Check(path); err != nil {
			v.errs = append(v.errs, usage("--json: %v", err))
		}
	}
	return path
}

// replication reads --replication; -1 where it isn't given.
func (v *values) replication(r *checkpoint.Repo) int {
	return v.integer("replication", -1, 0, r.Run().Replications-1)
}

// which reads --at.
func (v *values) which() string {
	if at := v.text("at", newest+", a label, an epoch, or digits of a check"); at != "" {
		return strings.TrimSpace(at)
	}
	return newest
}

// find is the checkpoint that --at and --replication mean: the first replication where only --at is given, that has it.
func find(c *cli.Context, r *checkpoint.Repo) (*checkpoint.Manifest, error) {
	v := &values{c: c}
	at, replication := v.which(), v.replication(r)
	if err := v.err(); err != nil {
		return nil, err
	}
	return findAt(c.Context, r, at, replication)
}

// findAt is the checkpoint of a replication; of the first one that has it, where replication is -1. The latest one is
// that of the last replication with any, which is under way.
func findAt(ctx context.Context, r *checkpoint.Repo, at string, replication int) (*checkpoint.Manifest, error) {
	if replication >= 0 {
		return r.Find(ctx, at, replication)
	}
	points, err := r.Points(ctx)
	if err != nil {
		return nil, err
	}
	var all []int // replications with checkpoints, rising
	for _, p := range points {
		if !p.Finished && (len(all) == 0 || all[len(all)-1] != p.Replication) {
			all = append(all, p.Replication)
		}
	}
	if at == newest || len(all) == 0 {
		return r.Find(ctx, at, append(append([]int{}, 0), all...)[len(all)])
	}
	var first error
	for _, replication := range all {
		m, err := r.Find(ctx, at, replication)
		var none *checkpoint.FoundError
		if !errors.As(err, &none) {
			return m, err
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// labelCommand gives an epoch a name.
func (p *program) labelCommand() *cli.Command {
	return p.storeCommand(cli.Command{
		Name:      "label",
		Usage:     "gives the checkpoints of an epoch a name, by which they are found, and stay",
		ArgsUsage: "DIR LABEL",
		Flags:     []cli.Flag{whichFlag(), replicationFlag(replicationDefault)},
	}, func(c *cli.Context) error {
		args := c.Args().Slice()
		if err := storeArgs(args, 2, 2, "DIR and LABEL"); err != nil {
			return err
		}
		if err := checkpoint.CheckLabel(args[1]); err != nil {
			return err
		}
		return p.writeStore(c.Context, args[0], func(r *checkpoint.Repo) error {
			m, err := find(c, r)
			if err != nil {
				return err
			}
			if err := r.Label(c.Context, m, args[1]); err != nil {
				return err
			}
			fmt.Fprintf(p.stdout, "%s: %s is epoch %v\n", r, args[1], m.Epoch)
			return nil
		})
	})
}

// unlabelCommand takes a name away.
func (p *program) unlabelCommand() *cli.Command {
	return p.storeCommand(cli.Command{
		Name:      "unlabel",
		Usage:     "takes a label away; the checkpoints that had it are pruned as others are",
		ArgsUsage: "DIR LABEL",
	}, func(c *cli.Context) error {
		args := c.Args().Slice()
		if err := storeArgs(args, 2, 2, "DIR and LABEL"); err != nil {
			return err
		}
		return p.writeStore(c.Context, args[0], func(r *checkpoint.Repo) error {
			labels, err := r.Labels(c.Context)
			epoch, there := labels[args[1]]
			if !there && err == nil {
				return usage("%v: found no label %.80q, want %s", r, args[1], labelNames(labels))
			}
			// A label that is damaged goes, too.
			if err := r.Unlabel(c.Context, args[1]); err != nil {
				return err
			}
			if there {
				fmt.Fprintf(p.stdout, "%s: %s is epoch %v no more\n", r, args[1], epoch)
			} else {
				fmt.Fprintf(p.stdout, "%s: there is no label %s any more\n", r, args[1])
			}
			return nil
		})
	})
}

// pruneCommand removes checkpoints.
func (p *program) pruneCommand() *cli.Command {
	return p.storeCommand(cli.Command{
		Name:  "prune",
		Usage: "removes all checkpoints but the newest ones, those with a label, and the ends of replications",
		Description: "Damaged ones don't count as checkpoints that stay. What no checkpoint refers to is removed,\n" +
			"too: also what a run that was killed has left.",
		ArgsUsage: "DIR",
		Flags: []cli.Flag{textFlag(groupWhat, "keep", fmt.Sprint(keepDefault),
			"`N` newest checkpoints of each replication stay")},
	}, func(c *cli.Context) error {
		v := &values{c: c}
		keep := v.integer("keep", keepDefault, 1, keepMax)
		args := c.Args().Slice()
		if err := errors.Join(v.err(), storeArgs(args, 1, 1, wantsDir)); err != nil {
			return err
		}
		return p.writeStore(c.Context, args[0], func(r *checkpoint.Repo) error {
			done, err := r.Prune(c.Context, keep)
			for _, b := range done.Broken {
				fmt.Fprintf(p.stdout, "%v stays, and isn't counted: %v\n", b.Point, b.Err)
			}
			fmt.Fprintf(p.stdout, "%s: removed %s and %s (%s)\n", r, tables.Plural(done.Checkpoints, "checkpoint"),
				tables.Plural(done.Packs, "pack"), shortBytes(done.Bytes))
			return err
		})
	})
}
