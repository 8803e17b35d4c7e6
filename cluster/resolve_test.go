// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestResolve(t *testing.T) {
	f := setUp(t)
	f.join("h1", 2)
	f.activate("h1-0", &Assignment{"e", "1", 0}) // node-0
	f.activate("h1-1", &Assignment{"e", "1", 1}) // node-1
	r := NewResolver(f.view, "shop", "h1-0", func(server string) (string, bool) {
		return "link to " + server, server == "h1-1"
	})
	for _, c := range []struct {
		ref, server, link string
		reach             Reach
	}{
		{"disco://shop/node-0/till", "h1-0", "", SameProcess},
		{"disco://shop/node-1?rep=1", "h1-1", "link to h1-1", SharedMemory},
		{"disco://shop/node-1", "h1-1", "link to h1-1", SharedMemory},
	} {
		ref, err := ParseRef(c.ref)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Resolve(ref)
		if err != nil || got.Server != c.server || got.Way != c.link || got.HasWay != (c.link != "") ||
			got.Reach != c.reach || got.Place != (Place{"1", ref.Node}) {
			t.Errorf("%s: %+v, %v", c.ref, got, err)
		}
	}
	outside := NewResolver[int](f.view, "shop", "", nil)
	if got, err := outside.Resolve(Ref{"shop", "node-0", "", "1"}); err != nil || got.Reach != Remote || got.HasWay {
		t.Errorf("from a program that is no server: %+v, %v", got, err)
	}
	if d := r.DeadLetters(); d.Times != 0 || len(d.Last) != 0 {
		t.Errorf("dead letters: %+v", d)
	}
}

// TestReach: two machines of one name share no memory; two names of one machine do.
func TestReach(t *testing.T) {
	f := setUp(t)
	for name, on := range map[string]Member{
		"h1": {Host: "node", Origin: "boot 1"}, "h2": {Host: "node", Origin: "boot 2"},
		"h3": {Host: "other", Origin: "boot 1"}, "h4": {Host: "node"}, "h5": {Host: "node"},
	} {
		on.Name, on.Status, on.Layout, on.Incarnation = name, Up, Layout, "life"
		if err := f.store.Put(f.ctx, dirMembers+"/"+name, on); err != nil {
			t.Fatal(err)
		}
		f.server0(name+"-0", Status{State: Available, Incarnation: "life"})
	}
	f.await("all are there", func() bool { return len(f.view.Servers()) == 5 && len(f.view.Members()) == 5 })
	for _, c := range []struct {
		from, to string
		want     Reach
	}{
		{"h1-0", "h1-0", SameProcess}, {"h1-0", "h2-0", Remote}, {"h1-0", "h3-0", SharedMemory},
		{"h4-0", "h5-0", Remote}, {"h1-0", "h9-0", Remote},
	} {
		if got := f.view.Reach(c.from, c.to); got != c.want {
			t.Errorf("from %s to %s: %v, want %v", c.from, c.to, got, c.want)
		}
	}
}

func TestDeadLetters(t *testing.T) {
	f := setUp(t)
	f.join("h1", 2)
	f.activate("h1-0", &Assignment{"e", "1", 0})
	f.activate("h1-1", &Assignment{"e", "2", 0})
	r := NewResolver[int](f.view, "shop", "h1-0", nil)
	for _, c := range []struct {
		ref  Ref
		want string
	}{
		{Ref{"bank", "node-0", "", "1"}, "this is the cluster"},
		{Ref{"shop", "node-9", "", "1"}, "no server hosts"},
		{Ref{"shop", "node-0", "", "3"}, "no server hosts"},
		{Ref{"shop", "node-9", "", ""}, "no server hosts"},
		{Ref{"shop", "node-0", "", ""}, "2 replications"},
	} {
		for range 2 {
			if _, err := r.Resolve(c.ref); err == nil || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), c.ref.String()) {
				t.Errorf("%v: %v, want %q", c.ref, err, c.want)
			}
		}
	}
	if d := r.DeadLetters(); d.Times != 10 || len(d.Last) != 5 || d.Last[4].Times != 2 ||
		d.Last[4].URI != "disco://shop/node-0" {
		t.Errorf("%+v", d)
	}
	for i := range 3 * maxDead {
		if _, err := r.Resolve(Ref{"shop", fmt.Sprint("lost-", i), "", "1"}); err == nil {
			t.Fatal("a node that is nowhere was found")
		}
	}
	d := r.DeadLetters()
	if want := fmt.Sprint("disco://shop/lost-", 3*maxDead-1, "?rep=1"); d.Times != 10+3*maxDead ||
		len(d.Last) != maxDead || d.Last[maxDead-1].URI != want {
		t.Errorf("%d times, %d kept, the last is %+v", d.Times, len(d.Last), d.Last[len(d.Last)-1])
	}
	if _, err := r.Resolve(Ref{"shop", strings.Repeat("\n", 2*maxRef), "", ""}); err == nil {
		t.Error("a node that is nowhere was found")
	}
	if d := r.DeadLetters(); len(d.Last[maxDead-1].URI) > maxRef+3 || len(d.Last[maxDead-1].Reason) > 1000 {
		t.Errorf("a letter of %d bytes, a reason of %d", len(d.Last[maxDead-1].URI), len(d.Last[maxDead-1].Reason))
	}
}

// shownDeadLetters: what a server's resolver couldn't resolve is seen by others, bounded, also after its session was
// lost, and is gone with the server. Another server's that can't be read hurt nobody.
func shownDeadLetters(f *fixture) {
	m := f.join("h1", 1)
	r := NewResolver[int](f.view, "shop", "h1-0", nil)
	m.workers[0].Resolves(r)
	lose := func(n int) {
		for i := range n {
			if _, err := r.Resolve(Ref{"shop", fmt.Sprint("lost-", i), "", ""}); err == nil {
				f.Error("a node that is nowhere was found")
			}
		}
	}
	shown := func(times uint64, kept int) {
		f.Helper()
		for {
			all, malformed, err := ReadDeadLetters(f.ctx, f.store)
			if err != nil {
				f.Fatal(err)
			}
			d := all["h1-0"]
			if d.Times == times {
				if len(d.Last) != kept || len(malformed) > 1 || d.Last[kept-1].Reason == "" {
					f.Errorf("%+v, malformed %v", d, malformed)
				}
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	lose(3)
	shown(3, 3)
	if err := f.store.Put(f.ctx, dirDead+"/h9-0", "none"); err != nil {
		f.Fatal(err)
	}
	lose(maxDead)
	shown(3+maxDead, maxShown)
	m.client.EndSession()
	lose(1)
	shown(4+maxDead, maxShown)
	if err := errors.Join(m.Leave(f.ctx), f.store.Delete(f.ctx, dirDead+"/h9-0")); err != nil {
		f.Fatal(err)
	}
	f.empty()
}
