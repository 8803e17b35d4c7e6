// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/scenario"
)

// vary runs variants of a run from one of its checkpoints: with other settings, and as many replications as are asked
// for, which begin with that state. The first one draws on where the run was, the others anew from there. They are no
// part of the run, and have no checkpoints.
func (p *program) vary(c *cli.Context, dir string) (err error) {
	for _, f := range checkpointFlags() {
		if name := f.Names()[0]; c.IsSet(name) {
			return usage("--%s: found it with --set or --replications, want one of them: what goes on with other "+
				"settings is no part of the run, and has no checkpoints", name)
		}
	}
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
	s.varies, s.resumed = true, &resumed{otherBuild: c.Bool("other-build")}
	end, err := s.open(c.Context, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	if s.repo, err = checkpoint.Open(c.Context, s.blobs); err != nil {
		return err
	}
	m, err := s.repo.Find(c.Context, at, 0)
	if err != nil {
		return err
	}
	if err := p.variants(o, s.repo, m); err != nil {
		return err
	}
	if err := o.checkFiles(); err != nil {
		return err
	}
	return p.perform(o, nil)
}

// variants fills in what is run from a checkpoint.
func (p *program) variants(o *order, r *checkpoint.Repo, m *checkpoint.Manifest) error {
	run, cfg, more := r.Run(), &o.config, o.config.Set
	if cfg.Trace != "" && !run.Trace {
		return usage("--trace: found it for a run that was begun without, want a run whose begin is traced, too: %v "+
			"has nothing of it", r)
	}
	o.file, cfg.File, cfg.Text, cfg.Attached = run.File, run.File, run.Text, storedFiles(run)
	cfg.Seed, cfg.Horizon = run.Seed, run.Horizon
	before, err := scenario.Parse(run.File, run.Text)
	if err != nil {
		return err
	}
	was := storedSettings(run)
	cfg.Set = slices.DeleteFunc(slices.Clone(was), func(s scenario.Setting) bool {
		return slices.ContainsFunc(more, func(m scenario.Setting) bool { return m.Key == s.Key })
	})
	cfg.Set = append(cfg.Set, more...)
	after, err := changed(before, "set", cfg.Set)
	if err != nil {
		return err
	}
	if before, err = before.With(was); err != nil {
		return err
	}
	if err := p.registry.Varies(before.Attach(cfg.Attached), after.Attach(cfg.Attached)); err != nil {
		return err
	}
	cfg.Resume = &launch.Resume{Repo: r}
	for n := range cfg.Replications {
		cfg.Resume.From, cfg.Resume.Fresh = append(cfg.Resume.From, m), append(cfg.Resume.Fresh, n > 0)
	}
	o.saving.resumed.from = cfg.Resume.From
	return nil
}
