// SPDX-License-Identifier: Apache-2.0

package door

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/metastore"
)

// keep removes from home what has ended long ago, beyond the newest, and what belongs to no experiment, and says how
// much waits.
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
		if over > 0 && now-since >= d.o.Rules.Least {
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
	if err := d.noteLoad(ctx, all); err != nil {
		return err
	}
	if now-d.swept < d.o.Rules.Sweep {
		return nil
	}
	d.swept = now
	return d.sweep(ctx, now)
}

// sweep removes from home what belongs to no experiment: blobs, pieces, accounts, parts.
func (d *Door) sweep(ctx context.Context, now time.Duration) (err error) {
	home, unused := d.o.Home, d.o.Rules.Unused
	blobs, err := home.SweepBlobs(ctx, d.unused, now, unused, d.guards...)
	if err != nil {
		return err
	}
	d.unused = blobs
	if d.orphans, err = home.SweepOrphans(ctx, d.orphans, now, unused, d.guards...); err != nil {
		return err
	}
	if err := home.RemoveAccounts(ctx, d.guards...); err != nil || d.o.Sweep == nil {
		return err
	}
	return d.o.Sweep(ctx)
}

// load is what was said of how much waits.
type load struct {
	is    fleet.Load
	known bool
	at    time.Duration
	taken int     // pieces that were brought home since
	rate  float64 // of about the last minute, a second
}

// loadEvery is how often it is written how much waits, where that has changed.
const loadEvery = 5 * time.Second

// noteLoad writes how much waits at all sites and at home: those who submit go by it.
func (d *Door) noteLoad(ctx context.Context, all []fleet.Experiment) error {
	l, now := &d.load, d.o.Elapsed()
	if l.known && now-l.at < loadEvery {
		return nil
	}
	if took := (now - l.at).Seconds(); l.known && took > 0 {
		weight := min(1, took/60)
		l.rate = (1-weight)*l.rate + weight*float64(l.taken)/took
	}
	is := fleet.Load{Admission: d.o.Rules.Admission, Ends: math.Round(l.rate*100) / 100}
	for i := range all {
		switch e := &all[i]; {
		case e.Spec == nil || e.Ended():
		case e.Standing == nil:
			is.Waiting += e.Spec.Count()
		default:
			is.Waiting += e.Standing.Pieces[fleet.Waiting]
		}
	}
	if l.taken, l.at = 0, now; l.known && is == l.is {
		return nil
	}
	l.is, l.known = is, true
	return d.o.Home.SetLoad(ctx, is, d.guards...)
}
