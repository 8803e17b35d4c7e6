// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/disco-sim/disco/metastore"
)

// final tells whether an ack is the last of its request.
func (a *Ack) final() bool { return a != nil && a.Phase != Accepted }

// Ask asks a server for a state, and returns its last ack: applied, failed, superseded or refused, which is no
// error here. It waits until ctx ends; the request stays then, and the error wraps ctx's. a is the server's
// assignment, or with Reserved the new one. guards are conditions under which alone the request is made, such as a
// leader's (metastore.Lead.Guard).
func (v *View) Ask(ctx context.Context, server string, state State, a *Assignment, by string,
	guards ...metastore.Cond) (Ack, error) {
	id, err := v.Request(ctx, server, state, a, by, guards...)
	if err != nil {
		return Ack{}, err
	}
	return v.AwaitAck(ctx, server, id)
}

// Request is Ask without waiting for an ack; it returns the request's id.
func (v *View) Request(ctx context.Context, server string, state State, a *Assignment, by string,
	guards ...metastore.Cond) (id string, err error) {
	s, ok := v.Server(server)
	if !ok {
		return "", fmt.Errorf("cluster: there is no server %q", server)
	}
	key := dirDesired + "/" + server
	r := Request{ID: rand.Text(), Incarnation: s.Incarnation, State: state, Assignment: a, By: by}
	for {
		old, err := v.store.Get(ctx, key)
		if err != nil && !errors.Is(err, metastore.ErrNoNode) {
			return "", fmt.Errorf("cluster: asking %s for %v: %w", server, state, err)
		}
		op, cond := metastore.Op{Path: key, Do: metastore.Create}, metastore.Cond{}
		if err == nil && old.HasValue() {
			op.Do, cond = metastore.Set, metastore.Cond{Path: key, Is: metastore.At, Version: old.Version}
			r.Replaces = v.unanswered(server, old)
		}
		if op.Value, err = v.store.Encode(r); err != nil {
			return "", fmt.Errorf("cluster: %w", err)
		}
		conds := append([]metastore.Cond{{Path: dirServers + "/" + server, Is: metastore.Exists}}, guards...)
		if op.Do == metastore.Set {
			conds = append(conds, cond)
		}
		err = v.store.Commit(ctx, conds, []metastore.Op{op})
		var conflict *metastore.ConflictError
		switch {
		case err == nil:
			return r.ID, nil
		case errors.As(err, &conflict) && conflict.Cond.Path == key, errors.Is(err, metastore.ErrUnknown):
			// somebody else asked, or it is the same request again, which is looked at once
		default:
			return "", fmt.Errorf("cluster: asking %s for %v: %w", server, state, err)
		}
	}
}

// unanswered is the id of the request in a server's key, if it has no last ack.
func (v *View) unanswered(server string, old metastore.Value) string {
	var before Request
	if old.Decode(&before) != nil {
		return ""
	}
	if s, ok := v.Server(server); ok && s.Ack.final() && s.Ack.Request == before.ID {
		return ""
	}
	return before.ID
}

// AwaitAck waits for the last ack of a request. A request whose server leaves, or comes back in another life, or
// which is overwritten by another, was superseded.
func (v *View) AwaitAck(ctx context.Context, server, id string) (Ack, error) {
	var ack Ack
	var incarnation string
	err := v.Await(ctx, func() bool {
		s, ok := v.Server(server)
		if ok && incarnation == "" {
			incarnation = s.Incarnation
		}
		switch {
		case !ok || s.Incarnation != incarnation:
			ack = Ack{Request: id, Phase: Superseded, Error: "the server has left, or has come back in another life"}
		case s.Ack == nil:
			return false
		case s.Ack.Request == id && s.Ack.final():
			ack = *s.Ack
		case s.Ack.Supersedes == id:
			ack = Ack{Request: id, Phase: Superseded, State: s.Ack.State, Error: "by the request " + s.Ack.Request}
		default:
			return false
		}
		return true
	})
	if err != nil {
		return Ack{}, fmt.Errorf("cluster: waiting for the answer of %s: %w", server, err)
	}
	return ack, nil
}

// Drain says that nothing new is placed on a member or a server; what runs there goes on. It holds until Resume, over
// restarts, and also for a name that isn't there yet. by is for people.
func Drain(ctx context.Context, store *metastore.Store, name, by string) error {
	if err := store.Put(ctx, dirDrained+"/"+name, map[string]string{"by": by}); err != nil {
		return fmt.Errorf("cluster: drain %s: %w", name, err)
	}
	return nil
}

// Resume undoes Drain; it is no error where there is none.
func Resume(ctx context.Context, store *metastore.Store, name string) error {
	if err := store.Delete(ctx, dirDrained+"/"+name); err != nil {
		return fmt.Errorf("cluster: resume %s: %w", name, err)
	}
	return nil
}

// Remove takes a member's key away, and those of its servers, for whoever supervises its process and has seen it
// die: the others learn of it at once, not at the session's end. It removes that process' registration only: pid
// and host are the member's. Nothing there is no error.
func Remove(ctx context.Context, store *metastore.Store, member string, pid int) error {
	key := dirMembers + "/" + member
	var found Member
	value, err := store.Get(ctx, key)
	if errors.Is(err, metastore.ErrNoNode) {
		return nil
	}
	if err == nil {
		err = value.Decode(&found)
	}
	if err != nil {
		return fmt.Errorf("cluster: remove %s: %w", member, err)
	}
	if found.Pid != pid || found.Origin != origin() {
		return nil
	}
	// The member first: from then on its servers can't write any more.
	conds := []metastore.Cond{{Path: key, Is: metastore.At, Version: value.Version}}
	if err := store.Commit(ctx, conds, []metastore.Op{{Path: key, Do: metastore.Delete}}); err != nil {
		return fmt.Errorf("cluster: remove %s: %w", member, err)
	}
	gone := []metastore.Cond{{Path: key, Is: metastore.Missing}} // a next life cleans up by itself
	for slot := range found.Slots {
		err := store.Commit(ctx, gone, removal(serverName(member, slot)))
		var conflict *metastore.ConflictError
		if errors.As(err, &conflict) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cluster: remove %s: %w", member, err)
		}
	}
	return nil
}

// Leadership is what a leader shows of itself.
type Leadership struct {
	Member      string `json:"member"`
	Incarnation string `json:"incarnation"`
}

// Lead waits until this member leads, as long as ctx lasts. The leadership ends with the session: see metastore.Lead.
func (m *Membership) Lead(ctx context.Context) (*metastore.Lead, error) {
	own := m.Member()
	return m.store.Campaign(ctx, keyLeader, Leadership{own.Name, own.Incarnation})
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
