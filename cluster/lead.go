// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/disco-sim/disco/metastore"
)

// Leadership is what a leader shows of itself.
type Leadership struct {
	Member      string `json:"member"`
	Incarnation string `json:"incarnation"`
}

// Lead waits until this member leads, as long as ctx lasts. It is a candidate anew in each of its lives, so that the
// record's incarnation is the one in which it leads. The leadership ends with that life, however that ends: the session
// is lost, the member's key is deleted or written over, all its servers have exited, the store is closed, or the member
// begins to leave. Lost is closed then, and the next candidate leads. A member that leaves ends the call, too.
func (m *Membership) Lead(ctx context.Context) (*metastore.Lead, error) {
	for try := 0; ; try++ {
		l, err := m.awaitLife(ctx)
		if err != nil {
			return nil, fmt.Errorf("cluster: %s as the leader: %w", m.options.Name, err)
		}
		lead, err := m.leadIn(ctx, l)
		if err == nil || ctx.Err() != nil || !errors.Is(err, metastore.ErrSessionLost) {
			return lead, err
		}
		_ = pause(ctx, try) // what has found that the session is lost may be ahead of the life's end
	}
}

// awaitLife waits until there is a life in which the member may lead.
func (m *Membership) awaitLife(ctx context.Context) (*life, error) {
	for {
		m.mu.Lock()
		l, began := m.life, m.began
		m.mu.Unlock()
		if err := m.over(); err != nil {
			return nil, err
		}
		if l != nil && l.leading.Err() == nil {
			return l, nil
		}
		select {
		case <-began:
		case <-m.left:
		case <-m.done:
		case <-m.store.Closed():
		case <-m.store.Wrong():
			return nil, metastore.ErrWrongCluster
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// over is why the member has no further life, or nil. A store that was closed ends the member, too, and comes first.
func (m *Membership) over() (err error) {
	select {
	case <-m.left:
		err = errors.New("it has left")
	case <-m.done:
		err = errors.New("all its servers have exited")
	default:
	}
	select {
	case <-m.store.Closed():
		return metastore.ErrClosed
	default:
		return err
	}
}

// leadIn waits until the member leads in one life. It fails with ErrSessionLost when that is over before.
func (m *Membership) leadIn(ctx context.Context, l *life) (*metastore.Lead, error) {
	bounded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.leading, func() { cancel(metastore.ErrSessionLost) })()
	lead, err := m.store.CampaignIn(bounded, l.session, keyLeader, Leadership{m.options.Name, l.incarnation})
	if err != nil {
		if ctx.Err() == nil && l.leading.Err() != nil {
			err = metastore.ErrSessionLost
		}
		return nil, err
	}
	m.mu.Lock()
	over := l.leading.Err() != nil
	if !over {
		l.leads.Go(func() {
			select {
			case <-lead.Lost():
			case <-l.leading.Done():
				m.resign(lead)
			}
		})
	}
	m.mu.Unlock()
	if over {
		m.resign(lead)
		return nil, metastore.ErrSessionLost
	}
	return lead, nil
}

// resign gives a leadership up, later if the store can't be reached.
func (m *Membership) resign(lead *metastore.Lead) {
	ctx, cancel := context.WithTimeout(context.Background(), attemptMax)
	defer cancel()
	_ = lead.Resign(ctx) // it goes on trying
}

// leadNoMore ends the leaderships of a life, and waits until others may lead, or ctx ends.
func (m *Membership) leadNoMore(ctx context.Context, l *life) {
	m.mu.Lock()
	l.leadNoMore()
	m.mu.Unlock()
	resigned := make(chan struct{})
	go func() { l.leads.Wait(); close(resigned) }()
	select {
	case <-resigned:
	case <-ctx.Done():
	}
}

// WatchLeader calls f at first, and whenever there is another leader, or none: [View.Leader] says who. Candidates that
// come and go call it, too.
func (v *View) WatchLeader(ctx context.Context, f func()) (*metastore.Watch, error) {
	w, err := v.store.WatchMembers(ctx, keyLeader+"/candidates", func([]string, string) bool { f(); return true })
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return w, nil
}

// Leader returns who leads, or no record.
func (v *View) Leader(ctx context.Context) (r Leadership, ok bool, err error) {
	value, err := v.store.Leader(ctx, keyLeader)
	if errors.Is(err, metastore.ErrNoNode) {
		return r, false, nil
	}
	if err == nil && value.Exists() {
		err = value.Decode(&r)
		ok = err == nil
	}
	return r, ok, err
}
