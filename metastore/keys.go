// SPDX-License-Identifier: Apache-2.0

package metastore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// ErrKeep is what [Store.Update]'s function returns to leave a key as it is.
var ErrKeep = errors.New("stays as it is")

// Get reads one key. One that only has children, or is a directory, exists and holds no value. ErrNoNode.
func (s *Store) Get(ctx context.Context, key string) (Value, error) {
	path, err := s.path(key)
	if err != nil {
		return Value{}, fmt.Errorf("metastore: get: %w", err)
	}
	n, err := s.backend.Get(ctx, path)
	if err != nil {
		return Value{}, fmt.Errorf("metastore: get %q: %w", key, err)
	}
	return s.value(key, n), nil
}

// Contains tells whether a key exists: with a value, as a directory, or with children only.
func (s *Store) Contains(ctx context.Context, key string) (bool, error) {
	_, err := s.Get(ctx, key)
	if errors.Is(err, ErrNoNode) {
		return false, nil
	}
	return err == nil, err
}

// Members lists the names right below a key, sorted. ErrNoNode.
func (s *Store) Members(ctx context.Context, key string) ([]string, error) {
	path, err := s.path(key)
	if err != nil {
		return nil, fmt.Errorf("metastore: members: %w", err)
	}
	names, err := s.backend.Children(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("metastore: members of %q: %w", key, err)
	}
	return s.visible(key, names), nil
}

// visible leaves out the store's own name.
func (s *Store) visible(key string, names []string) []string {
	if key != "" && key != "/" {
		return names
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return name == identityName || s.root == "" && name == "zookeeper"
	})
}

// Put gives a key a value, whether it had one or not; an ephemeral key stays one. After ErrUnknown it may have been
// done or not; it isn't done again, since somebody else may have written meanwhile.
func (s *Store) Put(ctx context.Context, key string, value any) error {
	raw, err := s.Encode(value)
	if err != nil {
		return fmt.Errorf("metastore: put %q: %w", key, err)
	}
	return s.Commit(ctx, nil, []Op{{Path: key, Do: Set, Value: raw}})
}

// Encode makes the bytes of an [Op] of a value, with the store's codec.
func (s *Store) Encode(value any) ([]byte, error) { return encode(s.codec, value, "") }

// EncodeAs makes the bytes of an [Op] of a value with one of the codecs that every program can read, whichever the
// store has: [CBOR] for bytes, which take a third more in JSON.
func EncodeAs(c Codec, value any) ([]byte, error) { return encode(c, value, "") }

// Delete takes a key's value away; its children stay. Nothing there is no error.
func (s *Store) Delete(ctx context.Context, key string) error {
	return s.Commit(ctx, nil, []Op{{Path: key, Do: Delete}})
}

// DeleteTree takes a key and everything below it away. Nothing there is no error.
func (s *Store) DeleteTree(ctx context.Context, key string) error {
	return s.Commit(ctx, nil, []Op{{Path: key, Do: DeleteTree}})
}

// DeleteOwned deletes all ephemeral keys of the group that have an owner ([Value.Owner]): for whoever has seen the
// program die whose session that is. Others take its place in queues and as leaders at once, not at the session's end.
func (s *Store) DeleteOwned(ctx context.Context, owner uint64) error {
	path, err := s.path("")
	if err != nil {
		return fmt.Errorf("metastore: delete owned: %w", err)
	}
	// Twice, where there is something: the first time deletes the fence, too, after which nothing more arrives.
	for found, again := true, 0; found && again < 2 && owner != 0 && err == nil; again++ {
		var leaves []Leaf
		leaves, err = s.backend.Tree(ctx, path)
		found = false
		for _, leaf := range leaves {
			if leaf.Owner == owner {
				found = true
				err = errors.Join(err, s.deleteAt(ctx, leaf.Path, leaf.Version))
			}
		}
	}
	if err != nil {
		return fmt.Errorf("metastore: delete owned: %w", err)
	}
	return nil
}

// deleteAt deletes a node that has still a version. It is no error where it hasn't.
func (s *Store) deleteAt(ctx context.Context, path string, version Version) error {
	for try := 0; ; try++ {
		err := s.backend.Commit(ctx, []Cond{{Path: path, Is: At, Version: version}}, []Op{{Path: path, Do: Delete}})
		var conflict *ConflictError
		if err == nil || errors.As(err, &conflict) {
			return nil
		}
		if !errors.Is(err, ErrUnknown) || pause(ctx, try) != nil {
			return unreached(ctx, err)
		}
	}
}

// unreached is the error of a change that may be done again, and was until ctx has ended. Whether it was done is
// nobody's question then: without an answer the store couldn't be reached.
func unreached(ctx context.Context, err error) error {
	if !errors.Is(err, ErrUnknown) || errors.Is(err, ErrClosed) {
		return err
	}
	return fmt.Errorf("%w: %w (%v)", ErrUnavailable, context.Cause(ctx), err) // without ErrUnknown
}

// Ensure makes a directory, unless the key holds something already. It stays when it is empty. A context that ends
// before there is an answer is ErrUnavailable, and a later call may do it.
func (s *Store) Ensure(ctx context.Context, key string) error {
	path, err := s.path(key)
	if err == nil {
		err = s.ensure(ctx, path)
	}
	if err != nil {
		return fmt.Errorf("metastore: directory %q: %w", key, err)
	}
	return nil
}

// ensure makes a directory at a path. Making it twice does no harm, so that an unknown outcome is none.
func (s *Store) ensure(ctx context.Context, path string) error {
	for try := 0; len(path) > 1; try++ { // the root is there
		err := s.backend.Commit(ctx, nil, []Op{{Path: path, Do: Create, Value: []byte{tagDirectory}}})
		var conflict *ConflictError
		if err == nil || errors.As(err, &conflict) {
			return nil
		}
		if !errors.Is(err, ErrUnknown) || pause(ctx, try) != nil {
			// A store that is full, or takes no writes of this user, may have it.
			if n, getErr := s.backend.Get(ctx, path); getErr == nil && n.Value != nil {
				return nil
			}
			return unreached(ctx, err)
		}
	}
	return nil
}

// ensureOnce makes a directory unless this store has made it before. A queue's are there until somebody deletes it.
func (s *Store) ensureOnce(ctx context.Context, path string) error {
	if _, done := s.ensured.Load(path); done {
		return nil
	}
	err := s.ensure(ctx, path)
	if err == nil {
		s.ensured.Store(path, true)
	}
	return err
}

// Commit does all operations or none, if all conditions hold. Paths are keys of the group; values are encoded
// ([Store.Encode]). The limits and errors are those of [Backend.Commit]; one that makes ephemeral keys has one
// condition more than are given. The directory of an ephemeral key should be there ([Store.Ensure]).
//
// After ErrUnknown it may have been done, or be done later. One that makes ephemeral keys isn't done after the call has
// returned, unless ctx had ended: then it isn't as soon as the store could be reached.
func (s *Store) Commit(ctx context.Context, conds []Cond, ops []Op) error {
	conds, ops = slices.Clone(conds), slices.Clone(ops)
	var err error
	for i := range conds {
		if conds[i].Path, err = s.path(conds[i].Path); err != nil {
			return fmt.Errorf("metastore: commit: %w", err)
		}
	}
	for i, op := range ops {
		if ops[i].Path, err = s.writable(op.Path); err != nil {
			return fmt.Errorf("metastore: commit: %w", err)
		}
		if op.Do == Delete || op.Do == DeleteTree {
			continue
		}
		if _, _, err := parse(op.Value); err != nil {
			return fmt.Errorf("metastore: commit: key %q: %w", op.Path, err)
		}
	}
	return s.commit(ctx, conds, ops)
}

// commit commits paths, and reports keys.
func (s *Store) commit(ctx context.Context, conds []Cond, ops []Op) error {
	session := sessionOf(ops)
	if session == nil {
		return s.reported(s.backend.Commit(ctx, conds, ops), ops)
	}
	open, err := s.fenced(ctx, session, conds, ops)
	if open.Path != "" {
		go func() { _ = s.drop(s.ctx, open) }() // fails when the store is closed, and the session over
	}
	return s.reported(err, ops)
}

// reported makes the error of a commit of paths one of keys.
func (s *Store) reported(err error, ops []Op) error {
	if err == nil {
		return nil
	}
	var conflict *ConflictError
	if errors.As(err, &conflict) {
		c := conflict.Cond
		c.Path = s.key(c.Path)
		return &ConflictError{Cond: c}
	}
	var keys []string
	for _, op := range ops[:min(len(ops), 3)] {
		keys = append(keys, s.key(op.Path))
	}
	return fmt.Errorf("metastore: commit of %d operations (%q…): %w", len(ops), keys, err)
}

// Update changes a key by what f makes of its old value, which doesn't exist if there is none. If somebody else changes
// it meanwhile, f is called again with what is there then. f may return [ErrKeep] to change nothing; its other errors
// are Update's. An ephemeral key stays one, but one that is gone comes back as an ordinary one: let f look.
//
// After a break it reads whether the change was made. It fails with ErrUnknown only where that can't be seen any more,
// because others have changed the key since, or there is none.
func (s *Store) Update(ctx context.Context, key string, f func(old Value) (any, error)) error {
	err := s.update(ctx, key, f)
	if err != nil {
		return fmt.Errorf("metastore: update %q: %w", key, err)
	}
	return nil
}

func (s *Store) update(ctx context.Context, key string, f func(old Value) (any, error)) error {
	path, err := s.writable(key)
	if err != nil {
		return err
	}
	for try := 0; ; try++ {
		n, err := s.backend.Get(ctx, path)
		old := Value{key: key}
		if err == nil {
			old = s.value(key, n)
		} else if !errors.Is(err, ErrNoNode) {
			return err
		}
		value, err := f(old)
		if errors.Is(err, ErrKeep) {
			return nil
		}
		if err != nil {
			return err
		}
		raw, err := encode(s.codec, value, newMark())
		if err != nil {
			return err
		}
		cond := Cond{Path: path, Is: At, Version: old.Version}
		if n.Value == nil {
			cond.Is = Missing
		}
		done, err := s.replace(ctx, cond, Op{Path: path, Do: Set, Value: raw})
		if done || err != nil {
			return err
		}
		if err := pause(ctx, try); err != nil {
			return fmt.Errorf("others change it all the time, after %d tries: %w", try+1, err)
		}
	}
}

// replace writes a marked value where the condition about the same node holds. Not done, without an error, is a
// conflict.
func (s *Store) replace(ctx context.Context, cond Cond, op Op) (done bool, err error) {
	unknown := false // whether a commit of op may have been made, or may still be
	for try := 0; ; try++ {
		err := s.backend.Commit(ctx, []Cond{cond}, []Op{op})
		var conflict *ConflictError
		switch {
		case err == nil:
			return true, nil
		case errors.As(err, &conflict):
			if !unknown {
				return false, nil
			}
			return s.wasMine(ctx, op)
		case errors.Is(err, ErrUnknown) && cond.Is == At:
			// Again with the same condition: if the first one comes through late, one of the two conflicts.
			if unknown = true; pause(ctx, try) != nil {
				return false, err
			}
		case errors.Is(err, ErrUnknown):
			// Missing may hold again, when another has deleted what was made.
			return s.wasMine(ctx, op)
		default:
			return false, withUnknown(err, unknown)
		}
	}
}

// wasMine tells, after an unknown outcome, whether the node has what was to be written.
func (s *Store) wasMine(ctx context.Context, op Op) (bool, error) {
	n, err := s.backend.Get(ctx, op.Path)
	if err != nil && !errors.Is(err, ErrNoNode) {
		return false, withUnknown(err, true)
	}
	if bytes.Equal(n.Value, op.Value) {
		return true, nil
	}
	return false, fmt.Errorf("%w; the key now holds something else", ErrUnknown)
}

// withUnknown adds to an error that what was tried before may have been done.
func withUnknown(err error, unknown bool) error {
	if unknown && !errors.Is(err, ErrUnknown) {
		return fmt.Errorf("%w; then: %w", ErrUnknown, err)
	}
	return err
}

// pause waits before something is tried again, for a random time that doubles with each try: 1 ms to 256 ms at most. So
// of several that change the same key at the same time, one comes through. It fails when the context has ended, also
// when the time is over as well: nothing is tried again for a call that was given up.
func pause(ctx context.Context, try int) error {
	limit := time.Millisecond << min(try, 8)
	timer := time.NewTimer(rand.N(limit))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// PutEphemeral creates a key that lives as long as the session that it returns: it is gone as soon as that is lost. The
// value is as it is there. The key's directory is made where it is missing. A key that exists already is a
// *ConflictError. When it fails the key isn't there, or is removed as soon as the store can be reached.
func (s *Store) PutEphemeral(ctx context.Context, key string, value any) (Session, Value, error) {
	path, err := s.writable(key)
	if err != nil {
		return nil, Value{}, fmt.Errorf("metastore: put ephemeral: %w", err)
	}
	session, n, err := s.createEphemeral(ctx, nil, path, value, nil)
	if err != nil {
		return nil, Value{}, fmt.Errorf("metastore: put ephemeral %q: %w", key, err)
	}
	return session, s.value(key, n), nil
}

// createEphemeral creates a node of a session, or of the one that lives now (nil), under conditions, and returns it as
// it is there. When it fails the node isn't there, or is removed as soon as the store can be reached.
func (s *Store) createEphemeral(ctx context.Context, session Session, path string, value any, conds []Cond) (Session,
	Node, error) {
	raw, err := encode(s.codec, value, newMark())
	if err != nil {
		return nil, Node{}, err
	}
	if err := s.ensureOnce(ctx, parent(path)); err != nil {
		return nil, Node{}, err
	}
	if session == nil {
		if session, err = s.backend.Session(ctx); err != nil {
			return nil, Node{}, err
		}
	}
	n, err := s.createMarked(ctx, conds, Op{Path: path, Do: Create, Value: raw, Session: session})
	return session, n, err
}

// createMarked creates an ephemeral node with a marked value. When it fails the node isn't there, or is removed later.
func (s *Store) createMarked(ctx context.Context, conds []Cond, op Op) (Node, error) {
	for try := 0; ; try++ {
		open, err := s.fenced(ctx, op.Session, conds, []Op{op})
		unknown := errors.Is(err, ErrUnknown)
		switch {
		case err != nil && !unknown:
			return Node{}, s.reported(err, []Op{op})
		case open.Path != "":
			s.removeLater(open, op.Path, op.Value)
			return Node{}, s.reported(err, []Op{op})
		}
		n, getErr := s.backend.Get(ctx, op.Path)
		switch {
		case getErr == nil && bytes.Equal(n.Value, op.Value):
			return n, nil
		case getErr != nil && !errors.Is(getErr, ErrNoNode):
			s.removeLater(open, op.Path, op.Value)
			return Node{}, withUnknown(getErr, true)
		case !unknown:
			return Node{}, fmt.Errorf("%w: what was made is gone already", ErrSessionLost)
		case pause(ctx, try) != nil: // else again: it wasn't done, or is gone
			return Node{}, unreached(ctx, err)
		}
	}
}

// removeLater removes a node, if it still holds a marked value, as soon as the store can be reached. It is for what a
// call that has failed may have left, or what may still come while a fence is open.
func (s *Store) removeLater(open Cond, path string, marked []byte) {
	go func() {
		if open.Path != "" && s.drop(s.ctx, open) != nil {
			return // the store is closed, and the session over
		}
		for try := 0; pause(s.ctx, try) == nil; try++ {
			n, err := s.backend.Get(s.ctx, path)
			if err != nil || !bytes.Equal(n.Value, marked) {
				return // ErrNoNode, ErrClosed, or another's
			}
			same := Cond{Path: path, Is: At, Version: n.Version}
			err = s.backend.Commit(s.ctx, []Cond{same}, []Op{{Path: path, Do: Delete}})
			if !errors.Is(err, ErrUnknown) {
				return
			}
		}
	}()
}

// parent is the path of a node's parent.
func parent(path string) string { return path[:max(1, strings.LastIndexByte(path, '/'))] }
