// SPDX-License-Identifier: Apache-2.0

package blobproc

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// Chunks of a checkpoint are often some hundred bytes, and a get from an object store takes some 30 ms: so more is read
// than was asked for, and kept for a while.
const (
	packFolder      = "packs/"  // blobs whose names are their digests: they don't change
	aheadBytesMax   = 64 << 20  // that are kept
	blockBytesMost  = 4 << 20   // that are read at once
	blockBytesLeast = 128 << 10 // where most of it isn't asked for
)

// ahead is what was read ahead of packs. Goroutines may share it.
type ahead struct {
	get func(ctx context.Context, name string, from, size int64, buf []byte) ([]byte, error)

	room, most, least int64 // the limits above, and less in tests

	mu     sync.Mutex
	blocks []*block // the one that was used last is the last
	bytes  int64
	next   int64 // how much to read at once
}

// newAhead has nothing yet.
func newAhead(get func(ctx context.Context, name string, from, size int64, buf []byte) ([]byte, error)) *ahead {
	return &ahead{get: get, room: aheadBytesMax, most: blockBytesMost, least: blockBytesLeast, next: blockBytesMost}
}

// block is a part of a pack.
type block struct {
	name string
	from int64
	data []byte
	end  bool  // the pack ends with it
	used int64 // bytes that were asked for
}

// read gives bytes of a pack, which it reads where they aren't there.
func (a *ahead) read(ctx context.Context, name string, from, size int64, buf []byte) ([]byte, error) {
	if !strings.HasPrefix(name, packFolder) || size >= a.most {
		return a.get(ctx, name, from, size, buf)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	at := slices.IndexFunc(a.blocks, func(b *block) bool {
		return b.name == name && b.from <= from && (b.end || from+size <= b.from+int64(len(b.data)))
	})
	if at >= 0 {
		b := a.blocks[at]
		a.blocks = append(slices.Delete(a.blocks, at, at+1), b)
		return append(buf[:0], b.part(from, size)...), nil
	}
	ask := max(size, a.next)
	data, err := a.get(ctx, name, from, ask, nil)
	if err != nil {
		return nil, err
	}
	b := &block{name: name, from: from, data: data, end: int64(len(data)) < ask}
	a.blocks, a.bytes = append(a.blocks, b), a.bytes+int64(len(data))
	for a.bytes > a.room {
		a.drop()
	}
	return append(buf[:0], b.part(from, size)...), nil
}

// drop forgets the block that was used longest ago. Where little of it was used, because chunks are read from more
// places than there is room for, less is read at once.
func (a *ahead) drop() {
	b := a.blocks[0]
	a.blocks[0] = nil
	a.blocks, a.bytes = a.blocks[1:], a.bytes-int64(len(b.data))
	if b.used < int64(len(b.data))/2 {
		a.next = max(a.next/2, a.least)
	} else {
		a.next = min(a.next*2, a.most)
	}
}

// clear forgets everything: what is written, or asked for anew, may have replaced a damaged pack.
func (a *ahead) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.blocks, a.bytes = nil, 0
}

// part is the part of a block, as much as there is of it.
func (b *block) part(from, size int64) []byte {
	begin := min(from-b.from, int64(len(b.data)))
	end := min(begin+size, int64(len(b.data)))
	b.used += end - begin
	return b.data[begin:end]
}
