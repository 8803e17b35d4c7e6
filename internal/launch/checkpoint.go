// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint"
)

// Checkpoint is which checkpoints a run makes, and where (docs/checkpoints.md).
type Checkpoint struct {
	// Repo is where they go. The caller has locked it, and closes it behind Run; meanwhile it is the run's. It may be
	// set behind Prepare, which says what its run.json is to have.
	Repo *checkpoint.Repo

	// When: at all multiples of so many simulated seconds (0: none); at simulated times of their own, rising; so much
	// time after the last one (0: none); whenever Now gives a value, as soon as that can be (nil: never).
	Every float64
	At    []LabelledEpoch
	Wall  time.Duration
	Now   <-chan struct{}

	// EndsOnly has the ends of replications be saved, and nothing else: no checkpoint is made, so handlers needn't be
	// node.Savers. What hasn't ended begins anew.
	EndsOnly bool

	Keep    int    // how many of each replication stay, beside those with a label: 1 or more
	TempDir string // for what workers write on the way; it has room for one checkpoint
}

// LabelledEpoch is a simulated time at which a checkpoint is to be made.
type LabelledEpoch struct {
	Epoch float64
	Label string // "": none
}

// Checkpoints is what came of them.
type Checkpoints struct {
	Made       int     // that are safe
	Failed     int     // that were made, and couldn't be written, and EndsLost
	TooLarge   int     // of them: they would have written more than they may
	EndsLost   int     // ends of replications that couldn't be saved
	Lost       error   // why the first of them couldn't
	Skipped    int     // that weren't made, because the one before was still being written
	Last       float64 // epoch of the last safe one
	Pause      float64 // seconds during which all workers stood still, in all
	PauseMost  float64
	Held       float64 // seconds for which labelled ones waited for the one before, in all
	BytesRaw   int64   // of the last one
	BytesSaved int64   // of what was written for the last one
}

// next is the end of the leg that begins at an epoch.
func (c *Checkpoint) next(_ int, epoch float64) float64 {
	until := math.Inf(1)
	if c.Every > 0 {
		until = multipleBehind(epoch, c.Every)
	}
	for _, at := range c.At {
		if at.Epoch > epoch {
			return min(until, at.Epoch)
		}
	}
	return until
}

// saves tells whether the run makes checkpoints, and not only saves the ends of replications.
func (cfg *Config) saves() bool { return cfg.Checkpoint != nil && !cfg.Checkpoint.EndsOnly }

// labels are those of an epoch.
func (c *Checkpoint) labels(epoch float64) (labels []string) {
	for _, at := range c.At {
		if at.Epoch == epoch && at.Label != "" {
			labels = append(labels, at.Label)
		}
	}
	return labels
}

// asked reports whether a checkpoint at an epoch was asked for by that epoch, and may not be left out.
func (c *Checkpoint) asked(epoch float64) bool {
	for _, at := range c.At {
		if at.Epoch == epoch {
			return true
		}
	}
	return false
}

// store is a Repo that several goroutines use, one at a time, and what was done there.
type store struct {
	cfg *Checkpoint // nil: none are made
	dir string      // for temporary files

	before uint64 // calls before the begin of a run of other settings, in each replication (callsBefore)

	mu     sync.Mutex // guards the next two, also while the repo is used for long
	repo   *checkpoint.Repo
	newest map[int]checkpoint.Point // by replication: what this run has written last

	wanted  atomic.Bool  // a leg was ended for a checkpoint because it was time for one
	asked   atomic.Bool  // somebody has asked for one that hasn't begun (Checkpoint.Now)
	writing atomic.Int32 // checkpoints that have begun and aren't written, in all worker sets

	counts  sync.Mutex // guards the rest
	begun   []*saving  // those of writing, the oldest first
	done    Checkpoints
	savedAt map[int]time.Time // by replication: when the last one that is safe was made
	failing int               // how bad it is with the last ones (wellWritten, …), which was said
}

// newStore is the one of a run, nil where it has none.
func newStore(cfg *Config) *store {
	switch {
	case cfg.Checkpoint != nil:
		return &store{cfg: cfg.Checkpoint, repo: cfg.Checkpoint.Repo, savedAt: map[int]time.Time{},
			newest: map[int]checkpoint.Point{},
			dir:    cmp.Or(cfg.Checkpoint.TempDir, os.TempDir())}
	case cfg.Resume != nil:
		return &store{repo: cfg.Resume.Repo, dir: os.TempDir()}
	}
	return nil
}

// openStore begins to use the run's checkpoints, if it has any.
func (l *Launch) openStore(ctx context.Context) (err error) {
	if l.store = newStore(&l.cfg); l.store == nil {
		return nil
	}
	if l.store.before, err = callsBefore(ctx, l.store.repo); err != nil {
		return fmt.Errorf("launch: %w", err)
	}
	return nil
}

// groupNodes is Setup.GroupNodes.
func (l *Launch) groupNodes() int {
	if l.store == nil || l.store.endsOnly() {
		return 0
	}
	return int(l.store.repo.Run().GroupNodes)
}

// askAgain is after how long a leg is to end again for a checkpoint that somebody has asked for.
const askAgain = 20 * time.Millisecond

// begin records that a checkpoint has begun. Its over undoes that.
func (s *store) begin(v *saving) {
	s.writing.Add(1)
	s.count(func(*Checkpoints) { s.begun = append(s.begun, v) })
	v.over = sync.OnceFunc(func() {
		s.count(func(*Checkpoints) { s.begun = slices.DeleteFunc(s.begun, func(b *saving) bool { return b == v }) })
		s.writing.Add(-1)
	})
}

// slowest is the oldest checkpoint that has begun and isn't written; nil: there is none.
func (s *store) slowest() (v *saving) {
	s.count(func(*Checkpoints) {
		if len(s.begun) > 0 {
			v = s.begun[0]
		}
	})
	return v
}

// watch notes, until ctx ends, a checkpoint that isn't written after a time, and again each time that this has doubled:
// further ones, also one that somebody asks for, wait for it or are left out.
func (s *store) watch(ctx context.Context, slow time.Duration, note func(string)) {
	look := time.NewTicker(slow / 10)
	defer look.Stop()
	var last *saving
	next := slow
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		v := s.slowest()
		if v != last {
			last, next = v, slow
		}
		if v == nil || time.Since(v.began) < next {
			continue
		}
		note(fmt.Sprintf("the checkpoint at %v s isn't written after %v: the store is slow or hangs. The run goes on; "+
			"further checkpoints wait for this one or are left out", v.epoch, next))
		next *= 2
	}
}

// wallClock ends legs when it is time for a checkpoint, until ctx ends. Between two legs EndNow does nothing, and while
// the last checkpoint is being written none begins, so what somebody asks for there is asked again until one begins.
// What is due by time is not: where checkpoints take longer than that, the run would do nothing else.
func (s *store) wallClock(ctx context.Context, legs *Legs) {
	var tick <-chan time.Time
	if s.cfg.Wall > 0 {
		ticker := time.NewTicker(s.cfg.Wall)
		defer ticker.Stop()
		tick = ticker.C
	}
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
			s.wanted.Store(true)
			legs.EndNow()
			continue
		case <-s.cfg.Now:
			s.asked.Store(true)
		case <-again:
		}
		if again = nil; s.asked.Load() {
			again = time.After(askAgain)
			if s.writing.Load() == 0 {
				legs.EndNow()
			}
		}
	}
}

// chunkName is what a chunk of a checkpoint is found by in the next one.
type chunkName struct {
	kind   checkpoint.Kind
	first  uint32
	digest checkpoint.Digest
}

func nameOf(c *checkpoint.Chunk) chunkName { return chunkName{c.Kind, c.First, c.Digest} }

// written is a checkpoint that is safe: where its chunks are.
type written struct {
	epoch    float64
	chunks   map[chunkName]checkpoint.Chunk // of nodes
	trace    []checkpoint.Chunk             // and of rows
	calls    []checkpoint.Chunk
	answered []checkpoint.Chunk
}

// commit writes what workers have stored as a checkpoint, names it and prunes others. before is the one whose chunks
// may be kept; nil: none.
func (s *store) commit(ctx context.Context, v *saving, before *written) (*written, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	draft := s.repo.Begin()
	m := &checkpoint.Manifest{Replication: v.replication, Epoch: v.epoch, Events: v.events,
		Activations: v.activations, Wall: v.wall()}
	hash, err := v.hashes.traceHash()
	if err != nil {
		return nil, err
	}
	copy(m.TraceHash[:], hash)
	for w := range v.parts {
		if err := v.parts[w].addTo(draft, before); err != nil {
			return nil, fmt.Errorf("worker %d: %w", w, err)
		}
	}
	done, err := s.addTrace(ctx, draft, v.traced, &v.section)
	defer done()
	if err := cmp.Or(err, s.addCalls(draft, v.called, &v.section, m.Activations)); err != nil {
		return nil, err
	}
	done, err = s.addAnswers(ctx, draft, v.answered, v.answers)
	defer done()
	if err != nil {
		return nil, err
	}
	if err := draft.Commit(ctx, m); err != nil {
		return nil, err
	}
	s.count(func(c *Checkpoints) {
		c.Made, c.Last, c.BytesRaw, c.BytesSaved = c.Made+1, v.epoch, m.Wall.Raw, m.Wall.New
		s.savedAt[v.replication] = v.began
	})
	now := &written{epoch: v.epoch, chunks: map[chunkName]checkpoint.Chunk{}}
	err = s.repo.Chunks(ctx, m, func(c checkpoint.Chunk) error {
		now.chunks[nameOf(&c)] = c
		return nil
	})
	if err == nil {
		now.trace, err = tracedChunks(ctx, s.repo, m)
	}
	if err == nil && v.answers != nil {
		now.answered, err = chunksOf(ctx, s.repo, m, checkpoint.Externals)
		err = errors.Join(err, v.kept.Committed(ctx, v.replication, v.epoch))
	}
	if err == nil {
		now.calls, err = journalOf(ctx, s.repo, m)
	}
	for _, label := range s.cfg.labels(v.epoch) {
		err = errors.Join(err, s.repo.Label(ctx, m, label))
	}
	if err == nil {
		// A run that goes on from an older one makes those that were behind it again: the next one is based on what it
		// has written last, which isn't the newest then.
		s.newest[v.replication] = m.Point()
		_, err = s.repo.Prune(ctx, s.cfg.Keep, slices.Collect(maps.Values(s.newest))...)
	}
	return now, err
}
