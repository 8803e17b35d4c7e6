// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"encoding/binary"
	"fmt"
	"structs"
	"sync/atomic"
)

// The layout of a pool, version 1, in the body of a segment: a header with the
// table of its classes, then the blocks of each class, side by side.
//
//	pool header                          one class (32 bytes)
//	offset size                          offset size
//	   0     8   magic, "discopol"          0     8   largest payload, bytes
//	   8     4   version, stored last       8     8   offset of its first block in the body
//	  12     4   number of classes         16     8   bytes from one block to the next
//	  16   112   zero                      24     4   number of its first block
//	 128   512   16 classes                28     4   number of its blocks
//	 640
//
//	one block                            (at a multiple of 128 bytes)
//	   0     8   seq: odd while on loan, even while free; never goes back
//	   8     8   loan: bytes of payload, low half; holder + 1 or 0, high half
//	  16     4   the block's own number
//	  20   108   zero
//	 128         payload, up to the largest of its class, then padding to 128
//
// docs/format/block.md has the same for readers of other languages.
const (
	PoolHeaderBytes  = 640 // header and class table
	BlockHeaderBytes = 128 // in front of every payload
	ClassesMax       = 16  // classes in one pool
	BlocksMax        = 1 << 24
	BlockBytesMax    = 1 << 30 // largest payload of any class
	PoolVersion      = 1

	blockAlign = 128 // a pair of cache lines

	offsetPoolMagic   = 0
	offsetPoolVersion = 8
	offsetPoolClasses = 12
	offsetPoolTable   = 128

	classBytes         = 32
	offsetClassPayload = 0
	offsetClassOffset  = 8
	offsetClassStride  = 16
	offsetClassFirst   = 24
	offsetClassCount   = 28

	offsetBlockSeq    = 0
	offsetBlockLoan   = 8
	offsetBlockNumber = 16
)

// poolMagic opens every pool.
const poolMagic = "discopol"

// The structs below mirror the drawing for the compiler (layout_unsafe.go).

type poolLayout struct {
	_       structs.HostLayout
	magic   [8]byte
	version uint32
	classes uint32
	_       [112]byte
	table   [ClassesMax]classLayout
}

type classLayout struct {
	_          structs.HostLayout
	payloadMax uint64
	offset     uint64
	stride     uint64
	first      uint32
	count      uint32
}

type blockLayout struct {
	_ structs.HostLayout
	blockWords
	number uint32
	_      [BlockHeaderBytes - 20]byte
}

// blockWords are the words of a block's header that change. The owner stores
// them, readers load them.
type blockWords struct {
	_    structs.HostLayout
	seq  atomic.Uint64
	loan atomic.Uint64
}

// Class is one size of blocks in a pool.
type Class struct {
	BlockBytes int // largest payload, bytes, 1 to BlockBytesMax
	Count      int // number of blocks, at least 1
}

// stride is the distance from one block of the class to the next.
func (c Class) stride() int { return BlockHeaderBytes + roundUp(c.BlockBytes, blockAlign) }

// placedClass is a class with its place in the body: a private copy, checked
// against the body's length once and never read from shared memory again.
type placedClass struct {
	payloadMax int
	offset     int
	stride     int
	first      uint32 // number of its first block
	count      uint32
}

// PoolBytes is the size of the body that a pool of these classes needs. The
// classes rise strictly in BlockBytes; at most ClassesMax of them, at most
// BlocksMax blocks in all.
func PoolBytes(classes []Class) (int, error) {
	placed, err := placeClasses(classes)
	if err != nil {
		return 0, err
	}
	last := placed[len(placed)-1]
	return last.offset + int(last.count)*last.stride, nil
}

// placeClasses lays the classes out one behind the other.
func placeClasses(classes []Class) ([]placedClass, error) {
	if len(classes) == 0 || len(classes) > ClassesMax {
		return nil, fmt.Errorf("shm: pool of %d classes, want 1 to %d", len(classes), ClassesMax)
	}
	placed := make([]placedClass, 0, len(classes))
	offset, blocks, previous := PoolHeaderBytes, 0, 0
	for i, c := range classes {
		if c.BlockBytes <= previous || c.BlockBytes > BlockBytesMax {
			return nil, fmt.Errorf("shm: class %d of blocks of %d bytes, want more than the %d before it and at most %d", i, c.BlockBytes, previous, BlockBytesMax)
		}
		if c.Count < 1 || c.Count > BlocksMax-blocks {
			return nil, fmt.Errorf("shm: class %d of %d blocks after %d others, want at least 1 and at most %d in all", i, c.Count, blocks, BlocksMax)
		}
		placed = append(placed, placedClass{payloadMax: c.BlockBytes, offset: offset, stride: c.stride(), first: uint32(blocks), count: uint32(c.Count)})
		offset += c.Count * c.stride()
		blocks += c.Count
		previous = c.BlockBytes
	}
	return placed, nil
}

// FormatPool writes an empty pool of these classes into zeroed memory that starts
// at a multiple of 128 bytes: the body of a segment, before anybody else has it.
func FormatPool(body []byte, classes []Class) error {
	placed, err := placeClasses(classes)
	if err != nil {
		return err
	}
	last := placed[len(placed)-1]
	if need := last.offset + int(last.count)*last.stride; len(body) < need || !aligned(body, blockAlign) {
		return fmt.Errorf("shm: pool in %d bytes at %p, want at least %d bytes at a multiple of %d: size the segment by PoolBytes", len(body), body, need, blockAlign)
	}
	copy(body[offsetPoolMagic:], poolMagic)
	binary.LittleEndian.PutUint32(body[offsetPoolClasses:], uint32(len(placed)))
	for i, c := range placed {
		entry := body[offsetPoolTable+i*classBytes:][:classBytes]
		binary.LittleEndian.PutUint64(entry[offsetClassPayload:], uint64(c.payloadMax))
		binary.LittleEndian.PutUint64(entry[offsetClassOffset:], uint64(c.offset))
		binary.LittleEndian.PutUint64(entry[offsetClassStride:], uint64(c.stride))
		binary.LittleEndian.PutUint32(entry[offsetClassFirst:], c.first)
		binary.LittleEndian.PutUint32(entry[offsetClassCount:], c.count)
		for k := range c.count {
			binary.LittleEndian.PutUint32(body[c.offset+int(k)*c.stride+offsetBlockNumber:], c.first+k)
		}
	}
	// SYNC POINT pool-formatted: the version comes last; readClasses refuses 0.
	wordAt32(body, offsetPoolVersion).Store(PoolVersion)
	return nil
}

// readClasses reads the class table once and bounds every word of it against the
// body, so that no block of the result reaches outside it.
func readClasses(body []byte) ([]placedClass, error) {
	if len(body) < PoolHeaderBytes || !aligned(body, blockAlign) {
		return nil, fmt.Errorf("%w: %d bytes at %p, want at least %d at a multiple of %d", ErrPool, len(body), body, PoolHeaderBytes, blockAlign)
	}
	// SYNC POINT pool-formatted: the version is read before the words it vouches for.
	version := wordAt32(body, offsetPoolVersion).Load()
	if magic := body[offsetPoolMagic : offsetPoolMagic+len(poolMagic)]; string(magic) != poolMagic || version != PoolVersion {
		return nil, fmt.Errorf("%w: found magic %q and version %d, want %q and %d: format it first, from the same build", ErrPool, magic, version, poolMagic, PoolVersion)
	}
	n := binary.LittleEndian.Uint32(body[offsetPoolClasses:])
	if n == 0 || n > ClassesMax {
		return nil, fmt.Errorf("%w: %d classes, want 1 to %d", ErrPool, n, ClassesMax)
	}
	placed := make([]placedClass, 0, n)
	end, blocks, previous := PoolHeaderBytes, 0, 0
	for i := range int(n) {
		c, err := readClass(body, i, end, blocks, previous)
		if err != nil {
			return nil, err
		}
		placed = append(placed, c)
		end, blocks, previous = c.offset+int(c.count)*c.stride, blocks+int(c.count), c.payloadMax
	}
	return placed, nil
}

// readClass reads class i, which comes after blocks others that end at end, the
// largest of them with a payload of previous bytes.
func readClass(body []byte, i, end, blocks, previous int) (placedClass, error) {
	entry := body[offsetPoolTable+i*classBytes:][:classBytes]
	payload := binary.LittleEndian.Uint64(entry[offsetClassPayload:])
	offset := binary.LittleEndian.Uint64(entry[offsetClassOffset:])
	stride := binary.LittleEndian.Uint64(entry[offsetClassStride:])
	first := binary.LittleEndian.Uint32(entry[offsetClassFirst:])
	count := binary.LittleEndian.Uint32(entry[offsetClassCount:])
	if payload <= uint64(previous) || payload > BlockBytesMax || stride != uint64(Class{BlockBytes: int(payload)}.stride()) {
		return placedClass{}, fmt.Errorf("%w: class %d has payloads of %d bytes every %d, want more than %d, at most %d, and a header of %d", ErrPool, i, payload, stride, previous, BlockBytesMax, BlockHeaderBytes)
	}
	if first != uint32(blocks) || count == 0 || uint64(count) > uint64(BlocksMax-blocks) {
		return placedClass{}, fmt.Errorf("%w: class %d has %d blocks from number %d, want them to follow on %d and to be at most %d in all", ErrPool, i, count, first, blocks, BlocksMax)
	}
	// No overflow: count < 2^25 and stride < 2^31.
	if offset != uint64(end) || uint64(count)*stride > uint64(len(body)-end) {
		return placedClass{}, fmt.Errorf("%w: class %d has %d blocks of %d bytes at offset %d, want them at %d and inside %d bytes", ErrPool, i, count, stride, offset, end, len(body))
	}
	return placedClass{payloadMax: int(payload), offset: end, stride: int(stride), first: first, count: count}, nil
}

// classOf is the index of the class that block number belongs to, or -1.
func classOf(classes []placedClass, number uint32) int {
	for i := range classes {
		if c := &classes[i]; number-c.first < c.count {
			return i
		}
	}
	return -1
}

// at is where block number of this class starts in the body. The number belongs
// to the class.
func (c *placedClass) at(number uint32) int { return c.offset + int(number-c.first)*c.stride }

// packLoan is the loan word of a block's header.
func packLoan(size uint32, peer int32) uint64 { return uint64(size) | uint64(uint32(peer+1))<<32 }
