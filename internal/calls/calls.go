// SPDX-License-Identifier: Apache-2.0

// Package calls has the journal of activations: what each call of a handler has come to, by which a run is compared
// with another.
//
// Guarantee: whatever bytes a chunk has, nothing is read beyond them, and an error says which call, what was found and
// what is wanted. Two sets of calls are equal where they have the same simprocs, epochs and hashes, in whatever order
// they come; else the first difference in the total order is found.
//
//	chunk, from := calls.Encode(nil, log)          // of a node.CallLog
//	was, err := calls.Decode(nil, chunk, bounds)
//	d, err := c.Compare(was, is)
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

// A chunk is u32 version, u32 calls, and their bytes plane by plane: first that of byte 0 of all calls, then that of
// byte 1, and so on. Neighbours are alike in most planes, which is what makes a chunk smaller, and quick to compress.
const (
	version   = 1
	callBytes = 16
	headBytes = 8

	// Most is how many calls a chunk has, at most.
	Most = 1 << 20
)

// Count is how many calls a chunk of so many bytes has; false: there is none of that size.
func Count(bytes int64) (n int64, ok bool) {
	n = (bytes - headBytes) / callBytes
	return n, n >= 1 && n <= Most && bytes == headBytes+n*callBytes
}

// Encode appends a chunk of 1 to Most calls, as node.CallLog has them, and gives their least epoch.
func Encode(dst, calls []byte) (chunk []byte, from float64) {
	n := len(calls) / callBytes
	dst = binary.LittleEndian.AppendUint32(dst, version)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
	at := len(dst)
	dst = append(dst, calls...) // for its size
	planes := dst[at:]
	least := uint64(math.MaxUint64)
	i := 0
	for ; i+8 <= n; i += 8 {
		var a, b [8]uint64
		for k := range 8 {
			c := calls[(i+k)*callBytes:][:callBytes]
			a[k], b[k] = binary.LittleEndian.Uint64(c), binary.LittleEndian.Uint64(c[8:])
			least = min(least, b[k]) // of numbers >= 0, the least bits
		}
		transpose(&a)
		transpose(&b)
		for k := range 8 {
			binary.LittleEndian.PutUint64(planes[k*n+i:], a[k])
			binary.LittleEndian.PutUint64(planes[(8+k)*n+i:], b[k])
		}
	}
	for ; i < n; i++ {
		c := calls[i*callBytes:][:callBytes]
		least = min(least, binary.LittleEndian.Uint64(c[8:]))
		for k, x := range c {
			planes[k*n+i] = x
		}
	}
	return dst, math.Float64frombits(least)
}

// transpose has byte i of word k become byte k of word i: squares of 4, then 2, then 1 byte change places. It is
// spelled out because loops take three times as long.
func transpose(w *[8]uint64) {
	const four, two, one = 0x00000000FFFFFFFF, 0x0000FFFF0000FFFF, 0x00FF00FF00FF00FF
	w[0], w[4] = swap(w[0], w[4], 32, four)
	w[1], w[5] = swap(w[1], w[5], 32, four)
	w[2], w[6] = swap(w[2], w[6], 32, four)
	w[3], w[7] = swap(w[3], w[7], 32, four)
	w[0], w[2] = swap(w[0], w[2], 16, two)
	w[1], w[3] = swap(w[1], w[3], 16, two)
	w[4], w[6] = swap(w[4], w[6], 16, two)
	w[5], w[7] = swap(w[5], w[7], 16, two)
	w[0], w[1] = swap(w[0], w[1], 8, one)
	w[2], w[3] = swap(w[2], w[3], 8, one)
	w[4], w[5] = swap(w[4], w[5], 8, one)
	w[6], w[7] = swap(w[6], w[7], 8, one)
}

// swap has the high parts of a and the low parts of b change places; the mask has the low ones.
func swap(a, b uint64, shift uint, mask uint64) (uint64, uint64) {
	x := (a>>shift ^ b) & mask
	return a ^ x<<shift, b ^ x
}

// Limits are those of the calls of a chunk.
type Limits struct {
	Simprocs    int
	From, Until float64 // no epoch is before From, or at Until or later
}

// Decode appends the calls of a chunk.
func Decode(dst []Call, chunk []byte, b Limits) ([]Call, error) {
	n, ok := Count(int64(len(chunk)))
	if !ok {
		return dst, fmt.Errorf("calls: found a chunk of %d bytes, want %d and %d for each of 1 to %d calls", len(chunk),
			headBytes, callBytes, Most)
	}
	if v, k := binary.LittleEndian.Uint32(chunk), binary.LittleEndian.Uint32(chunk[4:]); v != version ||
		int64(k) != n {
		return dst, fmt.Errorf("calls: found a chunk of version %d with %d calls, want version %d with %d", v, k,
			version, n)
	}
	planes := chunk[headBytes:]
	for i := range int(n) {
		var c [callBytes]byte
		for k := range c {
			c[k] = planes[k*int(n)+i]
		}
		call := Call{Simproc: binary.LittleEndian.Uint32(c[:]), Hash: binary.LittleEndian.Uint32(c[4:]),
			Epoch: math.Float64frombits(binary.LittleEndian.Uint64(c[8:]))}
		if int64(call.Simproc) >= int64(b.Simprocs) || !(call.Epoch >= b.From && call.Epoch < b.Until) {
			return dst, fmt.Errorf("calls: call %d: found simproc %d at epoch %v, want one of 0 to %d, from %v to "+
				"before %v", i, call.Simproc, call.Epoch, b.Simprocs-1, b.From, b.Until)
		}
		dst = append(dst, call)
	}
	return dst, nil
}
