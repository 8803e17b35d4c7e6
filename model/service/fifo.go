// SPDX-License-Identifier: Apache-2.0

package service

// fifo is a queue of slots, linked through the slots themselves: a request is in
// at most one queue, so nothing is ever allocated. The zero value is empty.
type fifo struct {
	head, tail int32 // 1 + slot, 0: none
}

func (q *fifo) empty() bool { return q.head == 0 }

func (q *fifo) push(slots []slot, i int32) {
	slots[i].next = 0
	if q.head == 0 {
		q.head = i + 1
	} else {
		slots[q.tail-1].next = i + 1
	}
	q.tail = i + 1
}

// pop takes the first of a queue that isn't empty.
func (q *fifo) pop(slots []slot) int32 {
	i := q.head - 1
	q.head = slots[i].next
	return i
}
