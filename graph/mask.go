// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"
)

// Mask is a set of vertices of a graph, one bit for each. One goroutine may change it while nobody else uses it.
type Mask struct {
	bits []uint64
	n    int
}

// NewMask is an empty set of vertices of a graph with n of them.
func NewMask(n int) *Mask { return &Mask{make([]uint64, (n+63)/64), n} }

// MaskOf has these vertices of a graph with n of them; an error names one that there isn't.
func MaskOf(n int, vertices ...uint32) (*Mask, error) {
	m := NewMask(n)
	for _, v := range vertices {
		if uint64(v) >= uint64(n) {
			return nil, fmt.Errorf("graph: found vertex %d in a mask, want one below %d", v, n)
		}
		m.Set(int(v))
	}
	return m, nil
}

// Len is how many vertices the graph has.
func (m *Mask) Len() int { return m.n }

// Has reports whether v is in m.
func (m *Mask) Has(v int) bool { return m.has(uint32(v)) }

func (m *Mask) has(v uint32) bool { return m.bits[v/64]>>(v%64)&1 != 0 }

// Set puts v into m. It panics where there is no such vertex.
func (m *Mask) Set(v int) {
	if uint(v) >= uint(m.n) {
		panic(fmt.Sprintf("graph: vertex %d of a mask for %d", v, m.n))
	}
	m.bits[v/64] |= 1 << (v % 64)
}

// Clear takes v out of m.
func (m *Mask) Clear(v int) { m.bits[v/64] &^= 1 << (v % 64) }

// Count is how many vertices are in m. Cost: n/64.
func (m *Mask) Count() (n int) {
	for _, b := range m.bits {
		n += bits.OnesCount64(b)
	}
	return n
}

// All is the vertices in m, rising. Cost: n/64, and one for each.
func (m *Mask) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, b := range m.bits {
			for ; b != 0; b &= b - 1 {
				if !yield(i*64 + bits.TrailingZeros64(b)) {
					return
				}
			}
		}
	}
}

// Vertices lists the vertices in m, rising.
func (m *Mask) Vertices() []uint32 {
	list := make([]uint32, 0, m.Count())
	for v := range m.All() {
		list = append(list, uint32(v))
	}
	return list
}

// Clone is a copy.
func (m *Mask) Clone() *Mask { return &Mask{slices.Clone(m.bits), m.n} }

// Equal reports whether both have the same vertices of as many.
func (m *Mask) Equal(other *Mask) bool { return m.n == other.n && slices.Equal(m.bits, other.bits) }

// And leaves in m what is in other as well. Like Or, AndNot and Xor it panics where the sizes differ, and returns m.
// Cost: n/64.
func (m *Mask) And(other *Mask) *Mask {
	return m.with(other, func(a, b uint64) uint64 { return a & b })
}

// Or puts into m what is in other.
func (m *Mask) Or(other *Mask) *Mask { return m.with(other, func(a, b uint64) uint64 { return a | b }) }

// AndNot takes out of m what is in other.
func (m *Mask) AndNot(other *Mask) *Mask {
	return m.with(other, func(a, b uint64) uint64 { return a &^ b })
}

// Xor leaves in m what is in one of both only.
func (m *Mask) Xor(other *Mask) *Mask {
	return m.with(other, func(a, b uint64) uint64 { return a ^ b })
}

// Not turns m into the vertices that aren't in it, and returns m.
func (m *Mask) Not() *Mask {
	for i := range m.bits {
		m.bits[i] = ^m.bits[i]
	}
	if rest := m.n % 64; rest != 0 {
		m.bits[len(m.bits)-1] &= 1<<rest - 1
	}
	return m
}

func (m *Mask) with(other *Mask, join func(a, b uint64) uint64) *Mask {
	if m.n != other.n {
		panic(fmt.Sprintf("graph: masks of %d and %d vertices", m.n, other.n))
	}
	for i, b := range other.bits {
		m.bits[i] = join(m.bits[i], b)
	}
	return m
}
