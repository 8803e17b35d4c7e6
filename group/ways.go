// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/fleet"
	fleetagent "github.com/disco-sim/disco/fleet/agent"
	"github.com/disco-sim/disco/internal/bridge/offer"
	"github.com/disco-sim/disco/internal/bridge/stream"
)

// ways measures what lies between this machine and others of its group, by the questions of `machines`.
type ways struct {
	self     string
	security *stream.Security
	view     atomic.Pointer[cluster.View] // nil: there is none yet
}

var _ fleetagent.Ways = (*ways)(nil)

// Peers implements agent.Ways.
func (w *ways) Peers() (all []cluster.Member) {
	v := w.view.Load()
	if v == nil {
		return nil
	}
	for _, m := range v.Members() {
		if m.Name != w.self && m.Status == cluster.Up && m.Address != "" && slices.Contains(m.Roles, fleet.RoleGang) {
			all = append(all, m)
		}
	}
	return all
}

// Measure implements agent.Ways.
func (w *ways) Measure(ctx context.Context, address string, rate bool) (time.Duration, float64, error) {
	if err := w.security.CheckAddress(address); err != nil {
		return 0, 0, err
	}
	c, err := offer.Dial(ctx, address, w.security)
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	l, err := c.Look(ctx)
	if err != nil || !rate {
		return roundTrip(l), 0, err
	}
	bytes, err := c.Rate(ctx, l.RoundTrip)
	if err != nil {
		bytes = 0 // it answers questions: what is slow is no cut
	}
	return l.RoundTrip, bytes, nil
}

func roundTrip(l *offer.Looked) time.Duration {
	if l == nil {
		return 0
	}
	return l.RoundTrip
}
