// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/scenario"
)

// SoFar has a run make results while it goes on (docs/live.md): those that it would have if Stop had ended it there. At
// an end of a leg copies of all handlers report, so nothing about the run is another for it.
type SoFar struct {
	// Take is called with them, by one goroutine at a time. What it takes counts as what they cost.
	Take func(*Outcome)

	// Least is the least time between the end of one and the begin of the next, and before the first. The time is
	// longer where all of them would else cost more than 2 % of the run.
	Least time.Duration

	// EachLeg has them made at each end of a leg, whatever that costs, and at no other time: for tests.
	EachLeg bool
}

const (
	soFarShare       = 0.02     // of the run's time, which results so far may take
	soFarSimprocsMax = 200_000  // of a scenario that has results so far: the launcher has them twice meanwhile
	soFarBytesMax    = 64 << 20 // of the reports of replications that have ended, which are kept for them
	soFarAgain       = 100 * time.Millisecond
)

// soFar makes results so far. nil: none are wanted.
type soFar struct {
	launch *Launch
	cfg    *SoFar

	making sync.Mutex // held while results are made and taken

	mu       sync.Mutex // guards the rest
	sets     []soFarSet // by worker set
	ended    []*result  // replications that have ended, with their reports
	bytes    int64      // of these
	unable   string     // why there are no more; "": there are
	began    time.Time
	pause    time.Duration // during which all workers of a set stood still, since the last results
	reported chan struct{} // has room for one: a set that was asked has reported, or has nothing under way
}

// soFarSet is what is known of a worker set.
type soFarSet struct {
	active bool    // a replication is under way
	asked  bool    // for what there is of it
	latest *result // what it has reported of that, nil: nothing yet
}

// newSoFar is nil where no results so far are wanted.
func (l *Launch) newSoFar() *soFar {
	if l.cfg.SoFar == nil {
		return nil
	}
	f := &soFar{launch: l, cfg: l.cfg.SoFar, sets: make([]soFarSet, l.sets), began: time.Now(),
		reported: make(chan struct{}, 1)}
	if n := l.structure.NumSimprocs(); n > soFarSimprocsMax {
		f.cannot(fmt.Sprintf("the scenario has %d simprocs, more than %d", n, soFarSimprocsMax))
	}
	return f
}

// cannot notes that there will be no more, and why. mu isn't held.
func (f *soFar) cannot(why string) {
	f.mu.Lock()
	before := f.unable
	f.unable, f.ended = cmp.Or(f.unable, why), nil
	f.mu.Unlock()
	if before == "" {
		f.launch.note("there are no results before the end: " + why)
	}
}

// able reports whether there may be more.
func (f *soFar) able() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unable == ""
}

// began notes that a worker set begins, or has ended, a replication.
func (f *soFar) active(set int, active bool) {
	if f == nil {
		return
	}
	f.mu.Lock()
	f.sets[set] = soFarSet{active: active}
	f.mu.Unlock()
	f.signal()
}

func (f *soFar) signal() {
	select {
	case f.reported <- struct{}{}:
	default: // who waits looks at all sets
	}
}

// add takes a replication that has ended.
func (f *soFar) add(r *result) {
	if f == nil || r.left || r.parts == nil {
		return
	}
	whole := *r
	f.mu.Lock()
	full := false
	if f.unable == "" {
		f.ended = append(f.ended, &whole)
		for _, part := range r.parts {
			f.bytes += int64(len(part))
		}
		full = f.bytes > soFarBytesMax
	}
	f.mu.Unlock()
	if full {
		f.cannot(fmt.Sprintf("the reports of the replications so far have more than %d MiB", soFarBytesMax>>20))
	}
}

// wanted reports whether a set whose leg has ended is to report.
func (f *soFar) wanted(set int) bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unable == "" && (f.cfg.EachLeg || f.sets[set].asked)
}

// reportSoFar has the workers report, where that is wanted, what there is of replication r up to an epoch.
func (ws *workerSet) reportSoFar(ctx context.Context, r int, epoch float64, saved []*worker.Message) error {
	f, s := ws.launch.soFar, ws.supervisor
	if !f.wanted(ws.index) {
		return nil
	}
	began := time.Now()
	s.soFar = newCollection(ws.launch.structure, nil)
	answers, err := s.request(ctx, toAll(&worker.Message{Type: worker.TypeReport}), worker.TypeReported)
	parts := s.soFar.reports
	s.soFar = nil
	if err != nil {
		return err
	}
	for _, a := range answers {
		if why := a.Reported.Error; why != "" {
			f.cannot(why)
		}
	}
	res := &result{parts: parts, Replication: Replication{Index: r, Reached: epoch, Interrupted: true,
		WallSeconds: time.Since(ws.replicationBegan).Seconds()}}
	for _, m := range saved {
		res.Events += m.Saved.Events
		res.Activations += m.Saved.Activations
	}
	if base := ws.checkpointing.base; base != nil {
		res.Events, res.Activations = res.Events+base.Events, res.Activations+base.Activations
	}
	f.mu.Lock()
	f.sets[ws.index] = soFarSet{active: true, latest: res}
	f.pause += time.Since(began)
	f.mu.Unlock()
	f.signal()
	if f.cfg.EachLeg && f.able() {
		f.make()
	}
	return nil
}

// watch makes results so far until ctx ends, or there can be none any more.
func (f *soFar) watch(ctx context.Context, legs *Legs) {
	if f.cfg.EachLeg {
		return
	}
	for wait := f.cfg.Least; f.able(); {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if !f.collect(ctx, legs) {
			return
		}
		began := time.Now()
		if f.able() {
			f.make()
		}
		f.mu.Lock()
		cost := f.pause + time.Since(began)
		f.pause = 0
		f.mu.Unlock()
		wait = max(f.cfg.Least, time.Duration(float64(cost)*(1-soFarShare)/soFarShare))
	}
}

// collect ends the legs under way for reports, and waits for these; false: ctx has ended.
func (f *soFar) collect(ctx context.Context, legs *Legs) bool {
	f.mu.Lock()
	for i := range f.sets {
		f.sets[i].asked = f.sets[i].active
	}
	f.mu.Unlock()
	for f.asks() {
		legs.EndNow() // which does nothing where a leg is only about to begin
		select {
		case <-ctx.Done():
			return false
		case <-f.reported:
		case <-time.After(soFarAgain):
		}
	}
	return true
}

// asks reports whether a set that was asked hasn't reported.
func (f *soFar) asks() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unable == "" && slices.ContainsFunc(f.sets, func(s soFarSet) bool { return s.asked })
}

// make makes results of what there is, and has them taken.
func (f *soFar) make() {
	f.making.Lock()
	defer f.making.Unlock()
	f.mu.Lock()
	list := slices.Clone(f.ended)
	for i := range f.sets {
		if r := f.sets[i].latest; r != nil {
			list = append(list, r)
		}
	}
	f.mu.Unlock()
	if len(list) == 0 {
		return
	}
	slices.SortFunc(list, func(a, b *result) int { return cmp.Compare(a.Index, b.Index) })
	out, err := f.outcome(list)
	if err != nil {
		f.cannot(err.Error())
		return
	}
	f.cfg.Take(out)
}

// outcome is that of a run which has come to these results.
func (f *soFar) outcome(list []*result) (*Outcome, error) {
	s := f.launch.scenario
	o := &Outcome{Launch: f.launch, Interrupted: true, WallSeconds: time.Since(f.began).Seconds()}
	accumulator := s.Accumulate()
	for _, r := range list {
		rep := scenario.Replication{Index: r.Index, Horizon: s.Horizon(), Reached: math.Min(r.Reached, s.Horizon()),
			Reports: r.parts}
		if err := accumulator.Add(rep); err != nil {
			return nil, f.launch.mergeError(err)
		}
		o.Replications = append(o.Replications, r.Replication)
		o.Events += r.Events
		o.Activations += r.Activations
	}
	var err error
	if o.Summary, err = accumulator.Summary(); err != nil {
		return nil, f.launch.mergeError(err)
	}
	return o, nil
}
