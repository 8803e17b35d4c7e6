// SPDX-License-Identifier: Apache-2.0

package door

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// Key is where the doors of a home elect the one that decides.
const Key = "fleet/door"

// Times of the loop.
const (
	passMost = time.Minute            // of a pass at home, until its outage is said
	termGap  = 500 * time.Millisecond // between two leaderships
)

// Run makes this program a candidate for deciding until ctx ends, and decides whenever it is elected (campaign).
func Run(ctx context.Context, o Options, campaign func(ctx context.Context) (*metastore.Lead, error)) error {
	for {
		lead, err := campaign(ctx)
		if err == nil {
			err = term(ctx, o, lead)
		}
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, metastore.ErrWrongCluster) || errors.Is(err, metastore.ErrClosed) {
			return err
		}
		if err != nil {
			o.Report(fmt.Errorf("door %s decides no more: %w", o.Name, err))
		}
		select {
		case <-time.After(termGap):
		case <-ctx.Done():
			return nil
		}
	}
}

// term is one leadership.
func term(ctx context.Context, o Options, lead *metastore.Lead) error {
	began := time.Now()
	o.Elapsed = func() time.Duration { return time.Since(began) }
	d := New(o)
	leads, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-lead.Lost():
			cancel()
		case <-leads.Done():
		}
	}()
	tick := time.NewTicker(d.o.Rules.Pass)
	defer tick.Stop()
	for leads.Err() == nil {
		bounded, undo := context.WithTimeoutCause(leads, passMost,
			fmt.Errorf("the home hasn't answered for %v", passMost))
		err := d.Pass(bounded, lead.Guard())
		undo()
		conflict := (*metastore.ConflictError)(nil)
		if leads.Err() == nil && errors.As(err, &conflict) && conflict.Cond == lead.Guard() {
			return fmt.Errorf("another one decides: %w", err)
		}
		if err != nil && leads.Err() == nil {
			d.report(fmt.Errorf("door %s: %w: it is tried again", o.Name, err))
		}
		select {
		case <-tick.C:
		case <-leads.Done():
		}
	}
	if ctx.Err() == nil {
		return nil // its session is over
	}
	resigning, undo := context.WithTimeout(context.WithoutCancel(ctx), d.o.Rules.Call)
	defer undo()
	return lead.Resign(resigning)
}
