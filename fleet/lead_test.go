// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/mem"
)

// agent is a member with servers that only report, and a candidate for leading.
type agent struct {
	name   string
	store  *metastore.Store
	client *Client
	bad    PieceID // has a model's error
	hang   PieceID // doesn't end
	t      testing.TB
}

// pretender is one server of an agent.
type pretender struct {
	agent    *agent
	reporter *cluster.Reporter
	mu       sync.Mutex
	a        cluster.Assignment
}

func (p *pretender) Initialize(_ context.Context, a cluster.Assignment) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.a = a
	return nil, nil
}

func (p *pretender) Activate(ctx context.Context) error {
	p.mu.Lock()
	a := p.a
	p.mu.Unlock()
	attempt, err := ParseAttemptID(a.Replication)
	if err != nil || a.Partition != 0 || attempt.PieceID == p.agent.hang {
		return err
	}
	r := Report{Attempt: attempt.Attempt, State: Finished, Number: 1, Kept: &Kept{Hash: fmt.Sprint(attempt.PieceID)}}
	if attempt.PieceID == p.agent.bad {
		r.State, r.Kept, r.Error = Failed, nil, &Error{Type: ErrorModel, Message: "a negative delay"}
	}
	if err := p.agent.client.PutReport(ctx, p.agent.name, a.Experiment, attempt.PieceID, r); err != nil {
		return err
	}
	go p.reporter.Ended(nil)
	return nil
}

func (p *pretender) Pause(context.Context) error     { return nil }
func (p *pretender) Terminate(context.Context) error { return nil }

// start joins, and leads when it is elected; the function that it returns ends it, and waits.
func (a *agent) start(ctx context.Context, server *mem.Server) (stop func()) {
	var err error
	base := append(cluster.Base(), Base()...)
	if a.store, err = metastore.New(ctx, server.NewClient(), metastore.Options{Group: "g", Base: base}); err != nil {
		a.t.Fatal(err)
	}
	if a.client, err = New(ctx, a.store, Options{By: a.name}); err != nil {
		a.t.Fatal(err)
	}
	member, err := cluster.Join(ctx, a.store, cluster.Options{Name: a.name, Version: "v1", Slots: 2,
		Roles:  []string{Role},
		Runner: func(_ int, r *cluster.Reporter) cluster.Runner { return &pretender{agent: a, reporter: r} },
		Report: func(error) {}})
	if err != nil {
		a.t.Fatal(err)
	}
	view, err := cluster.Open(ctx, a.store)
	if err != nil {
		a.t.Fatal(err)
	}
	leading, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = Lead(leading, LeaderOptions{Client: a.client, View: view, Campaign: member.Lead, Name: a.name,
			Rules:  Rules{Settle: 50 * time.Millisecond, Sweep: time.Second / 50, Unused: time.Second / 20},
			Report: func(err error) { a.t.Log(err) }})
	}()
	return func() {
		cancel()
		<-done
		view.Close()
		if err := a.store.Close(); err != nil {
			a.t.Error(err)
		}
		<-member.Done()
	}
}

// plant submits a specification.
func plant(ctx context.Context, t testing.TB, c *Client, spec Spec) {
	t.Helper()
	hash := strings.Repeat("ab", 32)
	spec.Name, spec.User, spec.Version, spec.Key, spec.Digest = "night", "ann", "v1", hash, hash
	for i := range spec.Steps {
		spec.Steps[i].File, spec.Steps[i].Text = "shop.yml", Digest{SHA256: hash, Bytes: 1}
	}
	var ops []metastore.Op
	for _, kv := range []struct {
		key   string
		value any
	}{{specKey(spec.ID), spec}, {wishKey(spec.ID), Wish{Number: 1, Want: WantRun, Priority: Normal, By: "ann"}}} {
		op, err := c.op(metastore.Create, kv.key, kv.value)
		if err != nil {
			t.Fatal(err)
		}
		ops = append(ops, op)
	}
	op, err := c.wake(spec.ID)
	if err == nil {
		err = c.store.Commit(ctx, nil, append(ops, op))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// awaitStanding waits until an experiment is as it should be.
func awaitStanding(ctx context.Context, t testing.TB, c *Client, id string, want func(x *Standing) bool) *Standing {
	t.Helper()
	for {
		e, err := c.Show(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if e.Standing != nil && want(e.Standing) {
			return e.Standing
		}
		select {
		case <-ctx.Done():
			pieces, _, _ := c.Pieces(context.WithoutCancel(ctx), id)
			t.Fatalf("found %+v, pieces %+v", e.Standing, pieces)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// TestLead has three members simulate two experiments under whoever leads, who goes in between.
func TestLead(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	server := mem.NewServer(time.Second)
	never := PieceID{9, 9, 9}
	first := &agent{name: "m0", bad: PieceID{0, 0, 3}, hang: PieceID{0, 1, 1}, t: t}
	stopFirst := first.start(ctx, server)
	second := &agent{name: "m1", bad: first.bad, hang: never, t: t}
	stopSecond := second.start(ctx, server)
	third := &agent{name: "m2", bad: first.bad, hang: never, t: t}
	stopThird := third.start(ctx, server)
	defer stopThird()
	defer stopSecond()

	unused, err := third.client.PutBlob(ctx, []byte("of a submission that was given up"))
	if err != nil {
		t.Fatal(err)
	}
	plant(ctx, t, third.client, Spec{ID: "e1", Steps: []Step{{Name: "a", Points: [][]string{{}, {}}, Replications: 20,
		Workers: 2}}})
	// The bad piece's first attempt has ended too: it would be lost with the first member otherwise, if that has it.
	awaitStanding(ctx, t, third.client, "e1", func(x *Standing) bool {
		return x.Pieces[Finished] >= 5 && x.Failed == 1
	})
	stopFirst() // it was the first candidate, so it leads
	x := awaitStanding(ctx, t, third.client, "e1", func(x *Standing) bool { return x.Ended })
	if x.Status != StatusFailed || x.Pieces[Finished] != 39 || x.Failed != 1 || len(x.Errors) != 1 ||
		x.Errors[0].Piece != first.bad || x.Errors[0].Attempt != 1 || x.Leader == "m0" {
		t.Errorf("found %+v", x)
	}
	pieces, malformed, err := third.client.Pieces(ctx, "e1")
	if err != nil || len(malformed) > 0 || len(pieces) != 40 {
		t.Fatal(len(pieces), malformed, err)
	}
	for id, p := range pieces {
		if id != first.bad && (p.State != Finished || p.Kept.Hash != id.String() || p.Ended == nil) {
			t.Errorf("%v: %+v", id, p)
		}
	}
	for { // the leader looks each 5 s at least
		left, err := third.client.UnusedBlobs(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if _, err := third.client.Blob(ctx, unused); err == nil {
		t.Error("the blob is still there")
	}
	for {
		reports, _, err := third.client.Reports(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(reports) == 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
}
