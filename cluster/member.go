// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"time"
)

// MemberStatus is how far a member has got. Down and Removed are seen by others only: they are never written.
type MemberStatus string

// The statuses of members.
const (
	Joining MemberStatus = "joining" // registered; its servers don't take requests yet
	Up      MemberStatus = "up"
	Leaving MemberStatus = "leaving" // drained or stopping: nothing new is placed on it
	Down    MemberStatus = "down"    // it is gone, and this view hasn't seen it leaving
	Removed MemberStatus = "removed" // it has left
)

// Member is a machine's agent, in the key cluster/members/NAME, which lives as long as its session.
type Member struct {
	Name        string            `json:"name"`
	Status      MemberStatus      `json:"status"`
	Incarnation string            `json:"incarnation"` // another one after each registration
	Since       time.Time         `json:"since"`       // in this status, by the member's clock
	Layout      int               `json:"format"`      // of the cluster's keys
	Version     string            `json:"version"`     // of the program
	Digest      string            `json:"digest,omitempty"`
	Address     string            `json:"address,omitempty"` // for other machines
	Host        string            `json:"host"`
	Pid         int               `json:"pid"`
	Origin      string            `json:"origin,omitempty"` // the boot, and the space of numbers, of pid
	Slots       int               `json:"slots"`
	Roles       []string          `json:"roles,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
}

// check says what is wrong with a value that somebody wrote under a name.
func (m *Member) check(name string) error {
	switch {
	case m.Name != name:
		return fmt.Errorf("the name %q isn't its key's", m.Name)
	case m.Incarnation == "":
		return fmt.Errorf("the incarnation is missing")
	case m.Status != Joining && m.Status != Up && m.Status != Leaving:
		return fmt.Errorf("status %q: want joining, up or leaving", m.Status)
	case m.Slots < 0:
		return fmt.Errorf("%d slots", m.Slots)
	}
	return nil
}

// EventKind is what happened to a member.
type EventKind string

// The kinds of events. A member's events come in the order in which its statuses follow each other: none is left out,
// also where the view saw only the last one.
const (
	MemberJoined  EventKind = "joined"
	MemberUp      EventKind = "up"
	MemberLeaving EventKind = "leaving"
	MemberLeft    EventKind = "left"
	MemberDown    EventKind = "down"
	Unreachable   EventKind = "unreachable" // an opinion of the transport (View.SetReachable)
	Reachable     EventKind = "reachable"
)

// MemberEvent is something that happened to a member.
type MemberEvent struct {
	Kind   EventKind
	Member Member // as it was last seen
}

// path gives the events that lead from one status to another, in one life of a member.
func path(from, to MemberStatus) []EventKind {
	all := []EventKind{MemberJoined, MemberUp, MemberLeaving, MemberLeft}
	step := map[MemberStatus]int{"": 0, Joining: 1, Up: 2, Leaving: 3, Removed: 4}
	switch {
	case to == Down && from == Leaving:
		return all[3:] // it was leaving: that it went is what was expected
	case to == Down:
		return []EventKind{MemberDown}
	case from == Leaving && to == Up: // resumed
		return []EventKind{MemberUp}
	case from == Joining && to == Leaving:
		return []EventKind{MemberLeaving}
	case step[to] > step[from]:
		return all[step[from]:step[to]]
	}
	return nil
}
