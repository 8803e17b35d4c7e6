// SPDX-License-Identifier: Apache-2.0

package circuit

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// store is one that is gone for a time, and counts what it is asked.
type store struct {
	back  time.Time // it answers from then on
	asked atomic.Int64
}

var errGone = errors.New("connection refused")

func (s *store) ask() error {
	s.asked.Add(1)
	if time.Now().Before(s.back) {
		return errGone
	}
	return nil
}

// until asks through a gate until there is an answer.
func until(ctx context.Context, g *Gate, s *store) error {
	for what := First; ; what = Second {
		try, err := g.Pass(ctx, nil, what)
		if err != nil {
			return err
		}
		err = s.ask()
		try.Done(Of(err), err)
		if err == nil {
			return nil
		}
	}
}

// TestGate: a hundred callers of a store that is gone for a minute ask it as often together as one would, all have
// their answer soon after it is there, and then none waits.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := NewGate(), &store{back: time.Now().Add(time.Minute)}
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if err := until(t.Context(), g, s); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Minute - time.Second)
		synctest.Wait()
		// Five times at first, and then by trials, each 2 to 4 s in the end.
		if asked := s.asked.Load(); asked < 20 || asked > 40 {
			t.Errorf("it was asked %d times in a minute, want about 25", asked)
		}
		var open *OpenError
		if err := g.Trouble(); !errors.As(err, &open) || !errors.Is(err, errGone) {
			t.Errorf("found the trouble %v", err)
		}
		all.Wait()
		if since := time.Since(s.back); since > 20*time.Second {
			t.Errorf("the last one had its answer %v after it was there", since)
		}
		if g.Trouble() != nil {
			t.Errorf("found the trouble %v of a store that answers", g.Trouble())
		}
		began := time.Now()
		if err := until(t.Context(), g, s); err != nil || time.Since(began) > 0 {
			t.Errorf("found %v after %v, want an answer at once", err, time.Since(began))
		}
	})
}

// TestGateBudget: a store that fails now and then, so that the circuit stays closed, isn't asked again more than the
// budget says; what waits for that says so, and goes on.
func TestGateBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate()
		second := 0
		begin := time.Now()
		short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		for {
			try, err := g.Pass(short, nil, Second)
			if err != nil {
				if !errors.Is(err, ErrBudget) {
					t.Errorf("found %v", err)
				}
				break
			}
			try.Done(Succeeded, nil)
			second++
		}
		// 20 at once, and 10 a second, whose waits have a random part.
		if second < 20+30 || second > 20+50 {
			t.Errorf("found %d second tries in %v, want about 65", second, time.Since(begin))
		}
		for range 1_000 {
			try, err := g.Pass(t.Context(), nil, First)
			if err != nil {
				t.Fatal(err)
			}
			try.Done(Succeeded, nil)
		}
		if wait := g.budget.Wait(time.Since(g.began)); wait > 0 || g.budget.tokens != storeTokens {
			t.Errorf("found %v tokens behind 1,000 first tries, want %d", g.budget.tokens, storeTokens)
		}
	})
}

// TestGateEnds: who waits ends with its context, or its store, and a trial that was given up lets another one try.
func TestGateEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate()
		for range storeFailures {
			try, err := g.Pass(t.Context(), nil, First)
			if err != nil {
				t.Fatal(err)
			}
			try.Done(HasFailed, errGone)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := g.Pass(ctx, nil, First)
		if !errors.Is(err, errGone) ||
			!strings.Contains(err.Error(), "has failed 5 times: connection refused") {
			t.Errorf("found %v", err)
		}
		if urgent, err := g.Pass(ctx, nil, Urgent); err != nil {
			t.Errorf("what is urgent is held up: %v", err)
		} else {
			urgent.Done(Succeeded, nil)
		}
		trial, err := g.Pass(t.Context(), nil, First)
		if err != nil {
			t.Fatal(err)
		}
		end, next := make(chan struct{}), make(chan *Try)
		go func() {
			_, err := g.Pass(t.Context(), end, Shared)
			if err == nil || !strings.HasPrefix(err.Error(), "a trial is under way") {
				t.Errorf("found %v beside a trial", err)
			}
			close(next)
		}()
		synctest.Wait()
		close(end)
		<-next
		next = make(chan *Try)
		go func() {
			try, err := g.Pass(t.Context(), nil, Shared)
			if err != nil {
				t.Error(err)
			}
			next <- try
		}()
		synctest.Wait()
		trial.Done(Neither, nil)
		(<-next).Done(Succeeded, nil)
		if g.Trouble() != nil {
			t.Errorf("found the trouble %v behind an answer", g.Trouble())
		}
	})
}
