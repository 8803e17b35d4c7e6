// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Status is what a server says of itself, in the key cluster/servers/NAME, which lives as long as its session.
type Status struct {
	State       State     `json:"state"`
	Incarnation string    `json:"incarnation"`
	Since       time.Time `json:"since"`            // in this state, by the server's clock
	Reason      string    `json:"reason,omitempty"` // Broken
	Ack         *Ack      `json:"ack,omitempty"`    // the last answer to a request
	Last        *Outcome  `json:"last,omitempty"`   // how the partition before ended
	Writing     uint64    `json:"writing"`          // the same number as the info that belongs to it
}

// Info is what a server is and hosts, in the key cluster/info/NAME. It is one value, so that nobody reads half of it.
type Info struct {
	Member string `json:"member"`
	Slot   int    `json:"slot"`
	// Assignment is what it hosts; while it is Available, what it still has loaded.
	Assignment  *Assignment `json:"assignment,omitempty"`
	Nodes       []string    `json:"nodes,omitempty"`       // of the simulation, that it hosts
	Application string      `json:"application,omitempty"` // the model's program
	Numa        int         `json:"numa"`                  // the processor group it is bound to; -1: none
	Writing     uint64      `json:"writing"`               // as in Status
}

// Server is a server as the view has it.
type Server struct {
	Name   string `json:"name"`
	Status        // in JSON beside the name
	Info   Info   `json:"info"`
}

// check says what is wrong with a value that somebody wrote.
func (s *Status) check() error {
	if s.State == 0 || s.Incarnation == "" {
		return fmt.Errorf("state and incarnation are needed")
	}
	return nil
}

func (i *Info) check() error {
	switch {
	case i.Member == "" || i.Slot < 0:
		return fmt.Errorf("member, and a slot of at least 0, are needed")
	case i.Assignment == nil && len(i.Nodes) > 0:
		return fmt.Errorf("it has nodes, and no assignment that they belong to")
	case i.Assignment != nil:
		return i.Assignment.check()
	}
	return nil
}

// available sorts out who may be given a partition of an experiment: see View.Available.
func available(servers map[string]Server, experiment string) (names []string, parts []int) {
	var preferred, others []Server
	for _, s := range servers {
		switch {
		case s.State != Available:
		case s.Info.Assignment != nil && s.Info.Assignment.Experiment == experiment:
			preferred = append(preferred, s)
		default:
			others = append(others, s)
		}
	}
	slices.SortFunc(preferred, func(a, b Server) int {
		return cmp.Or(cmp.Compare(a.Info.Assignment.Partition, b.Info.Assignment.Partition), cmp.Compare(a.Name,
			b.Name))
	})
	for i, s := range preferred {
		if p := s.Info.Assignment.Partition; i == 0 || p != preferred[i-1].Info.Assignment.Partition {
			names, parts = append(names, s.Name), append(parts, p)
		} else {
			others = append(others, s)
		}
	}
	slices.SortFunc(others, func(a, b Server) int { return cmp.Compare(a.Name, b.Name) })
	for _, s := range others {
		names = append(names, s.Name)
	}
	return names, parts
}

// Place is where a node of a simulation is hosted, in one replication.
type Place struct{ Replication, Node string }

// AddressBook tells which server hosts a place. It is never altered once it is made.
type AddressBook struct {
	servers map[Place]string
	byNode  map[string][]string // the replications that it is in
}

// Lookup returns the server of a place.
func (b *AddressBook) Lookup(p Place) (server string, ok bool) {
	server, ok = b.servers[p]
	return server, ok
}

// replications are those that a node is in, sorted.
func (b *AddressBook) replications(node string) []string { return b.byNode[node] }

// Len is the number of places.
func (b *AddressBook) Len() int { return len(b.servers) }

// All gives all places, by replication and node.
func (b *AddressBook) All() []Place {
	return slices.SortedFunc(maps.Keys(b.servers), func(a, c Place) int {
		return cmp.Or(cmp.Compare(a.Replication, c.Replication), cmp.Compare(a.Node, c.Node))
	})
}

// newAddressBook makes the book of some servers. Where two name the same place, which only a fault can bring about,
// the first by name has it, so that all readers agree.
func newAddressBook(servers map[string]Server) *AddressBook {
	b := &AddressBook{servers: map[Place]string{}, byNode: map[string][]string{}}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(servers))) {
		if s := servers[name]; s.State.hosts() && s.Info.Assignment != nil {
			for _, node := range s.Info.Nodes {
				place := Place{s.Info.Assignment.Replication, node}
				if _, twice := b.servers[place]; !twice {
					b.byNode[node] = append(b.byNode[node], place.Replication)
				}
				b.servers[place] = name
			}
		}
	}
	for _, replications := range b.byNode {
		slices.Sort(replications)
	}
	return b
}

// Reach is how a server is reached from another.
type Reach uint8

// The ways, the nearest first.
const (
	SameProcess  Reach = iota // it is the same server
	SharedMemory              // on the same host
	Remote                    // over a network
)

// String is the way in words.
func (c Reach) String() string {
	return [...]string{"the same process", "shared memory", "remote"}[min(c, Remote)]
}
