// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"testing"
	"time"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/mem"
)

// TestAttended: a group is attended by members that have an executor, as long as they are there, and by those of which
// that can't be read; not by others, nor where nobody has ever been.
func TestAttended(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server := mem.NewServer(10 * time.Second)
	open := func(base ...string) (*metastore.Store, *Client) {
		s, err := metastore.New(ctx, server.NewClient(), metastore.Options{Group: "g", Base: base})
		if err != nil {
			t.Fatal(err)
		}
		c, err := New(ctx, s, Options{By: "ann"})
		if err != nil {
			t.Fatal(err)
		}
		return s, c
	}
	store, c := open()
	defer store.Close()
	want := func(when string, want bool) {
		t.Helper()
		if found, err := c.Attended(ctx); found != want || err != nil {
			t.Errorf("%s: found %v, %v; want %v", when, found, err, want)
		}
	}
	want("nobody was ever there", false)
	join := func(name string, roles ...string) (leave func()) {
		s, _ := open(append(cluster.Base(), Base()...)...)
		m, err := cluster.Join(ctx, s, cluster.Options{Name: name, Version: "v1", Slots: 1, Roles: roles,
			Runner: func(_ int, r *cluster.Reporter) cluster.Runner { return &pretender{reporter: r} },
			Report: func(error) {}})
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := m.Leave(ctx); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			<-m.Done()
		}
	}
	defer join("h1", "other")()
	want("a member without an executor", false)
	leave := join("h2", Role)
	want("a member with an executor", true)
	leave()
	want("it has left", false)
	if err := store.Put(ctx, "cluster/members/h3", 7); err != nil {
		t.Fatal(err)
	}
	want("a member that can't be read", true)
}
