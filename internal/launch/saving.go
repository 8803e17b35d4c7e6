// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/disco-sim/disco/internal/answers"
	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/outfile"
	"github.com/disco-sim/disco/internal/trace"
	"github.com/disco-sim/disco/internal/tracefile"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/node"
)

// saving is a checkpoint of a worker set that is being made: first by its workers, then by the store. The goroutine
// that leads the set uses it until committed is closed by another one.
type saving struct {
	replication         int
	epoch               float64
	events, activations uint64
	began               time.Time
	pause               time.Duration
	hashes              *collection
	parts               []storedParts      // by worker
	section             tracefile.Section  // what was recorded since the last one; nil where nothing is
	traced, called      []checkpoint.Chunk // what the last one has of trace and rows, and of the journal
	mark                int
	kept                *answers.Store
	answers             *answers.Section   // what was answered since the last one; nil: nothing is kept
	answered            []checkpoint.Chunk // what the last one has of that
	missing             int                // workers that have more to say
	encoded             bool               // all workers have answered Save: pause is known

	over      func()                  // it is no longer being written: store.writing
	abandon   context.CancelCauseFunc // ends commit
	committed chan struct{}           // closed when it was tried
	written   *written                // nil: it failed
	err       error                   // why, or what went wrong behind it
}

// storedParts is what a worker has in its spool.
type storedParts struct {
	spool  *os.File
	chunks []checkpoint.Chunk
	last   bool
	failed string // "": no
	encode float64
	write  float64
}

// add files a part. Errors are the worker's fault.
func (v *saving) add(from int, p *worker.Stored) error {
	part := &v.parts[from]
	switch {
	case part.last:
		return errors.New("it describes its part of a checkpoint twice")
	case p.Epoch != v.epoch:
		return fmt.Errorf("it describes its part of a checkpoint at %v, want %v", p.Epoch, v.epoch)
	case len(p.Chunks) > checkpointChunksMax-len(part.chunks):
		return fmt.Errorf("its part of a checkpoint has more than %d chunks", checkpointChunksMax)
	}
	err := v.hashes.add(&worker.Results{Simprocs: p.Simprocs, Hashes: p.Hashes, Sizes: make([]uint32, len(p.Simprocs))})
	if err != nil {
		return err
	}
	part.chunks = append(part.chunks, p.Chunks...)
	part.failed, part.last, part.encode, part.write = p.Error, p.Last, p.Encode, p.Write
	if p.Last {
		v.missing--
	}
	return nil
}

// checkpointChunksMax bounds the chunks of a worker: of 4 MiB each they have 4 TiB, and each of 4,096 groups of nodes
// may have 256 of them.
const checkpointChunksMax = 1 << 20

// failed is why a worker's part isn't there.
func (v *saving) failed() error {
	for w := range v.parts {
		if text := v.parts[w].failed; text != "" {
			return fmt.Errorf("worker %d: %s", w, text)
		}
	}
	return nil
}

// wall is what it took, so far.
func (v *saving) wall() checkpoint.Wall {
	w := checkpoint.Wall{Written: time.Now().UTC().Format(time.RFC3339), Pause: v.pause.Seconds()}
	for i := range v.parts {
		w.Encode, w.Write = max(w.Encode, v.parts[i].encode), max(w.Write, v.parts[i].write)
	}
	return w
}

// addTo has the draft take the part over.
func (p *storedParts) addTo(draft *checkpoint.Draft, before *written) error {
	info, err := p.spool.Stat()
	if err != nil {
		return fmt.Errorf("temporary file of its checkpoints: %w", err)
	}
	var fresh []checkpoint.Chunk
	for i := range p.chunks {
		c := p.chunks[i]
		if c.At >= 0 {
			fresh = append(fresh, c)
			continue
		}
		var kept checkpoint.Chunk
		ok := before != nil
		if ok {
			kept, ok = before.chunks[nameOf(&c)]
		}
		if !ok {
			return fmt.Errorf("found a chunk that was saved before, %v, want one of the last checkpoint", &c)
		}
		draft.Keep(kept)
	}
	return draft.Add(p.spool, info.Size(), fresh)
}

// checkpointing is what a worker set has for its checkpoints.
type checkpointing struct {
	store   *store
	spools  []*os.File // by worker
	restore []*os.File
	base    *checkpoint.Manifest // that the replication began with; nil: epoch 0
	current *saving              // nil: none is under way
	last    *written             // of this replication; nil: none

	traced       []checkpoint.Chunk                              // the trace and rows that last has, or base
	called       []checkpoint.Chunk                              // the same of the journal of activations
	comparedMark int                                             // what is behind it wasn't compared (Replay)
	tracedMark   int                                             // what is behind it is in neither
	answered     []checkpoint.Chunk                              // what last has, or base, of what was answered
	traceBefore  func(yield func(rec *trace.Record) error) error // that of base; nil: none
	rowsBefore   func(yield func(r *node.Recorded) error) error  // likewise
}

// scratch is the directory for temporary files: where the one that was asked for was removed while the run went on, as
// commits say, that of the system.
func (st *store) scratch() string {
	if _, err := os.Stat(st.dir); errors.Is(err, fs.ErrNotExist) {
		return os.TempDir()
	}
	return st.dir
}

// endsOnly tells whether workers have nothing to do with it.
func (st *store) endsOnly() bool { return st.cfg != nil && st.cfg.EndsOnly }

// openFiles opens what workers write to and read from. Each is a file without a name.
func (ws *workerSet) openFiles() error {
	k := &ws.checkpointing
	if k.store = ws.launch.store; k.store == nil || k.store.endsOnly() {
		return nil
	}
	dir := k.store.scratch()
	for _, files := range []*[]*os.File{&k.spools, &k.restore} {
		for range ws.stats {
			f, err := outfile.Temporary(dir)
			if err != nil {
				return fmt.Errorf("launch: temporary file for checkpoints: %w", outfile.Error(dir, err))
			}
			*files = append(*files, f)
			ws.cleanup = append(ws.cleanup, func() { f.Close() })
		}
	}
	ws.cleanup = append(ws.cleanup, func() {
		ws.committing.Wait() // it reads them
		if k.current != nil {
			k.current.over() // a worker hasn't stored its part
		}
	})
	return nil
}

// checkpoint makes one, where all workers stand still at an epoch, unless the last one is still being written and this
// one isn't asked for by its epoch. What store.asked wants begins later then.
func (ws *workerSet) checkpoint(ctx context.Context, r int, epoch float64, answers []*worker.Message) error {
	k, s := &ws.checkpointing, ws.supervisor
	began := time.Now()
	if k.current != nil && !k.isCommitted() {
		if !k.store.cfg.asked(epoch) && !s.stopping {
			k.store.skip()
			return nil
		}
		if err := ws.awaitCheckpoint(ctx); err != nil {
			return err
		}
		k.store.held(time.Since(began))
		began = time.Now()
	}
	hangs := k.current != nil && errors.Is(k.current.err, errStoreHangs)
	if err := ws.takeCommitted(false); err != nil || hangs { // and would for the next one
		return err
	}
	v := &saving{replication: r, epoch: epoch, began: began,
		hashes: newCollection(ws.launch.structure, func(*worker.Results) {}),
		parts:  make([]storedParts, len(ws.stats)), missing: len(ws.stats), committed: make(chan struct{})}
	if k.base != nil {
		v.events, v.activations = k.base.Events, k.base.Activations
	}
	for w, m := range answers {
		v.events, v.activations = v.events+m.Saved.Events, v.activations+m.Saved.Activations
		v.parts[w].spool = k.spools[w]
	}
	k.store.asked.Store(false)
	k.store.begin(v)
	k.current, s.saving = v, v
	committed, room := 0.0, ws.launch.memory.room(ws)
	if k.last != nil {
		committed = k.last.epoch
	}
	s.onStored = func() { ws.commit(ctx, v) }
	_, err := s.request(ctx, func(w int) *worker.Message {
		save := &worker.Save{Epoch: epoch, Committed: committed}
		save.Direct, save.Room = room(w)
		return &worker.Message{Type: worker.TypeSave, Save: save}
	}, worker.TypeReady)
	if err != nil {
		return err
	}
	if ws.launch.recorded() { // the workers have written all of it before they answered
		if v.mark, err = ws.trace.Mark(); err != nil {
			return err
		}
		v.section, v.traced, v.called = ws.trace.Section(k.tracedMark, v.mark), k.traced, k.called
	}
	v.answers, v.answered = ws.launch.answered(r, epoch), k.answered
	if store := ws.launch.cfg.Answers; store != nil && !store.Strict {
		v.kept = store
	}
	v.encoded, v.pause = true, time.Since(began)
	k.store.paused(v.pause)
	ws.commit(ctx, v)
	return nil
}

// commit begins to write the newest checkpoint, when all workers have stored it.
func (ws *workerSet) commit(ctx context.Context, v *saving) {
	if v.missing > 0 || !v.encoded {
		return
	}
	k := &ws.checkpointing
	ws.supervisor.saving = nil
	before := k.last
	ctx, v.abandon = context.WithCancelCause(ctx)
	ws.committing.Go(func() {
		defer close(v.committed)
		defer v.over()
		defer v.abandon(nil)
		if v.err = v.failed(); v.err == nil {
			v.written, v.err = k.store.commit(ctx, v, before)
		}
		if v.err != nil && context.Cause(ctx) == errStoreHangs {
			v.err = errStoreHangs
		}
	})
}

// isCommitted reports whether it was tried to write the newest checkpoint.
func (k *checkpointing) isCommitted() bool {
	select {
	case <-k.current.committed:
		return true
	default:
		return false
	}
}

// errStoreHangs ends the writing of a checkpoint when the run is to end.
var errStoreHangs = fmt.Errorf("the store hasn't taken it within %v", lastCheckpoint)

// lastCheckpoint is how long the store may take for a checkpoint when the run is to end.
const lastCheckpoint = 5 * time.Second

// awaitCheckpoint waits until it was tried to write the newest checkpoint, if one is under way. Where the run is to
// end, a store that takes too long isn't waited for.
func (ws *workerSet) awaitCheckpoint(ctx context.Context) error {
	k := &ws.checkpointing
	if k.current == nil {
		return nil
	}
	s := ws.supervisor
	s.step("waiting for a checkpoint")
	long := time.NewTicker(slowCheckpoint)
	defer long.Stop()
	var late <-chan time.Time
	if s.stopping {
		late = time.After(lastCheckpoint)
	}
	s.want = 0
	for {
		select {
		case <-ctx.Done():
			return ErrEnded
		case <-s.stop:
			s.stop, s.stopping = nil, true
			late = time.After(lastCheckpoint)
		case <-late:
			if k.current.abandon == nil { // workers haven't written their parts: what the store takes begins then
				late = time.After(lastCheckpoint)
				continue
			}
			k.current.abandon(errStoreHangs)
		case <-k.current.committed:
			return nil
		case r := <-s.conns.reports:
			if !s.handleReport(r) {
				return s.collectFailures(ctx)
			}
		case <-long.C:
			ws.launch.note(k.current.waits())
		}
	}
}

// slowCheckpoint is after how long each wait for a checkpoint is said.
const slowCheckpoint = 10 * time.Second

// waits says what a checkpoint is still waiting for.
func (v *saving) waits() string {
	text := fmt.Sprintf("the run waits for its checkpoint at %v s: ", v.epoch)
	if v.missing == 0 {
		return text + "it is being written to the store"
	}
	var names []string
	for w := range v.parts {
		if !v.parts[w].last {
			names = append(names, fmt.Sprint(w))
		}
	}
	return text + "worker " + strings.Join(names, ", ") + " hasn't written its part"
}

// takeCommitted takes in what came of the newest checkpoint. last: the run ends with it before its horizon. An error is
// one that ends the run.
func (ws *workerSet) takeCommitted(last bool) error {
	k := &ws.checkpointing
	v := k.current
	if v == nil {
		return nil
	}
	k.current = nil
	if v.written != nil {
		k.last, k.tracedMark, k.traced, k.called = v.written, v.mark, v.written.trace, v.written.calls
		k.answered = v.written.answered
	}
	if v.err == nil {
		if k.store.recovered() {
			ws.launch.note(fmt.Sprintf("checkpoints are written again: the one at %v s is there", v.epoch))
		}
		return nil
	}
	var conflict *checkpoint.ConflictError
	if errors.As(v.err, &conflict) {
		return fmt.Errorf("launch: %w", v.err)
	}
	if ws.launch.cfg.Replay != nil {
		return ws.launch.statesUnwritten(v)
	}
	first, last := k.store.failed(v) || last, last || errors.Is(v.err, errStoreHangs)
	var damaged *checkpoint.DamagedError
	if errors.As(v.err, &damaged) {
		k.last = nil // what was to be kept isn't there: the next one has all of it anew
	}
	switch {
	case last && v.written == nil && k.last != nil:
		ws.launch.note(fmt.Sprintf("the run ends without its checkpoint at %v s: %v; the one at %v s stays", v.epoch,
			v.err, k.last.epoch))
	case last && v.written == nil:
		ws.launch.note(fmt.Sprintf("the run ends without its checkpoint at %v s: %v", v.epoch, v.err))
	case !first: // a store that is full stays so for long: the report has how many weren't written
	case v.written != nil:
		ws.launch.note(fmt.Sprintf("the checkpoint at %v s is there, but: %v", v.epoch, v.err))
	default:
		ws.launch.note(fmt.Sprintf("the checkpoint at %v s couldn't be written: %v; %s, and the run goes on", v.epoch,
			v.err, k.stays(damaged != nil)))
	}
	return nil
}

// stays says what there is behind a checkpoint that couldn't be written; damaged: the one before it isn't whole.
func (k *checkpointing) stays(damaged bool) string {
	switch {
	case damaged:
		return "`checkpoints verify` says which are whole"
	case k.last != nil:
		return fmt.Sprintf("the one at %v s stays", k.last.epoch)
	case k.base != nil:
		return fmt.Sprintf("the one at %v s, with which the replication began, stays", k.base.Epoch)
	}
	return "there is none of this replication yet"
}

// endCheckpoints waits for the newest checkpoint of a replication that has ended, and saves its end.
func (ws *workerSet) endCheckpoints(ctx context.Context, res *result) error {
	if ws.launch.cfg.Checkpoint == nil || ws.launch.cfg.Replay != nil {
		return nil
	}
	if err := ws.awaitCheckpoint(ctx); err != nil {
		return err
	}
	if err := ws.takeCommitted(res.Interrupted); err != nil || res.Interrupted {
		return err
	}
	if err := ws.saveEnd(ctx, res); err != nil {
		ws.checkpointing.store.count(func(c *Checkpoints) {
			c.Failed, c.EndsLost, c.Lost = c.Failed+1, c.EndsLost+1, cmp.Or(c.Lost, err)
		})
		ws.launch.note(fmt.Sprintf("the end of replication %d couldn't be saved: %v", res.Index, err))
	}
	res.hashes = nil
	return nil
}

// saveEnd saves the end of a replication. Where the run is to end, a store that takes too long isn't waited for, as in
// awaitCheckpoint.
func (ws *workerSet) saveEnd(ctx context.Context, res *result) error {
	s := ws.supervisor
	ctx, abandon := context.WithCancelCause(ctx)
	defer abandon(nil)
	saved := make(chan error, 1)
	go func() { saved <- ws.finish(ctx, res) }()
	long := time.NewTicker(slowCheckpoint)
	defer long.Stop()
	var late <-chan time.Time
	if s.stopping {
		late = time.After(lastCheckpoint)
	}
	for {
		select {
		case <-s.stop:
			s.stop, s.stopping = nil, true
			late = time.After(lastCheckpoint)
		case <-late:
			abandon(errStoreHangs)
		case err := <-saved:
			if err != nil && context.Cause(ctx) == errStoreHangs {
				err = errStoreHangs
			}
			return err
		case <-long.C:
			ws.launch.note(fmt.Sprintf("the run waits for the end of replication %d: it is being written to the store",
				res.Index))
		}
	}
}

func (s *store) skip()                { s.count(func(c *Checkpoints) { c.Skipped++ }) }
func (s *store) held(d time.Duration) { s.count(func(c *Checkpoints) { c.Held += d.Seconds() }) }
func (s *store) paused(d time.Duration) {
	s.count(func(c *Checkpoints) { c.Pause, c.PauseMost = c.Pause+d.Seconds(), max(c.PauseMost, d.Seconds()) })
}

// How bad it is with the last checkpoints.
const (
	wellWritten = iota
	writtenBut  // each is there, but something behind it went wrong
	notWritten  // one isn't there
)

// failed counts a checkpoint at which something went wrong, and reports whether nothing as bad had at those before.
func (s *store) failed(v *saving) (first bool) {
	s.count(func(c *Checkpoints) {
		worse := writtenBut
		if v.written == nil {
			c.Failed++
			if large := (*checkpoint.TooLargeError)(nil); errors.As(v.err, &large) {
				c.TooLarge++
			}
			worse = notWritten
		}
		first, s.failing = worse > s.failing, max(worse, s.failing)
	})
	return first
}

// recovered is for a checkpoint at which nothing went wrong, and reports whether something had at the one before.
func (s *store) recovered() (changed bool) {
	s.count(func(*Checkpoints) { changed, s.failing = s.failing > wellWritten, wellWritten })
	return changed
}

// numbers is what came of the checkpoints so far; nil: none were asked for.
func (s *store) numbers() *Checkpoints {
	if s == nil || s.cfg == nil {
		return nil
	}
	s.counts.Lock()
	defer s.counts.Unlock()
	done := s.done
	return &done
}

// count changes the numbers.
func (s *store) count(change func(*Checkpoints)) {
	s.counts.Lock()
	defer s.counts.Unlock()
	change(&s.done)
}
