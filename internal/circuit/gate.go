// SPDX-License-Identifier: Apache-2.0

package circuit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Of a store, whose sessions last 10 s: five tries in a row without an answer open it, the first time for half a second
// at most, later on for 4 s, and one answer closes it. Of second tries there may be 20 at once, 10 a second, and one
// for ten first ones.
const (
	storeFailures = 5
	storeFirst    = 500 * time.Millisecond
	storeMost     = 4 * time.Second
	storeShare    = 0.1
	storeEach     = 100 * time.Millisecond
	storeTokens   = 20
)

// Gate is what all tries of a program at one store pass through: a circuit, and a budget of second tries. Any goroutine
// may use it.
type Gate struct {
	circuit Circuit
	began   time.Time

	mu      sync.Mutex
	budget  Budget
	changed chan struct{} // closed when a trial has ended
	waited  bool          // somebody waits for that
}

// NewGate is that of a store that answers, for all that is known.
func NewGate() *Gate {
	return &Gate{circuit: Circuit{Limits: Limits{Failures: storeFailures, Successes: 1, First: storeFirst,
		Most: storeMost}}, began: time.Now(), changed: make(chan struct{}),
		budget: Budget{Share: storeShare, Each: storeEach, Most: storeTokens}}
}

// Try is a try that a Gate has let through.
type Try struct {
	g      *Gate
	number uint64
}

// Tries says what a try is.
type Tries uint8

// The kinds of tries.
const (
	First  Tries = iota // the first of a request
	Second              // another one: it takes a token of the budget
	Shared              // one that others join, and that there is no more of for that: it takes none
	Urgent              // one that nothing holds up, and that says nothing: there is one at a time
)

// Pass waits until a try may be made, whose Done is called behind it, whatever becomes of it. The error is that ctx, or
// end, has ended first: it is why nothing was let through, an *OpenError or ErrBudget.
func (g *Gate) Pass(ctx context.Context, end <-chan struct{}, what Tries) (*Try, error) {
	for what != Urgent {
		wait, changed, why := g.look(what)
		if why == nil {
			number, err := g.circuit.Allow(time.Now())
			if err != nil {
				continue // somebody else was faster: the next look says what it is
			}
			g.through(what)
			return &Try{g, number}, nil
		}
		timer := time.NewTimer(wait + rand.N(wait/4+time.Millisecond))
		var turned <-chan struct{}
		if wait == 0 { // a trial is under way
			turned = changed
			timer.Stop()
		}
		select {
		case <-timer.C:
		case <-turned:
		case <-ctx.Done():
		case <-end:
		}
		timer.Stop()
		select { // what has ended counts when its turn has come as well
		case <-ctx.Done():
			return nil, why
		case <-end:
			return nil, why
		default:
		}
	}
	return &Try{}, nil
}

// look takes what a try needs, or says for how long it is to wait and why; 0: until changed is closed.
func (g *Gate) look(what Tries) (wait time.Duration, changed <-chan struct{}, why error) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	changed = g.changed
	if refusal, _ := g.circuit.Refusal(now); refusal != nil {
		if open := (*OpenError)(nil); errors.As(refusal, &open) {
			wait = max(open.For, 0)
		}
		g.waited = g.waited || wait == 0
		return wait, changed, refusal
	}
	if since := now.Sub(g.began); what == Second && g.budget.Wait(since) > 0 {
		return g.budget.Wait(since), changed, ErrBudget
	}
	return 0, changed, nil
}

// through notes a try in the budget. Of several second ones at one moment some may be let through beyond it: those that
// the next ones wait for.
func (g *Gate) through(what Tries) {
	now := time.Since(g.began)
	g.mu.Lock()
	defer g.mu.Unlock()
	switch what {
	case First:
		g.budget.First(now)
	case Second:
		g.budget.Owe(now)
	}
}

// ErrBudget is why a second try waits.
var ErrBudget = fmt.Errorf("more is tried again than may be, a tenth of what is tried at all and %d a second: it waits",
	time.Second/storeEach)

// Done tells what a try has come to, and why where it has failed.
func (t *Try) Done(r Result, why error) {
	g := t.g
	if g == nil {
		return
	}
	g.circuit.Done(time.Now(), t.number, r, why)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waited {
		close(g.changed)
		g.changed, g.waited = make(chan struct{}), false
	}
}

// Trouble is why nothing would be let through now, or nil.
func (g *Gate) Trouble() error {
	why, _ := g.circuit.Refusal(time.Now())
	return why
}
