// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// commit writes a server's keys while a life lasts. The first time it makes them, after what an earlier life has
// left.
func (m *Membership) commit(l *life, name string, create bool, status *Status, info *Info) error {
	statusValue, err := m.store.Encode(status)
	if err != nil {
		return err
	}
	infoValue, err := m.store.Encode(info)
	if err != nil {
		return err
	}
	keys := []string{dirServers + "/" + name, dirInfo + "/" + name}
	ops := []metastore.Op{{Path: keys[0], Do: metastore.Set, Value: statusValue},
		{Path: keys[1], Do: metastore.Set, Value: infoValue}}
	if create {
		if err := m.guarded(l, removal(name)); err != nil {
			return err
		}
		for i := range ops {
			ops[i].Do, ops[i].Session = metastore.Create, l.session
		}
	}
	return m.guarded(l, ops)
}

// removal takes a server's keys away.
func removal(name string) (ops []metastore.Op) {
	for _, dir := range []string{dirServers, dirInfo, dirDesired} {
		ops = append(ops, metastore.Op{Path: dir + "/" + name, Do: metastore.Delete})
	}
	return ops
}

// guarded commits operations that hold only while a life lasts. Doing them twice does no harm.
func (m *Membership) guarded(l *life, ops []metastore.Op) error {
	for {
		m.mu.Lock()
		guard := metastore.Cond{Path: dirMembers + "/" + m.options.Name, Is: metastore.At, Version: m.version}
		m.mu.Unlock()
		err := m.store.Commit(l.ctx, []metastore.Cond{guard}, ops)
		var conflict *metastore.ConflictError
		switch {
		case err == nil:
			return nil
		case l.ctx.Err() != nil, errors.Is(err, metastore.ErrSessionLost):
			return errLifeOver
		case errors.As(err, &conflict) && conflict.Cond.Path == guard.Path:
			if err := m.refresh(l); err != nil {
				return err
			}
		case !errors.Is(err, metastore.ErrUnknown):
			return err
		}
	}
}

// refresh reads the member's own key again: its version is the guard. A key that isn't this life's ends it.
func (m *Membership) refresh(l *life) error {
	m.statusMu.Lock() // one after the other, so that no older version is noted after a newer one
	defer m.statusMu.Unlock()
	found, version, err := m.read(l.ctx)
	switch {
	case l.ctx.Err() != nil, errors.Is(err, metastore.ErrNoNode), err == nil && found.Incarnation != l.incarnation:
		l.cancel(errLifeOver)
		return errLifeOver
	case err != nil:
		return err
	}
	m.mu.Lock()
	m.member, m.version = found, version
	m.mu.Unlock()
	return nil
}

// setStatus writes the member's status.
func (m *Membership) setStatus(ctx context.Context, l *life, status MemberStatus) error {
	m.statusMu.Lock()
	m.mu.Lock()
	member := m.member
	guard := metastore.Cond{Path: dirMembers + "/" + member.Name, Is: metastore.At, Version: m.version}
	m.mu.Unlock()
	member.Status, member.Since = status, time.Now().UTC()
	value, err := m.store.Encode(member)
	if err == nil {
		err = m.store.Commit(ctx, []metastore.Cond{guard}, []metastore.Op{{Path: guard.Path, Do: metastore.Set,
			Value: value}})
	}
	m.statusMu.Unlock()
	var conflict *metastore.ConflictError
	if err != nil && !errors.Is(err, metastore.ErrUnknown) && !errors.As(err, &conflict) {
		return err
	}
	return errors.Join(err, m.refresh(l))
}

// wrote notes what the store has of a server.
func (m *Membership) wrote(l *life, name string, state State) {
	m.mu.Lock()
	if m.life == l {
		m.written[name] = state
	}
	m.mu.Unlock()
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// run leads the member through its lives, until it leaves or all its servers have exited.
func (m *Membership) run() {
	defer close(m.done)
	defer m.absent()
	for _, s := range m.servers {
		w, err := s.watch(m.store)
		if err != nil {
			m.options.Report(fmt.Errorf("cluster: requests for %s can't be followed: %w", s.name, err))
		} else {
			defer func() { w.Stop(); <-w.Done() }()
		}
		go s.run()
	}
	own, err := m.store.Follow(dirMembers+"/"+m.options.Name, m.ownKey)
	if err != nil {
		m.options.Report(fmt.Errorf("cluster: the member's own key can't be followed: %w", err))
	} else {
		defer func() { own.Stop(); <-own.Done() }()
	}
	for {
		m.mu.Lock()
		l := m.life
		m.mu.Unlock()
		for _, s := range m.servers {
			s.live(l)
		}
		if m.live(l) {
			m.setErr(m.end(l))
			return
		}
		m.mu.Lock()
		m.life = nil
		m.mu.Unlock()
		for _, s := range m.servers {
			s.live(nil)
		}
		if !m.again() {
			m.setErr(m.end(nil))
			return
		}
	}
}

// absent says that what this member left in the store is nobody's any more.
func (m *Membership) absent() {
	present.Range(func(incarnation, owner any) bool {
		if owner == m {
			present.Delete(incarnation)
		}
		return true
	})
}

// ownKey is the watch of the member's own key: what somebody else has deleted or written ends this life.
func (m *Membership) ownKey(v metastore.Value, _ string) bool {
	m.mu.Lock()
	l := m.life
	m.mu.Unlock()
	var found Member
	if l != nil && (!v.Exists() || v.Decode(&found) != nil || found.Incarnation != l.incarnation) {
		go func() { _ = m.refresh(l) }() // the value may be one from before this life
	}
	return true
}

func (m *Membership) setErr(err error) {
	m.mu.Lock()
	m.err = err
	m.mu.Unlock()
}

// live is one life. It tells whether the member is to leave; otherwise the session is lost.
func (m *Membership) live(l *life) (leave bool) {
	for {
		m.mu.Lock()
		all, exited, up, leave := len(m.written) == len(m.servers), len(m.servers) > 0, m.member.Status == Up,
			m.leaving
		for _, state := range m.written {
			exited = exited && state == Exited
		}
		m.mu.Unlock()
		switch {
		case leave != nil, all && exited:
			return true
		case all && !up:
			if err := m.setStatus(l.ctx, l, Up); err == nil {
				m.isUp()
			} else if l.ctx.Err() == nil {
				m.options.Report(fmt.Errorf("cluster: member %s could not be written as up, trying again: %w",
					m.options.Name, err))
				_ = sleep(l.ctx, time.Second)
			}
			continue
		}
		select {
		case <-m.changed:
		case <-l.ctx.Done():
			return false
		}
	}
}

// isUp ends Join's waiting.
func (m *Membership) isUp() {
	select {
	case <-m.up:
	default:
		close(m.up)
	}
}

// again registers anew, for as long as it takes, unless the member leaves. Servers' work ends meanwhile where that is
// asked for (Options.StopAfter).
func (m *Membership) again() bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if after := m.options.StopAfter; after > 0 {
		stop := time.AfterFunc(after, func() {
			for _, s := range m.servers {
				s.note(func(slot *Slot) Step {
					return slot.Abandon(fmt.Errorf("there has been no session for %v: the store can't be reached",
						after))
				})
			}
		})
		defer stop.Stop()
	}
	go func() { // Leave ends it
		for ctx.Err() == nil {
			m.mu.Lock()
			leaving := m.leaving
			m.mu.Unlock()
			if leaving != nil {
				cancel()
			}
			select {
			case <-m.changed:
			case <-ctx.Done():
			}
		}
	}()
	for told := ""; ; {
		err := m.register(ctx)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if err.Error() != told {
			told = err.Error()
			m.options.Report(fmt.Errorf("cluster: member %s can't come back, trying again: %w", m.options.Name, err))
		}
		if sleep(ctx, time.Second/2+rand.N(time.Second)) != nil {
			return false
		}
	}
}

// sleep waits.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Leave gives up what the servers host, and takes the member and its servers out of the store. ctx bounds that; what
// isn't removed then goes with the session. A second call is an error.
func (m *Membership) Leave(ctx context.Context) error {
	m.mu.Lock()
	again := m.leaving != nil
	if !again {
		m.leaving = ctx
	}
	m.mu.Unlock()
	if again {
		return fmt.Errorf("cluster: member %s has left already", m.options.Name)
	}
	select {
	case m.changed <- struct{}{}:
	default:
	}
	<-m.done
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// end ends all servers, and removes the keys of the last life, if there is one.
func (m *Membership) end(l *life) error {
	m.mu.Lock()
	ctx := m.leaving
	m.mu.Unlock()
	if ctx == nil { // all servers have exited
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
	}
	var err error
	if l != nil {
		_ = m.setStatus(ctx, l, Leaving) // for those who look meanwhile; that it is gone says the same
	}
	for _, s := range m.servers {
		s.mu.Lock()
		s.leave = true
		s.mu.Unlock()
		s.wake()
	}
	for _, s := range m.servers {
		select {
		case <-s.done:
		case <-ctx.Done():
			err = errors.Join(err, fmt.Errorf("server %s still gives its partition up: %w", s.name,
				context.Cause(ctx)))
		}
	}
	if l == nil {
		return err
	}
	return errors.Join(err, m.remove(ctx, l))
}

// remove takes all keys of a life out of the store. Where the session has ended they are gone anyway.
func (m *Membership) remove(ctx context.Context, l *life) error {
	bounded, cancel := context.WithCancelCause(l.ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	last := &life{ctx: bounded, cancel: cancel, session: l.session, incarnation: l.incarnation}
	var err error
	for group := range slices.Chunk(m.servers, 30) {
		var ops []metastore.Op
		for _, s := range group {
			ops = append(ops, removal(s.name)...)
		}
		err = errors.Join(err, m.guarded(last, ops))
	}
	err = errors.Join(err, m.guarded(last, []metastore.Op{{Path: dirMembers + "/" + m.options.Name,
		Do: metastore.Delete}}))
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("the keys of %s go when its session ends: %w", m.options.Name, context.Cause(ctx))
	case errors.Is(err, errLifeOver):
		return nil
	}
	return err
}

// Done is closed when the member has left, or all its servers have exited.
func (m *Membership) Done() <-chan struct{} { return m.done }

// Ready tells whether the member is registered and up: its servers take requests.
func (m *Membership) Ready() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.life != nil && m.life.ctx.Err() == nil && m.member.Status == Up
}
