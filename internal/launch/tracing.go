// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/outfile"
	"github.com/disco-sim/disco/internal/trace"
	"github.com/disco-sim/disco/internal/tracefile"
	"github.com/disco-sim/disco/node"
)

// The trace of a run with checkpoints, and what handlers record: each checkpoint has all of both before it, in chunks
// that rise in time.
// What was handled since the last one is written with the next, and all chunks of the last one stay.

// traced reports whether workers write a trace: for a file, or for the run's checkpoints.
func (l *Launch) traced() bool {
	return l.cfg.Trace != "" || l.cfg.Checkpoint != nil && l.cfg.Checkpoint.Repo.Run().Trace
}

// keepsRows reports whether what handlers record is kept: for a file, or for the run's checkpoints.
func (l *Launch) keepsRows() bool {
	return l.cfg.Records != nil || l.cfg.Checkpoint != nil && l.cfg.Checkpoint.Repo.Run().Records
}

// recorded reports whether workers write what they handle to a file: a trace, what handlers record, or a journal of
// activations.
func (l *Launch) recorded() bool { return l.traced() || l.keepsRows() || l.keepsCalls() }

// recordPath is the trace's file, or where it would be; "": nothing is recorded.
func (l *Launch) recordPath() string {
	if !l.recorded() {
		return ""
	}
	if l.cfg.Trace == "" && l.cfg.Records != nil {
		return l.cfg.Records.Path
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

// recordSpool makes chunks of records that rise in time: each begins at an epoch of its own.
type recordSpool struct {
	ctx    context.Context
	spool  *checkpoint.Spool
	kind   checkpoint.Kind
	chunks []checkpoint.Chunk
	data   []byte
	from   float64 // of data
	last   float64
}

// next is called before the bytes of a record at an epoch are appended to data.
func (s *recordSpool) next(epoch float64) error {
	if len(s.data) >= traceBytes && epoch > s.last {
		if err := s.end(); err != nil {
			return err
		}
	}
	if len(s.data) == 0 {
		s.from = epoch
	}
	s.last = epoch
	return nil
}

// end makes a chunk of data.
func (s *recordSpool) end() error {
	if len(s.data) == 0 {
		return nil
	}
	c, err := s.spool.Add(checkpoint.Chunk{Kind: s.kind, From: s.from}, s.data)
	s.chunks, s.data = append(s.chunks, c), s.data[:0]
	return cmp.Or(err, s.ctx.Err())
}

// spoolTrace writes the trace of a section, the rows that handlers have recorded, or both, as chunks of a checkpoint.
func spoolTrace(ctx context.Context, w io.Writer, section *tracefile.Section, traced, rows bool) (
	chunks []checkpoint.Chunk, size int64, err error) {
	spool := checkpoint.NewSpool(w)
	if traced {
		s := &recordSpool{ctx: ctx, spool: spool, kind: checkpoint.Trace}
		err = section.Each(func(rec *trace.Record) error {
			err := s.next(rec.Epoch)
			s.data = rec.Append(s.data)
			return err
		})
		err = cmp.Or(err, s.end())
		chunks = s.chunks
	}
	if rows && err == nil {
		s := &recordSpool{ctx: ctx, spool: spool, kind: checkpoint.Rows}
		err = section.EachRow(func(r *node.Recorded) error {
			err := s.next(r.Epoch)
			s.data = r.Append(s.data)
			return err
		})
		err = cmp.Or(err, s.end())
		chunks = append(chunks, s.chunks...)
	}
	return chunks, spool.Size(), err
}

// addTrace has a draft take a section over, and all chunks of trace and rows before it; none where the run has neither.
// done frees what it needs, behind Commit.
func (s *store) addTrace(ctx context.Context, draft *checkpoint.Draft, before []checkpoint.Chunk,
	section *tracefile.Section) (done func(), err error) {
	for _, c := range before {
		draft.Keep(c)
	}
	run := s.repo.Run()
	if !run.Trace && !run.Records || section.Bytes() == 0 {
		return func() {}, nil
	}
	f, err := outfile.Temporary(s.dir)
	if err != nil {
		return func() {}, fmt.Errorf("temporary file for the trace: %w", outfile.Error(s.dir, err))
	}
	done = func() { f.Close() }
	chunks, size, err := spoolTrace(ctx, f, section, run.Trace, run.Records)
	if err != nil || len(chunks) == 0 {
		return done, err
	}
	return done, draft.Add(f, size, chunks)
}

// tracedChunks are the chunks of trace and rows that a checkpoint has.
func tracedChunks(ctx context.Context, repo *checkpoint.Repo, m *checkpoint.Manifest) ([]checkpoint.Chunk, error) {
	list, err := chunksOf(ctx, repo, m, checkpoint.Trace)
	if err != nil {
		return nil, err
	}
	rows, err := chunksOf(ctx, repo, m, checkpoint.Rows)
	return append(list, rows...), err
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

// readTrace gives the records of chunks of a checkpoint's trace.
func (s *store) readTrace(ctx context.Context, m *checkpoint.Manifest, repo *checkpoint.Repo,
	list []checkpoint.Chunk) func(yield func(rec *trace.Record) error) error {
	return func(yield func(rec *trace.Record) error) error {
		var rec trace.Record
		return s.readRecords(ctx, m, repo, list, trace.RecordBytes, func(b []byte) error {
			rec.Parse((*[trace.RecordBytes]byte)(b))
			return yield(&rec)
		})
	}
}

// readRows gives the rows of chunks of a checkpoint.
func (s *store) readRows(ctx context.Context, m *checkpoint.Manifest, repo *checkpoint.Repo,
	list []checkpoint.Chunk) func(yield func(r *node.Recorded) error) error {
	return func(yield func(r *node.Recorded) error) error {
		var r node.Recorded
		return s.readRecords(ctx, m, repo, list, node.RowBytes, func(b []byte) error {
			r.Parse((*[node.RowBytes]byte)(b))
			return yield(&r)
		})
	}
}

// readRecords gives the records of so many bytes each of chunks of a checkpoint.
func (s *store) readRecords(ctx context.Context, m *checkpoint.Manifest, repo *checkpoint.Repo,
	list []checkpoint.Chunk, size int, yield func(b []byte) error) error {
	ctx = context.WithoutCancel(ctx) // of a set, which has ended when this is called; yield knows when to end
	var data []byte
	for _, c := range list {
		s.mu.Lock()
		var err error
		data, err = repo.Read(ctx, m, c, data)
		s.mu.Unlock()
		if err != nil {
			return err
		}
		if len(data)%size != 0 {
			return fmt.Errorf("%v: found %d bytes, want a multiple of %d", &c, len(data), size)
		}
		for rest := data; len(rest) > 0; rest = rest[size:] {
			if err := yield(rest[:size]); err != nil {
				return err
			}
		}
	}
	return nil
}

// readTraceBefore gives the records of a replication that come before base, with which this run has begun. It is called
// at the end of the run. Where the run itself makes checkpoints, base may be gone then, and its chunks may lie in
// another pack: the newest manifest of the replication has them.
func (s *store) readTraceBefore(ctx context.Context, repo *checkpoint.Repo, base *checkpoint.Manifest) func(
	yield func(rec *trace.Record) error) error {
	ctx = context.WithoutCancel(ctx)
	return func(yield func(rec *trace.Record) error) error {
		m, list, err := s.chunksBefore(ctx, repo, base, checkpoint.Trace)
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

// readRowsBefore is readTraceBefore for what handlers have recorded.
func (s *store) readRowsBefore(ctx context.Context, repo *checkpoint.Repo, base *checkpoint.Manifest) func(
	yield func(r *node.Recorded) error) error {
	ctx = context.WithoutCancel(ctx)
	return func(yield func(r *node.Recorded) error) error {
		m, list, err := s.chunksBefore(ctx, repo, base, checkpoint.Rows)
		if err != nil {
			return err
		}
		return s.readRows(ctx, m, repo, list)(func(r *node.Recorded) error {
			if r.Epoch >= base.Epoch {
				return nil
			}
			return yield(r)
		})
	}
}

// chunksBefore are the chunks of trace or rows that begin before base, and whose they are now. The last one may go on
// behind base: a checkpoint that is made again stays as it was, and may be of a run that made none at base.
func (s *store) chunksBefore(ctx context.Context, repo *checkpoint.Repo, base *checkpoint.Manifest,
	kind checkpoint.Kind) (m *checkpoint.Manifest, list []checkpoint.Chunk, err error) {
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
		list, err = chunksOf(ctx, repo, m, kind)
	}
	list = slices.DeleteFunc(list, func(c checkpoint.Chunk) bool { return c.From >= base.Epoch })
	return m, list, err
}
