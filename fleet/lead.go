// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/metastore"
)

// LeaderOptions are what a candidate leads with.
type LeaderOptions struct {
	Client *Client
	View   *cluster.View
	// Campaign waits until this program leads: a member's Lead.
	Campaign func(ctx context.Context) (*metastore.Lead, error)
	Name     string // of the member
	Rules    Rules

	// Report gets what goes wrong where nobody waits. Any goroutine calls it.
	Report func(problem error)
}

// Times of the loop.
const (
	lookEvery  = 5 * time.Second        // for progress, and for what a watch has left out
	lookGap    = 50 * time.Millisecond  // between two looks at what has changed, at least
	callMost   = 10 * time.Second       // of a call of the store, until its outage is said
	againFirst = 20 * time.Millisecond  // before a state is read anew that another one has changed
	againMost  = 2 * time.Second        // and at most, after many times
	termGap    = 500 * time.Millisecond // between two terms
	atOnce     = 16                     // calls of the store at a time
)

// errAgain is the error about a state that isn't what the leader knows: it is read anew.
var errAgain = errors.New("the store has changed otherwise")

// Lead is a candidate for leading the fleet until ctx ends, and leads it whenever it is elected. It returns when ctx
// has ended, or with what ended the member: its Campaign's error.
func Lead(ctx context.Context, o LeaderOptions) error {
	for {
		lead, err := o.Campaign(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		t := &term{LeaderOptions: o, lead: lead, clock: time.Now(), swept: time.Now(), malformed: map[string]bool{}}
		t.Rules = t.Rules.withDefaults()
		err = t.run(ctx)
		// A commit without an answer may be done when other servers have been promised on what it isn't known to have
		// promised. Its guard is gone with the leadership.
		resigning, cancel := context.WithTimeout(context.Background(), callMost)
		err = errors.Join(err, lead.Resign(resigning))
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			o.Report(fmt.Errorf("fleet: %s leads no more: %w", o.Name, err))
		}
		select {
		case <-time.After(termGap):
		case <-ctx.Done():
			return nil
		}
	}
}

// term is the time in which one leader leads.
type term struct {
	LeaderOptions
	lead       *metastore.Lead
	clock      time.Time // what its times count from
	state      *State
	loaded     map[string]bool // experiments whose pieces were read
	beats      Beats
	healthRead bool            // what was said of machines was read
	malformed  map[string]bool // keys that were reported
	looked     time.Time
	full       time.Time // when all of all experiments was read
	hints      hints
	swept      time.Time
	unused     map[BlobAt]time.Duration // since when
	orphans    map[string]time.Duration // the same
}

// now is the leader's clock, which never goes back.
func (t *term) now() time.Duration { return time.Since(t.clock) }

// run leads until the leadership is lost (nil), ctx ends, or a commit's answer is lost.
func (t *term) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		select {
		case <-t.lead.Lost():
			cancel()
		case <-ctx.Done():
		}
	})
	changed, seen := make(chan struct{}, 1), make(chan struct{}, 1)
	watch, err := t.Client.FollowChanges(func(value string) bool {
		t.hints.add(value)
		wake(changed)
		return ctx.Err() == nil
	})
	if err != nil {
		return err
	}
	defer watch.Stop()
	watching.Go(func() {
		for since := uint64(0); ; {
			var err error
			if since, err = t.View.AwaitAvailable(ctx, since); err != nil {
				cancel() // nobody should go by a view that stands still
				return
			}
			wake(seen)
		}
	})
	for tries := 0; ctx.Err() == nil; tries++ {
		began := time.Now()
		err := t.follow(ctx, changed, seen)
		switch {
		case ctx.Err() != nil:
			return nil
		case !errors.Is(err, errAgain):
			return err
		}
		if time.Since(began) > time.Minute {
			tries = 0
		}
		if tries >= 5 {
			t.Report(fmt.Errorf("fleet: %s reads everything anew, the %dth time: %w", t.Name, tries+1, err))
		}
		select {
		case <-time.After(min(againMost, againFirst<<min(tries, 10))):
		case <-ctx.Done():
		}
	}
	return nil
}

// wake leaves a token, unless there is one.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// follow reads everything, and then decides whenever something has changed or a time has come.
func (t *term) follow(ctx context.Context, changed, seen chan struct{}) error {
	before := t.state
	t.state, t.loaded, t.healthRead = NewState(t.Name, t.lead.Token(), t.Rules), map[string]bool{}, false
	t.state.inherit(before)
	t.full = time.Time{}
	look := true
	for {
		if look {
			if err := t.look(ctx); err != nil {
				return err
			}
			if err := t.sweep(ctx); err != nil {
				return err
			}
		}
		t.state.PutMembers(t.View.Members(), t.View.Drained())
		t.state.PutServers(t.View.Servers())
		if err := t.do(ctx, Decide(t.state, t.now())); err != nil {
			return err
		}
		var err error
		if look, err = t.wait(ctx, changed, seen); err != nil {
			return err
		}
	}
}

// wait waits for something to decide, and tells whether the store is to be looked at.
func (t *term) wait(ctx context.Context, changed, seen chan struct{}) (look bool, err error) {
	if t.state.WantsLook() {
		return true, ctx.Err()
	}
	until := lookEvery - time.Since(t.looked)
	when, any := t.state.Next()
	early := any && when-t.now() < until
	if early {
		until = when - t.now()
	}
	timer := time.NewTimer(max(until, 0))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-seen:
		return false, nil
	case <-timer.C:
		return !early, nil
	case <-changed:
	}
	select { // several changes are looked at together
	case <-time.After(max(0, lookGap-time.Since(t.looked))):
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// look reads what people and agents may have written, and pieces of experiments that it hasn't read.
func (t *term) look(ctx context.Context) error {
	t.looked = time.Now()
	now := t.now()
	all, err := t.experiments(ctx)
	if err != nil {
		return err
	}
	if err := t.doors(ctx, all); err != nil {
		return err
	}
	for i := range all {
		if err := t.take(ctx, &all[i]); err != nil {
			return err
		}
	}
	var reports []ReportAt
	var malformed []error
	err = t.call(ctx, func(ctx context.Context) (err error) {
		reports, malformed, err = t.Client.Reports(ctx)
		return err
	})
	t.complain(malformed)
	if err != nil {
		return err
	}
	for _, r := range reports {
		t.state.PutReport(r)
	}
	t.state.Looked(now)
	return t.lookAtMachines(ctx)
}

// lookAtMachines reads how machines are, and at first what was said of them.
func (t *term) lookAtMachines(ctx context.Context) error {
	var all map[string]Vitals
	var malformed []error
	err := t.call(ctx, func(ctx context.Context) (err error) {
		all, malformed, err = t.Client.Vitals(ctx)
		return err
	})
	if err != nil {
		return err
	}
	t.complain(malformed)
	t.state.PutVitals(all)
	if t.healthRead {
		return nil
	}
	t.healthRead = true
	var was HealthReport
	err = t.call(ctx, func(ctx context.Context) (err error) { was, err = ReadHealth(ctx, t.Client.store); return err })
	if bad := (*MalformedError)(nil); errors.As(err, &bad) {
		t.complain([]error{err})
		return nil
	}
	t.state.PutHealth(was)
	return err
}

// take takes an experiment over. Pieces of one that has ended are read when they are to be tried again.
func (t *term) take(ctx context.Context, e *Experiment) error {
	t.complain(e.Malformed)
	if e.Spec == nil || e.Wish == nil {
		return nil
	}
	t.state.PutExperiment(*e.Spec, e.Order)
	known := t.loaded[e.ID]
	if !known && e.Standing != nil {
		t.state.PutStanding(e.ID, *e.Standing)
	}
	if !known && !e.Ended() {
		var pieces map[PieceID]PieceAt
		var malformed []error
		err := t.call(ctx, func(ctx context.Context) (err error) {
			pieces, malformed, err = t.Client.Pieces(ctx, e.ID)
			return err
		})
		if err != nil {
			return err
		}
		t.complain(malformed)
		if len(malformed) > 0 {
			t.state.Block(e.ID, fmt.Sprintf("%d of its pieces can't be read", len(malformed)))
		}
		for _, id := range inOrder(pieces) {
			t.state.PutPiece(e.ID, id, pieces[id].Piece)
		}
		t.loaded[e.ID] = true
	}
	t.state.PutWish(e.ID, t.beats.Wish(e.Spec, *e.Wish, t.now()))
	return nil
}

// doors reads the beats of doors, where an experiment is one's.
func (t *term) doors(ctx context.Context, all []Experiment) error {
	if !slices.ContainsFunc(all, func(e Experiment) bool { return e.Spec != nil && e.Spec.Home != nil && !e.Ended() }) {
		return nil
	}
	return t.call(ctx, func(ctx context.Context) error {
		doors, malformed, err := t.Client.Doors(ctx)
		t.complain(malformed)
		for name, beat := range doors {
			t.beats.See(name, beat, t.now())
		}
		return err
	})
}

// complain reports what can't be read, once.
func (t *term) complain(malformed []error) {
	for _, err := range malformed {
		if text := err.Error(); !t.malformed[text] && len(t.malformed) < 1_000 {
			t.malformed[text] = true
			t.Report(fmt.Errorf("fleet: %w", err))
		}
	}
}

// call has the store do something, and says where that takes long. What fails since the store can't be reached wasn't
// done: it is tried again as long as the leadership lasts.
func (t *term) call(ctx context.Context, f func(ctx context.Context) error) error {
	began := time.Now()
	for {
		bounded, cancel := context.WithTimeout(ctx, callMost)
		err := f(bounded)
		cancel()
		if ctx.Err() != nil || !errors.Is(err, metastore.ErrUnavailable) || errors.Is(err, metastore.ErrUnknown) {
			return t.judge(err)
		}
		t.Report(fmt.Errorf("fleet: the leader %s has waited for the store for %v, and goes on waiting: %w", t.Name,
			time.Since(began).Round(time.Second), err))
	}
}

// judge tells a state that has changed (errAgain) from what ends the leadership.
func (t *term) judge(err error) error {
	var conflict *metastore.ConflictError
	var move *MoveError
	switch {
	case errors.As(err, &conflict) && conflict.Cond == t.lead.Guard():
		return fmt.Errorf("another one leads: %w", err)
	case errors.As(err, &conflict), errors.As(err, &move), errors.Is(err, ErrGone):
		return fmt.Errorf("%w: %w", errAgain, err)
	}
	return err
}
