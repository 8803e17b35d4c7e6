// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"math/bits"

	"github.com/disco-sim/disco/internal/invariants"
)

// store keeps the payloads of pending events in cells of fixed sizes, so that the
// event path neither allocates nor gives the garbage collector anything to look
// at. A cell is found by its ref: class in the top four bits, index below.
//
// Cells of a class lie in chunks that never move: a slice from get stays valid
// until its ref is freed, whatever is put meanwhile.
//
// Owned by the Engine; one goroutine.
type store struct {
	classes [cellClasses]cells

	// outside holds what doesn't lie in a cell: payloads above the largest cell,
	// and payloads that a transport leases to us in place.
	outside     []outside
	outsideFree []uint32
	buffers     [bufferClasses][][]byte // free memory for those above the largest cell, by log2 of its size
	bufferBytes int                     // all buffers, free and in use
	freeBytes   int                     // those that are free

	spare  []*[chunkBytes]byte    // of a copy: chunks of the one before
	memory func(bytes int) []byte // of a copy: gives chunks; nil: they are of the heap

	giveBack func(lease uint64) // ends the lease of a payload that was filed in place
}

type ref uint32

const (
	cellClasses  = 12 // 32 B, 64 B, … 64 KiB
	cellMinShift = 5  // log2 of the smallest cell
	cellHeader   = 8  // u32 data length, u16 headers length, u16 zero
	cellMax      = 1 << (cellMinShift + cellClasses - 1)
	chunkBytes   = cellMax // one cell of the largest class, more of the others
	refIndexBits = 28
	refIndexMask = 1<<refIndexBits - 1
	classOutside = 15
	refNone      = ref(0) // no payload at all: nothing is stored

	bufferClasses = 31 // up to 1 GiB

	// freeBytesLeast is how much memory a store keeps for large payloads to come. It keeps more only as long as as much
	// is in use: what a burst has left goes back to the runtime, and a load that rises and falls by half allocates
	// nothing.
	freeBytesLeast = 16 << 20
)

// cells is one size class.
type cells struct {
	chunks []*[chunkBytes]byte
	free   uint32 // 1 + index of the first free cell, 0: none; linked through the cells
	next   uint32 // first index never used
}

type outside struct {
	headers, data []byte
	lease         uint64 // 0: ours; else what to give back to the transport
}

func newStore() *store {
	s := &store{}
	s.classes[0].next = 1 // index 0 of class 0 would be refNone
	return s
}

// cell returns the memory of one cell.
func (s *store) cell(class, index uint32) []byte {
	at, size := uint64(index)<<(cellMinShift+class), uint64(1)<<(cellMinShift+class)
	chunk, off := s.classes[class].chunks[at/chunkBytes], at%chunkBytes
	return chunk[off : off+size : off+size]
}

// put copies headers and data into a cell.
func (s *store) put(headers, data []byte) ref {
	need := cellHeader + len(headers) + len(data)
	if need == cellHeader {
		return refNone
	}
	if need > cellMax {
		return s.putOutside(outside{headers: clone(headers), data: s.copyLarge(data)})
	}
	class := uint32(bits.Len32(uint32(need-1) >> cellMinShift))
	index := s.take(class)
	c := s.cell(class, index)
	binary.LittleEndian.PutUint64(c, uint64(len(data))|uint64(len(headers))<<32)
	n := cellHeader
	if len(headers) != 0 {
		n += copy(c[n:], headers)
	}
	copy(c[n:], data)
	return ref(class<<refIndexBits | index)
}

func clone(b []byte) []byte { return append([]byte(nil), b...) }

// take finds a free cell, or makes a chunk of new ones.
func (s *store) take(class uint32) uint32 {
	k := &s.classes[class]
	if k.free != 0 {
		index := k.free - 1
		k.free = binary.LittleEndian.Uint32(s.cell(class, index))
		return index
	}
	if uint64(k.next)<<(cellMinShift+class)/chunkBytes == uint64(len(k.chunks)) {
		if k.next > refIndexMask-chunkBytes {
			panic("node: more than 2^28 pending payloads of one size class")
		}
		k.chunks = append(k.chunks, s.newChunk())
	}
	index := k.next
	k.next++
	return index
}

// newChunk is memory for cells.
func (s *store) newChunk() *[chunkBytes]byte {
	n := len(s.spare)
	switch {
	case n == 0 && s.memory != nil:
		return (*[chunkBytes]byte)(s.memory(chunkBytes))
	case n == 0:
		return new([chunkBytes]byte)
	}
	c := s.spare[n-1]
	s.spare = s.spare[:n-1]
	return c
}

// reset frees all, and keeps the memory.
func (s *store) reset() {
	for class := range s.classes {
		k := &s.classes[class]
		s.spare = append(s.spare, k.chunks...)
		*k = cells{chunks: k.chunks[:0]}
	}
	s.classes[0].next = 1
	for _, o := range s.outside {
		if cap(o.data) > 0 {
			s.keep(o.data)
		}
	}
	clear(s.outside)
	s.outside, s.outsideFree = s.outside[:0], s.outsideFree[:0]
}

// copyCells copies the memory of all cells of another store, free ones, too; refs are the same. It doesn't if that is
// more than most bytes. s has none.
func (s *store) copyCells(from *store, most int) bool {
	size := 0
	for class := range from.classes {
		size += int(from.classes[class].next) << (cellMinShift + class)
	}
	if size > most+chunkBytes {
		return false
	}
	for class := range from.classes {
		k, f := &s.classes[class], &from.classes[class]
		used := int(f.next) << (cellMinShift + class)
		k.next = f.next
		for _, chunk := range f.chunks {
			c := s.newChunk()
			copy(c[:], chunk[:min(used, chunkBytes)])
			k.chunks = append(k.chunks, c)
			used -= min(used, chunkBytes)
		}
	}
	return true
}

// bytes is the memory that the store has for payloads, free or in use.
func (s *store) bytes() int64 {
	chunks := len(s.spare)
	for class := range s.classes {
		chunks += len(s.classes[class].chunks)
	}
	return int64(chunks)*chunkBytes + int64(s.bufferBytes)
}

// leasedBytes are those of payloads that lie in somebody else's memory.
func (s *store) leasedBytes() (bytes int64) {
	for i := range s.outside {
		if o := &s.outside[i]; o.lease != 0 {
			bytes += int64(len(o.headers) + len(o.data))
		}
	}
	return bytes
}

// copyLarge copies data into memory that a former payload has left, or that is new.
func (s *store) copyLarge(data []byte) []byte {
	if len(data) == 0 {
		return nil
	}
	class := bits.Len(uint(len(data) - 1))
	free := s.buffers[class]
	if n := len(free); n > 0 {
		b := free[n-1][:len(data)]
		free[n-1] = nil
		s.buffers[class] = free[:n-1]
		s.freeBytes -= cap(b)
		copy(b, data)
		return b
	}
	b := make([]byte, len(data), 1<<class)
	s.bufferBytes += cap(b)
	copy(b, data)
	return b
}

// keep takes back memory that copyLarge has given, and lets go of free memory that is more than enough, that of b's own
// size last. As much is always kept as was in use until now.
func (s *store) keep(b []byte) {
	class := bits.Len(uint(cap(b) - 1))
	enough := max(freeBytesLeast, s.bufferBytes-s.freeBytes)
	s.buffers[class] = append(s.buffers[class], b)
	s.freeBytes += cap(b)
	for next := class + 1; s.freeBytes > enough; {
		free := s.buffers[next%bufferClasses]
		last := len(free) - 1
		if last < 0 {
			next++
			continue
		}
		s.freeBytes -= cap(free[last])
		s.bufferBytes -= cap(free[last])
		free[last] = nil
		s.buffers[next%bufferClasses] = free[:last]
	}
}

// lease files a payload that stays where it is until free.
func (s *store) lease(headers, data []byte, token uint64) ref {
	return s.putOutside(outside{headers: clone(headers), data: data, lease: token})
}

func (s *store) putOutside(o outside) ref {
	var index uint32
	if n := len(s.outsideFree); n > 0 {
		index = s.outsideFree[n-1]
		s.outsideFree = s.outsideFree[:n-1]
		s.outside[index] = o
	} else {
		index = uint32(len(s.outside))
		s.outside = append(s.outside, o)
	}
	return ref(classOutside<<refIndexBits | index)
}

// get returns headers and data of r; both live until free(r).
func (s *store) get(r ref) (headers, data []byte) {
	if r == refNone {
		return nil, nil
	}
	class, index := uint32(r>>refIndexBits), uint32(r&refIndexMask)
	if class == classOutside {
		o := &s.outside[index]
		return o.headers, o.data
	}
	c := s.cell(class, index)
	word := binary.LittleEndian.Uint64(c)
	dataLen, headersLen := uint32(word), uint32(word>>32)
	data = c[cellHeader+headersLen : cellHeader+headersLen+dataLen : cellHeader+headersLen+dataLen]
	if headersLen != 0 {
		headers = c[cellHeader : cellHeader+headersLen : cellHeader+headersLen]
	}
	return headers, data
}

// free ends the life of r's memory.
func (s *store) free(r ref) {
	if r == refNone {
		return
	}
	class, index := uint32(r>>refIndexBits), uint32(r&refIndexMask)
	if class == classOutside {
		o := s.outside[index]
		s.outside[index] = outside{}
		s.outsideFree = append(s.outsideFree, index)
		if o.lease != 0 {
			s.giveBack(o.lease)
		} else {
			invariants.Mangle(o.data)
			if cap(o.data) > 0 {
				s.keep(o.data)
			}
		}
		return
	}
	c := s.cell(class, index)
	invariants.Mangle(c)
	k := &s.classes[class]
	binary.LittleEndian.PutUint32(c, k.free)
	k.free = index + 1
}

// inUse counts the payloads that are not freed, for the checks of the checked
// build and for tests.
func (s *store) inUse() int {
	n := len(s.outside) - len(s.outsideFree)
	for class := range s.classes {
		k := &s.classes[class]
		n += int(k.next)
		for f := k.free; f != 0; f = binary.LittleEndian.Uint32(s.cell(uint32(class), f-1)) {
			n--
		}
	}
	return n - 1 // class 0 starts at index 1
}

// cellBytes is what r's cell takes; 0: it has none.
func (r ref) cellBytes() int {
	class := uint32(r >> refIndexBits)
	if r == refNone || class == classOutside {
		return 0
	}
	return 1 << (cellMinShift + class)
}

// at is where r's memory lies, for prefetch; nil where it doesn't lie in a cell.
func (s *store) at(r ref) *byte {
	class, index := uint32(r>>refIndexBits), uint32(r&refIndexMask)
	if r == refNone || class == classOutside {
		return nil
	}
	at := uint64(index) << (cellMinShift + class)
	return &s.classes[class].chunks[at/chunkBytes][at%chunkBytes]
}
