// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/disco-sim/disco/internal/invariants"
)

// held is what the test knows of one payload in the store.
type held struct {
	headers, data []byte
	lease         uint64
}

// Whatever is put in comes out as it was, however long it waits and whatever is put and
// freed meanwhile; slices stay where they are; every lease is given back once, when its
// payload is freed and not before.
func TestStoreAgainstMap(t *testing.T) {
	sizes := []int{0, 1, 7, 8, 23, 24, 25, 56, 57, 120, 1000, 4088, 65_000, cellMax - cellHeader,
		cellMax - cellHeader + 1, 100_000}
	for seed := range uint64(4) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		random := func(n int) []byte {
			b := make([]byte, n)
			for i := 0; i < n; i += 1 + n/64 {
				b[i] = byte(rnd.Uint32())
			}
			return b
		}
		released := map[uint64]int{}
		s := newStore()
		s.giveBack = func(lease uint64) { released[lease]++ }
		waiting := map[ref]held{}
		leases := uint64(0)
		for i := range 3000 {
			if rnd.IntN(100) < 52-min(2*(len(waiting)/100), 10) {
				h := held{data: random(sizes[rnd.IntN(len(sizes))])}
				if rnd.IntN(3) == 0 {
					h.headers = random(rnd.IntN(100))
				}
				var r ref
				if rnd.IntN(5) == 0 {
					leases++
					h.lease = leases
					r = s.lease(h.headers, h.data, leases)
				} else {
					r = s.put(h.headers, h.data)
				}
				if _, twice := waiting[r]; twice {
					t.Fatalf("seed %d, step %d: ref %#x was given out twice", seed, i, r)
				}
				if r != refNone {
					waiting[r] = h
				}
				continue
			}
			for r, h := range waiting { // any
				headers, data := s.get(r)
				if !bytes.Equal(headers, h.headers) || !bytes.Equal(data, h.data) {
					t.Fatalf("seed %d, step %d: %d and %d bytes came back as %d and %d, or with other contents", seed,
						i, len(h.headers), len(h.data), len(headers), len(data))
				}
				if h.lease != 0 && (released[h.lease] != 0 || len(data) > 0 && &data[0] != &h.data[0]) {
					t.Fatalf("seed %d, step %d: a leased payload was moved, or given back too early", seed, i)
				}
				s.free(r)
				if h.lease != 0 && released[h.lease] != 1 {
					t.Fatalf("seed %d, step %d: lease %d was given back %d times, want once", seed, i, h.lease,
						released[h.lease])
				}
				delete(waiting, r)
				break
			}
			if i%100 == 0 && s.inUse() != len(waiting) {
				t.Fatalf("seed %d, step %d: %d in use, want %d", seed, i, s.inUse(), len(waiting))
			}
		}
		for lease, n := range released {
			if n != 1 {
				t.Errorf("seed %d: lease %d was given back %d times", seed, lease, n)
			}
		}
	}
}

// What a burst of large payloads has left goes back to the runtime; a load that rises and falls by half, and one
// payload after the other, find their memory again.
func TestStoreGivesBack(t *testing.T) {
	s := newStore()
	data := make([]byte, 1<<20)
	burst := func(n int) (refs []ref) {
		for range n {
			refs = append(refs, s.put(nil, data))
		}
		return refs
	}
	check := func(what string) {
		t.Helper()
		free, all := 0, 0
		for _, buffers := range s.buffers {
			for _, b := range buffers {
				free += cap(b)
			}
		}
		for _, o := range s.outside {
			all += cap(o.data)
		}
		if all += free; free != s.freeBytes || all != s.bufferBytes || free > max(freeBytesLeast, all-free+len(data)) {
			t.Fatalf("%s: %d bytes free of %d, counted %d of %d", what, free, all, s.freeBytes, s.bufferBytes)
		}
	}
	refs := burst(200)
	for i, r := range refs {
		s.free(r)
		check("after a payload of a burst")
		if i == 99 && s.freeBytes != 100<<20 {
			t.Errorf("half of the burst is over: %d bytes free", s.freeBytes)
		}
	}
	if s.freeBytes != freeBytesLeast {
		t.Errorf("after a burst: %d bytes are kept, want %d", s.freeBytes, freeBytesLeast)
	}
	huge := make([]byte, 2*freeBytesLeast)
	s.free(s.put(nil, huge))
	if n := testing.AllocsPerRun(20, func() { s.free(s.put(nil, huge)) }); n != 0 && !invariants.Enabled {
		t.Errorf("one large payload after the other: %v allocations each", n)
	}
	refs = burst(100)
	if n := testing.AllocsPerRun(20, func() {
		for i := range 50 {
			s.free(refs[i])
		}
		for i := range 50 {
			refs[i] = s.put(nil, data)
		}
	}); n != 0 && !invariants.Enabled {
		t.Errorf("half of them freed and put again: %v allocations", n)
	}
	check("at the end")
}
