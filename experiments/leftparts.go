// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"context"
	"slices"
	"strings"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/metastore"
)

// leftPartsBatch is how many pieces' parts are removed in one commit.
const leftPartsBatch = 20

// RemoveLeft removes what the store of a group's parts has of experiments that the group hasn't, and says of which.
// Parts come behind their experiment: so what has parts first, and isn't there afterwards, was removed. Those of a
// door's experiment lie under its home's id, whatever it is called at this site.
func RemoveLeft(ctx context.Context, c *fleet.Client, parts *metastore.Store) (removed []string, err error) {
	left, err := parts.Members(ctx, "")
	if err != nil {
		return nil, err
	}
	ids, err := c.IDs(ctx)
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for _, id := range ids {
		there[fleet.PlaceIDOf(id)] = true
	}
	for _, id := range left {
		if !fleet.IsID(id) || there[id] { // a group of people may have the same name
			continue
		}
		pieces, err := parts.Members(ctx, id)
		if err != nil {
			return removed, err
		}
		for batch := range slices.Chunk(pieces, leftPartsBatch) {
			var ops []metastore.Op
			for _, p := range batch {
				ops = append(ops, metastore.Op{Path: strings.Join([]string{id, p}, "/"), Do: metastore.DeleteTree})
			}
			if err := parts.Commit(ctx, nil, ops); err != nil {
				return removed, err
			}
		}
		if err := parts.DeleteTree(ctx, id); err != nil {
			return removed, err
		}
		removed = append(removed, id)
	}
	return removed, nil
}
