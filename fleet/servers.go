// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"maps"
	"slices"

	"github.com/disco-sim/disco/cluster"
)

// PutMembers tells who is there, and which members and servers are drained, by name.
func (s *State) PutMembers(members []cluster.Member, drained []string) {
	there := make(map[string]bool, len(members))
	for i := range members {
		there[members[i].Name] = true
		s.putMember(&members[i])
	}
	for name, m := range s.machines {
		if !there[name] && m.Status != cluster.Down {
			s.putMember(&cluster.Member{Name: name, Status: cluster.Down})
		}
	}
	drained = slices.Sorted(slices.Values(drained))
	for _, names := range [2][]string{drained, s.drained} {
		for _, name := range names {
			if m := s.machines[name]; m != nil && !(contains(drained, name) && contains(s.drained, name)) {
				m.changes++
				s.alter(m)
			}
		}
	}
	s.drained = drained
	s.placeable, s.unjudged = true, true
}

// losesAll notes that a machine leaves in the attempts that have servers there: it may be back before somebody looks
// at them.
func (m *machine) losesAll() {
	for _, sv := range m.servers {
		p := sv.promised
		if p == nil {
			continue
		}
		if p.left.attempt != p.Attempt {
			p.left.attempt, p.left.machines = p.Attempt, nil
		}
		if !slices.Contains(p.left.machines, m.Name) {
			p.left.machines = append(p.left.machines, m.Name)
		}
	}
}

// putMember tells of one member.
func (s *State) putMember(now *cluster.Member) {
	m := s.machine(now.Name)
	was := &m.Member
	if was.Status == now.Status && was.Version == now.Version && was.Digest == now.Digest &&
		was.Address == now.Address && slices.Equal(was.Roles, now.Roles) && maps.Equal(was.Labels, now.Labels) {
		return // the rest is nothing that is decided by
	}
	m.left = now.Status == cluster.Leaving || now.Status == cluster.Down && m.left
	if m.left {
		m.losesAll()
	}
	m.Member, m.joins = *now, ""
	if m.together() {
		m.joins = m.build()
	}
	m.changes++
	s.alter(m)
	s.doubt(m)
}

func contains(sorted []string, name string) bool {
	_, found := slices.BinarySearch(sorted, name)
	return found
}

func (s *State) machine(name string) *machine {
	m := s.machines[name]
	if m == nil {
		m = &machine{Member: cluster.Member{Name: name, Status: cluster.Down}, number: len(s.machines), changes: 1}
		s.machines[name] = m
		s.byName = set(s.byName, m, true, byName)
		s.alter(m)
		s.doubt(m)
	}
	return m
}

// PutServers tells of all servers that are there.
func (s *State) PutServers(all []cluster.Server) {
	there := map[string]bool{}
	for i := range all {
		there[all[i].Name] = true
		s.PutServer(all[i])
	}
	var gone []string
	for name, sv := range s.servers {
		if sv.there && !there[name] {
			gone = append(gone, name)
		}
	}
	slices.Sort(gone)
	for _, name := range gone {
		s.DropServer(name)
	}
}

// PutServer tells how a server is now.
func (s *State) PutServer(now cluster.Server) {
	sv := s.server(now.Name)
	if sv.there && sv.Writing == now.Writing && sv.Incarnation == now.Incarnation && sv.State == now.State {
		return
	}
	sv.Server, sv.there = now, true
	if m := s.machine(now.Info.Member); sv.machine != m {
		s.detach(sv)
		s.attach(sv, m)
	}
	s.changed(sv)
}

// DropServer tells that a server isn't there any more.
func (s *State) DropServer(name string) {
	if sv := s.servers[name]; sv != nil && sv.there {
		sv.there = false
		s.changed(sv)
		if sv.promised == nil {
			s.forget(sv)
		}
	}
}

// forget removes a server that isn't there and that no piece has.
func (s *State) forget(sv *server) {
	s.detach(sv)
	delete(s.servers, sv.Name)
}

// attach makes a server one of a machine's.
func (s *State) attach(sv *server, m *machine) {
	at, _ := slices.BinarySearchFunc(m.servers, sv.Name, func(x *server, name string) int {
		return cmp.Compare(x.Name, name)
	})
	m.servers, sv.machine = slices.Insert(m.servers, at, sv), m
	s.present++
	s.alter(m)
}

// detach takes a server from its machine, if it has one.
func (s *State) detach(sv *server) {
	m := sv.machine
	if m == nil {
		return
	}
	s.unfree(sv)
	if sv.here {
		sv.here = false
		m.here--
	}
	m.servers, sv.machine = slices.DeleteFunc(m.servers, func(x *server) bool { return x == sv }), nil
	s.present--
	s.alter(m)
}

func (s *State) server(name string) *server {
	sv := s.servers[name]
	if sv == nil {
		sv = &server{Server: cluster.Server{Name: name}}
		s.servers[name] = sv
	}
	return sv
}

// changed looks at who cares for a server.
func (s *State) changed(sv *server) {
	s.refree(sv)
	if sv.promised != nil {
		s.mark(sv.promised)
	}
	if sv.there && sv.hosts() && !sv.dirty {
		sv.dirty = true
		s.strays = append(s.strays, sv)
	}
}

// hosts tells whether a server has an assignment now; one that is Available may still show what it had.
func (sv *server) hosts() bool {
	return sv.State >= cluster.Reserved && sv.State <= cluster.Terminated && sv.Info.Assignment != nil
}

// refree counts a server as free and as one that can be used, or not.
func (s *State) refree(sv *server) {
	s.alter(sv.machine)
	here := sv.there && sv.State != cluster.Broken && sv.State != cluster.Exited
	sv.machine.here += b2i(here) - b2i(sv.here)
	sv.here = here
	free := sv.there && sv.State == cluster.Available && sv.promised == nil
	if free == sv.free {
		return
	}
	if !free {
		s.unfree(sv)
		return
	}
	sv.free = true
	sv.machine.free++
	s.free++
	s.placeable = true
	if sv.machine.free == 1 {
		s.open++
	}
}

// unfree counts a server as one that isn't free.
func (s *State) unfree(sv *server) {
	if !sv.free {
		return
	}
	sv.free = false
	s.free--
	s.alter(sv.machine)
	if sv.machine.free--; sv.machine.free == 0 {
		s.open--
	}
}
