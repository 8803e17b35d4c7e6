// SPDX-License-Identifier: Apache-2.0

package network

import (
	"strings"
	"testing"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/state"
)

// A run goes on from what was saved anywhere: with all kinds of events, packets and flows, with and without percentiles
// of flows, with buffers that are bounded by bytes and that never fill.
func TestResume(t *testing.T) {
	calm := storm(t)
	calm.Arrivals, calm.Sizes, calm.Events = Constant, Sizes{Kind: Uniform, Mean: 500, Min: 100, Max: 900}, nil
	bytes := storm(t)
	bytes.BufferBytes, bytes.Sizes, bytes.Arrivals = 2000, exponential, Constant
	for name, s := range map[string]*Spec{"storm": storm(t), "calm": calm, "bytes": bytes,
		"queue": oneLink(t, 50, fixed, 1<<20, 500)} {
		t.Run(name, func(t *testing.T) {
			s.Horizon = min(s.Horizon, 7.5)
			for seed := range uint64(scaled(3)) {
				modeltest.ResumeEverywhere(t, New(s), seed)
			}
			many := New(s)
			many.perFlow = false
			modeltest.ResumeEverywhere(t, many, 7)
			modeltest.DamagedStates(t, many, 1)
			if !testing.Short() {
				modeltest.DamagedStates(t, New(s), 2)
			}
		})
	}
}

// stopped is the storm, with a look at each router behind each call from a time on.
type stopped struct {
	*Model
	at   float64
	look func(*router, *node.Simproc)
}

func (m *stopped) NewHandler(p *node.Simproc) (node.Handler, error) {
	r, err := newRouter(&m.maker, p)
	return &watched{r, m}, err
}

type watched struct {
	*router
	stopped *stopped
}

func (w *watched) Handle(p *node.Simproc, events []node.Event) error {
	err := w.router.Handle(p, events)
	if p.Now() >= w.stopped.at {
		w.stopped.look(w.router, p)
	}
	return err
}

// What can't be a state is refused, and the text says what was found.
func TestStateRefused(t *testing.T) {
	changes := map[string]func(r *router, c *channel){
		"found the count -1, want at least 0": func(r *router, _ *channel) { r.Born = -1 },
		"found the flow 1000, want 0 to":      func(r *router, _ *channel) { r.lossOf[1000] = &flowLosses{} },
		"books that don't add up":             func(r *router, _ *channel) { r.Born++ },
		"outages that are over, want at most": func(_ *router, c *channel) { c.outages, c.down = nil, c.outages },
		"over at":                             func(_ *router, c *channel) { c.down = nil },
		"catches, and no outage": func(_ *router, c *channel) {
			c.falling, c.outages, c.down = []uint32{0}, nil, nil
		},
		"found -1 s, want a finite time":      func(_ *router, c *channel) { c.free = -1 },
		"packets waiting, want at most":       func(_ *router, c *channel) { c.mid = c.head - 1 },
		"sent behind the one before, until 0": func(_ *router, c *channel) { c.at(c.head).release = -1 },
		"the next packet of the flow":         func(r *router, _ *channel) { r.source.next.Fix(0, 0) },
	}
	for want, change := range changes {
		t.Run(want, func(t *testing.T) {
			done := false
			look := func(r *router, p *node.Simproc) {
				for i := range r.out {
					c := &r.out[i]
					if done || c.tail == c.head || len(c.down) == 0 || r.source.next.Len() == 0 || c.down[0].To < 6 {
						continue
					}
					done = true
					change(r, c)
					_, err := state.Append(nil, 1, func(c *state.Codec) { r.State(p, c) })
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("%v, want %s", err, want)
					}
				}
			}
			_, err := modeltest.Run(&stopped{New(storm(t)), 5, look}, modeltest.Config{Seed: 1})
			if !done {
				t.Errorf("no channel with packets and an outage to come: %v", err)
			}
		})
	}
}
