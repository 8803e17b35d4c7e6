// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/disco-sim/disco/internal/invariants"
)

// Block is a block on loan, as its owner sees it.
type Block struct {
	Number uint32 // where it is, for the peer
	Seq    uint64 // which loan this is, for the peer: odd, and never again the same for this block
	Bytes  []byte // the memory, exactly the size that was asked for; valid until the block is free again
}

// Pool is the owner's side of a pool: it takes blocks out, hands them to peers by
// number, and takes them back. Which peer holds which block is kept in private memory;
// shared memory carries only what a reader needs to check a reference, and what
// inspection shows after a crash. So nothing that a peer writes, and no
// peer's death, can lose a block: ReclaimPeer takes back what it held.
//
// A Pool belongs to one goroutine at a time. It can't be used once its segment is
// closed.
type Pool struct {
	body   []byte                        // the shared memory
	sizes  []placedSize                  // immutable, rising in payload
	blocks []blockState                  // by number
	free   []uint32                      // by size: the block freed last, or noBlock
	ready  []uint32                      // by size: blocks that have been adopted, the first ones
	take   func(offset, bytes int) error // of the body, before it is touched; nil: it has all its memory
	skip   int                           // times that more memory is needed and not asked for
	skips  int                           // skip after the next refusal; 0: none since the last memory was taken
	stats  []BlockSizeStats              // by size
	header [PoolHeaderBytes]byte         // as formatted
	check  int                           // block that Check looks at next
}

// blockState is the owner's private state of one block.
type blockState struct {
	words     *blockWords // immutable; in shared memory; nil before it is adopted
	seq       uint64      // as in the header: odd on loan, even free
	next      uint32      // while free: next free block of its size, or noBlock
	peer      int32       // while on loan: who holds it, a peer or ownHands
	size      uint32      // while on loan: bytes asked for
	sizeIndex uint32      // immutable
}

const (
	noBlock  = ^uint32(0)
	ownHands = -1
)

// NewPool takes over the pool that FormatPool has written into body. All blocks
// are free afterwards; loans of an earlier owner become stale. Errors unwrap to
// ErrPool.
func NewPool(body []byte) (*Pool, error) {
	p, err := NewGrowingPool(body, nil)
	if err != nil {
		return nil, err
	}
	for i := range p.sizes {
		p.adopt(i, p.sizes[i].count)
	}
	return p, nil
}

// growBytes is how much memory a growing pool takes at a time, at least one block: 1 MiB is a system call of some
// 300 µs.
const growBytes = 1 << 20

// Asking for memory that there isn't takes 100 us and more: for every payload that would cost more than what it is for.
const (
	growSkips    = 64
	growSkipsMax = 4096
)

// NewGrowingPool is NewPool for a body of which only the first PoolHeaderBytes have memory. Alloc calls take for more,
// some blocks at a time, when it first needs them (Segment.Take). After an error the pool goes on with the blocks that
// it has, and asks again when it has needed more another growSkips times, twice as many after each further error, up to
// growSkipsMax. Memory that was taken is never given back.
//
// Loans of an earlier owner become stale only when their blocks are needed.
func NewGrowingPool(body []byte, take func(offset, bytes int) error) (*Pool, error) {
	sizes, err := readSizes(body)
	if err != nil {
		return nil, err
	}
	last := sizes[len(sizes)-1]
	p := &Pool{
		body:   body,
		header: [PoolHeaderBytes]byte(body),
		sizes:  sizes,
		blocks: make([]blockState, last.first+last.count),
		free:   make([]uint32, len(sizes)),
		ready:  make([]uint32, len(sizes)),
		take:   take,
		stats:  make([]BlockSizeStats, len(sizes)),
	}
	for i := range sizes {
		p.stats[i].BlockSize = BlockSize{BlockBytes: sizes[i].payloadMax, Count: int(sizes[i].count)}
		p.free[i] = noBlock
	}
	return p, nil
}

// adopt makes the next n blocks of size i free, whatever they were before.
func (p *Pool) adopt(i int, n uint32) {
	c := &p.sizes[i]
	first := c.first + p.ready[i]
	p.ready[i] += n
	for number := first + n - 1; number+1 > first; number-- { // backwards, so that the first block is on top
		at := c.at(number)
		b := &p.blocks[number]
		b.words = blockWordsAt(p.body, at)
		b.sizeIndex, b.peer = uint32(i), ownHands
		b.seq = (b.words.seq.Load() + 1) &^ 1 // even, and not before: a loan of the former owner ends
		b.words.seq.Store(b.seq)
		b.words.loan.Store(0)
		binary.LittleEndian.PutUint32(p.body[at+offsetBlockNumber:], number)
		b.next, p.free[i] = p.free[i], number
	}
}

// grow takes memory for more blocks of size i. It reports false when there are no more of them, or no
// memory, or where there was none a short while ago.
func (p *Pool) grow(i int) bool {
	c := &p.sizes[i]
	if p.take == nil || p.ready[i] == c.count {
		return false
	}
	if p.skip > 0 {
		p.skip--
		return false
	}
	n := min(c.count-p.ready[i], max(1, uint32(growBytes/c.stride)))
	if p.take(c.at(c.first+p.ready[i]), int(n)*c.stride) != nil {
		p.skips = min(max(growSkips, 2*p.skips), growSkipsMax)
		p.skip = p.skips
		return false
	}
	p.skips = 0
	p.adopt(i, n)
	return true
}

// Alloc takes a block for size bytes, of the smallest block size that fits. If no block
// of that size is free, it takes one of the next larger size and counts that as spilled:
// otherwise the sender would wait although memory is free. It goes no further
// than one size up, so that a burst of small payloads can't take the few blocks that
// the largest ones need.
//
// No block left is ErrExhausted; a payload that no size can hold is ErrTooLarge.
// The contents of the block are whatever its last loan left there. The block
// freed last is handed out first, while it is still in the cache.
func (p *Pool) Alloc(size int) (Block, error) {
	i := 0
	for i < len(p.sizes) && size > p.sizes[i].payloadMax {
		i++
	}
	if i == len(p.sizes) || size < 0 {
		return Block{}, p.tooLarge(size)
	}
	number, from := p.free[i], i
	if number == noBlock {
		number, from = p.further(i)
	}
	if number == noBlock {
		p.stats[i].Exhausted++
		return Block{}, ErrExhausted
	}
	if from != i {
		p.stats[i].Spilled++
	}
	return p.lend(number, from, size), nil
}

// further finds a block for a payload of size i when none of that size is free: a new one, or one of the next size.
func (p *Pool) further(i int) (number uint32, from int) {
	if p.grow(i) || i+1 == len(p.sizes) {
		return p.free[i], i
	}
	if p.free[i+1] == noBlock {
		p.grow(i + 1)
	}
	return p.free[i+1], i + 1
}

// lend takes the block of size i that was freed last.
func (p *Pool) lend(number uint32, i, size int) Block {
	b := &p.blocks[number]
	if invariants.Enabled {
		invariants.Assert(b.seq&1 == 0 && int(b.sizeIndex) == i, "shm: free block %d of size %d has seq %d and size %d",
			number, i, b.seq, b.sizeIndex)
	}
	p.free[i] = b.next
	b.seq++
	b.size, b.peer, b.next = uint32(size), ownHands, noBlock
	// SYNC POINT block-lent: both words are stored before the owner publishes a
	// reference to the block, which a reader has acquired when it calls View.
	b.words.loan.Store(packLoan(b.size, ownHands))
	b.words.seq.Store(b.seq)
	st := &p.stats[i]
	st.Allocated++
	st.InFlight++
	st.InFlightMax = max(st.InFlightMax, st.InFlight)
	start := p.sizes[i].at(number) + BlockHeaderBytes
	end := start + size
	return Block{Number: number, Seq: b.seq, Bytes: p.body[start:end:end]}
}

// tooLarge is Alloc's error for a payload that fits no block.
func (p *Pool) tooLarge(size int) error {
	if size < 0 {
		panic(fmt.Sprintf("shm: Alloc of %d bytes", size))
	}
	return fmt.Errorf("%w: %d bytes, the largest block holds %d: use a larger pool", ErrTooLarge, size, p.PayloadMax())
}

// Lend notes that a peer (0, 1, 2, …) now holds the block. The caller has just
// taken it out; anything else is our own bug, and panics.
func (p *Pool) Lend(number uint32, peer int) {
	if int64(number) >= int64(len(p.blocks)) || p.blocks[number].seq&1 == 0 || peer < 0 || peer > 1<<30 {
		panic(fmt.Sprintf("shm: lending block %d to peer %d, of %d blocks: not on loan", number, peer, len(p.blocks)))
	}
	b := &p.blocks[number]
	b.peer = int32(peer)
	b.words.loan.Store(packLoan(b.size, int32(peer)))
}

// Free takes a block back, from any holder. Number and seq may come from a peer: a wrong one is ErrBlockNumber,
// ErrBlockStale or ErrBlockFree, and nothing has changed.
func (p *Pool) Free(number uint32, seq uint64) error {
	b, err := p.onLoan(number, seq)
	if err != nil {
		return err
	}
	p.stats[b.sizeIndex].Returned++
	p.release(number, b)
	return nil
}

// FreeFrom is Free for a block that comes back from a peer: a block that this
// peer doesn't hold is ErrBlockHolder, so that one peer can't free what another
// one is reading.
func (p *Pool) FreeFrom(peer int, number uint32, seq uint64) error {
	b, err := p.onLoan(number, seq)
	if err != nil {
		return err
	}
	if int(b.peer) != peer {
		return fmt.Errorf("%w: peer %d gives back block %d (seq %d), which %s holds", ErrBlockHolder, peer, number, seq,
			holderName(b.peer))
	}
	p.stats[b.sizeIndex].Returned++
	p.release(number, b)
	return nil
}

// onLoan finds the block that a reference names, if it is on that loan now.
func (p *Pool) onLoan(number uint32, seq uint64) (*blockState, error) {
	if int64(number) >= int64(len(p.blocks)) {
		return nil, fmt.Errorf("%w: block %d, the pool has %d", ErrBlockNumber, number, len(p.blocks))
	}
	b := &p.blocks[number]
	if b.seq == seq && seq&1 == 1 {
		return b, nil
	}
	if b.seq&1 == 0 && seq+1 == b.seq {
		return nil, fmt.Errorf("%w: block %d, loan %d", ErrBlockFree, number, seq)
	}
	return nil, fmt.Errorf("%w: block %d is at seq %d, the reference has %d", ErrBlockStale, number, b.seq, seq)
}

// release ends a loan. From here on a reader's reference is stale.
func (p *Pool) release(number uint32, b *blockState) {
	c := &p.sizes[b.sizeIndex]
	if invariants.Enabled {
		start := c.at(number) + BlockHeaderBytes
		invariants.Mangle(p.body[start : start+c.payloadMax])
	}
	b.seq++
	b.words.seq.Store(b.seq)
	b.peer = ownHands
	b.next, p.free[b.sizeIndex] = p.free[b.sizeIndex], number
	p.stats[b.sizeIndex].InFlight--
}

// ReclaimPeer takes back every block that the peer holds and returns their
// number. The caller knows that the peer is dead, or reads none of them any more:
// a peer that still reads would see the next payload. It visits every block, about
// 1 ns each.
func (p *Pool) ReclaimPeer(peer int) int {
	return p.reclaim(func(b *blockState) bool { return int(b.peer) == peer && peer >= 0 })
}

// ReclaimAll takes back every block, also those that the owner itself still
// holds: for the start of a new run over the same memory.
func (p *Pool) ReclaimAll() int {
	return p.reclaim(func(*blockState) bool { return true })
}

func (p *Pool) reclaim(mine func(*blockState) bool) (blocks int) {
	for number := range p.blocks {
		if b := &p.blocks[number]; b.seq&1 == 1 && mine(b) {
			p.stats[b.sizeIndex].Reclaimed++
			p.release(uint32(number), b)
			blocks++
		}
	}
	return blocks
}

// Check compares the pool's table, and the words of one block after the other, one in each call, with what the
// owner wrote there: ErrPool means that another process has overwritten them. Readers refuse what they find then,
// and an owner that never looks doesn't know why. Call it when there is nothing else to do.
func (p *Pool) Check() error {
	if !bytes.Equal(p.body[:PoolHeaderBytes], p.header[:]) {
		return fmt.Errorf("%w: its table was overwritten", ErrPool)
	}
	if p.check++; p.check >= len(p.blocks) {
		p.check = 0
	}
	b := &p.blocks[p.check]
	if b.words == nil {
		return nil // not needed so far
	}
	seq, loan := b.words.seq.Load(), b.words.loan.Load()
	if seq != b.seq || seq&1 == 1 && loan != packLoan(b.size, b.peer) {
		return fmt.Errorf("%w: the words of block %d were overwritten: seq %d and loan %#x, want seq %d", ErrPool,
			p.check, seq, loan, b.seq)
	}
	return nil
}

// PayloadMax is the largest payload that Alloc can ever serve, bytes.
func (p *Pool) PayloadMax() int { return p.sizes[len(p.sizes)-1].payloadMax }

// holderName describes the holder of a block for messages.
func holderName(peer int32) string {
	if peer == ownHands {
		return "its owner"
	}
	return fmt.Sprintf("peer %d", peer)
}
