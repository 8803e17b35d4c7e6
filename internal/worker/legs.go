// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// A replication is simulated in legs (docs/checkpoints.md, section 1). A leg ends at an epoch as a replication ends at
// its horizon: every worker is blocked with nothing left before it, and the idle moment whose least next activation is
// none is its end (docs/sync.md, "Ends of legs"). Between two legs all workers stand still, and nothing is under way
// between them.

// untilOf is the end of a leg as messages have it: 0 is the horizon.
func untilOf(epoch float64) float64 {
	if epoch == 0 {
		return math.Inf(1)
	}
	return epoch
}

// endLeg sets the end of the leg. Nothing at it or later was handled.
func (c *cycle) endLeg(until float64) error {
	if front, any := c.engine.Front(); !(until > 0) || any && until <= front {
		return fmt.Errorf("worker: a leg is to end at %v, but what is at %v was handled, want a later end", until,
			front)
	}
	c.until = until
	c.engine.SetUntil(until)
	return nil
}

// held tells whether what run has come to is the end of a leg, and not of the replication.
func (c *cycle) held() bool { return c.until < c.horizon }

// saved is the answer at the end of a leg.
func (r *replications) saved() *Message {
	s := r.cycle.engine.Stats()
	return &Message{Type: TypeSaved, Saved: &Saved{Epoch: r.cycle.until, Events: s.Events, Activations: s.Activations,
		Work: r.cycle.workOf()}}
}

// leg makes the worker ready for the next leg. None runs before all are: who has found the end of the last one was
// posted until now, so that all others found it, and posts again only when nobody is posted for that end any more.
func (r *replications) leg(l *Leg) error {
	c := r.cycle
	if c.engine == nil || !c.ended || !c.held() {
		return fmt.Errorf("worker: a leg until %v was to follow one that hasn't ended", l.Until)
	}
	until := untilOf(l.Until)
	if until <= c.until {
		return fmt.Errorf("worker: a leg is to end at %v, want later than %v, where the last one did", until, c.until)
	}
	if l.Moved {
		if err := r.adopt(); err != nil {
			return err
		}
	}
	if err := r.calls.leg(r.plan, c.until); err != nil {
		return err
	}
	c.withdraw()
	c.ended = false
	c.stop.renew()
	c.stuckSince = time.Time{}
	return c.endLeg(until)
}

// reportSoFar sends what there is at the end of a leg. What can't be reported before the end costs that, and not the
// run.
func (r *replications) reportSoFar() (*Reported, error) {
	c := r.cycle
	if c.engine == nil || !c.ended || !c.held() {
		return nil, errors.New("worker: results so far were asked for where no leg has ended")
	}
	err := r.report(c.until, c.engine.EachReportSoFar)
	if errors.Is(err, ErrLauncherGone) || err == nil {
		return &Reported{}, err
	}
	return &Reported{Error: err.Error()}, nil
}
