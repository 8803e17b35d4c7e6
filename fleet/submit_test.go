// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/mem"
)

// shop is a submission of three pieces, with an attachment of two parts.
func shop(key string) *Submission {
	return &Submission{Key: key, Name: "shop", User: "ann@h1", Version: "v1", Priority: Normal, Steps: []SubmittedStep{{
		Step: Step{File: "shop.yml", Args: []string{"--seed", "7"}, Points: [][]string{nil}, Replications: 3,
			Workers: 1},
		Scenario: []byte("model: x\n"),
		Attached: []File{{"net.gml", bytes.Repeat([]byte("edge"), 300_000)}, {"empty", nil}},
	}}}
}

// whole fails where an experiment isn't whole, or isn't what was submitted.
func whole(t *testing.T, c *Client, e *Experiment, s *Submission) {
	t.Helper()
	if len(e.Malformed) > 0 || e.Spec == nil || e.Wish == nil || e.Wish.Number != 1 || e.Wish.Want != WantRun {
		t.Fatalf("found %+v", e)
	}
	for i, step := range e.Spec.Steps {
		sent := s.Steps[i]
		want := map[string][]byte{"": sent.Scenario}
		for _, f := range sent.Attached {
			want[f.Name] = f.Data
		}
		found := map[string]Digest{"": step.Text}
		for _, a := range step.Attachments {
			found[a.Name] = a.Digest
		}
		if len(found) != len(want) {
			t.Errorf("found the files %v", found)
		}
		for name, d := range found {
			if data, err := c.Blob(t.Context(), d); err != nil || !bytes.Equal(data, want[name]) {
				t.Errorf("file %q: found %d bytes, %v", name, len(data), err)
			}
		}
	}
}

// one is the only experiment of a group.
func one(t *testing.T, c *Client) *Experiment {
	t.Helper()
	all, err := c.List(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("found %d experiments, %v", len(all), err)
	}
	return &all[0]
}

func TestSubmit(t *testing.T) {
	onEngines(t, func(t *testing.T, _ string, b backends) {
		c := newClient(t, b(), "g", Options{By: "ann@h1", From: "submit"})
		id, duplicate, err := c.Submit(t.Context(), shop("k"))
		if err != nil || duplicate {
			t.Fatalf("found %v, %v", duplicate, err)
		}
		e := one(t, c)
		whole(t, c, e, shop("k"))
		if e.ID != id || e.Status() != StatusSubmitted || e.Ended() {
			t.Errorf("found %+v, want %s", e, id)
		}
		again, duplicate, err := newClient(t, b(), "g", Options{}).Submit(t.Context(), shop("k"))
		if err != nil || !duplicate || again != id {
			t.Errorf("found %s, %v, %v, want %s", again, duplicate, err, id)
		}
		other := shop("k")
		other.Steps[0].Replications++
		taken := (*KeyTakenError)(nil)
		if _, _, err = c.Submit(t.Context(), other); !errors.As(err, &taken) || taken.ID != id ||
			taken.Other != e.Spec.Digest || taken.Digest == taken.Other {
			t.Errorf("found %v", err)
		}
		entries, malformed, err := c.Audit(t.Context())
		if err != nil || len(malformed) > 0 || len(entries) != 1 || entries[0].What != "submit" ||
			entries[0].ID != id || entries[0].By != "ann@h1" || entries[0].From != "submit" {
			t.Errorf("found %+v, %v, %v", entries, malformed, err)
		}
	})
}

// A hundred clients submit with one key at the same time: one experiment, one id, one of them no duplicate.
func TestOneKeyManyClients(t *testing.T) {
	onEngines(t, func(t *testing.T, name string, b backends) {
		var clients []*Client
		for range 5 {
			clients = append(clients, newClient(t, b(), "g", Options{By: "ann@h1"}))
		}
		s := shop("k")
		s.Steps[0].Attached = s.Steps[0].Attached[1:]
		var mu sync.Mutex
		ids, first := map[string]int{}, 0
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				id, duplicate, err := clients[i%len(clients)].Submit(t.Context(), s)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				if ids[id]++; !duplicate {
					first++
				}
			})
		}
		all.Wait()
		if len(ids) != 1 || first != 1 {
			t.Errorf("found the ids %v, %d of them new", ids, first)
		}
		whole(t, clients[0], one(t, clients[0]), s)
	})
}

var submits = flag.Int("submits", 0, "how many submissions TestSubmitKilled makes on each engine; 0: 300 and 25, or "+
	"50 and 25 with -short")

// The client is killed at each of its commits, or gets no answer to one, which is done or not, or later: what was
// answered is there, what is there is whole, and the retry makes one experiment of both.
func TestSubmitKilled(t *testing.T) {
	seeds := map[string]int{"mem": 300, "etcd": 25, "zk": 25}
	if testing.Short() {
		seeds["mem"] = 50
	}
	if n := *submits; n > 0 {
		seeds = map[string]int{"mem": n, "etcd": n, "zk": n}
	}
	onEngines(t, func(t *testing.T, name string, b backends) {
		answered, there := 0, 0
		for seed := range seeds[name] {
			rng := rand.New(rand.NewPCG(uint64(seed), 0))
			what, at := outcome(seed)%outcomes, rng.IntN(8)
			a, e := killedAt(t, b, fmt.Sprintf("g%d", seed), at, what, rng)
			if t.Failed() {
				t.Fatalf("seed %d: commit %d, outcome %d", seed, at, what)
			}
			answered, there = answered+a, there+e
		}
		if n := seeds[name]; answered == 0 || answered == n || there == n || there < answered {
			t.Errorf("of %d submissions %d were answered and %d there", n, answered, there)
		}
	})
}

// killedAt counts what was answered, and what was there before the retry.
func killedAt(t *testing.T, b backends, group string, at int, what outcome, rng *rand.Rand) (answered, there int) {
	reader := newClient(t, b(), group, Options{By: "bob"})
	k := &killable{Backend: b(), at: -1, what: what, rng: rng}
	c := newClient(t, k, group, Options{By: "ann@h1"})
	k.mu.Lock()
	k.at = k.n + at
	k.mu.Unlock()
	s := shop("k")
	if _, isMem := k.Backend.(*mem.Client); !isMem { // ZooKeeper's tests have little memory
		s.Steps[0].Attached[0].Data = []byte("edges")
	}
	id, _, err := c.Submit(t.Context(), s)
	if err != nil && !errors.Is(err, errKilled) {
		t.Errorf("found %v", err)
	}
	before, listErr := reader.List(t.Context())
	if listErr != nil || len(before) > 1 || err == nil && len(before) != 1 {
		t.Fatalf("found %d experiments, %v, after %v", len(before), listErr, err)
	}
	for i := range before {
		whole(t, reader, &before[i], s)
		if err == nil && before[i].ID != id {
			t.Errorf("found %s, want %s, which was answered", before[i].ID, id)
		}
	}
	again, _, againErr := reader.Submit(t.Context(), s)
	_ = k.step() // what is late comes after the retry, too
	for range 10 {
		_ = k.step()
	}
	e := one(t, reader)
	whole(t, reader, e, s)
	if againErr != nil || again != e.ID || err == nil && id != again || len(before) > 0 && before[0].ID != again {
		t.Errorf("found %s, %v, want %s, or %q", again, againErr, e.ID, id)
	}
	if err == nil {
		answered = 1
	}
	return answered, len(before)
}

// slow is a backend that waits before commits under conditions, so that others come between.
type slow struct{ metastore.Backend }

func (s slow) Commit(ctx context.Context, conds []metastore.Cond, ops []metastore.Op) error {
	if len(conds) > 0 {
		time.Sleep(rand.N(300 * time.Microsecond))
	}
	return s.Backend.Commit(ctx, conds, ops)
}

// Blobs are removed all the time while others submit: no experiment loses a file.
func TestBlobsRemovedMeanwhile(t *testing.T) {
	b := inMemory()
	leader := newClient(t, b(), "g", Options{})
	done := make(chan struct{})
	var submitters, all sync.WaitGroup
	removed := 0 // or tried, where somebody has named it since
	all.Go(func() {
		for {
			unused, err := leader.UnusedBlobs(t.Context())
			for _, u := range unused {
				err = errors.Join(err, leader.RemoveBlob(t.Context(), u))
				removed++
			}
			if err != nil {
				t.Error(err)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for who := range 4 {
		c := newClient(t, slow{b()}, "g", Options{By: "ann@h1"})
		submitters.Go(func() {
			for i := range 25 {
				s := shop(fmt.Sprint(who, i))
				s.User = fmt.Sprint("user", who) // whose rates are bounded
				s.Steps[0].Attached = []File{{"f", []byte(fmt.Sprint(i))}}
				if _, _, err := c.Submit(t.Context(), s); err != nil && !removedAgain(err) {
					t.Error(err)
				}
			}
		})
	}
	submitters.Wait()
	close(done)
	all.Wait()
	experiments, err := leader.List(t.Context())
	if err != nil || len(experiments) == 0 {
		t.Fatalf("found %d experiments, %v", len(experiments), err)
	}
	for _, e := range experiments {
		for _, d := range e.Spec.blobs() {
			if _, err := leader.Blob(t.Context(), d); err != nil {
				t.Error(err)
			}
		}
	}
	if unused, err := leader.UnusedBlobs(t.Context()); err != nil || len(unused) > 0 {
		t.Errorf("found %d blobs that nobody names, %v", len(unused), err)
	}
	if removed == 0 {
		t.Error("nothing was removed while others submitted")
	}
}

// removedAgain tells whether a submission was given up because its blobs were removed each time that they were written:
// all of them behind that, or one of them within it. The leader of the test above never stops to remove.
func removedAgain(err error) bool {
	return strings.Contains(err.Error(), "were removed") ||
		strings.Contains(err.Error(), fmt.Sprintf("was removed %d times while it was written", blobTries))
}

// A blob that nobody named when the leader looked stays where somebody has named it, or written it whole, since.
func TestBlobNamedMeanwhile(t *testing.T) {
	c, ctx := newClient(t, inMemory()(), "g", Options{By: "ann@h1"}), t.Context()
	s := shop("k")
	s.Steps[0].Attached = nil
	text, err := c.PutBlob(ctx, s.Steps[0].Scenario)
	part := digestOf([]byte("torn"))
	if err == nil {
		err = c.store.Put(ctx, blobPartKey(part.SHA256, 0), []byte("torn")) // its writer was killed before the head
	}
	if err != nil {
		t.Fatal(err)
	}
	unused, err := c.UnusedBlobs(ctx)
	if err != nil || len(unused) != 2 {
		t.Fatalf("found %v, %v", unused, err)
	}
	if _, _, err := c.Submit(ctx, s); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PutBlob(ctx, []byte("torn")); err != nil {
		t.Fatal(err)
	}
	for _, u := range unused {
		if err := c.RemoveBlob(ctx, u); err != nil {
			t.Error(err)
		}
	}
	for _, d := range []Digest{text, part} {
		if _, err := c.Blob(ctx, d); err != nil {
			t.Error(err)
		}
	}
	now, err := c.UnusedBlobs(ctx)
	if err != nil || len(now) != 1 || now[0].SHA256 != part.SHA256 {
		t.Fatalf("found %v, %v", now, err)
	}
	if err := c.RemoveBlob(ctx, now[0]); err != nil {
		t.Error(err)
	}
	if names, err := c.names(ctx, keyBlobs); err != nil || len(names) != 1 {
		t.Errorf("found %v, %v", names, err)
	}
}

// All that is wrong with a submission is said at once, and nothing is sent.
func TestBadSubmissions(t *testing.T) {
	c := newClient(t, inMemory()(), "g", Options{})
	for _, bad := range []struct {
		change func(*Submission)
		want   []string
	}{
		{func(s *Submission) { s.Key, s.Name, s.Priority = "", "", "urgent" },
			[]string{"idempotency-key: found nothing", "name: found nothing", `"urgent"`, "high, normal or low"}},
		{func(s *Submission) { s.Name = strings.Repeat("x", 201) }, []string{"found 201 bytes, want at most 200"}},
		{func(s *Submission) { s.Name = "a\x1bb" }, []string{"control character"}},
		{func(s *Submission) { s.Name, s.Place = "a\nb", "/a\tb" }, []string{"name: found a tab or the end of a line",
			"place: found a tab"}},
		{func(s *Submission) { s.Steps[0].Replications = MaxPieces + 1 }, []string{"replications: found 1000001"}},
		{func(s *Submission) { s.Steps[0].Points = make([][]string, 2); s.Steps[0].Replications = MaxPieces },
			[]string{"found 2000000, want 1 to 1000000"}},
		{func(s *Submission) { s.Steps[0].Workers = 0 }, []string{"workers: found 0"}},
		{func(s *Submission) { s.Steps[0].Scenario = make([]byte, MaxText+1) },
			[]string{`the scenario "shop.yml": found 8388609 bytes`}},
		{func(s *Submission) { s.Steps[0].Attached = []File{{"roads.csv", make([]byte, MaxText+1)}} },
			[]string{`step 0: the attachment "roads.csv": found 8388609 bytes, want 0 to 8388608`}},
		{func(s *Submission) { s.Steps = nil }, []string{"steps: found 0, want 1 to 100"}},
		{func(s *Submission) { s.Labels = map[string]string{"": "x"} }, []string{"label's name"}},
		{func(s *Submission) { s.Limits.Total = -1 }, []string{"total: found a time below 0"}},
		{func(s *Submission) {
			s.Steps[0].Points = [][]string{{"a=" + strings.Repeat("x", 600_000)}, {"a=" + strings.Repeat("y", 600_000)}}
		}, []string{"bytes in JSON, want at most 900000"}},
		{func(s *Submission) {
			for i := range 100 {
				s.Steps[0].Attached = append(s.Steps[0].Attached, File{fmt.Sprint(i), []byte{byte(i)}})
			}
		}, []string{"different files: found 103, want 0 to 45"}},
		{func(s *Submission) {
			s.Steps = append(s.Steps, s.Steps[0], s.Steps[0])
			s.Steps[0].Name, s.Steps[1].Name, s.Steps[2].Name = "a", "b", "c"
			s.Steps[0].After, s.Steps[1].After, s.Steps[2].After = []string{"b"}, []string{"a"}, []string{"z"}
		}, []string{"wait for each other", `after: found "z"`}},
	} {
		s := shop("k")
		bad.change(s)
		_, _, err := c.Submit(t.Context(), s)
		for _, want := range bad.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("found %v, want %q", err, want)
			}
		}
		if err != nil && strings.Contains(err.Error(), "found 0, want 1 to 1000000") {
			t.Errorf("found %v, which has pieces that nobody has counted", err)
		}
	}
	values, err := c.store.Walk(t.Context(), "fleet")
	for _, v := range values {
		if v.HasValue() {
			t.Errorf("found %s", v.Key())
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// A group that is full takes no more, says so with figures, and takes the duplicate of what it has.
func TestFull(t *testing.T) {
	c := newClient(t, inMemory()(), "g", Options{By: "ann@h1", Experiments: 2, History: 10})
	for i := range 2 {
		if _, _, err := c.Submit(t.Context(), shop(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	full := (*FullError)(nil)
	if _, _, err := c.Submit(t.Context(), shop("2")); !errors.As(err, &full) || full.There != 2 || full.Most != 2 {
		t.Errorf("found %v", err)
	}
	id, duplicate, err := c.Submit(t.Context(), shop("1"))
	if err != nil || !duplicate {
		t.Errorf("found %v, %v", duplicate, err)
	}
	for range 20 { // the audit is bounded, too
		_, errA := c.Pause(t.Context(), id, "")
		_, errB := c.Continue(t.Context(), id, "")
		if err := errors.Join(errA, errB); err != nil {
			t.Fatal(err)
		}
	}
	entries, _, err := c.Audit(t.Context())
	if err != nil || len(entries) < 10 || len(entries) > 11 || entries[len(entries)-1].What != doContinue {
		t.Errorf("found %d entries, %v", len(entries), err)
	}
}

// A group of another layout is refused.
func TestOtherLayout(t *testing.T) {
	b := inMemory()
	c := newClient(t, b(), "g", Options{})
	if err := c.store.Put(t.Context(), keyFormat, Layout+1); err != nil {
		t.Fatal(err)
	}
	_, err := New(t.Context(), c.store, Options{})
	if err == nil || !strings.Contains(err.Error(), "have layout 2, this program writes 1") {
		t.Errorf("found %v", err)
	}
	if _, _, err := c.Submit(t.Context(), shop("k")); err == nil || !strings.Contains(err.Error(), "layout 2") {
		t.Errorf("found %v", err)
	}
}

// A store that can't be reached is an error when ctx ends, and the retry is right.
func TestSubmitWithoutStore(t *testing.T) {
	b := inMemory()
	backend := b()
	c := newClient(t, backend, "g", Options{By: "ann@h1"})
	away := backend.(interface{ Disconnect() })
	away.Disconnect()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := c.Submit(ctx, shop("k")); !errors.Is(err, metastore.ErrUnavailable) {
		t.Errorf("found %v", err)
	}
}
