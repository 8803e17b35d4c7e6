// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/disco-sim/disco/internal/worker"
)

// Legs says where the legs of each replication end (docs/checkpoints.md, section 1). Results don't depend on it.
type Legs struct {
	// Next is the end of the leg that begins at an epoch, simulated seconds, the first one at 0: a later one. At the
	// horizon or later there is none but that of the replication. It is called for each leg when that begins, and
	// where replications are spread over the workers by several goroutines at a time.
	Next func(replication int, epoch float64) (until float64)

	// Ended, when not nil, is called where a leg has ended before the horizon, while all workers of its replication
	// stand still; by several goroutines like Next. Its error ends the run.
	Ended func(replication int, epoch float64) error

	mu  sync.Mutex
	now chan struct{} // closed by EndNow, and made anew; nil: nobody waits for it
}

// EndNow has all legs that are under way end as early as they can: behind all that any of their workers has handled.
// Where none is under way, and where one is already being ended, it does nothing. While a call of a handler takes long
// the end is tried again later. Any goroutine may call it at any time.
func (l *Legs) EndNow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now != nil {
		close(l.now)
		l.now = nil
	}
}

// asked is closed by the next EndNow.
func (l *Legs) asked() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now == nil {
		l.now = make(chan struct{})
	}
	return l.now
}

// LegsEvery gives legs that end at all multiples of a number of simulated seconds > 0.
func LegsEvery(seconds float64) *Legs {
	return &Legs{Next: func(_ int, epoch float64) float64 { return multipleBehind(epoch, seconds) }}
}

// multipleBehind is the first multiple of seconds behind an epoch: a product, not a sum. Where multiples are too close
// to each other for that it is the next float64.
func multipleBehind(epoch, seconds float64) float64 {
	for k := math.Floor(epoch / seconds); ; k++ {
		if until := k * seconds; until > epoch || k+1 == k {
			return max(until, math.Nextafter(epoch, math.Inf(1)))
		}
	}
}

// until is the end of the leg of replication r that begins at an epoch, as messages have it. A run that was asked to
// end has no more of them.
func (ws *workerSet) until(r int, epoch float64) (float64, error) {
	ws.supervisor.legBegan = epoch
	if ws.launch.cfg.Legs == nil || ws.supervisor.stopping {
		return 0, nil
	}
	until := ws.launch.cfg.Legs.Next(r, epoch)
	switch {
	case !(until > epoch):
		return 0, fmt.Errorf("launch: a leg that begins at %v is to end at %v, want a later end", epoch, until)
	case until >= ws.launch.scenario.Horizon():
		return 0, nil
	}
	ws.legUntil = until
	return until, nil
}

// simulate runs replication r, which the workers are ready for, leg by leg. Its answers are those of the last one.
func (ws *workerSet) simulate(ctx context.Context, r int) ([]*worker.Message, error) {
	s := ws.supervisor
	ends := []worker.MessageType{worker.TypeDone}
	if s.legs != nil {
		ends = append(ends, worker.TypeSaved)
	}
	for {
		answers, failed := s.request(ctx, toAll(&worker.Message{Type: worker.TypeGo}), ends...)
		if answers == nil {
			return nil, failed
		}
		epoch, ended, err := ws.legEnd(answers)
		switch {
		case err != nil:
			return nil, err
		case !ended:
			return answers, failed
		case failed != nil:
			return nil, failed
		}
		if err := ws.nextLeg(ctx, r, epoch, answers); err != nil {
			return nil, err
		}
	}
}

// nextLeg makes the workers ready for the leg behind an epoch.
func (ws *workerSet) nextLeg(ctx context.Context, r int, epoch float64, answers []*worker.Message) error {
	s := ws.supervisor
	s.legWait = 0
	began, replay := time.Now(), ws.launch.cfg.Replay
	if err := ws.reportSoFar(ctx, r, epoch, answers); err != nil {
		return err
	}
	ws.rebalanceBegins()
	if ws.savesAt(epoch) && replay.saves(r, epoch) {
		if err := ws.checkpoint(ctx, r, epoch, answers); err != nil {
			return err
		}
		if s.stopping || replay != nil {
			s.saves = false
			if err := ws.awaitCheckpoint(ctx); err != nil {
				return err
			}
		}
	}
	if replay != nil {
		if err := ws.takeCommitted(false); err != nil {
			return err
		}
		if err := ws.compareLeg(ctx, r, epoch); err != nil {
			return err
		}
	}
	if s.legs.Ended != nil {
		if err := s.legs.Ended(r, epoch); err != nil {
			return err
		}
	}
	saved := time.Since(began)
	moved, err := ws.rebalance(ctx, r, epoch, answers)
	if err != nil {
		return err
	}
	until, err := ws.until(r, epoch)
	if err == nil {
		_, err = s.request(ctx, toAll(&worker.Message{Type: worker.TypeLeg, Leg: &worker.Leg{Until: until,
			Moved: moved}}), worker.TypeReady)
	}
	if err == nil {
		ws.rebalanceEnds(moved, time.Since(began)-saved)
	}
	return err
}

// savesAt reports whether the end of a leg is one for a checkpoint: all are but those at which nodes are to move,
// or results so far are made.
func (ws *workerSet) savesAt(epoch float64) bool {
	st := ws.launch.store
	if !ws.launch.cfg.saves() {
		return false
	}
	return st.wanted.Swap(false) || st.asked.Load() ||
		ws.rebalancing == nil && ws.launch.soFar == nil || epoch == ws.legUntil || ws.supervisor.stopping
}

// legEnd is the epoch at which all workers say that their leg has ended; false: all are done with the replication.
func (ws *workerSet) legEnd(answers []*worker.Message) (epoch float64, ended bool, err error) {
	for w, m := range answers {
		at := math.Inf(1)
		if m.Type == worker.TypeSaved {
			at = m.Saved.Epoch
		}
		if w == 0 {
			epoch = at
		}
		if at != epoch || !(at > ws.supervisor.legBegan) {
			return 0, false, fmt.Errorf("launch: behind a leg from %v worker 0 is at %v, worker %d at %v: a defect of "+
				"disco", ws.supervisor.legBegan, epoch, w, at)
		}
	}
	return epoch, !math.IsInf(epoch, 1), nil
}
