// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint"
)

// RecoveriesMax bounds how often a run may go back.
const RecoveriesMax = 1000

// Recovery is one time that a run went back to its last checkpoint, because a worker or a machine was lost.
type Recovery struct {
	Worker      int     `json:"worker"`                 // of those that were lost
	Machine     string  `json:"machine,omitempty"`      // its machine
	Lost        string  `json:"lost_machine,omitempty"` // machine without which the run goes on
	Reason      string  `json:"reason"`                 // how the worker or the machine ended
	Replication int     `json:"replication"`
	Reached     float64 `json:"reached_s"`          // simulated seconds that it had reached, as shown; 0: not known
	From        float64 `json:"from_s"`             // epoch from which the replication goes on; 0: its begin
	Workers     int     `json:"workers"`            // with which the run goes on
	Machines    int     `json:"machines,omitempty"` // on which they are; 0: on this one
	Seconds     float64 `json:"lost_s"`             // wall time: of what is simulated again, and until it goes on
}

// RunRecovering is Run, but where a worker dies, and not by an error of its model, or a machine is lost, the run goes
// on from its last checkpoint, or from its begin where it has none, with what is left: without a machine that was lost,
// and else with a worker fewer; at most so many times. The outcome lists them. told, when not nil, is called before the
// run goes on, with the error that it would have ended with.
func (l *Launch) RunRecovering(ctx context.Context, times int, told func(Recovery, error)) (*Outcome, error) {
	began := time.Now()
	end, err := l.openAnswers(ctx, times > 0)
	defer end()
	if err != nil {
		return nil, err
	}
	var all []Recovery
	for {
		out, err := l.Run(ctx)
		failed := time.Now()
		if n := len(all); n > 0 && !l.wentOn.IsZero() {
			all[n-1].Seconds += l.wentOn.Sub(began).Seconds()
		}
		w := l.died(err)
		if w == nil || len(all) == times || ctx.Err() != nil {
			if out != nil {
				out.Recoveries, out.Launch = all, l
			}
			if err != nil && times > 0 && len(all) == times {
				err = fmt.Errorf("%w\nthe run had gone back %d times, as often as it may", err, times)
			}
			return out, started(err, all)
		}
		next, back, errAgain := l.again(ctx, w)
		switch {
		case errAgain != nil && l.cfg.proceed() != nil:
			return &Outcome{Interrupted: true, Recoveries: all, Launch: l}, nil
		case errAgain != nil:
			return nil, fmt.Errorf("%w\nthe run can't go back: %w", err, errAgain)
		}
		back.Seconds = failed.Sub(l.savedAt(w.Replication, began)).Seconds()
		if all = append(all, back); told != nil {
			told(back, err)
		}
		l, began = next, failed
	}
}

// died is the error of a worker, or of a machine, behind which a run may go back; nil: it is another one.
func (l *Launch) died(err error) *WorkerError {
	var w *WorkerError
	lost, failed := "", error(nil)
	if l.cfg.Machines != nil {
		lost, failed = l.cfg.Machines.Lost()
	}
	switch isWorker := errors.As(err, &w); {
	case isWorker && w.Died && !w.Delivered, isWorker && w.Lost && failed == nil && !w.Delivered:
		return w
	case !isWorker && err != nil && lost != "" && failed == nil: // before its workers were started
		return &WorkerError{Machine: lost, Lost: true, Status: err.Error(), Phase: PhaseStart}
	}
	return nil
}

// started makes an error of a run that went back one of a run: it isn't about what was asked for.
func started(err error, all []Recovery) error {
	if len(all) > 0 && errors.Is(err, ErrConfig) {
		return errors.New(err.Error())
	}
	return err
}

// again is what the run goes on as, without what was lost.
func (l *Launch) again(ctx context.Context, w *WorkerError) (*Launch, Recovery, error) {
	cfg, back := l.cfg, Recovery{Worker: w.Worker, Machine: w.Machine, Reason: w.short(), Replication: w.Replication,
		Reached: w.Reached}
	if cfg.Spread == SpreadReplications {
		cfg.Partition = "" // it was filled in, and is refused beside
	}
	if cfg.Pins == nil { // else nodes are to be on just these workers
		cfg.Workers = l.Workers()
		if !w.Lost {
			cfg.Workers = max(1, cfg.Workers-1)
		}
	}
	if cfg.Machines != nil {
		back.Lost, _ = cfg.Machines.Lost()
		if err := cfg.rejoin(back.Lost); err != nil {
			return nil, back, err
		}
	}
	if cfg.Checkpoint != nil || cfg.Rebalance != nil || cfg.SoFar != nil {
		cfg.Legs = nil
	}
	if cfg.Checkpoint != nil {
		var err error
		if cfg.Resume, err = l.lastWhole(ctx, cfg.Checkpoint.Repo); err != nil {
			return nil, back, err
		}
	}
	next, err := Prepare(cfg)
	if err != nil {
		return nil, back, err
	}
	back.Workers, next.onStep, next.runID = next.Workers(), l.onStep, l.runID
	if _, of := next.Machines(); of != nil {
		back.Machines = len(slices.Compact(slices.Sorted(slices.Values(of))))
	}
	if m := cfg.Resume.from(w.Replication); m != nil {
		back.From = m.Epoch
	}
	return next, back, nil
}

// lastWhole is ResumeAt for the newest checkpoints that are as they were written: each is read, because one that is
// damaged must not take the run with it.
func (l *Launch) lastWhole(ctx context.Context, repo *checkpoint.Repo) (*Resume, error) {
	points, err := repo.Points(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(points, newestFirst)
	whole, bad := map[int]bool{}, map[checkpoint.Point]bool{} // by replication; checkpoints
	for _, p := range points {
		if whole[p.Replication] {
			continue
		}
		m, err := repo.Load(ctx, p)
		if err == nil {
			err = repo.Whole(ctx, m)
		}
		var damaged *checkpoint.DamagedError
		switch {
		case err == nil:
			whole[p.Replication] = true
		case errors.As(err, &damaged):
			bad[p] = true
			l.note(fmt.Sprintf("the run doesn't go on from %v: %v", p, damaged))
		default:
			return nil, err
		}
	}
	return resumeAt(ctx, repo, latest, bad)
}

// newestFirst is the order in which a replication's checkpoints are tried.
func newestFirst(a, b checkpoint.Point) int {
	if a.Finished != b.Finished {
		if a.Finished {
			return -1
		}
		return 1
	}
	return cmp.Compare(b.Epoch, a.Epoch)
}

// rejoin joins the machines that are left.
func (cfg *Config) rejoin(lost string) error {
	if cfg.Rejoin == nil {
		return errors.New("its machines aren't joined again")
	}
	sum := func() (slots, processors int) {
		for _, m := range cfg.Machines.Network().Machines {
			slots, processors = slots+m.Slots, processors+m.Processors
		}
		return slots, processors
	}
	if _, processors := sum(); cfg.Processors == processors {
		cfg.Processors = 0 // it was filled in
	}
	var err error
	if cfg.Machines, err = cfg.Rejoin(lost, cfg.Workers); err != nil {
		return err
	}
	if slots, _ := sum(); cfg.Pins == nil {
		cfg.Workers = min(cfg.Workers, slots)
	}
	return nil
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
