// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"cmp"
	"math"
	"slices"

	"github.com/disco-sim/disco/internal/heap"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/state"
)

// StateVersion is that of State.
func (s *station) StateVersion() uint32 { return 1 }

// State is where the random streams are, which servers are busy until when, when customers leave, and what was counted.
// The next service time was drawn already, so it is saved and not drawn again. Servers that are free, and how many
// there are, aren't saved: a run may go on with others.
func (s *station) State(p *node.Simproc, c *state.Codec) {
	c.Source(s.service.src)
	c.Source(s.route)
	if s.spec.Arrivals != nil {
		c.Source(s.arrivals.src)
	}
	c.Float(&s.nextService)
	if !(s.nextService >= s.least && s.nextService <= math.MaxFloat64) {
		c.Fail("found a next service time of %v s, want a finite one, at least %v s", s.nextService, s.least)
	}
	saveTimes(c, &s.free, p.Now(), s.spec.Servers, "servers in use")
	if c.Loading() && !c.Failed() {
		for s.free.Len() < s.spec.Servers {
			s.free.Push(0, struct{}{})
		}
	}
	if s.spec.Buffer != Unlimited {
		saveTimes(c, &s.leaving, p.Now(), s.spec.Servers+s.spec.Buffer, "customers inside")
	}
	for _, b := range s.tally {
		b.State(c)
	}
}

// saveTimes writes or reads the times behind now, which are those of at most so many of something, by rising time.
func saveTimes(c *state.Codec, h *times, now float64, most int, what string) {
	var rising []heap.Item[struct{}]
	if !c.Loading() {
		for _, i := range h.Items() {
			if i.Key > now {
				rising = append(rising, i)
			}
		}
		slices.SortFunc(rising, func(a, b heap.Item[struct{}]) int { return cmp.Compare(a.Key, b.Key) })
	}
	last := now
	state.List(c, &rising, 8, func(i *heap.Item[struct{}]) {
		if c.Float(&i.Key); !(i.Key > now && i.Key >= last && i.Key <= math.MaxFloat64) {
			c.Fail("found the time %v s, want finite ones after %v s, rising", i.Key, now)
		}
		last = i.Key
	})
	if len(rising) > most {
		c.Fail("found %d %s, until %v s at the latest, want at most %d", len(rising), what, last, most)
	}
	if !c.Loading() || c.Failed() {
		return
	}
	if _, ok := h.Set(rising); !ok {
		panic("queueing: rising times are no heap")
	}
}
