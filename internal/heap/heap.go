// SPDX-License-Identifier: Apache-2.0

// Package heap keeps values of any type in the order of a number, such as a time or a distance. It is the priority
// queue of everything but the pending events of a node.Engine, which have one of their own (docs/pending-set.md).
//
// Guarantee: First has the least key, and of items with that key the one that the tie function puts first. Without such
// a function it is always the same one of them in every process and on every machine, because it depends on the calls
// alone. Push, Pop, Fix and Remove compare and move O(log n) items, and allocate only where the heap has to grow.
//
//	h := heap.New[int32](nil)
//	h.Push(1.5, from)
//	for h.Len() > 0 {
//		distance, at := h.Pop()
//	}
//
// Keys are numbers, and not whatever a function compares, because a call for every comparison, which the compiler
// can't put in line, made the handlers of model/service up to a third slower.
package heap

// Item is a value with its key. The value may be struct{}, where the keys are all that is kept.
type Item[T any] struct {
	Value T
	Key   float64 // not NaN
}

// Heap is a binary heap. The zero value is empty and has no tie function.
type Heap[T any] struct {
	items  []Item[T] // children of i at 2i+1 and 2i+2
	tie    func(a, b T) bool
	placed func(x T, at int) // nil: places aren't needed
}

// New makes an empty heap. tie tells whether a comes before b where their keys are equal; nil: no matter.
func New[T any](tie func(a, b T) bool) Heap[T] { return Heap[T]{tie: tie} }

// NewIndexed is New for items whose places the caller must know, to Fix or Remove them: placed is called with the place
// of every item that is pushed or moved.
func NewIndexed[T any](tie func(a, b T) bool, placed func(x T, at int)) Heap[T] {
	return Heap[T]{tie: tie, placed: placed}
}

// Use gives an empty heap memory for its first items, such as a part of the struct that it stands in.
func (h *Heap[T]) Use(memory []Item[T]) { h.items = memory[:0] }

// Len is the number of items.
func (h *Heap[T]) Len() int { return len(h.items) }

// First is the item in front, of a heap that isn't empty. Who changes what the order depends on calls Fix.
func (h *Heap[T]) First() *Item[T] { return &h.items[0] }

// Items are all items, the first one in front and the others in no particular order, until the next change.
func (h *Heap[T]) Items() []Item[T] { return h.items }

// Set makes the heap of items in the order in which another one had them (Items), so that it goes on as that would. It
// keeps their memory. Where they aren't in such an order it returns false, and the place of one that isn't where it may
// be; the heap is as it was then.
func (h *Heap[T]) Set(items []Item[T]) (wrong int, ok bool) {
	for i := range items {
		if x := &items[i]; x.Key != x.Key || i > 0 && h.before(x, &items[(i-1)/2]) {
			return i, false
		}
	}
	h.items = items
	if h.placed != nil {
		for i := range items {
			h.placed(items[i].Value, i)
		}
	}
	return 0, true
}

// Clear removes all items and keeps their memory.
func (h *Heap[T]) Clear() { h.items = h.items[:0] }

// Push puts an item in.
func (h *Heap[T]) Push(key float64, x T) {
	h.items = append(h.items, Item[T]{x, key})
	h.up(len(h.items)-1, Item[T]{x, key})
}

// Pop takes the item in front out, of a heap that isn't empty.
func (h *Heap[T]) Pop() (key float64, x T) {
	top := h.items[0]
	n := len(h.items) - 1
	last := h.items[n]
	h.items = h.items[:n]
	switch {
	case n == 0:
	case n >= sinkMin && h.tie == nil && h.placed == nil:
		h.sink(last)
	default:
		h.down(0, last)
	}
	return top.Key, top.Value
}

// sinkMin is from how many items on sink is faster than down: with 1,000 a pop and a push take 65 ns instead of 75,
// with 10 they would take 47 instead of 45.
const sinkMin = 64

// sink is down from the front where neither ties nor places matter: it leaves every item where down would. The free
// place goes to the end along the lesser children, which are chosen without a branch that nobody can predict. From
// there x, which was the last item, rises: it is nearly always late.
func (h *Heap[T]) sink(x Item[T]) {
	a := h.items
	at, child := 0, 1
	for child+1 < len(a) {
		right := 0
		if a[child+1].Key < a[child].Key {
			right = 1
		}
		child += right
		a[at] = a[child]
		at, child = child, 2*child+1
	}
	if child < len(a) {
		a[at] = a[child]
		at = child
	}
	for at > 0 {
		parent := (at - 1) / 2
		if a[parent].Key < x.Key {
			break
		}
		a[at] = a[parent]
		at = parent
	}
	a[at] = x
}

// Remove takes out the item at a place.
func (h *Heap[T]) Remove(at int) {
	n := len(h.items) - 1
	last := h.items[n]
	h.items = h.items[:n]
	if at < n {
		h.move(at, last)
	}
}

// Fix puts the item at a place where it belongs, with a new key.
func (h *Heap[T]) Fix(at int, key float64) { h.move(at, Item[T]{h.items[at].Value, key}) }

// move puts x where it belongs, from the free place at on.
func (h *Heap[T]) move(at int, x Item[T]) {
	if at > 0 && h.before(&x, &h.items[(at-1)/2]) {
		h.up(at, x)
	} else {
		h.down(at, x)
	}
}

func (h *Heap[T]) before(a, b *Item[T]) bool {
	return a.Key < b.Key || a.Key == b.Key && h.tie != nil && h.tie(a.Value, b.Value)
}

// up moves the free place at towards the front until x may stand there.
func (h *Heap[T]) up(at int, x Item[T]) {
	a, tie, placed := h.items, h.tie, h.placed
	for at > 0 {
		parent := (at - 1) / 2
		if p := &a[parent]; x.Key > p.Key || x.Key == p.Key && (tie == nil || !tie(x.Value, p.Value)) {
			break
		}
		a[at] = a[parent]
		if placed != nil {
			placed(a[at].Value, at)
		}
		at = parent
	}
	a[at] = x
	if placed != nil {
		placed(x.Value, at)
	}
}

// down moves the free place at away from the front until x may stand there.
func (h *Heap[T]) down(at int, x Item[T]) {
	a, tie, placed := h.items, h.tie, h.placed
	for {
		child := 2*at + 1
		if child >= len(a) {
			break
		}
		c := &a[child]
		if child+1 < len(a) {
			if d := &a[child+1]; d.Key <= c.Key && (d.Key < c.Key || tie != nil && tie(d.Value, c.Value)) {
				child, c = child+1, d
			}
		}
		if c.Key >= x.Key && (c.Key > x.Key || tie == nil || !tie(c.Value, x.Value)) {
			break
		}
		a[at] = *c
		if placed != nil {
			placed(c.Value, at)
		}
		at = child
	}
	a[at] = x
	if placed != nil {
		placed(x.Value, at)
	}
}
