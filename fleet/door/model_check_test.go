// SPDX-License-Identifier: Apache-2.0

package door

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/metastore"
)

// atHome is what the invariants have seen of an experiment at home.
type atHome struct {
	epoch    uint64
	site     string
	finished map[fleet.PieceID]fleet.Piece
	ended    *fleet.Standing
}

// committed checks the invariants behind each commit of a door at home.
func (w *world) committed(h *doorHost, guard metastore.Version, ops []metastore.Op) {
	w.record.commit(h, ops)
	ctx := context.Background()
	lead, err := w.home.late.Get(ctx, "/g/"+leadKey)
	for _, op := range ops {
		decides := strings.Contains(op.Path, "/fleet/pieces/") || strings.HasSuffix(op.Path, "/route") ||
			strings.HasSuffix(op.Path, "/status")
		if w.faulty != "routes without conditions" && decides && (err != nil || lead.Version != guard) {
			w.violated(6, "%s commits %s, and doesn't lead any more", h.name, op.Path)
		}
	}
	all, err := w.home.admin.List(ctx)
	if err != nil {
		w.violated(0, "%v", err)
	}
	for i := range all {
		w.check(&all[i])
	}
	w.accounts(all)
}

// check checks the invariants of an experiment.
func (w *world) check(e *fleet.Experiment) {
	for _, err := range e.Malformed {
		w.violated(0, "%v", err)
	}
	was := w.known[e.ID]
	if was == nil {
		was = &atHome{finished: map[fleet.PieceID]fleet.Piece{}}
		w.known[e.ID] = was
	}
	epoch, site := uint64(0), ""
	if e.Route != nil {
		epoch, site = e.Route.Epoch, e.Route.Site
	}
	switch {
	case epoch == was.epoch && site != was.site, epoch != was.epoch && epoch != was.epoch+1:
		w.violated(5, "%s goes from %s, %d to %s, %d", e.ID, was.site, was.epoch, site, epoch)
	case epoch > 1 && epoch != was.epoch:
		w.tally.moves++
		w.letGo(e, was)
	}
	was.epoch, was.site = epoch, site
	pieces, malformed, err := w.home.admin.Pieces(context.Background(), e.ID)
	if err != nil || len(malformed) > 0 {
		w.violated(0, "%v %v", err, malformed)
	}
	for p, is := range was.finished {
		if _, there := pieces[p]; !there && e.Ended() {
			continue // the experiment is being removed
		}
		if pieces[p].State != fleet.Finished || pieces[p].Site != is.Site ||
			!reflect.DeepEqual(pieces[p].Kept, is.Kept) {
			w.violated(2, "%s: piece %v was %+v, and is %+v", e.ID, p, is, pieces[p].Piece)
		}
	}
	for p, is := range pieces {
		if _, known := was.finished[p]; is.State == fleet.Finished && !known {
			was.finished[p] = is.Piece
			w.tally.taken++
			w.taken(e, p, is.Piece)
		}
	}
	w.ends(e, was)
}

// taken checks a piece that is FINISHED at home from now on.
func (w *world) taken(e *fleet.Experiment, p fleet.PieceID, is fleet.Piece) {
	there := fleet.PieceAt{}
	for _, s := range w.sites {
		if e.Route != nil && s.name == e.Route.Site {
			var err error
			if there, err = s.admin.Piece(context.Background(), fleet.SiteID(e.ID, e.Route.Epoch), p); err != nil {
				w.violated(0, "%v", err)
			}
		}
	}
	if there.State != fleet.Finished || there.Site != "" || e.Route.Site != is.Site {
		w.violated(3, "%s: piece %v is taken from %s, the route names %+v, and there it is %v (of %q)", e.ID, p,
			is.Site, e.Route, there.State, there.Site)
	}
	if is.Kept.Hash != hashOf(e.ID, p) {
		w.violated(3, "%s: piece %v has the hash %s", e.ID, p, is.Kept.Hash)
	}
	if e.Spec.Place == "" && !w.parts[e.ID+"/"+p.String()] {
		w.violated(4, "%s: piece %v is FINISHED, and its part isn't home", e.ID, p)
	}
}

// ends checks an experiment's end.
func (w *world) ends(e *fleet.Experiment, was *atHome) {
	st := e.Standing
	if st == nil {
		return
	}
	if was.ended != nil && e.Wish != nil && e.Wish.Retry <= was.ended.Retry &&
		(!st.Ended || st.Status != was.ended.Status) {
		w.violated(7, "%s had ended as %+v, and is %+v", e.ID, was.ended, st)
	}
	if st.Ended {
		was.ended = st
	}
	if st.Ended && st.Status == fleet.StatusFinished && len(was.finished) != e.Spec.Count() {
		w.violated(8, "%s is FINISHED with %d of %d pieces", e.ID, len(was.finished), e.Spec.Count())
	}
	if w.broken[e.Spec.Name] && st.Status == fleet.StatusFinished {
		w.violated(8, "%s is FINISHED, and has a model's error", e.ID)
	}
}

// atSite begins what left says of sites.
const atSite = "at site "

// left is what hasn't ended yet; "" where all has.
func (w *world) left() string {
	ctx := context.Background()
	all, err := w.home.admin.List(ctx)
	if err != nil {
		return err.Error()
	}
	byID := map[string]*fleet.Experiment{}
	for i := range all {
		e := &all[i]
		byID[e.ID] = e
		if !e.Ended() {
			return fmt.Sprintf("%s: wish %+v, route %+v, standing %+v", e.ID, e.Wish, e.Route, e.Standing)
		}
	}
	for _, id := range w.keys {
		if byID[id] == nil && w.known[id] == nil {
			return fmt.Sprintf("%s was accepted, and is nowhere", id)
		}
	}
	for _, s := range w.sites {
		if s.deadUntil > w.c.Now() {
			continue
		}
		there, err := s.admin.List(ctx)
		if err != nil {
			return err.Error()
		}
		for i := range there {
			if x := &there[i]; !x.Ended() {
				return fmt.Sprintf(atSite+"%s: %s: wish %+v, standing %+v", s.name, x.ID, x.Wish, x.Standing)
			}
		}
	}
	return ""
}

// final looks at what has become of everything.
func (w *world) final() {
	all, err := w.home.admin.List(context.Background())
	if err != nil {
		w.violated(0, "%v", err)
	}
	byKey := map[string]string{}
	for i := range all {
		e := &all[i]
		if other := byKey[e.Spec.Key]; other != "" {
			w.violated(1, "%s and %s have one key", e.ID, other)
		}
		byKey[e.Spec.Key] = e.ID
		if e.Route != nil && e.Route.Epoch > 1 {
			w.tally.again++
		}
		st := e.Standing
		if st.Status == fleet.StatusFailed && e.Wish.Want != fleet.WantCancel && !w.broken[e.Spec.Name] && w.good() {
			w.violated(8, "%s has failed, and there is a site where it wouldn't have: %+v %+v", e.ID, st, e.Route)
		}
	}
}

// good tells whether there is a site that never failed anything.
func (w *world) good() bool {
	for _, s := range w.sites {
		if !s.bad && !s.wasCut && s.deadUntil == 0 && s.emptyUntil == 0 && s.cutUntil == 0 {
			return true
		}
	}
	return false
}

func containsError(err, want error) bool { return strings.Contains(err.Error(), want.Error()+":") }
