// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"fmt"
	"math"

	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/sim/dist"
	"github.com/disco-sim/disco/state"
)

// production is the lines of one location: its last layer. A line makes lots in the order in which they were ordered,
// and neither its calendar nor its breakdowns depend on what it makes; so when a lot is ordered, all that decides when
// it will be finished is known, and it is sent for that time at once.
type production struct {
	spec  *Location
	link  node.LinkID // to the stock
	lines []line
	data  message
}

// line is one production line.
type line struct {
	spec             *Line
	free             float64 // when all that was ordered is made
	downFrom, downTo float64 // the first breakdown that isn't behind; +Inf: none comes
	work, breaks     dist.Stream
}

func newProduction(_ *Spec, loc *Location, p *node.Simproc) (*production, error) {
	f := &production{spec: loc, lines: make([]line, len(loc.Lines))}
	if len(loc.Lines) == 0 {
		return f, nil
	}
	var err error
	f.link, err = p.LinkTo(node.Endpoint{Node: p.NodeIndex(), Simproc: stockRank})
	for i := range f.lines {
		l := &f.lines[i]
		l.spec, l.downFrom = &loc.Lines[i], math.Inf(1)
		high, low := p.Seed(fmt.Sprintf("production/%d", i))
		l.work = dist.MakeStream(high, low, dist.Unpaired)
		high, low = p.Seed(fmt.Sprintf("breakdowns/%d", i))
		l.breaks = dist.MakeStream(high, low, dist.Unpaired)
		if l.spec.Failure.IsSet() {
			l.downFrom = later(0, l.spec.Failure.Draw(&l.breaks))
			l.downTo = later(l.downFrom, l.spec.Repair.Draw(&l.breaks))
		}
	}
	return f, err
}

// lotsMax bounds the lots of one order.
const lotsMax = 1 << 20

// Handle takes the orders of an instant.
func (f *production) Handle(p *node.Simproc, events []node.Event) error {
	limits := [messages]int{produce: len(f.spec.Points)}
	for i := range events {
		_, at, quantity, err := readMessage(events[i].Data, &limits)
		if err != nil {
			return err
		}
		pt := &f.spec.Points[at]
		if !pt.Made {
			return fmt.Errorf("supply: %s is to make point %d, want one that it makes", f.spec.ID, at)
		}
		if quantity/pt.Stock.Lot >= lotsMax {
			return fmt.Errorf("supply: %s is to make %d units of point %d in lots of %d, want at most %d lots at "+
				"once: give "+
				"the stock a larger lot, or the line a queue", f.spec.ID, quantity, at, pt.Stock.Lot, lotsMax)
		}
		if err := f.make(p, &f.lines[pt.Slot], at, quantity, pt.Stock.Lot); err != nil {
			return err
		}
	}
	return nil
}

// make puts an order behind all that the line has to make. What would be finished after the horizon is never seen.
func (f *production) make(p *node.Simproc, l *line, point uint32, quantity, lot int64) error {
	for now := p.Now(); quantity > 0 && l.free < p.Horizon(); quantity -= lot {
		seconds := l.spec.Time.Draw(&l.work)
		l.free = max(l.finish(max(l.free, now), seconds, p.Horizon()), later(now, l.spec.Time.Min()))
		if l.free >= p.Horizon() {
			break
		}
		if p.Recording() {
			p.Record(node.Row{recordMade, uint64(point), uint64(min(quantity, lot)), math.Float64bits(l.free)})
		}
		if err := p.Send(f.link, l.free, f.data.put(arrival, point, min(quantity, lot))); err != nil {
			return err
		}
	}
	return nil
}

// finish is when work that begins at t, or as soon after it as the line can, is done; horizon or later: not before
// that.
func (l *line) finish(t, seconds, horizon float64) float64 {
	for t < horizon {
		if t >= l.downTo && l.spec.Failure.IsSet() {
			l.downFrom = later(l.downTo, l.spec.Failure.Draw(&l.breaks))
			l.downTo = later(l.downFrom, l.spec.Repair.Draw(&l.breaks))
			continue
		}
		if t >= l.downFrom {
			t = l.downTo
			continue
		}
		end := l.spec.Calendar.work(t, seconds)
		if end <= l.downFrom {
			return end
		}
		seconds = max(0, seconds-l.spec.Calendar.between(t, l.downFrom))
		t = l.downTo
	}
	return t
}

// StateVersion is that of State.
func (f *production) StateVersion() uint32 { return 1 }

// State is how far each line is.
func (f *production) State(_ *node.Simproc, c *state.Codec) {
	for i := range f.lines {
		l := &f.lines[i]
		l.work.State(c)
		if c.Float(&l.free); !(l.free >= 0) {
			c.Fail("found a line that is free from %v s on, want a time from 0 on", l.free)
		}
		if !l.spec.Failure.IsSet() {
			continue
		}
		l.breaks.State(c)
		c.Float(&l.downFrom)
		c.Float(&l.downTo)
		if !(l.downFrom > 0 && l.downTo > l.downFrom) {
			c.Fail("found a breakdown from %v s to %v s, want rising times", l.downFrom, l.downTo)
		}
	}
}
