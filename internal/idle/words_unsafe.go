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
//	40  sum       of the words above (content.sum)
//	48  zero to the end
type words struct {
	_        structs.HostLayout
	turn     uint64
	epoch    uint64
	level    uint64
	sent     uint64
	received uint64
	sum      uint64
	_        [SlotBytes - 48]byte
}

// The layout can't change by accident: both fail to compile when the size differs.
const (
	_ = uint(unsafe.Sizeof(words{}) - SlotBytes)
	_ = uint(SlotBytes - unsafe.Sizeof(words{}))
)

func view(mem []byte) (*words, error) {
	if len(mem) != SlotBytes || uintptr(unsafe.Pointer(unsafe.SliceData(mem)))%8 != 0 {
		return nil, fmt.Errorf("idle: slot of %d bytes at %p, want %d bytes at a multiple of 8", len(mem),
			unsafe.SliceData(mem), SlotBytes)
	}
	return (*words)(unsafe.Pointer(unsafe.SliceData(mem))), nil
}

// load takes all words but the sum, the turn first.
func (w *words) load() content {
	return content{load(&w.turn), load(&w.epoch), load(&w.level), load(&w.sent), load(&w.received)}
}

func load(p *uint64) uint64 {
	interleave.Point()
	return atomic.LoadUint64(p)
}

func store(p *uint64, v uint64) {
	interleave.Point()
	atomic.StoreUint64(p, v)
}
