// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/disco-sim/disco/internal/answers"
	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/outfile"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// What the outside world answers handlers (docs/checkpoints.md, section 8). Workers ask it; this process keeps what it
// answers, and gives it to workers that come to the same call again. It goes to the store's journals at once, and with
// the next checkpoint into a chunk, which all later ones keep.

// asks reports whether the scenario's handlers ask the outside world.
func asks(s scenario.Scenario) bool {
	a, ok := s.(scenario.Asker)
	return ok && len(a.Externals()) > 0
}

// openAnswers begins to keep what is answered, where the run could go back; goesBack says that it may without
// checkpoints. What an earlier run has kept is there then.
func (l *Launch) openAnswers(ctx context.Context, goesBack bool) (end func(), err error) {
	end = func() {}
	c := l.cfg.Checkpoint
	if l.cfg.Replay != nil && asks(l.scenario) {
		return l.openRecorded(ctx)
	}
	if !asks(l.scenario) || l.cfg.Answers != nil || c == nil && !goesBack {
		return end, nil
	}
	dir := os.TempDir()
	if c != nil && c.TempDir != "" {
		dir = c.TempDir
	}
	store, err := answers.New(l.run(), dir)
	if err != nil {
		return end, fmt.Errorf("launch: %w", err)
	}
	if c != nil {
		err = l.loadAnswers(ctx, store, c.Repo)
	}
	if err != nil {
		return end, errors.Join(fmt.Errorf("launch: %w", err), store.Close())
	}
	l.cfg.Answers = store
	return func() { _ = store.Close() }, nil // what it has is safe, or of no use any more
}

// openRecorded has a replay get what the recorded run was answered, and nothing else: nobody is asked.
func (l *Launch) openRecorded(ctx context.Context) (end func(), err error) {
	repo := l.cfg.Replay.Repo
	store, err := answers.New(repo.Run().ID, os.TempDir())
	if err != nil {
		return func() {}, fmt.Errorf("launch: %w", err)
	}
	end = func() { _ = store.Close() } // a temporary file
	store.Strict = true
	if err := LoadAnswers(ctx, store, repo, l.begins); err != nil {
		return end, fmt.Errorf("launch: %w", err)
	}
	l.cfg.Answers = store
	return end, nil
}

// begins is the epoch from which a replication is simulated; +Inf: it had ended.
func (l *Launch) begins(replication int) float64 {
	switch m := l.cfg.Resume.from(replication); {
	case m == nil:
		return 0
	case m.Finished:
		return math.Inf(1)
	default:
		return m.Epoch
	}
}

// loadAnswers has a store find what the run of a Repo was answered from the epochs on from which its replications go
// on, and keep what it is answered there.
func (l *Launch) loadAnswers(ctx context.Context, store *answers.Store, repo *checkpoint.Repo) error {
	if err := LoadAnswers(ctx, store, repo, l.begins); err != nil {
		return err
	}
	journals, torn, err := answers.OpenJournals(ctx, repo.Run().ID, repo.Blobs(), l.cfg.ExternalSync,
		func(replication int, r *answers.Record, record []byte) error {
			if r.Epoch < l.begins(replication) {
				return nil
			}
			return store.Load(replication, 0, record)
		})
	if err != nil {
		return err
	}
	for _, name := range torn {
		l.note(fmt.Sprintf("%v/%s: the last answer wasn't written to its end, so its call is asked again", repo, name))
	}
	store.KeepIn(journals)
	return nil
}

// LoadAnswers puts into a store what the checkpoints of a Repo have of what the outside world has answered: for each
// replication from an epoch on (+Inf: nothing). For a run that is only repeated, whose store is Strict.
func LoadAnswers(ctx context.Context, store *answers.Store, repo *checkpoint.Repo, from func(int) float64) error {
	points, err := repo.Points(ctx)
	if err != nil {
		return err
	}
	newest := map[int]checkpoint.Point{}
	for _, p := range points {
		if now, there := newest[p.Replication]; !there || p.Finished || !now.Finished && p.Epoch > now.Epoch {
			newest[p.Replication] = p
		}
	}
	for r, p := range newest {
		if !p.Finished && p.Epoch <= from(r) || math.IsInf(from(r), 1) {
			continue
		}
		m, err := repo.Load(ctx, p)
		if err != nil {
			return err
		}
		chunks, err := chunksOf(ctx, repo, m, checkpoint.Externals)
		if err != nil {
			return err
		}
		var data []byte
		for i, c := range chunks {
			if i+1 < len(chunks) && chunks[i+1].From <= from(r) {
				continue // all of it is before
			}
			if data, err = repo.Read(ctx, m, c, data); err != nil {
				return err
			}
			if err := store.Load(r, from(r), data); err != nil {
				return fmt.Errorf("%v of %v: %v: %w", p, repo, &c, err)
			}
		}
	}
	return nil
}

// run is the run for which the outside world is asked: one that goes on is the same.
func (l *Launch) run() checkpoint.ID {
	switch {
	case l.cfg.Answers != nil:
		return l.cfg.Answers.Run()
	case l.cfg.Checkpoint != nil:
		return l.cfg.Checkpoint.Repo.Run().ID
	}
	return l.runID
}

// newRunID names a run that has no checkpoints.
func newRunID() (id checkpoint.ID) {
	rand.Read(id[:])
	return id
}

// answerBytes is how large a chunk of what is answered becomes, unless one record has more.
const answerBytes = 16 << 20

// spoolAnswers writes records as chunks of a checkpoint.
func spoolAnswers(ctx context.Context, w io.Writer, section *answers.Section) (chunks []checkpoint.Chunk, size int64,
	err error) {
	spool := checkpoint.NewSpool(w)
	var data []byte
	from := 0.0
	add := func() error {
		if len(data) == 0 {
			return nil
		}
		c, err := spool.Add(checkpoint.Chunk{Kind: checkpoint.Externals, From: from}, data)
		chunks, data = append(chunks, c), data[:0]
		return errors.Join(err, ctx.Err())
	}
	err = section.Each(func(epoch float64, record []byte) error {
		if len(data) > 0 && len(data)+len(record) > answerBytes {
			if err := add(); err != nil {
				return err
			}
		}
		if len(data) == 0 {
			from = epoch
		}
		data = append(data, record...)
		return nil
	})
	if err == nil {
		err = add()
	}
	return chunks, spool.Size(), err
}

// addAnswers has a draft take records over, and all chunks of those before. done frees what it needs, behind Commit.
func (s *store) addAnswers(ctx context.Context, draft *checkpoint.Draft, before []checkpoint.Chunk,
	section *answers.Section) (done func(), err error) {
	for _, c := range before {
		draft.Keep(c)
	}
	if section == nil || section.Len() == 0 {
		return func() {}, nil
	}
	f, err := outfile.Temporary(s.dir)
	if err != nil {
		return func() {}, fmt.Errorf("temporary file for what was answered: %w", outfile.Error(s.dir, err))
	}
	done = func() { f.Close() }
	chunks, size, err := spoolAnswers(ctx, f, section)
	if err != nil {
		return done, err
	}
	return done, draft.Add(f, size, chunks)
}

// answered is what a replication was answered before an epoch and that is in no checkpoint; nil: nothing is kept.
func (l *Launch) answered(replication int, until float64) *answers.Section {
	if l.cfg.Answers == nil || l.cfg.Answers.Strict {
		return nil
	}
	return l.cfg.Answers.Section(replication, until)
}

// recorder answers what the workers of a set send about calls of the outside world, beside the supervisor, because a
// store may be slow. nil: they send nothing.
type recorder struct {
	store  *answers.Store
	set    *workerSet
	queue  chan asked    // closed at the end
	served chan struct{} // closed when all of it is
}

// asked is a message about a call.
type asked struct {
	from, replication int
	message           *worker.External
}

// startRecorder starts the set's recorder.
func (ws *workerSet) startRecorder() {
	if ws.launch.cfg.Answers == nil {
		return
	}
	r := &recorder{store: ws.launch.cfg.Answers, set: ws, served: make(chan struct{}),
		queue: make(chan asked, len(ws.stats))}
	ws.supervisor.recorder = r
	go func() {
		defer close(r.served)
		for a := range r.queue {
			answer, err := r.serve(a)
			ws.supervisor.conns.deliver(report{from: a.from, refused: err, reply: answer})
		}
	}()
	ws.cleanup = append(ws.cleanup, func() {
		close(r.queue)
		<-r.served
	})
}

// take takes a message of a worker. An error is the worker's fault.
func (r *recorder) take(from int, at stage, m *worker.External) error {
	if r == nil || at.phase != PhaseRun {
		return errors.New("it sends something about the outside world where nothing is kept")
	}
	select {
	case r.queue <- asked{from, at.replication, m}:
		return nil
	default:
		return errors.New("it sends something about a call of the outside world before the last answer")
	}
}

// serve looks for a record, or keeps one. The error is the worker's fault.
func (r *recorder) serve(a asked) (*worker.Message, error) {
	rec, rest, err := answers.Parse(a.message.Record)
	l := r.set.launch
	switch {
	case err != nil:
		return nil, fmt.Errorf("its call of the outside world: %w", err)
	case len(rest) > 0:
		return nil, fmt.Errorf("its call of the outside world has %d bytes too many", len(rest))
	case int(rec.Simproc) >= l.structure.NumSimprocs():
		return nil, fmt.Errorf("its call of the outside world is simproc %d's, of %d", rec.Simproc,
			l.structure.NumSimprocs())
	}
	if n := int(rec.Simproc) / len(l.structure.Simprocs()); int(r.set.placement[n]) != a.from {
		return nil, fmt.Errorf("its call of the outside world is of node %s, which is worker %d's",
			l.structure.NodeName(n), r.set.placement[n])
	}
	answer := &worker.Recorded{}
	if !a.message.Look {
		err = r.store.Keep(a.replication, rec)
	} else if rec, err = r.store.Find(a.replication, rec); rec != nil {
		answer.Record = rec.Append(nil)
	}
	if err != nil {
		answer.Error = l.named(err).Error()
	}
	return &worker.Message{Type: worker.TypeRecorded, Recorded: answer}, nil
}

// named has an error about a call name its simproc.
func (l *Launch) named(err error) error {
	var mismatch *answers.MismatchError
	var missing *answers.MissingError
	switch {
	case errors.As(err, &mismatch):
		mismatch.Simproc = l.structure.Name(node.SimprocID(mismatch.Key.Simproc))
	case errors.As(err, &missing):
		missing.Simproc = l.structure.Name(node.SimprocID(missing.Key.Simproc))
	}
	return err
}

// MismatchError is the error of a run in which a call asked something else than its record has, beside the worker's.
type MismatchError struct {
	Run      error
	Mismatch *answers.MismatchError
}

// Error is the worker's, which shows both requests.
func (e *MismatchError) Error() string { return e.Run.Error() }

// Unwrap gives both.
func (e *MismatchError) Unwrap() []error { return []error{e.Run, e.Mismatch} }

// Unlike is the first call of the outside world that wasn't as recorded, behind a Run of a Replay; nil: none.
func (l *Launch) Unlike() *answers.Unlike {
	if l.cfg.Answers == nil {
		return nil
	}
	return l.cfg.Answers.Unlike()
}

// mismatched makes the error of a run in which a call asked something else a *MismatchError.
func (l *Launch) mismatched(err error) error {
	if l.cfg.Answers == nil || err == nil {
		return err
	}
	var m *answers.MismatchError
	if !errors.As(l.cfg.Answers.Mismatch(), &m) {
		return err
	}
	return &MismatchError{err, m}
}
