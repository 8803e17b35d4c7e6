// SPDX-License-Identifier: Apache-2.0

// Package wire is the codec for structures that processes of one run send each other beside
// the lanes: control messages, and what handlers report. A structure names its fields once,
// and the same list encodes and decodes:
//
//	func (p *point) fields(c *wire.Codec) {
//		c.Float(&p.x)
//		c.String(&p.name)
//	}
//
//	bytes, err := wire.Append(nil, p.fields)
//	err = wire.Decode(bytes, p.fields)
//
// Words are little endian. A string, bytes and a list begin with their length as a u32.
//
// Guarantee: Decode takes any bytes. It never reads beyond them, never allocates more than
// a small multiple of their number, and refuses what Append can't have written: a length
// that is larger than what is left, a number that isn't finite, bytes behind the last field.
// Append only reads the fields: several goroutines may encode the same structure at once.
package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"
)

// Codec encodes or decodes fields, one after the other. After an error it does nothing, and
// decoded fields keep the values that they had. One goroutine uses it.
type Codec struct {
	buf      []byte // encoding: all that was written; decoding: all that there is
	at       int    // decoding: offset of the next field
	decoding bool
	err      error
}

// codecs are those that Append and Decode use: there may be a million small structures at the end of a run.
var codecs = sync.Pool{New: func() any { return &Codec{} }}

// Append appends the encoded fields to buf. fields doesn't keep the Codec.
func Append(buf []byte, fields func(*Codec)) ([]byte, error) {
	c := codecs.Get().(*Codec)
	c.Encode(buf)
	fields(c)
	buf, err := c.End()
	codecs.Put(c)
	return buf, err
}

// Encode begins to append to buf what is encoded from here on: for who keeps a Codec.
func (c *Codec) Encode(buf []byte) { *c = Codec{buf: buf} }

// Decode begins to decode b.
func (c *Codec) Decode(b []byte) { *c = Codec{buf: b, decoding: true} }

// End ends what Encode or Decode began: it gives the bytes with what was encoded, or refuses what is left of b. Nothing
// is kept.
func (c *Codec) End() ([]byte, error) {
	if c.decoding && c.err == nil && c.at < len(c.buf) {
		c.Fail("found %d bytes behind the last field, want none", len(c.buf)-c.at)
	}
	buf, err := c.buf, c.err
	*c = Codec{}
	return buf, err
}

// Decode decodes fields that are the whole of b. Bytes that were decoded alias b. fields doesn't keep the Codec.
func Decode(b []byte, fields func(*Codec)) error {
	c := codecs.Get().(*Codec)
	c.Decode(b)
	fields(c)
	_, err := c.End()
	codecs.Put(c)
	return err
}

// Decoding reports whether fields are being decoded.
func (c *Codec) Decoding() bool { return c.decoding }

// Failed reports whether there was an error.
func (c *Codec) Failed() bool { return c.err != nil }

// Fail refuses what was found. The first call counts.
func (c *Codec) Fail(format string, args ...any) {
	if c.err != nil {
		return
	}
	c.err = fmt.Errorf(format, args...)
	if c.decoding {
		c.err = fmt.Errorf("byte %d: %w", c.at, c.err)
	}
}

// take is the next n bytes while decoding, nil when there are fewer.
func (c *Codec) take(n int) []byte {
	if c.err == nil && n > len(c.buf)-c.at {
		c.Fail("found %d bytes, want %d for the next field", len(c.buf)-c.at, n)
	}
	if c.err != nil {
		return nil
	}
	c.at += n
	return c.buf[c.at-n : c.at : c.at]
}

// extend makes room for n bytes behind what is encoded, which the caller fills. Appending would store all of buf each
// time, and not just its length.
func (c *Codec) extend(n int) []byte {
	at := len(c.buf)
	if cap(c.buf)-at < n {
		c.buf = slices.Grow(c.buf, n)
	}
	c.buf = c.buf[:at+n]
	return c.buf[at:]
}

// Bool is one byte, 0 or 1.
func (c *Codec) Bool(v *bool) {
	if !c.decoding {
		b := byte(0)
		if *v {
			b = 1
		}
		c.buf = append(c.buf, b)
		return
	}
	if b := c.take(1); b != nil {
		if b[0] > 1 {
			c.Fail("found %d, want 0 or 1", b[0])
			return
		}
		*v = b[0] == 1
	}
}

// Byte is one byte.
func (c *Codec) Byte(v *uint8) {
	if !c.decoding {
		c.buf = append(c.buf, *v)
	} else if b := c.take(1); b != nil {
		*v = b[0]
	}
}

// Uint32 is four bytes.
func (c *Codec) Uint32(v *uint32) {
	if !c.decoding {
		binary.LittleEndian.PutUint32(c.extend(4), *v)
	} else if b := c.take(4); b != nil {
		*v = binary.LittleEndian.Uint32(b)
	}
}

// Uint64 is eight bytes.
func (c *Codec) Uint64(v *uint64) {
	if !c.decoding {
		binary.LittleEndian.PutUint64(c.extend(8), *v)
	} else if b := c.take(8); b != nil {
		*v = binary.LittleEndian.Uint64(b)
	}
}

// Int32 is four bytes, in two's complement.
func (c *Codec) Int32(v *int32) {
	u := uint32(*v)
	if c.Uint32(&u); c.decoding {
		*v = int32(u)
	}
}

// Int64 is eight bytes, in two's complement.
func (c *Codec) Int64(v *int64) {
	u := uint64(*v)
	if c.Uint64(&u); c.decoding {
		*v = int64(u)
	}
}

// Int is eight bytes, in two's complement.
func (c *Codec) Int(v *int) {
	u := uint64(*v)
	if c.Uint64(&u); c.decoding {
		*v = int(u)
	}
}

// Varint is one byte to ten: seven bits in each, the lowest first, of twice the number, or of
// twice its complement and 1. Numbers near 0 are short.
func (c *Codec) Varint(v *int64) {
	if !c.decoding {
		c.buf = appendVarint(c.buf, *v)
		return
	}
	if c.err != nil || c.shortVarint(v) {
		return
	}
	x, n := binary.Varint(c.buf[c.at:])
	if n <= 0 || n > 1 && c.buf[c.at+n-1] == 0 {
		c.Fail("found no number of one to ten bytes, the last of them not 0")
		return
	}
	c.at += n
	*v = x
}

// Word is a Varint: which of words it is.
func (c *Codec) Word(v *string, words []string) {
	i := int64(slices.Index(words, *v))
	c.Varint(&i)
	if i < 0 || i >= int64(len(words)) {
		c.Fail("found the word %d (%q), want 0 to %d", i, *v, len(words)-1)
	} else if c.decoding {
		*v = words[i]
	}
}

// Bits is the eight bytes of any float64.
func (c *Codec) Bits(v *float64) {
	if !c.decoding {
		binary.LittleEndian.PutUint64(c.extend(8), math.Float64bits(*v))
	} else if b := c.take(8); b != nil {
		*v = math.Float64frombits(binary.LittleEndian.Uint64(b))
	}
}

// Float is the eight bytes of a finite float64.
func (c *Codec) Float(v *float64) {
	u := math.Float64bits(*v)
	c.Uint64(&u)
	if x := math.Float64frombits(u); x-x != 0 { // NaN, or an infinity
		c.failNotFinite(x)
	} else if c.decoding {
		*v = x
	}
}

func (c *Codec) failNotFinite(x float64) { c.Fail("found the number %v, want a finite one", x) }

// length is the length of a string, bytes, or a list whose elements have so many bytes at
// least.
func (c *Codec) length(n, elementBytes int) int {
	if !c.decoding {
		if n > math.MaxUint32 {
			c.Fail("found %d elements, want at most %d", n, uint32(math.MaxUint32))
		}
		c.buf = binary.LittleEndian.AppendUint32(c.buf, uint32(n))
		return n
	}
	b := c.take(4)
	if b == nil {
		return 0
	}
	n = int(binary.LittleEndian.Uint32(b))
	if left := len(c.buf) - c.at; n > left/elementBytes {
		c.Fail("found a length of %d, want at most %d: %d bytes are left", n, left/elementBytes, left)
		return 0
	}
	return n
}

// String is a length and that many bytes.
func (c *Codec) String(v *string) {
	n := c.length(len(*v), 1)
	if !c.decoding {
		c.buf = append(c.buf, *v...)
	} else if c.err == nil {
		*v = string(c.take(n))
	}
}

// Bytes is a length and that many bytes. Decoded ones are never nil.
func (c *Codec) Bytes(v *[]byte) {
	n := c.length(len(*v), 1)
	if !c.decoding {
		c.buf = append(c.buf, *v...)
	} else if c.err == nil {
		*v = c.take(n)
	}
}

// Optional is a bool, and the fields behind v if it isn't nil. What is decoded goes into memory that v leads to
// already, if it does.
func Optional[T any](c *Codec, v **T, fields func(*T, *Codec)) {
	there := *v != nil
	c.Bool(&there)
	if c.decoding {
		switch {
		case !there || c.err != nil:
			*v = nil
		case *v == nil:
			*v = new(T)
		}
	}
	if *v != nil {
		fields(*v, c)
	}
}

// List is a length and that many elements. No element may have fewer than elementBytes
// bytes, which bounds what a wrong length can cost. A decoded list uses the memory that v has already, if it is
// large enough; one without elements is empty, and nil where v was.
func List[T any](c *Codec, v *[]T, elementBytes int, fields func(*T)) {
	resize(c, v, elementBytes)
	for i := range *v {
		if c.err != nil {
			return
		}
		fields(&(*v)[i])
	}
}

// resize is the length of a list, for which there is memory then.
func resize[T any](c *Codec, v *[]T, elementBytes int) {
	n := c.length(len(*v), elementBytes)
	if !c.decoding {
		c.buf = slices.Grow(c.buf, n*elementBytes)
		return
	}
	if cap(*v) < n {
		*v = make([]T, n)
	}
	*v = (*v)[:n]
}
