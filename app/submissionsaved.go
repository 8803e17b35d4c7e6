// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/sweep"
)

// savedNodesMost is how many nodes a scenario may have whose handlers are asked, before it is sent, whether they can be
// saved: a larger one would take its time and memory on the machine of who submits it. Those are refused where they are
// simulated.
const savedNodesMost = 100_000

// checkSaved finds out whether the handlers of a scenario can be saved, as a run with --checkpoint-to does, and by
// that: it is begun, and ended before anything is simulated. Of those that can't only ends are kept, and people are
// told so.
func (p *program) checkSaved(ctx context.Context, o *order, l *launch.Launch, point sweep.Point) (saves bool,
	err error) {
	if l.Structure().NumNodes() > savedNodesMost {
		return true, nil
	}
	unsaved := p.beginSaved(ctx, o, point, false)
	if unsaved == nil || statusOf(unsaved) != ExitUsage {
		return true, unsaved
	}
	if err := p.beginSaved(ctx, o, point, true); err != nil {
		return false, err
	}
	fmt.Fprintf(p.stderr, "%s: this model can't be saved: what is lost of it begins anew, and no step can go on from "+
		"a checkpoint of it: %v\n", p.name, unsaved)
	return false, nil
}

// beginSaved begins a run that keeps checkpoints, or only ends, and ends it before anything is simulated.
func (p *program) beginSaved(ctx context.Context, o *order, point sweep.Point, endsOnly bool) (err error) {
	dir, err := os.MkdirTemp("", "disco-submit-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	of := *o
	of.saving = &saving{address: filepath.Join(dir, "place"), config: launch.Checkpoint{Keep: 1, EndsOnly: endsOnly}}
	end, err := of.saving.open(ctx, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var ready atomic.Bool
	cfg := &of.config
	cfg.Set = append(slices.Clone(cfg.Set), point...)
	cfg.Workers, cfg.Replications = 1, 1
	cfg.Checkpoint = &of.saving.config
	cfg.Ready = func() {
		ready.Store(true)
		stop()
	}
	begun, err := prepare(*cfg)
	if err != nil {
		return err
	}
	if err := of.saving.begin(ctx, &of, begun); err != nil {
		return err
	}
	if _, err = begun.Run(ctx); err == nil || ready.Load() {
		return nil
	}
	return err
}
