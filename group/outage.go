// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/metastore"
)

// probeEvery is how often a command that follows the store asks whether it is there: a watch alone can't tell a store
// that is silent from one that is out of reach.
const probeEvery = 2 * time.Second

// reportAfter is how long a store may be silent until that is said.
const reportAfter = 3 * time.Second

// follow runs f, which follows the store, and says on standard error when the store is out of reach, for how long it
// has been tried, and when it is back: then it calls back. A store that will never answer again ends ctx of f, and so
// does an output that nobody reads any more, which a watch would find out at the next change only.
func follow(ctx context.Context, c *app.Call, s *metastore.Store, back func(),
	f func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	all.Go(func() { cancel(probe(ctx, c, s, back)) })
	all.Go(func() { cancel(unread(ctx, c)) })
	defer func() { cancel(nil); all.Wait() }()
	return f(ctx)
}

// unread waits until ctx ends, or until the other end of the output has been closed (`store watch KEY | head -1`).
func unread(ctx context.Context, c *app.Call) error {
	for {
		if c.Unread() {
			return app.ErrUnread
		}
		select {
		case <-time.After(probeEvery):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// probe asks the store again and again until ctx ends, or until it is certain that the store is another one or refuses
// this user. Of a long outage it reports ever less often.
func probe(ctx context.Context, c *app.Call, s *metastore.Store, back func()) error {
	var since time.Time // when the call began that wasn't answered; zero while the store is there
	var next time.Duration
	for {
		began := time.Now()
		asking, cancel := context.WithTimeout(ctx, min(reportAfter, c.Duration("store-timeout")))
		_, err := s.Contains(asking, "")
		cancel()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch {
		case errors.Is(err, metastore.ErrWrongCluster), errors.Is(err, metastore.ErrDenied):
			return err
		case err == nil && !since.IsZero():
			fmt.Fprintf(c.Stderr, "%s: the store is back, after %v\n", c.Program, outage(since))
			since = time.Time{}
			back()
		case err != nil && since.IsZero():
			since, next = began, 0
			fallthrough
		case err != nil && time.Since(since) >= next:
			fmt.Fprintf(c.Stderr, "%s: the store has been out of reach for %v, what is shown may be old; "+
				"trying again: %v\n", c.Program, outage(since), err)
			next = 2 * time.Since(since)
		}
		select {
		case <-time.After(probeEvery):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// outage is how long something has lasted, for people.
func outage(since time.Time) time.Duration { return time.Since(since).Round(100 * time.Millisecond) }
