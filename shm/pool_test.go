// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/internal/seed"
)

// mustPool formats a pool in heap memory, so that the race detector sees it.
func mustPool(t testing.TB, sizes []BlockSize) (*Pool, *PoolView) {
	t.Helper()
	size, err := PoolBytes(sizes)
	if err != nil {
		t.Fatal(err)
	}
	body := mustHeap(t, size).Body()
	if err := FormatPool(body, sizes); err != nil {
		t.Fatal(err)
	}
	p, err := NewPool(body)
	if err != nil {
		t.Fatal(err)
	}
	v, err := OpenPoolView(body)
	if err != nil {
		t.Fatal(err)
	}
	return p, v
}

// fill writes a pattern that belongs to one loan of one block. Check visits the blocks in turn and finds each word
// of the owner's that another process has overwritten.
func TestCheckPool(t *testing.T) {
	sizes := []BlockSize{{BlockBytes: 100, Count: 2}, {BlockBytes: 300, Count: 1}}
	at := func(p *Pool, block int) int { return int(p.sizes[sizeOf(p.sizes, uint32(block))].at(uint32(block))) }
	for what, spoil := range map[string]func(p *Pool) int{
		"nothing": nil,
		"magic":   func(*Pool) int { return offsetPoolMagic },
		"table": func(*Pool) int {
			return offsetPoolTable + sizeEntryBytes + offsetSizeStride
		},
		"seq of a block on loan":                 func(p *Pool) int { return at(p, 0) + offsetBlockSeq },
		"holder of a block on loan":              func(p *Pool) int { return at(p, 0) + offsetBlockLoan + 4 },
		"seq of a free block":                    func(p *Pool) int { return at(p, 2) + offsetBlockSeq },
		"loan of a free block, which is nothing": func(p *Pool) int { return at(p, 1) + offsetBlockLoan },
	} {
		p, _ := mustPool(t, sizes)
		b, err := p.Alloc(50)
		if err != nil {
			t.Fatal(err)
		}
		p.Lend(b.Number, 3)
		if spoil != nil {
			p.body[spoil(p)] ^= 4
		}
		var found error
		for range 3 {
			found = errors.Join(found, p.Check())
		}
		if harmless := spoil == nil || strings.Contains(what, "nothing"); (found == nil) != harmless || found != nil &&
			!errors.Is(found, ErrPool) {
			t.Errorf("%s: %v", what, found)
		}
	}
}

func fill(b Block) {
	for i := range b.Bytes {
		b.Bytes[i] = byte(uint64(b.Number)*31 + b.Seq*17 + uint64(i)*7)
	}
}

func checkFill(t testing.TB, b Block, got []byte) {
	t.Helper()
	if len(got) != len(b.Bytes) || cap(got) != len(got) {
		t.Fatalf("block %d: view of %d bytes (cap %d), want %d", b.Number, len(got), cap(got), len(b.Bytes))
	}
	for i := range got {
		if want := byte(uint64(b.Number)*31 + b.Seq*17 + uint64(i)*7); got[i] != want {
			t.Fatalf("block %d seq %d: byte %d is %#x, want %#x", b.Number, b.Seq, i, got[i], want)
		}
	}
}

func TestPoolLife(t *testing.T) {
	p, v := mustPool(t, []BlockSize{{100, 2}, {1000, 1}})
	if p.PayloadMax() != 1000 || v.PayloadMax() != 1000 {
		t.Fatalf("largest payload %d and %d", p.PayloadMax(), v.PayloadMax())
	}
	b, err := p.Alloc(50)
	if err != nil || len(b.Bytes) != 50 || cap(b.Bytes) != 50 || b.Seq != 1 || !aligned(b.Bytes, blockAlign) {
		t.Fatalf("%+v, %v", b, err)
	}
	fill(b)
	p.Lend(b.Number, 3)
	got, err := v.View(b.Number, 50, b.Seq)
	if err != nil {
		t.Fatal(err)
	}
	checkFill(t, b, got)
	if got, err := v.View(b.Number, 0, b.Seq); err != nil || len(got) != 0 {
		t.Fatalf("nothing of a block: %d bytes, %v", len(got), err)
	}
	for what, c := range map[string]struct {
		number, length uint32
		seq            uint64
		err            error
	}{
		"next number":  {3, 1, 1, ErrBlockNumber},
		"last number":  {^uint32(0), 1, 1, ErrBlockNumber},
		"more":         {b.Number, 51, 1, ErrBlockLength},
		"much more":    {b.Number, ^uint32(0), 1, ErrBlockLength},
		"earlier loan": {b.Number, 1, ^uint64(0), ErrBlockStale},
		"later loan":   {b.Number, 1, 3, ErrBlockStale},
		"free":         {b.Number, 1, 0, ErrBlockStale},
		"other block":  {1, 1, 1, ErrBlockStale},
		"seq of free":  {1, 0, 0, ErrBlockStale},
	} {
		if got, err := v.View(c.number, c.length, c.seq); !errors.Is(err, c.err) || got != nil {
			t.Errorf("view, %s: %v, %v, want %v", what, got, err, c.err)
		}
	}
	for what, c := range map[string]struct {
		peer   int
		number uint32
		seq    uint64
		err    error
	}{
		"other peer":  {2, b.Number, 1, ErrBlockHolder},
		"the owner":   {ownHands, b.Number, 1, ErrBlockHolder},
		"next number": {3, 3, 1, ErrBlockNumber},
		"last number": {3, ^uint32(0), 1, ErrBlockNumber},
		"stale":       {3, b.Number, 3, ErrBlockStale},
		"never lent":  {3, 1, 0, ErrBlockStale},
	} {
		if err := p.FreeFrom(c.peer, c.number, c.seq); !errors.Is(err, c.err) {
			t.Errorf("free, %s: %v, want %v", what, err, c.err)
		}
	}
	if err := p.FreeFrom(3, b.Number, b.Seq); err != nil {
		t.Fatal(err)
	}
	if err := p.Free(b.Number, b.Seq); !errors.Is(err, ErrBlockFree) {
		t.Fatalf("second free: %v", err)
	}
	if _, err := v.View(b.Number, 1, b.Seq); !errors.Is(err, ErrBlockStale) {
		t.Fatalf("view of a free block: %v", err)
	}
	c, err := p.Alloc(100)
	if err != nil || c.Number != b.Number || c.Seq != b.Seq+2 {
		t.Fatalf("the block freed last comes first: %+v, %v", c, err)
	}
	if err := p.Free(b.Number, b.Seq); !errors.Is(err, ErrBlockStale) {
		t.Fatalf("free of an earlier loan: %v", err)
	}
}

// A size that is empty lets the next one serve, and no further one.
func TestPoolSpill(t *testing.T) {
	p, _ := mustPool(t, []BlockSize{{100, 1}, {200, 2}, {400, 1}})
	var got []uint32
	for range 3 {
		b, err := p.Alloc(10)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, b.Number)
	}
	if !slices.Equal(got, []uint32{0, 1, 2}) {
		t.Errorf("blocks %v", got)
	}
	if _, err := p.Alloc(10); err != ErrExhausted {
		t.Errorf("small payload with only the largest block left: %v", err)
	}
	b, err := p.Alloc(101)
	if err != nil || b.Number != 3 {
		t.Errorf("middle payload: %+v, %v", b, err)
	}
	if _, err := p.Alloc(400); err != ErrExhausted {
		t.Errorf("large payload: %v", err)
	}
	_, err = p.Alloc(401)
	if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "401") || !strings.Contains(err.Error(), "400") {
		t.Errorf("too large: %v", err)
	}
	s := p.Stats()
	if c := s.BlockSizes[0]; c.Spilled != 2 || c.Exhausted != 1 || c.InFlight != 1 {
		t.Errorf("small size %+v", c)
	}
	if c := s.Total; c.InFlight != 4 || c.Allocated != 4 || c.Spilled != 3 || c.Exhausted != 2 || c.Count != 4 ||
		c.BlockBytes != 900 || c.InFlightMax != 4 {
		t.Errorf("total %+v", c)
	}
	if n := p.ReclaimAll(); n != 4 {
		t.Errorf("took back %d", n)
	}
	if c := p.Stats().Total; c.InFlight != 0 || c.Reclaimed != 4 || c.Returned != 0 || c.InFlightMax != 4 {
		t.Errorf("total %+v", c)
	}
}

// A dead peer's blocks come back; those of the others don't.
func TestPoolReclaim(t *testing.T) {
	p, v := mustPool(t, []BlockSize{{64, 8}})
	var blocks []Block
	for i := range 8 {
		b, err := p.Alloc(64)
		if err != nil {
			t.Fatal(err)
		}
		if i < 7 { // the last one stays in our own hands
			p.Lend(b.Number, i%3)
		}
		blocks = append(blocks, b)
	}
	if n := p.ReclaimPeer(ownHands); n != 0 {
		t.Errorf("took back %d from nobody", n)
	}
	if n := p.ReclaimPeer(1); n != 2 {
		t.Errorf("took back %d", n)
	}
	if n := p.ReclaimPeer(1); n != 0 {
		t.Errorf("took back %d more", n)
	}
	for i, b := range blocks {
		_, err := v.View(b.Number, 64, b.Seq)
		if gone := i%3 == 1 && i < 7; gone != errors.Is(err, ErrBlockStale) {
			t.Errorf("block %d: %v", i, err)
		}
	}
	if err := p.FreeFrom(1, blocks[1].Number, blocks[1].Seq); !errors.Is(err, ErrBlockFree) {
		t.Errorf("late free by the dead: %v", err)
	}
}

func TestPoolOwnBugs(t *testing.T) {
	p, _ := mustPool(t, []BlockSize{{64, 2}})
	b, _ := p.Alloc(1)
	for what, f := range map[string]func(){
		"negative size": func() { p.Alloc(-1) },
		"lend free":     func() { p.Lend(1-b.Number, 0) },
		"lend beyond":   func() { p.Lend(2, 0) },
		"lend nobody":   func() { p.Lend(b.Number, -1) },
		"tiny body":     func() { wordAt64(make([]byte, 8), 1) },
		"odd word":      func() { wordAt64(make([]byte, 64), 4) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", what)
				}
			}()
			f()
		}()
	}
}

// A pool that is taken over by a new owner makes all former loans stale.
func TestPoolTakenOver(t *testing.T) {
	sizes := []BlockSize{{64, 3}}
	size, _ := PoolBytes(sizes)
	body := mustHeap(t, size).Body()
	if err := FormatPool(body, sizes); err != nil {
		t.Fatal(err)
	}
	first, _ := NewPool(body)
	wordAt64(body, first.sizes[0].at(1)).Store(math.MaxUint64 - 1) // next to the wrap-around
	first, _ = NewPool(body)
	var old []Block
	for range 2 {
		b, _ := first.Alloc(64)
		old = append(old, b)
	}
	if old[1].Seq != math.MaxUint64 {
		t.Fatalf("seq %d", old[1].Seq)
	}
	second, err := NewPool(body)
	if err != nil {
		t.Fatal(err)
	}
	v, _ := OpenPoolView(body)
	for _, b := range old {
		if _, err := v.View(b.Number, 1, b.Seq); !errors.Is(err, ErrBlockStale) {
			t.Errorf("block %d: %v", b.Number, err)
		}
		if err := second.Free(b.Number, b.Seq); !errors.Is(err, ErrBlockFree) {
			t.Errorf("block %d: %v", b.Number, err)
		}
	}
	for range 3 {
		b, err := second.Alloc(64)
		if err != nil {
			t.Fatal(err)
		}
		fill(b)
		got, err := v.View(b.Number, 64, b.Seq)
		if err != nil {
			t.Fatal(err)
		}
		checkFill(t, b, got)
	}
}

// referencePool does what Pool promises in the plainest way: one list of blocks, looked
// through from end to end.
type referencePool struct {
	sizes  []BlockSize
	blocks []referenceBlock
	clock  int
}

type referenceBlock struct {
	sizeIndex, peer int
	loan            uint64 // number of its latest loan; a block that was never lent is as if loan 0 had ended
	free            bool
	freed           int // when
}

func newReferencePool(sizes []BlockSize) *referencePool {
	d := &referencePool{sizes: sizes}
	for i, c := range sizes {
		for range c.Count {
			d.clock--
			d.blocks = append(d.blocks, referenceBlock{sizeIndex: i, free: true, freed: d.clock})
		}
	}
	d.clock = 0
	return d
}

// alloc gives the number of the block, or the error.
func (d *referencePool) alloc(size int) (int, error) {
	fits := slices.IndexFunc(d.sizes, func(c BlockSize) bool { return size <= c.BlockBytes })
	if fits < 0 {
		return 0, ErrTooLarge
	}
	for i := fits; i <= fits+1; i++ {
		best := -1
		for n, b := range d.blocks {
			if b.sizeIndex == i && b.free && (best < 0 || b.freed > d.blocks[best].freed) {
				best = n
			}
		}
		if best >= 0 {
			b := &d.blocks[best]
			b.free, b.peer = false, ownHands
			b.loan++
			return best, nil
		}
	}
	return 0, ErrExhausted
}

// anyPeer returns a block by Free, which asks for no holder.
const anyPeer = -2

func (d *referencePool) giveBack(peer, number int, loan uint64) error {
	if number >= len(d.blocks) {
		return ErrBlockNumber
	}
	b := &d.blocks[number]
	switch {
	case loan != b.loan:
		return ErrBlockStale
	case b.free:
		return ErrBlockFree
	case peer != anyPeer && peer != b.peer:
		return ErrBlockHolder
	}
	d.end(b)
	return nil
}

func (d *referencePool) end(b *referenceBlock) {
	d.clock++
	b.free, b.freed = true, d.clock
}

func (d *referencePool) reclaim(peer int) (n int) {
	for i := range d.blocks {
		if b := &d.blocks[i]; !b.free && b.peer == peer {
			d.end(b)
			n++
		}
	}
	return n
}

// seqOf is the seq in a reference to the loan, as Pool counts it.
func seqOf(loan uint64) uint64 { return 2*loan - 1 }

// poolPair runs both pools side by side.
type poolPair struct {
	t         testing.TB
	fast      *Pool
	view      *PoolView
	reference *referencePool
	out       map[int]Block // on loan, by number
}

func newPoolPair(t testing.TB, sizes []BlockSize) *poolPair {
	p, v := mustPool(t, sizes)
	return &poolPair{t: t, fast: p, view: v, reference: newReferencePool(sizes), out: map[int]Block{}}
}

func (p *poolPair) alloc(size int) {
	b, err := p.fast.Alloc(size)
	number, want := p.reference.alloc(size)
	if !errors.Is(err, want) || err == nil &&
		(int(b.Number) != number || b.Seq != seqOf(p.reference.blocks[number].loan) || len(b.Bytes) != size) {
		p.t.Fatalf("Alloc(%d): block %d seq %d, %v; want block %d, %v", size, b.Number, b.Seq, err, number, want)
	}
	if err == nil {
		fill(b)
		p.out[number] = b
	}
}

func (p *poolPair) lend(number, peer int) {
	if b, ok := p.out[number]; ok {
		p.fast.Lend(b.Number, peer)
		p.reference.blocks[number].peer = peer
	}
}

func (p *poolPair) giveBack(peer, number int, loan uint64) {
	b, out := p.out[number]
	if out && b.Seq == seqOf(loan) {
		p.see(b)
	}
	var err error
	if peer == anyPeer {
		err = p.fast.Free(uint32(number), seqOf(loan))
	} else {
		err = p.fast.FreeFrom(peer, uint32(number), seqOf(loan))
	}
	want := p.reference.giveBack(peer, number, loan)
	if !errors.Is(err, want) {
		p.t.Fatalf("peer %d gives back block %d loan %d: %v, want %v", peer, number, loan, err, want)
	}
	if err == nil {
		delete(p.out, number)
	}
}

// see checks that a block on loan still holds what was put there.
func (p *poolPair) see(b Block) {
	got, err := p.view.View(b.Number, uint32(len(b.Bytes)), b.Seq)
	if err != nil {
		p.t.Fatal(err)
	}
	checkFill(p.t, b, got)
}

func (p *poolPair) reclaim(peer int) {
	n, want := p.fast.ReclaimPeer(peer), p.reference.reclaim(peer)
	if n != want {
		p.t.Fatalf("took back %d of peer %d, want %d", n, peer, want)
	}
	for number := range p.out {
		if p.reference.blocks[number].free {
			delete(p.out, number)
		}
	}
}

// check compares everything that can be seen of the two.
func (p *poolPair) check() {
	inFlight := make([]uint64, len(p.reference.sizes))
	for number, d := range p.reference.blocks {
		b, out := p.out[number]
		if out == d.free {
			p.t.Fatalf("block %d: on loan %v, reference pool has free %v", number, out, d.free)
		}
		if out {
			inFlight[d.sizeIndex]++
			p.see(b)
		} else if _, err := p.view.View(uint32(number), 0, seqOf(d.loan)); !errors.Is(err, ErrBlockStale) {
			p.t.Fatalf("free block %d can be viewed: %v", number, err)
		}
	}
	for i, c := range p.fast.Stats().BlockSizes {
		if c.InFlight != inFlight[i] || c.Allocated-c.Returned-c.Reclaimed != inFlight[i] {
			p.t.Fatalf("size %d: %+v, but %d are on loan", i, c, inFlight[i])
		}
	}
}

// Long random histories.
func TestPoolAgainstReference(t *testing.T) {
	rng := seed.Rand(t)
	for range 20 {
		var sizes []BlockSize
		size := 0
		for range 1 + rng.IntN(4) {
			size += 1 + rng.IntN(300)
			sizes = append(sizes, BlockSize{size, 1 + rng.IntN(6)})
		}
		p := newPoolPair(t, sizes)
		for step := range 3000 {
			p.randomStep(rng, size)
			if step%16 == 0 {
				p.check()
			}
		}
		p.check()
	}
}

func (p *poolPair) randomStep(rng *rand.Rand, largest int) {
	number := rng.IntN(len(p.reference.blocks) + 1)
	loan := uint64(0)
	if number < len(p.reference.blocks) {
		loan = p.reference.blocks[number].loan + uint64(rng.IntN(8)/6) - uint64(rng.IntN(8)/6)
	}
	switch k := rng.IntN(100); {
	case k < 50:
		p.alloc(rng.IntN(largest + 2))
	case k < 65:
		p.lend(number, rng.IntN(3))
	case k < 80:
		p.giveBack(anyPeer, number, loan)
	case k < 97:
		p.giveBack(rng.IntN(4)-1, number, loan)
	default:
		p.reclaim(rng.IntN(3))
	}
}

// Every history of five steps over two small blocks and a larger one.
func TestPoolAllSmallHistories(t *testing.T) {
	sizes := []BlockSize{{8, 2}, {16, 1}}
	latest := func(p *poolPair, number int) uint64 { return p.reference.blocks[number].loan }
	steps := []func(p *poolPair){
		func(p *poolPair) { p.alloc(8) },
		func(p *poolPair) { p.alloc(16) },
		func(p *poolPair) { p.lend(0, 0); p.lend(1, 1); p.lend(2, 0) },
		func(p *poolPair) { p.giveBack(anyPeer, 0, latest(p, 0)) },
		func(p *poolPair) { p.giveBack(1, 1, latest(p, 1)) },
		func(p *poolPair) { p.giveBack(0, 2, latest(p, 2)) },
		func(p *poolPair) { p.giveBack(anyPeer, 0, latest(p, 0)-1) },
		func(p *poolPair) { p.reclaim(0) },
	}
	const length = 5
	total := 1
	for range length {
		total *= len(steps)
	}
	for history := range total {
		p := newPoolPair(t, sizes)
		for h, k := history, 0; k < length; h, k = h/len(steps), k+1 {
			steps[h%len(steps)](p)
		}
		p.check()
	}
}

func TestPoolAllocates(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checked build allocates the arguments of its assertions")
	}
	p, v := mustPool(t, []BlockSize{{100, 4}, {1000, 4}})
	if n := testing.AllocsPerRun(1000, func() {
		for _, size := range [...]int{1, 100, 101, 1000} {
			b, err := p.Alloc(size)
			if err != nil {
				t.Fatal(err)
			}
			p.Lend(b.Number, 1)
			if _, err := v.View(b.Number, uint32(size), b.Seq); err != nil {
				t.Fatal(err)
			}
			if err := p.FreeFrom(1, b.Number, b.Seq); err != nil {
				t.Fatal(err)
			}
		}
		for range 4 {
			p.Alloc(1000)
		}
		if _, err := p.Alloc(1000); err != ErrExhausted {
			t.Fatal(err)
		}
		p.ReclaimAll()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestPoolRefused(t *testing.T) {
	mem := mustHeap(t, 1<<16).Body()
	for what, sizes := range map[string][]BlockSize{
		"none":      nil,
		"too many":  make([]BlockSize, BlockSizesMax+1),
		"empty":     {{0, 1}},
		"no blocks": {{64, 0}},
		"negative":  {{64, -1}},
		"falling":   {{64, 1}, {32, 1}},
		"equal":     {{64, 1}, {64, 1}},
		"huge":      {{BlockBytesMax + 1, 1}},
		"many":      {{1, BlocksMax}, {2, 1}},
	} {
		if n, err := PoolBytes(sizes); err == nil {
			t.Errorf("%s: %d bytes", what, n)
		}
		if err := FormatPool(mem, sizes); err == nil {
			t.Errorf("%s: formatted", what)
		}
	}
	good := []BlockSize{{64, 2}, {256, 3}}
	size, _ := PoolBytes(good)
	if err := FormatPool(mem[:size-1], good); err == nil {
		t.Error("formatted into too little")
	}
	if err := FormatPool(mem[8:], good); err == nil {
		t.Error("formatted at a strange address")
	}
	for what, spoil := range map[string]func(){
		"nothing":  func() { clear(mem) },
		"magic":    func() { mem[0]++ },
		"version":  func() { mem[offsetPoolVersion]++ },
		"zero":     func() { mem[offsetPoolSizes] = 0 },
		"many":     func() { mem[offsetPoolSizes] = BlockSizesMax + 1 },
		"fewer":    func() { mem[offsetPoolSizes] = 3 },
		"payload":  func() { mem[offsetPoolTable+offsetSizePayload+7] = 0x80 },
		"smaller":  func() { mem[offsetPoolTable+sizeEntryBytes+offsetSizePayload+1] = 0 },
		"offset":   func() { mem[offsetPoolTable+offsetSizeOffset] ^= 0x80 },
		"far":      func() { mem[offsetPoolTable+offsetSizeOffset+7] = 1 },
		"stride":   func() { mem[offsetPoolTable+offsetSizeStride+1]++ },
		"first":    func() { mem[offsetPoolTable+sizeEntryBytes+offsetSizeFirst]++ },
		"no count": func() { mem[offsetPoolTable+offsetSizeCount] = 0 },
		"count":    func() { binary.LittleEndian.PutUint32(mem[offsetPoolTable+offsetSizeCount:], ^uint32(0)) },
		"beyond":   func() { mem[offsetPoolTable+sizeEntryBytes+offsetSizeCount+1] = 9 },
	} {
		clear(mem)
		if err := FormatPool(mem, good); err != nil {
			t.Fatal(err)
		}
		spoil()
		if _, err := OpenPoolView(mem); !errors.Is(err, ErrPool) {
			t.Errorf("%s: view: %v", what, err)
		}
		if _, err := NewPool(mem); !errors.Is(err, ErrPool) {
			t.Errorf("%s: pool: %v", what, err)
		}
	}
	if _, err := OpenPoolView(mem[:PoolHeaderBytes-1]); !errors.Is(err, ErrPool) {
		t.Errorf("cut: %v", err)
	}
}

// The plan keeps to its own arithmetic, over many sizes.
func TestDefaultBlockSizes(t *testing.T) {
	sizes, err := DefaultBlockSizes(64<<20, 4096)
	if err != nil {
		t.Fatal(err)
	}
	want := "[{4096 3521} {16384 677} {65536 170} {262144 42} {1048576 10} {4194304 2}]"
	if got := fmt.Sprint(sizes); got != want {
		t.Errorf("64 MiB: %s, want %s", got, want)
	}
	rng := seed.Rand(t)
	for range 2000 {
		total, smallest := 1<<rng.IntN(41), 1+rng.IntN(1<<rng.IntN(31))
		if rng.IntN(2) == 0 {
			total += rng.IntN(total)
		}
		sizes, err := DefaultBlockSizes(total, smallest)
		if err != nil {
			if total >= 4*(smallest+2*BlockHeaderBytes)+PoolHeaderBytes && total <= BytesMax {
				t.Fatalf("%d bytes from %d: %v", total, smallest, err)
			}
			continue
		}
		size, err := PoolBytes(sizes)
		if err != nil || size > total {
			t.Fatalf("%d bytes from %d: plan %v takes %d, %v", total, smallest, sizes, size, err)
		}
		if sizes[0].BlockBytes != smallest || sizes[len(sizes)-1].Count < largestCountMin {
			t.Fatalf("%d bytes from %d: plan %v", total, smallest, sizes)
		}
		blocks := 0
		for _, c := range sizes {
			blocks += c.Count
		}
		if total-size > sizes[0].stride() && blocks < BlocksMax {
			t.Fatalf("%d bytes from %d: plan %v wastes %d", total, smallest, sizes, total-size)
		}
	}
	for _, bad := range [][2]int{{1 << 20, 0}, {1 << 20, -5}, {0, 1}, {PoolHeaderBytes + 2*256 - 1, 1},
		{math.MaxInt, 64}, {1 << 40, BlockBytesMax + 1}} {
		if sizes, err := DefaultBlockSizes(bad[0], bad[1]); err == nil {
			t.Errorf("%v: %v", bad, sizes)
		}
	}
}

// A growing pool asks for memory before it touches it, block by block where they are large, and is full where it gets
// no more.
func TestPoolGrows(t *testing.T) {
	sizes := []BlockSize{{BlockBytes: 100, Count: 3}, {BlockBytes: growBytes, Count: 3}}
	bytes, err := PoolBytes(sizes)
	if err != nil {
		t.Fatal(err)
	}
	body := mustHeap(t, bytes).Body()
	if err := FormatPool(body, sizes); err != nil {
		t.Fatal(err)
	}
	var taken [][2]int
	allowed := 3
	p, err := NewGrowingPool(body, func(offset, bytes int) error {
		if taken = append(taken, [2]int{offset, bytes}); len(taken) > allowed {
			return ErrMemory
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	inside := func(b Block) bool {
		at := p.sizes[sizeOf(p.sizes, b.Number)].at(b.Number)
		for _, r := range taken {
			if at >= r[0] && at+BlockHeaderBytes+len(b.Bytes) <= r[0]+r[1] {
				return true
			}
		}
		return false
	}
	var last Block
	for i, want := range []struct{ size, asked int }{{1, 1}, {100, 1}, {50, 1}, {200, 2}, {200, 3}} {
		b, err := p.Alloc(want.size)
		if err != nil || len(taken) != want.asked || !inside(b) {
			t.Fatalf("loan %d: %v, memory asked for %v", i, err, taken)
		}
		last = b
	}
	for range 3 { // refused once, and not asked for again
		if _, err := p.Alloc(200); !errors.Is(err, ErrExhausted) || len(taken) != 4 {
			t.Fatalf("without memory: %v, asked for %v", err, taken)
		}
	}
	if err := errors.Join(p.Check(), p.Check(), p.Check(), p.Check(), p.Check(), p.Check()); err != nil {
		t.Fatal(err)
	}
	if err := p.Free(last.Number, last.Seq); err != nil {
		t.Fatal(err)
	}
	if b, err := p.Alloc(300); err != nil || b.Number != last.Number {
		t.Fatalf("%+v, %v", b, err)
	}
	if n := p.ReclaimAll(); n != 5 {
		t.Errorf("took back %d, want 5", n)
	}
}

// A pool that got no memory goes on without, and asks again later, more and more seldom: where memory is there again,
// it grows.
func TestPoolGrowsLater(t *testing.T) {
	sizes := []BlockSize{{BlockBytes: growBytes, Count: 4}}
	bytes, err := PoolBytes(sizes)
	if err != nil {
		t.Fatal(err)
	}
	body := mustHeap(t, bytes).Body()
	if err := FormatPool(body, sizes); err != nil {
		t.Fatal(err)
	}
	asked, there := 0, false
	p, err := NewGrowingPool(body, func(int, int) error {
		if asked++; !there {
			return ErrMemory
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	at := map[int]bool{} // calls of Alloc that ask
	const calls = 3 * growSkipsMax
	for call := range calls {
		before := asked
		if _, err := p.Alloc(1); !errors.Is(err, ErrExhausted) {
			t.Fatalf("call %d: %v", call, err)
		}
		at[call] = asked > before
	}
	for call, skips := 0, growSkips; call < calls; call, skips = call+skips+1, min(2*skips, growSkipsMax) {
		if !at[call] {
			t.Errorf("call %d doesn't ask for memory", call)
		}
		delete(at, call)
	}
	for call, asks := range at {
		if asks {
			t.Errorf("call %d asks for memory too", call)
		}
	}
	there = true
	var got []Block
	for range growSkipsMax + 4 {
		if b, err := p.Alloc(1); err == nil {
			got = append(got, b)
		}
	}
	if len(got) != 4 {
		t.Errorf("%d blocks when there was memory again, want 4", len(got))
	}
}

// A view that is told the sizes needs no table, and stays inside the body whatever the owner has written there.
func TestPoolViewOfKnownSizes(t *testing.T) {
	sizes := []BlockSize{{BlockBytes: 100, Count: 2}, {BlockBytes: 300, Count: 1}}
	bytes, err := PoolBytes(sizes)
	if err != nil {
		t.Fatal(err)
	}
	body := mustHeap(t, bytes).Body()
	early, err := NewPoolView(body, sizes) // before there is a table
	if err != nil {
		t.Fatal(err)
	}
	if err := FormatPool(body, sizes); err != nil {
		t.Fatal(err)
	}
	p, err := NewPool(body)
	if err != nil {
		t.Fatal(err)
	}
	clear(body[offsetPoolTable:PoolHeaderBytes]) // the owner's trouble, and none of the reader
	for _, size := range []int{100, 50, 300} {
		b, err := p.Alloc(size)
		if err != nil {
			t.Fatal(err)
		}
		fill(b)
		got, err := early.View(b.Number, uint32(size), b.Seq)
		if err != nil {
			t.Fatal(err)
		}
		checkFill(t, b, got)
	}
	if _, err := early.View(3, 1, 1); !errors.Is(err, ErrBlockNumber) {
		t.Errorf("a block that there isn't: %v", err)
	}
	for what, open := range map[string]func() (*PoolView, error){
		"one byte short": func() (*PoolView, error) { return NewPoolView(body[:bytes-1], sizes) },
		"not aligned":    func() (*PoolView, error) { return NewPoolView(body[8:], sizes[:1]) },
	} {
		if _, err := open(); !errors.Is(err, ErrPool) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := NewPoolView(body, []BlockSize{{}}); err == nil {
		t.Error("blocks without bytes")
	}
}
