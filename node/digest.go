// SPDX-License-Identifier: Apache-2.0

package node

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"math"
)

const (
	digestVersion = 1
	digestPart    = 64 << 10 // bytes that are hashed at once
)

// Digest is a SHA-256 of what a saved state depends on: names, ranks, which nodes share state, links, meshes and
// lookaheads, but not work and rates (docs/format/checkpoint.md). It takes a pass over all links, 0.3 s for 10^7 of
// them on a busy machine, and 64 KiB of memory. It is not for an Outline, which has no links.
func (s *Structure) Digest() [sha256.Size]byte {
	d := digester{sum: sha256.New(), part: make([]byte, 0, digestPart)}
	d.uint32(digestVersion)
	d.uint32(uint32(len(s.layers)))
	d.uint32(uint32(s.nodes))
	for _, name := range s.layers {
		d.uint32(uint32(len(name)))
		d.bytes([]byte(name))
	}
	for n := range s.nodes {
		name := s.nodeName(n)
		d.uint32(uint32(len(name)))
		d.bytes(name)
		d.bytes(s.shared[n : n+1])
	}
	for from := range SimprocID(s.NumSimprocs()) {
		for l, end := s.LinksOf(from); l < end; l++ {
			d.link(uint32(from), s.linkTo[l], s.lookahead[l])
		}
	}
	for _, m := range s.meshes {
		d.link(uint32(m.From), uint32(m.To), m.Lookahead)
	}
	d.flush()
	return [sha256.Size]byte(d.sum.Sum(nil))
}

// digester hashes what is written to it, in parts.
type digester struct {
	sum  hash.Hash
	part []byte
}

func (d *digester) flush() {
	d.sum.Write(d.part)
	d.part = d.part[:0]
}

// room has room for so many bytes, at most digestPart.
func (d *digester) room(size int) {
	if len(d.part)+size > cap(d.part) {
		d.flush()
	}
}

func (d *digester) uint32(x uint32) {
	d.room(4)
	d.part = binary.LittleEndian.AppendUint32(d.part, x)
}

func (d *digester) bytes(b []byte) {
	for len(b) > 0 {
		d.room(1)
		n := min(len(b), cap(d.part)-len(d.part))
		d.part, b = append(d.part, b[:n]...), b[n:]
	}
}

func (d *digester) link(from, to uint32, lookahead float64) {
	d.room(16)
	d.part = binary.LittleEndian.AppendUint32(d.part, from)
	d.part = binary.LittleEndian.AppendUint32(d.part, to)
	d.part = binary.LittleEndian.AppendUint64(d.part, math.Float64bits(lookahead+0)) // -0 is 0
}
