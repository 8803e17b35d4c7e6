// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

func newRand(seed int) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), 1)) }

// Each wish in each situation: what is allowed is done, and what isn't says what is.
func TestWishes(t *testing.T) {
	do := map[string]func(*Client, *testing.T, string) (Wish, error){
		doPause:    func(c *Client, t *testing.T, id string) (Wish, error) { return c.Pause(t.Context(), id, "w") },
		doContinue: func(c *Client, t *testing.T, id string) (Wish, error) { return c.Continue(t.Context(), id, "w") },
		doCancel:   func(c *Client, t *testing.T, id string) (Wish, error) { return c.Cancel(t.Context(), id, "w") },
		doRetry:    func(c *Client, t *testing.T, id string) (Wish, error) { return c.Retry(t.Context(), id, "w") },
		doPriority: func(c *Client, t *testing.T, id string) (Wish, error) {
			return c.SetPriority(t.Context(), id, High, "w")
		},
	}
	failed := Standing{Status: StatusFailed, Failed: 1}
	over := func(s Status) Standing { return Standing{Status: s, Ended: true} }
	for name, c := range map[string]struct {
		before   string
		standing Standing
		allowed  string
	}{
		"new":          {"", Standing{}, "pause continue cancel priority"},
		"active":       {"", Standing{Status: StatusActive}, "pause continue cancel priority"},
		"paused":       {doPause, Standing{Status: StatusPaused}, "pause continue cancel priority"},
		"being over":   {doCancel, Standing{Status: StatusActive}, "cancel"},
		"finished":     {"", over(StatusFinished), ""},
		"failed":       {"", over(StatusFailed), "retry"},
		"cancelled":    {doCancel, over(StatusCanceled), "cancel retry"},
		"some failed":  {"", failed, "pause continue cancel priority retry"},
		"in the queue": {doPriority, Standing{Status: StatusSubmitted}, "pause continue cancel priority"},
	} {
		for wish, f := range do {
			client := newClient(t, inMemory()(), "g", Options{By: "bob@h2"})
			id := submit(t, client, "k")
			if c.before != "" {
				if _, err := do[c.before](client, t, id); err != nil {
					t.Fatal(err)
				}
			}
			if c.standing.Status != 0 {
				standing(t, client, id, c.standing)
			}
			before, _ := client.Show(t.Context(), id)
			w, err := f(client, t, id)
			after, _ := client.Show(t.Context(), id)
			refused := (*RefusedError)(nil)
			allowed := strings.Contains(" "+c.allowed+" ", " "+wish+" ")
			switch {
			case allowed != (err == nil), err != nil && !errors.As(err, &refused):
				t.Errorf("%s of one that is %s: found %v", wish, name, err)
			case err != nil && (*after.Wish != *before.Wish || refused.Do != wish):
				t.Errorf("%s of one that is %s: found %v", wish, name, err)
			case err == nil && (!after.Wish.same(&w) || w.Number > before.Wish.Number+1):
				t.Errorf("%s of one that is %s: found %+v behind %+v", wish, name, w, before.Wish)
			case err == nil && w.Number > before.Wish.Number && (w.By != "bob@h2" || w.Why != "w"):
				t.Errorf("%s of one that is %s: found %+v", wish, name, w)
			}
		}
	}
}

// Another priority of what is paused leaves who has had it paused, and why; the audit has both.
func TestPriorityOfPaused(t *testing.T) {
	backend := inMemory()
	ann := newClient(t, backend(), "g", Options{By: "ann@h1"})
	bob := newClient(t, backend(), "g", Options{By: "bob@h2"})
	id := submit(t, ann, "k")
	if _, err := ann.Pause(t.Context(), id, "lunch"); err != nil {
		t.Fatal(err)
	}
	w, err := bob.SetPriority(t.Context(), id, High, "late")
	if err != nil || w.By != "ann@h1" || w.Why != "lunch" || w.Priority != High || w.Want != WantPause {
		t.Errorf("found %+v, %v", w, err)
	}
	if w, err = bob.Continue(t.Context(), id, "back"); err != nil || w.By != "bob@h2" || w.Why != "back" {
		t.Errorf("found %+v, %v", w, err)
	}
	if w, err = ann.SetPriority(t.Context(), id, Low, "early"); err != nil || w.By != "ann@h1" || w.Why != "early" {
		t.Errorf("found %+v, %v", w, err)
	}
	whys := map[string]string{}
	entries, _, err := ann.Audit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		whys[e.What] = e.Why
	}
	if whys["pause"] != "lunch" || whys["priority high"] != "late" || whys["priority low"] != "early" {
		t.Errorf("found %v", whys)
	}
}

// TestReasons: the reason of a wish is a line that isn't long; one that an earlier version has taken is read.
func TestReasons(t *testing.T) {
	c := newClient(t, inMemory()(), "g", Options{By: "ann@h1"})
	id := submit(t, c, "k")
	for why, want := range map[string]string{strings.Repeat("x", 500): "",
		"a\nb": "why: found a tab or the end of a line", "a\x1bb": "why: found a control character",
		strings.Repeat("x", 501): "why: found 501 bytes, want at most 500"} {
		_, err := c.Pause(t.Context(), id, why)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: found %v, want %q", why, err, want)
		}
	}
	e := one(t, c)
	e.Wish.Why = strings.Repeat("x\n", 1000)
	if err := c.store.Put(t.Context(), wishKey(id), e.Wish); err != nil {
		t.Fatal(err)
	}
	if read := one(t, c); len(read.Malformed) > 0 || read.Wish == nil || read.Wish.Why != e.Wish.Why {
		t.Errorf("found %+v", read)
	}
}

// Many wishes at the same time follow each other: each changes what the one before it has left.
func TestWishesAtTheSameTime(t *testing.T) {
	onEngines(t, func(t *testing.T, _ string, b backends) {
		a, c := newClient(t, b(), "g", Options{By: "ann@h1"}), newClient(t, b(), "g", Options{By: "bob@h2"})
		id := submit(t, a, "k")
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				client, p := a, High
				if i%2 == 0 {
					client, p = c, Low
				}
				_, errA := client.SetPriority(t.Context(), id, p, fmt.Sprint(i))
				_, errB := client.Pause(t.Context(), id, fmt.Sprint(i))
				if err := errors.Join(errA, errB); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		e := one(t, a)
		entries, _, err := a.Audit(t.Context())
		if err != nil || e.Wish.Want != WantPause || int(e.Wish.Number) != len(entries) {
			t.Errorf("found %+v, %d entries, %v", e.Wish, len(entries), err)
		}
	})
}

// A wish without an answer is made once.
func TestWishUnknown(t *testing.T) {
	b := inMemory()
	reader := newClient(t, b(), "g", Options{By: "ann@h1"})
	for seed := range 60 {
		id := submitAs(t, reader, fmt.Sprint(seed), fmt.Sprint("user", seed%3)) // whose rates are bounded
		standing(t, reader, id, Standing{Status: StatusFailed, Ended: true})
		k := &killable{Backend: b(), at: -1, what: unknownNotDone + outcome(seed%3), rng: newRand(seed)}
		c := newClient(t, k, "g", Options{By: "bob@h2"})
		k.at = k.n
		w, err := c.Retry(t.Context(), id, "")
		for range 10 {
			_ = k.step()
		}
		e, errShow := reader.Show(t.Context(), id)
		if err != nil || errShow != nil || e.Wish.Retry != 1 || e.Wish.Number != 2 || !e.Wish.same(&w) {
			t.Fatalf("seed %d: found %+v, %v, %v, want %+v", seed, e.Wish, err, errShow, w)
		}
	}
}

// An experiment is found by what one alone has.
func TestFind(t *testing.T) {
	all := []Experiment{{ID: "261128-125213-aaaaaa", Spec: &Spec{Name: "night"}},
		{ID: "261128-125213-bbbbbb", Spec: &Spec{Name: "nightly"}},
		{ID: "261129-000000-cccccc", Spec: &Spec{Name: "day"}},
		{ID: "261130-000000-dddddd"}}
	for found, want := range map[string]string{
		"night": "aaaaaa", "nightl": "bbbbbb", "261129": "cccccc", "da": "cccccc", "bb": "bbbbbb",
		"261130-000000-dddddd": "dddddd",
		"nigh":                 "begins the ids or names of 2 experiments",
		"261128-125213":        "261128-125213-aaaaaa night, 261128-125213-bbbbbb nightly",
		"nihgtly":              "did you mean nightly?", "zzz": "`list` shows the 4", "": "there is no experiment",
	} {
		e, err := find(all, found)
		switch {
		case err == nil && !strings.HasSuffix(e.ID, want):
			t.Errorf("%q: found %s, want %s", found, e.ID, want)
		case err != nil && !strings.Contains(err.Error(), want):
			t.Errorf("%q: found %v, want %s", found, err, want)
		}
	}
}
