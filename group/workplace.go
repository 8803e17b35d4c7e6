// SPDX-License-Identifier: Apache-2.0

package group

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/disco-sim/disco/internal/bridge/offer"
	"github.com/disco-sim/disco/internal/bridge/relay"
	"github.com/disco-sim/disco/internal/child"
	"github.com/disco-sim/disco/internal/session"
	"github.com/disco-sim/disco/internal/site"
)

// workplace is a machine's workers, joined with the launcher by a spoke, and with other machines by a site.
type workplace struct {
	spoke *relay.Spoke
	site  *site.Site
	ready func() // returns when the sessions are free for the site
}

var (
	_ frames     = (*workplace)(nil)
	_ relay.Site = (*workplace)(nil)
)

// newWorkplace begins to serve the sessions.
func (b *bridge) newWorkplace(begin *offer.Begin) *workplace {
	w := &workplace{ready: b.measuring.Wait}
	var names []string
	for _, p := range begin.Peers {
		names = append(names, p.Name)
	}
	w.site = site.New(site.Config{Machine: b.order.Offer.Machine, Names: names, Processors: runtime.GOMAXPROCS(0),
		Executable: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), b.program.Fd()),
		Sessions:   func(machine int) [2]*session.Session { return b.sessions.pair(machine).sessions }})
	w.spoke = relay.NewSpoke(relay.SpokeConfig{Machine: b.order.Offer.Machine,
		Sessions: b.sessions.pair(launcherMachine).sessions, Site: w})
	return w
}

// Apply implements frames.
func (w *workplace) Apply(machine int, on session.Stream, h session.Header, body []byte) error {
	if machine == launcherMachine {
		return w.spoke.Apply(on, h, body)
	}
	return w.site.Apply(machine, on, h, body)
}

// Changed implements frames.
func (w *workplace) Changed(machine int, on session.Stream, s session.State) {
	if machine == launcherMachine {
		w.spoke.Changed(on, s)
	} else {
		w.site.Changed(machine, on, s)
	}
}

// Acked implements frames.
func (w *workplace) Acked(machine int, on session.Stream) {
	if machine == launcherMachine {
		w.spoke.Acked(on)
	} else {
		w.site.Acked(machine, on)
	}
}

// Make implements relay.Site.
func (w *workplace) Make(o child.Order, to relay.Reporter) (relay.Workers, string, error) {
	w.ready()
	return w.site.Make(o, reporter{to})
}

// reporter reports what a site does.
type reporter struct{ relay.Reporter }

// Fail reports an error, but not that another machine or this one has ended a session: that is reported with the
// reason, which may lie on a third machine, and an error in front of it would be taken for the cause.
func (r reporter) Fail(err error) {
	ended, closed := (*session.EndError)(nil), (*session.ClosedError)(nil)
	if !errors.As(err, &ended) && !errors.As(err, &closed) {
		r.Reporter.Fail(err)
	}
}
