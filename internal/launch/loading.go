// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"errors"
	"fmt"

	"github.com/disco-sim/disco/internal/answers"
	"github.com/disco-sim/disco/internal/calls"
	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/trace"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// Loading has a run load checkpoints as one that goes on from them, into the memory of its workers, and simulate
// nothing. It is used once.
type Loading struct {
	// Points are checkpoints, and ends of replications, of the Repo of Config.Resume, which begins with none.
	Points []*checkpoint.Manifest

	loaded int
}

// Loaded is how many of the points are loaded, behind Run, whose error is a *LoadError where the next one can't be.
func (p *Loading) Loaded() int { return p.loaded }

// LoadError says that a checkpoint can't be loaded: a model refuses the state, or its bytes aren't what this version
// writes.
type LoadError struct{ Err error }

// Error is the cause, which names node and simproc where it is about one.
func (e *LoadError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *LoadError) Unwrap() error { return e.Err }

// load has the set, whose workers are set up, load all points.
func (ws *workerSet) load(ctx context.Context, p *Loading) error {
	for _, m := range p.Points {
		ws.supervisor.stage = stage{PhasePrepare, m.Replication}
		ws.supervisor.report("loading %v", m.Point())
		err := ws.loadPoint(ctx, m)
		switch {
		case errors.Is(err, errNotBegun), errors.Is(err, ErrEnded):
			return err
		case err != nil:
			return &LoadError{err}
		}
		p.loaded++
	}
	return nil
}

// loadPoint loads one.
func (ws *workerSet) loadPoint(ctx context.Context, m *checkpoint.Manifest) error {
	l, resume := ws.launch, ws.launch.cfg.Resume
	if m.Finished {
		res, err := l.finished(ctx, resume.Repo, m)
		if err != nil {
			return err
		}
		err = l.scenario.Accumulate().Add(scenario.Replication{Index: m.Replication, Horizon: l.scenario.Horizon(),
			Reached: m.Epoch, Reports: res.parts})
		if err != nil {
			return l.mergeError(err)
		}
	} else {
		resume.From[m.Replication] = m
		p := &worker.Prepare{Replication: m.Replication}
		err := ws.restore(ctx, m.Replication, p)
		resume.From[m.Replication] = nil
		if err == nil {
			_, err = ws.supervisor.request(ctx, toAll(&worker.Message{Type: worker.TypePrepare, Prepare: p}),
				worker.TypeReady)
		}
		if err != nil {
			return err
		}
	}
	if err := loadCalls(ctx, resume.Repo, m); err != nil {
		return fmt.Errorf("launch: %w", err)
	}
	return eachSection(ctx, resume.Repo, m, l.structure.NumSimprocs())
}

// loadCalls reads the journal of activations of a checkpoint.
func loadCalls(ctx context.Context, repo *checkpoint.Repo, m *checkpoint.Manifest) error {
	if !repo.Run().Replayable {
		return nil
	}
	list, err := journalOf(ctx, repo, m)
	if err != nil {
		return err
	}
	sum, layouts := uint64(0), map[[32]byte]bool{}
	for i := range list {
		if list[i].Kind == checkpoint.Layout {
			layouts[list[i].Digest] = true
		}
	}
	var data []byte
	for i := range list {
		c := &list[i]
		if data, err = repo.Read(ctx, m, *c, data); err != nil {
			return err
		}
		if c.Kind == checkpoint.Layout {
			_, err = calls.DecodeLayout(data, int(repo.Run().Simprocs))
		} else {
			var chunk calls.Chunk
			if chunk, err = calls.Decode(data); err == nil && !layouts[chunk.Layout] {
				err = fmt.Errorf("found layout %x, which isn't there", chunk.Layout)
			}
			sum += uint64(len(chunk.Hashes) / node.CallHashBytes)
		}
		if err != nil {
			return fmt.Errorf("%v: %v: %w", repo, c, err)
		}
	}
	before, err := callsBefore(ctx, repo)
	if err == nil && sum != m.Activations-before {
		err = fmt.Errorf("%v: found a journal of %d calls, want %d", repo, sum, m.Activations-before)
	}
	return err
}

// eachSection reads what a checkpoint has of the trace, of what handlers have recorded, and of what the outside world
// has answered.
func eachSection(ctx context.Context, repo *checkpoint.Repo, m *checkpoint.Manifest, simprocs int) error {
	var data []byte
	return repo.Chunks(ctx, m, func(c checkpoint.Chunk) (err error) {
		if c.Kind != checkpoint.Trace && c.Kind != checkpoint.Externals && c.Kind != checkpoint.Rows {
			return nil
		}
		if data, err = repo.Read(ctx, m, c, data); err != nil {
			return err
		}
		switch c.Kind {
		case checkpoint.Trace:
			err = checkRecords(data, simprocs)
		case checkpoint.Rows:
			err = checkRows(data, simprocs)
		default:
			err = checkAnswers(data, simprocs)
		}
		if err != nil {
			return fmt.Errorf("launch: %v: %v: %w", repo, &c, err)
		}
		return nil
	})
}

// checkRecords reads the records of a trace.
func checkRecords(data []byte, simprocs int) error {
	if len(data)%trace.RecordBytes != 0 {
		return fmt.Errorf("found %d bytes, want a multiple of %d", len(data), trace.RecordBytes)
	}
	var rec trace.Record
	for at := 0; at < len(data); at += trace.RecordBytes {
		rec.Parse((*[trace.RecordBytes]byte)(data[at:]))
		if int64(rec.Target) >= int64(simprocs) {
			return fmt.Errorf("byte %d: found a record of simproc %d, want one of 0 to %d", at, rec.Target, simprocs-1)
		}
	}
	return nil
}

// checkRows reads what handlers have recorded.
func checkRows(data []byte, simprocs int) error {
	if len(data)%node.RowBytes != 0 {
		return fmt.Errorf("found %d bytes, want a multiple of %d", len(data), node.RowBytes)
	}
	var r node.Recorded
	for at := 0; at < len(data); at += node.RowBytes {
		r.Parse((*[node.RowBytes]byte)(data[at:]))
		if int64(r.Simproc) >= int64(simprocs) {
			return fmt.Errorf("byte %d: found a row of simproc %d, want one of 0 to %d", at, r.Simproc, simprocs-1)
		}
	}
	return nil
}

// checkAnswers reads records of what was answered.
func checkAnswers(data []byte, simprocs int) error {
	for at := 0; at < len(data); {
		r, rest, err := answers.Parse(data[at:])
		if err == nil && int64(r.Simproc) >= int64(simprocs) {
			err = fmt.Errorf("found an answer to simproc %d, want one of 0 to %d", r.Simproc, simprocs-1)
		}
		if err != nil {
			return fmt.Errorf("byte %d: %w", at, err)
		}
		at = len(data) - len(rest)
	}
	return nil
}

// LoadJournals reads what the outside world has answered and no checkpoint of a Repo has yet, as a run that goes on
// does, and gives the names of journals whose last record was cut short by the end of the process.
func LoadJournals(ctx context.Context, repo *checkpoint.Repo) (torn []string, err error) {
	_, torn, err = answers.OpenJournals(ctx, repo.Run().ID, repo.Blobs(), false,
		func(replication int, r *answers.Record, _ []byte) error {
			if run := repo.Run(); replication >= run.Replications || int64(r.Simproc) >= run.Simprocs {
				return fmt.Errorf("found an answer to simproc %d of replication %d, want less than %d, %d", r.Simproc,
					replication, run.Simprocs, run.Replications)
			}
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	return torn, nil
}
