// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"fmt"
	"structs"
	"sync/atomic"
	"unsafe"

	"github.com/disco-sim/disco/internal/interleave"
)

// words is the layout of a slot (docs/format/board.md).
//
//	 0  turn      odd: posted; rises by one with each Post and Withdraw
//	 8  epoch     float64 bits of the next activation
//	16  level
//	24  sent      events sent to other workers
//	32  received  events taken in from other workers
//	40  round     jumps that it has taken, where a run is over machines; else 0
//	48  sum       of the words above (content.sum)
//	56  zero to the end
type words struct {
	_        structs.HostLayout
	turn     uint64
	epoch    uint64
	level    uint64
	sent     uint64
	received uint64
	round    uint64
	sum      uint64
	_        [SlotBytes - 56]byte
}

// jumpWords is the layout of a machine's jump words (docs/format/board.md).
//
//	 0  round  jumps announced since the run began
//	 8  epoch  float64 bits; +Inf: the end of the replication
//	16  level
//	24  sum    of the words above (sumOf)
//	32  zero to the end
type jumpWords struct {
	_     structs.HostLayout
	round uint64
	epoch uint64
	level uint64
	sum   uint64
	_     [JumpBytes - 32]byte
}

// The layout can't change by accident: both fail to compile when the size differs.
const (
	_ = uint(unsafe.Sizeof(words{}) - SlotBytes)
	_ = uint(SlotBytes - unsafe.Sizeof(words{}))
	_ = uint(unsafe.Sizeof(jumpWords{}) - JumpBytes)
	_ = uint(JumpBytes - unsafe.Sizeof(jumpWords{}))
)

func view(mem []byte) (*words, error) {
	if err := checkView("slot", mem, SlotBytes); err != nil {
		return nil, err
	}
	return (*words)(unsafe.Pointer(unsafe.SliceData(mem))), nil
}

func viewJump(mem []byte) (*jumpWords, error) {
	if err := checkView("jump words", mem, JumpBytes); err != nil {
		return nil, err
	}
	return (*jumpWords)(unsafe.Pointer(unsafe.SliceData(mem))), nil
}

func checkView(what string, mem []byte, size int) error {
	if len(mem) != size || uintptr(unsafe.Pointer(unsafe.SliceData(mem)))%8 != 0 {
		return fmt.Errorf("idle: %s of %d bytes at %p, want %d bytes at a multiple of 8", what, len(mem),
			unsafe.SliceData(mem), size)
	}
	return nil
}

// load takes all words but the sum, the turn first.
func (w *words) load() content {
	return content{load(&w.turn), load(&w.epoch), load(&w.level), load(&w.sent), load(&w.received),
		load(&w.round)}
}

func load(p *uint64) uint64 {
	interleave.Point()
	return atomic.LoadUint64(p)
}

func store(p *uint64, v uint64) {
	interleave.Point()
	atomic.StoreUint64(p, v)
}

func add(p *uint64, v uint64) {
	interleave.Point()
	atomic.AddUint64(p, v)
}
