// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/launch"
	tables "github.com/disco-sim/disco/internal/table"
	"github.com/urfave/cli/v2"
)

// verification of a store, in JSON.
type storeVerification struct {
	storeRow
	Good        bool                 `json:"good"`
	Checkpoints []verifiedCheckpoint `json:"checkpoints"`
	Loose       []labelRow           `json:"labels_of_none,omitempty"` // of whose epochs there is no checkpoint
}

type verifiedCheckpoint struct {
	Replication  int     `json:"replication"`
	EpochSeconds float64 `json:"epoch_s"` // finished: 0
	Finished     bool    `json:"finished"`
	Good         bool    `json:"good"`
	Damage       string  `json:"damage,omitempty"`
	Other        string  `json:"other_version,omitempty"` // then it wasn't verified
	Loaded       bool    `json:"loaded,omitempty"`        // as is asked for by --load
	Refused      string  `json:"refused,omitempty"`       // why it can't be loaded
}

// verifyCheckpointsCommand reads everything.
func (p *program) verifyCheckpointsCommand() *cli.Command {
	return p.storeCommand(cli.Command{
		Name:      "verify",
		Usage:     "reads checkpoints of a run, and says what isn't as it was written, or can't be loaded",
		ArgsUsage: "DIR",
		Description: "The exit status is 0 where all is as it was written, 1 where something is damaged, or was\n" +
			"made by another version and can't be read by this one. What is written or removed meanwhile is no\n" +
			"damage.\n" +
			"With --load what is as it was written is also loaded into workers as `resume` would, and nothing is\n" +
			"simulated: a state that this program's model refuses is named with its node, exit status 1. That\n" +
			"needs the program of the run, or --other-build, and takes as long as the beginning of a `resume`.",
		Flags: append(storeVerifyFlags(), storeJSONFlag()),
	}, func(c *cli.Context) error {
		args, v := c.Args().Slice(), &values{c: c}
		path, at := v.jsonPath(), v.which()
		if !c.IsSet("at") {
			at = ""
		}
		if err := errors.Join(v.err(), storeArgs(args, 1, 1, wantsDir)); err != nil {
			return err
		}
		o, err := p.order(c, args[0], "")
		if err != nil {
			return err
		}
		for _, name := range []string{"workers", "transport", "other-build"} {
			if c.IsSet(name) && !c.Bool("load") {
				return usage("--%s has no meaning without --load", name)
			}
		}
		return p.readStore(c.Context, args[0], func(r *checkpoint.Repo) error {
			v := &storeVerifier{p: p, repo: r, path: path, loads: c.Bool("load"),
				all: storeVerification{storeRow: newStoreRow(r), Checkpoints: []verifiedCheckpoint{}}}
			return v.verify(c.Context, at, o, &resumed{otherBuild: c.Bool("other-build")})
		})
	})
}

// storeVerifyFlags are about what is verified, and how it is loaded.
func storeVerifyFlags() []cli.Flag {
	flags := slices.DeleteFunc(runFlags(), func(f cli.Flag) bool {
		return !slices.Contains([]string{"workers", "transport"}, f.Names()[0])
	})
	return append(flags, textFlag(groupWhat, "at", "all", "only the checkpoints of `WHICH` epoch: "+newest+", a "+
		"label, an epoch in simulated seconds, or at least 8 digits of a check"),
		&cli.BoolFlag{Category: groupWhat, Name: "load", DisableDefaultText: true,
			Usage: "load them, too, as resume does"},
		&cli.BoolFlag{Category: groupWhat, Name: "other-build", DisableDefaultText: true,
			Usage: "load them though this isn't the program that has made them"})
}

// storeVerifier verifies the checkpoints of a store: a line for each, as it is read.
type storeVerifier struct {
	p                        *program
	repo                     *checkpoint.Repo
	path                     string // for JSON
	all                      storeVerification
	damaged, others, refused int
	loads                    bool
	good                     []*checkpoint.Manifest // that are to be loaded
	rows                     []int                  // by these: index in all
}

// verify is the command.
func (v *storeVerifier) verify(ctx context.Context, at string, o *order, resumed *resumed) error {
	r, p := v.repo, v.p
	_, labels := r.Labels(ctx)
	points, err := r.PointsAt(ctx, at)
	if err == nil {
		err = r.VerifyPoints(ctx, points, v.add)
	}
	if err != nil {
		return err
	}
	if at == "" {
		if err := v.findLoose(ctx); err != nil {
			return err
		}
	}
	if len(v.all.Checkpoints) == 0 && len(v.all.Loose) == 0 && labels == nil {
		return usage("%v: found no checkpoint yet, want one to verify: the run that makes them has begun; where it "+
			"was ended, `%s resume` begins it anew", r, p.name)
	}
	if err := v.load(o, resumed); err != nil {
		return err
	}
	failure := v.failure()
	v.all.Good = failure == nil && labels == nil
	if err := p.writeStoreJSON(v.path, &v.all); err != nil {
		return err
	}
	if v.all.Good && v.path != "-" {
		loaded := ""
		if v.loads {
			loaded = ", and can be loaded"
		}
		fmt.Fprintf(p.stdout, "%v: %s, all as they were written%s\n", r,
			tables.Plural(len(v.all.Checkpoints), "checkpoint"), loaded)
	}
	return errors.Join(failure, labels)
}

// add takes what was found of a checkpoint.
func (v *storeVerifier) add(point checkpoint.Point, m *checkpoint.Manifest, damage error) error {
	row := verifiedCheckpoint{Replication: point.Replication, EpochSeconds: point.Epoch, Finished: point.Finished,
		Good: damage == nil}
	text := "good"
	switch {
	case checkpoint.OtherVersion(damage):
		v.others++
		row.Other = damage.Error()
		text = "not verified:\n  " + strings.ReplaceAll(row.Other, "\n", "\n  ")
	case damage != nil:
		v.damaged++
		row.Damage = damage.Error()
		text = "damaged:\n  " + strings.ReplaceAll(row.Damage, "\n", "\n  ")
	}
	if damage == nil && v.loads {
		v.good, v.rows = append(v.good, m), append(v.rows, len(v.all.Checkpoints))
	}
	v.all.Checkpoints = append(v.all.Checkpoints, row)
	if v.path != "-" {
		fmt.Fprintf(v.p.stdout, "%v: %s\n", point, text)
	}
	return v.p.stdout.failed()
}

// findLoose finds the labels of no checkpoint.
func (v *storeVerifier) findLoose(ctx context.Context) error {
	loose, err := v.repo.LooseLabels(ctx)
	for _, label := range slices.Sorted(maps.Keys(loose)) {
		v.all.Loose = append(v.all.Loose, labelRow{label, loose[label]})
	}
	return err
}

// failure is the command's error; nil: all are good.
func (v *storeVerifier) failure() error {
	all := tables.Plural(len(v.all.Checkpoints), "checkpoint")
	var list []error
	for _, l := range v.all.Loose {
		list = append(list, fmt.Errorf("%v: label %s is epoch %v, of which no checkpoint is there any more: restore "+
			"its file in %v/points, or remove the label (`%s checkpoints unlabel %v %s`)", v.repo, l.Label,
			l.EpochSeconds, v.repo, v.p.name, v.repo, l.Label))
	}
	if v.damaged > 0 {
		list = append(list, fmt.Errorf("%v: %d of %s damaged: `%s checkpoints prune` removes them once there are "+
			"newer ones", v.repo, v.damaged, all, v.p.name))
	}
	if v.others > 0 {
		list = append(list, fmt.Errorf("%v: %d of %s not verified: another version of disco has made them: verify "+
			"them with that one", v.repo, v.others, all))
	}
	if v.refused > 0 {
		list = append(list, fmt.Errorf("%v: %d of %s can't be loaded: take another one (resume --at), or the program "+
			"that has made them", v.repo, v.refused, all))
	}
	return errors.Join(list...)
}

// load loads what is as it was written, where that is asked for. Behind one that is refused another run goes on: its
// workers have ended.
func (v *storeVerifier) load(o *order, resumed *resumed) (err error) {
	if !v.loads {
		return nil
	}
	run, cfg := v.repo.Run(), &o.config
	o.file = run.File
	cfg.File, cfg.Text, cfg.Attached, cfg.Set = run.File, run.Text, storedFiles(run), storedSettings(run)
	cfg.Seed, cfg.Replications, cfg.Horizon, cfg.Spread = run.Seed, run.Replications, run.Horizon, launch.SpreadNodes
	cfg.Series = run.Series
	screen := newScreen(v.p.terminal, v.p.name)
	defer screen.watch()()
	cfg.Stderr, cfg.Doing = screen, screen.doing
	signals := watchSignals(screen, v.p.name)
	defer signals.close()
	cfg.Stop = signals.stop
	torn, err := launch.LoadJournals(signals.ctx, v.repo)
	if err != nil {
		return err
	}
	for _, name := range torn {
		fmt.Fprintf(screen, "%v/%s: the last answer wasn't written to its end: its call is asked again\n", v.repo, name)
	}
	for len(v.good) > 0 && err == nil {
		err = v.loadSome(signals, screen, o, resumed)
	}
	return signals.cause(err)
}

// loadSome loads points up to the first one that is refused.
func (v *storeVerifier) loadSome(signals *signals, screen *screen, o *order, resumed *resumed) error {
	cfg, loading := o.config, &launch.Loading{Points: v.good}
	cfg.Loading = loading
	cfg.Resume = &launch.Resume{Repo: v.repo, From: make([]*checkpoint.Manifest, cfg.Replications)}
	if from := v.repo.Run().From; from != nil {
		cfg.Resume.Variant = from.Epoch
	}
	screen.next("", false)
	l, err := prepare(cfg)
	if err != nil {
		return err
	}
	is, err := o.storedRun(l)
	if err == nil {
		err = resumed.check(v.repo.Run(), is)
	}
	if err != nil {
		return err
	}
	_, err = simulate(signals.ctx, l, cfg.Stop, screen)
	var refused *launch.LoadError
	n := loading.Loaded()
	if err == nil && n < len(v.good) || err != nil && !errors.As(err, &refused) {
		return cmp.Or(err, fmt.Errorf("%w: not all was loaded", errInterrupted))
	}
	screen.end()
	for i := range min(n+1, len(v.good)) {
		text, row := "loaded", &v.all.Checkpoints[v.rows[i]]
		if row.Loaded = i < n; !row.Loaded {
			row.Refused, row.Good = refused.Error(), false
			text = "can't be loaded:\n  " + strings.ReplaceAll(row.Refused, "\n", "\n  ")
			v.refused++
		}
		if v.path != "-" {
			fmt.Fprintf(v.p.stdout, "%v: %s\n", v.good[i].Point(), text)
		}
	}
	v.good, v.rows = v.good[min(n+1, len(v.good)):], v.rows[min(n+1, len(v.rows)):]
	return v.p.stdout.failed()
}
