// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// refusal is a *BusyError's, with the bounds of its time checked.
func refusal(t *testing.T, err error, least, most time.Duration) string {
	t.Helper()
	var busy *BusyError
	if !errors.As(err, &busy) {
		t.Fatalf("found %v, want a refusal", err)
	}
	if busy.After < least || busy.After > most || !strings.Contains(err.Error(), "submitted; try again in ") {
		t.Errorf("found %v, want a time of %v to %v", err, least, most)
	}
	return busy.Why
}

// TestQueueIsFull has low priorities refused first, with a time to come back, and what is there already answered.
func TestQueueIsFull(t *testing.T) {
	ctx := t.Context()
	c := newClient(t, inMemory()(), "g", Options{})
	submit := func(key string, p Priority) error {
		s := shop(key)
		s.Priority = p
		_, _, err := c.Submit(ctx, s)
		return err
	}
	if err := submit("low", Low); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		waiting int
		taken   []Priority
	}{{699, []Priority{Low, Normal, High}}, {700, []Priority{Normal, High}}, {850, []Priority{High}}, {1000, nil}} {
		if err := c.SetLoad(ctx, Load{Admission: Admission{Queue: 1000}, Waiting: x.waiting, Ends: 2}); err != nil {
			t.Fatal(err)
		}
		for _, p := range []Priority{Low, Normal, High} {
			err := submit(fmt.Sprint(p, x.waiting), p)
			if slices.Contains(x.taken, p) {
				if err != nil {
					t.Errorf("%d wait: %v", x.waiting, err)
				}
				continue
			}
			most := map[Priority]int{Low: 700, Normal: 850, High: 1000}[p]
			after := max(afterLeast, time.Duration(x.waiting-most+1)*time.Second/2)
			if why := refusal(t, err, after, after*3/2); !strings.Contains(why, fmt.Sprintf("fewer than %d (of 1000)",
				most)) {
				t.Errorf("found %s", why)
			}
		}
	}
	if err := submit("low", Low); err != nil {
		t.Errorf("what was accepted isn't answered: %v", err)
	}
	if err := c.store.Put(ctx, keyLoad, map[string]any{"waiting": -1}); err != nil {
		t.Fatal(err)
	}
	if err := submit("other", Low); err != nil {
		t.Errorf("a load that can't be read: %v", err)
	}
}

// TestUserIsFull bounds a user's experiments and their rate, of one user alone; what has ended makes room.
func TestUserIsFull(t *testing.T) {
	ctx := t.Context()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	c := newClient(t, inMemory()(), "g", Options{Now: func() time.Time { return now }})
	if err := c.SetLoad(ctx, Load{Admission: Admission{Rate: 3, Open: 5}}); err != nil {
		t.Fatal(err)
	}
	n := 0
	submit := func(user string) (id string, err error) {
		n++
		s := shop(fmt.Sprint(n))
		s.User = user
		id, _, err = c.Submit(ctx, s)
		return id, err
	}
	var ids []string
	for range 3 {
		id, err := submit("ann")
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
		now = now.Add(time.Second)
	}
	_, err := submit("ann")
	if why := refusal(t, err, afterLeast, 15*time.Second); why != "ann has submitted 3 experiments in 10s, at most 3" {
		t.Errorf("found %s", why)
	}
	if _, err := submit("bob"); err != nil {
		t.Error(err)
	}
	now = now.Add(7 * time.Second) // the first of them is 10 s ago
	for range 2 {
		if _, err := submit("ann"); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Minute)
	}
	_, err = submit("ann")
	if why := refusal(t, err, time.Minute, 90*time.Second); why !=
		"ann has 5 experiments that haven't ended, at most 5" {
		t.Errorf("found %s", why)
	}
	if err := c.store.Put(ctx, statusKey(ids[1]), Standing{Status: StatusFinished, Ended: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := submit("ann"); err != nil {
		t.Error(err)
	}
	now = now.Add(-time.Hour) // a clock that is behind sees the others' times to come
	_, err = submit("ann")
	refusal(t, err, time.Minute, 90*time.Second)
}

// TestManyOfOneUser has a hundred simultaneous submissions pass by the bound by none.
func TestManyOfOneUser(t *testing.T) {
	b := inMemory()
	first := newClient(t, b(), "g", Options{})
	if err := first.SetLoad(t.Context(), Load{Admission: Admission{Rate: 20}}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var taken, refused atomic.Int32
	for i := range 10 {
		c := newClient(t, b(), "g", Options{})
		all.Go(func() {
			for j := range 10 {
				_, _, err := c.Submit(t.Context(), shop(fmt.Sprint(i, j)))
				busy := (*BusyError)(nil)
				switch {
				case err == nil:
					taken.Add(1)
				case errors.As(err, &busy):
					refused.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if taken.Load() != 20 || refused.Load() != 80 {
		t.Errorf("%d were taken and %d refused, want 20 and 80", taken.Load(), refused.Load())
	}
}

// TestLoadIsWritten has a leader write how much waits, and at once when another class isn't taken any more.
func TestLoadIsWritten(t *testing.T) {
	b := newBench(t, 1, 1, Rules{Admission: Admission{Queue: 100}})
	loads := func() (all []Load) {
		for _, a := range b.last {
			if a.Do == DoLoad {
				all = append(all, a.Load)
			}
		}
		return all
	}
	b.decide(0)
	if all := loads(); len(all) != 1 || all[0].Waiting != 0 || all[0].Queue != 100 || all[0].Rate != 50 {
		t.Errorf("found %+v", all)
	}
	b.submit("e", 50, 1)
	b.decide(time.Second)
	if all := loads(); len(all) != 0 {
		t.Errorf("found %+v soon behind the last, and nothing else is taken", all)
	}
	b.submit("f", 25, 1)
	b.decide(time.Second)
	if all := loads(); len(all) != 1 || all[0].Waiting != 74 {
		t.Errorf("found %+v, want 74 that wait, and low not taken any more", all)
	}
	for n := range 10 {
		b.run()
		b.finish("e", n)
	}
	b.decide(loadEvery)
	if b.load.Ends <= 0 || b.load.Ends > 1 {
		t.Errorf("found %+v, want some pieces that have ended", b.load)
	}
	b.PutWish("e", Wish{Number: 2, Want: WantCancel, Priority: Normal})
	b.run()
	if b.queued != 24 && b.queued != 25 {
		t.Errorf("%d wait behind a cancellation of all but the second experiment", b.queued)
	}
}

// TestAccountsAreRemoved has an account go when its user's experiments have gone.
func TestAccountsAreRemoved(t *testing.T) {
	ctx := t.Context()
	c := newClient(t, inMemory()(), "g", Options{})
	ids := map[string]string{}
	for _, user := range []string{"ann", "bob"} {
		s := shop(user)
		s.User = user
		id, _, err := c.Submit(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		ids[user] = id
	}
	for i, want := range []int{2, 1, 0} {
		if i > 0 {
			id := ids[[]string{"ann", "bob"}[i-1]]
			standing(t, c, id, Standing{Status: StatusFinished, Ended: true})
			if err := c.RemoveExperiment(ctx, id); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.RemoveAccounts(ctx); err != nil {
			t.Fatal(err)
		}
		if names, err := c.names(ctx, keyUsers); err != nil || len(names) != want {
			t.Errorf("found %q, %v, want %d", names, err, want)
		}
	}
}
