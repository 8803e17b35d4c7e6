// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"sync"
	"time"

	"github.com/disco-sim/disco/scenario"
)

// agenda is what all teams of a run share: which replications are still to be done, what
// came of the others, and how far those are that are under way. Every team's goroutine
// uses it.
type agenda struct {
	total   int
	horizon float64
	show    func(Progress)
	pause   time.Duration // least time between two calls of show
	began   time.Time

	sum    scenario.Accumulator // used by merge, and when that has returned
	window int                  // most replications that are begun and not in sum

	mu      sync.Mutex // guards the rest
	changed sync.Cond  // of what merge waits for
	next    int
	merged  int           // of those below it nothing is awaited any more: they are in sum
	moved   chan struct{} // closed when merged has risen, and made anew
	over    bool          // no more will be filed
	useless bool          // the run has failed: nobody wants the sum
	done    []*finished   // by index; nil: not done (yet)
	count   int           // of them
	events  uint64        // of them
	running int           // replications under way
	since   time.Time     // when the first of them began
	wall    time.Duration
	views   []view // by team
	shown   time.Time
}

// windowOfTeam is how many replications for each team may be begun and not in sum. They
// are added in the order of their indices, so when one takes longer than others the
// reports of those wait, in memory; with a full window teams wait too.
const windowOfTeam = 8

// finished is a replication and who did it.
type finished struct {
	Replication
	hash   []byte
	parts  [][]byte // nil once they are in sum
	traces *traces
	mark   int // its place in traces
}

// view is what a team is at.
type view struct {
	replication int
	active      bool
	now         float64
	events      uint64
}

func newAgenda(l *Launch) *agenda {
	a := &agenda{
		total: l.cfg.Replications, horizon: l.scenario.Horizon(), show: l.cfg.Progress,
		pause: l.times.progress * 9 / 10, began: time.Now(),
		sum: l.scenario.Accumulate(), window: windowOfTeam * l.teams, moved: make(chan struct{}),
		done: make([]*finished, l.cfg.Replications), views: make([]view, l.teams),
	}
	a.changed.L = &a.mu
	return a
}

// take gives a team the next replication to do; false when none is left. While the window
// is full there is none either: later is closed when it is worth asking again. That
// comes, because the one that all wait for is under way in another team, or is about to be
// added; or the run ends.
func (a *agenda) take() (index int, ok bool, later <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.next == a.total:
		return 0, false, nil
	case a.next >= a.merged+a.window:
		return 0, false, a.moved
	}
	a.next++
	return a.next - 1, true, nil
}

// dealt tells whether all replications have been given to teams.
func (a *agenda) dealt() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.next == a.total
}

// begun is how many replications were given to teams so far.
func (a *agenda) begun() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.next
}

// begin notes that a team begins to simulate.
func (a *agenda) begin(team, index int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running == 0 {
		a.since = time.Now()
	}
	a.running++
	a.views[team] = view{replication: index, active: true}
}

// end notes that a team has stopped simulating.
func (a *agenda) end(team int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.views[team].active = false
	if a.running--; a.running == 0 {
		a.wall += time.Since(a.since)
	}
}

// file keeps what came of a replication.
func (a *agenda) file(f *finished) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done[f.Index] = f
	a.count++
	a.events += f.Events
	a.changed.Signal()
}

// close tells merge that no more will be filed, and whether the sum is of use.
func (a *agenda) close(useful bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over, a.useless = true, !useful
	a.changed.Signal()
}

// merge adds replications to the sum, in the order of their indices, until close; then
// those that are left, behind one that was interrupted. Their reports are let go.
func (a *agenda) merge() error {
	for f := a.following(); f != nil; f = a.following() {
		err := a.sum.Add(scenario.Replication{Index: f.Index, Horizon: a.horizon, Reached: f.Reached, Parts: f.parts})
		if err != nil {
			return err
		}
		f.parts = nil
		a.mu.Lock()
		a.merged = f.Index + 1
		close(a.moved)
		a.moved = make(chan struct{})
		a.mu.Unlock()
	}
	return nil
}

// following waits for the replication that is to be added next; nil: there is none.
func (a *agenda) following() *finished {
	a.mu.Lock()
	defer a.mu.Unlock()
	for !a.useless {
		for i := a.merged; i < a.next; i++ {
			if a.done[i] != nil {
				return a.done[i]
			}
			if !a.over {
				break
			}
		}
		if a.over {
			return nil
		}
		a.changed.Wait()
	}
	return nil
}

// tick takes in how far a team is, and shows how far all are when it is time to.
func (a *agenda) tick(team int, now float64, events uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	v := &a.views[team]
	v.now, v.events = now, events
	if time.Since(a.shown) < a.pause {
		return
	}
	a.shown = time.Now()
	p := Progress{
		Replication: a.total, Replications: a.total, Done: a.count, Horizon: a.horizon,
		Events: a.events, Elapsed: time.Since(a.began),
	}
	share := float64(a.count)
	for i := range a.views {
		if v := &a.views[i]; v.active {
			share += min(v.now/a.horizon, 1)
			p.Events += v.events
			if v.replication < p.Replication {
				p.Replication, p.Now = v.replication, v.now
			}
		}
	}
	p.Share = share / float64(a.total)
	a.show(p)
}

// results lists what was done, in the order of the replications.
func (a *agenda) results() []*finished {
	var list []*finished
	for _, f := range a.done {
		if f != nil {
			list = append(list, f)
		}
	}
	return list
}

// conclude makes the run's outcome of what was done.
func (l *Launch) conclude(a *agenda, workers []WorkerStats) (*Outcome, error) {
	o := &Outcome{Workers: workers, WallSeconds: a.wall.Seconds()}
	var hashes [][]byte
	for _, f := range a.results() {
		o.Replications = append(o.Replications, f.Replication)
		o.Events += f.Events
		o.Activations += f.Activations
		o.Interrupted = o.Interrupted || f.Interrupted
		hashes = append(hashes, f.hash)
	}
	o.Interrupted = o.Interrupted || len(o.Replications) < a.total
	if !o.Interrupted {
		o.TraceHash = runHash(hashes)
	}
	if len(o.Replications) == 0 {
		return o, nil
	}
	summary, err := a.sum.Summary()
	if err != nil {
		return nil, l.unsummed(err)
	}
	o.Summary = summary
	return o, nil
}

// unsummed is the run's error when the model refuses what its own workers have reported.
func (l *Launch) unsummed(err error) error {
	return fmt.Errorf("launch: the model %T can't sum up its results: %w", l.scenario, err)
}
