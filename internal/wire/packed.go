// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Packed are structures of which everybody who reads them needs few, behind one that everybody needs:
//
//	u32 length, and what all need
//	u64 number of items, and for each of them u64 where it ends, counted behind the last of these
//	each item
//
// They are decoded one at a time, where they are. Several goroutines may do that at once.
type Packed struct {
	ends []byte // by item
	all  []byte // each item
}

// AppendPacked appends to buf what shared has and n items. item gives the fields of one of them, which has at least
// itemBytes bytes.
func AppendPacked(buf []byte, shared func(*Codec), n, itemBytes int, item func(n int) (func(*Codec), error)) ([]byte,
	error) {
	at := len(buf)
	buf, err := Append(append(buf, 0, 0, 0, 0), shared)
	if err != nil {
		return nil, err
	}
	length := len(buf) - at - 4
	if length > math.MaxUint32 {
		return nil, fmt.Errorf("found %d bytes that all items share, want at most %d", length, uint32(math.MaxUint32))
	}
	binary.LittleEndian.PutUint32(buf[at:], uint32(length))
	buf = binary.LittleEndian.AppendUint64(buf, uint64(n))
	ends := len(buf)
	items := ends + 8*n
	buf = slices.Grow(buf, n*(8+itemBytes))[:items]
	for i := range n {
		fields, err := item(i)
		if err == nil {
			buf, err = Append(buf, fields)
		}
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		binary.LittleEndian.PutUint64(buf[ends+8*i:], uint64(len(buf)-items))
	}
	return buf, nil
}

// OpenPacked decodes what all items share. The rest of b isn't looked at before Decode is called; b must not change as
// long as that may happen.
func OpenPacked(b []byte, shared func(*Codec)) (Packed, error) {
	if len(b) < 4 || uint64(len(b)-4) < uint64(binary.LittleEndian.Uint32(b))+8 {
		return Packed{}, errors.New("found no length of what all items share, or fewer bytes than that")
	}
	length := int(binary.LittleEndian.Uint32(b))
	if err := Decode(b[4:4+length], shared); err != nil {
		return Packed{}, err
	}
	n, rest := binary.LittleEndian.Uint64(b[4+length:]), b[4+length+8:]
	if n > uint64(len(rest)/8) {
		return Packed{}, fmt.Errorf("found %d items, want at most %d: %d bytes are left", n, len(rest)/8, len(rest))
	}
	return Packed{ends: rest[:8*n], all: rest[8*n:]}, nil
}

// Len is how many items there are.
func (p Packed) Len() int { return len(p.ends) / 8 }

// Decode decodes item n.
func (p Packed) Decode(n int, fields func(*Codec)) error {
	if n < 0 || n >= p.Len() {
		return fmt.Errorf("found item %d, there are %d", n, p.Len())
	}
	begin := uint64(0)
	if n > 0 {
		begin = binary.LittleEndian.Uint64(p.ends[8*n-8:])
	}
	end := binary.LittleEndian.Uint64(p.ends[8*n:])
	if begin > end || end > uint64(len(p.all)) {
		return fmt.Errorf("item %d is from byte %d to %d of %d", n, begin, end, len(p.all))
	}
	if err := Decode(p.all[begin:end:end], fields); err != nil {
		return fmt.Errorf("item %d: %w", n, err)
	}
	return nil
}
