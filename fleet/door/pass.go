// SPDX-License-Identifier: Apache-2.0

package door

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/metastore"
)

// followMost is how long the experiments of a site are followed in one pass, in passes' times; others come first in the
// next one.
const followMost = 5

// Pass looks at all sites and all experiments once, and does what is to be done. What it commits at home has the guards
// of its leadership. An error is about the home: another pass goes on from whatever was done. What a site does wrong is
// no error.
func (d *Door) Pass(ctx context.Context, guards ...metastore.Cond) error {
	d.guards, d.leaving = guards, nil
	d.o.Each(len(d.sites), func(i int) { d.visit(ctx, d.sites[i]) })
	all, err := d.o.Home.List(ctx)
	if err != nil {
		return err
	}
	byID, bySite := map[string]*fleet.Experiment{}, map[*site][]*fleet.Experiment{}
	var rest []*fleet.Experiment // that no site has
	for i := range all {
		e := &all[i]
		byID[e.ID] = e
		if e.Spec == nil || e.Wish == nil || e.Ended() || e.Route == nil && e.RouteAt != (metastore.Version{}) {
			continue // what can't be read is left to people
		}
		if s := d.routed(e); s != nil {
			bySite[s] = append(bySite[s], e)
			if s.experiments[fleet.SiteID(e.ID, e.Route.Epoch)] == nil && e.Wish.Want == fleet.WantRun {
				s.waiting += e.Spec.Count() // it is on its way there
			}
		} else {
			rest = append(rest, e)
		}
	}
	d.turn++
	errs := make([]error, len(d.sites))
	d.o.Each(len(d.sites), func(i int) {
		s := d.sites[i]
		if err := d.fence(ctx, s, byID); err != nil {
			d.report(fmt.Errorf("site %s: what was given to others isn't ended there yet: %w", s.Name, err))
		}
		errs[i] = d.followAll(ctx, s, bySite[s])
	})
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, l := range d.leaving {
		if err := d.move(ctx, l); err != nil {
			return err
		}
	}
	for _, e := range rest {
		if err := d.begin(ctx, e); err != nil {
			return err
		}
	}
	return d.keep(ctx, all)
}

// routed is the site that has an experiment, where it is among the door's.
func (d *Door) routed(e *fleet.Experiment) *site {
	if e.Route == nil {
		return nil
	}
	return d.site(e.Route.Site)
}

// visit reads what is at a site, and renews the beat there.
func (d *Door) visit(ctx context.Context, s *site) {
	ctx, cancel := d.o.Within(ctx)
	defer cancel()
	err := d.look(ctx, s)
	now := d.o.Elapsed()
	if err == nil {
		if s.failing != never {
			d.report(fmt.Errorf("site %s answers again, after %v", s.Name, (now - s.failing).Round(time.Second)))
		}
		s.seen, s.failing, s.why = now, never, ""
		return
	}
	if s.failing == never {
		s.failing, s.why = now, bounded(err.Error(), 300) // once: people are shown it as it is
		d.report(fmt.Errorf("site %s doesn't answer: %w", s.Name, err))
	}
}

func (d *Door) look(ctx context.Context, s *site) (err error) {
	if s.access, err = s.Open(ctx); err != nil {
		return err
	}
	if s.machines, err = s.access.Machines(ctx); err != nil {
		return err
	}
	if s.all, err = s.access.Client.List(ctx); err != nil {
		return err
	}
	// A site whose answers don't arrive isn't written to: it would go on, and others be given what it has.
	began := d.o.Elapsed()
	beat := fleet.Beat{Number: rand.Uint64(), Grace: d.o.Rules.Away / 2}
	if err := s.access.Client.SetBeat(ctx, d.o.ID, beat); err != nil {
		return err
	}
	s.trips = append(s.trips[max(0, len(s.trips)-tripsKept+1):], d.o.Elapsed()-began)
	s.experiments, s.waiting = map[string]*fleet.Experiment{}, 0
	for i := range s.all {
		x := &s.all[i]
		if x.Spec == nil {
			continue
		}
		if h := x.Spec.Home; h != nil && h.Door == d.o.ID {
			s.experiments[x.ID] = x
		}
		if x.Wish == nil || x.Ended() || x.Wish.Want != fleet.WantRun {
			continue
		}
		if x.Standing == nil {
			s.waiting += x.Spec.Count()
		} else {
			s.waiting += x.Standing.Pieces[fleet.Waiting]
		}
	}
	return nil
}

// fence has a site give up what it was given by decisions that don't count any more. Home was read behind the site: a
// decision that was replaced then stays so.
func (d *Door) fence(ctx context.Context, s *site, byID map[string]*fleet.Experiment) error {
	if !s.there() {
		return nil
	}
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(s.experiments)) {
		x := s.experiments[id]
		e := byID[x.Spec.Home.ID]
		current := e != nil && e.Route != nil && e.Route.Site == s.Name && e.Route.Epoch == x.Spec.Home.Epoch
		switch {
		case x.Ended() || current && !e.Ended():
		case current && e.Wish != nil:
			errs = append(errs, d.atSite(ctx, s, func(ctx context.Context, c *fleet.Client) error {
				return c.CarryWish(ctx, x, *e.Wish)
			}))
		case e == nil, e.Route != nil && (e.Route.Epoch > x.Spec.Home.Epoch || e.Route.Site != s.Name):
			errs = append(errs, d.atSite(ctx, s, func(ctx context.Context, c *fleet.Client) error {
				return c.Fence(ctx, x, "the door has given it to another site, or it was removed")
			}))
		}
	}
	return errors.Join(errs...)
}

// atSite has a site do something, in bounded time.
func (d *Door) atSite(ctx context.Context, s *site, f func(ctx context.Context, c *fleet.Client) error) error {
	ctx, cancel := d.o.Within(ctx)
	defer cancel()
	return f(ctx, s.access.Client)
}

// followAll follows the experiments of a site: in another order each time, where they take long.
func (d *Door) followAll(ctx context.Context, s *site, all []*fleet.Experiment) error {
	began := d.o.Elapsed()
	for i := range all {
		e := all[(i+d.turn)%len(all)]
		if d.o.Elapsed()-began > followMost*d.o.Rules.Pass {
			return nil
		}
		if err := d.follow(ctx, s, e); err != nil {
			return err
		}
	}
	return nil
}

// trouble notes what keeps an experiment from getting on at its site, and has it given to another one when that has
// lasted for long.
func (d *Door) trouble(e *fleet.Experiment, what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, known := d.troubles[e.ID]
	if !known || t.epoch != e.Route.Epoch {
		t = trouble{epoch: e.Route.Epoch, since: d.o.Elapsed()}
	}
	t.what = what
	d.troubles[e.ID] = t
	if d.o.Elapsed()-t.since >= d.o.Rules.Away {
		d.leaving = append(d.leaving, leaving{e: e, why: what, quiet: true})
	}
}

// well notes that an experiment gets on.
func (d *Door) well(e *fleet.Experiment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.troubles, e.ID)
}

// leave has an experiment given to another site behind this pass's look at all of them.
func (d *Door) leave(l leaving) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leaving = append(d.leaving, l)
}

// follow does what is to be done with an experiment that a site has.
func (d *Door) follow(ctx context.Context, s *site, e *fleet.Experiment) error {
	if !s.there() {
		return d.cutOff(ctx, s, e)
	}
	x := s.experiments[fleet.SiteID(e.ID, e.Route.Epoch)]
	switch {
	case x == nil && e.Wish.Want == fleet.WantCancel:
		return d.canceled(ctx, e, "it was cancelled before site "+s.Name+" had it")
	case x == nil:
		if err := d.adopt(ctx, s, e); err != nil {
			if home := (*homeError)(nil); errors.As(err, &home) {
				return home.error
			}
			d.report(fmt.Errorf("site %s isn't given %s: %w", s.Name, e.ID, err))
			d.trouble(e, bounded("it can't be given: "+err.Error(), 1_000))
		}
		return nil
	case x.Wish == nil:
		d.trouble(e, "what is there of it can't be read")
		return nil
	case x.Wish.Number < e.Wish.Number:
		err := d.atSite(ctx, s, func(ctx context.Context, c *fleet.Client) error {
			return c.CarryWish(ctx, x, *e.Wish)
		})
		if err != nil {
			d.report(fmt.Errorf("site %s isn't told what is wanted of %s: %w", s.Name, e.ID, err))
			d.trouble(e, bounded("it can't be told what is wanted: "+err.Error(), 1_000))
		}
		return nil
	}
	whole, err := d.take(ctx, s, e, x)
	if err != nil {
		return err
	}
	switch {
	case !whole: // it has said so
		return d.mirror(ctx, e, x)
	case x.Ended():
		d.well(e)
		return d.conclude(ctx, s, e, x)
	case s.lacks(e.Spec) != "":
		d.trouble(e, s.lacks(e.Spec))
	case x.Standing == nil:
		d.trouble(e, "none of its machines has looked at it yet")
	case d.waits(s, e, x):
	default:
		d.well(e)
	}
	return d.mirror(ctx, e, x)
}

// cutOff waits for a site that doesn't answer, for a time.
func (d *Door) cutOff(ctx context.Context, s *site, e *fleet.Experiment) error {
	if s.failing == never { // it wasn't looked at
		return nil
	}
	gone := d.o.Elapsed() - s.failing
	reason := fmt.Sprintf("site %s doesn't answer: %s", s.Name, s.why)
	switch {
	case gone < d.o.Rules.Away:
		return d.note(ctx, e, reason)
	case e.Wish.Want == fleet.WantCancel:
		return d.canceled(ctx, e, reason+"; it is told when it does")
	}
	d.leave(leaving{e: e, why: fmt.Sprintf("it hasn't answered for %v: %s", gone.Round(time.Second), s.why)})
	return nil
}

// waits notes that nothing of an experiment runs at a busy site while another one would have it begin, and has it given
// to that when this has lasted.
func (d *Door) waits(s *site, e, x *fleet.Experiment) bool {
	if x.Standing == nil || e.Wish.Want != fleet.WantRun {
		return false
	}
	for state, n := range x.Standing.Pieces {
		if n > 0 && state.Holds() {
			return false
		}
	}
	all, _ := d.choose(e, &fleet.Route{Tried: e.Route.Tried})
	mine := fleet.Experiment{ID: e.ID, Spec: e.Spec} // as if it weren't there
	grade, _, _ := d.weigh(s, &mine, nil)
	if all[0].grade != Healthy || all[0].site == s || grade == Healthy {
		return false
	}
	d.mu.Lock()
	t, known := d.troubles[e.ID]
	if !known || t.epoch != e.Route.Epoch {
		t = trouble{epoch: e.Route.Epoch, since: d.o.Elapsed()}
	}
	t.what = "it waited there, and " + all[0].site.Name + " has free servers"
	d.troubles[e.ID] = t
	long := d.o.Elapsed()-t.since >= d.o.Rules.Queued
	d.mu.Unlock()
	if long {
		d.leave(leaving{e: e, why: t.what, quiet: true})
	}
	return true
}

// homeError is an error of the home, among those of sites.
type homeError struct{ error }

// adopt gives an experiment to its site, with the pieces that have ended elsewhere.
func (d *Door) adopt(ctx context.Context, s *site, e *fleet.Experiment) error {
	taken := map[fleet.PieceID]fleet.Piece{}
	// Home has some also where this is the first site, and its store is a new one. Steps hand figures on, which another
	// site wouldn't have.
	some := e.Route.Epoch > 1 || e.Standing != nil && e.Standing.Pieces[fleet.Finished] > 0
	if some && len(e.Spec.Steps) == 1 {
		pieces, err := d.pieces(ctx, e)
		if err != nil {
			return &homeError{err}
		}
		for p, is := range pieces {
			if is.State == fleet.Finished {
				taken[p] = is.Piece
			}
		}
	}
	h := fleet.Home{ID: e.ID, Epoch: e.Route.Epoch, Door: d.o.ID}
	return d.atSite(ctx, s, func(ctx context.Context, c *fleet.Client) error {
		return c.Adopt(ctx, e.Spec, *e.Wish, h, taken, d.o.Home.Blob)
	})
}

// pieces reads the pieces of an experiment at home.
func (d *Door) pieces(ctx context.Context, e *fleet.Experiment) (map[fleet.PieceID]fleet.PieceAt, error) {
	pieces, malformed, err := d.o.Home.Pieces(ctx, e.ID)
	if err == nil {
		err = errors.Join(malformed...)
	}
	finished := 0
	for _, p := range pieces {
		if p.State == fleet.Finished {
			finished++
		}
	}
	d.mu.Lock()
	d.taken[e.ID] = finished
	d.mu.Unlock()
	return pieces, err
}
