// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/outfile"
	"github.com/disco-sim/disco/internal/trace"
	"github.com/disco-sim/disco/internal/tracefile"
)

// The trace of a run with checkpoints: each checkpoint has all that was handled before it, in chunks that rise in time.
// What was handled since the last one is written with the next, and all chunks of the last one stay.

// traced reports whether workers write a trace: for a file, or for the run's checkpoints.
func (l *Launch) traced() bool {
	return l.cfg.Trace != "" || l.cfg.Checkpoint != nil && l.cfg.Checkpoint.Repo.Run().Trace
}

// recorded reports whether workers write what they handle to a file: a trace, or a journal of activations.
func (l *Launch) recorded() bool { return l.traced() || l.keepsCalls() }

// recordPath is the trace's file, or where it would be; "": nothing is recorded.
func (l *Launch) recordPath() string {
	if !l.recorded() {
		return ""
	}
	return cmp.Or(l.cfg.Trace, filepath.Join(cmp.Or(l.store.directory(), os.TempDir()), "trace"))
}

// directory is where temporary files go.
func (s *store) directory() string {
	if s == nil {
		return ""
	}
	return s.dir
}

// traceBytes is how large a chunk of a trace becomes, unless more than that is at one epoch.
const traceBytes = 16 << 20

// spoolTrace writes a section as chunks of a checkpoint: each begins at an epoch of its own.
func spoolTrace(ctx context.Context, w io.Writer, section *tracefile.Section) (chunks []checkpoint.Chunk, size int64,
	err error) {
	spool := checkpoint.NewSpool(w)
	var data []byte
	from, last := 0.0, math.Inf(-1)
	add := func() error {
		if len(data) == 0 {
			return nil
		}
		c, err := spool.Add(checkpoint.Chunk{Kind: checkpoint.Trace, From: from}, data)
		chunks, data = append(chunks, c), data[:0]
		return cmp.Or(err, ctx.Err())
	}
	err = section.Each(func(rec *trace.Record) error {
		if len(data) >= traceBytes && rec.Epoch > last {
			if err := add(); err != nil {
				return err
			}
		}
		if len(data) == 0 {
			from = rec.Epoch
		}
		last = rec.Epoch
		data = rec.Append(data)
		return nil
	})
	if err == nil {
		err = add()
	}
	return chunks, spool.Size(), err
}

// addTrace has a draft take a section over, and all chunks of the trace before it; none where the run has no trace.
// done frees what it needs, behind Commit.
func (s *store) addTrace(ctx context.Context, draft *checkpoint.Draft, before []checkpoint.Chunk,
	section *tracefile.Section) (done func(), err error) {
	for _, c := range before {
		draft.Keep(c)
	}
	if !s.repo.Run().Trace || section.Bytes() == 0 {
		return func() {}, nil
	}
	f, err := outfile.Temporary(s.dir)
	if err != nil {
		return func() {}, fmt.Errorf("temporary file for the trace: %w", outfile.Error(s.dir, err))
	}
	done = func() { f.Close() }
	chunks, size, err := spoolTrace(ctx, f, section)
	if err != nil {
		return done, err
	}
	return done, draft.Add(f, size, chunks)
}

// chunksOf are the chunks of a kind that a checkpoint has, such as those of its trace, rising in time.
func chunksOf(ctx context.Context, repo *checkpoint.Repo, m *checkpoint.Manifest, kind checkpoint.Kind) (
	list []checkpoint.Chunk, err error) {
	err = repo.Chunks(ctx, m, func(c checkpoint.Chunk) error {
		if c.Kind == kind {
			list = append(list, c)
		}
		return nil
	})
	slices.SortFunc(list, func(a, b checkpoint.Chunk) int { return cmp.Compare(a.From, b.From) })
	return list, err
}

// readTrace gives the records of such chunks of a checkpoint.
func (s *store) readTrace(ctx context.Context, m *checkpoint.Manifest, repo *checkpoint.Repo,
	list []checkpoint.Chunk) func(yield func(rec *trace.Record) error) error {
	ctx = context.WithoutCancel(ctx) // of a set, which has ended when this is called; yield knows when to end
	return func(yield func(rec *trace.Record) error) error {
		var data []byte
		for _, c := range list {
			s.mu.Lock()
			var err error
			data, err = repo.Read(ctx, m, c, data)
			s.mu.Unlock()
			if err != nil {
				return err
			}
			if len(data)%trace.RecordBytes != 0 {
				return fmt.Errorf("%v: found %d bytes, want a multiple of %d", &c, len(data), trace.RecordBytes)
			}
			var rec trace.Record
			for rest := data; len(rest) > 0; rest = rest[trace.RecordBytes:] {
				rec.Parse((*[trace.RecordBytes]byte)(rest))
				if err := yield(&rec); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// readTraceBefore gives the records of a replication that come before base, with which this run has begun. It is called
// at the end of the run. Where the run itself makes checkpoints, base may be gone then, and its chunks may lie in
// another pack: the newest manifest of the replication has them.
func (s *store) readTraceBefore(ctx context.Context, repo *checkpoint.Repo, base *checkpoint.Manifest) func(
	yield func(rec *trace.Record) error) error {
	ctx = context.WithoutCancel(ctx)
	return func(yield func(rec *trace.Record) error) error {
		m, list, err := s.traceBefore(ctx, repo, base)
		if err != nil {
			return err
		}
		return s.readTrace(ctx, m, repo, list)(func(rec *trace.Record) error {
			if rec.Epoch >= base.Epoch {
				return nil
			}
			return yield(rec)
		})
	}
}

// traceBefore are the chunks of a trace that begin before base, and whose they are now. The last one may go on behind
// base: a checkpoint that is made again stays as it was, and may be of a run that made none at base.
func (s *store) traceBefore(ctx context.Context, repo *checkpoint.Repo, base *checkpoint.Manifest) (
	m *checkpoint.Manifest, list []checkpoint.Chunk, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m = base
	if s.cfg != nil && s.repo == repo {
		var none *checkpoint.MissingError
		m, err = repo.Load(ctx, checkpoint.Point{Replication: base.Replication, Finished: true})
		if errors.As(err, &none) {
			m, err = repo.Find(ctx, "latest", base.Replication)
		}
	}
	if err == nil {
		list, err = chunksOf(ctx, repo, m, checkpoint.Trace)
	}
	list = slices.DeleteFunc(list, func(c checkpoint.Chunk) bool { return c.From >= base.Epoch })
	return m, list, err
}
