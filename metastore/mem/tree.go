// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/disco-sim/disco/metastore"
)

// node is one node of the tree: it has data or children, or is the root. All of it is guarded by the server's lock.
type node struct {
	path     string
	parent   *node
	children map[string]*node
	value    []byte
	version  metastore.Version
	owner    *session // of an ephemeral node
}

// names are those of a path, from the root.
func names(path string) []string {
	if path == "/" {
		return nil
	}
	return strings.Split(path[1:], "/")
}

// find returns the node at path, or nil.
func (s *Server) find(path string) *node {
	n := s.root
	for _, name := range names(path) {
		if n = n.children[name]; n == nil {
			return nil
		}
	}
	return n
}

// exists tells whether a node has data or children.
func (n *node) exists() bool { return n != nil && (n.value != nil || len(n.children) > 0) }

// public is what others see of a node.
func (n *node) public() metastore.Node {
	if n == nil || n.value == nil {
		return metastore.Node{}
	}
	public := metastore.Node{Value: bytes.Clone(n.value), Version: n.version, Ephemeral: n.owner != nil}
	if n.owner != nil {
		public.Owner = n.owner.number
	}
	return public
}

// childNames are sorted.
func (n *node) childNames() []string {
	if n == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(n.children))
}

// leaves appends all nodes from n downward that hold data.
func (n *node) leaves(to []metastore.Leaf) []metastore.Leaf {
	if n == nil {
		return to
	}
	if n.value != nil {
		to = append(to, metastore.Leaf{Path: n.path, Node: n.public()})
	}
	for _, child := range n.children {
		to = child.leaves(to)
	}
	return to
}

// put gives data to a node, which comes into being with its parents.
func (s *Server) put(path string, value []byte, owner *session) {
	n := s.root
	for _, name := range names(path) {
		child := n.children[name]
		if child == nil {
			child = &node{path: strings.TrimSuffix(n.path, "/") + "/" + name, parent: n, children: map[string]*node{}}
			n.children[name] = child
			s.changed(n.path, metastore.Names)
		}
		n = child
	}
	if n.value == nil {
		n.version.Created = s.revision
		if n.owner = owner; owner != nil {
			owner.nodes[n] = true
		}
	}
	n.value, n.version.Changed = bytes.Clone(value), s.revision
	s.changed(path, metastore.Data)
}

// remove takes a node's data away, and the nodes that are empty then.
func (s *Server) remove(n *node) {
	if n == nil {
		return
	}
	if n.value != nil {
		if n.owner != nil {
			delete(n.owner.nodes, n)
		}
		n.value, n.version, n.owner = nil, metastore.Version{}, nil
		s.changed(n.path, metastore.Data)
	}
	for ; n.parent != nil && !n.exists(); n = n.parent {
		delete(n.parent.children, n.path[strings.LastIndexByte(n.path, '/')+1:])
		s.changed(n.parent.path, metastore.Names)
	}
}

// removeTree removes a node and all below it.
func (s *Server) removeTree(n *node) {
	if n == nil {
		return
	}
	for _, child := range n.children {
		s.removeTree(child)
	}
	s.remove(n)
}

// holds evaluates a condition.
func (s *Server) holds(c metastore.Cond) bool {
	n := s.find(c.Path)
	data := n != nil && n.value != nil
	switch c.Is {
	case metastore.Exists:
		return data
	case metastore.Missing:
		return !data
	}
	return data && n.version == c.Version
}

// underEphemeral is the error about a node whose parent is ephemeral.
func (s *Server) underEphemeral(path string) error {
	n := s.root
	for _, name := range names(path) {
		if n.owner != nil {
			return fmt.Errorf("%s: %w: %s is one", path, metastore.ErrEphemeralParent, n.path)
		}
		if n = n.children[name]; n == nil {
			return nil
		}
	}
	return nil
}

// allowed checks one operation of a client against the tree and its session.
func (s *Server) allowed(op metastore.Op, now *session) error {
	if op.Do != metastore.Create && op.Do != metastore.Set {
		return nil
	}
	n := s.find(op.Path)
	if op.Do == metastore.Create && n != nil && n.value != nil {
		return &metastore.ConflictError{Cond: metastore.Cond{Path: op.Path, Is: metastore.Missing}}
	}
	if op.Session != nil {
		if mine, ok := op.Session.(*session); !ok || mine != now {
			return fmt.Errorf("%s: %w", op.Path, metastore.ErrSessionLost)
		}
		if n.exists() {
			return fmt.Errorf("%s: %w: it has some", op.Path, metastore.ErrEphemeralParent)
		}
	}
	return s.underEphemeral(op.Path)
}

// commit does all operations or none.
func (s *Server) commit(conds []metastore.Cond, ops []metastore.Op, now *session) error {
	for _, c := range conds {
		if !s.holds(c) {
			return &metastore.ConflictError{Cond: c}
		}
	}
	for _, op := range ops {
		if err := s.allowed(op, now); err != nil {
			return err
		}
	}
	s.revision++
	for _, op := range ops {
		switch op.Do {
		case metastore.Create, metastore.Set:
			owner, _ := op.Session.(*session)
			s.put(op.Path, op.Value, owner)
		case metastore.Delete:
			s.remove(s.find(op.Path))
		case metastore.DeleteTree:
			s.removeTree(s.find(op.Path))
		}
	}
	return nil
}
