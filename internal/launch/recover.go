// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// RecoveriesMax bounds how often a run may go back.
const RecoveriesMax = 1000

// Recovery is one time that a run went back to its last checkpoint, because a worker had died.
type Recovery struct {
	Worker      int     `json:"worker"`
	Machine     string  `json:"machine,omitempty"`
	Reason      string  `json:"reason"` // how it ended
	Replication int     `json:"replication"`
	Reached     float64 `json:"reached_s"` // simulated seconds that it had reached, as its board showed; 0: not known
	From        float64 `json:"from_s"`    // epoch from which the replication goes on; 0: its begin
	Workers     int     `json:"workers"`   // with which the run goes on
	Lost        float64 `json:"lost_s"`    // wall seconds: of what is simulated again, and until the run goes on
}

// RunRecovering is Run, but where a worker dies, and not by an error of its model, the run goes on from its last
// checkpoint, or from its begin where it has none, with a worker fewer; at most so many times. The outcome lists them.
// told, when not nil, is called before the run goes on, with the error that it would have ended with.
func (l *Launch) RunRecovering(ctx context.Context, times int, told func(Recovery, error)) (*Outcome, error) {
	began := time.Now()
	var all []Recovery
	for {
		out, err := l.Run(ctx)
		failed := time.Now()
		if n := len(all); n > 0 && !l.wentOn.IsZero() {
			all[n-1].Lost += l.wentOn.Sub(began).Seconds()
		}
		var w *WorkerError
		if !errors.As(err, &w) || !w.Died && !w.Lost || w.Delivered || len(all) == times || ctx.Err() != nil {
			if out != nil {
				out.Recoveries = all
			}
			if err != nil && times > 0 && len(all) == times {
				err = fmt.Errorf("%w\nthe run had gone back %d times, as often as it may", err, times)
			}
			return out, err
		}
		next, back, errAgain := l.again(ctx, w)
		if errAgain != nil {
			return nil, fmt.Errorf("%w\nthe run can't go back: %w", err, errAgain)
		}
		back.Lost = failed.Sub(l.savedAt(w.Replication, began)).Seconds()
		if all = append(all, back); told != nil {
			told(back, err)
		}
		l, began = next, failed
	}
}

// again is what the run goes on as, without the worker that has died.
func (l *Launch) again(ctx context.Context, w *WorkerError) (*Launch, Recovery, error) {
	cfg := l.cfg
	if cfg.Spread == SpreadReplications {
		cfg.Partition = "" // it was filled in, and is refused beside
	}
	if cfg.Pins == nil { // else nodes are to be on just these workers
		cfg.Workers = max(1, l.Workers()-1)
	}
	if cfg.Checkpoint != nil {
		cfg.Legs = nil
		var err error
		if cfg.Resume, err = ResumeAt(ctx, cfg.Checkpoint.Repo, "latest"); err != nil {
			return nil, Recovery{}, err
		}
	}
	next, err := Prepare(cfg)
	if err != nil {
		return nil, Recovery{}, err
	}
	back := Recovery{Worker: w.Worker, Machine: w.Machine, Reason: w.short(), Replication: w.Replication,
		Reached: w.Reached, Workers: next.Workers()}
	if m := cfg.Resume.from(w.Replication); m != nil {
		back.From = m.Epoch
	}
	return next, back, nil
}

// savedAt is when the last checkpoint of a replication was made; else when the run had begun.
func (l *Launch) savedAt(replication int, began time.Time) time.Time {
	if l.store == nil {
		return began
	}
	l.store.counts.Lock()
	defer l.store.counts.Unlock()
	if at, ok := l.store.savedAt[replication]; ok {
		return at
	}
	return began
}
