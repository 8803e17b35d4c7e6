// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"
	"strings"
)

// State is the state of a server. docs/cluster.md has the table of transitions.
type State uint8

// The states of a server.
const (
	Created      State = iota + 1 // registered, not yet able to take requests
	Available                     // free
	Reserved                      // promised to a partition, nothing loaded yet
	Initializing                  // loads its partition
	Ready                         // loaded
	Active                        // simulates
	Paused                        // stands still; messages are taken in
	Terminated                    // gives its partition up
	Exited                        // has ended
	Broken                        // can't be used; Status.Reason says why
)

var stateNames = [...]string{Created: "CREATED", Available: "AVAILABLE", Reserved: "RESERVED",
	Initializing: "INITIALIZING", Ready: "READY", Active: "ACTIVE", Paused: "PAUSED", Terminated: "TERMINATED",
	Exited: "EXITED", Broken: "BROKEN"}

// String is the state's name in capital letters.
func (s State) String() string {
	if s == 0 || int(s) >= len(stateNames) {
		return fmt.Sprintf("State(%d)", uint8(s))
	}
	return stateNames[s]
}

// ParseState is the state of a name. The error lists all names.
func ParseState(name string) (State, error) {
	if i := slices.Index(stateNames[:], name); i > 0 {
		return State(i), nil
	}
	return 0, fmt.Errorf("state %q: want one of %s", name, strings.Join(stateNames[1:], ", "))
}

// MarshalText is the name, for JSON.
func (s State) MarshalText() ([]byte, error) {
	if s == 0 || int(s) >= len(stateNames) {
		return nil, fmt.Errorf("%v is no state of a server", s)
	}
	return []byte(s.String()), nil
}

// UnmarshalText is ParseState.
func (s *State) UnmarshalText(text []byte) (err error) {
	*s, err = ParseState(string(text))
	return err
}

// hosts tells whether a server in this state has an assignment.
func (s State) hosts() bool { return s >= Reserved && s <= Terminated }

// Task is what a server's owner has to do for a request.
type Task uint8

// The tasks.
const (
	Nothing    Task = iota
	Initialize      // load the partition
	Activate        // start or go on simulating
	Pause           // stand still
	Terminate       // give the partition up
	Exit            // end the slot, giving up what it has
)

// transition is one row of the table.
type transition struct {
	from    []State
	desired State
	during  State // while the task lasts; 0: as it was
	to      State
	task    Task
}

var transitions = []transition{
	{[]State{Available}, Reserved, 0, Reserved, Nothing},
	{[]State{Reserved}, Ready, Initializing, Ready, Initialize},
	{[]State{Ready, Paused}, Active, 0, Active, Activate},
	{[]State{Active}, Paused, 0, Paused, Pause},
	{[]State{Reserved, Initializing, Ready, Active, Paused}, Terminated, Terminated, Available, Terminate},
	{[]State{Created, Available, Reserved, Initializing, Ready, Active, Paused, Terminated, Broken}, Exited, 0,
		Exited, Exit},
}

// find is the row for a request, or nil.
func find(from, desired State) *transition {
	for i, t := range transitions {
		if t.desired == desired && slices.Contains(t.from, from) {
			return &transitions[i]
		}
	}
	return nil
}

// allowed names what may be asked of a server in a state.
func allowed(from State) string {
	var names []string
	for _, t := range transitions {
		if slices.Contains(t.from, from) {
			names = append(names, t.desired.String())
		}
	}
	if names == nil {
		return "nothing"
	}
	return strings.Join(names, ", ")
}
