// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"sync"
	"sync/atomic"

	"github.com/disco-sim/disco/shm"
)

// blockMemory is memory for what a worker stands still for, outside the heap: what is taken of that has the garbage
// collector run meanwhile, and as much again is let lie as garbage later. All of it is given back at once.
//
// Fresh memory takes the system as long to give as states take to be encoded: 2.5 µs for a page of 4 KiB, of which huge
// pages need a third where there are some. So blocks are made ready beside the run. The first one is of small pages,
// because a small state would take 2 MiB of each huge one. One goroutine uses it, but for what makes blocks ready.
type blockMemory struct {
	blocks int    // that are in use
	left   []byte // of the last one that parts were taken of

	mu      sync.Mutex
	mapped  [][]byte // all
	ready   [][]byte // filled, and not in use
	making  bool     // blocks are made ready
	enough  atomic.Bool
	helper  sync.WaitGroup
	refused bool // no further blocks can be made ready
}

// blockBytes is what a block has.
const blockBytes = 16 << 20

// block is a block that nobody has. Where the system has no more to map, it is of the heap, which then says so.
func (m *blockMemory) block() []byte {
	m.blocks++
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.ready); n > 0 {
		mem := m.ready[n-1]
		m.ready = m.ready[:n-1]
		return mem
	}
	mem, err := shm.MapPrivate(blockBytes, m.blocks > 1)
	if err != nil {
		return make([]byte, blockBytes)
	}
	m.mapped = append(m.mapped, mem)
	return mem
}

// part is some bytes of a block, a power of two.
func (m *blockMemory) part(bytes int) []byte {
	if len(m.left) < bytes {
		m.left = m.block()
	}
	p := m.left[:bytes:bytes]
	m.left = m.left[bytes:]
	return p
}

// readyBytes is the memory of blocks that are ready.
func (m *blockMemory) readyBytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int64(len(m.ready)) * blockBytes
}

// makeReady has blocks made ready beside the run, until there are so many; they are given back by free only.
func (m *blockMemory) makeReady(blocks int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.making || m.refused || blocks <= len(m.ready) {
		return
	}
	m.making = true
	m.enough.Store(false)
	m.helper.Go(func() {
		for m.makeOne(blocks) {
		}
	})
}

// makeOne makes a block ready, and reports whether more are wanted.
func (m *blockMemory) makeOne(blocks int) bool {
	mem, err := shm.MapPrivate(blockBytes, true)
	filled := err == nil && shm.Fill(mem, func() bool { return !m.enough.Load() })
	m.mu.Lock()
	defer m.mu.Unlock()
	if filled {
		m.mapped, m.ready = append(m.mapped, mem), append(m.ready, mem)
	} else {
		if err == nil {
			_ = shm.UnmapPrivate(mem) // it was mapped
		}
		m.refused = !m.enough.Load()
	}
	m.making = filled && len(m.ready) < blocks
	return m.making
}

// rest ends what makes blocks ready.
func (m *blockMemory) rest() {
	m.enough.Store(true)
	m.helper.Wait()
}

// free gives all of it back. Nobody uses it any more.
func (m *blockMemory) free() {
	m.rest()
	for _, b := range m.mapped {
		_ = shm.UnmapPrivate(b) // it was mapped
	}
	m.mapped, m.ready, m.left, m.blocks = nil, nil, nil, 0
}
