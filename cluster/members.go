// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/disco-sim/disco/metastore"
)

// readMember takes a member's value in. Another incarnation of a name is another life: the one before is down.
func (v *View) readMember(name string, val metastore.Value) {
	m := v.members[name]
	found, err := read(val, func(m *Member) error { return m.check(name) })
	before := m.Member
	m.read, m.err = true, err
	if err != nil {
		return // it stays as it was
	}
	if before.Name != "" && before.Incarnation != found.Incarnation {
		v.ended(before)
		before = Member{}
		delete(v.unreachable, name)
	}
	m.Member = found
	for _, kind := range path(before.Status, found.Status) {
		v.publish(MemberEvent{kind, found})
	}
}

// memberGone takes in that a member's key is gone.
func (v *View) memberGone(name string) {
	v.forget(dirMembers + "/" + name)
	m := v.members[name]
	delete(v.members, name)
	delete(v.unreachable, name)
	if m.Name != "" {
		v.ended(m.Member)
	}
}

// ended publishes that a life of a member is over.
func (v *View) ended(m Member) {
	for _, kind := range path(m.Status, Down) {
		v.publish(MemberEvent{kind, m})
	}
}

// Members returns all members that were read, by name.
func (v *View) Members() []Member {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []Member
	for _, name := range slices.Sorted(maps.Keys(v.members)) {
		if m := v.members[name]; m.Name != "" {
			all = append(all, m.Member)
		}
	}
	return all
}

// ReadMembers returns the members that are in the store now, by name, and what is wrong with those that can't be read:
// for programs that look once, or seldom, and so need no View.
func ReadMembers(ctx context.Context, store *metastore.Store) (all []Member, malformed map[string]error, err error) {
	values, err := store.Walk(ctx, dirMembers)
	if err != nil {
		return nil, nil, fmt.Errorf("cluster: %w", err)
	}
	malformed = map[string]error{}
	for _, v := range values {
		name, below := strings.CutPrefix(v.Key(), dirMembers+"/")
		if !below || !v.HasValue() {
			continue
		}
		m, err := read(v, func(m *Member) error { return m.check(name) })
		if err != nil {
			malformed[name] = err
			continue
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return all, malformed, nil
}

// Malformed returns the members whose values can't be read, with what is wrong.
func (v *View) Malformed() map[string]error {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := map[string]error{}
	for name, m := range v.members {
		if m.err != nil {
			all[name] = m.err
		}
	}
	return all
}

// WithRole returns the names of the members that are up and have a role; "" is any.
func (v *View) WithRole(role string) (names []string) {
	for _, m := range v.Members() {
		if m.Status == Up && (role == "" || slices.Contains(m.Roles, role)) {
			names = append(names, m.Name)
		}
	}
	return names
}

// AwaitMembers waits until at least so many members with a role are up.
func (v *View) AwaitMembers(ctx context.Context, role string, least int) error {
	if err := v.Await(ctx, func() bool { return len(v.WithRole(role)) >= least }); err != nil {
		return fmt.Errorf("cluster: waiting for %d members (role %q), %d are up: %w", least, role,
			len(v.WithRole(role)),
			err)
	}
	return nil
}

// SetReachable notes whether a member can be reached by the transport between machines. It changes no one's status:
// whether a member is alive is for the store to say. A member that isn't there is ignored.
func (v *View) SetReachable(name string, reachable bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	m := v.members[name]
	if m == nil || m.Name == "" || v.unreachable[name] == !reachable {
		return
	}
	kind := Reachable
	if reachable {
		delete(v.unreachable, name)
	} else {
		kind, v.unreachable[name] = Unreachable, true
	}
	v.publish(MemberEvent{kind, m.Member})
	v.touch()
}

// Subscription is a queue of events that one reader takes from. It isn't bounded by more than the number of
// events: who doesn't want them any more closes it.
type Subscription struct {
	view   *View
	events []MemberEvent
	kick   chan struct{}
	closed bool
}

// Subscribe returns a subscription, which begins with the events that led to the present members.
func (v *View) Subscribe() *Subscription {
	s := &Subscription{view: v, kick: make(chan struct{}, 1)}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.subscribers[s] = true
	for _, name := range slices.Sorted(maps.Keys(v.members)) {
		m := v.members[name].Member
		for _, kind := range path("", m.Status) {
			s.events = append(s.events, MemberEvent{kind, m})
		}
		if v.unreachable[name] {
			s.events = append(s.events, MemberEvent{Unreachable, m})
		}
	}
	s.wake()
	return s
}

// publish gives an event to all subscribers. The lock is held.
func (v *View) publish(e MemberEvent) {
	for s := range v.subscribers {
		s.events = append(s.events, e)
		s.wake()
	}
}

func (s *Subscription) wake() {
	select {
	case s.kick <- struct{}{}:
	default: // it will look anyway
	}
}

// Next returns the next event, and waits for it. It fails when ctx ends, the subscription, its view or the store is
// closed (ErrClosed), or the store isn't the one any more that it was (ErrWrongCluster).
func (s *Subscription) Next(ctx context.Context) (MemberEvent, error) {
	for {
		s.view.mu.Lock()
		if len(s.events) > 0 {
			e := s.events[0]
			s.events = s.events[1:]
			s.view.mu.Unlock()
			return e, nil
		}
		ended := s.closed || s.view.closed
		s.view.mu.Unlock()
		if ended {
			s.wake() // for another reader that waits
			return MemberEvent{}, metastore.ErrClosed
		}
		select {
		case <-s.kick:
		case <-s.view.store.Closed():
			return MemberEvent{}, fmt.Errorf("cluster: %w", metastore.ErrClosed)
		case <-s.view.store.Wrong():
			return MemberEvent{}, fmt.Errorf("cluster: %w", metastore.ErrWrongCluster)
		case <-ctx.Done():
			return MemberEvent{}, context.Cause(ctx)
		}
	}
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	s.closed = true
	delete(s.view.subscribers, s)
	s.wake()
}
