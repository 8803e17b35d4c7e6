// SPDX-License-Identifier: Apache-2.0

// Package calls has the journal of activations: what each call of a handler has come to, by which a run is compared
// with another.
//
// Within a class of a worker calls are in the total order (epoch, level, simproc), which doesn't depend on where nodes
// are. So a recorded run has for each class, and each leg, nothing but the low 16 bits of the hash behind each call, in
// the order of calls: a stream; and once a layout, which says which simprocs are in which class. The run that is
// compared has all of its calls. Its calls of a stream's simprocs, in the total order, are those of the stream.
//
// Guarantee: whatever bytes a chunk has, nothing is read beyond them, no more memory is taken than some times what they
// have, and an error says what was found and what is wanted.
//
//	chunk := calls.Encode(nil, &calls.Chunk{Stream: of, Before: n, Hashes: log}) // of a node.CallLog
//
//	c := calls.Comparer{Simprocs: n, Level: g.Level, Layout: read}
//	err := c.Add(chunk)
//	found, n, err := c.Compare(is, until, false)
package calls

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Call is one call of a handler.
type Call struct {
	Simproc uint32
	Hash    uint32 // low half of the simproc's hash behind it
	Epoch   float64
}

// Stream is the calls that a class of a worker gets in a leg.
type Stream struct {
	Begin  float64  // of the leg
	Layout [32]byte // digest of the chunk that says which simprocs are in which class
	Class  uint32
}

// Chunk is a part of a stream: calls one behind the other.
type Chunk struct {
	Stream
	Before uint64 // calls of the stream that come before
	Hashes []byte // of each call the low 16 bits of the hash
}

// A chunk is u32 version, u32 class, f64 begin of the leg, u64 calls of the stream before it, 32 bytes digest of the
// layout, and the hashes.
const (
	version   = 2
	hashBytes = 2
	headBytes = 4 + 4 + 8 + 8 + 32

	// Most is how many calls a chunk has, at most.
	Most = 1 << 20
)

// Count is how many calls a chunk of so many bytes has; false: there is none of that size.
func Count(bytes int64) (n int64, ok bool) {
	n = (bytes - headBytes) / hashBytes
	return n, n >= 1 && n <= Most && bytes == headBytes+n*hashBytes
}

// Encode appends a chunk of 1 to Most calls.
func Encode(dst []byte, c *Chunk) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, version)
	dst = binary.LittleEndian.AppendUint32(dst, c.Class)
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(c.Begin))
	dst = binary.LittleEndian.AppendUint64(dst, c.Before)
	dst = append(dst, c.Layout[:]...)
	return append(dst, c.Hashes...)
}

// Decode reads a chunk, whose hashes stay a part of its bytes.
func Decode(chunk []byte) (c Chunk, err error) {
	if _, ok := Count(int64(len(chunk))); !ok {
		return c, fmt.Errorf("calls: found a chunk of %d bytes, want %d and %d for each of 1 to %d calls", len(chunk),
			headBytes, hashBytes, Most)
	}
	if v := binary.LittleEndian.Uint32(chunk); v != version {
		return c, fmt.Errorf("calls: found a chunk of version %d, want version %d", v, version)
	}
	c.Class = binary.LittleEndian.Uint32(chunk[4:])
	c.Begin = math.Float64frombits(binary.LittleEndian.Uint64(chunk[8:]))
	c.Before = binary.LittleEndian.Uint64(chunk[16:])
	copy(c.Layout[:], chunk[24:])
	c.Hashes = chunk[headBytes:]
	if !(c.Begin >= 0 && c.Begin <= math.MaxFloat64) {
		return c, fmt.Errorf("calls: found a leg that begins at %v, want a finite epoch, 0 or later", c.Begin)
	}
	return c, nil
}

// callBytes is what a whole call takes (node.CallWholeBytes).
const callBytes = 16

// Limits are those of whole calls.
type Limits struct {
	Simprocs    int
	From, Until float64 // no epoch is before From, or at Until or later
}

// AppendWhole appends whole calls, as a node.CallLog has them.
func AppendWhole(dst []Call, data []byte, b Limits) ([]Call, error) {
	if len(data)%callBytes != 0 {
		return dst, fmt.Errorf("calls: found %d bytes, want %d for each call", len(data), callBytes)
	}
	for ; len(data) > 0; data = data[callBytes:] {
		c := Call{binary.LittleEndian.Uint32(data), binary.LittleEndian.Uint32(data[4:]),
			math.Float64frombits(binary.LittleEndian.Uint64(data[8:]))}
		if int64(c.Simproc) >= int64(b.Simprocs) || !(c.Epoch >= b.From && c.Epoch < b.Until) {
			return dst, fmt.Errorf("calls: found a call of simproc %d at epoch %v, want one of 0 to %d, from %v to "+
				"before %v", c.Simproc, c.Epoch, b.Simprocs-1, b.From, b.Until)
		}
		dst = append(dst, c)
	}
	return dst, nil
}
