// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/disco-sim/disco/metastore"
)

const (
	maxDead      = 100 // dead letters that a resolver keeps
	maxShown     = 20  // of these, that a server shows to others
	lettersTicks = 5   // seconds between two writings of a server's dead letters, at least
)

// DeadLetter is a reference that couldn't be resolved.
type DeadLetter struct {
	URI    string `json:"uri"`
	Reason string `json:"reason"` // the last time
	Times  uint64 `json:"times"`
}

// DeadLetters are the references that couldn't be resolved: how often, and the last of them, each once, the latest
// at the end. A server's are the value of the key cluster/dead/SERVER, which lives as long as its session.
type DeadLetters struct {
	Times uint64       `json:"times"`
	Last  []DeadLetter `json:"last"`
}

// add counts a reference.
func (d *DeadLetters) add(ref Ref, reason string) {
	uri := ref.String()
	if len(uri) > maxRef { // no text could be read as it
		uri = uri[:maxRef] + "…"
	}
	letter := DeadLetter{URI: uri}
	if i := slices.IndexFunc(d.Last, func(l DeadLetter) bool { return l.URI == uri }); i >= 0 {
		letter = d.Last[i]
		d.Last = slices.Delete(d.Last, i, i+1)
	} else if len(d.Last) == maxDead {
		d.Last = slices.Delete(d.Last, 0, 1)
	}
	letter.Reason = reason
	letter.Times++
	d.Times++
	d.Last = append(d.Last, letter)
}

// Resolves shows a resolver's dead letters to others from now on, in the place of those of an earlier one: they are in
// the store some seconds after they have changed.
func (r *Reporter) Resolves(resolver interface{ DeadLetters() DeadLetters }) {
	r.loop.mu.Lock()
	r.loop.letters = resolver.DeadLetters
	r.loop.mu.Unlock()
}

// showLetters writes the server's dead letters, where they have changed. It is called every second.
func (s *serverLoop) showLetters() {
	s.mu.Lock()
	source := s.letters
	s.mu.Unlock()
	l := s.life0
	if s.ticks++; source == nil || l == nil || s.made != l || s.lettersIn == l && s.ticks < lettersTicks {
		return
	}
	now := source()
	if now.Times == 0 || s.lettersIn == l && now.Times == s.lettersTimes {
		return
	}
	now.Last = now.Last[max(0, len(now.Last)-maxShown):]
	op := metastore.Op{Path: dirDead + "/" + s.name, Do: metastore.Set}
	if s.lettersIn != l {
		op.Do, op.Session = metastore.Create, l.session
	}
	var err error
	if op.Value, err = s.m.store.Encode(now); err == nil {
		err = s.m.guarded(l, []metastore.Op{op})
	}
	var conflict *metastore.ConflictError
	switch {
	case err == nil:
		s.lettersIn, s.lettersTimes, s.ticks = l, now.Times, 0
	case errors.As(err, &conflict): // it was made before, by a commit whose answer was lost
		s.lettersIn, s.lettersTimes = l, 0
	case !errors.Is(err, errLifeOver):
		s.m.options.Report(fmt.Errorf("cluster: the dead letters of server %s could not be written, trying again: %w",
			s.name, err))
	}
}

// ReadDeadLetters returns the dead letters of all servers that have some, by server, and what is wrong with those that
// can't be read.
func ReadDeadLetters(ctx context.Context, store *metastore.Store) (all map[string]DeadLetters,
	malformed map[string]error, err error) {
	values, err := store.Walk(ctx, dirDead)
	if err != nil {
		return nil, nil, fmt.Errorf("cluster: %w", err)
	}
	all, malformed = map[string]DeadLetters{}, map[string]error{}
	for _, v := range values {
		name, below := strings.CutPrefix(v.Key(), dirDead+"/")
		if !below || !v.HasValue() {
			continue
		}
		var letters DeadLetters
		if err := v.Decode(&letters); err != nil {
			malformed[name] = err
		} else {
			all[name] = letters
		}
	}
	return all, malformed, nil
}
