// SPDX-License-Identifier: Apache-2.0

package door

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/metastore"
)

// Times of keeping order at home.
const (
	keepLeast = 300 * time.Second // for which an experiment stays behind its end: a retry of its submission may come
	sweepGap  = 10 * time.Minute  // between two looks for blobs that nothing names
)

// keep removes from home what has ended long ago, beyond the newest, and blobs that nothing names.
func (d *Door) keep(ctx context.Context, all []fleet.Experiment) error {
	now, over := d.o.Elapsed(), -d.o.Rules.Keep
	there := map[string]bool{}
	for i := range all {
		if all[i].Ended() {
			over++
		}
	}
	for i := range all { // the oldest first
		e := &all[i]
		there[e.ID] = true
		if !e.Ended() {
			delete(d.ended, e.ID)
			continue
		}
		since, known := d.ended[e.ID]
		if !known {
			d.ended[e.ID], since = now, now
		}
		if over > 0 && now-since >= keepLeast {
			over--
			err := d.o.Home.RemoveExperiment(ctx, e.ID, d.guards...)
			if conflict := (*metastore.ConflictError)(nil); errors.As(err, &conflict) && !d.mine(conflict) {
				continue // somebody has asked for a retry
			}
			if err != nil {
				return fmt.Errorf("%s can't be removed: %w", e.ID, err)
			}
		}
	}
	for id := range d.ended {
		if !there[id] {
			delete(d.ended, id)
		}
	}
	for id := range d.taken {
		if !there[id] {
			delete(d.taken, id)
			delete(d.troubles, id)
		}
	}
	if now-d.swept < sweepGap {
		return nil
	}
	d.swept = now
	unused, err := d.o.Home.SweepBlobs(ctx, d.unused, now, d.o.Rules.Unused, d.guards...)
	if err == nil {
		d.unused = unused
	}
	return err
}
