// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// A door accepts experiments in a group of its own, their home, and has groups of other stores, its sites, simulate
// them. docs/sites.md has the rules.

// Home says whose an experiment of a site is: that of which door, and by which of its decisions. It is there under
// SiteID, and its parts and checkpoints lie under the ID that it has at home, at each site.
type Home struct {
	ID    string `json:"id"`
	Epoch uint64 `json:"epoch"`
	Door  string `json:"door"` // the name of the tree of the door's store
}

func (h *Home) check() error {
	if h == nil {
		return nil
	}
	errs := []error{checkID(h.ID), filled("door", h.Door, maxName)}
	if h.Epoch == 0 {
		errs = append(errs, errors.New("epoch: found 0, want 1 or more"))
	}
	return errors.Join(errs...)
}

// SiteID is the id, at a site, of what a door has given to it by one of its decisions.
func SiteID(id string, epoch uint64) string { return fmt.Sprintf("%s_%d", id, epoch) }

// PlaceIDOf is the name under which parts and checkpoints of the experiment of an id are kept: SiteID's inverse, or the
// id of an experiment that no door has given to this group.
func PlaceIDOf(id string) string {
	i := strings.LastIndexByte(id, '_')
	if i < 0 || !IsID(id[:i]) {
		return id
	}
	if _, err := strconv.ParseUint(id[i+1:], 10, 64); err != nil {
		return id
	}
	return id[:i]
}

// PlaceID names an experiment where its parts and checkpoints are kept.
func (s *Spec) PlaceID() string {
	if s.Home != nil {
		return s.Home.ID
	}
	return s.ID
}

// Route is which site an experiment is given to, in the key fleet/experiments/ID/route of its home. The door's leader
// writes it. What isn't done under its Epoch doesn't count.
type Route struct {
	Epoch uint64  `json:"epoch"` // rises by one with each site
	Site  string  `json:"site"`
	Why   string  `json:"why"` // this one: its terms, and those of the others
	Retry uint64  `json:"retry,omitempty"`
	Tried []Tried `json:"tried,omitempty"` // sites before, the last ones, the newest last
}

// Tried is a site that an experiment was given to before.
type Tried struct {
	Site   string    `json:"site"`
	Epoch  uint64    `json:"epoch"`
	Why    string    `json:"why"`              // it isn't there any more
	Failed bool      `json:"failed,omitempty"` // it failed there: it isn't given to this site again before a retry
	At     time.Time `json:"at"`               // by the door's clock, for people
}

// TriedMost is how many sites before a route lists.
const TriedMost = 20

func (r *Route) check() error {
	errs := []error{filled("site", r.Site, maxName), text("why", r.Why, MaxReason),
		number("sites before", len(r.Tried), 0, TriedMost)}
	for _, t := range r.Tried {
		errs = append(errs, filled("site", t.Site, maxName), text("why", t.Why, MaxReason))
	}
	if r.Epoch == 0 {
		errs = append(errs, errors.New("epoch: found 0, want 1 or more"))
	}
	return errors.Join(errs...)
}

// Beat is what a door writes at a site again and again, in the key fleet/doors/DOOR. When it has stood for Grace, the
// site has what it was given by that door stand still, until it rises again.
type Beat struct {
	Number uint64        `json:"number"` // another one each time
	Grace  time.Duration `json:"grace_ns"`
}

func (l *Beat) check() error {
	if l.Grace < time.Second || l.Grace > 24*time.Hour {
		return fmt.Errorf("grace: found %v, want 1s to 24h", l.Grace)
	}
	return nil
}

// Beats are what a leader has seen of doors. The zero value has seen none. One goroutine uses it.
type Beats struct{ doors map[string]beatSeen }

type beatSeen struct {
	Beat
	since time.Duration
}

// graceDefault is for how long a door is waited for that has written no beat.
const graceDefault = time.Minute

// See tells what a door's beat is, now by the leader's clock.
func (l *Beats) See(door string, is Beat, now time.Duration) {
	if was, known := l.doors[door]; known && was.Beat == is {
		return
	}
	if l.doors == nil {
		l.doors = map[string]beatSeen{}
	}
	l.doors[door] = beatSeen{is, now}
}

// Wish is what a leader is to do with an experiment: what people want, but of a door's one whose beat is over nothing
// goes on.
func (l *Beats) Wish(s *Spec, w Wish, now time.Duration) Wish {
	if s.Home == nil || w.Want != WantRun {
		return w
	}
	if _, known := l.doors[s.Home.Door]; !known {
		l.See(s.Home.Door, Beat{Grace: graceDefault}, now)
	}
	if is := l.doors[s.Home.Door]; now-is.since > is.Grace {
		w.Want = WantPause
	}
	return w
}

// SetBeat writes a door's beat at a site.
func (c *Client) SetBeat(ctx context.Context, door string, l Beat) error {
	if err := errors.Join(checkName(door), l.check()); err != nil {
		return err
	}
	op, err := c.op(metastore.Set, doorKey(door), l)
	if err != nil {
		return err
	}
	return c.again(ctx, nil, op)
}

// Doors reads the beats of all doors, and what is wrong with those that can't be read.
func (c *Client) Doors(ctx context.Context) (all map[string]Beat, malformed []error, err error) {
	values, err := c.store.Walk(ctx, keyDoors)
	if err != nil {
		return nil, nil, err
	}
	all = map[string]Beat{}
	for _, v := range values {
		if !v.HasValue() {
			continue
		}
		var l Beat
		err := v.Decode(&l)
		if err == nil {
			err = l.check()
		}
		if err != nil {
			malformed = append(malformed, &MalformedError{v.Key(), err})
			continue
		}
		all[v.Key()[len(keyDoors)+1:]] = l
	}
	return all, malformed, nil
}

// SetRoute gives an experiment to a site, where its route and its wish are as they were read: what was decided by them
// is decided anew where they aren't. guards are the door's leader's.
func (c *Client) SetRoute(ctx context.Context, e *Experiment, r Route, guards ...metastore.Cond) error {
	if err := r.check(); err != nil {
		return fmt.Errorf("%s: the route: %w", e.ID, err)
	}
	op, err := c.op(metastore.Set, routeKey(e.ID), r)
	if err != nil {
		return err
	}
	conds := append(slices.Clone(guards), at(routeKey(e.ID), e.RouteAt), at(wishKey(e.ID), e.WishAt), exists(e.ID))
	return gone(e.ID, c.store.Commit(ctx, conds, []metastore.Op{op}))
}

// Routed is the condition that an experiment's route is as it was read.
func (e *Experiment) Routed() metastore.Cond { return at(routeKey(e.ID), e.RouteAt) }

// TakePieces writes pieces that have ended at the experiment's site into its home, in several commits: each only if the
// route is as it was read, and the piece too (was; a piece that isn't in it has no key). One that is FINISHED stays so.
func (c *Client) TakePieces(ctx context.Context, e *Experiment, was map[PieceID]PieceAt, take map[PieceID]Piece,
	guards ...metastore.Cond) error {
	const most = (metastore.MaxOps - 10) / 2
	for batch := range slices.Chunk(inOrder(take), most) {
		conds := append(slices.Clone(guards), e.Routed(), exists(e.ID))
		var ops []metastore.Op
		for _, p := range batch {
			to := take[p]
			if before := was[p]; before.State == Finished || !to.State.Ended() {
				return &MoveError{e.ID, p, before.State, to.State, "want an end of a piece that isn't FINISHED"}
			}
			if err := to.check(); err != nil {
				return fmt.Errorf("%s: piece %v: %w", e.ID, p, err)
			}
			op, err := c.op(metastore.Set, pieceKey(e.ID, p), to)
			if err != nil {
				return err
			}
			conds, ops = append(conds, at(pieceKey(e.ID, p), was[p].Version)), append(ops, op)
		}
		if err := c.store.Commit(ctx, conds, ops); err != nil {
			return gone(e.ID, err)
		}
	}
	return nil
}

// Adopt makes an experiment of a home one of this site, with the pieces that have been taken before, which aren't
// simulated again; blob reads the home's blobs. Doing it again is no error, also when an earlier one comes late.
// *FullError.
func (c *Client) Adopt(ctx context.Context, home *Spec, wish Wish, h Home, taken map[PieceID]Piece,
	blob func(ctx context.Context, d Digest) ([]byte, error)) error {
	spec := *home
	spec.ID, spec.Home = SiteID(h.ID, h.Epoch), &h
	spec.Key = sha([]byte("door/" + h.Door + "/" + spec.ID))
	if err := spec.check(); err != nil {
		return fmt.Errorf("%s: %w", spec.ID, err)
	}
	if err := c.makeFormat(ctx); err != nil {
		return err
	}
	there, err := c.names(ctx, keyExperiments)
	if err != nil {
		return err
	}
	if len(there) >= c.o.Experiments {
		return &FullError{len(there), c.o.Experiments}
	}
	if err := c.putTaken(ctx, spec.ID, taken); err != nil {
		return err
	}
	for range blobTries {
		for _, d := range spec.blobs() {
			if has, err := c.hasHead(ctx, d); err != nil || has {
				if err != nil {
					return err
				}
				continue
			}
			data, err := blob(ctx, d)
			if err == nil {
				_, err = c.PutBlob(ctx, data)
			}
			if err != nil {
				return err
			}
		}
		if again, err := c.commitAdopted(ctx, &spec, wish); !again {
			return err
		}
	}
	return fmt.Errorf("%s: files were removed %d times while it was given to the site", spec.ID, blobTries)
}

// putTaken writes pieces that have FINISHED elsewhere, before the experiment is there.
func (c *Client) putTaken(ctx context.Context, id string, taken map[PieceID]Piece) error {
	for batch := range slices.Chunk(inOrder(taken), removeBatch) {
		var ops []metastore.Op
		for _, p := range batch {
			op, err := c.op(metastore.Set, pieceKey(id, p), taken[p])
			if err != nil {
				return err
			}
			ops = append(ops, op)
		}
		if err := c.again(ctx, nil, ops...); err != nil {
			return err
		}
	}
	return nil
}

// commitAdopted makes the experiment; again says that a file isn't there any more, or that an outcome isn't known.
func (c *Client) commitAdopted(ctx context.Context, spec *Spec, wish Wish) (again bool, err error) {
	conds, ops, err := c.submission(spec, wish, c.o.Now())
	if err != nil {
		return false, err
	}
	err = c.store.Commit(ctx, conds, ops)
	conflict := (*metastore.ConflictError)(nil)
	switch {
	case err == nil:
		c.trimAudit(ctx)
		return false, nil
	case errors.As(err, &conflict) && conflict.Cond.Is == metastore.Exists:
		return true, nil
	case errors.As(err, &conflict): // it is there
		return false, nil
	}
	return errors.Is(err, metastore.ErrUnknown) && ctx.Err() == nil, err
}

// CarryWish writes the wish of an experiment's home at the site, where that is as it was read; who is the door.
func (c *Client) CarryWish(ctx context.Context, e *Experiment, w Wish) error {
	if e.Wish == nil || w.Number <= e.Wish.Number {
		return nil
	}
	return c.putWish(ctx, e, w, "carry "+string(w.Want), w.Why)
}

// Fence has a site give up what a door has given to others meanwhile.
func (c *Client) Fence(ctx context.Context, e *Experiment, why string) error {
	if e.Wish == nil || e.Wish.Want == WantCancel {
		return nil
	}
	w := *e.Wish
	w.Want, w.Number, w.By, w.Why, w.At = WantCancel, w.Number+1, cmp.Or(c.o.By, "the door"), why, c.o.Now()
	return c.putWish(ctx, e, w, "fence", w.Why)
}

// HomeError is about a wish that was made at a site of an experiment that a door has given to it.
type HomeError struct{ ID, Home string }

// Error says what to do.
func (e *HomeError) Error() string {
	return fmt.Sprintf("%s is the experiment %s of a door: ask that (--door HOST:PORT)", e.ID, e.Home)
}

// Wished is the condition that an experiment's wish is as it was read.
func (e *Experiment) Wished() metastore.Cond { return at(wishKey(e.ID), e.WishAt) }
