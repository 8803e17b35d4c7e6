// SPDX-License-Identifier: Apache-2.0

package nodediff

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/state"
)

// What docs/format/checkpoint.md says of chunks of nodes.
const (
	savedVersion    = 1
	partVersion     = 2 // of what is pending, in several parts
	floorBytes      = 12
	eventBytesLeast = 12         // a wakeup
	wakeup          = 0xFFFFFFFF // in place of a sender
)

// How much of a handler's state is shown around the first byte that differs.
const (
	shownBefore = 8
	shownBehind = 16
)

// State is what a checkpoint has of a simproc.
type State struct {
	Now     float64 // of its last call
	Number  uint64  // of the next event sent
	Hash    uint64  // of everything handled
	Floor   float64 // nothing is sent before it
	Floors  int     // links with a floor of their own
	Pending int     // events and wakeups
	Event   *Event  // the first one that differs; nil: none, or the other checkpoint has more
	Version uint32  // of its handler's state
	Size    int     // of that, in bytes
	From    int     // where Around begins in it
	Around  []byte  // what stands around the first byte that differs; empty: none does
}

// Event is an event that is pending, or a wakeup.
type Event struct {
	Epoch         float64
	Wakeup        bool
	Sender        uint32 // simproc: node × simprocs of a node + rank
	Number        uint64 // among the sender's
	Headers, Data []byte
}

func (e Event) equal(o Event) bool {
	return math.Float64bits(e.Epoch) == math.Float64bits(o.Epoch) && e.Wakeup == o.Wakeup &&
		e.Sender == o.Sender && e.Number == o.Number && bytes.Equal(e.Headers, o.Headers) && bytes.Equal(e.Data, o.Data)
}

// record is what a checkpoint has of a node.
type record struct {
	state   []byte
	pending [][]byte // parts, in their order behind sort
}

// sort puts the parts of what is pending in order.
func (r *record) sort() {
	slices.SortStableFunc(r.pending, func(a, b []byte) int { return cmp.Compare(partOf(a), partOf(b)) })
}

// has tells whether the part came.
func (r *record) has(part uint32) bool {
	return slices.ContainsFunc(r.pending, func(b []byte) bool { return partOf(b) == part })
}

// partOf is the number of a part of what is pending.
func partOf(encoded []byte) uint32 {
	if len(encoded) < 8 || binary.LittleEndian.Uint32(encoded) != partVersion {
		return 0
	}
	return binary.LittleEndian.Uint32(encoded[4:])
}

// read reads the chunks of one side; what records have is memory of these.
func (c *comparison) read(ctx context.Context, side int, chunks []groupChunk) (
	map[uint32]*record, error) {
	s := &c.sides[side]
	nodes, size := map[uint32]*record{}, int64(0)
	for _, kind := range []checkpoint.Kind{checkpoint.Nodes, checkpoint.Pending} { // a node's state comes first
		for i := range chunks {
			k := &chunks[i]
			if k.side != side || k.Kind != kind {
				continue
			}
			if size += k.Raw; size > c.bytesMax {
				return nil, fmt.Errorf("%v: found a group of nodes with more than %d bytes, want at most so many", s,
					c.bytesMax)
			}
			data, err := s.Repo.Read(ctx, s.Manifest, k.Chunk, nil)
			if err != nil {
				return nil, err
			}
			if err := addRecords(nodes, k, data); err != nil {
				return nil, &checkpoint.DamagedError{Where: s.Repo.String(), Chunk: &k.Chunk, Err: err,
					Name: "packs/" + k.Pack.Digest.String() + ".pack"}
			}
		}
	}
	for _, r := range nodes {
		r.sort()
	}
	return nodes, nil
}

// addRecords files the records of a chunk.
func addRecords(nodes map[uint32]*record, c *groupChunk, data []byte) error {
	return checkpoint.EachNode(&c.Chunk, data, func(node int, own []byte) error {
		n := uint32(node)
		r := nodes[n]
		switch {
		case c.Kind == checkpoint.Nodes && r == nil:
			nodes[n] = &record{state: own}
		case c.Kind == checkpoint.Pending && r != nil && !r.has(partOf(own)):
			r.pending = append(r.pending, own)
		case r == nil:
			return fmt.Errorf("found what is pending for node %d, of which there is no state", n)
		default:
			return fmt.Errorf("found node %d, which another chunk has, too", n)
		}
		return nil
	})
}

// part is what a record has of a simproc.
type part struct {
	State
	own     []byte // but the handler's
	floors  []floor
	version uint32
	handler []byte // without its version
	pending []Event
}

// floor is the epoch before which nothing is sent on a link.
type floor struct {
	link  uint32 // its place among the simproc's
	epoch uint64 // bits
}

// parts decodes a record of a node with so many simprocs.
func (r *record) parts(layers int) ([]part, error) {
	parts := make([]part, layers)
	rest := r.state
	for rank := range parts {
		p := &parts[rank]
		handler, err := []byte(nil), error(nil)
		if p.own, rest, err = takeBlock(rest); err == nil {
			err = state.Decode(p.own, savedVersion, false, p.fields)
		}
		if err == nil {
			handler, rest, err = takeBlock(rest)
		}
		if err == nil && len(handler) < 4 {
			err = fmt.Errorf("found %d bytes of its handler, want at least 4 for their version", len(handler))
		}
		if err != nil {
			return nil, fmt.Errorf("simproc of rank %d: %w", rank, err)
		}
		p.version, p.handler = binary.LittleEndian.Uint32(handler), handler[4:]
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("found %d bytes behind its state, want none", len(rest))
	}
	for _, encoded := range r.pending {
		err := state.Decode(encoded, partVersion, false, func(c *state.Codec) {
			if c.Version() == partVersion {
				var part, last uint32
				c.Uint32(&part)
				c.Uint32(&last)
			}
			for rank := range parts {
				var some []Event
				state.List(c, &some, eventBytesLeast, func(e *Event) { e.fields(c) })
				parts[rank].pending = append(parts[rank].pending, some...)
			}
		})
		if err != nil {
			return nil, fmt.Errorf("what is pending: %w", err)
		}
	}
	return parts, nil
}

// takeBlock is a size and so many bytes, and what stands behind them.
func takeBlock(src []byte) (block, rest []byte, err error) {
	if len(src) < 4 {
		return nil, nil, errors.New("found the end of its node's state, want the size of a block")
	}
	size, rest := binary.LittleEndian.Uint32(src), src[4:]
	if uint64(size) > uint64(len(rest)) {
		return nil, nil, fmt.Errorf("found a block of %d bytes, want at most %d: so many are left", size, len(rest))
	}
	return rest[:size:size], rest[size:], nil
}

// fields reads what a simproc has beside its handler.
func (p *part) fields(c *state.Codec) {
	c.Float(&p.Now)
	c.Uint64(&p.Number)
	c.Uint64(&p.Hash)
	c.Float(&p.Floor)
	state.List(c, &p.floors, floorBytes, func(f *floor) {
		c.Uint32(&f.link)
		c.Uint64(&f.epoch)
	})
	p.Floors = len(p.floors)
}

// fields reads an event or a wakeup.
func (e *Event) fields(c *state.Codec) {
	c.Float(&e.Epoch)
	c.Uint32(&e.Sender)
	if e.Wakeup = e.Sender == wakeup; e.Wakeup {
		return
	}
	c.Uint64(&e.Number)
	c.Bytes(&e.Headers)
	c.Bytes(&e.Data)
}

// show is what is shown of a part: its handler's bytes around one, and one of its events, where there are such.
func (p *part) show(handler, event int) State {
	s := p.State
	s.Pending, s.Version, s.Size = len(p.pending), p.version, len(p.handler)
	if event >= 0 && event < len(p.pending) {
		e := p.pending[event]
		s.Event = &e
	}
	if handler >= 0 {
		s.From = min(max(0, handler-shownBefore), len(p.handler))
		s.Around = bytes.Clone(p.handler[s.From:min(len(p.handler), handler+shownBehind)])
	}
	return s
}
