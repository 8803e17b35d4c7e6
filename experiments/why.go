// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"context"
	"fmt"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/groupcall"
	"github.com/disco-sim/disco/metastore"
)

// showWhy shows which machines a piece could be given, as a leader sees them.
func showWhy(c *app.Call, found string) error {
	p, err := fleet.ParsePieceID(c.String("why"))
	if err != nil {
		return app.Usage("--why: %v", err)
	}
	return groupcall.WithStore(c, groupcall.Looks, func(ctx context.Context, s *metastore.Store) error {
		ctx, cancel, err := groupcall.Bounded(ctx, c)
		if err != nil {
			return err
		}
		defer cancel()
		fl, err := fleet.New(ctx, s, fleet.Options{By: groupcall.Who()})
		if err != nil {
			return err
		}
		e, err := fl.Find(ctx, found)
		if err != nil {
			return asUsage(err)
		}
		if e.Spec == nil || !e.Spec.Has(p) {
			return app.Usage("--why: %s has no piece %v", e.ID, p)
		}
		view, err := cluster.Open(ctx, s)
		if err != nil {
			return err
		}
		defer view.Close()
		state, err := fleet.ReadState(ctx, fl, view, fleet.Rules{})
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(c.Stdout, state.Why(e.ID, p))
		return err
	})
}
