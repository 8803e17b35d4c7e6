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

// checkSaved refuses a scenario whose handlers can't be saved, as a run with --checkpoint-to does, and by that: it is
// begun, and ended before anything is simulated.
func (p *program) checkSaved(ctx context.Context, o *order, l *launch.Launch, point sweep.Point) (err error) {
	if l.Structure().NumNodes() > savedNodesMost {
		return nil
	}
	dir, err := os.MkdirTemp("", "disco-submit-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	of := *o
	of.saving = &saving{address: filepath.Join(dir, "place"), config: launch.Checkpoint{Keep: 1}}
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
	_, err = begun.Run(ctx)
	if err == nil || ready.Load() {
		return nil
	}
	if statusOf(err) == ExitUsage {
		return usage("a result is kept as a part of a run, which takes a model that can be saved: %v", err)
	}
	return fmt.Errorf("whether the model can be saved: %w", err)
}
