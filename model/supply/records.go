// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"fmt"
	"math"

	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

var _ scenario.Recorder = (*Model)(nil)

// What stocks and lines record. Words: what; the point's index at the location, noPoint for an endless source; units;
// and of an order 1 + the customer's index, 0 for demand from outside, and the units of it that are lost; of what is
// handed over, or made, when it arrives.
const (
	recordAsked = iota
	recordGiven // to whoever waits longest
	recordMade
)

const noPoint = 1<<32 - 1

// pointOf is what records call a point: its index, noPoint where there is none.
func (s *stock) pointOf(pt *point) uint64 {
	if pt == nil {
		return noPoint
	}
	return uint64(pt.field / windowFields)
}

// recordAsk records what is asked for.
func (s *stock) recordAsk(p *node.Simproc, pt *point, to int32, quantity, lost int64) {
	if p.Recording() {
		p.Record(node.Row{recordAsked, s.pointOf(pt), uint64(quantity), uint64(to + 1), uint64(lost)})
	}
}

// recordGive records what is handed over, and when it arrives.
func (s *stock) recordGive(p *node.Simproc, pt *point, quantity int64, arrives float64) {
	if p.Recording() {
		p.Record(node.Row{recordGiven, s.pointOf(pt), uint64(quantity), math.Float64bits(arrives)})
	}
}

// Columns of records.
const (
	recordWhat = iota
	recordLocation
	recordProduct
	recordCustomer
	recordQuantity
	recordAtOnce
	recordLost
	recordBegan
	recordEnded
	recordWaited
	recordOutcome
)

// What rows are about.
const (
	demandRow = iota
	orderRow
	lotRow
)

// Outcomes.
const (
	outcomeAtOnce = iota
	outcomeLate
	outcomeLost     // some of it, or all
	outcomeWaiting  // some of it hasn't been handed over
	outcomeOnTheWay // all was handed over, and some is on its way; of a lot: it isn't made
	outcomeMade
)

var (
	recordWhats    = []string{"demand", "order", "lot"}
	recordOutcomes = []string{"at_once", "late", "lost", "waiting", "on_the_way", "made"}
)

// RecordColumns implements scenario.Recorder: a row is a demand, an order, or a lot that was made.
func (m *Model) RecordColumns() []scenario.RecordColumn {
	location := func(n int) string { return m.spec.Locations[n].ID }
	return []scenario.RecordColumn{
		{Name: "what", Type: scenario.RecordName, NameOf: func(n int) string { return recordWhats[n] }},
		{Name: "location", Type: scenario.RecordName, NameOf: location},
		{Name: "product", Type: scenario.RecordName, NameOf: func(n int) string { return m.spec.Products[n] }},
		{Name: "customer", Type: scenario.RecordName, NameOf: location},
		{Name: "quantity", Type: scenario.RecordInt}, {Name: "at_once", Type: scenario.RecordInt},
		{Name: "lost", Type: scenario.RecordInt},
		{Name: "began_s", Type: scenario.RecordNumber}, {Name: "ended_s", Type: scenario.RecordNumber},
		{Name: "waited_s", Type: scenario.RecordNumber},
		{Name: "outcome", Type: scenario.RecordName, NameOf: func(n int) string { return recordOutcomes[n] }},
	}
}

// orderRows makes rows of what was recorded.
type orderRows struct {
	m       *Model
	reached float64
	at      map[uint64]*waitingOrders // by location and point
	keys    []uint64                  // of at, in the order in which they came
}

// waitingOrders are those at a point that haven't got all, the first first.
type waitingOrders struct {
	all  []openOrder
	head int
}

// openOrder is one of them.
type openOrder struct {
	asked, arrives               float64 // arrives: the last that was handed over
	quantity, left, atOnce, lost int64
	to                           int32 // index of the customer, or outside
}

// Records implements scenario.Recorder.
func (m *Model) Records(reached float64) scenario.Records {
	return &orderRows{m: m, reached: reached, at: map[uint64]*waitingOrders{}}
}

// Take implements scenario.Records.
func (o *orderRows) Take(r *node.Recorded, w scenario.RecordWriter) error {
	location := o.m.graph.Endpoint(r.Simproc).Node
	loc, point := &o.m.spec.Locations[location], r.Row[1]
	what, units := r.Row[0], int64(r.Row[2])
	if point >= uint64(len(loc.Points)) && (point != noPoint || what == recordMade) || what > recordMade ||
		units <= 0 || what == recordAsked && r.Row[3] > uint64(len(loc.Customers)) {
		return fmt.Errorf("supply: record %d of %d units at point %d of %s: a defect of disco", what, units, point,
			loc.ID)
	}
	if what == recordMade {
		return o.writeLot(w, r, location, math.Float64frombits(r.Row[3]))
	}
	key := uint64(location)<<32 | point
	q := o.at[key]
	if q == nil {
		q = &waitingOrders{}
		o.at[key], o.keys = q, append(o.keys, key)
	}
	if what == recordAsked {
		x := openOrder{asked: r.Epoch, quantity: units, lost: int64(r.Row[4]), to: int32(r.Row[3]) - 1}
		x.left = units - x.lost
		if x.left <= 0 { // it waits for nothing
			return o.write(w, key, &x, r.Epoch)
		}
		if q.head > 0 && 2*q.head >= len(q.all) {
			q.all, q.head = q.all[:copy(q.all, q.all[q.head:])], 0
		}
		q.all = append(q.all, x)
		return nil
	}
	for units > 0 && q.head < len(q.all) {
		x := &q.all[q.head]
		n := min(units, x.left)
		if x.left, units = x.left-n, units-n; r.Epoch == x.asked {
			x.atOnce += n
		}
		x.arrives = max(x.arrives, math.Float64frombits(r.Row[3]))
		if x.left > 0 {
			break
		}
		q.head++
		if err := o.write(w, key, x, r.Epoch); err != nil {
			return err
		}
	}
	if units > 0 {
		return fmt.Errorf("supply: %d units for nobody at %v s at %s: a defect of disco", units, r.Epoch, loc.ID)
	}
	return nil
}

// write writes the row of an order, of which the last was handed over at now; of one that waits, now is where the run
// ends.
func (o *orderRows) write(w scenario.RecordWriter, key uint64, x *openOrder, now float64) error {
	location, point := int(key>>32), key&noPoint
	loc := &o.m.spec.Locations[location]
	what := demandRow
	if x.to != outside {
		c := &loc.Customers[x.to]
		what = orderRow
		w.Name(recordCustomer, int(c.Location))
		w.Name(recordProduct, int(o.m.spec.Locations[c.Location].Points[c.Point].Product))
	} else {
		w.Name(recordProduct, int(loc.Points[point].Product))
	}
	outcome := outcomeLate
	switch {
	case x.left > 0:
		outcome = outcomeWaiting
	case x.lost > 0:
		outcome = outcomeLost
	case x.arrives >= o.reached:
		outcome = outcomeOnTheWay
	case x.atOnce == x.quantity:
		outcome = outcomeAtOnce
	}
	w.Name(recordWhat, what)
	w.Name(recordLocation, location)
	w.Int(recordQuantity, x.quantity)
	w.Int(recordAtOnce, x.atOnce)
	w.Int(recordLost, x.lost)
	w.Number(recordBegan, x.asked)
	if x.left <= 0 && x.arrives < o.reached {
		w.Number(recordEnded, max(x.arrives, now))
	}
	w.Number(recordWaited, now-x.asked)
	w.Name(recordOutcome, outcome)
	return w.Row()
}

// writeLot writes the row of a lot that is finished at a time.
func (o *orderRows) writeLot(w scenario.RecordWriter, r *node.Recorded, location int, finished float64) error {
	w.Name(recordWhat, lotRow)
	w.Name(recordLocation, location)
	w.Name(recordProduct, int(o.m.spec.Locations[location].Points[r.Row[1]].Product))
	w.Int(recordQuantity, int64(r.Row[2]))
	w.Number(recordBegan, r.Epoch)
	if finished >= o.reached {
		w.Name(recordOutcome, outcomeOnTheWay)
		return w.Row()
	}
	w.Number(recordEnded, finished)
	w.Name(recordOutcome, outcomeMade)
	return w.Row()
}

// End implements scenario.Records: those who wait, point by point.
func (o *orderRows) End(w scenario.RecordWriter) error {
	for _, key := range o.keys {
		q := o.at[key]
		for i := q.head; i < len(q.all); i++ {
			if err := o.write(w, key, &q.all[i], o.reached); err != nil {
				return err
			}
		}
	}
	return nil
}
