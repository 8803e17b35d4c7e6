// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"fmt"
	"sync/atomic"
	"unsafe"
)

// word is an aligned 64-bit word of shared memory.
type word struct{ p *uint64 }

func wordAt(mem []byte, off int) (word, error) {
	p := unsafe.Pointer(&mem[off : off+8][0])
	if uintptr(p)%8 != 0 {
		return word{}, fmt.Errorf("%w: memory starts at %p, want a multiple of 8", ErrCorrupt, unsafe.SliceData(mem))
	}
	return word{(*uint64)(p)}, nil
}

func (w word) load() uint64   { return atomic.LoadUint64(w.p) }
func (w word) store(v uint64) { atomic.StoreUint64(w.p, v) }
