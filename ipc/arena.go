// SPDX-License-Identifier: Apache-2.0

package ipc

import "github.com/disco-sim/disco/internal/invariants"

// arena is the memory of the small messages that Receive has taken out of the rings,
// in chunks that are used again when all messages in them have been released. One
// goroutine.
type arena struct {
	now  *chunk   // where copies go
	free []*chunk // all of chunkBytes
}

// chunk is one piece of an arena. Bytes in [0, used) belong to the messages.
type chunk struct {
	mem  []byte
	used int
	out  int // messages in it that aren't released
}

const (
	// chunkBytes: a sweep over a few rings of small messages fits, and the chunk
	// stays in the second-level cache.
	chunkBytes = 128 << 10
	// chunksFree is how many chunks are kept for later.
	chunksFree = 8
)

// copy takes a copy of data, which belongs to the caller until the chunk gets it back.
func (a *arena) copy(data []byte) ([]byte, *chunk) {
	size := (len(data) + 7) &^ 7
	if a.now == nil || size > len(a.now.mem)-a.now.used {
		a.next(size)
	}
	c := a.now
	mem := c.mem[c.used : c.used+len(data) : c.used+size]
	copy(mem, data)
	c.used += size
	c.out++
	return mem, c
}

// next makes room for size bytes in another chunk. The present one is returned by the release of its last message.
func (a *arena) next(size int) {
	if n := len(a.free); size <= chunkBytes && n > 0 {
		a.now, a.free = a.free[n-1], a.free[:n-1]
		return
	}
	a.now = &chunk{mem: make([]byte, max(size, chunkBytes))}
}

// release gives one message's copy back.
func (a *arena) release(c *chunk, data []byte) {
	if invariants.Enabled {
		invariants.Assert(c.out > 0, "ipc: chunk of %d bytes with %d messages out", len(c.mem), c.out)
		invariants.Mangle(data)
	}
	if c.out--; c.out > 0 {
		return
	}
	c.used = 0
	if c != a.now && len(c.mem) == chunkBytes && len(a.free) < chunksFree {
		a.free = append(a.free, c)
	}
}
