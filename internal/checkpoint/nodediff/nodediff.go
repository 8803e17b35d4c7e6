// SPDX-License-Identifier: Apache-2.0

// Package nodediff compares what two checkpoints have of each node, and tells which nodes differ most.
//
// Guarantee: a node counts as equal where its state and what is pending for it have the same bytes in both. Whatever
// the chunks have, nothing is read beyond them, and an error names the node, the checkpoint, what was found and what is
// wanted. Memory is bounded by one group of nodes of both.
//
//	a, b := nodediff.Side{Repo: repo, Manifest: before}, nodediff.Side{Repo: repo, Manifest: after}
//	d, err := nodediff.Compare(ctx, a, b, 20)
//	for _, n := range d.Most { … }
package nodediff

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/disco-sim/disco/internal/checkpoint"
)

// groupBytesMax bounds the chunks of nodes that are compared at once, in one checkpoint.
const groupBytesMax = 4 << 30

// Side is one of the two checkpoints.
type Side struct {
	Repo     *checkpoint.Repo
	Manifest *checkpoint.Manifest
}

// String says which one it is.
func (s *Side) String() string { return fmt.Sprintf("%v, %v", s.Repo, s.Manifest.Point()) }

// layers is how many simprocs each node has.
func (s *Side) layers() (int, error) {
	run := s.Repo.Run()
	if run.Simprocs%run.Nodes != 0 {
		return 0, fmt.Errorf("%v: found %d simprocs of %d nodes, want as many of each", s, run.Simprocs, run.Nodes)
	}
	return int(run.Simprocs / run.Nodes), nil
}

// Difference is what Compare found.
type Difference struct {
	Nodes  int64  // that differ
	Most   []Node // of them, those that differ most; equal ones by index
	Bytes  int64  // that differ, of all nodes
	Shared int64  // nodes that weren't read, because both checkpoints have the same chunks of them
}

// Node is a node that differs.
type Node struct {
	Index    int64
	Bytes    int64     // that differ: at one place, or there in one only
	Simprocs []Simproc // that differ, by rank
}

// Simproc is what two checkpoints have of a simproc.
type Simproc struct {
	Rank    int
	States  [2]State
	Handler int  // the first byte of the handler's state that differs; -1: none
	Pending int  // the same of what is pending
	Floors  bool // the floors of links differ
}

// OtherGraphError says that two checkpoints are of runs whose nodes can't be compared.
type OtherGraphError struct{ A, B *checkpoint.Repo }

// Error says what they have.
func (e *OtherGraphError) Error() string {
	a, b := e.A.Run(), e.B.Run()
	return fmt.Sprintf("%v and %v: found graphs %.16v… (%d nodes, %d simprocs) and %.16v… (%d, %d), want runs with "+
		"the same nodes, simprocs, links and lookaheads", e.A, e.B, a.Graph, a.Nodes, a.Simprocs, b.Graph, b.Nodes,
		b.Simprocs)
}

// errEnd says that a checkpoint can't be compared.
var errEnd = errors.New("it is the end of a replication, which has no states: want a checkpoint")

// Compare compares two checkpoints of runs with the same graph, and keeps the most nodes that differ most. Damage is
// an error, as in Repo.Read.
func Compare(ctx context.Context, a, b Side, most int) (*Difference, error) {
	return compare(ctx, a, b, most, groupBytesMax)
}

// Of is what both checkpoints have of one node, also where that is the same: its simprocs, all of them, with the
// beginning of their handlers' states where these don't differ. Else as Compare.
func Of(ctx context.Context, a, b Side, n int64) (*Node, error) {
	d, err := (&comparison{sides: [2]Side{a, b}, most: 1, bytesMax: groupBytesMax, one: true, node: n}).compare(ctx)
	if err != nil {
		return nil, err
	}
	if len(d.Most) == 0 {
		return nil, fmt.Errorf("%v: found no state of node %d, want one of 0 to %d", &a, n, a.Repo.Run().Nodes-1)
	}
	return &d.Most[0], nil
}

// compare compares groups of at most so many bytes.
func compare(ctx context.Context, a, b Side, most int, bytesMax int64) (*Difference, error) {
	return (&comparison{sides: [2]Side{a, b}, most: most, bytesMax: bytesMax}).compare(ctx)
}

// compare is Compare.
func (c *comparison) compare(ctx context.Context) (*Difference, error) {
	c.found = &Difference{}
	a, b := &c.sides[0], &c.sides[1]
	runA, runB := a.Repo.Run(), b.Repo.Run()
	if runA.Nodes != runB.Nodes || runA.Simprocs != runB.Simprocs || runA.Graph != runB.Graph {
		return nil, &OtherGraphError{a.Repo, b.Repo}
	}
	var chunks []groupChunk
	for i := range c.sides {
		s := &c.sides[i]
		if s.Manifest.Finished {
			return nil, fmt.Errorf("%v: %w", s, errEnd)
		}
		var err error
		if c.layers, err = s.layers(); err != nil {
			return nil, err
		}
		if err := s.Repo.Chunks(ctx, s.Manifest, func(found checkpoint.Chunk) error {
			first := int64(found.First)
			if (found.Kind == checkpoint.Nodes || found.Kind == checkpoint.Pending) &&
				(!c.one || first <= c.node && c.node < first+int64(found.Nodes)) {
				chunks = append(chunks, groupChunk{found, i})
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(chunks, func(x, y groupChunk) int { return cmp.Compare(x.First, y.First) })
	for len(chunks) > 0 {
		n := overlapping(chunks)
		if err := c.compareGroup(ctx, chunks[:n]); err != nil {
			return nil, err
		}
		chunks = chunks[n:]
	}
	return c.found, nil
}

// groupChunk is a chunk of one of the sides.
type groupChunk struct {
	checkpoint.Chunk
	side int
}

// end is the node behind the last one of its group.
func (c *groupChunk) end() int64 { return int64(c.First) + int64(c.Nodes) }

// overlapping is how many chunks, from the first on, are of nodes that others of them are of, too.
func overlapping(chunks []groupChunk) int {
	end := chunks[0].end()
	for n := range chunks {
		if int64(chunks[n].First) >= end {
			return n
		}
		end = max(end, chunks[n].end())
	}
	return len(chunks)
}

// comparison is a call of Compare.
type comparison struct {
	sides    [2]Side
	layers   int
	most     int
	bytesMax int64 // of a group
	one      bool  // only node is of interest
	node     int64
	found    *Difference
}

// content is what tells the chunks of a group apart.
type content struct {
	kind         checkpoint.Kind
	first, nodes uint32
	digest       checkpoint.Digest
}

// compareGroup compares the nodes of a group of chunks of both sides, unless the chunks are the same.
func (c *comparison) compareGroup(ctx context.Context, chunks []groupChunk) error {
	var has [2]map[content]bool
	for i := range has {
		has[i] = map[content]bool{}
	}
	end := int64(0)
	for i := range chunks {
		k := &chunks[i]
		has[k.side][content{k.Kind, k.First, k.Nodes, k.Digest}] = true
		end = max(end, k.end())
	}
	if maps.Equal(has[0], has[1]) && !c.one {
		c.found.Shared += end - int64(chunks[0].First)
		return nil
	}
	var nodes [2]map[uint32]*record
	for i := range nodes {
		var err error
		if nodes[i], err = c.read(ctx, i, chunks); err != nil {
			return err
		}
	}
	for _, n := range slices.Sorted(maps.Keys(nodes[0])) {
		if nodes[1][n] == nil {
			return fmt.Errorf("%v: found no state of node %d, which %v has", &c.sides[1], n, &c.sides[0])
		}
		if err := c.compareNode(n, nodes[0][n], nodes[1][n]); err != nil {
			return err
		}
		delete(nodes[1], n)
	}
	for n := range nodes[1] {
		return fmt.Errorf("%v: found no state of node %d, which %v has", &c.sides[0], n, &c.sides[1])
	}
	return nil
}

// compareNode compares a node, and notes it where it differs.
func (c *comparison) compareNode(n uint32, a, b *record) error {
	different := differing(a.state, b.state)
	for i := range max(len(a.pending), len(b.pending)) {
		different += differing(at(a.pending, i), at(b.pending, i))
	}
	if c.one && int64(n) != c.node || !c.one && different == 0 {
		return nil
	}
	c.found.Nodes++
	c.found.Bytes += different
	place, _ := slices.BinarySearchFunc(c.found.Most, different, func(m Node, bytes int64) int {
		if m.Bytes >= bytes {
			return -1 // nodes come by rising index
		}
		return 1
	})
	if place >= c.most {
		return nil
	}
	node := Node{Index: int64(n), Bytes: different}
	var err error
	if node.Simprocs, err = c.simprocs(n, a, b); err != nil {
		return err
	}
	c.found.Most = slices.Insert(c.found.Most, place, node)
	c.found.Most = c.found.Most[:min(len(c.found.Most), c.most)]
	return nil
}

// simprocs decodes a node of both sides, and compares its simprocs.
func (c *comparison) simprocs(n uint32, a, b *record) (all []Simproc, err error) {
	var parts [2][]part
	for i, r := range []*record{a, b} {
		if parts[i], err = r.parts(c.layers); err != nil {
			return nil, fmt.Errorf("%v: node %d: %w", &c.sides[i], n, err)
		}
	}
	for rank := range c.layers {
		x, y := &parts[0][rank], &parts[1][rank]
		if bytes.Equal(x.own, y.own) && x.version == y.version && bytes.Equal(x.handler, y.handler) &&
			slices.EqualFunc(x.pending, y.pending, Event.equal) && !c.one {
			continue
		}
		s := Simproc{Rank: rank, Handler: firstDiffering(x.handler, y.handler),
			Pending: firstEvent(x.pending, y.pending), Floors: !slices.Equal(x.floors, y.floors)}
		shown := s.Handler
		if c.one {
			shown = max(shown, 0)
		}
		s.States = [2]State{x.show(shown, s.Pending), y.show(shown, s.Pending)}
		all = append(all, s)
	}
	return all, nil
}

// at is one of the parts; nil: there are fewer.
func at(parts [][]byte, i int) []byte {
	if i < len(parts) {
		return parts[i]
	}
	return nil
}

// differing is how many bytes differ: at one place, or there in one only.
func differing(a, b []byte) int64 {
	n := min(len(a), len(b))
	count := int64(len(a) + len(b) - 2*n)
	if bytes.Equal(a[:n], b[:n]) {
		return count
	}
	for i := range n {
		if a[i] != b[i] {
			count++
		}
	}
	return count
}

// firstDiffering is the first byte that differs, -1 where none does.
func firstDiffering(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	if len(a) == len(b) {
		return -1
	}
	return n
}

// firstEvent is the first event that differs, -1 where none does.
func firstEvent(a, b []Event) int {
	n := min(len(a), len(b))
	for i := range n {
		if !a[i].equal(b[i]) {
			return i
		}
	}
	if len(a) == len(b) {
		return -1
	}
	return n
}
