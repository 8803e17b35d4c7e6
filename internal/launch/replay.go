// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"

	"github.com/disco-sim/disco/internal/calls"
	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/nodediff"
	"github.com/disco-sim/disco/internal/tracefile"
	"github.com/disco-sim/disco/node"
)

// Replay has a run compared with one that is recorded, leg by leg: the journals of activations, and where the recorded
// run has a checkpoint the state of each node, and at the end of a replication what handlers have reported. The run
// begins with checkpoints of that one (Config.Resume) or at its begin, and ends where the journal ends. Prepare fills
// in what isn't exported; it is used once.
type Replay struct {
	// Repo is where the recorded run is. It is only read.
	Repo *checkpoint.Repo

	// To are by replication the checkpoint, or the end, whose journal is compared; nil: it isn't simulated.
	To []*checkpoint.Manifest

	// States are by replication the checkpoints whose states are compared, behind what it begins with, rising. Where
	// there are any, Config.Checkpoint is where the replay's own go meanwhile.
	States [][]*checkpoint.Manifest

	// Until ends each replication there; 0: where its journal ends.
	Until float64

	// SaveAt, > 0, has the state there saved in Config.Checkpoint, and nothing be compared.
	SaveAt float64

	launch  *Launch
	before  uint64     // calls before the run's begin, which aren't recorded
	levels  []uint32   // by simproc
	mu      sync.Mutex // guards the rest
	at      []*journalPart
	found   map[int]*Unequal
	calls   uint64 // that were compared
	states  uint64
	done    int // replications
	results int // … of which there were results to compare
}

// Unequal is the first difference that a replay has found in a replication.
type Unequal struct {
	Replication int
	Until       float64      // end of the leg in which it is
	Calls       *calls.Found // nil: all calls are equal
	States      *nodediff.Difference
	Recorded    *checkpoint.Manifest // whose states differ
	TraceHash   *[2]string           // at the end of the replication, as recorded and in the replay; nil: equal
	Reports     *UnequalReports      // the same of its results
}

// Replayed is what a replay has come to.
type Replayed struct {
	Calls, States uint64 // that were compared: calls of handlers, states of nodes
	Done          int    // replications that were compared up to where they were to be
	Results       int    // … whose results were compared: they have ended, as the recorded ones
	First         *Unequal
}

// Replayed says what was compared, behind Run.
func (p *Replay) Replayed() Replayed {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Replayed{p.calls, p.states, p.done, p.results, p.first()}
}

// first is the difference in the first replication that has one. mu is held.
func (p *Replay) first() (first *Unequal) {
	for _, u := range p.found {
		if first == nil || u.Replication < first.Replication {
			first = u
		}
	}
	return first
}

// journalPart is how far the journal of a replication is read.
type journalPart struct {
	chunks   []checkpoint.Chunk // of hashes, that are left, rising
	layouts  map[checkpoint.Digest]*checkpoint.Chunk
	ends     []float64        // of legs
	over     map[float64]bool // where a recorded leg ends, as far as that is known beforehand
	begin    float64          // where the comparison begins
	calls    uint64           // that are to be compared, but for those behind Replay.Until
	comparer *calls.Comparer
}

// legCalls is about how many calls a leg of a replay has, which bounds the memory of a comparison.
const legCalls = 4 << 20

// errLeft ends a replication that is of no more interest, not the run.
var errLeft = errors.New("launch: a replication was compared as far as it was recorded")

// setLevels keeps the levels of simprocs, which the launcher forgets when workers have them.
func (p *Replay) setLevels(g *node.Structure) {
	for id := range g.NumSimprocs() {
		p.levels = append(p.levels, g.Level(node.SimprocID(id)))
	}
}

// prepare reads which chunks there are. A nil Replay has none.
func (p *Replay) prepare(ctx context.Context, l *Launch) error {
	if p == nil {
		return nil
	}
	p.launch, p.found = l, map[int]*Unequal{}
	var err error
	if p.before, err = callsBefore(ctx, p.Repo); err != nil {
		return fmt.Errorf("launch: replay: %w", err)
	}
	for r := range p.To {
		rec := &journalPart{}
		p.at = append(p.at, rec)
		if p.To[r] == nil {
			continue
		}
		if err := p.readChunks(ctx, r, rec); err != nil {
			return fmt.Errorf("launch: replay: %w", err)
		}
		p.endsOf(r, rec)
		rec.comparer = &calls.Comparer{Simprocs: int(p.Repo.Run().Simprocs),
			Level:  func(id uint32) uint32 { return p.levels[id] },
			Layout: func(d [32]byte) (*calls.Layout, error) { return p.readLayout(ctx, r, d) }}
	}
	return nil
}

// readChunks fills in which chunks of a replication's journal are compared: those behind the checkpoint with which it
// begins, whose journal is the begin of it (BeginOf).
func (p *Replay) readChunks(ctx context.Context, r int, rec *journalPart) error {
	to, base := p.To[r], p.launch.cfg.Resume.from(r)
	j, err := p.journal(ctx, r)
	if err != nil {
		return err
	}
	skip := map[checkpoint.Digest]bool{}
	if base != nil {
		rec.begin = base.Epoch
		before, ok, err := j.beginsWith(ctx, p.Repo, base)
		if err == nil && !ok {
			err = fmt.Errorf("%v: found a journal that goes through the checkpoint at %v without an end of a leg, "+
				"want another one to begin with", p.Repo, base.Epoch)
		}
		if err != nil {
			return err
		}
		for i := range before {
			skip[before[i].Digest] = true
		}
	}
	sum := uint64(0)
	rec.layouts, rec.over = map[checkpoint.Digest]*checkpoint.Chunk{}, map[float64]bool{}
	for i := range j.list {
		c := &j.list[i]
		switch _, ok := calls.Count(c.Raw); {
		case c.Kind == checkpoint.Layout:
			rec.layouts[c.Digest] = c
		case !ok:
			return &checkpoint.DamagedError{Where: p.Repo.String(), Name: to.Point().String(), Chunk: c,
				Err: fmt.Errorf("found %d bytes, which are no calls", c.Raw)}
		case !skip[c.Digest]:
			rec.chunks, rec.calls = append(rec.chunks, *c), rec.calls+callsIn(c)
		}
		sum += callsIn(c)
	}
	if want := to.Activations - p.before; sum != want {
		return &checkpoint.DamagedError{Where: p.Repo.String(), Name: to.Point().String(),
			Err: fmt.Errorf("found a journal of %d calls, want %d: sections of it are missing", sum, want)}
	}
	for _, m := range p.statesOf(r) {
		_, ok, err := j.beginsWith(ctx, p.Repo, m)
		if err != nil {
			return err
		}
		rec.over[m.Epoch] = ok
	}
	return nil
}

// journal is all that is recorded of a replication.
type journal struct {
	list []checkpoint.Chunk
	has  map[checkpoint.Digest]bool
}

func (p *Replay) journal(ctx context.Context, r int) (*journal, error) {
	list, err := journalOf(ctx, p.Repo, p.To[r])
	j := &journal{list, map[checkpoint.Digest]bool{}}
	for i := range list {
		j.has[list[i].Digest] = true
	}
	return j, err
}

// beginsWith gives the journal of a checkpoint, and reports whether it is the begin of this one: then a leg has ended
// there. It isn't where the run has gone back before that checkpoint, and on without it.
func (j *journal) beginsWith(ctx context.Context, repo *checkpoint.Repo, m *checkpoint.Manifest) (
	before []checkpoint.Chunk, ok bool, err error) {
	before, err = journalOf(ctx, repo, m)
	return before, !slices.ContainsFunc(before, func(c checkpoint.Chunk) bool { return !j.has[c.Digest] }), err
}

// BeginOf is what replication r can begin with, where checkpoint m is asked for: that, or, where the journal goes
// through it without an end of a leg, the latest one before it at which one ends; nil: there is none.
func (p *Replay) BeginOf(ctx context.Context, r int, m *checkpoint.Manifest) (*checkpoint.Manifest, error) {
	j, err := p.journal(ctx, r)
	if err != nil {
		return nil, err
	}
	if _, ok, err := j.beginsWith(ctx, p.Repo, m); ok || err != nil {
		return m, err
	}
	points, err := p.Repo.Points(ctx)
	if err != nil {
		return nil, err
	}
	for _, at := range slices.Backward(points) {
		if at.Finished || at.Replication != r || at.Epoch >= m.Epoch {
			continue
		}
		before, err := p.Repo.Load(ctx, at)
		var missing *checkpoint.MissingError
		if errors.As(err, &missing) {
			continue // pruned meanwhile
		}
		if err != nil {
			return nil, err
		}
		if _, ok, err := j.beginsWith(ctx, p.Repo, before); ok || err != nil {
			return before, err
		}
	}
	return nil, nil
}

// endsOf fills in where the legs of a replication end.
func (p *Replay) endsOf(r int, rec *journalPart) {
	end := p.end(r)
	count := int64(0)
	for i := range rec.chunks {
		n := int64(callsIn(&rec.chunks[i]))
		if count+n > legCalls && rec.chunks[i].From > rec.begin {
			rec.ends = append(rec.ends, rec.chunks[i].From)
			count = 0
		}
		count += n
	}
	for _, m := range p.statesOf(r) {
		rec.ends = append(rec.ends, m.Epoch)
	}
	rec.ends = append(rec.ends, end)
	if p.SaveAt > 0 {
		rec.ends = append(rec.ends, p.SaveAt)
	}
	slices.Sort(rec.ends)
	rec.ends = slices.DeleteFunc(slices.Compact(rec.ends), func(e float64) bool { return e > end || e <= rec.begin })
}

// end is where a replication ends; +Inf: at the horizon.
func (p *Replay) end(r int) float64 {
	end := math.Inf(1)
	if to := p.To[r]; !to.Finished {
		end = to.Epoch
	}
	if p.Until > 0 {
		end = min(end, p.Until)
	}
	return end
}

func (p *Replay) statesOf(r int) []*checkpoint.Manifest {
	if r < len(p.States) {
		return p.States[r]
	}
	return nil
}

// next is Legs.Next.
func (p *Replay) next(r int, epoch float64) float64 {
	for _, end := range p.at[r].ends {
		if end > epoch {
			return end
		}
	}
	return math.Inf(1)
}

// recordedAt is the checkpoint whose states are to be compared at an epoch; nil: none.
func (p *Replay) recordedAt(r int, epoch float64) *checkpoint.Manifest {
	for _, m := range p.statesOf(r) {
		if m.Epoch == epoch {
			return m
		}
	}
	return nil
}

// saves reports whether the run is to be saved at an epoch at which a leg has ended. A run that isn't a replay is.
func (p *Replay) saves(r int, epoch float64) bool {
	return p == nil || p.recordedAt(r, epoch) != nil || epoch == p.SaveAt
}

// leaves reports whether a replication needn't be simulated further. A nil Replay leaves none.
func (p *Replay) leaves(r int) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	first := p.first()
	return p.To[r] == nil || first != nil && first.Replication <= r
}

// compareLeg compares a leg that has ended at until, +Inf for the end of the replication, with what was recorded;
// errLeft: the replication needn't go on.
func (ws *workerSet) compareLeg(ctx context.Context, r int, until float64) error {
	p, k := ws.launch.cfg.Replay, &ws.checkpointing
	mark, err := ws.trace.Mark()
	if err != nil {
		return err
	}
	section := ws.trace.Section(k.comparedMark, mark)
	k.comparedMark = mark
	if p.SaveAt == 0 {
		p.mu.Lock()
		err = p.compare(ctx, r, until, &section)
		p.mu.Unlock()
	}
	if err == nil && p.recordedAt(r, until) != nil && !p.leaves(r) {
		err = p.compareStates(ctx, r, until)
	}
	if err != nil {
		return fmt.Errorf("launch: replay: %w", err)
	}
	done := until >= p.end(r)
	if done && !p.leaves(r) {
		p.mu.Lock()
		p.done++
		p.mu.Unlock()
	}
	if done || p.leaves(r) || ws.supervisor.stopping {
		return errLeft
	}
	return nil
}

// compare compares the calls of a leg. mu is held.
func (p *Replay) compare(ctx context.Context, r int, until float64, section *tracefile.Section) error {
	rec := p.at[r]
	now, err := readCalls(section, calls.Limits{Simprocs: int(p.Repo.Run().Simprocs), From: rec.begin, Until: until})
	if err != nil {
		return err
	}
	if err := p.recordUntil(ctx, r, until); err != nil {
		return err
	}
	whole := math.Inf(1)
	if to := p.To[r]; !to.Finished {
		whole = to.Epoch
	}
	found, n, err := rec.comparer.Compare(now, until, rec.over[until] || until >= whole)
	if err != nil {
		return fmt.Errorf("%v: %w", p.Repo, err)
	}
	if p.calls += n; found != nil {
		p.found[r] = &Unequal{Replication: r, Until: until, Calls: found}
	}
	return nil
}

// recordUntil gives the comparer the recorded chunks of a replication with a call before until, which it hasn't yet.
func (p *Replay) recordUntil(ctx context.Context, r int, until float64) error {
	rec := p.at[r]
	for len(rec.chunks) > 0 && rec.chunks[0].From < until {
		c := &rec.chunks[0]
		rec.chunks = rec.chunks[1:]
		data, err := p.read(ctx, p.To[r], c, nil)
		if err != nil {
			return err
		}
		chunk, err := calls.Decode(data)
		if err == nil && !(chunk.Begin >= rec.begin && chunk.Begin <= c.From) {
			err = fmt.Errorf("found a leg that begins at %v, want %v to %v", chunk.Begin, rec.begin, c.From)
		}
		if err == nil {
			err = rec.comparer.Add(chunk)
		}
		var damaged *checkpoint.DamagedError
		if err != nil && !errors.As(err, &damaged) {
			err = &checkpoint.DamagedError{Where: p.Repo.String(), Name: c.Pack.Digest.String(), Chunk: c, Err: err}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readLayout reads a layout of the recorded run.
func (p *Replay) readLayout(ctx context.Context, r int, d checkpoint.Digest) (*calls.Layout, error) {
	c := p.at[r].layouts[d]
	if c == nil {
		return nil, fmt.Errorf("found no layout %v, to which the chunk refers", d)
	}
	data, err := p.read(ctx, p.To[r], c, nil)
	if err != nil {
		return nil, err
	}
	l, err := calls.DecodeLayout(data, int(p.Repo.Run().Simprocs))
	if err != nil {
		err = &checkpoint.DamagedError{Where: p.Repo.String(), Name: c.Pack.Digest.String(), Chunk: c, Err: err}
	}
	return l, err
}

// read reads a chunk of the recorded run. mu is held, which is enough where the run has no store; else sets may begin
// with checkpoints of the same Repo meanwhile.
func (p *Replay) read(ctx context.Context, m *checkpoint.Manifest, c *checkpoint.Chunk, buf []byte) ([]byte, error) {
	if st := p.launch.store; st != nil {
		st.mu.Lock()
		defer st.mu.Unlock()
	}
	return p.Repo.Read(ctx, m, *c, buf)
}

// readCalls reads the calls of a section.
func readCalls(section *tracefile.Section, limits calls.Limits) (list []calls.Call, err error) {
	var data []byte
	err = section.EachBlob(func(file *os.File, at int64, bytes int) error {
		data = slices.Grow(data[:0], bytes)[:bytes]
		if _, err := file.ReadAt(data, at); err != nil {
			return fmt.Errorf("calls: %d bytes at %d: %w", bytes, at, err)
		}
		list, err = calls.AppendWhole(list, data, limits)
		return err
	})
	return list, err
}

// compareStates compares the nodes' states, which the run has just saved.
func (p *Replay) compareStates(ctx context.Context, r int, epoch float64) error {
	was := p.recordedAt(r, epoch)
	d, err := p.statesDiffer(ctx, was)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.states += uint64(p.Repo.Run().Nodes); d.Nodes > 0 {
		p.found[r] = &Unequal{Replication: r, Until: epoch, States: d, Recorded: was}
	}
	return nil
}

// statesDiffer reads both sides. Other sets commit to one of the stores and begin with the other one meanwhile, so it
// holds what guards them. mu isn't held.
func (p *Replay) statesDiffer(ctx context.Context, was *checkpoint.Manifest) (*nodediff.Difference, error) {
	p.launch.store.mu.Lock()
	defer p.launch.store.mu.Unlock()
	repo := p.launch.cfg.Checkpoint.Repo
	is, err := repo.Load(ctx, was.Point())
	if err != nil {
		return nil, err
	}
	return nodediff.Compare(ctx, nodediff.Side{Repo: p.Repo, Manifest: was}, nodediff.Side{Repo: repo, Manifest: is},
		statesShown)
}

// statesShown is how many nodes are kept of those whose states differ.
const statesShown = 5

// left is the result of a replication that wasn't simulated to its end.
func (ws *workerSet) left(r int) error {
	mark, err := ws.trace.Mark()
	if err != nil {
		return err
	}
	ws.schedule.add(&result{left: true, Replication: Replication{Index: r}, trace: tracefile.Replication{Index: r,
		Section: ws.trace.Section(ws.traceBegan, mark), Reached: math.Inf(1)}})
	ws.traceBegan = mark
	return nil
}

// SavesStates reports whether the run needs a place for its own states.
func (p *Replay) SavesStates() bool {
	return p.SaveAt > 0 || slices.ContainsFunc(p.States, func(l []*checkpoint.Manifest) bool { return len(l) > 0 })
}
