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
// table of its sizes, then the blocks of each size, side by side.
//
//	pool header                          one size (32 bytes)
//	offset size                          offset size
//	   0     8   magic, "discopol"          0     8   largest payload, bytes
//	   8     4   version, stored last       8     8   offset of its first block in the body
//	  12     4   number of sizes           16     8   bytes from one block to the next
//	  16   112   zero                      24     4   number of its first block
//	 128   512   16 sizes                  28     4   number of its blocks
//	 640
//
//	one block                            (at a multiple of 128 bytes)
//	   0     8   seq: odd while on loan, even while free; never goes back
//	   8     8   loan: bytes of payload, low half; holder + 1 or 0, high half
//	  16     4   the block's own number, from its first loan on
//	  20   108   zero
//	 128         payload, up to the largest of its size, then padding to 128
//
// docs/format/block.md has the same for readers of other languages.
const (
	PoolHeaderBytes  = 640 // header and size table
	BlockHeaderBytes = 128 // in front of every payload
	BlockSizesMax    = 16  // sizes in one pool
	BlocksMax        = 1 << 24
	BlockBytesMax    = 1 << 30 // largest payload of any size
	PoolVersion      = 1

	blockAlign = 128 // a pair of cache lines

	offsetPoolMagic   = 0
	offsetPoolVersion = 8
	offsetPoolSizes   = 12
	offsetPoolTable   = 128

	sizeEntryBytes    = 32
	offsetSizePayload = 0
	offsetSizeOffset  = 8
	offsetSizeStride  = 16
	offsetSizeFirst   = 24
	offsetSizeCount   = 28

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
	sizes   uint32
	_       [112]byte
	table   [BlockSizesMax]sizeLayout
}

type sizeLayout struct {
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

// BlockSize is one size of blocks in a pool.
type BlockSize struct {
	BlockBytes int // largest payload, bytes, 1 to BlockBytesMax
	Count      int // number of blocks, at least 1
}

// stride is the distance from one block of the size to the next.
func (c BlockSize) stride() int { return BlockHeaderBytes + roundUp(c.BlockBytes, blockAlign) }

// placedSize is a size with its place in the body: a private copy, checked
// against the body's length once and never read from shared memory again.
type placedSize struct {
	payloadMax int
	offset     int
	stride     int
	first      uint32 // number of its first block
	count      uint32
}

// PoolBytes is the size of the body that a pool of these sizes needs. The
// sizes rise strictly in BlockBytes; at most BlockSizesMax of them, at most
// BlocksMax blocks in all.
func PoolBytes(sizes []BlockSize) (int, error) {
	placed, err := placeSizes(sizes)
	if err != nil {
		return 0, err
	}
	last := placed[len(placed)-1]
	return last.offset + int(last.count)*last.stride, nil
}

// placeSizes lays the sizes out one behind the other.
func placeSizes(sizes []BlockSize) ([]placedSize, error) {
	if len(sizes) == 0 || len(sizes) > BlockSizesMax {
		return nil, fmt.Errorf("shm: pool of %d block sizes, want 1 to %d", len(sizes), BlockSizesMax)
	}
	placed := make([]placedSize, 0, len(sizes))
	offset, blocks, previous := PoolHeaderBytes, 0, 0
	for i, c := range sizes {
		if c.BlockBytes <= previous || c.BlockBytes > BlockBytesMax {
			return nil, fmt.Errorf("shm: block size %d of blocks of %d bytes, want more than the %d before it and at "+
				"most %d", i, c.BlockBytes, previous, BlockBytesMax)
		}
		if c.Count < 1 || c.Count > BlocksMax-blocks {
			return nil, fmt.Errorf("shm: block size %d of %d blocks after %d others, want at least 1 and at most %d "+
				"in all", i, c.Count, blocks, BlocksMax)
		}
		placed = append(placed, placedSize{payloadMax: c.BlockBytes, offset: offset, stride: c.stride(),
			first: uint32(blocks), count: uint32(c.Count)})
		offset += c.Count * c.stride()
		blocks += c.Count
		previous = c.BlockBytes
	}
	return placed, nil
}

// FormatPool writes an empty pool of these sizes into zeroed memory that starts
// at a multiple of 128 bytes: the body of a segment, before another process has mapped it.
func FormatPool(body []byte, sizes []BlockSize) error {
	placed, err := placeSizes(sizes)
	if err != nil {
		return err
	}
	last := placed[len(placed)-1]
	if need := last.offset + int(last.count)*last.stride; len(body) < need || !aligned(body, blockAlign) {
		return fmt.Errorf("shm: pool in %d bytes at %p, want at least %d bytes at a multiple of %d: size the segment "+
			"by PoolBytes", len(body), body, need, blockAlign)
	}
	copy(body[offsetPoolMagic:], poolMagic)
	binary.LittleEndian.PutUint32(body[offsetPoolSizes:], uint32(len(placed)))
	for i, c := range placed {
		entry := body[offsetPoolTable+i*sizeEntryBytes:][:sizeEntryBytes]
		binary.LittleEndian.PutUint64(entry[offsetSizePayload:], uint64(c.payloadMax))
		binary.LittleEndian.PutUint64(entry[offsetSizeOffset:], uint64(c.offset))
		binary.LittleEndian.PutUint64(entry[offsetSizeStride:], uint64(c.stride))
		binary.LittleEndian.PutUint32(entry[offsetSizeFirst:], c.first)
		binary.LittleEndian.PutUint32(entry[offsetSizeCount:], c.count)
	}
	// SYNC POINT pool-formatted: the version comes last; readSizes refuses 0.
	wordAt32(body, offsetPoolVersion).Store(PoolVersion)
	return nil
}

// readSizes reads the size table once and checks every word of it against the
// body, so that no block of the result reaches outside it.
func readSizes(body []byte) ([]placedSize, error) {
	if len(body) < PoolHeaderBytes || !aligned(body, blockAlign) {
		return nil, fmt.Errorf("%w: %d bytes at %p, want at least %d at a multiple of %d", ErrPool, len(body), body,
			PoolHeaderBytes, blockAlign)
	}
	// SYNC POINT pool-formatted: the version is read before the words that it covers.
	version := wordAt32(body, offsetPoolVersion).Load()
	if magic := body[offsetPoolMagic : offsetPoolMagic+len(poolMagic)]; string(magic) != poolMagic ||
		version != PoolVersion {
		return nil, fmt.Errorf(
			"%w: found magic %q and version %d, want %q and %d: format it first, from the same build", ErrPool, magic,
			version, poolMagic, PoolVersion)
	}
	n := binary.LittleEndian.Uint32(body[offsetPoolSizes:])
	if n == 0 || n > BlockSizesMax {
		return nil, fmt.Errorf("%w: %d block sizes, want 1 to %d", ErrPool, n, BlockSizesMax)
	}
	placed := make([]placedSize, 0, n)
	end, blocks, previous := PoolHeaderBytes, 0, 0
	for i := range int(n) {
		c, err := readSize(body, i, end, blocks, previous)
		if err != nil {
			return nil, err
		}
		placed = append(placed, c)
		end, blocks, previous = c.offset+int(c.count)*c.stride, blocks+int(c.count), c.payloadMax
	}
	return placed, nil
}

// readSize reads size i, which comes after blocks others that end at end, the
// largest of them with a payload of previous bytes.
func readSize(body []byte, i, end, blocks, previous int) (placedSize, error) {
	entry := body[offsetPoolTable+i*sizeEntryBytes:][:sizeEntryBytes]
	payload := binary.LittleEndian.Uint64(entry[offsetSizePayload:])
	offset := binary.LittleEndian.Uint64(entry[offsetSizeOffset:])
	stride := binary.LittleEndian.Uint64(entry[offsetSizeStride:])
	first := binary.LittleEndian.Uint32(entry[offsetSizeFirst:])
	count := binary.LittleEndian.Uint32(entry[offsetSizeCount:])
	if payload <= uint64(previous) || payload > BlockBytesMax ||
		stride != uint64(BlockSize{BlockBytes: int(payload)}.stride()) {
		return placedSize{}, fmt.Errorf(
			"%w: block size %d has payloads of %d bytes every %d, want more than %d, at most %d, and a header of %d",
			ErrPool, i, payload, stride, previous, BlockBytesMax, BlockHeaderBytes)
	}
	if first != uint32(blocks) || count == 0 || uint64(count) > uint64(BlocksMax-blocks) {
		return placedSize{}, fmt.Errorf(
			"%w: block size %d has %d blocks from number %d, want them to follow on %d and to be at most %d in all",
			ErrPool, i, count, first, blocks, BlocksMax)
	}
	// No overflow: count < 2^25 and stride < 2^31.
	if offset != uint64(end) || uint64(count)*stride > uint64(len(body)-end) {
		return placedSize{}, fmt.Errorf(
			"%w: block size %d has %d blocks of %d bytes at offset %d, want them at %d and inside %d bytes", ErrPool, i,
			count, stride, offset, end, len(body))
	}
	return placedSize{payloadMax: int(payload), offset: end, stride: int(stride), first: first, count: count}, nil
}

// sizeOf is the index of the size that block number belongs to, or -1.
func sizeOf(sizes []placedSize, number uint32) int {
	for i := range sizes {
		if c := &sizes[i]; number-c.first < c.count {
			return i
		}
	}
	return -1
}

// at is where block number of this size starts in the body. The number belongs
// to the size.
func (c *placedSize) at(number uint32) int { return c.offset + int(number-c.first)*c.stride }

// packLoan is the loan word of a block's header.
func packLoan(size uint32, peer int32) uint64 { return uint64(size) | uint64(uint32(peer+1))<<32 }
