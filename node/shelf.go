// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
)

// shelf keeps records in a StateFile: states of nodes that have left memory. A record lies in whole units, and a new
// one goes where one of its size was that nobody needs any more. What is written one behind the other goes to the file
// in one go.
type shelf struct {
	file   StateFile
	used   uint32             // units that the file has
	most   uint32             // units that it may have; 0: unitsMax. Less in tests
	free   [sizesMax][]uint32 // by size: where there is room between records
	out    []byte             // what is still to be written, from unit outAt on
	outAt  uint32
	in     []byte // what was read last, from byte inAt on
	inAt   int64
	live   uint32 // units of records
	moving []byte // scratch of compact
	ahead  bool   // records are read in about the order in which they lie
}

// extent is where a record lies: units. 0: nowhere.
type extent struct{ first, units uint32 }

const (
	unitBytes  = 64
	unitsMax   = 1<<31 - 2 // 128 GiB
	recordHead = 8         // node u32, bytes u32
	outBytes   = 256 << 10 // that are written in one go
	inBytes    = 512       // that are read at first
	wasteLeast = 1 << 14   // units of a file that isn't worth to be compacted
	aheadBytes = 256 << 10 // … where records are read in order
)

// beginRecord appends the head of a record, whose size write fills in.
func beginRecord(dst []byte, n int) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
	return binary.LittleEndian.AppendUint32(dst, 0)
}

// unitsOf is how many units a record of so many bytes gets: more than 16 are rounded up, so that there are few sizes.
func unitsOf(bytes int) uint32 {
	units := uint32((bytes + unitBytes - 1) / unitBytes)
	if units <= 16 {
		return units
	}
	step := uint32(1) << (bits.Len32(units-1) - 4)
	return (units + step - 1) / step * step
}

// sizeOf numbers the sizes, of which it finds the largest one that isn't more than so many units.
func sizeOf(units uint32) int {
	if units <= 16 {
		return int(units)
	}
	double := bits.Len32(units) - 4 // 17 to 31: 1
	return 8*double + int(units>>double)
}

// unitsAt is how many units a size has.
func unitsAt(size int) uint32 {
	if size <= 16 {
		return uint32(size)
	}
	double := (size - 8) / 8
	return uint32(size-8*double) << double
}

const sizesMax = 8*28 + 16

// write files a record. before is where the node had one, which nobody needs any more.
func (f *shelf) write(record []byte, before extent) (extent, error) {
	binary.LittleEndian.PutUint32(record[4:], uint32(len(record)-recordHead))
	at, err := f.place(unitsOf(len(record)), before)
	if err != nil {
		return at, err
	}
	return at, f.put(record, at)
}

// put has a record, with its head, written at a place.
func (f *shelf) put(record []byte, at extent) error {
	if len(f.out) > 0 && (uint64(f.outAt)+uint64(len(f.out)/unitBytes) != uint64(at.first) ||
		len(f.out)+len(record) > outBytes) {
		if err := f.flush(); err != nil {
			return err
		}
	}
	if len(f.out) == 0 {
		f.outAt = at.first
	}
	f.out = append(f.out, record...)
	for pad := int(at.units)*unitBytes - len(record); pad > 0; pad-- {
		f.out = append(f.out, 0)
	}
	return nil
}

// wasteful reports whether more than half of the file is room between records.
func (f *shelf) wasteful() bool { return f.used/2 > f.live && f.used > wasteLeast }

// compact moves all records to the begin of the file, in the order in which they lie. begins tells whether a node's
// begins at a unit, moved is told where it is then.
func (f *shelf) compact(begins func(n, first uint32) bool, moved func(n, first uint32)) error {
	if err := f.flush(); err != nil {
		return err
	}
	f.ahead = true
	defer func() { f.ahead = false }()
	to := uint32(0)
	for at := uint32(0); at < f.used; {
		head, err := f.bytes(int64(at)*unitBytes, recordHead)
		if err != nil {
			return err
		}
		n := binary.LittleEndian.Uint32(head)
		if !begins(n, at) {
			at++
			continue
		}
		state, old, err := f.read(at, int(n))
		if err != nil {
			return err
		}
		f.moving = binary.LittleEndian.AppendUint32(f.moving[:0], n)
		f.moving = append(binary.LittleEndian.AppendUint32(f.moving, uint32(len(state))), state...)
		if err := f.put(f.moving, extent{to, old.units}); err != nil {
			return err
		}
		moved(n, to)
		at, to = at+old.units, to+old.units
	}
	f.used, f.live, f.free = to, to, [sizesMax][]uint32{}
	return nil
}

// place finds room for a record: that which it had, or of its size, or a part of a larger one, or behind all others.
func (f *shelf) place(units uint32, before extent) (extent, error) {
	if before.units == units {
		return before, nil
	}
	f.release(before)
	f.live += units - before.units
	for size := sizeOf(units); size < sizesMax; size++ {
		if n := len(f.free[size]); n > 0 {
			at := f.free[size][n-1]
			f.free[size] = f.free[size][:n-1]
			f.release(extent{at + units, unitsAt(size) - units})
			return extent{at, units}, nil
		}
	}
	most := f.most
	if most == 0 {
		most = unitsMax
	}
	if units > most-f.used {
		return extent{}, fmt.Errorf("the file of nodes that have left memory has %d bytes, at most %d are allowed",
			uint64(f.used)*unitBytes, uint64(most)*unitBytes)
	}
	at := extent{f.used, units}
	f.used += units
	return at, nil
}

// release gives room free.
func (f *shelf) release(at extent) {
	for at.units > 0 {
		size := sizeOf(at.units)
		f.free[size] = append(f.free[size], at.first)
		at = extent{at.first + unitsAt(size), at.units - unitsAt(size)}
	}
}

// flush writes what is still to be written.
func (f *shelf) flush() error {
	if _, err := f.file.WriteAt(f.out, int64(f.outAt)*unitBytes); err != nil {
		return err
	}
	f.out, f.in = f.out[:0], f.in[:0] // what was read may be of before
	return nil
}

var errRecord = errors.New("its file has something else there than was written")

// read is the record of a node that begins at a unit, without its head, and where it lies. It ends with the next use.
func (f *shelf) read(first uint32, n int) ([]byte, extent, error) {
	at := int64(first) * unitBytes
	head, err := f.bytes(at, recordHead)
	if err != nil {
		return nil, extent{}, err
	}
	size := int(binary.LittleEndian.Uint32(head[4:]))
	if binary.LittleEndian.Uint32(head) != uint32(n) || size < 8 || size > savedBytesMax ||
		uint64(first)+uint64(unitsOf(size+recordHead)) > uint64(f.used) {
		return nil, extent{}, errRecord
	}
	record, err := f.bytes(at, recordHead+size)
	if err != nil {
		return nil, extent{}, err
	}
	return record[recordHead:], extent{first, unitsOf(len(record))}, nil
}

// bytes are those from a place of the file on.
func (f *shelf) bytes(at int64, size int) ([]byte, error) {
	if from := at - int64(f.outAt)*unitBytes; from >= 0 && from < int64(len(f.out)) {
		if int64(len(f.out))-from < int64(size) {
			return nil, errRecord
		}
		return f.out[from : from+int64(size)], nil
	}
	if from := at - f.inAt; from >= 0 && from+int64(size) <= int64(len(f.in)) {
		return f.in[from : from+int64(size)], nil
	}
	room := max(size, inBytes)
	if f.ahead {
		room = max(size, aheadBytes)
	}
	if cap(f.in) < room {
		f.in = make([]byte, room)
	}
	got, err := f.file.ReadAt(f.in[:room], at)
	if f.in, f.inAt = f.in[:got], at; got < size {
		if err == io.EOF || err == nil {
			err = errRecord
		}
		return nil, err
	}
	return f.in[:size], nil
}
