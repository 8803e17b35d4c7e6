// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strings"
	"testing"
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
	if times, last := r.DeadLetters(); times != 0 || len(last) != 0 {
		t.Errorf("%d dead letters: %v", times, last)
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
	times, last := r.DeadLetters()
	if times != 10 || len(last) != 5 || last[4].Times != 2 || last[4].Ref.Node != "node-0" {
		t.Errorf("%d times, %+v", times, last)
	}
	for i := range 3 * maxDead {
		if _, err := r.Resolve(Ref{"shop", fmt.Sprint("lost-", i), "", "1"}); err == nil {
			t.Fatal("a node that is nowhere was found")
		}
	}
	times, last = r.DeadLetters()
	if times != 10+3*maxDead || len(last) != maxDead || last[maxDead-1].Ref.Node != fmt.Sprint("lost-", 3*maxDead-1) {
		t.Errorf("%d times, %d kept, the last is %+v", times, len(last), last[len(last)-1])
	}
}
