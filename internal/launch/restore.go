// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/outfile"
	"github.com/disco-sim/disco/internal/tracefile"
	"github.com/disco-sim/disco/internal/worker"
)

// Resume is what a run begins with: checkpoints of an earlier one.
type Resume struct {
	// Repo is where they are; nobody else uses it meanwhile. It may be that of Config.Checkpoint.
	Repo *checkpoint.Repo

	// From are what replications begin with, by index: a checkpoint, the end of one, or nil for the begin.
	From []*checkpoint.Manifest

	// Repos are where the ends of replications are, by index, of Launch.Merge; nil: all are in Repo.
	Repos []*checkpoint.Repo

	// Variant, where it isn't 0, is the epoch of checkpoints that another run has made, under other settings
	// (docs/checkpoints.md, section 7): who begins there is free of what was promised, and all replications but the
	// first draw other random numbers from there on.
	Variant float64
}

// from is what replication r begins with; nil: epoch 0.
func (r *Resume) from(replication int) *checkpoint.Manifest {
	if r == nil || replication >= len(r.From) {
		return nil
	}
	return r.From[replication]
}

// repo is where the end of a replication is.
func (r *Resume) repo(replication int) *checkpoint.Repo {
	if r.Repos == nil {
		return r.Repo
	}
	return r.Repos[replication]
}

// varied reports whether replication r begins with what another run has made.
func (r *Resume) varied(replication int) bool {
	m := r.from(replication)
	return m != nil && !m.Finished && m.Epoch == r.Variant
}

// restore has each worker of the set find what its nodes are to begin with, and returns what Prepare says of it.
func (ws *workerSet) restore(ctx context.Context, r int, p *worker.Prepare) error {
	k := &ws.checkpointing
	k.base, k.last = ws.launch.cfg.Resume.from(r), nil
	k.traced, k.called, k.traceBefore, k.rowsBefore, k.answered = nil, nil, nil, nil, nil
	k.tracedMark = ws.traceBegan
	k.comparedMark = ws.traceBegan
	if store := ws.launch.cfg.Answers; store != nil {
		p.Look, p.Keep = store.Any(r), !store.Strict
	}
	p.Variant = ws.launch.cfg.Resume != nil && ws.launch.cfg.Resume.Variant != 0
	if k.base == nil {
		return nil
	}
	p.Restore, p.Epoch, p.Varied = true, k.base.Epoch, ws.launch.cfg.Resume.varied(r)
	st := ws.launch.store
	st.mu.Lock()
	defer st.mu.Unlock()
	repo := ws.launch.cfg.Resume.Repo
	all := make([][]checkpoint.Chunk, len(k.restore))
	err := repo.Chunks(ctx, k.base, func(c checkpoint.Chunk) error {
		if c.Kind != checkpoint.Nodes && c.Kind != checkpoint.Pending {
			return nil
		}
		for w := range all {
			if ws.hostsAny(w, &c) {
				all[w] = append(all[w], c)
			}
		}
		return nil
	})
	if err == nil && ws.launch.cfg.Answers != nil && ws.launch.cfg.Replay == nil {
		k.answered, err = chunksOf(ctx, repo, k.base, checkpoint.Externals)
	}
	if err == nil && (ws.launch.traced() || ws.launch.keepsRows()) && ws.launch.cfg.Replay == nil {
		k.traced, err = tracedChunks(ctx, repo, k.base)
		k.traceBefore, k.rowsBefore = st.readTraceBefore(ctx, repo, k.base), st.readRowsBefore(ctx, repo, k.base)
	}
	if err == nil && ws.launch.keepsCalls() && ws.launch.cfg.Replay == nil {
		k.called, err = journalOf(ctx, repo, k.base)
	}
	if err != nil {
		return fmt.Errorf("launch: %w", err)
	}
	for w, f := range k.restore {
		if err := f.Truncate(0); err != nil {
			return fmt.Errorf("launch: temporary file for a checkpoint: %w", err)
		}
		slices.SortStableFunc(all[w], compareByPlace)
		if err := repo.Bundle(ctx, k.base, io.NewOffsetWriter(f, 0), all[w]); err != nil {
			return fmt.Errorf("launch: %w", err)
		}
	}
	return nil
}

// compareByPlace orders chunks as they are loaded, states first, and those of a kind as they lie in packs: where nodes
// of several workers alternate, so do their chunks in a manifest, and each would be read by itself.
func compareByPlace(a, b checkpoint.Chunk) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), bytes.Compare(a.Pack.Digest[:], b.Pack.Digest[:]),
		cmp.Compare(a.At, b.At))
}

// hostsAny reports whether worker w hosts a node of a chunk's group.
func (ws *workerSet) hostsAny(w int, c *checkpoint.Chunk) bool {
	of := ws.placement
	for n := c.First; n < c.First+c.Nodes && int(n) < len(of); n++ {
		if int(of[n]) == w {
			return true
		}
	}
	return false
}

// resultBytes is how large a chunk of results becomes.
const resultBytes = 16 << 20

// resultHeadBytes stand in front of a simproc's report.
const resultHeadBytes = 4 + 8 + 4

// finish commits the end of a replication, with its results.
func (ws *workerSet) finish(ctx context.Context, res *result) error {
	st := ws.launch.store
	dir := st.scratch()
	f, err := outfile.Temporary(dir)
	if err != nil {
		return fmt.Errorf("temporary file for results: %w", outfile.Error(dir, err))
	}
	defer f.Close()
	chunks, size, err := spoolResults(f, res)
	if err != nil {
		return err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	draft := st.repo.Begin()
	if err := draft.Add(f, size, chunks); err != nil {
		return err
	}
	section := ws.trace.Section(ws.checkpointing.tracedMark, ws.traceBegan)
	done, err := st.addTrace(ctx, draft, ws.checkpointing.traced, &section)
	defer done()
	err = cmp.Or(err, st.addCalls(draft, ws.checkpointing.called, &section, res.Activations))
	if err != nil {
		return err
	}
	done, err = st.addAnswers(ctx, draft, ws.checkpointing.answered, ws.launch.answered(res.Index, math.Inf(1)))
	defer done()
	if err != nil {
		return err
	}
	m := &checkpoint.Manifest{Replication: res.Index, Epoch: res.Reached, Finished: true, Events: res.Events,
		Activations: res.Activations, Wall: (&saving{}).wall()}
	copy(m.TraceHash[:], res.hash)
	if err := draft.Commit(ctx, m); err != nil || ws.launch.cfg.Answers == nil {
		return err
	}
	return ws.launch.cfg.Answers.Committed(ctx, res.Index, math.Inf(1))
}

// spoolResults writes what simprocs have reported as chunks.
func spoolResults(f *os.File, res *result) (chunks []checkpoint.Chunk, size int64, err error) {
	spool := checkpoint.NewSpool(f)
	var data []byte
	add := func() error {
		if len(data) == 0 {
			return nil
		}
		chunk, err := spool.Add(checkpoint.Chunk{Kind: checkpoint.Results}, data)
		chunks, data = append(chunks, chunk), data[:0]
		return err
	}
	for id, report := range res.parts {
		if len(data)+resultHeadBytes+len(report) > resultBytes {
			if err := add(); err != nil {
				return nil, 0, err
			}
		}
		data = binary.LittleEndian.AppendUint32(data, uint32(id))
		data = binary.LittleEndian.AppendUint64(data, res.hashes[id])
		length := uint32(0)
		if report != nil {
			length = uint32(len(report)) + 1
		}
		data = append(binary.LittleEndian.AppendUint32(data, length), report...)
	}
	err = add()
	return chunks, spool.Size(), err
}

// loadFinished takes the results of replications that an earlier run has simulated.
func (l *Launch) loadFinished(ctx context.Context, s *schedule) error {
	var results []*result
	first, beyond := l.cfg.span()
	for r := first; r < beyond; r++ {
		m := l.cfg.Resume.from(r)
		if m == nil || !m.Finished {
			continue
		}
		res, err := l.finished(ctx, l.cfg.Resume.repo(r), m)
		if err != nil {
			return err
		}
		l.soFar.add(res)
		results = append(results, res)
	}
	s.load(results)
	return nil
}

// finished is the result of a replication that had ended, as finish has written it.
func (l *Launch) finished(ctx context.Context, repo *checkpoint.Repo, m *checkpoint.Manifest) (*result, error) {
	c := newCollection(l.structure, nil)
	var chunks []checkpoint.Chunk
	err := repo.Chunks(ctx, m, func(chunk checkpoint.Chunk) error {
		if chunk.Kind == checkpoint.Results {
			chunks = append(chunks, chunk)
		}
		return nil
	})
	for i := range chunks {
		var data []byte
		if err == nil {
			data, err = repo.Read(ctx, m, chunks[i], nil)
		}
		if err == nil {
			err = c.load(data)
		}
	}
	var hash []byte
	if err == nil {
		hash, err = c.traceHash()
	}
	if err == nil && !bytes.Equal(hash, m.TraceHash[:]) {
		err = fmt.Errorf("found trace hash %x, want %v", hash, m.TraceHash)
	}
	if err != nil {
		return nil, fmt.Errorf("launch: %v of %v: %w", m.Point(), repo, err)
	}
	traced, err := chunksOf(ctx, repo, m, checkpoint.Trace)
	if err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	rows, err := chunksOf(ctx, repo, m, checkpoint.Rows)
	if err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	res := &result{trace: tracefile.Replication{Index: m.Replication, Reached: math.Inf(1),
		Before: l.store.readTrace(ctx, m, repo, traced), RowsBefore: l.store.readRows(ctx, m, repo, rows)},
		hash: hash, parts: c.reports,
		Replication: Replication{Index: m.Replication,
			Reached: m.Epoch, Events: m.Events, Activations: m.Activations, TraceHash: runHash([][]byte{hash})}}
	return res, nil
}

// load files what spoolResults has written.
func (c *collection) load(data []byte) error {
	return eachReport(data, c.seen, func(id uint32, hash uint64, report []byte) {
		c.hashes[id], c.reports[id] = hash, report
	})
}

// eachReport yields what spoolResults has written of simprocs that weren't seen before: report is nil where there is
// none, and part of data else.
func eachReport(data []byte, seen []bool, yield func(id uint32, hash uint64, report []byte)) error {
	for at := 0; at < len(data); {
		rest := data[at:]
		if len(rest) < resultHeadBytes {
			return fmt.Errorf("results: byte %d: found %d bytes, want the head of a report", at, len(rest))
		}
		id, size := binary.LittleEndian.Uint32(rest), int64(binary.LittleEndian.Uint32(rest[12:]))
		if rest = rest[resultHeadBytes:]; max(size, 1)-1 > int64(len(rest)) {
			return fmt.Errorf("results: byte %d: found a report of %d bytes, want at most %d", at, size-1, len(rest))
		}
		if int(id) >= len(seen) || seen[id] {
			return fmt.Errorf("results: byte %d: found simproc %d, want each of 0 to %d once", at, id, len(seen)-1)
		}
		seen[id] = true
		var report []byte
		if size > 0 {
			report = rest[: size-1 : size-1]
		}
		yield(id, binary.LittleEndian.Uint64(data[at+4:]), report)
		at += resultHeadBytes + int(max(size, 1)-1)
	}
	return nil
}

// ResumeAt is what each replication of the run of a Repo is to begin with: its end, where it has one, and else the
// newest checkpoint; with at other than "latest" the one that is named so (checkpoint.Repo.Find), where the replication
// has it. *checkpoint.FoundError where none has it. Of a run that began with another one's checkpoint that is what
// replications begin with that hadn't come to one of their own, or all of them, where at names it.
func ResumeAt(ctx context.Context, repo *checkpoint.Repo, at string) (*Resume, error) {
	return resumeAt(ctx, repo, at, nil)
}

// resumeAt is ResumeAt without bad ones.
func resumeAt(ctx context.Context, repo *checkpoint.Repo, at string, bad map[checkpoint.Point]bool) (*Resume, error) {
	points, err := repo.Points(ctx)
	if err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	resume := &Resume{Repo: repo, From: make([]*checkpoint.Manifest, repo.Run().Replications)}
	if from := repo.Run().From; from != nil {
		resume.Variant = from.Epoch
	}
	begin, err := beginOf(ctx, repo)
	if err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	newest := make([]checkpoint.Point, len(resume.From))
	for _, p := range points {
		if p.Replication >= len(newest) || bad[p] {
			continue
		}
		if now := &newest[p.Replication]; p.Finished || !now.Finished && p.Epoch > now.Epoch {
			*now = p
		}
	}
	var none error = &checkpoint.FoundError{Where: repo.String(), At: at}
	there := at == latest
	for r, p := range newest {
		m, other, err := startAt(ctx, repo, at, r, p, len(bad) > 0)
		switch {
		case err != nil:
			return nil, err
		case other != nil:
			none = other
		case at != latest && m != nil:
			there = true
			if begin != nil && m.Epoch == begin.Epoch { // it is all replications'
				for r := range newest {
					resume.From[r] = begin
				}
				return resume, nil
			}
		}
		if m == nil {
			m = begin
		}
		resume.From[r] = m
	}
	if !there {
		return nil, none
	}
	return resume, nil
}

// latest is the newest checkpoint.
const latest = "latest"

// startAt is what a replication is to begin with, whose newest checkpoint or end is p; nil: it hadn't come to one. none
// says that it isn't the one that at names, which isn't there. bad says that there are newer ones, which are
// damaged.
func startAt(ctx context.Context, repo *checkpoint.Repo, at string, r int, p checkpoint.Point, bad bool) (
	m *checkpoint.Manifest, none, err error) {
	if p == (checkpoint.Point{}) {
		return nil, nil, nil
	}
	if at != latest {
		m, none = repo.Find(ctx, at, r)
		if found := (*checkpoint.FoundError)(nil); none == nil {
			return m, nil, nil
		} else if !errors.As(none, &found) {
			return nil, nil, none
		}
	}
	if p.Finished || bad {
		m, err = repo.Load(ctx, p)
	} else {
		m, err = repo.Find(ctx, latest, r)
	}
	return m, none, err
}

// damagedBegin says of a run that failed before it simulated anything which part of what it was to begin with is
// damaged: a worker has only the bytes.
func (l *Launch) damagedBegin(ctx context.Context, failed error) error {
	if failed == nil || l.cfg.Resume == nil || delivered(failed) {
		return failed
	}
	advice := ": go on from a checkpoint that `checkpoints verify` finds as it was (--at)"
	if l.cfg.Replay != nil {
		advice = "" // the caller knows what else can be replayed
	}
	for _, m := range l.cfg.Resume.From {
		if m == nil {
			continue
		}
		var damaged *checkpoint.DamagedError
		if err := l.cfg.Resume.Repo.Whole(ctx, m); errors.As(err, &damaged) {
			return fmt.Errorf("launch: %w%s", damaged, advice)
		}
	}
	return failed
}

// StatesWhole reads what a run that begins with a checkpoint needs of it; nil: it is as it was written.
func StatesWhole(ctx context.Context, repo *checkpoint.Repo, m *checkpoint.Manifest) error {
	var data []byte
	return repo.Chunks(ctx, m, func(c checkpoint.Chunk) (err error) {
		if c.Kind == checkpoint.Nodes || c.Kind == checkpoint.Pending {
			data, err = repo.Read(ctx, m, c, data)
		}
		return err
	})
}

// Begin is what all replications of a run begin with: the checkpoint of another one, under other settings; nil: at 0.
func Begin(ctx context.Context, repo *checkpoint.Repo) (*Resume, error) {
	m, err := beginOf(ctx, repo)
	if m == nil || err != nil {
		return nil, err
	}
	return &Resume{Repo: repo, From: slices.Repeat([]*checkpoint.Manifest{m}, repo.Run().Replications),
		Variant: m.Epoch}, nil
}

// beginOf is what a run began with, which it has of another one; nil: nothing.
func beginOf(ctx context.Context, repo *checkpoint.Repo) (*checkpoint.Manifest, error) {
	from := repo.Run().From
	if from == nil {
		return nil, nil
	}
	m, err := repo.Load(ctx, checkpoint.Point{Epoch: from.Epoch})
	if missing := (*checkpoint.MissingError)(nil); errors.As(err, &missing) {
		return nil, &NoBeginError{repo.String(), from.Epoch}
	}
	return m, err
}

// NoBeginError says that a run of other settings doesn't have the checkpoint with which it begins: it was ended while
// it copied that.
type NoBeginError struct {
	Where string
	Epoch float64
}

// Error says what to do.
func (e *NoBeginError) Error() string {
	return fmt.Sprintf("%s: found no checkpoint at %v s, with which this run of other settings begins, want the one "+
		"that is copied there first: where that came to no end, remove the directory and begin again", e.Where, e.Epoch)
}
