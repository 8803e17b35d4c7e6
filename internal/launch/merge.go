// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/scenario"
)

// Merge makes the outcome of a run whose replications other runs have simulated (Config.Only): Config.Resume has the
// end of each, or nil, and that one is left out. It starts no worker, and keeps the reports of one replication at a
// time. Of the same scenario and seed the Outcome is that of one run of all of them, but for what is about workers and
// wall time, of which there are none. Where some are left out, Outcome.Interrupted is set, and TraceHash is empty. It
// ends with Config.Stop as it does with ctx: with ErrEnded.
//
// With Config.Enough it is the outcome of the replications up to the one with which there are enough, or before the
// first that is left out, as of a run of so many.
func (l *Launch) Merge(ctx context.Context) (*Outcome, error) {
	if err := l.openStore(ctx); err != nil {
		return nil, err
	}
	s := newSchedule(l)
	for i := s.from; i < s.total; i++ {
		m := l.cfg.Resume.from(i)
		if m == nil && s.enough != nil {
			s.endBefore(i)
			break
		}
		if m == nil {
			continue
		}
		if ctx.Err() != nil || l.cfg.proceed() != nil {
			return nil, ErrEnded
		}
		l.cfg.doing("adding up replication %d of %d", i, l.cfg.Replications)
		res, err := l.finished(ctx, l.cfg.Resume.repo(i), m)
		if err != nil {
			return nil, err
		}
		rep := scenario.Replication{Index: i, Horizon: s.horizon, Reached: res.Reached, Reports: res.parts}
		if s.each != nil {
			err = s.each(rep)
		}
		if err = cmp.Or(err, s.accumulator.Add(rep)); err != nil {
			return nil, l.mergeError(err)
		}
		res.parts, s.results[i] = nil, res
		if s.enough != nil && s.enough() {
			s.endBefore(i + 1)
			break
		}
	}
	s.merged = s.total
	if err := cmp.Or(l.writeTrace(ctx, s.available()), l.writeRecords(ctx, s.available())); err != nil {
		return nil, err
	}
	return l.outcome(s, nil)
}

// endBefore has no replication wanted from here on.
func (s *schedule) endBefore(index int) { s.total, s.results = index, s.results[:index:index] }

// Ends finds the end of each replication of a run in the places where parts of it were simulated: what Config.Resume
// is for Merge, and the replications that have none. Parts are of one run: their Run is the same but for ID and Only.
// A replication that has two ends is simulated twice: they must be the same, else the error is a
// *checkpoint.ConflictError.
func Ends(ctx context.Context, parts []*checkpoint.Repo) (*Resume, []int, error) {
	n := parts[0].Run().Replications
	r := &Resume{Repo: parts[0], From: make([]*checkpoint.Manifest, n), Repos: make([]*checkpoint.Repo, n)}
	for _, repo := range parts {
		points, err := repo.Points(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("launch: %w", err)
		}
		for _, p := range points {
			if !p.Finished || p.Replication >= n {
				continue
			}
			m, err := repo.Load(ctx, p)
			if err != nil {
				return nil, nil, fmt.Errorf("launch: %w", err)
			}
			if before := r.From[p.Replication]; before == nil {
				r.From[p.Replication], r.Repos[p.Replication] = m, repo
			} else if before.TraceHash != m.TraceHash {
				return nil, nil, fmt.Errorf("launch: %w", &checkpoint.ConflictError{Where: repo.String(), Point: p,
					Found: before.TraceHash, New: m.TraceHash})
			}
		}
	}
	var missing []int
	for i, m := range r.From {
		if m == nil {
			missing = append(missing, i)
		}
	}
	return r, slices.Clip(missing), nil
}
