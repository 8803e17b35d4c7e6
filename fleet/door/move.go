// SPDX-License-Identifier: Apache-2.0

package door

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/metastore"
)

// begin gives an experiment that no site has to the first that would do.
func (d *Door) begin(ctx context.Context, e *fleet.Experiment) error {
	switch {
	case e.Wish.Want == fleet.WantCancel:
		return d.canceled(ctx, e, "")
	case e.Route != nil:
		return d.move(ctx, leaving{e: e, why: "it isn't among the door's sites any more"})
	case e.Wish.Want == fleet.WantPause:
		return d.note(ctx, e, "it is to stand still, and no site has it")
	}
	return d.route(ctx, leaving{e: e}, fleet.Route{Retry: e.Wish.Retry})
}

// move gives an experiment to another site. Where there is none it stays; one that has failed there has failed then.
func (d *Door) move(ctx context.Context, l leaving) error {
	r := *l.e.Route
	if r.Retry != l.e.Wish.Retry {
		r.Retry, r.Tried = l.e.Wish.Retry, nil
	}
	r.Tried = append(slices.Clone(r.Tried), fleet.Tried{Site: r.Site, Epoch: r.Epoch, Why: bounded(l.why, 1_000),
		Failed: l.failed != nil, At: d.o.Now().UTC()})
	r.Tried = r.Tried[max(0, len(r.Tried)-fleet.TriedMost):]
	if l.failed != nil {
		all, _ := d.choose(l.e, &r)
		awaits := slices.ContainsFunc(all, func(c candidate) bool { return d.mayCome(c.site, &r) })
		if all[0].grade == Unhealthy && awaits {
			return d.mirror(ctx, l.e, l.failed)
		}
		if all[0].grade == Unhealthy {
			return d.finish(ctx, l.e, l.failed, r.Tried)
		}
	}
	return d.route(ctx, l, r)
}

// mayCome tells whether a site that can't be reached now is waited for, where it may yet do for what has failed
// elsewhere.
func (d *Door) mayCome(s *site, r *fleet.Route) bool {
	away := s.seen == never && s.failing == never || s.failing != never && d.o.Elapsed()-s.failing < d.o.Rules.Away
	return away && !slices.ContainsFunc(r.Tried, func(t fleet.Tried) bool { return t.Failed && t.Site == s.Name })
}

// route gives an experiment to the first site that would do, if there is one, and it isn't there already.
func (d *Door) route(ctx context.Context, l leaving, r fleet.Route) error {
	e := l.e
	all, why := d.choose(e, &r)
	i := slices.IndexFunc(all, func(c candidate) bool { return c.grade != Unhealthy && c.site.Name != r.Site })
	if i < 0 && l.quiet {
		return nil
	}
	if i < 0 {
		reasons := "no site would do"
		for _, c := range all {
			if c.grade == Unhealthy {
				reasons += "; " + c.site.Name + ": " + c.text
			}
		}
		return d.note(ctx, e, reasons)
	}
	to := all[i].site
	r.Site, r.Epoch, r.Why = to.Name, r.Epoch+1, why
	err := d.o.Home.SetRoute(ctx, e, r, d.guards...)
	if conflict := (*metastore.ConflictError)(nil); errors.As(err, &conflict) && !d.mine(conflict) {
		return nil // people have changed their minds: the next pass sees it
	}
	if err != nil {
		return err
	}
	d.well(e)
	to.waiting += e.Spec.Count()
	return nil
}

// mine tells whether a conflict is about the leadership.
func (d *Door) mine(c *metastore.ConflictError) bool { return slices.Contains(d.guards, c.Cond) }

// take brings home what has ended well at a site, and of an experiment that has ended there all. whole tells whether
// everything that is to be taken was.
func (d *Door) take(ctx context.Context, s *site, e, x *fleet.Experiment) (whole bool, err error) {
	if x.Standing == nil {
		return true, nil
	}
	d.mu.Lock()
	taken, known := d.taken[e.ID]
	d.mu.Unlock()
	fresh := x.Standing.Pieces[fleet.Finished] - taken
	if known && !x.Ended() && fresh < 1+taken/takePart {
		return true, nil
	}
	was, err := d.pieces(ctx, e)
	if err != nil {
		return false, err
	}
	var there map[fleet.PieceID]fleet.PieceAt
	err = d.atSite(ctx, s, func(ctx context.Context, c *fleet.Client) error {
		var malformed []error
		there, malformed, err = c.Pieces(ctx, x.ID)
		return errors.Join(append(malformed, err)...)
	})
	if err != nil {
		d.trouble(e, bounded("its pieces can't be read: "+err.Error(), 1_000))
		return false, nil
	}
	take, left := d.fetch(ctx, s, e, x, was, there)
	if len(take) > 0 {
		err := d.o.Home.TakePieces(ctx, e, was, take, d.guards...)
		if conflict := (*metastore.ConflictError)(nil); errors.As(err, &conflict) && !d.mine(conflict) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		d.noteTaken(e, take)
	}
	return left == 0, nil
}

// Of an experiment with N pieces at home others are taken when there are 1 + N/takePart: so that what is read for it
// grows with the pieces, and not with their square. takeMost bounds those of one pass.
const (
	takePart  = 20
	takeMost  = 1_000
	takeChunk = 16
)

func (d *Door) noteTaken(e *fleet.Experiment, take map[fleet.PieceID]fleet.Piece) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, to := range take {
		if to.State == fleet.Finished {
			d.taken[e.ID]++
			d.load.taken++
		}
	}
}

// fetch brings parts home, and gives the pieces that can be written there; left is how many there are beside.
func (d *Door) fetch(ctx context.Context, s *site, e, x *fleet.Experiment, was,
	there map[fleet.PieceID]fleet.PieceAt) (take map[fleet.PieceID]fleet.Piece, left int) {
	take = map[fleet.PieceID]fleet.Piece{}
	var wanted []fleet.PieceID
	for p, is := range there {
		before := was[p]
		switch {
		case before.State == fleet.Finished || !is.State.Ended() || is.State != fleet.Finished && !x.Ended():
		case is.State == fleet.Finished:
			wanted = append(wanted, p)
		case before.State != is.State || before.Attempt != is.Attempt || before.Site != s.Name:
			take[p] = d.kept(s, is.Piece)
		}
	}
	slices.SortFunc(wanted, comparePieces)
	now := wanted[:min(len(wanted), takeMost)]
	left = len(wanted) - len(now)
	var mu sync.Mutex
	for chunk := range slices.Chunk(now, takeChunk) {
		d.o.Each(len(chunk), func(i int) {
			p := chunk[i]
			to := d.kept(s, there[p].Piece)
			place, err := d.bring(ctx, s, e, p, to.Kept)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				left++
				d.report(fmt.Errorf("site %s: the part of piece %v of %s can't be taken: %w", s.Name, p, e.ID, err))
				d.trouble(e, bounded(fmt.Sprintf("the part of piece %v can't be taken: %v", p, err), 1_000))
				return
			}
			kept := *to.Kept
			kept.Place = place
			to.Kept = &kept
			take[p] = to
		})
	}
	return take, left
}

func (d *Door) bring(ctx context.Context, s *site, e *fleet.Experiment, p fleet.PieceID,
	k *fleet.Kept) (place string, err error) {
	if e.Spec.Place != "" {
		return k.Place, nil
	}
	ctx, cancel := d.o.Within(ctx)
	defer cancel()
	return s.access.Take(ctx, e.Spec, p, k)
}

func comparePieces(a, b fleet.PieceID) int {
	return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Point, b.Point), cmp.Compare(a.Replication, b.Replication))
}

// kept is what home has of a piece that has ended at a site: machines there mean nothing here.
func (d *Door) kept(s *site, p fleet.Piece) fleet.Piece {
	p.Gang, p.Fault, p.Wait, p.Token = nil, nil, 0, 0
	if p.Site == "" {
		p.Site = s.Name
	}
	return p
}

// conclude ends an experiment that has ended at its site, or has another one try it: what a machine has failed, or the
// lack of one, may be better there.
func (d *Door) conclude(ctx context.Context, s *site, e, x *fleet.Experiment) error {
	canceled := e.Wish.Want == fleet.WantCancel
	switch status := x.Standing.Status; {
	case status == fleet.StatusFinished, canceled:
		return d.finish(ctx, e, x, e.Route.Tried)
	case status == fleet.StatusFailed && slices.ContainsFunc(x.Standing.Errors, func(p fleet.PieceError) bool {
		return p.Error.Type != fleet.ErrorMachine && p.Error.Type != fleet.ErrorFit
	}):
		return d.finish(ctx, e, x, e.Route.Tried)
	}
	why := fmt.Sprintf("it ended as %v there", x.Standing.Status)
	if errs := x.Standing.Errors; len(errs) > 0 {
		why += ": " + errs[0].Error.Message
	} else if x.Standing.Reason != "" {
		why += ": " + x.Standing.Reason
	}
	d.leave(leaving{e: e, why: why, failed: x})
	return nil
}

// finish writes the end of an experiment, as it is at its site.
func (d *Door) finish(ctx context.Context, e, x *fleet.Experiment, tried []fleet.Tried) error {
	to := d.seen(e, x)
	to.Ended = true
	for _, t := range tried {
		if t.Failed && to.Status != fleet.StatusFinished {
			to.Reason = bounded(to.Reason+"; site "+t.Site+": "+t.Why, fleet.MaxReason)
		}
	}
	return d.stand(ctx, e, to)
}

// mirror writes how far an experiment is at its site.
func (d *Door) mirror(ctx context.Context, e, x *fleet.Experiment) error {
	if x.Standing == nil {
		return d.note(ctx, e, "site "+e.Route.Site+" has it, and none of its machines has looked at it yet")
	}
	to := d.seen(e, x)
	to.Ended = false
	return d.stand(ctx, e, to)
}

// seen is the standing at a site as one of home: what isn't here hasn't finished.
func (d *Door) seen(e, x *fleet.Experiment) fleet.Standing {
	to := *x.Standing
	to.Pieces, to.Errors = maps.Clone(to.Pieces), slices.Clone(to.Errors)
	d.mu.Lock()
	taken, trouble := d.taken[e.ID], d.troubles[e.ID]
	d.mu.Unlock()
	if more := to.Pieces[fleet.Finished] - taken; more > 0 && !x.Ended() {
		to.Pieces[fleet.Finished] = taken
		to.Pieces[fleet.Running] += more
	}
	for i := range to.Errors {
		to.Errors[i].Error.Where = bounded(e.Route.Site+"/"+to.Errors[i].Error.Where, 200)
	}
	reason := "at site " + e.Route.Site
	for _, more := range []string{to.Reason, trouble.what} {
		if more != "" {
			reason += ": " + more
		}
	}
	to.Reason = bounded(reason, fleet.MaxReason)
	return to
}

// note writes why an experiment doesn't get on. Its counts stay those that were seen last, but for what runs.
func (d *Door) note(ctx context.Context, e *fleet.Experiment, reason string) error {
	to := fleet.Standing{Status: fleet.StatusSubmitted, Pieces: map[fleet.PieceState]int{}}
	finished := 0
	if was := e.Standing; was != nil {
		finished = was.Pieces[fleet.Finished]
		to.Retry, to.Wish, to.Errors, to.Failed = was.Retry, was.Wish, was.Errors, was.Failed
	}
	if finished > 0 {
		to.Status, to.Pieces[fleet.Finished] = fleet.StatusActive, finished
	}
	to.Pieces[fleet.Waiting] = max(0, e.Spec.Count()-finished)
	to.Retry, to.Reason = e.Wish.Retry, bounded(reason, fleet.MaxReason)
	return d.stand(ctx, e, to)
}

// canceled ends an experiment that no site has, or whose site can't be told.
func (d *Door) canceled(ctx context.Context, e *fleet.Experiment, reason string) error {
	pieces, err := d.pieces(ctx, e)
	if err != nil {
		return err
	}
	to := fleet.Standing{Status: fleet.StatusCanceled, Ended: true, Wish: e.Wish.Number, Retry: e.Wish.Retry,
		Reason: bounded(reason, fleet.MaxReason), Pieces: map[fleet.PieceState]int{}}
	ended := 0
	for _, p := range pieces {
		if p.State.Ended() {
			to.Pieces[p.State]++
			ended++
		}
	}
	to.Pieces[fleet.Canceled] += max(0, e.Spec.Count()-ended)
	return d.stand(ctx, e, to)
}

// stand writes how far an experiment is, where that is new, and its route is still the one that it was read with.
func (d *Door) stand(ctx context.Context, e *fleet.Experiment, to fleet.Standing) error {
	now := d.o.Now().UTC()
	to.Leader, to.EndedAt, to.Began = "door "+d.o.Name, nil, nil
	was := fleet.Standing{}
	if e.Standing != nil {
		was = *e.Standing
		to.Began = was.Began
	}
	if moving := to.Pieces[fleet.Dispatched] + to.Pieces[fleet.Running]; to.Began == nil && moving > 0 {
		to.Began = &now
	}
	maps.DeleteFunc(to.Pieces, func(_ fleet.PieceState, n int) bool { return n == 0 })
	was.EndedAt, was.Leader = nil, to.Leader
	if e.Standing != nil && same(was, to) {
		return nil
	}
	if to.Ended {
		to.EndedAt = &now
	}
	guards := append(slices.Clone(d.guards), e.Routed(), e.Wished())
	err := d.o.Home.SetStanding(ctx, e.ID, e.StandingAt, to, guards...)
	if conflict := (*metastore.ConflictError)(nil); errors.As(err, &conflict) && !d.mine(conflict) ||
		errors.Is(err, fleet.ErrGone) {
		return nil // the next pass sees what has changed
	}
	return err
}

// same tells whether two standings are one value in the store.
func same(a, b fleet.Standing) bool {
	x, wrong := json.Marshal(a)
	y, also := json.Marshal(b)
	return wrong == nil && also == nil && bytes.Equal(x, y)
}
