// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import "fmt"

// PoolView is a reader's side of another worker's pool. It needs the memory for
// reading only. It trusts neither the reference, which a peer sent, nor the
// block's header, which the owner can write at any time: whatever they contain, the
// slice that View returns lies inside one block.
//
// A PoolView never changes: any goroutine may use it. It can't be used once its segment
// is closed.
type PoolView struct {
	body  []byte
	sizes []placedSize // a checked private copy of the table
}

// OpenPoolView reads the size table of the pool in body once and checks it.
// Errors unwrap to ErrPool.
func OpenPoolView(body []byte) (*PoolView, error) {
	sizes, err := readSizes(body)
	if err != nil {
		return nil, err
	}
	return &PoolView{body: body, sizes: sizes}, nil
}

// NewPoolView is OpenPoolView for a reader that knows the sizes with which the pool was formatted: it doesn't touch the
// body, so that a pool which no peer ever uses costs its readers no page tables. A table that says something
// else is the owner's trouble: the view stays inside the body all the same. Errors are those of PoolBytes, and ErrPool
// where the sizes don't fit into the body.
func NewPoolView(body []byte, sizes []BlockSize) (*PoolView, error) {
	placed, err := placeSizes(sizes)
	if err != nil {
		return nil, err
	}
	last := placed[len(placed)-1]
	if need := last.offset + int(last.count)*last.stride; len(body) < need || !aligned(body, blockAlign) {
		return nil, fmt.Errorf("%w: %d bytes at %p, want at least %d at a multiple of %d", ErrPool, len(body), body,
			need, blockAlign)
	}
	return &PoolView{body: body, sizes: placed}, nil
}

// View gives the first length bytes of the payload of block number, if the block
// is on loan seq. The slice is valid until the reader gives the block back to its
// owner; nothing may be written into it. A wrong reference is ErrBlockNumber,
// ErrBlockStale or ErrBlockLength.
func (v *PoolView) View(number, length uint32, seq uint64) ([]byte, error) {
	i := sizeOf(v.sizes, number)
	if i < 0 {
		last := &v.sizes[len(v.sizes)-1]
		return nil, fmt.Errorf("%w: block %d, the pool has %d", ErrBlockNumber, number, last.first+last.count)
	}
	c := &v.sizes[i]
	at := c.at(number)
	words := blockWordsAt(v.body, at)
	// SYNC POINT block-lent: the reference came through a lane, which orders the owner's
	// stores of both words, and of the payload, before these loads.
	if found := words.seq.Load(); found != seq || seq&1 == 0 {
		return nil, fmt.Errorf("%w: block %d is at seq %d, the reference has %d", ErrBlockStale, number, found, seq)
	}
	if size := uint32(words.loan.Load()); length > size || int(length) > c.payloadMax {
		return nil, fmt.Errorf("%w: %d bytes of block %d, which holds %d of at most %d", ErrBlockLength, length, number,
			size, c.payloadMax)
	}
	start := at + BlockHeaderBytes
	end := start + int(length)
	return v.body[start:end:end], nil
}

// PayloadMax is the largest payload that the pool can hold, bytes.
func (v *PoolView) PayloadMax() int { return v.sizes[len(v.sizes)-1].payloadMax }
