// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"fmt"
	"math"

	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/sim/dist"
)

// stock is the stocks of one location, or an endless one: its second layer. What happens at one instant is done in this
// order: what arrives goes to those who wait, first come first served; what is asked for is given, owed or lost, in the
// engine's order; policies are reviewed. So orders reach a supplier at the same instant from all its customers before
// it reviews its own.
type stock struct {
	spec           *Location
	warmup, period float64
	points         []point
	customers      []customer
	clocks         []clock
	lead           dist.Stream
	limits         [messages]int
	touched        []int32 // points of continuous review that were asked
	due            bool    // some point waits for the calendar
	data           message
	windows        *measure.Windows
}

// point is the stock of one product.
type point struct {
	spec                  *Point
	up                    node.LinkID
	touched, due          bool
	short                 bool // something wasn't met since the last arrival
	onHand, onOrder, owed int64
	waiting               queue
	last                  float64 // sums are up to here
	index                 int64   // period under way
	orderedNow, demandNow int64   // in it
	since                 int64   // demand since the last review
	history               []int64 // of demand between reviews: a ring, full or not
	oldest                int
	recent                int64 // their sum
	sums                  sums

	windows *measure.Windows // of all points of the location; nil: no time series are asked for
	field   int              // the first of this one's
}

// customer is who orders here.
type customer struct {
	*Customer
	link node.LinkID
}

// clock is the reviews of one rhythm.
type clock struct {
	every  float64
	next   int64 // the next is at next × every
	points []int32
}

func newStock(spec *Spec, loc *Location, p *node.Simproc) (*stock, error) {
	s := &stock{spec: loc, warmup: spec.Warmup, period: spec.Period, points: make([]point, len(loc.Points)),
		customers: make([]customer, len(loc.Customers)), touched: make([]int32, 0, len(loc.Points))}
	if spec.windows > 0 && len(loc.Points) > 0 {
		s.windows = measure.NewWindows(spec.Horizon, spec.windows, windowFields*len(loc.Points))
	}
	s.limits = [messages]int{arrival: len(loc.Points), order: len(loc.Customers), wanted: len(loc.Points)}
	high, low := p.Seed("lead times")
	s.lead = dist.MakeStream(high, low, dist.Unpaired)
	for i := range s.customers {
		c := &s.customers[i]
		c.Customer = &loc.Customers[i]
		var err error
		if c.link, err = p.LinkTo(node.Endpoint{Node: int(c.Location), Simproc: stockRank}); err != nil {
			return nil, err
		}
	}
	for i := range s.points {
		pt := &s.points[i]
		pt.spec, pt.index = &loc.Points[i], -1
		pt.onHand = pt.spec.Stock.Initial
		pt.windows, pt.field = s.windows, i*windowFields
		to := node.Endpoint{Node: int(pt.spec.Supplier), Simproc: stockRank}
		if pt.spec.Made {
			to.Simproc = lineRank
		}
		var err error
		if pt.up, err = p.LinkTo(to); err != nil {
			return nil, err
		}
		if !pt.spec.Stock.continuous() {
			s.addClock(pt.spec.Stock.Every, int32(i))
		}
		if n := pt.spec.Stock.Periods; n > 0 {
			pt.history = make([]int64, 0, n)
		}
	}
	return s, nil
}

func (s *stock) addClock(every float64, point int32) {
	for i := range s.clocks {
		if s.clocks[i].every == every {
			s.clocks[i].points = append(s.clocks[i].points, point)
			return
		}
	}
	s.clocks = append(s.clocks, clock{every: every, points: []int32{point}})
}

// Handle does all that is due at an instant.
func (s *stock) Handle(p *node.Simproc, events []node.Event) error {
	asked := false
	for i := range events {
		what, at, quantity, err := readMessage(events[i].Data, &s.limits)
		if err != nil {
			return err
		}
		if asked = asked || what != arrival; what == arrival {
			if err := s.arrive(p, int32(at), quantity); err != nil {
				return err
			}
		}
	}
	for i := range events {
		if !asked {
			break
		}
		what, at, quantity, err := readMessage(events[i].Data, &s.limits)
		if err == nil && what != arrival {
			err = s.ask(p, what, int32(at), quantity)
		}
		if err != nil {
			return err
		}
	}
	return s.review(p)
}

// arrive takes units in, and gives them to those who wait.
func (s *stock) arrive(p *node.Simproc, at int32, quantity int64) error {
	pt := &s.points[at]
	if quantity > pt.onOrder {
		return fmt.Errorf("supply: %d units arrive at point %d of %s, where %d are on order", quantity, at, s.spec.ID,
			pt.onOrder)
	}
	now := p.Now()
	pt.pass(now, s.warmup)
	pt.onHand += quantity
	pt.onOrder -= quantity
	if now >= s.warmup {
		pt.sums[received] += float64(quantity)
		pt.sums[cycles]++
		if !pt.short {
			pt.sums[goodCycles]++
		}
	}
	for pt.onHand > 0 && pt.waiting.len() > 0 {
		w := pt.waiting.first()
		n := min(pt.onHand, w.quantity)
		to := w.customer
		if w.quantity -= n; w.quantity == 0 {
			pt.waiting.pop()
		}
		pt.owed -= n
		pt.onHand -= n
		if err := s.give(p, pt, to, n); err != nil {
			return err
		}
	}
	pt.short = pt.owed > 0
	if pt.spec.Stock.continuous() && pt.spec.Most > 0 {
		s.touch(at) // there is room in the line again
	}
	return nil
}

// outside is the customer who is none of the network.
const outside = -1

// ask gives what there is of what somebody wants, and owes the rest or loses it.
func (s *stock) ask(p *node.Simproc, what uint32, at int32, quantity int64) error {
	to := int32(outside)
	if what == order {
		if to, at = at, s.customers[at].Own; at < 0 {
			s.recordAsk(p, nil, to, quantity, 0)
			return s.give(p, nil, to, quantity)
		}
	}
	pt, now := &s.points[at], p.Now()
	pt.pass(now, s.warmup)
	pt.turn(now, s)
	pt.demandNow += quantity
	if pt.spec.Stock.Periods > 0 {
		pt.since += quantity
	}
	met := min(pt.onHand, quantity)
	pt.onHand -= met
	rest := quantity - met
	lost := rest > 0 && to == outside && pt.spec.Stock.Lost
	if lost {
		s.recordAsk(p, pt, to, quantity, rest)
	} else {
		s.recordAsk(p, pt, to, quantity, 0)
	}
	pt.windows.At(now, pt.field+askedFor, float64(quantity))
	pt.windows.At(now, pt.field+metAtOnce, float64(met))
	if lost {
		pt.windows.At(now, pt.field+neverMet, float64(rest))
	}
	if now >= s.warmup {
		pt.sums[demanded] += float64(quantity)
		pt.sums[filled] += float64(met)
		if lost {
			pt.sums[lostUnits] += float64(rest)
		}
	}
	if pt.spec.Stock.continuous() {
		s.touch(at)
	}
	if rest > 0 {
		pt.short = true
		if !lost {
			pt.owed += rest
			if pt.owed > owedMax {
				return fmt.Errorf("supply: point %d of %s owes %d units at %v s, want at most %d: its supply is "+
					"less than "+
					"its demand", at, s.spec.ID, pt.owed, now, int64(owedMax))
			}
			pt.waiting.push(owing{to, rest})
		}
	}
	if met == 0 {
		return nil
	}
	return s.give(p, pt, to, met)
}

// give hands units to a customer. pt is nil where they come from a source.
func (s *stock) give(p *node.Simproc, pt *point, to int32, quantity int64) error {
	now := p.Now()
	if pt != nil && now >= s.warmup {
		pt.sums[given] += float64(quantity)
	}
	if to == outside {
		s.recordGive(p, pt, quantity, now)
		return nil
	}
	c := &s.customers[to]
	at := later(now, c.Lead.Draw(&s.lead))
	s.recordGive(p, pt, quantity, at)
	return p.Send(c.link, at, s.data.put(arrival, uint32(c.Point), quantity))
}

// touch notes that a point of continuous review is to be reviewed.
func (s *stock) touch(at int32) {
	if pt := &s.points[at]; !pt.touched {
		pt.touched = true
		s.touched = append(s.touched, at)
	}
}

// pass adds up what has held since the last change.
func (pt *point) pass(now, warmup float64) {
	if seconds := now - max(pt.last, warmup); seconds > 0 {
		pt.sums[stockTime] += float64(float64(pt.onHand) * seconds)
		pt.sums[owedTime] += float64(float64(pt.owed) * seconds)
		pt.sums[orderTime] += float64(float64(pt.onOrder) * seconds)
		if pt.onHand > 0 {
			pt.sums[readyTime] += seconds
		}
	}
	if pt.windows != nil {
		pt.windows.Over(pt.last, now, pt.field+stockHeld, float64(pt.onHand))
		pt.windows.Over(pt.last, now, pt.field+stockOwed, float64(pt.owed))
	}
	pt.last = now
}

// periodSlack is by how much of a period an instant may miss its end and still be it: multiples of 0.1 do.
const periodSlack = 1e-9

// periodAt is the index of the period that an instant belongs to: its end does, its beginning doesn't.
func (s *stock) periodAt(t float64) int64 { return int64(math.Ceil(t/s.period-periodSlack)) - 1 }

// turn closes the periods that are over.
func (pt *point) turn(now float64, s *stock) {
	index := s.periodAt(now)
	if index <= pt.index {
		return
	}
	first := int64(math.Ceil(s.warmup/s.period - periodSlack)) // that counts
	if pt.index >= first {
		o, d := float64(pt.orderedNow), float64(pt.demandNow)
		pt.sums[orders1] += o
		pt.sums[orders2] += float64(o * o)
		pt.sums[demand1] += d
		pt.sums[demand2] += float64(d * d)
	}
	pt.sums[periods] += float64(max(0, index-max(pt.index, first)))
	pt.index, pt.orderedNow, pt.demandNow = index, 0, 0
}

// Report is the sums of each point up to now, little endian.
func (s *stock) Report(p *node.Simproc) ([]byte, error) {
	if len(s.points) == 0 {
		return nil, nil
	}
	b := make([]byte, 0, reportBytes*len(s.points))
	windows := s.windows.Clone()
	for i := range s.points {
		pt := s.points[i] // a copy: a report changes nothing
		pt.windows = windows
		pt.pass(p.Now(), s.warmup)
		pt.turn(p.Now(), s)
		b = pt.sums.append(b)
	}
	windows.Reach(p.Now())
	return windows.Append(b), nil
}
