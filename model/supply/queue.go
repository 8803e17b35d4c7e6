// SPDX-License-Identifier: Apache-2.0

package supply

// owing is units that are owed to a customer.
type owing struct {
	customer int32
	quantity int64
}

// owedMax bounds what a point owes, and with it every sum of units.
const owedMax = 1e15

// queue is those who wait at a point, first come first served: a slice that is moved to its front when half of it is
// free, so that memory grows with the longest queue only.
type queue struct {
	all  []owing
	head int
}

func (q *queue) len() int      { return len(q.all) - q.head }
func (q *queue) first() *owing { return &q.all[q.head] }

// push puts somebody behind all others, or gives more to who is there already.
func (q *queue) push(w owing) {
	if n := len(q.all); n > q.head && q.all[n-1].customer == w.customer {
		q.all[n-1].quantity += w.quantity
		return
	}
	if q.head > 0 && len(q.all) == cap(q.all) && 2*q.head >= len(q.all) {
		q.all = q.all[:copy(q.all, q.all[q.head:])]
		q.head = 0
	}
	q.all = append(q.all, w)
}

func (q *queue) pop() {
	if q.head++; q.head == len(q.all) {
		q.all, q.head = q.all[:0], 0
	}
}
