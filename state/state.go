// SPDX-License-Identifier: Apache-2.0

// Package state is the codec for what handlers save of themselves at a checkpoint. A handler names its fields once, and
// the same list writes and reads them:
//
//	func (s *station) State(_ *node.Simproc, c *state.Codec) {
//		c.Int(&s.busy)
//		c.PCG(&s.steps)
//		state.List(c, &s.waiting, 16, func(v *customer) {
//			c.Float(&v.since)
//			c.Int(&v.class)
//		})
//	}
//
// It knows no simulation: docs/checkpoints.md says what a handler has to save.
//
// Guarantee: equal fields give equal bytes, and what was read is written again with the same bytes. Decode takes any
// bytes: it never reads beyond them, takes no more memory than a small multiple of their number, and refuses what
// Append can't have written. Values that only their owner can judge are refused with Codec.Fail.
package state

import (
	"cmp"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/disco-sim/disco/internal/wire"
)

// Codec writes or reads fields, one after the other. After an error it does nothing, and fields that would have been
// read keep the values that they had, but for elements of lists. One goroutine uses it.
type Codec struct {
	wire    wire.Codec
	version uint32
	fresh   bool
}

// Coder is Append and Decode for who calls them a million times: it keeps its Codec. One goroutine uses it.
type Coder struct{ codec Codec }

// coders are those that Append and Decode use.
var coders = sync.Pool{New: func() any { return new(Coder) }}

// Append appends to dst the version of an encoding, at least 1, and fields. fields doesn't keep the Codec.
func Append(dst []byte, version uint32, fields func(*Codec)) ([]byte, error) {
	k := coders.Get().(*Coder)
	dst, err := k.Append(dst, version, fields)
	coders.Put(k)
	return dst, err
}

// Append is the function Append.
func (k *Coder) Append(dst []byte, version uint32, fields func(*Codec)) ([]byte, error) {
	c := &k.codec
	c.version, c.fresh = version, false
	c.wire.Encode(dst)
	if c.wire.Uint32(&c.version); version == 0 {
		c.Fail("found version 0 of an encoding, want at least 1")
	}
	fields(c)
	return c.wire.End()
}

// Decode reads what Append wrote, which is the whole of src, in any version from 1 to newest. With fresh random streams
// stay as they are (Codec.PCG). fields doesn't keep the Codec.
func Decode(src []byte, newest uint32, fresh bool, fields func(*Codec)) error {
	k := coders.Get().(*Coder)
	err := k.Decode(src, newest, fresh, fields)
	coders.Put(k)
	return err
}

// Decode is the function Decode.
func (k *Coder) Decode(src []byte, newest uint32, fresh bool, fields func(*Codec)) error {
	c := &k.codec
	c.version, c.fresh = 0, fresh
	c.wire.Decode(src)
	switch c.wire.Uint32(&c.version); {
	case c.version > newest:
		c.Fail("found version %d of an encoding, want 1 to %d: a newer program has written it", c.version, newest)
	case c.version == 0: // Fail keeps the first error: src may have been too short
		c.Fail("found version 0 of an encoding, want 1 to %d", newest)
	default:
		fields(c)
	}
	_, err := c.wire.End()
	return err
}

// Loading reports whether fields are read.
func (c *Codec) Loading() bool { return c.wire.Decoding() }

// Failed reports whether something was refused: fields behind it keep the values that they had.
func (c *Codec) Failed() bool { return c.wire.Failed() }

// Version is that of what is read, or written: fields that newer versions have can be left out where it is older.
func (c *Codec) Version() uint32 { return c.version }

// Fail refuses what was found. The first call counts.
func (c *Codec) Fail(format string, args ...any) { c.wire.Fail(format, args...) }

// Bool is one byte, 0 or 1.
func (c *Codec) Bool(v *bool) { c.wire.Bool(v) }

// Byte is one byte.
func (c *Codec) Byte(v *uint8) { c.wire.Byte(v) }

// Int is eight bytes, in two's complement.
func (c *Codec) Int(v *int) { c.wire.Int(v) }

// Int32 is four bytes, in two's complement.
func (c *Codec) Int32(v *int32) { c.wire.Int32(v) }

// Int64 is eight bytes, in two's complement.
func (c *Codec) Int64(v *int64) { c.wire.Int64(v) }

// Uint32 is four bytes.
func (c *Codec) Uint32(v *uint32) { c.wire.Uint32(v) }

// Uint64 is eight bytes.
func (c *Codec) Uint64(v *uint64) { c.wire.Uint64(v) }

// EachUint64 is a Uint64 for each of v, in less time.
func (c *Codec) EachUint64(v ...*uint64) { c.wire.EachUint64(v...) }

// Float is the eight bytes of a float64: infinities and any NaN, too.
func (c *Codec) Float(v *float64) { c.wire.Bits(v) }

// String is a length and that many bytes.
func (c *Codec) String(v *string) { c.wire.String(v) }

// Bytes is a length and that many bytes. What is read is a copy, and never nil.
func (c *Codec) Bytes(v *[]byte) {
	b := *v
	c.wire.Bytes(&b)
	if c.Loading() && !c.Failed() {
		*v = append([]byte{}, b...)
	}
}

// PCG is the state of a generator, 16 bytes. Where random streams are to begin anew (Decode's fresh) they are read, and
// the generator stays as it is.
func (c *Codec) PCG(g *rand.PCG) {
	var high, low uint64
	if !c.Loading() {
		var room [20]byte
		b, err := g.AppendBinary(room[:0])
		if err != nil || len(b) != len(room) {
			c.Fail("found %d bytes of a generator (%v), want %d", len(b), err, len(room))
			return
		}
		high, low = binary.BigEndian.Uint64(b[4:]), binary.BigEndian.Uint64(b[12:])
	}
	c.EachUint64(&high, &low)
	if c.Loading() && !c.fresh && !c.Failed() {
		g.Seed(high, low)
	}
}

// Source is PCG for what node.Simproc.Source gives.
func (c *Codec) Source(s rand.Source) {
	g, ok := s.(*rand.PCG)
	if !ok || g == nil {
		c.Fail("found a source of random numbers of type %T, want one of node.Simproc.Source", s)
		return
	}
	c.PCG(g)
}

// List is a length and that many elements, of at least least bytes each, which bounds what a wrong length can cost. A
// list that is read uses the memory that s has already, if it is large enough.
func List[T any](c *Codec, s *[]T, least int, each func(*T)) {
	if c.wants(least) {
		wire.List(&c.wire, s, least, each)
	}
}

// wants refuses elements without bytes.
func (c *Codec) wants(least int) bool {
	if least < 1 {
		c.Fail("found a list whose elements have at least %d bytes, want at least 1", least)
	}
	return least >= 1 && !c.Failed()
}

// Words is a length and that many numbers, of four or eight bytes each: a copy of memory. NaN and infinities are
// numbers, too.
func Words[T int64 | uint64 | float64 | int32 | uint32](c *Codec, s *[]T) {
	switch s := any(s).(type) {
	case *[]int64:
		wire.Uint64s(&c.wire, s)
	case *[]uint64:
		wire.Uint64s(&c.wire, s)
	case *[]float64:
		wire.BitsList(&c.wire, s)
	case *[]int32:
		wire.Uint32s(&c.wire, s)
	case *[]uint32:
		wire.Uint32s(&c.wire, s)
	}
}

// Map is a length and that many pairs of key and value, by rising key, of at least least bytes each. What is read is a
// new map.
func Map[K cmp.Ordered, V any](c *Codec, m *map[K]V, least int, each func(*K, *V)) {
	if !c.wants(least) {
		return
	}
	type pair struct {
		key   K
		value V
	}
	var pairs []pair
	if !c.Loading() {
		pairs = make([]pair, 0, len(*m))
		for k, v := range *m {
			pairs = append(pairs, pair{k, v})
		}
		slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(a.key, b.key) })
	}
	n := 0
	wire.List(&c.wire, &pairs, least, func(p *pair) {
		each(&p.key, &p.value)
		if n > 0 && cmp.Compare(pairs[n-1].key, p.key) >= 0 {
			c.Fail("found the key %v behind %v in a map, want rising ones", p.key, pairs[n-1].key)
		}
		n++
	})
	if !c.Loading() || c.Failed() {
		return
	}
	*m = make(map[K]V, len(pairs))
	for _, p := range pairs {
		(*m)[p.key] = p.value
	}
}
