// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/metastore/mem"
)

// TestSweepOrphans: pieces that a door has written, whose experiment never came, and logs that came while one was
// removed, go when their time has come, and nothing else does.
func TestSweepOrphans(t *testing.T) {
	onEngines(t, func(t *testing.T, _ string, b backends) {
		c, ctx := newClient(t, b(), "g", Options{By: "ann@h1"}), t.Context()
		there, gone := submit(t, c, "k"), SiteID("260101-000000-abc123", 2)
		late := SiteID("260101-000000-abc123", 3)
		many := map[PieceID]Piece{}
		for i := range removeBatch + 5 {
			many[PieceID{Replication: i}] = Piece{State: Finished, Attempt: 1, Kept: &Kept{Place: "x", Hash: "h"}}
		}
		for _, id := range []string{there, gone, late} {
			if err := c.putTaken(ctx, id, many); err != nil {
				t.Fatal(err)
			}
			if err := c.store.Put(ctx, logKey(id, AttemptID{Attempt: 1}), "text"); err != nil {
				t.Fatal(err)
			}
		}
		first, err := c.SweepOrphans(ctx, nil, 0, time.Hour)
		if err != nil || len(first) != 4 {
			t.Fatalf("found %v, %v, want pieces and logs of two", first, err)
		}
		home := newClient(t, mem.NewServer(time.Minute).NewClient(), "g", Options{By: "door"})
		submit(t, home, "k")
		h := Home{ID: "260101-000000-abc123", Epoch: 3, Door: "d"}
		if err := c.Adopt(ctx, one(t, home).Spec, *one(t, home).Wish, h, nil, home.Blob); err != nil {
			t.Fatal(err)
		}
		again, err := c.SweepOrphans(ctx, first, 59*time.Minute, time.Hour)
		if err != nil || len(again) != 2 {
			t.Errorf("found %v, %v, want those of %s", again, err, gone)
		}
		last, err := c.SweepOrphans(ctx, again, time.Hour, time.Hour)
		if err != nil || len(last) != 0 {
			t.Errorf("found %v, %v, want none", last, err)
		}
		values, err := c.store.Walk(ctx, "fleet")
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]int{}
		for _, v := range values {
			for _, id := range []string{there, gone, late} {
				if strings.Contains(v.Key(), "/"+id+"/") && v.HasValue() || strings.HasSuffix(v.Key(), "/"+gone) {
					found[id]++
				}
			}
		}
		if found[gone] > 0 || found[there] != 2+len(many)+1 || found[late] != 2+len(many)+1 {
			t.Errorf("found %v", found)
		}
	})
}

// The name under which parts lie is the home's id, at each site.
func TestPlaceIDOf(t *testing.T) {
	for id, want := range map[string]string{
		"260101-000000-abc123": "260101-000000-abc123", "260101-000000-abc123_7": "260101-000000-abc123",
		"ann.260101-000000-abc123_12": "ann.260101-000000-abc123", "260101-000000-abc123_x": "260101-000000-abc123_x",
		"ann_1.260101-000000-abc123": "ann_1.260101-000000-abc123", "mine_1": "mine_1", "": "", "_1": "_1",
	} {
		if got := PlaceIDOf(id); got != want {
			t.Errorf("%q: found %q, want %q", id, got, want)
		}
	}
	s := Spec{ID: SiteID("260101-000000-abc123", 7), Home: &Home{ID: "260101-000000-abc123", Epoch: 7}}
	if PlaceIDOf(s.ID) != s.PlaceID() {
		t.Errorf("found %q, want %q", PlaceIDOf(s.ID), s.PlaceID())
	}
}
