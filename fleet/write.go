// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/disco-sim/disco/metastore"
)

// Move is a change of a piece, which a leader commits.
type Move struct {
	ID    string
	Piece PieceID
	Was   *Piece            // as it was read; nil: it waits and has never begun
	At    metastore.Version // of Was; zero: there is no such key
	To    Piece
	Takes *ReportAt // the report that it takes: it is removed in the same commit
}

// Bounds of one commit of moves: its operations and conditions, beside three guards, and its bytes.
const (
	movesMost     = (metastore.MaxOps - 3) / 4
	moveBytesMost = metastore.MaxValue - 10_000
)

// MoveError is about a move that the table of moves doesn't have.
type MoveError struct {
	ID       string
	Piece    PieceID
	From, To PieceState
	Why      string
}

// Error says what would be allowed.
func (e *MoveError) Error() string {
	text := fmt.Sprintf("%s: piece %v can't go from %v to %v", e.ID, e.Piece, e.From, e.To)
	if e.Why != "" {
		return text + ": " + e.Why
	}
	return fmt.Sprintf("%s: want one of %v", text, moves[e.From])
}

// check refuses what the table of moves doesn't have. A piece that hasn't ended may be written anew in its state, as a
// new leader does. Only a piece that waits gets another attempt, by one more than the last.
func (m *Move) check() error {
	from, attempt := Waiting, 0
	if m.Was != nil {
		from, attempt = m.Was.State, m.Was.Attempt
	}
	want := attempt
	if m.To.State == Dispatched && from == Waiting {
		want++
	}
	switch stays := from == m.To.State && !from.Ended(); {
	case !stays && !from.May(m.To.State):
		return &MoveError{m.ID, m.Piece, from, m.To.State, ""}
	case m.To.Attempt != want:
		return &MoveError{m.ID, m.Piece, from, m.To.State, fmt.Sprintf("found attempt %d behind attempt %d, want %d",
			m.To.Attempt, attempt, want)}
	case (m.Was == nil) != (m.At == metastore.Version{}):
		return &MoveError{m.ID, m.Piece, from, m.To.State, "found a piece without its version, or the other way round"}
	case m.Was == nil && m.Takes != nil:
		return &MoveError{m.ID, m.Piece, from, m.To.State, "found a report of a piece that never began"}
	}
	return m.To.check()
}

// MovePieces writes pieces anew in one commit, all or none, and returns how many of the moves were in it: the first
// ones, at least one, and as many as fit. guards are the leader's (metastore.Lead.Guard).
//
// A *MoveError is about a move that isn't allowed. A *metastore.ConflictError says that a guard doesn't hold, or that a
// piece or a report isn't as it was read, and ErrGone that its experiment was removed. Nothing was written then. After
// metastore.ErrUnknown all of it was written, or is yet, or nothing: whoever reads the pieces again may go by what is
// there, since of two commits from the same state one is done at most.
func (c *Client) MovePieces(ctx context.Context, moves []Move, guards ...metastore.Cond) (done int, err error) {
	conds := slices.Clone(guards)
	var ops []metastore.Op
	begun, bytes := map[string]bool{}, 0
	for _, m := range moves[:min(len(moves), movesMost)] {
		if err := m.check(); err != nil {
			return 0, err
		}
		key := pieceKey(m.ID, m.Piece)
		op, err := c.op(metastore.Set, key, m.To)
		if err != nil {
			return 0, err
		}
		if bytes += len(op.Value); bytes > moveBytesMost && done > 0 {
			break
		}
		done++
		conds, ops = append(conds, at(key, m.At)), append(ops, op)
		if m.Was == nil && !begun[m.ID] { // else a late commit could leave a piece of what was removed
			begun[m.ID] = true
			conds = append(conds, exists(m.ID))
		}
		if m.Takes != nil {
			takes := m.Takes.key()
			conds = append(conds, at(takes, m.Takes.Version))
			ops = append(ops, metastore.Op{Path: takes, Do: metastore.Delete})
		}
	}
	if done == 0 {
		return 0, nil
	}
	if err = c.store.Commit(ctx, conds, ops); err == nil {
		return done, nil
	}
	for id := range begun {
		err = gone(id, err)
	}
	return 0, err
}

// SetStanding writes how far an experiment is, where the key is as it was read; its version is zero where there was
// none. guards are the leader's. Errors are those of MovePieces.
func (c *Client) SetStanding(ctx context.Context, id string, was metastore.Version, s Standing,
	guards ...metastore.Cond) error {
	if err := s.check(); err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	op, err := c.op(metastore.Set, statusKey(id), s)
	if err != nil {
		return err
	}
	conds := append(slices.Clone(guards), at(statusKey(id), was), exists(id))
	return gone(id, c.store.Commit(ctx, conds, []metastore.Op{op}))
}

// ErrStale is the error about a report behind which there is a newer one already.
var ErrStale = errors.New("there is a newer report")

// PutReport writes what an agent says about a piece that one of its servers leads. It doesn't write over a report of a
// later attempt, or over one of the same attempt with a Number that isn't smaller: ErrStale, where another one is
// there. The leader is woken where the state is another one than before; progress alone it reads when it looks.
// ErrGone where the experiment was removed. It tries again until the outcome is known or ctx ends.
func (c *Client) PutReport(ctx context.Context, member, id string, p PieceID, r Report) error {
	if err := r.check(); err != nil {
		return fmt.Errorf("%s: the report of piece %v: %w", id, p, err)
	}
	key := reportKey(member, id, p)
	for {
		var was Report
		version, err := c.get(ctx, key, &was)
		if bad := (*MalformedError)(nil); errors.As(err, &bad) {
			was, err = Report{}, nil // nothing that anybody could go by
		}
		if err != nil {
			return err
		}
		if was.Attempt == r.Attempt && was.Number == r.Number && was.State == r.State {
			return nil // an earlier try's
		}
		if was.Attempt > r.Attempt || was.Attempt == r.Attempt && was.Number >= r.Number {
			return fmt.Errorf("%s: piece %v: attempt %d, number %d: %w: attempt %d, number %d", id, p, r.Attempt,
				r.Number, ErrStale, was.Attempt, was.Number)
		}
		op, err := c.op(metastore.Set, key, r)
		if err != nil {
			return err
		}
		ops := []metastore.Op{op}
		if was.Attempt != r.Attempt || was.State != r.State {
			wake, err := c.wake("")
			if err != nil {
				return err
			}
			ops = append(ops, wake)
		}
		err = gone(id, c.store.Commit(ctx, []metastore.Cond{at(key, version), exists(id)}, ops))
		conflict := (*metastore.ConflictError)(nil)
		if ctx.Err() != nil || !errors.Is(err, metastore.ErrUnknown) && !errors.As(err, &conflict) {
			return err
		}
	}
}

// RemoveReport removes a report as it was read: one of an attempt that doesn't count any more, or of what was removed.
// guards are the leader's. One that isn't there, or has another version by now, is no error.
func (c *Client) RemoveReport(ctx context.Context, r *ReportAt, guards ...metastore.Cond) error {
	is := at(r.key(), r.Version)
	err := c.store.Commit(ctx, append(slices.Clone(guards), is), []metastore.Op{{Path: r.key(), Do: metastore.Delete}})
	if conflict := (*metastore.ConflictError)(nil); errors.As(err, &conflict) && conflict.Cond == is {
		return nil
	}
	return err
}

// PutLog writes the last of what an attempt's run wrote: of a longer text the last MaxLog bytes. What isn't UTF-8 is
// replaced. ErrGone. It tries again until the outcome is known or ctx ends.
func (c *Client) PutLog(ctx context.Context, id string, a AttemptID, text []byte) error {
	op, err := c.op(metastore.Set, logKey(id, a), validText(text, MaxLog))
	if err != nil {
		return err
	}
	for {
		err := gone(id, c.store.Commit(ctx, []metastore.Cond{exists(id)}, []metastore.Op{op}))
		if !errors.Is(err, metastore.ErrUnknown) || ctx.Err() != nil {
			return err
		}
	}
}
