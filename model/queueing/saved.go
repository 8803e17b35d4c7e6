// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"math"

	"github.com/disco-sim/disco/internal/heap"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/state"
)

// StateVersion is that of State.
func (s *station) StateVersion() uint32 { return 1 }

// State is where the random streams are, when servers are free and customers leave, and what was counted. The next
// service time was drawn already, so it is saved and not drawn again.
func (s *station) State(_ *node.Simproc, c *state.Codec) {
	c.Source(s.service.src)
	c.Source(s.route)
	if s.spec.Arrivals != nil {
		c.Source(s.arrivals.src)
	}
	c.Float(&s.nextService)
	if !(s.nextService >= s.least && s.nextService <= math.MaxFloat64) {
		c.Fail("found a next service time of %v s, want a finite one, at least %v s", s.nextService, s.least)
	}
	saveTimes(c, &s.free, s.spec.Servers, s.spec.Servers)
	if s.spec.Buffer != Unlimited {
		saveTimes(c, &s.leaving, 0, s.spec.Servers+s.spec.Buffer)
	}
	for _, b := range s.tally {
		b.State(c)
	}
}

// saveTimes writes or reads least to most times, in the order in which the heap has them.
func saveTimes(c *state.Codec, h *times, least, most int) {
	items := h.Items()
	state.List(c, &items, 8, func(i *heap.Item[struct{}]) {
		if c.Float(&i.Key); !(i.Key >= 0 && i.Key <= math.MaxFloat64) {
			c.Fail("found the time %v s, want a finite one, at least 0", i.Key)
		}
	})
	if len(items) < least || len(items) > most {
		c.Fail("found %d times, want %d to %d", len(items), least, most)
	}
	if !c.Loading() || c.Failed() {
		return
	}
	if wrong, ok := h.Set(items); !ok {
		c.Fail("found the time %v s at place %d of a heap, want a later one", items[wrong].Key, wrong)
	}
}
