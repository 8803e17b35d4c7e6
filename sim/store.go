// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"sort"

	"github.com/disco-sim/disco/internal/plain"
)

// Store holds items of one type, up to a capacity. Who wants to put one into a full store waits, and who wants one that
// isn't there. It belongs to its node.
//
// Puts and gets are first come first served; one who waits for an item that matches doesn't hold up those behind. It
// records name.amount (items), name.put_wait, name.get_wait and name.reneged. Putting and getting the first item take
// O(1); a search takes O(n) for n items, and so does each item that comes for n who wait for one that matches.
type Store[T any] struct {
	shared
	capacity int
	compare  func(a, b T) int
	items    []T
	head     int // items[head:] are there
	free     []*offer[T]
	plan     *plain.Plan[T] // nil: it can't be saved
}

// offer is what a process puts, or wants to get.
type offer[T any] struct {
	item  T
	match func(item T) bool // nil: any
}

// StoreOf declares a store of a node for a number of items.
func StoreOf[T any](n *Node, name string, capacity int) *Store[T] {
	if capacity < 1 {
		n.misuse("StoreOf(%q): capacity %d: want 1 or more", name, capacity)
	}
	s := &Store[T]{capacity: capacity}
	s.declare(n, name, "items in it", s)
	if s.plan = planOf[T](n); s.plan == nil {
		n.unsaved(fmt.Sprintf("%s, a store of %s,", s.name, reflect.TypeFor[T]()), nil)
	}
	n.enrol(s)
	return s
}

// OrderBy has items come out in an order, the smallest first, and of equal ones the one that came first; without it
// they come out as they came in. compare is as for slices.SortFunc. Putting an item takes O(n) then. It is called in
// the setup function.
func (s *Store[T]) OrderBy(compare func(a, b T) int) { s.compare = compare }

// Len is how many items there are.
func (s *Store[T]) Len() int { return len(s.items) - s.head }

// Put puts an item in, and waits, however long, until it has room.
func (s *Store[T]) Put(p *Process, item T) { s.put(p, item, math.Inf(1), false) }

// PutWithin is Put for a time at most, in seconds, +Inf for any. It returns false, and the item isn't put in, when that
// is over first, or the process is interrupted.
func (s *Store[T]) PutWithin(p *Process, delay float64, item T) bool {
	return s.put(p, item, delay, true)
}

// TryPut puts an item in where there is room; false where there isn't.
func (s *Store[T]) TryPut(c Caller, item T) bool {
	s.enter(c, 0)
	if s.puts.count > 0 || s.Len() >= s.capacity {
		return false
	}
	s.putWait.Add(0)
	s.insert(item)
	s.settle()
	return true
}

// Get takes the first item out, and waits for one, however long.
func (s *Store[T]) Get(p *Process) T { return s.GetMatch(p, nil) }

// GetMatch takes the first item out that match is true for, and waits for one, however long. match depends on nothing
// but the item.
func (s *Store[T]) GetMatch(p *Process, match func(item T) bool) T {
	item, _ := s.get(p, match, math.Inf(1), false)
	return item
}

// GetWithin is GetMatch for a time at most, in seconds, +Inf for any; a nil match is for any item. It returns false
// when that is over first, or the process is interrupted.
func (s *Store[T]) GetWithin(p *Process, delay float64, match func(item T) bool) (T, bool) {
	return s.get(p, match, delay, true)
}

// TryGet takes out the first item that match is true for, nil for any; false where there is none, or others wait for
// one like it.
func (s *Store[T]) TryGet(c Caller, match func(item T) bool) (item T, ok bool) {
	s.enter(c, 0)
	if item, ok = s.take(match); ok {
		s.getWait.Add(0)
		s.settle()
	}
	return item, ok
}

func (s *Store[T]) put(p *Process, item T, delay float64, interruptible bool) bool {
	s.enter(p, delay)
	if interruptible && p.interruptedBefore() {
		return false
	}
	if s.TryPut(p, item) {
		return true
	}
	o, since := s.offer(item, nil), s.n.now
	p.offer = o
	if s.n.journaled {
		p.noteWait(fmt.Sprintf("to put into %s, which has %d", s.name, s.Len()), delay)
	}
	return s.ended(s.finish(p, o, s.puts.await(p, delay, interruptible)), s.putWait, since)
}

func (s *Store[T]) get(p *Process, match func(item T) bool, delay float64, interruptible bool) (item T, ok bool) {
	s.enter(p, delay)
	if interruptible && p.interruptedBefore() {
		return item, false
	}
	if item, ok = s.TryGet(p, match); ok {
		return item, true
	}
	o, since := s.offer(item, match), s.n.now
	p.offer = o
	if s.n.journaled {
		p.noteWait(fmt.Sprintf("to get from %s, which has %d", s.name, s.Len()), delay)
	}
	if ok = s.gets.await(p, delay, interruptible); ok {
		item = o.item
	}
	s.finish(p, o, ok)
	return item, s.ended(ok, s.getWait, since)
}

func (s *Store[T]) offer(item T, match func(item T) bool) *offer[T] {
	last := len(s.free) - 1
	if last < 0 {
		return &offer[T]{item, match}
	}
	o := s.free[last]
	s.free = s.free[:last]
	o.item, o.match = item, match
	return o
}

// finish frees an offer.
func (s *Store[T]) finish(p *Process, o *offer[T], granted bool) bool {
	*o = offer[T]{}
	p.offer = nil
	s.free = append(s.free, o)
	return granted
}

// insert puts an item to its place.
func (s *Store[T]) insert(item T) {
	if s.head > len(s.items)/2 {
		n := copy(s.items, s.items[s.head:])
		clear(s.items[n:])
		s.items, s.head = s.items[:n], 0
	}
	at := len(s.items)
	if s.compare != nil {
		at = s.head + sort.Search(s.Len(), func(i int) bool { return s.compare(s.items[s.head+i], item) > 0 })
	}
	s.items = slices.Insert(s.items, at, item)
	if s.n.journaled {
		s.n.note("%s: one in, %d in it", s.name, s.Len())
	}
}

// take takes out the first item that matches.
func (s *Store[T]) take(match func(item T) bool) (item T, ok bool) {
	var zero T
	for i := s.head; i < len(s.items); i++ {
		if match != nil && !match(s.items[i]) {
			continue
		}
		item = s.items[i]
		if i == s.head {
			s.items[i] = zero
			s.head++
		} else {
			s.items = slices.Delete(s.items, i, i+1)
		}
		if s.n.journaled {
			s.n.note("%s: one out, %d in it", s.name, s.Len())
		}
		return item, true
	}
	return item, false
}

// settle does what has become possible.
func (s *Store[T]) settle() {
	for again := true; again; {
		again = false
		for s.puts.first != nil && s.Len() < s.capacity {
			p := s.puts.first
			s.insert(p.offer.(*offer[T]).item)
			s.puts.grant(p)
			again = true
		}
		for p := s.gets.first; p != nil && s.Len() > 0; {
			after, o := p.next, p.offer.(*offer[T])
			if item, ok := s.take(o.match); ok {
				o.item = item
				s.gets.grant(p)
				again = true
			}
			p = after
		}
	}
	if length := float64(s.Len()); length != s.amount.Value() {
		s.amount.Set(length)
	}
}
