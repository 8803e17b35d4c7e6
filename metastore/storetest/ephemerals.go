// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// ephemeralCases are about sessions and what lives as long as they do.
var ephemeralCases = []testCase{
	{"Ephemeral/Session", 0, sessionKept},
	{"Ephemeral/GoneWithClose", 0, goneWithClose},
	{"Ephemeral/SetKeepsIt", 0, setKeepsEphemeral},
	{"Ephemeral/NoChildren", 0, noChildren},
	{"Ephemeral/ForeignSession", 0, foreignSession},
	{"Ephemeral/DeletedAndMadeAgain", 0, ephemeralMadeAgain},
	{"Ephemeral/Expired", expire, expired},
	{"Ephemeral/LostBeforeGone", disconnect, lostBeforeGone},
	{"Ephemeral/KeptOverShortBreak", disconnect, keptOverShortBreak},
}

func sessionKept(e *env) {
	a, b := e.client(), e.client()
	one := e.session(a)
	if two := e.session(a); two != one {
		e.Fatalf("found sessions %s and %s of one client", one.ID(), two.ID())
	}
	if other := e.session(b); other.ID() == one.ID() || one.ID() == "" {
		e.Fatalf("two clients have the session %q", one.ID())
	}
	if one.TTL() <= 0 || one.TTL() > time.Minute {
		e.Fatalf("the TTL is %v", one.TTL())
	}
	select {
	case <-one.Lost():
		e.Fatal("the session is lost at once")
	default:
	}
	e.parallel(4, func(int) error {
		s, err := a.Session(e.ctx)
		if err == nil && s != one {
			return fmt.Errorf("found session %s, want %s", s.ID(), one.ID())
		}
		return err
	})
}

// When Close has returned, the ephemeral nodes are gone, and others stay.
func goneWithClose(e *env) {
	a, b := e.client(), e.client()
	s := e.ephemeral(a, "dir/e", "1")
	e.ephemeral(a, "dir/f", "1")
	e.set(a, "dir/stays", "1")
	e.ephemeral(b, "other", "1")
	n, f1 := e.holds(b, "dir/e", "1"), e.holds(b, "dir/f", "1")
	if other := e.holds(a, "other", "1"); !n.Ephemeral || n.Owner == 0 || n.Owner != f1.Owner ||
		n.Owner == other.Owner {
		e.Fatalf("owners: %x, the same %x, another %x", n.Owner, f1.Owner, other.Owner)
	}
	if n := e.holds(b, "dir/stays", "1"); n.Ephemeral || n.Owner != 0 {
		e.Fatal("a node that stays says that it is ephemeral")
	}
	all, err := b.Tree(e.ctx, e.path("dir/e"))
	if err != nil || len(all) != 1 || all[0].Owner != n.Owner {
		e.Fatalf("Tree: found %v, %v", all, err)
	}
	f := e.follow(b, "dir", metastore.Names)
	f.next()
	if err := a.Close(); err != nil {
		e.Fatal(err)
	}
	e.children(b, "dir", "stays")
	e.gone(b, "dir/e")
	f.await(func(s metastore.State) bool { return len(s.Names) == 1 })
	<-s.Lost()
}

func setKeepsEphemeral(e *env) {
	a, b := e.client(), e.client()
	e.ephemeral(a, "dir/e", "1")
	created := e.get(b, "dir/e").Version.Created
	e.set(b, "dir/e", "2")
	e.set(a, "dir/e", "3")
	e.commit(b, e.op(metastore.Set, "dir/e", "4"), e.op(metastore.Set, "dir/x", "1"))
	if n := e.holds(b, "dir/e", "4"); !n.Ephemeral || n.Version.Created != created {
		e.Fatalf("a Set made %+v of it, was created at %d", n, created)
	}
	if err := a.Close(); err != nil {
		e.Fatal(err)
	}
	e.gone(b, "dir/e")
	e.children(b, "dir", "x")
}

func noChildren(e *env) {
	a, b := e.client(), e.client()
	session := e.ephemeral(a, "dir/e", "1")
	e.set(a, "dir/x", "1")
	for _, client := range []metastore.Backend{a, b} {
		for _, key := range []string{"dir/e/a", "dir/e/a/b/c"} {
			for _, do := range []metastore.OpKind{metastore.Create, metastore.Set} {
				ops := []metastore.Op{e.op(metastore.Set, "dir/x", "2"), e.op(do, key, "1")}
				e.fails(client, metastore.ErrEphemeralParent, nil, ops...)
			}
		}
		for _, dir := range []string{"dir/e", "dir/e/a"} {
			if _, err := client.Append(e.ctx, e.path(dir), []byte("1")); !errors.Is(err, metastore.ErrEphemeralParent) {
				e.Fatalf("Append(%s): found %v, want ErrEphemeralParent", dir, err)
			}
		}
	}
	e.children(b, "dir/e")
	e.holds(b, "dir/x", "1")
	child := e.op(metastore.Create, "dir/e/a", "1")
	child.Session = session
	e.fails(a, metastore.ErrEphemeralParent, nil, child)
	// Nor can a node become ephemeral that has children, or gets some by the same commit.
	e.set(a, "dir/parent/child", "1")
	parent := metastore.Op{Path: e.path("dir/parent"), Do: metastore.Create, Value: []byte("1"), Session: session}
	e.fails(a, metastore.ErrEphemeralParent, nil, parent)
	parent.Path = e.path("dir/new")
	e.fails(a, metastore.ErrEphemeralParent, nil, parent, e.op(metastore.Set, "dir/new/child", "1"))
	e.gone(b, "dir/new")
	e.delete(b, "dir/e")
	e.create(b, "dir/e/a", "1") // it is an ordinary name again
}

// A session that is another's, or has ended, makes nothing.
func foreignSession(e *env) {
	a, b := e.client(), e.client()
	e.set(a, "dir", "d")
	session := e.session(b)
	if err := b.Close(); err != nil {
		e.Fatal(err)
	}
	op := e.op(metastore.Create, "dir/e", "1")
	op.Session = session
	e.fails(a, metastore.ErrSessionLost, nil, e.op(metastore.Set, "dir/x", "1"), op)
	e.children(a, "dir")
}

func ephemeralMadeAgain(e *env) {
	a, b := e.client(), e.client()
	e.ephemeral(a, "dir/e", "1")
	old := e.get(a, "dir/e").Version
	e.delete(b, "dir/e")
	e.gone(a, "dir/e")
	e.ephemeral(b, "dir/e", "1")
	if now := e.get(a, "dir/e").Version; now.Created <= old.Created {
		e.Fatalf("made again it has Created %d, was %d", now.Created, old.Created)
	}
	if err := a.Close(); err != nil {
		e.Fatal(err)
	}
	e.holds(b, "dir/e", "1") // it isn't a's
	c := e.client()
	e.delete(c, "dir/e")
	e.set(c, "dir/e", "2")
	if err := b.Close(); err != nil {
		e.Fatal(err)
	}
	if n := e.holds(c, "dir/e", "2"); n.Ephemeral {
		e.Fatal("a node that was made without a session is ephemeral")
	}
}

// The server ends a session: its nodes go, the client learns of it, and has another one then.
func expired(e *env) {
	a, b := e.client(), e.client()
	old := e.ephemeral(a, "dir/e", "1")
	other := e.ephemeral(b, "dir/f", "1")
	f := e.follow(b, "dir", metastore.Names)
	f.next()
	e.engine.Expire(e, a)
	e.lost(old)
	f.await(func(s metastore.State) bool { return len(s.Names) == 1 })
	e.children(a, "dir", "f")
	op := e.op(metastore.Create, "dir/g", "1")
	op.Session = old
	e.fails(a, metastore.ErrSessionLost, nil, op, e.op(metastore.Set, "dir/x", "1"))
	e.children(b, "dir", "f")
	now := e.session(a)
	if now == old || now.ID() == old.ID() {
		e.Fatalf("the lost session %s is given out again", old.ID())
	}
	op.Session = now
	e.commit(a, op)
	e.children(b, "dir", "f", "g")
	if e.session(b) != other {
		e.Fatal("another client's session has changed")
	}
}

// lost waits until a session has ended.
func (e *env) lost(s metastore.Session) {
	e.Helper()
	select {
	case <-s.Lost():
	case <-e.ctx.Done():
		e.Fatalf("session %s isn't lost: %v", s.ID(), context.Cause(e.ctx))
	}
}

// A client that is cut off knows that its session is lost before others see its nodes vanish.
func lostBeforeGone(e *env) {
	a, b := e.client(), e.client()
	old := e.ephemeral(a, "dir/e", "1")
	f := e.follow(b, "dir/e", metastore.Data)
	f.next()
	e.engine.Disconnect(e, a)
	f.await(func(s metastore.State) bool { return s.Node.Value == nil })
	select {
	case <-old.Lost():
	default:
		e.Error("others see the ephemeral node vanish, and its owner believes to have its session")
	}
	e.lost(old)
	e.engine.Reconnect(e, a)
	e.gone(a, "dir/e")
	if now := e.ephemeral(a, "dir/e", "2"); now == old {
		e.Error("the lost session is given out again")
	}
	e.holds(b, "dir/e", "2")
}

// A break that is shorter than the TTL costs nothing.
func keptOverShortBreak(e *env) {
	a, b := e.client(), e.client()
	session := e.ephemeral(a, "dir/e", "1")
	e.engine.Disconnect(e, a)
	e.engine.Reconnect(e, a)
	e.holds(a, "dir/e", "1")
	if now := e.session(a); now == session {
		e.holds(b, "dir/e", "1")
		return
	}
	e.lost(session)
	e.Log("the session was lost by a short break: the machine is slow, or the engine gives up early")
}
