// SPDX-License-Identifier: Apache-2.0

package metastore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// fence is a key of a session, with a name that is used once, which must exist for every commit that makes an ephemeral
// node of that session. After it was deleted none of those that were sent before can be done any more, however late
// they arrive; those that follow stand behind another one. So what became of a commit without an answer can be known
// for good: its fence is deleted first, and then what it was to make is looked for.
//
// It is ephemeral itself: with the session's end no late commit can make a node of that session either.
type fence struct {
	session Session // nil: there is no fence
	cond    Cond
}

// raise returns the condition that a session's fence exists, and makes one where there is none. What it fails with says
// that nothing was done behind it.
func (s *Store) raise(ctx context.Context, session Session) (Cond, error) {
	f, err := s.takeFence(ctx)
	if err != nil {
		return Cond{}, err
	}
	defer func() { s.fence <- f }()
	if f.session == session {
		return f.cond, nil
	}
	for try := 0; ; try++ {
		// Another name each time: a late one must not bring a fence back that was deleted.
		path := s.root + "/" + identityName + "/" + strings.ToLower(newMark())
		err := s.backend.Commit(ctx, nil, []Op{{Path: path, Do: Create, Value: []byte{tagDirectory}, Session: session}})
		if err == nil {
			f = fence{session, Cond{Path: path, Is: Exists}}
			return f.cond, nil
		}
		if !errors.Is(err, ErrUnknown) || pause(ctx, try) != nil {
			return Cond{}, unreached(ctx, err)
		}
	}
}

// takeFence takes the fence, which the caller gives back into the channel.
func (s *Store) takeFence(ctx context.Context) (fence, error) {
	select {
	case f := <-s.fence:
		return f, nil
	case <-s.ctx.Done():
		return fence{}, ErrClosed
	case <-ctx.Done():
		return fence{}, fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
	}
}

// leave makes that nothing more is begun behind a fence.
func (s *Store) leave(ctx context.Context, cond Cond) error {
	f, err := s.takeFence(ctx)
	if err != nil {
		return err
	}
	if f.cond == cond {
		f = fence{}
	}
	s.fence <- f
	return nil
}

// drop deletes a fence. Without an error nothing is done behind it any more.
func (s *Store) drop(ctx context.Context, cond Cond) error {
	if err := s.leave(ctx, cond); err != nil {
		return err
	}
	for try := 0; ; try++ {
		err := s.backend.Commit(ctx, nil, []Op{{Path: cond.Path, Do: Delete}})
		if err == nil {
			return nil
		}
		if !errors.Is(err, ErrUnknown) || pause(ctx, try) != nil {
			return unreached(ctx, err)
		}
	}
}

// fenced commits operations that make ephemeral nodes of a session. After ErrUnknown it is certain that they aren't
// done later, unless there is a fence in open, which must be dropped first.
func (s *Store) fenced(ctx context.Context, session Session, conds []Cond, ops []Op) (open Cond, err error) {
	for {
		cond, err := s.raise(ctx, session)
		if err != nil {
			return Cond{}, err
		}
		err = s.backend.Commit(ctx, append(slices.Clip(conds), cond), ops)
		var conflict *ConflictError
		switch {
		case errors.As(err, &conflict) && conflict.Cond == cond: // another call has dropped it: nothing was done
			err = s.leave(ctx, cond)
		case errors.Is(err, ErrUnknown):
			if s.drop(ctx, cond) != nil {
				open = cond
			}
			return open, err
		default:
			return Cond{}, err
		}
		if err != nil {
			return Cond{}, err
		}
	}
}

// sessionOf is the session that nodes of a commit are to have, or nil.
func sessionOf(ops []Op) Session {
	for _, op := range ops {
		if op.Session != nil {
			return op.Session
		}
	}
	return nil
}

// isOwn tells whether a path is the store's own: its identity, or a session's fence.
func (s *Store) isOwn(path string) bool {
	own := s.root + "/" + identityName
	return path == own || strings.HasPrefix(path, own+"/")
}
