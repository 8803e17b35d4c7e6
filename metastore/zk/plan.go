// SPDX-License-Identifier: Apache-2.0

package zk

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/disco-sim/disco/metastore"
)

// known is a node as a plan has read it, and as the plan's steps leave it.
type known struct {
	stat     stat
	exists   bool
	data     bool
	children int32
	changed  bool // by a step: the version isn't that of stat any more
}

// plan turns a commit into a multi.
type plan struct {
	b       *Backend
	nodes   map[string]*known
	making  map[string]bool // missing nodes that steps create: that fails if they have come meanwhile
	checked map[string]bool
	idle    []string // deletes of what isn't there
	losers  []string // nodes that lost a child or their data
	shrunk  []string // of these, those that others may have emptied at the same time
	guards  []step   // what was read still holds
	steps   []step
}

func newPlan(b *Backend) *plan {
	return &plan{b: b, nodes: map[string]*known{}, making: map[string]bool{}, checked: map[string]bool{}}
}

// plan reads what a commit depends on and makes its steps. An error with a plan is the commit's own: a conflict, say.
func (b *Backend) plan(ctx context.Context, c *conn, conds []metastore.Cond, ops []metastore.Op,
	strict bool) (*plan, error) {
	p := newPlan(b)
	var paths []string
	for _, c := range conds {
		paths = append(paths, c.Path)
	}
	for _, op := range ops {
		paths = append(paths, op.Path)
	}
	if err := p.look(ctx, c, strict, paths); err != nil {
		return nil, err
	}
	trees := map[string][]string{}
	for _, op := range ops {
		if op.Do != metastore.DeleteTree {
			continue
		}
		err := b.walk(ctx, c, opExists, op.Path, func(path string, _ metastore.Node) {
			trees[op.Path] = append(trees[op.Path], path)
		})
		if err != nil {
			return nil, err
		}
	}
	for _, c := range conds {
		if !p.holds(c) {
			return p, &metastore.ConflictError{Cond: c}
		}
	}
	for _, op := range ops {
		if err := p.do(op, trees[op.Path]); err != nil {
			return p, err
		}
	}
	p.prune()
	p.guard(conds)
	return p, nil
}

// look reads nodes and all above them.
func (p *plan) look(ctx context.Context, c *conn, strict bool, paths []string) error {
	var all []string
	for _, path := range paths {
		for ; p.nodes[path] == nil; path = parent(path) {
			p.nodes[path] = &known{}
			all = append(all, path)
			if path == "/" {
				break
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return p.read(ctx, c, strict, all)
}

// read reads nodes that the plan has.
func (p *plan) read(ctx context.Context, c *conn, strict bool, all []string) error {
	var calls []*call
	for _, path := range all {
		calls = append(calls, read(opExists, path, nil))
	}
	if err := p.b.fresh(ctx, c, !strict, calls...); err != nil {
		return err
	}
	for i, path := range all {
		call := calls[i]
		switch call.code {
		case codeOK:
			s := call.stat
			*p.nodes[path] = known{stat: s, exists: true, data: s.size > 0, children: s.children}
		case codeNoNode:
		default:
			return refused(path, call.code)
		}
	}
	return nil
}

// holds tells whether a condition holds in what was read.
func (p *plan) holds(c metastore.Cond) bool {
	n := p.nodes[c.Path]
	switch c.Is {
	case metastore.Exists:
		return n.data
	case metastore.Missing:
		return !n.data
	}
	return n.data && n.stat.public() == c.Version
}

// do plans one operation. The tree is what a DeleteTree deletes, parents first.
func (p *plan) do(op metastore.Op, tree []string) error {
	path := op.Path
	n := p.nodes[path]
	switch op.Do {
	case metastore.Create, metastore.Set:
		return p.put(path, n, op)
	case metastore.Delete:
		switch {
		case !n.data:
			p.idle = append(p.idle, path)
		case n.children > 0 || !mayGo(path):
			p.steps = append(p.steps, step{op: opSetData, path: path, version: anyVersion})
			n.data, n.changed = false, true
			p.losers = append(p.losers, path)
		default:
			p.delete(path, n, anyVersion)
		}
	case metastore.DeleteTree:
		if len(tree) == 0 {
			p.idle = append(p.idle, path)
		}
		for _, below := range slices.Backward(tree) {
			if mayGo(below) {
				p.steps = append(p.steps, step{op: opDelete, path: below, version: anyVersion})
			} else {
				p.steps = append(p.steps, step{op: opSetData, path: below, version: anyVersion})
			}
		}
		if len(tree) > 0 && mayGo(path) {
			p.gone(path, n)
		}
	}
	return nil
}

// put plans a Create or Set.
func (p *plan) put(path string, n *known, op metastore.Op) error {
	if n.data && op.Do == metastore.Create {
		return &metastore.ConflictError{Cond: metastore.Cond{Path: op.Path, Is: metastore.Missing}}
	}
	create := step{op: opCreate, path: path, value: op.Value}
	if op.Session != nil {
		create.flags = flagEphemeral
		if n.children > 0 {
			return fmt.Errorf("%s: %w: it has some", op.Path, metastore.ErrEphemeralParent)
		}
	}
	switch {
	case !n.exists:
		if err := p.above(path); err != nil {
			return fmt.Errorf("%s: %w", op.Path, err)
		}
		p.making[path] = true
		p.nodes[parent(path)].children++
		p.steps = append(p.steps, create)
	case op.Session != nil: // an empty node that an ephemeral child has left
		p.steps = append(p.steps, step{op: opDelete, path: path, version: n.stat.version}, create)
	case n.data:
		p.steps = append(p.steps, step{op: opSetData, path: path, value: op.Value, version: anyVersion})
	default:
		version := n.stat.version // it still has no data
		if n.changed {
			version = anyVersion
		}
		p.steps = append(p.steps, step{op: opSetData, path: path, value: op.Value, version: version})
	}
	n.exists, n.data, n.changed = true, true, true
	return nil
}

// above plans the parents that are missing above a path.
func (p *plan) above(path string) error {
	if path == "/" {
		return nil
	}
	up := parent(path)
	n := p.nodes[up]
	if n.exists && n.stat.owner != 0 {
		return fmt.Errorf("%w: %s is one", metastore.ErrEphemeralParent, up)
	} else if n.exists {
		return nil
	}
	if err := p.above(up); err != nil {
		return err
	}
	p.steps = append(p.steps, step{op: opCreate, path: up})
	p.making[up] = true
	n.exists, n.changed = true, true
	p.nodes[parent(up)].children++
	return nil
}

// delete plans the end of a node without children.
func (p *plan) delete(path string, n *known, version int32) {
	p.steps = append(p.steps, step{op: opDelete, path: path, version: version})
	p.gone(path, n)
}

// gone notes the end of a node.
func (p *plan) gone(path string, n *known) {
	n.exists, n.data, n.children = false, false, 0
	p.nodes[parent(path)].children--
	p.losers = append(p.losers, parent(path))
}

// prune plans the end of nodes that have neither data nor children any more.
func (p *plan) prune() {
	for len(p.losers) > 0 {
		slices.SortFunc(p.losers, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
		path := p.losers[len(p.losers)-1]
		p.losers = slices.DeleteFunc(p.losers, func(other string) bool { return other == path })
		n := p.nodes[path]
		switch {
		case !n.exists || n.data || !mayGo(path):
		case n.children > 0:
			p.shrunk = append(p.shrunk, path)
		case n.changed:
			p.delete(path, n, anyVersion)
		default:
			p.delete(path, n, n.stat.version) // it still has no data
		}
	}
}

// guard plans what makes the multi fail if conditions don't hold any more, or if there is something to delete now.
func (p *plan) guard(conds []metastore.Cond) {
	for _, c := range conds {
		p.same(c.Path)
	}
	if len(p.guards)+len(p.steps) > 0 {
		for _, path := range p.idle {
			p.same(path)
		}
	}
}

// same guards that a node is as it was read.
func (p *plan) same(path string) {
	was := p.nodes[path]
	if was.stat.czxid != 0 || path == "/" {
		if !p.checked[path] {
			p.checked[path] = true
			p.guards = append(p.guards, step{op: opCheck, path: path, version: was.stat.version})
		}
		return
	}
	for up := parent(path); p.nodes[up].stat.czxid == 0 && up != "/"; up = parent(up) {
		path = up
	}
	if up := parent(path); p.nodes[up].stat.owner != 0 { // what is below an ephemeral node is missing
		p.same(up)
	} else if !p.making[path] && !p.checked[path] {
		p.checked[path] = true
		p.guards = append(p.guards, step{op: opCreate, path: path}, step{op: opDelete, path: path, version: anyVersion})
	}
}

// mayGo tells whether a node may be deleted: the root stays.
func mayGo(path string) bool { return path != "/" }

// parent is the path above one.
func parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}
