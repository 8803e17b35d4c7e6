// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/cputime"
	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/etcd"
)

// plantEnded makes experiments that have ended, with a specification of 1 kB or so each.
func plantEnded(ctx context.Context, t testing.TB, c *Client, count int) {
	t.Helper()
	hash := strings.Repeat("ab", 32)
	for i := range count {
		id := fmt.Sprintf("e%05d", i)
		spec := Spec{ID: id, Name: "night", User: "ann", Version: "v1", Key: hash, Digest: hash,
			Labels: map[string]string{"program": "0123456789abcdef"}, Steps: []Step{{Name: "a", File: "shop.yml",
				Text: Digest{SHA256: hash, Bytes: 1}, Args: []string{"--seed", "1", "--horizon", "60"},
				Points: [][]string{{"web.cpu=1"}, {"web.cpu=2"}, {"web.cpu=4"}}, Replications: 10, Workers: 1}}}
		var ops []metastore.Op
		for _, kv := range []struct {
			key   string
			value any
		}{{specKey(id), spec}, {wishKey(id), Wish{Number: 1, Want: WantRun, Priority: Normal, By: "ann"}},
			{statusKey(id), Standing{Status: StatusFinished, Ended: true, Wish: 1, Leader: "m0",
				Pieces: map[PieceState]int{Finished: 30}}}} {
			op, err := c.op(metastore.Create, kv.key, kv.value)
			if err != nil {
				t.Fatal(err)
			}
			ops = append(ops, op)
		}
		if err := c.store.Commit(ctx, nil, ops); err != nil {
			t.Fatal(err)
		}
	}
}

// newTerm is a leader's, of whose loop a test does the steps.
func newTerm(c *Client) *term {
	t := &term{LeaderOptions: LeaderOptions{Client: c, Name: "m0", Report: func(error) {}}, clock: time.Now(),
		malformed: map[string]bool{}}
	t.state, t.loaded = NewState("m0", 1, Rules{Keep: 5_000}), map[string]bool{}
	return t
}

// BenchmarkLook is what a leader's look costs beside experiments that have ended, and are kept.
func BenchmarkLook(b *testing.B) {
	ctx := b.Context()
	dir, err := os.MkdirTemp("", "disco-look-")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	e, err := storeserver.StartEtcds(ctx, dir, 1)
	if err != nil {
		b.Skip(err)
	}
	defer e.Close()
	for _, kept := range []int{10, 1_000, 5_000} {
		b.Run(fmt.Sprintf("kept=%d", kept), func(b *testing.B) {
			backend, err := etcd.New(ctx, etcd.Options{Endpoints: e.Addrs(), TTL: 30 * time.Second})
			if err != nil {
				b.Fatal(err)
			}
			s, err := metastore.New(ctx, backend, metastore.Options{Group: fmt.Sprint("g", kept), Base: Base()})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			c, err := New(ctx, s, Options{})
			if err != nil {
				b.Fatal(err)
			}
			plantEnded(ctx, b, c, kept)
			t := newTerm(c)
			if err := t.look(ctx); err != nil {
				b.Fatal(err)
			}
			Decide(t.state, time.Second)
			looks, before, at := 0, cputime.Self(), time.Second
			for b.Loop() {
				if err := t.look(ctx); err != nil {
					b.Fatal(err)
				}
				at += time.Second
				Decide(t.state, at)
				looks++
			}
			b.ReportMetric(1e3*(cputime.Self()-before)/float64(looks), "cpu-ms/look")
		})
	}
}

// TestLookAtFew has a leader beside many experiments that have ended read what may have changed, and miss nothing.
func TestLookAtFew(t *testing.T) {
	ctx := t.Context()
	c := newClient(t, inMemory()(), "g", Options{})
	plantEnded(ctx, t, c, fullMost+20)
	lead := newTerm(c)
	look := func() {
		t.Helper()
		if err := lead.look(ctx); err != nil {
			t.Fatal(err)
		}
		Decide(lead.state, lead.now())
	}
	wish := func(id string, number uint64) { // without a word in fleet/changed
		t.Helper()
		if err := c.store.Put(ctx, wishKey(id), Wish{Number: number, Want: WantRun, Priority: High, Retry: number,
			By: "ann"}); err != nil {
			t.Fatal(err)
		}
	}
	number := func(id string, want uint64) {
		t.Helper()
		if got := lead.state.experiments[id].wish.Number; got != want {
			t.Errorf("the leader knows the wish %d of %s, want %d", got, id, want)
		}
	}
	look()
	at := lead.full
	wish("e00003", 2)
	wish("e00007", 2)
	lead.hints.add("e00007 x")
	look()
	number("e00003", 1) // nobody has named it
	number("e00007", 2)
	if !lead.loaded["e00007"] || lead.full != at {
		t.Error("its pieces weren't read, or all was")
	}
	wish("e00007", 3) // it waits now, and is read each time
	plant(ctx, t, c, Spec{ID: "new", Steps: []Step{{Name: "a", Points: [][]string{{}}, Replications: 1, Workers: 1}}})
	look()
	number("e00007", 3)
	if lead.state.experiments["new"] == nil || lead.full != at {
		t.Error("what was submitted isn't there, or all was read")
	}
	if err := c.store.Put(ctx, wishKey("new"), "x"); err != nil {
		t.Fatal(err)
	}
	look() // what can't be read hinders nothing
	number("new", 1)
	lead.full = lead.full.Add(-fullEvery)
	look()
	number("e00003", 2)
	for _, value := range []string{"", "JX3T6YV", "no/id x"} { // nothing, an older build's, nonsense
		at := lead.full
		lead.hints.add(value)
		if look(); lead.full == at {
			t.Errorf("%q: not all was read", value)
		}
	}
	for i := range hintsMost + 1 {
		lead.hints.add(fmt.Sprint("e", i, " x"))
	}
	if ids, all := lead.hints.take(); len(ids) != hintsMost || !all {
		t.Errorf("found %d hints, %v", len(ids), all)
	}
}
