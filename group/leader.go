// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"sync"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/metastore"
)

// leadFleet makes a member a candidate for leading the fleet, until the function that it returns is called: that may be
// done again. rules that keep no experiments say that the member has no executor, and is no candidate. h measures the
// ways to the members that the candidate sees; nil: it doesn't.
func leadFleet(ctx context.Context, s *metastore.Store, m *cluster.Membership, o *cluster.Options,
	rules fleet.Rules, h *hosting) (stop func(), err error) {
	if rules.Keep == 0 {
		return func() {}, nil
	}
	client, err := fleet.New(ctx, s, fleet.Options{By: o.Name, From: "leader"})
	if err != nil {
		return nil, err
	}
	view, err := cluster.Open(ctx, s)
	if err != nil {
		return nil, err
	}
	if h != nil && h.ways != nil {
		h.ways.view.Store(view)
	}
	leading, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Its error says that the member has ended, which is told by who has the member.
		_ = fleet.Lead(leading, fleet.LeaderOptions{Client: client, View: view, Campaign: m.Lead, Name: o.Name,
			Rules: rules, Report: o.Report})
	}()
	return sync.OnceFunc(func() {
		cancel()
		<-done
		view.Close()
	}), nil
}
