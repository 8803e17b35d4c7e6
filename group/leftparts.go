// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/experiments"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/groupcall"
	"github.com/disco-sim/disco/metastore"
)

// Parts in the store are looked through at random times of which this is the mean.
const leftPartsEvery = 30 * time.Minute

// leftPartsBatch is how many pieces' parts are removed in one commit.
const leftPartsBatch = 20

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
	_, err = removeLeft(ctx, s, beside)
	return err
}

// removeLeft removes what beside has of experiments that s hasn't, and says of which. Parts come behind their
// experiment: so what is in beside first, and not in s afterwards, is of one that was removed.
func removeLeft(ctx context.Context, s, beside *metastore.Store) (removed []string, err error) {
	left, err := beside.Members(ctx, "")
	if err != nil {
		return nil, err
	}
	client, err := fleet.New(ctx, s, fleet.Options{})
	if err != nil {
		return nil, err
	}
	there, err := client.IDs(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range left {
		if !fleet.IsID(id) || slices.Contains(there, id) { // a group of people may have the same name
			continue
		}
		pieces, err := beside.Members(ctx, id)
		if err != nil {
			return removed, err
		}
		for batch := range slices.Chunk(pieces, leftPartsBatch) {
			var ops []metastore.Op
			for _, p := range batch {
				ops = append(ops, metastore.Op{Path: strings.Join([]string{id, p}, "/"), Do: metastore.DeleteTree})
			}
			if err := beside.Commit(ctx, nil, ops); err != nil {
				return removed, err
			}
		}
		if err := beside.DeleteTree(ctx, id); err != nil {
			return removed, err
		}
		removed = append(removed, id)
	}
	return removed, nil
}
