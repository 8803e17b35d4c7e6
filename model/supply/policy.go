// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"math"

	"github.com/disco-sim/disco/node"
)

// orderMax bounds one order.
const orderMax = 2e15

// review orders at all points whose policy says so at this instant.
func (s *stock) review(p *node.Simproc) error {
	now := p.Now()
	for i := range s.clocks {
		if err := s.strike(p, &s.clocks[i]); err != nil {
			return err
		}
	}
	if now == 0 {
		for i := range s.points {
			if s.points[i].spec.Stock.continuous() {
				s.touch(int32(i))
			}
		}
	}
	open := s.spec.Calendar.next(now)
	if s.due && open <= now {
		s.due = false
		for i := range s.points {
			if s.points[i].due {
				s.points[i].due = false
				if err := s.order(p, int32(i)); err != nil {
					return err
				}
			}
		}
	}
	for _, at := range s.touched {
		s.points[at].touched = false
		if err := s.orderWhen(p, at, open); err != nil {
			return err
		}
	}
	s.touched = s.touched[:0]
	return nil
}

// strike does what is due by a clock, and sets it.
func (s *stock) strike(p *node.Simproc, c *clock) error {
	now := p.Now()
	if float64(c.next)*c.every > now {
		return nil
	}
	open := s.spec.Calendar.next(now)
	for _, at := range c.points {
		s.points[at].close(now, s.warmup, c.next > 0)
		if err := s.orderWhen(p, at, open); err != nil {
			return err
		}
	}
	c.next++
	if at := float64(c.next) * c.every; at < p.Horizon() {
		return p.Wakeup(at)
	}
	return nil
}

// close ends the time between two reviews: its demand is one more for the forecast, and a newsvendor throws away what
// is left.
func (pt *point) close(now, warmup float64, whole bool) {
	st := pt.spec.Stock
	if whole && st.Periods > 0 {
		if len(pt.history) < st.Periods {
			pt.history = append(pt.history, pt.since)
		} else {
			pt.recent -= pt.history[pt.oldest]
			pt.history[pt.oldest] = pt.since
			pt.oldest = (pt.oldest + 1) % st.Periods
		}
		pt.recent += pt.since
	}
	pt.since = 0
	if st.Policy == Newsvendor && pt.onHand > 0 && whole {
		pt.pass(now, warmup)
		if now >= warmup {
			pt.sums[thrown] += float64(pt.onHand)
		}
		pt.onHand = 0
	}
}

// orderWhen orders at once, or when the location opens.
func (s *stock) orderWhen(p *node.Simproc, at int32, open float64) error {
	if open <= p.Now() {
		return s.order(p, at)
	}
	if s.points[at].due {
		return nil
	}
	s.points[at].due = true
	if s.due {
		return nil
	}
	if s.due = true; open < p.Horizon() {
		return p.Wakeup(open)
	}
	return nil
}

// order places the order that the policy asks for, if any.
func (s *stock) order(p *node.Simproc, at int32) error {
	pt, now := &s.points[at], p.Now()
	n := min(pt.amount(), orderMax)
	if most := pt.spec.Most; most > 0 && n > most-pt.onOrder {
		n = max(0, most-pt.onOrder)
		step := pt.spec.Stock.step()
		n -= n % step
	}
	if n <= 0 {
		return nil
	}
	pt.pass(now, s.warmup)
	pt.turn(now, s)
	pt.onOrder += n
	pt.orderedNow += n
	pt.windows.At(now, pt.field+orderedUnits, float64(n))
	if now >= s.warmup {
		pt.sums[orders]++
		pt.sums[ordered] += float64(n)
	}
	what, to := uint32(order), uint32(pt.spec.Slot)
	if pt.spec.Made {
		what, to = produce, uint32(at)
	}
	epoch := now
	if pt.spec.Delay > 0 {
		epoch = later(now, pt.spec.Delay)
	}
	return p.Send(pt.up, epoch, s.data.put(what, to, n))
}

// step is what orders are multiples of.
func (st *Stock) step() int64 {
	if st.Policy == ReorderPoint {
		return st.Quantity
	}
	return st.Lot
}

// amount is how many units the policy orders now.
func (pt *point) amount() int64 {
	st := pt.spec.Stock
	position := pt.onHand - pt.owed + pt.onOrder
	missing := int64(0)
	switch st.Policy {
	case BaseStock:
		missing = st.UpTo - position
	case ReorderPoint:
		missing = st.Reorder - position + 1
	case Periodic:
		missing = pt.target() - position
	case Newsvendor:
		missing = st.Quantity
	}
	if missing <= 0 {
		return 0
	}
	step := st.step()
	return (missing + step - 1) / step * step
}

// target is up to where a periodic review orders.
func (pt *point) target() int64 {
	st := pt.spec.Stock
	if st.Periods == 0 {
		return st.UpTo
	}
	mean := 0.0
	if n := len(pt.history); n > 0 {
		mean = float64(pt.recent) / float64(n)
	}
	return int64(math.Round(min(float64(st.Cover*mean)+st.Safety, owedMax)))
}
