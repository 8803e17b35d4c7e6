// SPDX-License-Identifier: Apache-2.0

package group

import (
	"fmt"
	"os"
	"runtime"
	"sync"

	"github.com/disco-sim/disco/internal/bridge/offer"
	"github.com/disco-sim/disco/internal/bridge/relay"
	"github.com/disco-sim/disco/internal/child"
	"github.com/disco-sim/disco/internal/session"
	"github.com/disco-sim/disco/internal/site"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
)

// workplace is a machine's workers, joined with the launcher by a spoke, and with other machines by a site.
type workplace struct {
	spoke *relay.Spoke
	site  *site.Site
	ready func() // returns when the sessions are free for the site

	making sync.Mutex // held by Make: sets are made one after the other
}

var (
	_ frames       = (*workplace)(nil)
	_ relay.Site   = (*workplace)(nil)
	_ site.Reports = (*workplace)(nil)
)

// newWorkplace begins to serve the sessions.
func (b *bridge) newWorkplace(begin *offer.Begin) *workplace {
	w := &workplace{ready: b.measuring.Wait}
	var names []string
	for _, p := range begin.Peers {
		names = append(names, p.Name)
	}
	w.site = site.New(site.Config{Machine: b.order.Offer.Machine, Names: names, Processors: runtime.GOMAXPROCS(0),
		Executable: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), b.program.Fd()), To: w,
		Sessions: func(machine int) [2]*session.Session { return b.sessions.pair(machine).sessions }})
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
func (w *workplace) Make(o child.Order, _ relay.Reporter) (relay.Workers, string, error) {
	w.making.Lock()
	defer w.making.Unlock()
	w.ready()
	set, remark, err := w.site.Make(o)
	if err != nil {
		return nil, "", err
	}
	return workers{set}, remark, nil
}

// workers are those of a set here.
type workers struct{ *site.Set }

// Control implements relay.Workers.
func (s workers) Control(w int, t worker.MessageType, _ int) error { return s.Set.Control(w, t) }

// Output implements site.Reports, as the others below: the spoke passes all of it on.
func (w *workplace) Output(set, worker int, bytes []byte) { w.spoke.Output(set, worker, bytes) }

// Exit implements site.Reports.
func (w *workplace) Exit(set, worker int, exit workerproc.Exit, lanes []child.Lane) {
	w.spoke.Exit(set, worker, exit, lanes)
}

// Note implements site.Reports.
func (w *workplace) Note(text string) { w.spoke.Note(text) }

// Fail implements site.Reports.
func (w *workplace) Fail(err error) { w.spoke.Fail(err) }
