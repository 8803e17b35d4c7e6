// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"math"
	"slices"
)

// A spread counts values by window and bucket, in one table for all windows. Buckets agree in sign, exponent and the
// first five binary digits behind the point: at most 3.2 % wide.
type spread struct {
	windows int
	table   []uint64 // window, key and count, at a place by the hash of the first two; 0: free; a power of two long
	used    int      // of table
}

const (
	spreadKeyBits = 17
	spreadShift   = 64 - spreadKeyBits - 9 // 9 bits are for the window
	spreadMask    = 1<<spreadShift - 1     // the most that is counted in an entry: some 2.7·10¹¹
)

// spreadKey is the bucket of a value; a larger one has no smaller key.
func spreadKey(x float64) uint64 {
	return orderedKey(x) >> (keyBits - spreadKeyBits)
}

// spreadValue is the middle of a bucket, 0 of the two that hold 0.
func spreadValue(key uint64) float64 {
	const shift = 64 - spreadKeyBits
	low, high := ordered(key<<shift), ordered(key<<shift|(1<<shift-1))
	if low == 0 || high == 0 || math.Signbit(low) != math.Signbit(high) {
		return 0
	}
	return low/2 + high/2
}

// add counts values of a window and bucket.
func (s *spread) add(key, count uint64) {
	mask := len(s.table) - 1
	for i := s.place(key); i <= mask; i = (i + 1) & mask {
		if e := s.table[i]; e>>spreadShift == key && e != 0 {
			s.table[i] = e&^spreadMask | min(e&spreadMask+count, spreadMask)
			return
		} else if e == 0 {
			break
		}
	}
	if 4*(s.used+1) > 3*len(s.table) {
		old := s.table
		s.table, s.used = make([]uint64, max(16, 2*len(old))), 0
		for _, e := range old {
			if e != 0 {
				s.put(e)
			}
		}
	}
	s.put(key<<spreadShift | min(count, spreadMask))
}

// place is where to look for a key first.
func (s *spread) place(key uint64) int {
	return int(key*0x9e3779b97f4a7c15>>32) & (len(s.table) - 1)
}

// put puts an entry of a new key into a table that has room.
func (s *spread) put(e uint64) {
	i := s.place(e >> spreadShift)
	for s.table[i] != 0 {
		i = (i + 1) & (len(s.table) - 1)
	}
	s.table[i] = e
	s.used++
}

// merge adds what another one has counted.
func (s *spread) merge(o *spread) {
	for _, e := range o.table {
		if e != 0 {
			s.add(e>>spreadShift, e&spreadMask)
		}
	}
}

// halve makes one window of two.
func (s *spread) halve() {
	if s.used == 0 {
		return
	}
	list := s.list()
	clear(s.table)
	s.used = 0
	for _, e := range list {
		key := e >> spreadShift
		window := key >> spreadKeyBits / 2
		s.add(window<<spreadKeyBits|key&(1<<spreadKeyBits-1), e&spreadMask)
	}
}

// list is all entries, by window and key.
func (s *spread) list() []uint64 {
	list := make([]uint64, 0, s.used)
	for _, e := range s.table {
		if e != 0 {
			list = append(list, e)
		}
	}
	slices.Sort(list)
	return list
}

func (s *spread) percentile(p float64) []float64 {
	values := make([]float64, s.windows)
	list := s.list()
	for k := range values {
		values[k] = math.NaN()
		n, count := 0, uint64(0)
		for n < len(list) && list[n]>>(spreadShift+spreadKeyBits) == uint64(k) {
			count += list[n] & spreadMask
			n++
		}
		if count == 0 {
			continue
		}
		left := uint64(rank(p, int64(count)))
		for _, e := range list[:n] {
			if c := e & spreadMask; left > c {
				left -= c
				continue
			}
			values[k] = spreadValue(e >> spreadShift & (1<<spreadKeyBits - 1))
			break
		}
		list = list[n:]
	}
	return values
}
