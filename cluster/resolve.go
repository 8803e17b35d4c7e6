// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"
	"sync"
)

// Target is where a reference leads now: another call may give another server.
type Target[L any] struct {
	Server string
	Place  Place
	Reach  Reach // from the resolver's own server
	Way    L     // the link to the server, if HasWay
	HasWay bool  // the same server has no link to itself
}

// Resolver finds out where references lead, by a view's address book. L is what the caller sends by. Its methods may
// be called by any goroutine.
type Resolver[L any] struct {
	view    *View
	cluster string
	self    string
	link    func(server string) (L, bool)
	mu      sync.Mutex
	dead    DeadLetters
}

// NewResolver makes a resolver for references to one cluster. self is the server that asks, or empty for a program that
// is none. link gives the link to a server where there is one; it is called by Resolve, and doesn't wait. nil has none.
func NewResolver[L any](view *View, cluster, self string, link func(server string) (L, bool)) *Resolver[L] {
	if link == nil {
		link = func(string) (none L, ok bool) { return none, false }
	}
	return &Resolver[L]{view: view, cluster: cluster, self: self, link: link}
}

// Resolve looks a reference up. What can't be resolved is counted and kept as a dead letter, and the error says why:
// it may be there later.
func (r *Resolver[L]) Resolve(ref Ref) (t Target[L], err error) {
	book := r.view.AddressBook()
	t.Place = Place{ref.Replication, ref.Node}
	switch {
	case ref.Cluster != r.cluster:
		return t, r.bury(ref, fmt.Sprintf("this is the cluster %q", r.cluster))
	case ref.Replication == "":
		reps := book.replications(ref.Node)
		if len(reps) > 1 {
			return t, r.bury(ref, fmt.Sprintf("the node is in %d replications (%.200q): say which by ?rep=",
				len(reps), reps))
		}
		if len(reps) == 1 {
			t.Place.Replication = reps[0]
		}
	}
	found := false
	if t.Server, found = book.Lookup(t.Place); !found {
		return t, r.bury(ref, missing(ref))
	}
	t.Reach = r.view.Reach(r.self, t.Server)
	if t.Reach != SameProcess {
		t.Way, t.HasWay = r.link(t.Server)
	}
	return t, nil
}

// missing says that no server hosts what a reference names.
func missing(ref Ref) string {
	if ref.Replication == "" {
		return fmt.Sprintf("no server hosts the node %.200q", ref.Node)
	}
	return fmt.Sprintf("no server hosts the node %.200q of the replication %.200q", ref.Node, ref.Replication)
}

// bury keeps a dead letter, and returns the error about it.
func (r *Resolver[L]) bury(ref Ref, reason string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dead.add(ref, reason)
	return fmt.Errorf("cluster: %v can't be resolved: %s", ref, reason)
}

// DeadLetters returns how often a reference couldn't be resolved, and the last of them, at most 100.
func (r *Resolver[L]) DeadLetters() DeadLetters {
	r.mu.Lock()
	defer r.mu.Unlock()
	return DeadLetters{r.dead.Times, slices.Clone(r.dead.Last)}
}
