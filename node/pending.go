// SPDX-License-Identifier: Apache-2.0

package node

import (
	"math"
	"math/bits"
)

// entry is one pending event or wakeup, 32 bytes without a pointer. Epochs are never
// negative, so their bits order like they do.
//
// A new one is passed by value and stored field by field where it stays. It has four fields, of two at
// most, so that the compiler keeps it in registers. One that was built in memory and is then copied is loaded in
// wider pieces than it was stored in, and the processor waits until those stores have left its store buffer.
type entry struct {
	key    uint64 // bits of the epoch
	number uint64 // the sender's own number
	route
	load
}

type route struct {
	proc   uint32 // index of the target: rises with (level, id) among a worker's simprocs
	sender SimprocID
}

type load struct {
	ref    ref  // the payload
	remote bool // came from another worker
}

// wakeSender marks an entry that only asks for a call at its epoch. It sorts
// behind all events of the epoch.
const wakeSender = SimprocID(math.MaxUint32)

// keyOf makes an entry's key. Adding zero takes the sign from minus zero.
func keyOf(epoch float64) uint64 { return math.Float64bits(epoch + 0) }

// keyNever is above every key.
const keyNever = uint64(1) << 63

func (a *entry) epoch() float64 { return math.Float64frombits(a.key) }

// before is the total order (epoch, target's level, target, sender, number).
func (a *entry) before(b *entry) bool {
	if a.key != b.key {
		return a.key < b.key
	}
	return a.beforeAtKey(b)
}

// beforeAtKey is before for entries of one epoch.
func (a entry) beforeAtKey(b *entry) bool {
	if a.proc != b.proc {
		return a.proc < b.proc
	}
	if a.sender != b.sender {
		return a.sender < b.sender
	}
	return a.number < b.number
}

// pending is a pending-event set: a priority queue of entries for a clock that doesn't
// go back.
//
// In front is a sorted run, taken from its head, with a small heap beside it for what
// comes in before the run's end (late). Everything from limit on lies unsorted in
// buckets (radix). When the front is used up, the next bucket is sorted into a new run,
// or, if it holds more than a few entries, spread over finer buckets first. A set of up
// to lateMax entries is only the heap.
//
// So an entry is appended to a bucket, moved a few times from one bucket to a finer one
// in long straight copies, and sorted among a few neighbours. docs/pending-set.md
// compares that with heaps from 10^3 to 10^7 entries. The bound that holds for any
// distribution of epochs: an entry moves at most once per tier, and what can't be
// spread (equal epochs) is distributed by the fields that decide then. In the heap
// beside the front it costs as in a heap.
//
// What is inserted must not be before what was popped last. It may be before what was
// looked at (first), as long as that wasn't popped.
//
// Owned by one goroutine.
type pending struct {
	run   []entry // run[at:] is sorted and waits
	at    int
	late  []entry // 4-ary heap: children of i at 4i+1 … 4i+4
	limit uint64  // what is before it lies in run or late, everything else in radix
	size  int
	spill int // length of late at which to try to spread it over radix
	radix *radix
	ahead bool // look ahead (Engine.prefetch)
	far   int  // simprocs and payloads of run[:far] have been asked for
	near  int  // … and handlers of run[:near]
}

// lateMax is how long late may grow before it is spread over buckets: 64 entries are a
// heap of three levels in two kilobytes. Larger sets would stay heaps for longer, and
// smaller ones pay for buckets with one entry each.
const lateMax = 64

func (s *pending) init() {
	s.limit, s.spill = keyNever, lateMax
}

// len is the number of entries.
func (s *pending) len() int { return s.size }

// insert files one entry.
func (s *pending) insert(en entry) {
	s.size++
	if en.key >= s.limit {
		*s.radix.place(en.key) = en
		return
	}
	s.pushLate(en)
	if len(s.late) > s.spill {
		s.spread()
	}
}

// first is the least entry, nil when there is none. It stays where it is until the next
// insert or pop.
func (s *pending) first() *entry {
	if len(s.late) == 0 {
		if s.at == len(s.run) && !s.refill() {
			return nil
		}
		return &s.run[s.at]
	}
	if s.at < len(s.run) && s.run[s.at].before(&s.late[0]) {
		return &s.run[s.at]
	}
	return &s.late[0]
}

// drop takes out the least entry. Use: first was called since the last change and
// returned one.
func (s *pending) drop() {
	s.size--
	if len(s.late) == 0 || s.at < len(s.run) && s.run[s.at].before(&s.late[0]) {
		s.at++
		return
	}
	s.dropLate()
}

// refill makes a new run of the next bucket. Precondition: run and late are empty.
func (s *pending) refill() bool {
	s.run, s.at, s.far, s.near = s.run[:0], 0, 0, 0
	if s.size == 0 {
		s.limit, s.spill = keyNever, lateMax
		return false
	}
	r := s.radix
	if s.size <= lateMax/4 {
		s.limit, s.spill = keyNever, lateMax
		r.parts(func(part []entry) {
			for i := range part {
				s.pushLate(part[i])
			}
		})
		r.clear()
		s.run = append(s.run, s.late[0])
		s.dropLate()
		return true
	}
	s.run, s.limit = r.next(s.run, s.size)
	s.spill = lateMax
	return true
}

// lookAhead appends the next bucket to a run that is nearly used up, so that the entries
// after the first are known: all in the bucket is later than all in the run. While there is
// something in the heap it waits, because what is inserted before the end of the run goes
// there, and a run that ends later would make it larger.
func (s *pending) lookAhead() {
	if len(s.run)-s.at >= farAhead || len(s.late) > 0 || s.radix == nil || s.radix.tiers == 0 {
		return
	}
	n := copy(s.run, s.run[s.at:])
	s.far, s.near, s.at = max(s.far-s.at, 0), max(s.near-s.at, 0), 0
	s.run, s.limit = s.radix.next(s.run[:n], s.size)
	s.spill = lateMax
}

// spreadShare bounds what spreading costs: the heap has at least this part of what is left of the run, which is filed
// in buckets and sorted again. A run is as long as that only where its entries have one epoch.
const spreadShare = 4

// spread moves what is later than the least entry from the front into buckets, because
// there is too much of it for a heap.
func (s *pending) spread() {
	if few := (len(s.run) - s.at) / spreadShare; few > len(s.late) {
		s.spill = few
		return
	}
	if s.radix == nil {
		s.radix = newRadix()
	}
	r := s.radix
	base := max(r.base, s.first().key+1)
	if base >= s.limit {
		// All are at one epoch, or before what the buckets begin with: a heap is right.
		s.spill = 2 * len(s.late)
		return
	}
	r.base, s.limit = base, base
	end := len(s.run)
	for end > s.at && s.run[end-1].key >= base {
		end--
		r.file(&s.run[end])
	}
	s.run = s.run[:end]
	s.far, s.near = min(s.far, end), min(s.near, end)
	all := s.late
	s.late = s.late[:0]
	for i := range all {
		// pushLate writes behind i at the most: it never overtakes the loop.
		if en := all[i]; en.key >= base {
			r.file(&en)
		} else {
			s.pushLate(en)
		}
	}
	s.spill = lateMax + 2*len(s.late)
}

// parts visits all entries, so many at a time as lie together, in no particular order. They stay where they are until
// the next change.
func (s *pending) parts(visit func(part []entry)) {
	visit(s.run[s.at:])
	visit(s.late)
	if s.radix != nil {
		s.radix.parts(visit)
	}
}

// pushLate puts en into the heap.
func (s *pending) pushLate(en entry) {
	s.late = append(s.late, entry{})
	h := s.late
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) >> 2
		if p := &h[parent]; en.key > p.key || en.key == p.key && !en.beforeAtKey(p) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = en
}

// dropLate takes the first entry out of the heap. The hole it leaves sinks to a leaf
// along the least children, and the last entry rises from there: the last entry is
// nearly always a late one, so comparing it on the way down would be wasted.
func (s *pending) dropLate() {
	h := s.late
	n := len(h) - 1
	last := h[n]
	h = h[:n]
	s.late = h
	if n == 0 {
		return
	}
	i := 0
	for {
		c := i<<2 + 1
		if c >= n {
			break
		}
		least := c
		for j, end := c+1, min(c+4, n); j < end; j++ {
			if h[j].before(&h[least]) {
				least = j
			}
		}
		h[i] = h[least]
		i = least
	}
	for i > 0 {
		parent := (i - 1) >> 2
		if !last.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = last
}

// tierOf is the tier of the highest bit in which two keys differ.
func tierOf(difference uint64) uint { return uint(bits.Len64(difference|1)-1) / digitBits }
