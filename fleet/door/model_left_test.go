// SPDX-License-Identifier: Apache-2.0

package door

import (
	"context"
	"slices"
	"strings"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/sim"
)

// letGo checks that a site that didn't answer has let go of what is given to another one now: unless it has another
// leader, or something that was sent long before has come lately, it stands still since half of the time is over.
func (w *world) letGo(e *fleet.Experiment, was *atHome) {
	tried := e.Route.Tried
	if len(tried) == 0 || !strings.Contains(tried[len(tried)-1].Why, "hasn't answered") {
		return
	}
	for _, s := range w.sites {
		lately := w.c.Now() - 45
		if s.name != was.site || s.lateAt > lately || s.leadsSince > lately || s.deadUntil > w.c.Now() {
			continue
		}
		for name := range s.running {
			if strings.HasPrefix(name, fleet.SiteID(e.ID, was.epoch)+"/") {
				w.violated(9, "%s is given to %s, and %s runs at %s", e.ID, e.Route.Site, name, s.name)
			}
		}
	}
}

// accountIs is what is read of a user's account.
type accountIs struct {
	User string
	Open []string
}

// accountsAt are the accounts at home.
func (w *world) accountsAt() (all []accountIs) {
	values, err := w.home.store.Walk(context.Background(), "fleet/users")
	for _, v := range values {
		var a accountIs
		if v.HasValue() && err == nil {
			err = v.Decode(&a)
			all = append(all, a)
		}
	}
	if err != nil {
		w.violated(0, "%v", err)
	}
	return all
}

// accounts checks that what hasn't ended counts for its user.
func (w *world) accounts(all []fleet.Experiment) {
	is := w.accountsAt()
	for i := range all {
		if e := &all[i]; !e.Ended() && !slices.ContainsFunc(is, func(a accountIs) bool {
			return a.User == e.Spec.User && slices.Contains(a.Open, e.ID)
		}) {
			w.violated(10, "%s of %s hasn't ended, and the accounts are %+v", e.ID, e.Spec.User, is)
		}
	}
}

// cleanedAfter is within how many seconds behind the end of all nothing is left of what isn't kept.
const cleanedAfter = 900

// cleaned waits until nothing is left of what isn't kept, at home and at sites that live.
func (w *world) cleaned(p *sim.Process) {
	for since := w.c.Now(); ; w.hold(p, 10) {
		left := w.leftAt(w.home)
		for _, s := range w.sites {
			if left == "" && s.deadUntil < w.c.Now() {
				left = w.leftAt(s)
			}
		}
		switch {
		case left == "":
			ids, err := w.home.admin.IDs(context.Background())
			if err != nil {
				w.violated(0, "%v", err)
			}
			w.tally.removed += len(w.known) - len(ids)
			return
		case w.c.Now() > since+cleanedAfter:
			w.violated(11, "%s", left)
			return
		}
	}
}

// leftAt is something that is left of nothing; "": there is none.
func (w *world) leftAt(s *place) string {
	ctx := context.Background()
	ids, err := s.admin.IDs(ctx)
	if err != nil {
		return err.Error()
	}
	if s == w.home {
		if len(ids) > 1 {
			return "more is kept than is to be"
		}
		for part := range w.parts {
			if id, _, _ := strings.Cut(part, "/"); !slices.Contains(ids, id) {
				return "the part " + part
			}
		}
		for _, a := range w.accountsAt() {
			if !slices.ContainsFunc(a.Open, func(id string) bool { return slices.Contains(ids, id) }) {
				return "the account of " + a.User
			}
		}
		blobs, err := s.admin.UnusedBlobs(ctx)
		if err != nil || len(blobs) > 0 {
			return "files that none names"
		}
	}
	values, err := s.store.Walk(ctx, "fleet")
	if err != nil {
		return err.Error()
	}
	for _, v := range values {
		names := strings.Split(v.Key(), "/")
		if len(names) < 3 || names[1] != "pieces" && names[1] != "logs" {
			continue
		}
		if !slices.Contains(ids, names[2]) {
			return s.name + ": " + v.Key()
		}
	}
	return ""
}
