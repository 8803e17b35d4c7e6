// SPDX-License-Identifier: Apache-2.0

package zk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/disco-sim/disco/metastore"
)

// Commit does all operations or none. What it depends on is read first, and guarded in the multi that changes it: a
// commit that is overtaken is planned again. What needs no plan if all is as usual is tried without one.
func (b *Backend) Commit(ctx context.Context, conds []metastore.Cond, ops []metastore.Op) error {
	if err := metastore.CheckCommit(conds, ops); err != nil {
		return err
	}
	session, err := b.sessionOf(ops)
	if err != nil {
		return b.ending(err)
	}
	strict, plain := false, isPlain(conds, ops)
	return b.attempt(ctx, func(c *conn) error {
		if session != nil && (session != c.link || !session.alive()) {
			return fmt.Errorf("session %s: %w", session.ID(), metastore.ErrSessionLost)
		}
		if plain {
			plain, strict = false, true // where it isn't done, it is most often to be refused
			if done, err := b.plainly(ctx, c, conds, ops); done || err != nil {
				return err
			}
		}
		p, err := b.plan(ctx, c, conds, ops, strict)
		if p != nil && !strict && (err != nil || len(p.guards)+len(p.steps) == 0) {
			strict = true // what it is refused for, or needn't be done for, may be out of date
			return errAgain
		} else if err != nil {
			return err
		}
		strict = true
		return b.apply(ctx, c, p)
	})
}

// sessionOf is the session that ephemeral nodes of a commit are to have, or nil. There is at most one that lives.
func (b *Backend) sessionOf(ops []metastore.Op) (*link, error) {
	var session *link
	for _, op := range ops {
		if op.Session == nil {
			continue
		}
		l, ok := op.Session.(*link)
		if !ok || !l.alive() || session != nil && session != l {
			return nil, fmt.Errorf("%s: session %s: %w", op.Path, op.Session.ID(), metastore.ErrSessionLost)
		}
		session = l
	}
	return session, nil
}

// write sends a request that changes something, with calls that read after it.
func (b *Backend) write(ctx context.Context, c *conn, w *call, after ...*call) error {
	if len(w.out)-4 > maxRequest {
		return fmt.Errorf("%w: a request of %d bytes, ZooKeeper takes at most %d", metastore.ErrTooLarge, len(w.out)-4,
			maxRequest)
	}
	sent, err := c.do(ctx, append([]*call{w}, after...)...)
	if err == nil || !sent {
		return err
	}
	select {
	case <-w.done:
		if w.err == nil {
			return nil // only what came after it has no answer
		}
	default:
	}
	return fmt.Errorf("%w: %w", metastore.ErrUnknown, err)
}

// isPlain tells whether a commit needs no plan if the nodes of its conditions and Sets, and the parents of its Creates,
// are there: ZooKeeper's own operations do what is asked for then, and fail otherwise.
func isPlain(conds []metastore.Cond, ops []metastore.Op) bool {
	return !slices.ContainsFunc(conds, func(c metastore.Cond) bool { return c.Is == metastore.Missing }) &&
		!slices.ContainsFunc(ops, func(op metastore.Op) bool {
			return op.Do != metastore.Set && op.Do != metastore.Create
		})
}

// plainly does a commit that is plain, by one request where there are no conditions. Not done, without an error,
// nothing has been done.
func (b *Backend) plainly(ctx context.Context, c *conn, conds []metastore.Cond, ops []metastore.Op) (done bool,
	err error) {
	p := newPlan(b)
	for _, cond := range conds {
		p.nodes[cond.Path] = &known{}
	}
	if len(conds) > 0 {
		if err := p.read(ctx, c, false, slices.Collect(maps.Keys(p.nodes))); err != nil {
			return false, err
		}
	}
	for _, cond := range conds {
		if !p.holds(cond) {
			return false, nil // for all that this server knows
		}
		p.same(cond.Path)
	}
	for _, op := range ops {
		s := step{op: opSetData, path: op.Path, value: op.Value, version: anyVersion}
		if op.Do == metastore.Create {
			s.op = opCreate
		}
		if op.Session != nil {
			s.flags = flagEphemeral
		}
		p.steps = append(p.steps, s)
	}
	if len(conds) == 0 && len(ops) == 1 {
		return b.single(ctx, c, p.steps[0])
	}
	err = b.apply(ctx, c, p)
	return err == nil, ignoreAgain(err)
}

// ignoreAgain drops errAgain, after which nothing has been done.
func ignoreAgain(err error) error {
	if errors.Is(err, errAgain) {
		return nil
	}
	return err
}

// single does one step by a request of its own.
func (b *Backend) single(ctx context.Context, c *conn, s step) (done bool, err error) {
	w := newCall(s.op, request(s.op).body(s, b.grants))
	if err := b.write(ctx, c, w); err != nil {
		return false, err
	}
	if w.code == codeNoNode || w.code == codeNodeExists {
		return false, nil
	}
	return true, refused(s.path, w.code)
}

// apply sends a plan. Nodes that others may have emptied at the same time are looked at after it, and pruned.
func (b *Backend) apply(ctx context.Context, c *conn, p *plan) error {
	all := append(p.guards, p.steps...)
	if len(all) == 0 {
		return nil
	}
	w := newCall(opMulti, multi(all, b.grants))
	var after []*call
	for _, path := range p.shrunk {
		after = append(after, read(opExists, path, nil))
	}
	if err := b.write(ctx, c, w, after...); err != nil {
		return err
	}
	switch w.code {
	case codeOK:
	case codeNoNode, codeNodeExists, codeBadVersion, codeNotEmpty, codeEphemeralParent:
		return errAgain
	default:
		return refused(all[0].path, w.code)
	}
	for i, call := range after {
		select {
		case <-call.done:
			if call.err == nil && call.code == codeOK && call.stat.size == 0 && call.stat.children == 0 {
				b.prune(ctx, c, p.shrunk[i])
			}
		default:
		}
	}
	return nil
}

// prune deletes a node that has neither data nor children, and then its parent if that is the same, and so on. Nobody
// sees the node as there, so it may as well stay if this fails.
func (b *Backend) prune(ctx context.Context, c *conn, path string) {
	for mayGo(path) {
		get := read(opExists, path, nil)
		if _, err := c.do(ctx, get); err != nil || get.code != codeOK {
			return
		}
		if get.stat.size > 0 || get.stat.children > 0 {
			return
		}
		w := newCall(opDelete, request(opDelete).text(path).int32(get.stat.version))
		if _, err := c.do(ctx, w); err != nil || w.code != codeOK {
			return
		}
		path = parent(path)
	}
}

// Append creates a child whose name is the number of its directory's creation and a number that ZooKeeper counts up in
// it: names rise even if the directory has vanished in between.
func (b *Backend) Append(ctx context.Context, dir string, value []byte) (name string, err error) {
	if err := metastore.CheckAppend(dir, value); err != nil {
		return "", err
	}
	if _, err := metastore.Path(strings.TrimSuffix(dir, "/"), fmt.Sprintf("%026d", 0)); err != nil {
		return "", err // with the name that it will get
	}
	err = b.attempt(ctx, func(c *conn) error {
		p := newPlan(b)
		if err := p.look(ctx, c, false, []string{dir}); err != nil {
			return err
		}
		n := p.nodes[dir]
		if n.stat.owner != 0 {
			return refused(dir, codeEphemeralParent)
		} else if n.exists {
			name, err = b.sequence(ctx, c, dir, n.stat.czxid, value)
			return err
		}
		below := strings.TrimSuffix(dir, "/") + "/x"
		if err := p.above(below); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		if err := b.apply(ctx, c, p); err != nil {
			return err
		}
		return errAgain // now it exists
	})
	return name, err
}

// sequence creates a numbered child of a directory, which was created with the change of that number.
func (b *Backend) sequence(ctx context.Context, c *conn, dir string, created int64, value []byte) (string, error) {
	prefix := strings.TrimSuffix(dir, "/") + "/" + fmt.Sprintf("%016x", created)
	w := newCall(opCreate, request(opCreate).body(step{op: opCreate, path: prefix, value: value, flags: flagSequence},
		b.grants))
	after := read(opExists, dir, nil)
	if err := b.write(ctx, c, w, after); err != nil {
		return "", err
	}
	switch w.code {
	case codeOK:
	case codeNoNode:
		return "", errAgain
	default:
		return "", refused(dir, w.code)
	}
	var why error
	select {
	case <-after.done:
		if after.err == nil && (after.code == codeNoNode || after.code == codeOK && after.stat.czxid != created) {
			why = errAgain // the directory has vanished and come again: the name may sort before earlier ones
		}
	default:
	}
	if !numbered(w.name, prefix) {
		why = fmt.Errorf("%s: %w: ZooKeeper numbers 2147483648 nodes of a directory, and the next one is %q: delete "+
			"the directory", dir, metastore.ErrTooLarge, w.name)
	}
	if why == nil {
		return w.name[strings.LastIndexByte(w.name, '/')+1:], nil
	}
	undo := newCall(opDelete, request(opDelete).text(w.name).int32(anyVersion))
	if err := b.write(ctx, c, undo); err != nil {
		return "", fmt.Errorf("%w: %w", metastore.ErrUnknown, err)
	}
	return "", why
}

// numbered tells whether ZooKeeper has put a number behind the prefix that sorts as it counts.
func numbered(name, prefix string) bool {
	number, ok := strings.CutPrefix(name, prefix)
	return ok && len(number) == 10 && strings.Trim(number, "0123456789") == ""
}
