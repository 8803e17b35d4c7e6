// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

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
	key, mark := dirDesired+"/"+server, rand.Text()
	r := Request{Incarnation: s.Incarnation, State: state, Assignment: a, By: by}
	for try := 0; ; try++ {
		old, err := v.store.Get(ctx, key)
		if err != nil && !errors.Is(err, metastore.ErrNoNode) {
			return "", fmt.Errorf("cluster: asking %s for %v: %w", server, state, err)
		}
		var before Request
		if !old.HasValue() || old.Decode(&before) != nil {
			before = Request{}
		}
		if r.ID != "" && before.ID == r.ID { // the commit before had no answer
			return r.ID, nil
		}
		v.follows(&r, server, &before, mark)
		op := metastore.Op{Path: key, Do: metastore.Create}
		conds := append([]metastore.Cond{{Path: dirServers + "/" + server, Is: metastore.Exists}}, guards...)
		if old.HasValue() {
			op.Do = metastore.Set
			conds = append(conds, metastore.Cond{Path: key, Is: metastore.At, Version: old.Version})
		}
		if op.Value, err = v.store.Encode(r); err != nil {
			return "", fmt.Errorf("cluster: %w", err)
		}
		if err = v.store.Commit(ctx, conds, []metastore.Op{op}); err == nil {
			return r.ID, nil
		}
		var conflict *metastore.ConflictError
		again := errors.Is(err, metastore.ErrUnknown) || // it is read, and made again if it isn't there
			errors.As(err, &conflict) && conflict.Cond.Path == key // somebody else has asked
		if !again || pause(ctx, try) != nil {
			return "", fmt.Errorf("cluster: asking %s for %v: %w", server, state, err)
		}
	}
}

// follows gives a request its number, which is greater than those of all before it in this life of the server, and the
// one that it replaces, unless that has its last ack.
func (v *View) follows(r *Request, server string, before *Request, mark string) {
	number := requestNumber(before.ID, r.Incarnation)
	r.Replaces = before.ID
	if s, ok := v.Server(server); ok && s.Ack != nil {
		if s.Incarnation == r.Incarnation { // before may be another program's, which has no number
			number = max(number, s.Ack.Seen)
		}
		if s.Ack.final() && s.Ack.Request == before.ID {
			r.Replaces = ""
		}
	}
	r.ID = requestID(r.Incarnation, number+1, mark)
}

// ErrOvertaken is the error about a request whose last ack was overwritten by that of a later one before it was seen.
// Whether it was applied isn't known: the server's state is that of the later one.
var ErrOvertaken = errors.New("a later request was answered since, and this one's answer is gone")

// AwaitAck waits for the last ack of a request that this view has made. A request whose server leaves, or comes back in
// another life, or which was overwritten before the server has read it, was superseded. ErrOvertaken.
func (v *View) AwaitAck(ctx context.Context, server, id string) (Ack, error) {
	var ack Ack
	incarnation, _, known := strings.Cut(id, ".") // that the request is for
	overtaken := false
	err := v.Await(ctx, func() bool {
		s, ok := v.Server(server)
		if ok && !known { // the id is another writer's
			incarnation, known = s.Incarnation, true
		}
		switch {
		case ok && s.Ack != nil && s.Ack.Request == id && s.Ack.final():
			ack = *s.Ack // also of a later life, which has refused it
		case !ok || s.Incarnation != incarnation:
			ack = Ack{Request: id, Phase: Superseded, Error: "the server has left, or has come back in another life"}
		case s.Ack == nil:
			return false
		case s.Ack.Supersedes == id:
			ack = Ack{Request: id, Phase: Superseded, State: s.Ack.State, Error: "by the request " + s.Ack.Request}
		case s.Ack.Request == id, s.Ack.Pending == id: // accepted
			return false
		default:
			number := requestNumber(id, incarnation)
			overtaken = number > 0 && s.Ack.Seen >= number
			return overtaken
		}
		return true
	})
	if err == nil && overtaken {
		err = ErrOvertaken
	}
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

// Remove takes a member's key away, those of its servers, and all else that its session held in the group (candidates
// for leading, claims of queues' items), for whoever supervises its process and has seen it die: the others learn of it
// at once, not at the session's end. It removes that process' registration only: pid and host are the member's.
// Nothing there is no error.
func Remove(ctx context.Context, store *metastore.Store, member string, pid int) error {
	found, owner, err := removeMember(ctx, store, member, pid)
	for slot := 0; err == nil && slot < found.Slots; slot++ {
		// A next life cleans up by itself.
		gone := metastore.Cond{Path: dirMembers + "/" + member, Is: metastore.Missing}
		err = store.Commit(ctx, []metastore.Cond{gone}, removal(serverName(member, slot)))
		var conflict *metastore.ConflictError
		if errors.As(err, &conflict) {
			err = nil
			break
		}
	}
	if err == nil && owner != 0 {
		err = store.DeleteOwned(ctx, owner)
	}
	if err != nil {
		return fmt.Errorf("cluster: remove %s: %w", member, err)
	}
	return nil
}

// removeMember takes the key of a member away, if it is that of a process of this machine, and returns what it held.
// From then on the member's servers can't write any more.
func removeMember(ctx context.Context, store *metastore.Store, member string, pid int) (found Member, owner uint64,
	err error) {
	key := dirMembers + "/" + member
	for try := 0; ; try++ {
		var now Member
		value, err := store.Get(ctx, key)
		if err == nil {
			err = value.Decode(&now)
		}
		if errors.Is(err, metastore.ErrNoNode) || err == nil && (now.Pid != pid || now.Origin != origin()) {
			return found, owner, nil
		}
		if err != nil {
			return found, owner, err
		}
		found, owner = now, value.Owner
		err = store.Commit(ctx, []metastore.Cond{{Path: key, Is: metastore.At, Version: value.Version}},
			[]metastore.Op{{Path: key, Do: metastore.Delete}})
		if !changedBefore(err) { // by what the process had sent before it died, or by a successor
			return found, owner, err
		}
		if cause := pause(ctx, try); cause != nil {
			return found, owner, fmt.Errorf("%w: %w", cause, err)
		}
	}
}
