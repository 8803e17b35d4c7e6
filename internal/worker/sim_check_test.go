// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/ingress"
	"github.com/disco-sim/disco/internal/lane"
)

// finished checks the end of a replication: everything sent was received, and nothing is
// leased or on loan any more.
func (s *simRun) finished() (map[uint32]uint64, error) {
	hashes := map[uint32]uint64{}
	var sent, received uint64
	interrupted := s.workers[0].answer.Done.Interrupted
	for i, w := range s.workers {
		d := w.answer.Done
		if d.Interrupted && !s.limited {
			return nil, fmt.Errorf("worker %d was interrupted, but nobody stopped it", i)
		}
		if reached := s.workers[0].answer.Done.Reached; d.Reached != reached {
			return nil, fmt.Errorf("worker 0 ended at %v, worker %d at %v", reached, i, d.Reached)
		}
		sent, received = sent+d.Stats.Sent, received+d.Stats.Received
		maps.Copy(hashes, w.hashes)
		for peer := range s.workers {
			if !interrupted && peer != i && w.plan.ReceivesFrom(peer) && w.leases(peer) != 0 {
				return nil, fmt.Errorf("worker %d still holds %d leases of worker %d's blocks", i, w.leases(peer), peer)
			}
		}
	}
	if sent != received {
		return nil, fmt.Errorf("%d events were sent and %d received", sent, received)
	}
	for i, w := range s.workers {
		for _, out := range w.cycle.lanes.router.Senders() {
			if interrupted {
				break // what is pending beyond the limit is still leased
			}
			if err := out.Flush(); err != nil {
				return nil, fmt.Errorf("worker %d: %w", i, err)
			}
		}
		if n := w.cycle.lanes.pool.Stats().Total.InFlight; n != 0 && !interrupted {
			return nil, fmt.Errorf("%d blocks of worker %d are still on loan", n, i)
		}
	}
	return hashes, nil
}

// finish ends the workers, by Exit or, after a failure, by closing their streams.
func (s *simRun) finish() error {
	failed := s.over()
	for _, w := range s.workers {
		if failed {
			s.hangUp(w)
		} else {
			s.send(w, &Message{Type: TypeExit})
		}
	}
	began := s.now
	if err := s.goOn(func() bool {
		for _, w := range s.workers {
			if !w.exited && !w.task.killed {
				return false
			}
		}
		return true
	}); err != nil {
		return fmt.Errorf("the workers don't end: %w", err)
	}
	if took := s.now - began; took > time.Second {
		return fmt.Errorf("the workers took %v to end", took)
	}
	return s.errors(failed)
}

// errors checks what the workers ended with: nothing, or, after a failure, the launcher's
// end or a peer's closed lane. Only the worker whose handler has failed has an error of its
// own: that is how the launcher finds the root cause.
func (s *simRun) errors(failed bool) error {
	all := s.bridgeErrors()
	culprits := 0
	for i, w := range s.workers {
		switch {
		case w.task.killed && s.kill > 0 && i == s.victim:
		case w.err == nil:
		case failed && (errors.Is(w.err, ErrLauncherGone) || errors.Is(w.err, lane.ErrClosed)):
		case errors.Is(w.err, errSim):
			culprits++
		default:
			all = errors.Join(all, fmt.Errorf("worker %d: %w", i, w.err))
		}
		if w.waiter.unrung > 0 && s.held == HeldMax { // with less, stuckTime ends some waits
			all = errors.Join(all,
				fmt.Errorf("worker %d found work %d times after a sleep that nobody had ended: nobody rang for it", i,
					w.waiter.unrung))
		}
	}
	if failed && !s.dead && culprits == 0 {
		all = errors.Join(all, errors.New("the run has failed, but no worker says why"))
	}
	return all
}

// leases counts the blocks of a peer that a worker reads.
func (w *simWorker) leases(peer int) int { return w.cycle.lanes.in.(*ingress.Ingress).Leases(peer) }

// state says where everybody stands.
func (s *simRun) state() string {
	var b strings.Builder
	fmt.Fprintf(&b, "after %d steps, at %v:\n", s.steps, s.now)
	for i, w := range s.workers {
		fmt.Fprintf(&b, "worker %d: killed %v, exited %v, %s, answered %v, error %v", i, w.task.killed, w.exited,
			w.task.why, w.answer != nil, w.err)
		if s.stopped {
			fmt.Fprintf(&b, ", stop asked %v, answered %v, limit %v in force %v", w.cycle.stop.asked.Load(), w.halted,
				w.cycle.stop.limit.Load(), w.cycle.stop.limited)
		}
		if e := w.cycle.engine; e != nil {
			st := e.Stats()
			fmt.Fprintf(&b,
				", next %v, blocked %v, %d events, sent %d, received %d, %d waits for room, posted %v\n    %s",
				e.Next(), e.Blocked(), st.Events, st.Sent, st.Received, w.cycle.ledger.began[shortOfRoom],
				w.cycle.posted, strings.ReplaceAll(e.Waiting(), "\n", "\n    "))
		}
		pool := w.cycle.lanes.pool.Stats().Total
		fmt.Fprintf(&b, "\n    pool: %d of %d blocks on loan", pool.InFlight, pool.Count)
		for n, out := range w.cycle.lanes.router.Senders() {
			o := out.(*egress.Egress).Stats()
			fmt.Fprintf(&b, "; to %d: room %d, waited %d for the ring and %d for blocks",
				w.cycle.lanes.router.Peers()[n], out.Room(), o.FullWaits, o.PoolWaits)
		}
		for peer := range s.workers {
			if peer != i && w.plan.ReceivesFrom(peer) {
				fmt.Fprintf(&b, "; %d leases from %d", w.leases(peer), peer)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
