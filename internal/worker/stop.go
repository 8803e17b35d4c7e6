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
//     before E. Every worker sends Done.
//
// A worker that has ended by itself before it got Stop answers with Done alone. Then
// everything before the horizon was handled everywhere, and the limit is no limit.

// stopping is what the control goroutine and the cycle share of a stop.
type stopping struct {
	asked atomic.Bool           // set by the control goroutine: Stop has come
	limit atomic.Pointer[Limit] // set by the control goroutine: Limit has come

	answer  func(Stopped) error // sends the answer to Stop; called by the cycle
	limited bool                // the limit is in force; owned by the cycle
}

// pause answers Stop and waits for the limit.
func (c *cycle) pause() error {
	front, any := c.engine.Front()
	c.enter(blocked)             // until all workers have answered
	c.showState(StatePaused, -1) // who waits for room goes by that (stuck)
	if err := c.stop.answer(Stopped{Handled: any, Epoch: front}); err != nil {
		return err
	}
	for c.stop.limit.Load() == nil {
		if c.gone.Load() {
			return ErrLauncherGone
		}
		if c.ask.asked.Load() {
			c.sendStatus(StatePaused, -1)
		}
		n, err := c.keepMoving(-1)
		if err != nil {
			return err
		}
		c.waiter.Idle(n > 0)
	}
	c.withdraw() // the posted next activation was for the horizon until now
	c.horizon = min(c.horizon, c.stop.limit.Load().Epoch)
	c.engine.SetHorizon(c.horizon)
	c.stop.limited = true
	return nil
}
