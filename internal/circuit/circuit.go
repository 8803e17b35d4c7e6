// SPDX-License-Identifier: Apache-2.0

// Package circuit keeps a fault from growing by what is tried again: circuit breakers, budgets of second tries, and the
// gate that has both for all who use one store.
//
// Guarantee: nothing here waits but Gate.Pass, which ends with its context, with the last failure in its error.
//
//	number, err := c.Allow(time.Now())
//	if err == nil {
//		err = try()
//		c.Done(time.Now(), number, circuit.Of(err), err)
//	}
package circuit

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Limits are those of a Circuit; zero values are the defaults.
type Limits struct {
	Failures  int           // in a row, that open it; 3 if 0
	Successes int           // of trials in a row, that close it; 3 if 0
	First     time.Duration // nothing is let through for half of it to all of it when it opens; 10 s if 0
	Most      time.Duration // what First is doubled to as long as trials fail; 5 min if 0
}

func (b Limits) withDefaults() Limits {
	return Limits{cmp.Or(b.Failures, 3), cmp.Or(b.Successes, 3), cmp.Or(b.First, 10*time.Second),
		cmp.Or(b.Most, 5*time.Minute)}
}

// Circuit keeps off what fails again and again. It is closed at first; some failures in a row open it, and nothing is
// let through for a time, the half of which is random, and which doubles as long as trials fail. Then one trial at a
// time is let through, until some in a row succeed, which close it. The zero value is closed. Any goroutine may use it.
type Circuit struct {
	Limits Limits // before it is used

	mu        sync.Mutex
	failures  int // in a row
	successes int // in a row, of trials
	opened    int // times in a row
	until     time.Time
	isOpen    bool   // or half open, behind until
	last      uint64 // what was let through last
	trial     uint64 // of that the trial that is under way; 0: none
	why       error
}

// OpenError is about what isn't tried since it has failed again and again.
type OpenError struct {
	For   time.Duration // until a trial
	Times int           // of failures in a row that open it
	Why   error         // the last failure
}

// Error says why, and when it is tried again.
func (e *OpenError) Error() string {
	if e.For <= 0 {
		return fmt.Sprintf("a trial is under way since it has failed %d times: %v", e.Times, e.Why)
	}
	return fmt.Sprintf("it isn't tried for %v, since it has failed %d times: %v", e.For.Round(time.Second/10), e.Times,
		e.Why)
}

// Unwrap is the last failure.
func (e *OpenError) Unwrap() error { return e.Why }

// Why is the last failure behind an *OpenError, and any other error itself: a text that stays the same meanwhile.
func Why(err error) error {
	if open := (*OpenError)(nil); errors.As(err, &open) {
		return open.Why
	}
	return err
}

// Result is what something has come to that was let through.
type Result uint8

// The results.
const (
	Neither Result = iota // it was given up, and says nothing
	Succeeded
	HasFailed
)

// Of is Succeeded where there is no error.
func Of(err error) Result {
	if err == nil {
		return Succeeded
	}
	return HasFailed
}

// Allow lets something through, whose number Done is told with what it has come to; or it gives an *OpenError.
func (c *Circuit) Allow(now time.Time) (number uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refusal(now); err != nil {
		return 0, err
	}
	c.last++
	if c.isOpen {
		c.trial = c.last
	}
	return c.last, nil
}

// Refusal is why nothing would be let through now; nil: it would. trial says that one at a time is.
func (c *Circuit) Refusal(now time.Time) (why error, trial bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refusal(now), c.isOpen
}

func (c *Circuit) refusal(now time.Time) error {
	if wait := c.until.Sub(now); c.isOpen && (wait > 0 || c.trial != 0) {
		return &OpenError{wait, c.Limits.withDefaults().Failures, c.why}
	}
	return nil
}

// Done tells what something has come to that was let through, and why where it has failed.
func (c *Circuit) Done(now time.Time, number uint64, r Result, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isOpen && number != c.trial {
		return // it was let through before
	}
	c.trial = 0
	b := c.Limits.withDefaults()
	switch {
	case r == Neither:
	case r == Succeeded:
		c.failures = 0
		if c.successes++; c.isOpen && c.successes >= b.Successes {
			c.isOpen, c.opened = false, 0
		}
	default:
		c.successes, c.why = 0, why
		if c.failures++; c.failures >= b.Failures || c.isOpen {
			wait := min(b.Most, b.First<<min(c.opened, 10))
			c.isOpen, c.failures, c.until = true, 0, now.Add(wait/2+rand.N(wait/2))
			c.opened++
		}
	}
}
