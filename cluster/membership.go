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
// left. Keys that somebody has deleted since are made anew: a Set alone would make ones that outlive the session.
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
	var conds []metastore.Cond
	if create {
		if err := m.guarded(l, removal(name)); err != nil {
			return err
		}
	}
	for i := range ops {
		if create {
			ops[i].Do, ops[i].Session = metastore.Create, l.session
		} else {
			conds = append(conds, metastore.Cond{Path: keys[i], Is: metastore.Exists})
		}
	}
	for {
		err := m.guarded(l, ops, conds...)
		var conflict *metastore.ConflictError
		if !errors.As(err, &conflict) || !slices.Contains(keys, conflict.Cond.Path) {
			return err
		}
		i := slices.Index(keys, conflict.Cond.Path)
		if conflict.Cond.Is == metastore.Exists {
			ops[i].Do, ops[i].Session = metastore.Create, l.session
			conds = slices.DeleteFunc(conds, func(c metastore.Cond) bool { return c == conflict.Cond })
		} else { // an attempt without an answer has made it
			ops[i].Do, ops[i].Session = metastore.Set, nil
			conds = append(conds, metastore.Cond{Path: keys[i], Is: metastore.Exists})
		}
	}
}

// removal takes a server's keys away.
func removal(name string) (ops []metastore.Op) {
	for _, dir := range []string{dirServers, dirInfo, dirDesired, dirDead} {
		ops = append(ops, metastore.Op{Path: dir + "/" + name, Do: metastore.Delete})
	}
	return ops
}

// guarded commits operations that hold only while a life lasts, and further conditions do: *ConflictError is about
// those, or what an attempt without an answer has made. Doing them twice, one after the other, does no harm.
func (m *Membership) guarded(l *life, ops []metastore.Op, conds ...metastore.Cond) error {
	for {
		m.mu.Lock()
		guard := metastore.Cond{Path: dirMembers + "/" + m.options.Name, Is: metastore.At, Version: m.version}
		m.mu.Unlock()
		err := m.store.Commit(l.ctx, append([]metastore.Cond{guard}, conds...), ops)
		var conflict *metastore.ConflictError
		switch {
		case err == nil:
			return nil
		case l.ctx.Err() != nil, errors.Is(err, metastore.ErrSessionLost), errors.Is(err, metastore.ErrClosed):
			return errLifeOver
		case errors.As(err, &conflict) && conflict.Cond.Path == guard.Path:
			if err := m.refresh(l); err != nil {
				return err
			}
		case !errors.Is(err, metastore.ErrUnknown):
			return err
		default:
			if err := m.settle(l, guard); err != nil {
				return err
			}
		}
	}
}

// settle makes certain that nothing is done later under a guard, after an unknown outcome: it could bring an earlier
// state of a server back, or delete its keys. The member's key is written again, as it is, until its version is
// another.
func (m *Membership) settle(l *life, guard metastore.Cond) error {
	for try := 0; ; try++ {
		m.mu.Lock()
		settled := m.version != guard.Version
		m.mu.Unlock()
		if settled {
			return nil
		}
		err := m.setStatus(l.ctx, l, "")
		switch {
		case l.ctx.Err() != nil, errors.Is(err, errLifeOver):
			return errLifeOver
		case err != nil && !changedBefore(err):
			return err
		}
		if pause(l.ctx, try) != nil {
			return errLifeOver
		}
	}
}

// refresh reads the member's own key again: its version is the guard. A key that isn't this life's ends it.
func (m *Membership) refresh(l *life) error {
	m.statusMu.Lock() // one after the other, so that no older version is noted after a newer one
	defer m.statusMu.Unlock()
	found, at, err := m.read(l.ctx)
	switch {
	case l.ctx.Err() != nil, errors.Is(err, metastore.ErrNoNode), errors.Is(err, errUnreadable),
		errors.Is(err, metastore.ErrClosed),
		err == nil && found.Incarnation != l.incarnation:
		l.cancel(errLifeOver)
		return errLifeOver
	case err != nil:
		return err
	}
	m.mu.Lock()
	m.member, m.version = found, at.Version
	m.mu.Unlock()
	return nil
}

// setStatus writes the member's status, or the same again where it is "".
func (m *Membership) setStatus(ctx context.Context, l *life, status MemberStatus) error {
	m.statusMu.Lock()
	m.mu.Lock()
	member := m.member
	guard := metastore.Cond{Path: dirMembers + "/" + member.Name, Is: metastore.At, Version: m.version}
	m.mu.Unlock()
	if status != "" {
		member.Status, member.Since = status, time.Now().UTC()
	}
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

// run leads the member through its lives, until it leaves, all its servers have exited, or the store is closed.
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
		if all && up { // also where a write without an answer has done that
			m.isUp()
		}
		switch {
		case leave != nil, all && exited:
			return true
		case l.ctx.Err() != nil: // also where writing it as up was what found that
			return false
		case all && !up:
			if err := m.setStatus(l.ctx, l, Up); err != nil && l.ctx.Err() == nil {
				m.options.Report(fmt.Errorf("cluster: member %s could not be written as up, trying again: %w",
					m.options.Name, err))
				_ = sleep(l.ctx, time.Second)
			}
			continue
		}
		select {
		case <-m.changed:
		case <-m.left:
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

// attemptMax is how long a member tries to come back until it reports that it can't, and tries again. A minute later
// it does so again.
const attemptMax = 5 * time.Second

// again registers anew, for as long as it takes, unless the member leaves or the store is closed. Servers' work ends
// meanwhile where that is asked for (Options.StopAfter).
func (m *Membership) again() bool {
	select {
	case <-m.store.Closed():
		return false
	default:
	}
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
	go func() {
		select {
		case <-m.left:
		case <-m.store.Closed():
		case <-ctx.Done():
		}
		cancel()
	}()
	m.options.Report(fmt.Errorf("cluster: member %s has lost its session: it takes no requests until it is registered "+
		"again, and what runs goes on", m.options.Name))
	began, told, last := time.Now(), "nothing", time.Time{}
	for {
		attempt, ended := context.WithTimeout(ctx, attemptMax)
		err := m.register(attempt)
		ended()
		if err == nil {
			m.options.Report(fmt.Errorf("cluster: member %s is registered again, after %v without a session",
				m.options.Name, time.Since(began).Round(time.Millisecond)))
			return true
		}
		if ctx.Err() != nil || errors.Is(err, metastore.ErrClosed) {
			return false
		}
		text := err.Error()
		if errors.Is(err, metastore.ErrUnavailable) {
			text = "" // how long was tried is in there
		}
		if text != told || time.Since(last) > time.Minute {
			told, last = text, time.Now()
			m.options.Report(fmt.Errorf("cluster: member %s has had no session for %v: %w", m.options.Name,
				time.Since(began).Round(time.Second), err))
		}
		if sleep(ctx, time.Second/2+rand.N(time.Second)) != nil {
			return false
		}
	}
}

// pause waits before something is tried again that others have changed, for a random time that doubles with each try:
// up to 1 ms at first, and 64 ms at most.
func pause(ctx context.Context, try int) error {
	return sleep(ctx, rand.N(time.Millisecond<<min(try, 6)))
}

// sleep waits.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return context.Cause(ctx) // when the time is over as well, too
}

// Leave gives up what the servers host, and takes the member and its servers out of the store. ctx bounds that; what
// isn't removed then goes with the session. A second call is an error.
func (m *Membership) Leave(ctx context.Context) error {
	m.mu.Lock()
	again := m.leaving != nil
	if !again {
		m.leaving = ctx
		close(m.left)
	}
	m.mu.Unlock()
	if again {
		return fmt.Errorf("cluster: member %s has left already", m.options.Name)
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
	if ctx == nil { // all servers have exited, or the store is closed
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
	}
	var err error
	if l != nil {
		m.leadNoMore(ctx, l)
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
	for group := range slices.Chunk(m.servers, (metastore.MaxOps-1)/len(removal(""))) {
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

// Done is closed when the member has left, all its servers have exited, or the store was closed.
func (m *Membership) Done() <-chan struct{} { return m.done }

// Ready tells whether the member is registered and up: its servers take requests.
func (m *Membership) Ready() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.life != nil && m.life.ctx.Err() == nil && m.member.Status == Up
}
