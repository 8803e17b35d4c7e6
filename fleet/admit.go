// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/metastore"
)

// Admission bounds what is taken. Zero values are the defaults that docs/fleet.md names. It holds for what is
// submitted: what was accepted is never given up for it.
type Admission struct {
	Queue int `json:"queue,omitempty"` // pieces that wait, of all experiments
	Open  int `json:"open,omitempty"`  // experiments of one user that haven't ended
	Rate  int `json:"rate,omitempty"`  // submissions of one user in rateWindow
}

// Bounds of Admission: an account has to fit into a submission's commit.
const (
	MaxOpen = 1_000
	MaxRate = 200
)

// rateWindow is the time in which a user's submissions are counted.
const rateWindow = 10 * time.Second

func (a Admission) withDefaults() Admission {
	a.Queue = cmp.Or(a.Queue, MaxPieces)
	a.Open = cmp.Or(a.Open, 500)
	a.Rate = cmp.Or(a.Rate, 50)
	return a
}

func (a *Admission) check() error {
	return errors.Join(number("pieces that wait", a.Queue, 0, 1<<30), number("a user's experiments", a.Open, 0,
		MaxOpen), number("a user's submissions", a.Rate, 0, MaxRate))
}

// share is the part of the queue up to which a class is taken: low gives way first.
func share(p Priority) float64 {
	switch p {
	case Low:
		return 0.7
	case Normal:
		return 0.85
	}
	return 1
}

// Load is how much waits, in the key fleet/load. The leader writes it.
type Load struct {
	Admission
	Waiting int     `json:"waiting"` // pieces
	Ends    float64 `json:"ends"`    // of pieces, a second
}

func (l *Load) check() error {
	errs := []error{l.Admission.check(), number("waiting", l.Waiting, 0, 1<<40)}
	if !(l.Ends >= 0 && l.Ends < 1e9) {
		errs = append(errs, fmt.Errorf("ends: found %v, want 0 or more", l.Ends))
	}
	return errors.Join(errs...)
}

// BusyError is about a submission that isn't taken now.
type BusyError struct {
	Why   string
	After time.Duration // when it is worth another try; in part random, so that not all come at once
}

// Error says why, and when to come back.
func (e *BusyError) Error() string {
	return fmt.Sprintf("%s: nothing was submitted; try again in %v", e.Why, e.After.Round(time.Second))
}

// Bounds of BusyError.After.
const (
	afterLeast   = 10 * time.Second
	afterMost    = time.Hour
	afterUnknown = time.Minute
)

// busy is a refusal for so long and a random part of half of it more.
func busy(after time.Duration, format string, args ...any) error {
	after = min(max(after, afterLeast), afterMost)
	return &BusyError{fmt.Sprintf(format, args...), after + rand.N(after/2)}
}

// load reads how much waits, and which bounds hold. What can't be read, since a newer leader wrote it, bounds nothing
// but by defaults.
func (c *Client) load(ctx context.Context) (l Load, err error) {
	_, err = c.get(ctx, keyLoad, &l)
	if bad := (*MalformedError)(nil); errors.As(err, &bad) || err == nil && l.check() != nil {
		l, err = Load{}, nil
	}
	l.Admission = l.Admission.withDefaults()
	return l, err
}

// SetLoad writes how much waits. guards are the leader's.
func (c *Client) SetLoad(ctx context.Context, l Load, guards ...metastore.Cond) error {
	if err := l.check(); err != nil {
		return fmt.Errorf("how much waits: %w", err)
	}
	op, err := c.op(metastore.Set, keyLoad, l)
	if err != nil {
		return err
	}
	return c.store.Commit(ctx, guards, []metastore.Op{op})
}

// most is how many pieces may wait so that something of a class is still taken.
func (l *Load) most(p Priority) int { return int(share(p) * float64(l.Queue)) }

// admit refuses what the queue has no room for.
func (l *Load) admit(p Priority) error {
	most := l.most(p)
	if l.Waiting < most {
		return nil
	}
	after := afterUnknown
	if l.Ends > 0 {
		after = time.Duration(min(afterMost.Seconds(), float64(l.Waiting-most+1)/l.Ends) * float64(time.Second))
	}
	return busy(after, "%s waiting, and of priority %s something is taken while there are fewer than %d (of %d)",
		table.Plural(l.Waiting, "piece"), p, most, l.Queue)
}

// account is what a user has submitted lately, in a key of the user's. Submissions change it in their commit, by
// compare-and-set, so that no two of a user pass by a bound together.
type account struct {
	User   string      `json:"user"`
	Open   []string    `json:"open"`   // in the order of their submission; some may have ended since
	Recent []time.Time `json:"recent"` // by the submitters' clocks
}

func (a *account) check() error {
	errs := []error{line("user", a.User, maxName), number("experiments", len(a.Open), 0, MaxOpen),
		number("submissions", len(a.Recent), 0, MaxRate)}
	for _, id := range a.Open {
		errs = append(errs, checkID(id))
	}
	return errors.Join(errs...)
}

// maxUsers is how many accounts a store that doesn't know its users may have.
const maxUsers = 10_000

// accountKey is that of a user's account: below the name where the store knows it.
func accountKey(known, user string) string { return ownKey(keyUsers, known, sha([]byte(user))) }

// charge is what a submission adds to its user's account, or a *BusyError.
func (c *Client) charge(ctx context.Context, user, id string, now time.Time, bounds Admission) (cond metastore.Cond,
	op metastore.Op, err error) {
	key := accountKey(c.user, user)
	var a account
	version, err := c.get(ctx, key, &a)
	if bad := (*MalformedError)(nil); errors.As(err, &bad) || err == nil && a.check() != nil {
		a, err = account{}, nil // a newer build's: it begins anew
	}
	if err != nil {
		return cond, op, err
	}
	if version == (metastore.Version{}) && c.user == "" {
		there, err := c.names(ctx, keyUsers)
		if err != nil {
			return cond, op, err
		}
		if len(there) >= maxUsers {
			return cond, op, busy(afterMost, "the group has experiments of %d users, at most %d", len(there), maxUsers)
		}
	}
	a.User = user
	a.Recent = slices.DeleteFunc(a.Recent, func(at time.Time) bool {
		age := now.Sub(at)
		return age <= -rateWindow || age >= rateWindow // by a clock that is far ahead it would count for long
	})
	if len(a.Recent) >= bounds.Rate {
		return cond, op, busy(rateWindow-now.Sub(a.Recent[0]), "%s has submitted %s in %v, at most %d",
			user, table.Plural(len(a.Recent), "experiment"), rateWindow, bounds.Rate)
	}
	if len(a.Open) >= bounds.Open {
		if a.Open, err = c.stillOpen(ctx, a.Open); err != nil {
			return cond, op, err
		}
	}
	if len(a.Open) >= bounds.Open {
		return cond, op, busy(afterUnknown, "%s has %s, at most %d", user, unended(len(a.Open)), bounds.Open)
	}
	a.Open, a.Recent = append(a.Open, id), append(a.Recent, now)
	op, err = c.op(metastore.Set, key, a)
	return at(key, version), op, err
}

// unended names so many experiments that haven't ended.
func unended(n int) string {
	if n == 1 {
		return "1 experiment that hasn't ended"
	}
	return fmt.Sprintf("%d experiments that haven't ended", n)
}

// stillOpen are those of an account's experiments that haven't ended.
func (c *Client) stillOpen(ctx context.Context, all []string) (open []string, err error) {
	ended := make([]bool, len(all))
	err = each(all, func(i int, id *string) error {
		x, err := c.Show(ctx, *id)
		if errors.Is(err, ErrGone) {
			ended[i] = true
			return nil
		}
		ended[i] = err == nil && x.Ended()
		return err
	})
	for i, id := range all {
		if !ended[i] {
			open = append(open, id)
		}
	}
	return open, err
}

// RemoveAccounts removes those of users whose experiments are all gone. guards are the leader's. Accounts are read
// first: what one names comes into being with the account's value, so that what isn't there afterwards is gone.
func (c *Client) RemoveAccounts(ctx context.Context, guards ...metastore.Cond) error {
	values, err := c.store.Walk(ctx, keyUsers)
	if err != nil {
		return err
	}
	there, err := c.names(ctx, keyExperiments)
	if err != nil {
		return err
	}
	for _, v := range values {
		var a account
		if !v.HasValue() || v.Decode(&a) != nil || slices.ContainsFunc(a.Open, func(id string) bool {
			return slices.Contains(there, id)
		}) {
			continue
		}
		is := at(v.Key(), v.Version)
		err := c.store.Commit(ctx, append(slices.Clone(guards), is), []metastore.Op{{Path: v.Key(),
			Do: metastore.Delete}})
		if conflict := (*metastore.ConflictError)(nil); err != nil && !(errors.As(err, &conflict) &&
			conflict.Cond == is) { // the user has submitted something since
			return err
		}
	}
	return nil
}

// loadEvery is how often it is written how much waits, where that has changed.
const loadEvery = 5 * time.Second

// queue notes how many pieces of an experiment wait.
func (s *State) queue(e *underway, waiting int) {
	s.queued += waiting - e.queued
	e.queued = waiting
}

// noteLoad has it written how much waits: soon where another class is taken, or isn't any more.
func (s *State) noteLoad() {
	now, was := Load{Admission: s.rules.Admission, Waiting: s.queued}, &s.load
	level := func(l *Load) (n int) {
		for _, p := range []Priority{Low, Normal, High} {
			if l.Waiting >= l.most(p) {
				n++
			}
		}
		return n
	}
	if s.loadKnown && level(&now) == level(was) && s.now < s.loadAt+loadEvery {
		return
	}
	if took := (s.now - s.loadAt).Seconds(); s.loadKnown && took > 0 { // of about the last minute
		weight := min(1, took/60)
		s.endsRate = (1-weight)*s.endsRate + weight*float64(s.endedNow)/took
	}
	s.endedNow, s.loadAt = 0, s.now
	now.Ends = math.Round(s.endsRate*100) / 100
	if s.loadKnown && now == *was {
		return
	}
	s.load, s.loadKnown = now, true
	s.rest = append(s.rest, Action{Do: DoLoad, Load: now})
}
