// SPDX-License-Identifier: Apache-2.0

package session

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/disco-sim/disco/internal/invariants"
)

// Buffer is the memory of one message to be sent. It is counted: the resend buffer and a connection share it, and
// whoever frees it last returns it to the session.
type Buffer struct {
	data []byte // as large as its class
	size int
	refs atomic.Int32
	pool *pool
}

// Bytes are the message. Nobody writes them any more.
func (b *Buffer) Bytes() []byte { return b.data[:b.size] }

// Ref adds an owner.
func (b *Buffer) Ref() { b.refs.Add(1) }

// Free removes an owner, who doesn't read Bytes any more.
func (b *Buffer) Free() {
	if n := b.refs.Add(-1); n == 0 {
		b.pool.put(b)
	} else if n < 0 {
		panic("session: a buffer was freed more often than it has owners")
	}
}

// classes are the sizes of buffers. One message of MessageBytes fits the fourth, and so does a part of a payload of
// 64 KiB with its headers.
var classes = [...]int{1 << 10, 4 << 10, 16 << 10, 68 << 10, messageMax}

// classOf gives the index of the smallest class that holds a size.
func classOf(size int) int {
	return slices.IndexFunc(classes[:], func(c int) bool { return size <= c })
}

// pool keeps freed buffers, so that sending allocates nothing in the long run.
type pool struct {
	mu    sync.Mutex
	free  [len(classes)][]*Buffer
	spare int // bytes in free
	most  int // of spare
}

func (p *pool) get(size int) *Buffer {
	c := classOf(size)
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.free[c])
	if n == 0 {
		b := &Buffer{data: make([]byte, classes[c]), size: size, pool: p}
		b.refs.Store(1)
		return b
	}
	b := p.free[c][n-1]
	p.free[c] = p.free[c][:n-1]
	p.spare -= len(b.data)
	b.size = size
	b.refs.Store(1)
	return b
}

func (p *pool) put(b *Buffer) {
	if invariants.Enabled {
		invariants.Mangle(b.data)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spare+len(b.data) <= p.most {
		c := classOf(len(b.data))
		p.free[c] = append(p.free[c], b)
		p.spare += len(b.data)
	}
}
