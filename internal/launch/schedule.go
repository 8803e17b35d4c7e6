// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"sync"
	"time"

	"github.com/disco-sim/disco/internal/tracefile"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/scenario"
)

// schedule is what all worker sets of a run share: which replications are still to be
// simulated, the results of the others, and how far those are that are under way. The
// goroutine of every worker set uses it.
type schedule struct {
	horizon     float64
	show        func(Progress)
	saved       func() *Checkpoints // so far; nil: there are none
	showPeriod  time.Duration       // least time between two calls of show
	began       time.Time
	accumulator scenario.Accumulator // used by merge, and when that has returned
	each        func(scenario.Replication) error
	gatherer    scenario.Gatherer // the same, where it takes reports as they come; else nil
	enough      func() bool       // see Config.Enough
	window      int               // most replications that are begun and not merged
	enoughCh    chan struct{}     // closed when there are enough of them

	from      int           // first replication that is wanted
	mu        sync.Mutex    // guards the rest
	total     int           // one more than the last replication that is wanted
	changed   sync.Cond     // of what merge waits for
	next      int           // replication that is begun next
	merged    int           // replications below it are merged, or will have no result
	mergedCh  chan struct{} // closed when merged has risen, and made anew
	closed    bool          // there will be no more results
	discarded bool          // the run has failed: results are no longer merged
	results   []*result     // by index; nil: none (yet)
	gathered  []gathered    // in the order of replications
	count     int           // of results
	events    uint64        // of results
	active    int           // replications under way
	since     time.Time     // when the first of them began
	first     time.Time     // when the first of all began; zero: none has
	wall      time.Duration // during which at least one was under way
	sets      []setProgress // by worker set
	shown     time.Time
}

// windowOfSet is how many replications for each worker set may be begun and not merged. They
// are merged in the order of their indices, so when one takes longer than others the
// reports of those wait, in memory; with a full window worker sets wait too.
const windowOfSet = 8

// result is what one replication gave.
type result struct {
	Replication
	hash   []byte
	hashes []uint64 // by simproc; nil once they are saved
	parts  [][]byte // reports by simproc; nil once they are merged
	trace  tracefile.Replication
	left   bool // nothing else is known: it wasn't simulated to its end
}

// gathered is some of a replication's reports.
type gathered struct {
	replication scenario.Replication
	results     *worker.Results
}

// setProgress is how far a worker set is.
type setProgress struct {
	replication int
	active      bool
	now         float64
	events      uint64
	waits       Waits
}

func newSchedule(l *Launch) *schedule {
	first, beyond := l.cfg.span()
	s := &schedule{
		from: first, next: first, merged: first, total: beyond, horizon: l.scenario.Horizon(), show: l.cfg.Progress,
		saved:      func() *Checkpoints { return l.store.numbers() },
		showPeriod: l.timeouts.progress * 9 / 10, began: time.Now(),
		accumulator: l.scenario.Accumulate(), window: windowOfSet * l.sets, mergedCh: make(chan struct{}),
		results: make([]*result, beyond), sets: make([]setProgress, l.sets),
		enough: l.cfg.Enough, enoughCh: make(chan struct{}),
	}
	if s.enough != nil && l.sets == 1 {
		s.window = 1 // merging takes no time beside simulating what isn't wanted
	}
	s.changed.L = &s.mu
	// Where replications end in their order. Reports of one that may be begun again, or is compared with another, are
	// kept until it has ended.
	if s.each = l.cfg.Each; s.each == nil && s.enough == nil && l.sets == 1 && l.cfg.Checkpoint == nil &&
		l.cfg.Resume == nil && l.cfg.Replay == nil && (l.cfg.SoFar == nil || l.cfg.Replications == 1) {
		s.gatherer, _ = s.accumulator.(scenario.Gatherer)
	}
	return s
}

// take gives a worker set the next replication to simulate; false when none is left. While
// the window is full there is none either: later is closed when it is worth asking again.
// That always happens: the replication that all wait for is under way in another worker set,
// or is about to be merged; or the run ends.
func (s *schedule) take() (index int, ok bool, later <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.next >= s.total:
		return 0, false, nil
	case s.next >= s.merged+s.window:
		return 0, false, s.mergedCh
	}
	index = s.next
	s.next++
	s.skipDone()
	return index, true, nil
}

// skipDone passes over replications whose results are there: an earlier run has simulated them. mu is held.
func (s *schedule) skipDone() {
	for s.next < s.total && s.results[s.next] != nil {
		s.next++
	}
}

// load takes the results of replications that an earlier run has simulated, before any other is taken.
func (s *schedule) load(results []*result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range results {
		s.results[r.Index] = r
		s.count++
		s.events += r.Events
	}
	s.skipDone()
	s.changed.Signal()
}

// exhausted reports whether all replications have been taken.
func (s *schedule) exhausted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next >= s.total
}

// taken is how many replications have been taken so far.
func (s *schedule) taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

// begin records that a worker set begins to simulate.
func (s *schedule) begin(set, index int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active == 0 {
		s.since = time.Now()
	}
	if s.first.IsZero() {
		s.first = s.since
	}
	s.active++
	s.sets[set] = setProgress{replication: index, active: true}
}

// end records that a worker set has stopped simulating.
func (s *schedule) end(set int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sets[set].active = false
	if s.active--; s.active == 0 {
		s.wall += time.Since(s.since)
	}
}

// add records the result of a replication, unless there are enough before it.
func (s *schedule) add(r *result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Index >= s.total {
		return
	}
	s.results[r.Index] = r
	s.count++
	s.events += r.Events
	s.changed.Signal()
}

// gather hands over some of the reports of a replication that ends at end, or at the horizon. All before it have been
// handed over.
func (s *schedule) gather(index int, end float64, results *worker.Results) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rep := scenario.Replication{Index: index, Horizon: s.horizon, Reached: min(end, s.horizon)}
	s.gathered = append(s.gathered, gathered{rep, results})
	s.changed.Signal()
}

// close ends merge: there will be no more results. discard says that those that are left are
// of no use.
func (s *schedule) close(discard bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.discarded = true, discard
	s.changed.Signal()
}

// merge accumulates results in the order of their indices, until close; then those that are
// left, behind one that was interrupted. It frees their reports. Where there are enough it ends.
func (s *schedule) merge() error {
	s.reserve()
	begun := -1 // the replication that the gatherer is at
	begin := func(rep scenario.Replication) {
		if s.gatherer != nil && begun < rep.Index {
			begun = rep.Index
			s.gatherer.Begin(rep)
		}
	}
	for parts, r := s.awaitNext(); parts != nil || r != nil; parts, r = s.awaitNext() {
		for _, p := range parts {
			begin(p.replication)
			if err := s.takeEach(p.results); err != nil {
				return err
			}
		}
		if r == nil {
			continue
		}
		rep := scenario.Replication{Index: r.Index, Horizon: s.horizon, Reached: r.Reached}
		begin(rep)
		rep.Reports = r.parts
		if !r.left {
			if s.each != nil {
				if err := s.each(rep); err != nil {
					return err
				}
			}
			if err := s.accumulator.Add(rep); err != nil {
				return err
			}
		}
		r.parts = nil
		if s.passed(r.Index+1, s.enough != nil && !r.left && !r.Interrupted && s.enough()) {
			break
		}
	}
	return nil
}

// passed records how many replications are merged, and whether these are enough, and drops the others then.
func (s *schedule) passed(merged int, enough bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.merged = merged
	close(s.mergedCh)
	s.mergedCh = make(chan struct{})
	if enough {
		for _, r := range s.results[merged:] {
			if r != nil {
				s.count--
				s.events -= r.Events
			}
		}
		s.total, s.results = merged, s.results[:merged:merged]
		close(s.enoughCh)
	}
	return enough
}

// reserve has memory for results given as long as none are there.
func (s *schedule) reserve() {
	r, more := s.gatherer.(scenario.Reserver)
	for more && s.empty() {
		more = r.Reserve()
	}
}

// empty reports whether there is nothing to merge yet, and may be later.
func (s *schedule) empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed && s.count == 0 && len(s.gathered) == 0
}

// takeEach hands reports to the gatherer and releases their memory.
func (s *schedule) takeEach(p *worker.Results) error {
	defer p.Release()
	return p.Each(func(id uint32, _ uint64, report []byte) error {
		if report == nil {
			return nil
		}
		return s.gatherer.Take(int(id), report)
	})
}

// awaitNext waits for the result that is to be merged next, or for reports of it, which come first; neither: there is
// nothing more.
func (s *schedule) awaitNext() ([]gathered, *result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.discarded {
		r := s.nextResult()
		if parts := s.nextGathered(); len(parts) > 0 && (r == nil || parts[0].replication.Index <= r.Index) {
			s.gathered = s.gathered[len(parts):]
			return parts, nil
		}
		if r != nil || s.closed {
			return nil, r
		}
		s.changed.Wait()
	}
	return nil, nil
}

// nextResult is the result that is to be merged next; nil: it isn't there.
func (s *schedule) nextResult() *result {
	for i := s.merged; i < s.next; i++ {
		if s.results[i] != nil || !s.closed {
			return s.results[i]
		}
	}
	return nil
}

// nextGathered are the first reports that wait, of one replication.
func (s *schedule) nextGathered() []gathered {
	n := 0
	for n < len(s.gathered) && s.gathered[n].replication.Index == s.gathered[0].replication.Index {
		n++
	}
	return s.gathered[:n:n]
}

// update records how far a worker set is, and shows how far all are when it is time to.
func (s *schedule) update(set int, now float64, events uint64, waits Waits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sets[set].now, s.sets[set].events, s.sets[set].waits = now, events, waits
	if time.Since(s.shown) < s.showPeriod {
		return
	}
	s.shown = time.Now()
	p := Progress{
		Replication: s.total, Replications: s.total - s.from, Done: s.count, Horizon: s.horizon,
		Events: s.events, Elapsed: time.Since(s.began), Waits: Waits{On: -1},
	}
	if c := s.saved(); c != nil {
		p.Checkpoints = c.Made
	}
	share := float64(s.count)
	for i := range s.sets {
		v := &s.sets[i]
		if !v.active {
			continue
		}
		share += min(v.now/s.horizon, 1)
		p.Events += v.events
		p.Waits.add(&v.waits, len(s.sets) == 1)
		if v.replication < p.Replication {
			p.Replication, p.Now = v.replication, v.now
		}
	}
	p.Share, p.Simulated = share/float64(s.total-s.from), share*s.horizon
	s.show(p)
}

// add adds what another worker set does. Workers that are waited for have their numbers where there is one set.
func (w *Waits) add(o *Waits, only bool) {
	w.Workers, w.Peers, w.Lanes, w.Outside = w.Workers+o.Workers, w.Peers+o.Peers, w.Lanes+o.Lanes, w.Outside+o.Outside
	if only {
		w.On = o.On
	}
}

// available lists the results that there are, by index.
func (s *schedule) available() (list []*result) {
	for _, r := range s.results {
		if r != nil {
			list = append(list, r)
		}
	}
	return list
}

// outcome is the run's outcome: what the results say together.
func (l *Launch) outcome(s *schedule, workers []WorkerStats) (*Outcome, error) {
	o := &Outcome{Workers: workers, WallSeconds: s.wall.Seconds()}
	var hashes [][]byte
	for _, r := range s.available() {
		if r.left || r.Index >= s.merged { // those of an earlier run aren't merged where this one ends before its begin
			continue
		}
		o.Replications = append(o.Replications, r.Replication)
		o.Events += r.Events
		o.Activations += r.Activations
		o.Interrupted = o.Interrupted || r.Interrupted
		hashes = append(hashes, r.hash)
	}
	o.Interrupted = o.Interrupted || len(o.Replications) < s.total-s.from
	if !o.Interrupted {
		o.TraceHash = runHash(hashes)
	}
	if len(o.Replications) == 0 {
		return o, nil
	}
	summary, err := s.accumulator.Summary()
	if err != nil {
		return nil, l.mergeError(err)
	}
	o.Summary = summary
	return o, nil
}

// mergeError is the run's error when the model refuses what its own workers have reported.
func (l *Launch) mergeError(err error) error {
	return fmt.Errorf("launch: the model %T can't sum up its results: %w", l.scenario, err)
}
