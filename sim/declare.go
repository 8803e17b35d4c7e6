// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"

	"github.com/disco-sim/disco/node"
)

// declarations is what all setup functions of a model have declared, collected in the launcher. There may be ten
// million links, so they lie in columns.
type declarations struct {
	m       *Model
	links   []node.Link
	keys    []uint32          // number of the type of each link
	types   map[uint32]string // names of types
	handled [][]uint32        // by simproc: numbers of the types that it handles; neighbours share theirs
	schema  *schema
}

func newDeclarations(m *Model) *declarations {
	return &declarations{m: m, types: map[uint32]string{}, schema: newSchema()}
}

// take collects what a node's setup function has declared. Nodes are taken in the order of their simprocs' ids.
func (d *declarations) take(n *Node) {
	keys := n.keys()
	if last := len(d.handled) - len(d.m.layers); last >= 0 && slices.Equal(d.handled[last], keys) {
		keys = d.handled[last]
	}
	d.handled = append(d.handled, keys)
	for _, l := range n.links {
		d.links, d.keys = append(d.links, l.link), append(d.keys, l.key)
		d.types[l.key] = l.typ
	}
	d.schema.take(n)
}

// check holds every link against what its target handles.
func (d *declarations) check() error {
	if d.schema.err != nil {
		return d.schema.err
	}
	layers := len(d.m.layers)
	for i, l := range d.links {
		if !slices.Contains(d.handled[l.To.Node*layers+l.To.Simproc], d.keys[i]) {
			typ, from, to := d.types[d.keys[i]], d.m.nodeName(l.From.Node), d.m.nodeName(l.To.Node)
			switch d.keys[i] {
			case typeOf[remoteAsk](d.m).key:
				return fmt.Errorf("sim: %s has a RemoteServer of %s, which offers none: call Server.Offer there", from,
					to)
			case typeOf[remoteReply](d.m).key:
				return fmt.Errorf("sim: %s offers a server to %s, which has no RemoteServer: declare one there, or "+
					"offer it to others", from, to)
			}
			return fmt.Errorf("sim: %s has a link for %s to %s, which has no function for that: give it one with "+
				"sim.On, func(c *sim.Context, e %s)", from, typ, to, typ)
		}
	}
	return nil
}

// graph is the structure.
func (d *declarations) graph() *node.Graph {
	m := d.m
	g := &node.Graph{Simprocs: m.layers, Links: d.links, NodeCount: m.count, NodeAt: func(i int) node.Node {
		return node.Node{Name: m.nodeName(i), Work: 1}
	}}
	for _, mesh := range m.meshes {
		g.Meshes = append(g.Meshes, node.Mesh{From: mesh.rank, To: mesh.rank, Lookahead: mesh.lookahead})
	}
	return g
}
