// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"math"
	"slices"
)

// Many numbers at once take less time than one by one: room for all of them is made, or found, once. Their bytes are
// the same.

// FloatArray is as many Floats as v has.
func (c *Codec) FloatArray(v []float64) {
	if !c.decoding {
		at := len(c.buf)
		c.buf = slices.Grow(c.buf, 8*len(v))[:at+8*len(v)]
		for i, x := range v {
			if x-x != 0 {
				c.failNotFinite(x)
			}
			binary.LittleEndian.PutUint64(c.buf[at+8*i:], math.Float64bits(x))
		}
		return
	}
	b := c.take(8 * len(v))
	for i := 0; len(b) >= 8; i, b = i+1, b[8:] {
		x := math.Float64frombits(binary.LittleEndian.Uint64(b))
		if x-x != 0 {
			c.at -= len(b) - 8
			c.failNotFinite(x)
			return
		}
		v[i] = x
	}
}

// VarintArray is as many Varints as v has.
func (c *Codec) VarintArray(v []int64) {
	if !c.decoding {
		b := slices.Grow(c.buf, len(v))
		for _, x := range v {
			b = appendVarint(b, x)
		}
		c.buf = b
		return
	}
	for i := range v {
		if !c.shortVarint(&v[i]) {
			c.Varint(&v[i])
		}
	}
}

// EachVarint is a Varint for each of v.
func (c *Codec) EachVarint(v ...*int64) {
	if !c.decoding {
		b := slices.Grow(c.buf, len(v))
		for _, x := range v {
			b = appendVarint(b, *x)
		}
		c.buf = b
		return
	}
	for _, x := range v {
		if !c.shortVarint(x) {
			c.Varint(x)
		}
	}
}

// EachUint64 is a Uint64 for each of v.
func (c *Codec) EachUint64(v ...*uint64) {
	if !c.decoding {
		b := c.extend(8 * len(v))
		for i, x := range v {
			binary.LittleEndian.PutUint64(b[8*i:], *x)
		}
		return
	}
	b := c.take(8 * len(v))
	for i := 0; len(b) >= 8; i, b = i+1, b[8:] {
		*v[i] = binary.LittleEndian.Uint64(b)
	}
}

// appendVarint is binary.AppendVarint, fast for what takes one byte: most.
func appendVarint(b []byte, x int64) []byte {
	if u := uint64(x)<<1 ^ uint64(x>>63); u < 0x80 {
		return append(b, byte(u))
	}
	return binary.AppendVarint(b, x)
}

// shortVarint decodes a Varint of one byte; false: it isn't one.
func (c *Codec) shortVarint(v *int64) bool {
	if c.err != nil || c.at >= len(c.buf) || c.buf[c.at] >= 0x80 {
		return false
	}
	u := int64(c.buf[c.at])
	*v = u>>1 ^ -(u & 1)
	c.at++
	return true
}

// Uint32s is a list of numbers.
func Uint32s[T int32 | uint32](c *Codec, v *[]T) {
	resize(c, v, 4)
	if !c.decoding {
		at := len(c.buf)
		c.buf = c.buf[:at+4*len(*v)]
		for i, x := range *v {
			binary.LittleEndian.PutUint32(c.buf[at+4*i:], uint32(x))
		}
		return
	}
	b := c.take(4 * len(*v))
	for i := 0; len(b) >= 4; i, b = i+1, b[4:] {
		(*v)[i] = T(binary.LittleEndian.Uint32(b))
	}
}

// Uint64s is a list of numbers.
func Uint64s[T int64 | uint64](c *Codec, v *[]T) {
	resize(c, v, 8)
	if !c.decoding {
		at := len(c.buf)
		c.buf = c.buf[:at+8*len(*v)]
		for i, x := range *v {
			binary.LittleEndian.PutUint64(c.buf[at+8*i:], uint64(x))
		}
		return
	}
	b := c.take(8 * len(*v))
	for i := 0; len(b) >= 8; i, b = i+1, b[8:] {
		(*v)[i] = T(binary.LittleEndian.Uint64(b))
	}
}

// Varints is a list of numbers.
func Varints(c *Codec, v *[]int64) {
	resize(c, v, 1)
	c.VarintArray(*v)
}

// Floats is a list of numbers.
func Floats(c *Codec, v *[]float64) {
	resize(c, v, 8)
	c.FloatArray(*v)
}

// BitsList is a list of numbers, any float64.
func BitsList(c *Codec, v *[]float64) {
	resize(c, v, 8)
	if !c.decoding {
		at := len(c.buf)
		c.buf = c.buf[:at+8*len(*v)]
		for i, x := range *v {
			binary.LittleEndian.PutUint64(c.buf[at+8*i:], math.Float64bits(x))
		}
		return
	}
	b := c.take(8 * len(*v))
	for i := 0; len(b) >= 8; i, b = i+1, b[8:] {
		(*v)[i] = math.Float64frombits(binary.LittleEndian.Uint64(b))
	}
}
