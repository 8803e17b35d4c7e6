// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
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
// itemBytes bytes; several goroutines call it at once.
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
	stretches, all, err := encodeItems(n, itemBytes, item)
	if err != nil {
		return nil, err
	}
	buf = slices.Grow(buf, 8+8*n+all)
	buf = binary.LittleEndian.AppendUint64(buf, uint64(n))
	end := 0
	for _, s := range stretches {
		for _, length := range s.lengths {
			end += int(length)
			buf = binary.LittleEndian.AppendUint64(buf, uint64(end))
		}
	}
	for _, s := range stretches {
		buf = append(buf, s.bytes...)
	}
	return buf, nil
}

// stretch is some items that follow one another, encoded.
type stretch struct {
	bytes   []byte
	lengths []uint32
	err     error
}

// stretchItems is how many items a stretch has at the most.
const stretchItems = 1 << 14

// encodeItems encodes n items in stretches, which all processors share; all is how many bytes they are together.
func encodeItems(n, itemBytes int, item func(n int) (func(*Codec), error)) (stretches []stretch, all int, err error) {
	stretches = make([]stretch, (n+stretchItems-1)/stretchItems)
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(stretches)) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(stretches); i = int(next.Add(1)) - 1 {
				begin := i * stretchItems
				stretches[i] = encodeStretch(begin, min(begin+stretchItems, n), itemBytes, item)
			}
		})
	}
	group.Wait()
	for i := range stretches {
		if err := stretches[i].err; err != nil {
			return nil, 0, err
		}
		all += len(stretches[i].bytes)
	}
	return stretches, all, nil
}

// encodeStretch encodes items begin to end-1.
func encodeStretch(begin, end, itemBytes int, item func(n int) (func(*Codec), error)) stretch {
	s := stretch{bytes: make([]byte, 0, (end-begin)*itemBytes), lengths: make([]uint32, 0, end-begin)}
	for n := begin; n < end; n++ {
		before := len(s.bytes)
		fields, err := item(n)
		if err == nil {
			s.bytes, err = Append(s.bytes, fields)
		}
		if length := len(s.bytes) - before; err == nil && length > math.MaxUint32 {
			err = fmt.Errorf("found %d bytes, want at most %d", length, uint32(math.MaxUint32))
		}
		if err != nil {
			s.err = fmt.Errorf("item %d: %w", n, err)
			return s
		}
		s.lengths = append(s.lengths, uint32(len(s.bytes)-before))
	}
	return s
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
