// SPDX-License-Identifier: Apache-2.0

package worker

import "sync/atomic"

// How a run is stopped so that all of its results are about one simulated time:
//
//  1. The launcher sends Stop. Every worker ends the handler call under way, calls no
//     other, and answers Stopped with the latest epoch at which it has called one. It
//     goes on taking in what peers send, so that a peer whose call waits for room in a
//     lane can end it too.
//  2. The launcher takes the least time E after all of these epochs, and sends Limit.
//     Nobody has handled anything at E or later.
//  3. Every worker makes E its horizon and goes on. The run then ends as one with that
//     horizon ends by itself: when all workers stand still and nothing is pending
//     before E. Every worker sends Done. Or Limit says that E is the end of the leg
//     (legs.go): then it ends in the same way, and every worker sends Saved.
//
// A worker that has ended by itself before it got Stop answers with Done or Saved alone. Then
// everything before that end was handled everywhere, and the limit is no limit.
//
// A launcher that wants only the end of a leg gives up where a call of a handler takes long: it sends Limit without a
// limit, which the worker finds when it comes to answer Stop. So a second Stop may come before it has answered the
// first one, and each has its answer.

// stopping is what the control goroutine and the cycle share of a stop.
type stopping struct {
	asked atomic.Uint32         // by the control goroutine: how often Stop has come
	limit atomic.Pointer[Limit] // set by the control goroutine: Limit has come; taken by the cycle

	answer   func(Stopped) error // sends the answer to Stop; called by the cycle
	answered uint32              // how many of asked are done with; owned by the cycle
	limited  bool                // a limit is in force; owned by the cycle
}

// wanted tells whether there is a Stop to be answered.
func (s *stopping) wanted() bool { return s.asked.Load() != s.answered }

// renew forgets what has come too late for the leg that has ended: nothing of it comes any more.
func (s *stopping) renew() {
	s.answered, s.limited = s.asked.Load(), false
	s.limit.Store(nil)
}

// pause answers Stop and waits for the limit.
func (c *cycle) pause() error {
	c.stop.answered++
	// Not posted until the limit is known: to one that knows it, what is posted would say when this worker goes on.
	c.withdraw()
	front, any := c.engine.Front()
	c.enter(blocked)             // until all workers have answered
	c.showState(StatePaused, -1) // who waits for room goes by that (stuck)
	if err := c.stop.answer(Stopped{Handled: any, Epoch: front}); err != nil {
		return err
	}
	limit := c.stop.limit.Swap(nil)
	for ; limit == nil; limit = c.stop.limit.Swap(nil) {
		if c.gone.Load() {
			return ErrLauncherGone
		}
		if c.ask.asked.Load() {
			c.sendStatus(StatePaused, -1)
		}
		n, err := c.keepMoving(-1, false)
		if err != nil {
			return err
		}
		c.waiter.Idle(n > 0)
	}
	c.stop.limited = true
	if limit.Leg {
		return c.endLeg(min(c.until, limit.Epoch))
	}
	c.horizon = min(c.horizon, limit.Epoch)
	c.engine.SetHorizon(c.horizon)
	return nil
}
