// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/disco-sim/disco/metastore"
)

// RefusedError is about a wish that an experiment can't be given as it is.
type RefusedError struct {
	ID      string
	Do      string // pause, continue, cancel, retry, priority
	Is      string // how it is
	Allowed []string
}

// Error says what would be allowed.
func (e *RefusedError) Error() string {
	allowed := "nothing any more: submit it again"
	if len(e.Allowed) > 0 {
		allowed = strings.Join(e.Allowed, ", ")
	}
	return fmt.Sprintf("%s: it is %s: %s isn't possible; what is: %s", e.ID, e.Is, e.Do, allowed)
}

// The wishes, as people name them.
const (
	doPause    = "pause"
	doContinue = "continue"
	doCancel   = "cancel"
	doPriority = "priority"
	doRetry    = "retry"
	doFrom     = "retry --step"
)

// Pause has nothing more of an experiment begin, and what runs stand still. One that is paused already stays so. These
// and the following wishes return the wish that holds from then on; a *RefusedError says what would be allowed, ErrGone
// that there is no such experiment.
func (c *Client) Pause(ctx context.Context, id, why string) (Wish, error) {
	return c.wish(ctx, id, doPause, why, func(w *Wish) { w.Want = WantPause })
}

// Continue undoes Pause.
func (c *Client) Continue(ctx context.Context, id, why string) (Wish, error) {
	return c.wish(ctx, id, doContinue, why, func(w *Wish) { w.Want = WantRun })
}

// Cancel gives an experiment up; what has ended stays. It is final, but for Retry when it was carried out. Asking again
// changes nothing.
func (c *Client) Cancel(ctx context.Context, id, why string) (Wish, error) {
	return c.wish(ctx, id, doCancel, why, func(w *Wish) { w.Want = WantCancel })
}

// SetPriority gives an experiment another class in the queue.
func (c *Client) SetPriority(ctx context.Context, id string, p Priority, why string) (Wish, error) {
	if err := p.check(); err != nil {
		return Wish{}, err
	}
	return c.wish(ctx, id, doPriority, why, func(w *Wish) { w.Priority = p })
}

// Retry opens another attempt of all pieces that have failed or were cancelled.
func (c *Client) Retry(ctx context.Context, id, why string) (Wish, error) {
	return c.wish(ctx, id, doRetry, why, func(w *Wish) { w.Want, w.Retry, w.From = WantRun, w.Retry+1, "" })
}

// RetryFrom is Retry, and begins all of a step of a pipeline anew, and all that wait for it: what runs of them is
// ended, their outputs are removed. A piece whose result is still in its place isn't simulated again. The error lists
// the steps.
func (c *Client) RetryFrom(ctx context.Context, id, step, why string) (Wish, error) {
	e, err := c.Show(ctx, id)
	if err != nil {
		return Wish{}, err
	}
	if e.Spec == nil {
		return Wish{}, errors.Join(e.Malformed...)
	}
	if _, err := e.Spec.StepOf(step); err != nil {
		return Wish{}, fmt.Errorf("%s: %w", id, err)
	}
	return c.wish(ctx, id, doFrom, why, func(w *Wish) { w.Want, w.Retry, w.From = WantRun, w.Retry+1, step })
}

// Allowed are the wishes that an experiment can be given as it is.
func (e *Experiment) Allowed() []string {
	all := e.allowed()
	retried := e.Standing == nil || e.Wish != nil && e.Wish.Retry > e.Standing.Retry
	if e.Spec == nil || e.Wish == nil || !e.Spec.Pipeline() || retried || e.Wish.Want == WantCancel && !e.Ended() {
		return all
	}
	return append(all, doFrom)
}

func (e *Experiment) allowed() (all []string) {
	s := e.Standing
	failed := s != nil && s.failed() && (e.Wish == nil || e.Wish.Retry <= s.Retry)
	switch {
	case e.Wish == nil:
		return nil
	case e.Ended() && failed:
		return []string{doRetry}
	case e.Ended():
		return nil
	case e.Wish.Want == WantCancel:
		return []string{doCancel}
	case e.Wish.Want == WantPause:
		all = []string{doContinue, doPause, doCancel, doPriority}
	default:
		all = []string{doPause, doContinue, doCancel, doPriority}
	}
	if failed {
		all = append(all, doRetry)
	}
	return all
}

// failed tells whether pieces that count have failed or were cancelled.
func (s *Standing) failed() bool {
	counted := s.Failed > 0 || s.Status == StatusFailed || s.Status == StatusCanceled
	return counted || len(s.Enough) == 0 && s.Pieces[Failed]+s.Pieces[Canceled] > 0
}

// is says how an experiment is, for messages.
func (e *Experiment) is() string {
	switch {
	case !e.Ended() && e.Wish != nil && e.Wish.Want == WantCancel:
		return "being cancelled"
	case e.Ended() && e.Wish != nil && e.Wish.Want == WantCancel && e.Status() == StatusCanceled:
		return "CANCELED"
	}
	return e.Status().String()
}

// MaxWhy is how many bytes the reason of a wish may have: people read it in one line with others.
const MaxWhy = 500

// CheckReason refuses a text that can't be the reason of a wish. What earlier versions took is still read.
func CheckReason(why string) error { return line("why", why, MaxWhy) }

// wish changes the wish by compare-and-set, in one commit with its entry in the audit.
func (c *Client) wish(ctx context.Context, id, do, why string, change func(*Wish)) (Wish, error) {
	if err := CheckReason(why); err != nil {
		return Wish{}, err
	}
	if err := c.mayChange(ctx, id, strings.Fields(do)[0]); err != nil {
		return Wish{}, err
	}
	var sent *Wish // of which the outcome isn't known
	for {
		e, err := c.Show(ctx, id)
		if err != nil {
			return Wish{}, err
		}
		if e.Wish == nil {
			return Wish{}, errors.Join(e.Malformed...)
		}
		if e.Spec != nil && e.Spec.Home != nil {
			return Wish{}, &HomeError{id, e.Spec.Home.ID}
		}
		switch {
		case sent != nil && e.Wish.same(sent), do == doCancel && e.Wish.Want == WantCancel:
			return *e.Wish, nil
		case sent != nil && e.Wish.Number > sent.Number:
			return Wish{}, fmt.Errorf("%s: %w: somebody else has changed it since", id, metastore.ErrUnknown)
		}
		if !slices.Contains(e.Allowed(), do) {
			return Wish{}, &RefusedError{id, do, e.is(), e.Allowed()}
		}
		now := *e.Wish
		change(&now)
		if now == *e.Wish {
			return now, nil
		}
		now.Number, now.At = now.Number+1, c.o.Now()
		if do != doPriority || now.Want == WantRun { // else it says who has had it paused, and why
			now.By, now.Why = c.o.By, why
		}
		err = c.putWish(ctx, e, now, do, why)
		conflict := (*metastore.ConflictError)(nil)
		switch {
		case err == nil:
			c.trimAudit(ctx)
			return now, nil
		case errors.Is(err, metastore.ErrUnknown) && ctx.Err() == nil:
			sent = &now // if it comes later, the next try conflicts, or it does
		case !errors.As(err, &conflict):
			return Wish{}, err
		}
	}
}

// same tells whether a wish that was read is one that was sent.
func (w *Wish) same(sent *Wish) bool {
	return w.Number == sent.Number && w.By == sent.By && w.At.Equal(sent.At) && w.Want == sent.Want &&
		w.Priority == sent.Priority && w.Retry == sent.Retry && w.From == sent.From
}

// putWish commits a wish in the place of the one that was read; the audit says why.
func (c *Client) putWish(ctx context.Context, e *Experiment, w Wish, do, why string) error {
	what := do
	if do == doPriority {
		what += " " + string(w.Priority)
	}
	if do == doFrom {
		what += " " + w.From
	}
	var ops []metastore.Op
	var errs []error
	add := func(op metastore.Op, err error) { ops, errs = append(ops, op), append(errs, err) }
	add(c.op(metastore.Set, wishKey(e.ID), w))
	add(c.noted(w.At, what, e.ID, why))
	add(c.wake(e.ID))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return c.store.Commit(ctx, []metastore.Cond{at(wishKey(e.ID), e.WishAt), exists(e.ID)}, ops)
}
