// SPDX-License-Identifier: Apache-2.0

package group

import (
	"fmt"
	"strings"
	"time"

	"github.com/disco-sim/disco/fleet"
)

// wipedSite: a site's store loses all it had while the site has an experiment, and comes back empty. What is home of
// the experiment stays, what isn't is simulated again, there or at the other site, and the site, whose agents are
// started again, is given experiments again as if it were new. It knows nothing of what it had, and nobody asks it to.
func wipedSite(w *world) {
	first := w.submit("first", 3, 8)
	x := w.at(first)
	watch := w.begins("watch", first, "--json")
	w.some(first)
	w.succeeds("pause", first) // so that it is wiped before it has ended, however fast it is
	w.home.awaits(first, "it stands still", func(e *fleet.Experiment) bool {
		return e.Standing.Pieces[fleet.Running]+e.Standing.Pieces[fleet.Dispatched] == 0
	})
	before := w.isHome(first)
	x.wipe()
	w.succeeds("continue", first)
	w.finished(first, 3, 8)
	after := w.isHome(first)
	for p, was := range before {
		if was.State != fleet.Finished {
			continue
		}
		if after[p].Kept.Place != was.Kept.Place {
			w.Errorf("piece %v, which was home, was simulated again", p)
		}
		delete(after, p) // its log was in the store
		if r := w.asks("logs", first, fmt.Sprint(p.Replication)); r.status != 0 || r.stdout != "" ||
			!strings.Contains(r.stderr, "was lost with what it wrote") {
			w.Errorf("the log of piece %v, which was in the store: %+v", p, r)
		}
	}
	w.logged(first, after)

	y := w.others(x)[0]
	w.must(w.hosts.Unplug(y.host, true))
	second := w.submit("second", 4, 4)
	w.finished(second, 4, 4)
	if at := w.at(second); at != x {
		w.Errorf("the second one was at %s, want %s, the only site that could be reached", at.name, x.name)
	}
	w.must(w.hosts.Unplug(y.host, false))
	third := w.submit("third", 5, 2)
	w.finished(third, 5, 2)
	w.over(first, watch)
}

// wipe kills the site's store, starts it without its data, and starts the agents again, which end when they find it so.
func (s *siteAt) wipe() {
	s.Helper()
	s.server.Kill()
	s.must(s.server.Wipe())
	s.must(s.server.Start())
	s.must(s.server.Ready(s.ctx))
	for _, a := range s.agents {
		select {
		case <-a.ended:
		case <-time.After(time.Minute):
			s.Fatalf("%s hasn't ended a minute after its store came back empty: %s%s", a.name, a.said[0], a.said[1])
		}
		if status := a.cmd.ProcessState.ExitCode(); status != 1 {
			s.Errorf("%s ended with status %d, want 1", a.name, status)
		}
	}
	s.again()
	s.open("disco")
}
