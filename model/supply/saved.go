// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"math"

	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/state"
)

// StateVersion is that of State.
func (s *stock) StateVersion() uint32 { return 1 }

// State is what each point has, owes and has ordered, what it has counted, when reviews come, and the random stream of
// lead times. What is under way is with the engine.
func (s *stock) State(p *node.Simproc, c *state.Codec) {
	now := p.Now()
	s.lead.State(c)
	for i := range s.clocks {
		k := &s.clocks[i]
		if c.Int64(&k.next); !(k.next >= 0 && k.next <= owedMax && float64(k.next)*k.every >= now) {
			c.Fail("found review %d, each %v s, want one from %v s on", k.next, k.every, now)
		}
	}
	s.due = false
	for i := range s.points {
		s.points[i].state(c, now, int32(len(s.customers)))
		s.due = s.due || s.points[i].due
	}
	s.windows.State(c)
}

// unitsMax bounds numbers of units in a state, so that adding to them stays within an int64.
const unitsMax = 1e18

// owingBytes is what State has of each who waits.
const owingBytes = 12

func (pt *point) state(c *state.Codec, now float64, customers int32) {
	st := pt.spec.Stock
	c.Bool(&pt.due)
	c.Bool(&pt.short)
	for _, v := range []*int64{&pt.onHand, &pt.onOrder, &pt.orderedNow, &pt.demandNow, &pt.since, &pt.recent} {
		if c.Int64(v); *v < 0 || *v > unitsMax {
			c.Fail("found %d units, want 0 to %d", *v, int64(unitsMax))
		}
	}
	if c.Float(&pt.last); !(pt.last >= 0 && pt.last <= now) {
		c.Fail("found the last change of a stock at %v s, want one up to %v s", pt.last, now)
	}
	if c.Int64(&pt.index); pt.index < -1 || pt.index > owedMax {
		c.Fail("found period %d, want -1 to %d", pt.index, int64(owedMax))
	}
	waiting := pt.waiting.all[pt.waiting.head:]
	sum, last := int64(0), int32(outside-1)
	state.List(c, &waiting, owingBytes, func(w *owing) {
		c.Int32(&w.customer)
		c.Int64(&w.quantity)
		if w.customer < outside || w.customer >= customers || w.customer == last || w.quantity <= 0 ||
			w.quantity > owedMax || sum > owedMax {
			c.Fail("found %d units owed to customer %d behind %d of customer %d, want 1 to %d for another one of %d",
				w.quantity, w.customer, sum, last, int64(owedMax), customers)
			return
		}
		sum, last = sum+w.quantity, w.customer
	})
	if sum > 0 && pt.onHand > 0 {
		c.Fail("found %d units on hand and %d owed, want one of them", pt.onHand, sum)
	}
	if st.Periods > 0 {
		pt.stateHistory(c)
	}
	for i := range pt.sums {
		if c.Float(&pt.sums[i]); math.IsNaN(pt.sums[i]) {
			c.Fail("found a sum that is no number")
		}
	}
	if c.Loading() && !c.Failed() {
		pt.waiting, pt.owed = queue{all: waiting}, sum
	}
}

// stateHistory is the demands that a forecast is made from.
func (pt *point) stateHistory(c *state.Codec) {
	history := pt.history
	sum := int64(0)
	state.List(c, &history, 8, func(n *int64) {
		if c.Int64(n); *n < 0 || *n > unitsMax/historyMax {
			c.Fail("found a demand of %d units, want 0 to %d", *n, int64(unitsMax/historyMax))
		}
		sum += *n
	})
	c.Int(&pt.oldest)
	most := pt.spec.Stock.Periods
	if len(history) > most || pt.oldest < 0 || pt.oldest >= most || pt.oldest > 0 && len(history) < most ||
		sum != pt.recent {
		c.Fail("found %d demands, the oldest at %d, of %d units, want up to %d, of %d units", len(history), pt.oldest,
			sum,
			most, pt.recent)
		return
	}
	if c.Loading() && !c.Failed() {
		pt.history = append(pt.history[:0], history...)
	}
}
