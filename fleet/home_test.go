// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"testing"
	"time"

	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/mem"
)

// routed is an experiment of a home that was given to a site, as it is read then.
func routed(t *testing.T, c *Client, id, site string, epoch uint64) *Experiment {
	t.Helper()
	e, err := c.Show(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetRoute(t.Context(), e, Route{Epoch: epoch, Site: site, Why: "a test"}); err != nil {
		t.Fatal(err)
	}
	if e, err = c.Show(t.Context(), id); err != nil || e.Route == nil || e.Route.Site != site || len(e.Malformed) > 0 {
		t.Fatalf("found %+v, %v", e, err)
	}
	return e
}

// What was done under a route that was replaced changes nothing: results, standings, and another route.
func TestRoutesFence(t *testing.T) {
	c := newClient(t, mem.NewServer(time.Minute).NewClient(), "g", Options{By: "door"})
	id, _, err := c.Submit(t.Context(), shop("k"))
	if err != nil {
		t.Fatal(err)
	}
	first := routed(t, c, id, "a", 1)
	p := PieceID{}
	done := map[PieceID]Piece{p: {State: Finished, Attempt: 1, Site: "a", Kept: &Kept{Place: "x", Hash: "h"}}}
	second := routed(t, c, id, "b", 2)
	conflict := (*metastore.ConflictError)(nil)
	err = c.TakePieces(t.Context(), first, nil, done)
	if !errors.As(err, &conflict) || conflict.Cond != first.Routed() {
		t.Errorf("results of the route before: found %v", err)
	}
	if err := c.SetStanding(t.Context(), id, metastore.Version{}, Standing{Status: StatusFinished, Ended: true},
		first.Routed()); !errors.As(err, &conflict) {
		t.Errorf("the standing: found %v", err)
	}
	if err := c.SetRoute(t.Context(), first, Route{Epoch: 2, Site: "c"}); !errors.As(err, &conflict) {
		t.Errorf("a route by the one before: found %v", err)
	}
	if pieces, _, err := c.Pieces(t.Context(), id); err != nil || len(pieces) != 0 {
		t.Errorf("found %v, %v", pieces, err)
	}
	if err := c.TakePieces(t.Context(), second, nil, done); err != nil {
		t.Errorf("results of this route: %v", err)
	}
	pieces, _, err := c.Pieces(t.Context(), id)
	if err != nil || pieces[p].State != Finished || pieces[p].Site != "a" {
		t.Errorf("found %v, %v", pieces, err)
	}
	wrong := (*MoveError)(nil)
	if err := c.TakePieces(t.Context(), second, pieces, done); !errors.As(err, &wrong) {
		t.Errorf("a piece that is FINISHED is written again: %v", err)
	}
}

// What a door gives to a site is there whole, once however often it is given, and belongs to the door.
func TestAdopt(t *testing.T) {
	home := newClient(t, mem.NewServer(time.Minute).NewClient(), "g", Options{By: "door"})
	site := newClient(t, mem.NewServer(time.Minute).NewClient(), "g", Options{By: "door", Experiments: 2})
	id, _, err := home.Submit(t.Context(), shop("k"))
	if err != nil {
		t.Fatal(err)
	}
	e := routed(t, home, id, "a", 3)
	h := Home{ID: id, Epoch: 3, Door: "tree"}
	taken := map[PieceID]Piece{{Replication: 1}: {State: Finished, Attempt: 2, Site: "b",
		Kept: &Kept{Place: "x", Hash: "h"}}}
	for range 2 {
		if err := site.Adopt(t.Context(), e.Spec, *e.Wish, h, taken, home.Blob); err != nil {
			t.Fatal(err)
		}
	}
	x := one(t, site)
	whole(t, site, x, shop("k"))
	if x.ID != SiteID(id, 3) || x.Spec.Home == nil || *x.Spec.Home != h || x.Spec.PlaceID() != id {
		t.Errorf("found %+v", x.Spec)
	}
	if pieces, _, err := site.Pieces(t.Context(), x.ID); err != nil || len(pieces) != 1 ||
		pieces[PieceID{Replication: 1}].State != Finished {
		t.Errorf("found %v, %v", pieces, err)
	}
	foreign := (*HomeError)(nil)
	if _, err := site.Cancel(t.Context(), x.ID, ""); !errors.As(err, &foreign) {
		t.Errorf("people cancel it at the site: %v", err)
	}
	w := *e.Wish
	w.Number, w.Want = 2, WantPause
	if err := site.CarryWish(t.Context(), x, w); err != nil {
		t.Fatal(err)
	}
	if x = one(t, site); x.Wish.Want != WantPause || x.Wish.Number != 2 {
		t.Errorf("found %+v", x.Wish)
	}
	if err := site.Fence(t.Context(), x, "given to others"); err != nil {
		t.Fatal(err)
	}
	if x = one(t, site); x.Wish.Want != WantCancel || x.Wish.Number != 3 {
		t.Errorf("found %+v", x.Wish)
	}
	h.Epoch = 4
	if err := site.Adopt(t.Context(), e.Spec, *e.Wish, h, nil, home.Blob); err != nil {
		t.Fatal(err)
	}
	h.Epoch = 5
	err = site.Adopt(t.Context(), e.Spec, *e.Wish, h, nil, home.Blob)
	if full := (*FullError)(nil); !errors.As(err, &full) {
		t.Errorf("more than the site may have: found %v", err)
	}
}

// A door that isn't heard of has its experiments stand still, and no others; when it is heard of they go on.
func TestBeats(t *testing.T) {
	c := newClient(t, mem.NewServer(time.Minute).NewClient(), "g", Options{By: "door"})
	if err := c.SetBeat(t.Context(), "tree", Beat{Number: 1, Grace: 10 * time.Second}); err != nil {
		t.Fatal(err)
	}
	if err := c.SetBeat(t.Context(), "tree", Beat{Grace: time.Millisecond}); err == nil {
		t.Error("a grace of a millisecond is accepted")
	}
	doors, malformed, err := c.Doors(t.Context())
	if err != nil || len(malformed) > 0 || doors["tree"].Number != 1 {
		t.Fatalf("found %v, %v, %v", doors, malformed, err)
	}
	var b Beats
	mine, own := &Spec{ID: "x.1", Home: &Home{ID: "x", Epoch: 1, Door: "tree"}}, &Spec{ID: "y"}
	run := Wish{Want: WantRun}
	for _, step := range []struct {
		at   time.Duration
		seen uint64
		want Want
	}{{0, 1, WantRun}, {10 * time.Second, 1, WantRun}, {11 * time.Second, 1, WantPause}, {12 * time.Second, 2, WantRun},
		{22 * time.Second, 2, WantRun}, {23 * time.Second, 2, WantPause}} {
		b.See("tree", Beat{Number: step.seen, Grace: 10 * time.Second}, step.at)
		if got := b.Wish(mine, run, step.at); got.Want != step.want {
			t.Errorf("at %v: found %v, want %v", step.at, got.Want, step.want)
		}
		if got := b.Wish(own, run, step.at); got != run {
			t.Errorf("at %v: no door's: found %v", step.at, got)
		}
		if got := b.Wish(mine, Wish{Want: WantCancel}, step.at); got.Want != WantCancel {
			t.Errorf("at %v: found %v, want it cancelled", step.at, got.Want)
		}
	}
	var unheard Beats // a leader that has seen nothing of the door waits, too
	if got := unheard.Wish(mine, run, 0); got.Want != WantRun {
		t.Errorf("found %v", got.Want)
	}
	if got := unheard.Wish(mine, run, 2*graceDefault); got.Want != WantPause {
		t.Errorf("found %v", got.Want)
	}
}
