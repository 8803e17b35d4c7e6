// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/disco-sim/disco/internal/checkpoint"
)

// UnequalReports says that what handlers have reported at the end of a replication isn't what was recorded.
type UnequalReports struct {
	Simprocs int    // whose reports differ
	First    uint32 // of them
	Was, Is  []byte // its report as recorded, and in the replay; nil: it has none
}

// compareEnd compares the end of a replication: what is left of its calls, and what it has given.
func (ws *workerSet) compareEnd(ctx context.Context, res *result) error {
	p := ws.launch.cfg.Replay
	if p == nil || res.Interrupted {
		return nil
	}
	if err := ws.compareLeg(ctx, res.Index, math.Inf(1)); err != nil && !errors.Is(err, errLeft) {
		return err
	}
	if p.SaveAt > 0 || p.leaves(res.Index) {
		return nil
	}
	u := &Unequal{Replication: res.Index, Until: res.Reached}
	var err error
	p.mu.Lock()
	defer p.mu.Unlock()
	if was := fmt.Sprint(p.To[res.Index].TraceHash); was != fmt.Sprintf("%x", res.hash) {
		u.TraceHash = &[2]string{was, fmt.Sprintf("%x", res.hash)}
	} else if u.Reports, err = p.compareReports(ctx, res); err != nil {
		return fmt.Errorf("launch: replay: %w", err)
	}
	if p.results++; u.TraceHash != nil || u.Reports != nil {
		p.found[res.Index] = u
	}
	return nil
}

// compareReports compares what handlers have reported with what is recorded; nil: all are equal. mu is held, and what
// guards the Repo is taken as in read.
func (p *Replay) compareReports(ctx context.Context, res *result) (*UnequalReports, error) {
	if st := p.launch.store; st != nil {
		st.mu.Lock()
		defer st.mu.Unlock()
	}
	m := p.To[res.Index]
	chunks, err := chunksOf(ctx, p.Repo, m, checkpoint.Results)
	if err != nil {
		return nil, err
	}
	var found UnequalReports
	var data []byte
	seen, left := make([]bool, len(res.parts)), len(res.parts)
	for i := range chunks { // by digest, not by simproc
		if data, err = p.Repo.Read(ctx, m, chunks[i], data); err != nil {
			return nil, err
		}
		err := eachReport(data, seen, func(id uint32, _ uint64, was []byte) {
			left--
			is := res.parts[id]
			if (was == nil) == (is == nil) && bytes.Equal(was, is) {
				return
			}
			if found.Simprocs++; found.Simprocs == 1 || id < found.First {
				found.First, found.Was, found.Is = id, bytes.Clone(was), is
			}
		})
		if err != nil {
			return nil, &checkpoint.DamagedError{Where: p.Repo.String(), Name: m.Point().String(), Chunk: &chunks[i],
				Err: err}
		}
	}
	switch {
	case left > 0:
		return nil, &checkpoint.DamagedError{Where: p.Repo.String(), Name: m.Point().String(),
			Err: fmt.Errorf("found the reports of %d simprocs, want %d", len(seen)-left, len(seen))}
	case found.Simprocs == 0:
		return nil, nil
	}
	return &found, nil
}
