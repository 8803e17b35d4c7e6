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

	mu      sync.Mutex // guards the rest
	next    int
	done    []*finished // by index; nil: not done (yet)
	count   int         // of them
	events  uint64      // of them
	running int         // replications under way
	since   time.Time   // when the first of them began
	wall    time.Duration
	views   []view // by team
	shown   time.Time
}

// finished is a replication and who did it.
type finished struct {
	Replication
	hash   []byte // nil when interrupted
	parts  [][]byte
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
	return &agenda{
		total: l.cfg.Replications, horizon: l.scenario.Horizon(), show: l.cfg.Progress,
		pause: l.times.progress * 9 / 10, began: time.Now(),
		done: make([]*finished, l.cfg.Replications), views: make([]view, l.teams),
	}
}

// take gives a team the next replication to do; false when none is left.
func (a *agenda) take() (index int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.next == a.total {
		return 0, false
	}
	a.next++
	return a.next - 1, true
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
	var parts []scenario.Replication
	var hashes [][]byte
	for _, f := range a.results() {
		o.Replications = append(o.Replications, f.Replication)
		o.Events += f.Events
		o.Activations += f.Activations
		o.Interrupted = o.Interrupted || f.Interrupted
		hashes = append(hashes, f.hash)
		parts = append(parts, scenario.Replication{Index: f.Index, Horizon: a.horizon, Reached: f.Reached, Parts: f.parts})
	}
	o.Interrupted = o.Interrupted || len(o.Replications) < a.total
	if !o.Interrupted {
		o.TraceHash = runHash(hashes)
	}
	if len(parts) == 0 {
		return o, nil
	}
	summary, err := l.scenario.Summarize(parts)
	if err != nil {
		return nil, fmt.Errorf("launch: the model %T can't sum up its results: %w", l.scenario, err)
	}
	o.Summary = summary
	return o, nil
}
