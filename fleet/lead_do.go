// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/metastore"
)

// movesAtOnce is how many pieces are read, and then moved, together.
const movesAtOnce = 30

// inOrder are pieces in their order.
func inOrder[V any](all map[PieceID]V) []PieceID {
	return slices.SortedFunc(maps.Keys(all), PieceID.compare)
}

// do does what was decided: runs of moves and of requests together, and all else one after the other.
func (t *term) do(ctx context.Context, actions []Action) error {
	for len(actions) > 0 {
		n := 1
		for n < len(actions) && actions[n].Do == actions[0].Do {
			n++
		}
		batch := actions[:n]
		actions = actions[n:]
		switch batch[0].Do {
		case DoMove:
			for part := range slices.Chunk(batch, movesAtOnce) {
				if err := t.move(ctx, part); err != nil {
					return err
				}
			}
		case DoAsk:
			if err := each(batch, func(_ int, a *Action) error { return t.ask(ctx, a) }); err != nil {
				return err
			}
		default:
			if err := each(batch, func(_ int, a *Action) error { return t.other(ctx, a) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// each does something with each of some things, several at a time, and gives an error of them.
func each[T any](things []T, f func(i int, x *T) error) error {
	var all sync.WaitGroup
	errs := make([]error, len(things))
	places := make(chan struct{}, atOnce)
	for i := range things {
		places <- struct{}{}
		all.Go(func() {
			errs[i] = f(i, &things[i])
			<-places
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// move reads the versions of pieces, and moves them.
func (t *term) move(ctx context.Context, actions []Action) error {
	moves := make([]Move, len(actions))
	now := time.Now()
	err := each(actions, func(i int, a *Action) error {
		m := Move{ID: a.ID, Piece: a.Piece, To: a.To, Takes: a.Report}
		if a.To.State.Ended() {
			m.To.Ended = &now
		}
		if !a.Begins {
			m.Was = new(Piece)
			err := t.call(ctx, func(ctx context.Context) (err error) {
				m.At, err = t.Client.get(ctx, pieceKey(a.ID, a.Piece), m.Was)
				return err
			})
			if err == nil && (m.Was.State != a.From || m.At == metastore.Version{}) {
				err = fmt.Errorf("%w: found the piece %v of %s %v, want %v", errAgain, a.Piece, a.ID, m.Was.State,
					a.From)
			}
			if err != nil {
				return err
			}
		}
		moves[i] = m
		return nil
	})
	if err != nil {
		return err
	}
	for len(moves) > 0 {
		var done int
		err := t.call(ctx, func(ctx context.Context) (err error) {
			done, err = t.Client.MovePieces(ctx, moves, t.lead.Guard())
			return err
		})
		if err != nil {
			return err
		}
		moves = moves[done:]
	}
	return nil
}

// ask asks a server. One that is gone, or was asked by somebody else, is asked again when the view has told.
func (t *term) ask(ctx context.Context, a *Action) error {
	var conflict *metastore.ConflictError
	if _, there := t.View.Server(a.Server); !there {
		return nil
	}
	err := t.call(ctx, func(ctx context.Context) error {
		_, err := t.View.Request(ctx, a.Server, a.State, &a.Assignment, "the leader "+t.Name, t.lead.Guard())
		return err
	})
	if errors.As(err, &conflict) && conflict.Cond != t.lead.Guard() {
		return nil
	}
	return err
}

// other does what is neither a move nor a request.
func (t *term) other(ctx context.Context, a *Action) error {
	return t.call(ctx, func(ctx context.Context) error {
		switch a.Do {
		case DoStand:
			return t.stand(ctx, a)
		case DoDrop:
			return t.Client.RemoveReport(ctx, a.Report, t.lead.Guard())
		case DoRemove:
			return t.Client.RemoveExperiment(ctx, a.ID, t.lead.Guard())
		case DoLoad:
			return t.Client.SetLoad(ctx, a.Load, t.lead.Guard())
		case DoHealth:
			return t.Client.SetHealth(ctx, a.Health, t.lead.Guard())
		}
		return fmt.Errorf("fleet: there is no action %d", a.Do)
	})
}

// stand writes how far an experiment is.
func (t *term) stand(ctx context.Context, a *Action) error {
	var was Standing
	version, err := t.Client.get(ctx, statusKey(a.ID), &was)
	if bad := (*MalformedError)(nil); err != nil && !errors.As(err, &bad) {
		return err
	}
	to, now := a.Standing, time.Now()
	to.Began, to.EndedAt = was.Began, nil
	if moving := to.Pieces[Dispatched] + to.Pieces[Running]; to.Began == nil && moving > 0 {
		to.Began = &now
	}
	if to.Ended {
		to.EndedAt = &now
	}
	return t.Client.SetStanding(ctx, a.ID, version, to, t.lead.Guard())
}

// sweep removes blobs that no experiment has named for long.
func (t *term) sweep(ctx context.Context) error {
	if time.Since(t.swept) < t.Rules.Sweep {
		return nil
	}
	t.swept = time.Now()
	return t.call(ctx, func(ctx context.Context) error {
		unused, err := t.Client.SweepBlobs(ctx, t.unused, t.now(), t.Rules.Unused, t.lead.Guard())
		if err != nil {
			return err
		}
		t.unused = unused
		if t.orphans, err = t.Client.SweepOrphans(ctx, t.orphans, t.now(), t.Rules.Unused, t.lead.Guard()); err != nil {
			return err
		}
		return t.Client.RemoveAccounts(ctx, t.lead.Guard())
	})
}

// ReadState reads what a leader would know: for those who want to be told why (State.Why). It decides nothing.
func ReadState(ctx context.Context, c *Client, view *cluster.View, rules Rules) (*State, error) {
	all, err := c.List(ctx)
	if err != nil {
		return nil, err
	}
	s := NewState("", 0, rules)
	for i := range all {
		e := &all[i]
		if e.Spec == nil || e.Wish == nil {
			continue
		}
		s.PutExperiment(*e.Spec, e.Order)
		pieces, _, err := c.Pieces(ctx, e.ID)
		if err != nil {
			return nil, err
		}
		for _, id := range inOrder(pieces) {
			s.PutPiece(e.ID, id, pieces[id].Piece)
		}
		s.PutWish(e.ID, *e.Wish)
	}
	health, err := ReadHealth(ctx, c.store)
	if bad := (*MalformedError)(nil); err != nil && !errors.As(err, &bad) {
		return nil, err
	}
	s.PutHealth(health)
	reports, _, err := c.Reports(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range reports {
		s.PutReport(r)
	}
	vitals, _, err := c.Vitals(ctx)
	if err != nil {
		return nil, err
	}
	for name, v := range vitals { // the leader has judged them
		s.setVitals(s.machine(name), &v)
	}
	s.PutMembers(view.Members(), view.Drained())
	s.PutServers(view.Servers())
	return s, nil
}
