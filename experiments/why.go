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

// unattended notes that no machine takes the experiment's pieces, which the leader can't say, as there is none then. A
// door's experiment is with the machines of a site, which aren't seen from here; one that was paused waits for people.
func (s *shownExperiment) unattended(ctx context.Context, c *app.Call, fl *fleet.Client) error {
	paused := s.Status == fleet.StatusPaused && s.Wish != nil && s.Wish.Want == fleet.WantPause
	if s.Ended || paused || s.Route != nil || c.String("door") != "" {
		return nil
	}
	there, err := fl.Attended(ctx)
	if err == nil && !there {
		s.Waits = fmt.Sprintf("no machine takes its pieces: start `%s agent --store URL --executor local` on one",
			c.Program)
	}
	return err
}
