// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/experiments"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/groupcall"
	"github.com/disco-sim/disco/metastore"
)

// Parts in the store are looked through at random times of which this is the mean.
const leftPartsEvery = 30 * time.Minute

// removeLeftParts removes, again and again until ctx ends, the parts in the group's store of experiments that aren't
// there any more. All agents do it: an id is never used again, so that nobody else needs to know.
func removeLeftParts(ctx context.Context, c *app.Call, s *metastore.Store, report func(problem error)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(rand.N(2 * leftPartsEvery)):
		}
		err := removeLeftOf(ctx, c, s)
		if err != nil && ctx.Err() == nil {
			report(fmt.Errorf("parts of experiments that aren't there any more: %w: it is tried again later", err))
		}
	}
}

func removeLeftOf(ctx context.Context, c *app.Call, s *metastore.Store) error {
	group, err := groupcall.Group(c)
	if err != nil {
		return err
	}
	beside, err := groupcall.OpenBeside(ctx, c, group+experiments.KeptSuffix)
	if err != nil {
		return err
	}
	defer beside.Close()
	client, err := fleet.New(ctx, s, fleet.Options{})
	if err != nil {
		return err
	}
	_, err = experiments.RemoveLeft(ctx, client, beside)
	return err
}
