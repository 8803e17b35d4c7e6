// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/disco-sim/disco/internal/worker"
)

// halt is a stop that is under way; worker/stop.go has the protocol. The zero value is
// none.
type halt struct {
	ticker  *time.Ticker // nil: not stopping
	began   time.Time
	moved   time.Time // when a worker was last seen to get on
	events  uint64    // handled by then
	limited bool      // the common end is known to the workers
	epoch   float64   // … this one
	told    bool      // that it takes long
}

// haltTick is the time between two looks at workers that are to stop.
const haltTick = 50 * time.Millisecond

// haltNote is how long a stop may take before people are told what it waits for.
const haltNote = 2 * time.Second

func (h *halt) ticks() <-chan time.Time {
	if h.ticker == nil {
		return nil
	}
	return h.ticker.C
}

func (h *halt) close() {
	if h.ticker != nil {
		h.ticker.Stop()
	}
}

// sayStop asks running workers how far they have come, to end there together.
func (s *supervisor) sayStop(h *halt) error {
	h.began = time.Now()
	h.moved, h.ticker = h.began, time.NewTicker(haltTick)
	for _, m := range s.crew.members {
		if err := m.say(&worker.Message{Type: worker.TypeStop}); err != nil {
			return err
		}
	}
	return s.sayLimit(h)
}

// sayLimit tells the workers the common end as soon as all have answered Stop, or are
// done.
func (s *supervisor) sayLimit(h *halt) error {
	if h.ticker == nil || h.limited {
		return nil
	}
	for i := range s.states {
		if st := &s.states[i]; st.halted == nil && st.answer == nil {
			return nil
		}
	}
	h.limited, h.moved, h.epoch = true, time.Now(), s.commonEnd()
	for i, m := range s.crew.members {
		if s.states[i].answer != nil {
			continue
		}
		if err := m.say(&worker.Message{Type: worker.TypeLimit, Limit: &worker.Limit{Epoch: h.epoch}}); err != nil {
			return err
		}
	}
	return nil
}

// commonEnd is the least time at or after which no worker has handled anything. Where
// one is done by itself, all are about to be: that is the horizon's end, and no limit.
func (s *supervisor) commonEnd() float64 {
	end := 0.0
	for i := range s.states {
		st := &s.states[i]
		if st.answer != nil {
			return math.MaxFloat64
		}
		if st.halted.Handled {
			end = max(end, math.Nextafter(st.halted.Epoch, math.Inf(1)))
		}
	}
	return end
}

// patience ends a stop that leads nowhere: a worker that doesn't answer Stop, or doesn't
// get on towards the common end, and one that takes too long altogether.
func (s *supervisor) patience(h *halt) error {
	now := time.Now()
	h.began, h.moved = sinceResumed(h.began), sinceResumed(h.moved)
	if events := s.events(); h.limited && events != h.events {
		h.events, h.moved = events, now
	}
	switch {
	case now.Sub(h.moved) > s.times.stop && !h.limited:
		return s.unresponsive(func(st *state) bool { return st.halted == nil }, fmt.Sprintf("didn't answer stop within %v", s.times.stop),
			"a call of a model's handler takes longer than that, or hangs")
	case now.Sub(h.moved) > s.times.stop:
		return s.unresponsive(func(*state) bool { return true }, fmt.Sprintf("didn't get on for %v towards the common end at %v s", s.times.stop, h.epoch),
			"a call of a model's handler takes longer than that, or hangs")
	case now.Sub(h.began) > s.times.limit:
		return s.unresponsive(func(*state) bool { return true }, fmt.Sprintf("didn't come to the common end at %v s within %v", h.epoch, s.times.limit),
			"some were far ahead of the others")
	case h.limited && !h.told && now.Sub(h.began) > haltNote:
		h.told = true
		s.note(fmt.Sprintf("handling what is before %v s: a worker had come so far, and all are to end at one simulated time", h.epoch))
	}
	return nil
}

// unresponsive is the error for members that have not answered and that late picks.
func (s *supervisor) unresponsive(late func(*state) bool, what, why string) error {
	var names, stopped []string
	for i := range s.states {
		m := s.crew.members[i]
		if st := &s.states[i]; st.answer != nil || !late(st) {
			continue
		}
		names = append(names, fmt.Sprintf("worker %d", m.number))
		if m.pid != 0 && s.watch.state(m.pid) == "stopped" {
			stopped = append(stopped, fmt.Sprintf("worker %d (process %d)", m.number, m.pid))
		}
	}
	if len(stopped) > 0 {
		why = strings.Join(stopped, " and ") + " was stopped, by a signal or a debugger, and others may wait for it"
	}
	return fmt.Errorf("%w: %s %s and had to be killed: %s", ErrUnresponsive, strings.Join(names, ", "), what, why)
}
