// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"math"

	"github.com/disco-sim/disco/internal/heap"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/sim/dist"
	"github.com/disco-sim/disco/state"
)

// demand is the customers from outside of one location: its first layer. Nothing is sent to it, so it can be ahead of
// all others in simulated time.
type demand struct {
	spec    *Location
	link    node.LinkID // to the stock
	streams []stream    // by point
	next    heap.Heap[int32]
	file    int // next of spec.File
	data    message
}

// stream is the random numbers of the demand at one point, and when it comes next.
type stream struct {
	rnd  dist.Stream
	next float64
}

func newDemand(spec *Spec, loc *Location, p *node.Simproc) (*demand, error) {
	d := &demand{spec: loc, next: heap.New(func(a, b int32) bool { return a < b })}
	if !loc.sells() {
		return d, nil
	}
	var err error
	d.link, err = p.LinkTo(node.Endpoint{Node: p.NodeIndex(), Simproc: stockRank})
	d.streams = make([]stream, len(loc.Points))
	for i := range loc.Points {
		if of := loc.Points[i].Demand; of != nil {
			high, low := p.Seed("demand/" + spec.Products[loc.Points[i].Product])
			s := &d.streams[i]
			s.rnd = dist.MakeStream(high, low, dist.Unpaired)
			s.next = later(of.Start, of.Gap.Draw(&s.rnd))
			d.next.Push(s.next, int32(i))
		}
	}
	return d, err
}

// Handle sends the demands of an instant on, and waits for the next.
func (d *demand) Handle(p *node.Simproc, _ []node.Event) error {
	now := p.Now()
	for d.next.Len() > 0 && d.next.First().Key <= now {
		i := d.next.First().Value
		of, s := d.spec.Points[i].Demand, &d.streams[i]
		if n := whole(of.Size.Draw(&s.rnd)); n > 0 {
			if err := p.Send(d.link, now, d.data.put(wanted, uint32(i), n)); err != nil {
				return err
			}
		}
		s.next = later(now, of.Gap.Draw(&s.rnd))
		d.next.Fix(0, s.next)
	}
	for ; d.file < len(d.spec.File) && d.spec.File[d.file].Time <= now; d.file++ {
		f := &d.spec.File[d.file]
		if err := p.Send(d.link, now, d.data.put(wanted, uint32(f.Point), f.Quantity)); err != nil {
			return err
		}
	}
	at := math.Inf(1)
	if d.next.Len() > 0 {
		at = d.next.First().Key
	}
	if d.file < len(d.spec.File) {
		at = min(at, d.spec.File[d.file].Time)
	}
	if at >= p.Horizon() {
		return nil
	}
	return p.Wakeup(at)
}

// whole is the quantity of a drawn size: the nearest whole number that is none below 0.
func whole(x float64) int64 { return int64(math.Round(min(max(x, 0), quantityMax))) }

// StateVersion is that of State.
func (d *demand) StateVersion() uint32 { return 1 }

// State is the random streams, when each point's next demand comes, and how far the file is.
func (d *demand) State(p *node.Simproc, c *state.Codec) {
	c.Int(&d.file)
	if d.file < 0 || d.file > len(d.spec.File) ||
		d.file < len(d.spec.File) && d.spec.File[d.file].Time < p.Now() {
		c.Fail("found %d demands of the file behind, want those before %v s of %d", d.file, p.Now(), len(d.spec.File))
	}
	if c.Loading() {
		d.next.Clear()
	}
	for i := range d.streams {
		if d.spec.Points[i].Demand == nil {
			continue
		}
		s := &d.streams[i]
		s.rnd.State(c)
		if c.Float(&s.next); !(s.next >= p.Now() && s.next <= math.MaxFloat64) {
			c.Fail("found the next demand at %v s, want a finite time from %v s on", s.next, p.Now())
		}
		if c.Loading() {
			d.next.Push(s.next, int32(i))
		}
	}
}
