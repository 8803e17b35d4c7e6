// SPDX-License-Identifier: Apache-2.0

package network

import (
	"strings"
	"testing"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
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

// stormText is the storm as a file, shorter.
const stormText = `model: network
topology: testdata/net.gml
horizon: 6
links: { rate_bps: 1.2e6, buffer_packets: 8, buffer_bytes: 9000 }
traffic:
  matrix: gravity
  mass: Mass
  packets_per_second: 600
  packet_bytes: { distribution: discrete, values: [{ bytes: 64, share: 1 }, { bytes: 1500, share: 1 }] }
  flows: [{ from: a, to: j, packets_per_second: 50 }, { from: a, to: c, packets_per_second: 70 }]
events:
  - { id: both, kind: link_down, link: [a, b], from: 2.5, to: 4 }
  - { id: slow, kind: latency, link: [c, j], from: 1, to: 5, added_s: 0.001 }
  - { id: lossy, kind: loss, link: [b, c], from: 1, to: 5, probability: 0.3 }
  - { id: links, kind: link_down, link: all, mtbf: 5, mttr: 0.3 }
  - { id: noise, kind: loss, link: all, mtbf: 4, mttr: 1, probability: 0.05 }
`

// TestVaries: what may change under a state, each of which a run goes on with, and what may not. Outages that are drawn
// at random are those of the run, in all replications.
func TestVaries(t *testing.T) {
	parse := func(text string) *scenario.Document {
		doc, err := scenario.Parse("t.yml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return Kind().Attach(doc, nil)
	}
	doc := parse(stormText)
	for seed := range uint64(scaled(3)) {
		modeltest.Varies(t, Kind(), doc, seed,
			"links.rate_bps=2e6",
			"links.buffer_packets=100",
			"links.buffer_bytes=3000",
			"routing.reconverge_s=0.01",
			"traffic.packets_per_second=700",
			"traffic.packet_bytes={ distribution: exponential, mean: 300 }",
			"traffic.flows[1].packets_per_second=100",
			"events.slow.added_s=0.02",
			"events.noise.probability=0.2")
	}
	regular := parse(strings.Replace(stormText, "  mass: Mass", "  arrivals: constant", 1))
	for _, c := range []struct {
		doc       *scenario.Document
		key, want string
	}{
		{doc, "horizon=7", "horizon: found 7, want 6, as in the run that was saved"},
		{doc, "traffic.flows[0].to=b", `traffic.flows[0].to: found the text "b", want the text "j", as in the run`},
		{doc, "traffic.arrivals=constant", `traffic.arrivals: found the text "constant", want nothing: the run that`},
		{doc, "traffic.packets_per_second=1e-9", "traffic: found 2 flows, or others, want the 22 of the run"},
		{doc, "events.both.to=5", "events[0].to: found 5, want 4, as in the run that was saved"},
		{doc, "events.links.mtbf=9", "events[3].mtbf: found 9, want 5, as in the run"},
		{regular, "traffic.packets_per_second=700", "traffic: found other rates of flows whose packets come at equal"},
	} {
		key, value, _ := strings.Cut(c.key, "=")
		after, err := c.doc.With([]scenario.Setting{{Key: key, Value: value}})
		if err == nil {
			err = Kind().Varies(c.doc, after.Attach(c.doc.Attachments()))
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "begin a new run") {
			t.Errorf("%s: %v, want %q", c.key, err, c.want)
		}
	}
}
