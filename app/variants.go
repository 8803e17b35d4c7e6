// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/outfile"
	"github.com/disco-sim/disco/internal/sweep"
	"github.com/disco-sim/disco/scenario"
	"github.com/urfave/cli/v2"
)

// whatIf is what a run goes on from that has other settings than the one that was saved, or more replications: a run
// of its own.
type whatIf struct {
	resumed
	repo *checkpoint.Repo // of the other run
	from *checkpoint.Manifest
	doc  *scenario.Document // the other run's file
	was  *scenario.Document // as it was run
	set  []scenario.Setting // that it was run with
	more []scenario.Setting // --set
}

// variesBy are the flags of resume that ask for variants.
var variesBy = []string{"set", "sweep", "replications"}

// vary runs variants of a run from one of its checkpoints: with other settings, and as many replications as are asked
// for, which begin with that state. The first one draws on where the run was, the others anew from there. They are no
// part of the run: their own checkpoints go to another place.
func (p *program) vary(c *cli.Context, dir string) (err error) {
	o, err := p.order(c, dir, "")
	if err != nil {
		return err
	}
	v := &values{c: c}
	at := v.which()
	if err := v.err(); err != nil {
		return err
	}
	if o.saving != nil && within(dir, o.saving.address) {
		return usage("--checkpoint-to: found %s, want another place than %s: what goes on with other settings is a "+
			"run of its own", o.saving.address, dir)
	}
	blobs, leave, err := p.openBlobs(c.Context, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leave()) }()
	from := &whatIf{resumed: resumed{otherBuild: c.Bool("other-build")}}
	if from.repo, err = checkpoint.Open(c.Context, blobs); err != nil {
		return err
	}
	release, err := from.hold(c.Context, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	if err := p.variant(o, from); err != nil {
		return err
	}
	if err := o.checkFiles(); err != nil {
		return err
	}
	if o.saving != nil {
		end, err := o.saving.open(c.Context, p)
		if err != nil {
			return err
		}
		return errors.Join(p.perform(o, from.was), end())
	}
	return p.perform(o, from.was)
}

// hold finds the checkpoint, and keeps it within reach: the run that makes checkpoints there may be under way, and
// prune it. One that goes before it is held is looked for again, so that the latest one is found.
func (v *whatIf) hold(ctx context.Context, at string) (release func() error, err error) {
	const tries = 10
	for try := 1; ; try++ {
		if v.from, err = v.repo.Find(ctx, at, 0); err != nil {
			return nil, err
		}
		release, err = v.repo.Hold(ctx, v.from, os.TempDir())
		if pruned := (*checkpoint.PrunedError)(nil); !errors.As(err, &pruned) || try == tries {
			return release, err
		}
	}
}

// variant fills in what is run from a checkpoint.
func (p *program) variant(o *order, v *whatIf) (err error) {
	run, cfg := v.repo.Run(), &o.config
	o.whatIf, o.file = v, run.File
	cfg.File, cfg.Text, cfg.Attached = run.File, run.Text, storedFiles(run)
	cfg.Seed, cfg.Horizon, cfg.Series = run.Seed, run.Horizon, run.Series
	if o.records != nil && !run.Records {
		return usage("--records: found it for a run that was begun without, want a checkpoint of one whose begin is "+
			"recorded, too: %v has nothing of it", v.repo)
	}
	v.set = storedSettings(run)
	if v.doc, err = scenario.Parse(run.File, run.Text); err != nil {
		return err
	}
	if v.was, err = v.doc.With(v.set); err != nil {
		return err
	}
	v.more = cfg.Set
	if cfg.Set, _, err = p.varied(o, "set", nil); err != nil {
		return err
	}
	cfg.Resume = &launch.Resume{Repo: v.repo, Variant: v.from.Epoch}
	for range cfg.Replications {
		cfg.Resume.From = append(cfg.Resume.From, v.from)
	}
	return nil
}

// varied are the settings of a variant, which must be allowed: those of the run, and in the place of some those of
// --set, and these. same says that nothing has changed but by --set.
func (p *program) varied(o *order, flag string, point sweep.Point) (set []scenario.Setting, same bool, err error) {
	v, files := o.whatIf, o.config.Attached
	put := func(more []scenario.Setting) (*scenario.Document, error) {
		set = slices.DeleteFunc(slices.Clone(v.set), func(s scenario.Setting) bool {
			return slices.ContainsFunc(more, func(m scenario.Setting) bool { return m.Key == s.Key })
		})
		set = append(set, more...)
		return changed(v.doc, flag, set)
	}
	base, err := put(v.more)
	if err != nil {
		return nil, false, err
	}
	after, err := put(slices.Concat(v.more, point))
	if err != nil {
		return nil, false, err
	}
	return set, scenario.Vary()(base, after) == nil, p.registry.Varies(v.was.Attach(files), after.Attach(files))
}

// checkStored compares what a variant goes on from, or parts that are put together, with what this program makes of
// their scenario.
func (o *order) checkStored(l *launch.Launch) error {
	if o.whatIf == nil && o.merging == nil {
		return nil
	}
	run, err := o.storedRun(l)
	switch {
	case err != nil:
		return err
	case o.whatIf != nil:
		return o.whatIf.check(o.whatIf.repo.Run(), run)
	}
	return o.merging.resumed.check(o.merging.parts[0].Run(), run)
}

// withBase puts what has no point of its own in front, with which the others are compared: the one that is the same, or
// else the run with the settings that it had, or --set gives it.
func (p *program) withBase(o *order, points []sweep.Point) ([]sweep.Point, error) {
	for i, point := range points {
		_, same, err := p.varied(o, "sweep", point)
		if err != nil {
			return nil, fmt.Errorf("at %s: %w", point, err)
		}
		if same {
			return slices.Insert(slices.Delete(points, i, i+1), 0, point), nil
		}
	}
	return slices.Insert(points, 0, nil), nil
}

// own makes the run.json of a variant that has checkpoints, and copies what it begins with, so that it needs the other
// run no more.
func (v *whatIf) own(ctx context.Context, o *order, run *checkpoint.Run) (err error) {
	s, other := o.saving, v.repo.Run()
	run.From = &checkpoint.From{Run: other.ID, Epoch: v.from.Epoch, Manifest: v.from.Check, Settings: other.Settings}
	if s.repo, err = checkpoint.Create(ctx, s.blobs, *run); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.repo.Withdraw(context.WithoutCancel(ctx)))
		}
	}()
	spool, err := outfile.Temporary(s.config.TempDir)
	if err != nil {
		return fmt.Errorf("temporary file for checkpoints: %w", outfile.Error(s.config.TempDir, err))
	}
	defer spool.Close()
	m, err := s.repo.Copy(ctx, v.repo, v.from, spool)
	if err != nil {
		return err
	}
	s.config.Repo, o.config.Resume.Repo = s.repo, s.repo
	for i := range o.config.Resume.From {
		o.config.Resume.From[i] = m
	}
	return nil
}

// variantRow is what a variant goes on from, in JSON.
type variantRow struct {
	Dir          string  `json:"dir,omitempty"`
	Run          string  `json:"run"`
	EpochSeconds float64 `json:"epoch_s"`
	Check        string  `json:"check"`
	Measured     float64 `json:"measured_from_s"` // what comes before isn't in the results
}

func (v *whatIf) row(s scenario.Scenario) *variantRow {
	if v == nil {
		return nil
	}
	row := &variantRow{v.repo.String(), v.repo.Run().ID.String(), v.from.Epoch, v.from.Check.String(), 0}
	return row.measured(s)
}

// measured fills in from when on there are results.
func (r *variantRow) measured(s scenario.Scenario) *variantRow {
	if w, ok := s.(scenario.Warmed); ok {
		r.Measured = w.Warmup()
	}
	return r
}

// variant is what the parts of a variant go on from, whose place they don't know.
func (m *merging) variant(s scenario.Scenario) *variantRow {
	if m == nil || len(m.parts) == 0 || m.parts[0].Run().From == nil {
		return nil
	}
	from := m.parts[0].Run().From
	return (&variantRow{Run: from.Run.String(), EpochSeconds: from.Epoch, Check: from.Manifest.String()}).measured(s)
}

// String says what the run goes on from, and what its results are about.
func (r *variantRow) String() string {
	text := fmt.Sprintf("goes on from the checkpoint at %v s of %s; replication 0 draws on, others draw other numbers "+
		"from there on\n", r.EpochSeconds, r.Dir)
	if r.Measured >= r.EpochSeconds {
		return text + fmt.Sprintf("results are about what comes after %v s, which is no part of the run that was saved",
			r.Measured)
	}
	return text + fmt.Sprintf("results are about what comes after %v s, and so also about the run that was saved, up "+
		"to %v s", r.Measured, r.EpochSeconds)
}
