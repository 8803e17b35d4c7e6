// SPDX-License-Identifier: Apache-2.0

package phold

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/state"
)

// Kind is the "phold" kind of scenario, for a scenario.Registry.
func Kind() scenario.Kind {
	d := Defaults()
	return scenario.Kind{
		Name:   KindName,
		Load:   scenario.Loader(Load, New),
		Varies: varies,
		Usage:  "runs PHOLD, the benchmark of parallel simulators",
		Flags: []scenario.Flag{
			{Name: "lps", Default: fmt.Sprint(d.LPs), Usage: "`N` logical processes"},
			{Name: "events", Default: fmt.Sprint(d.Events), Usage: "`N` events that each process starts with"},
			{Name: "idle", Default: fmt.Sprint(d.Idle),
				Usage: "`SHARE` of the processes that start without events, and wait for one"},
			{Name: "remote", Default: fmt.Sprint(d.Remote),
				Usage: "`PROBABILITY` that an event goes to a process drawn from all"},
			{Name: "lookahead", Default: fmt.Sprint(d.Lookahead),
				Usage: "least time between an event and the one that it makes, in simulated `SECONDS`"},
			{Name: "end", Default: fmt.Sprint(d.End), Usage: "simulated `SECONDS` at which the run ends"},
			{Name: "rng", Default: d.RNG,
				Usage: "`GENERATOR` of random numbers: default, from the seed; clcg4, ROSS's with its own fixed start"},
			{Name: "payload", Default: fmt.Sprint(d.Payload), Usage: "`BYTES` of data of every event", Bytes: true},
			{Name: "work", Default: fmt.Sprint(d.Work),
				Usage: "`STEPS` of calculation that a process makes for each event"},
			{Name: "hot", Default: fmt.Sprint(d.Hot), Usage: "`SHARE` of the processes that are in a hot spot"},
			{Name: "heat", Default: fmt.Sprint(d.Heat), Usage: "`STEPS` for each event in the hot spot instead"},
			{Name: "wander", Default: fmt.Sprint(d.Wander),
				Usage: "simulated `SECONDS` in which the hot spot goes round over all processes; 0: it stays"},
		},
	}
}

// Model is PHOLD with its parameters: it implements scenario.Scenario. It is
// immutable; every worker makes its own from the same file.
type Model struct {
	params Params
	graph  *node.Graph
	run    run

	windows int // of each process, for time series; 0: there are none
}

// New makes the model of parameters that Load would accept.
func New(p Params) *Model {
	m := &Model{
		params: p,
		graph:  &node.Graph{Simprocs: []string{"lp"}, NodeCount: p.LPs, NodeAt: p.node},
		run: run{
			lookahead: p.Lookahead, mean: 1 - p.Lookahead, remote: p.Remote, lps: p.LPs,
			data: make([]byte, p.Payload),
			work: work{cold: p.Work, heat: p.Heat, hot: int(math.Round(p.Hot * float64(p.LPs))), lps: p.LPs,
				wander: p.Wander},
		},
	}
	if p.Series {
		m.windows = measure.WindowCount(p.LPs)
	}
	// A process sends to itself without a link; nothing is remote with remote 0, and
	// workers then have nothing to wait for.
	if p.Remote > 0 && p.LPs > 1 {
		m.graph.Meshes = []node.Mesh{{Lookahead: p.Lookahead, Rate: float64(p.Events) * (1 - p.Idle) * p.Remote}}
	}
	return m
}

// node is one process as a node: they are computed when they are asked for, not kept.
func (p Params) node(lp int) node.Node {
	return node.Node{Name: "lp" + strconv.Itoa(lp), Work: float64(p.Events) * (1 - p.Idle)}
}

// Params are the parameters that the model was made from.
func (m *Model) Params() Params { return m.params }

// Name is for people.
func (m *Model) Name() string { return KindName }

// Headline is what the speed of PHOLD hangs on most.
func (m *Model) Headline() map[string]any {
	return map[string]any{"lookahead_s": m.params.Lookahead, "remote": m.params.Remote}
}

// Horizon is the simulated time at which the run ends, in seconds.
func (m *Model) Horizon() float64 { return m.params.End }

// Memory is what the processes and their events take. Of the events that a process starts with, those behind the end
// are never pending.
func (m *Model) Memory() scenario.Memory {
	p, before := m.params, 1.0
	if mean := 1 - p.Lookahead; mean > 0 {
		before = -math.Expm1(-(p.End - p.Lookahead) / mean)
	}
	pending := float64(p.started()) * float64(p.Events) * max(0, before)
	bytes := handlerBytes
	if m.windows > 0 {
		bytes += measure.WindowBytes(m.windows, 1)
	}
	return scenario.Memory{NodeBytes: bytes, Pending: int64(pending), EventBytes: p.Payload,
		ResultBytes: countBytes}
}

// countBytes is what tally keeps of a process.
const countBytes = 8

// handlerBytes is the size of a handler: one cache line.
const handlerBytes = 64

// Graph is one node a process, and a mesh between all of them.
func (m *Model) Graph() *node.Graph { return m.graph }

// NewHandler makes the logic of one process.
func (m *Model) NewHandler(p *node.Simproc) (node.Handler, error) {
	h := lp{run: &m.run, self: int32(p.NodeIndex())}
	if m.params.starts(p.NodeIndex()) {
		h.start = int32(m.params.Events)
	}
	if m.params.RNG == CLCG4 {
		stream := uint64(p.Replication())*uint64(m.params.LPs) + uint64(p.NodeIndex())
		return m.watched(&lpCLCG4{lp: h, rng: newCLCG4(stream)}), nil
	}
	d := &lpDefault{lp: h}
	d.pcg.Seed(p.Seed("lp"))
	d.rng = *rand.New(&d.pcg)
	return m.watched(d), nil
}

// run is what all processes share. Nobody writes to it.
type run struct {
	lookahead, mean float64
	remote          float64
	lps             int
	data            []byte
	work            work
}

// lp is one logical process. Two types of handler share it, one for each generator,
// so that drawing is no call through an interface. Either is one cache line, generator
// and all: with many processes the time of an event is that of the lines it touches.
type lp struct {
	handled, remotely uint64
	run               *run
	self              int32
	start             int32 // events that it starts with
}

type lpCLCG4 struct {
	lp
	rng clcg4
}

type lpDefault struct {
	lp
	rng rand.Rand // draws from pcg
	pcg rand.PCG
}

// Handle answers every event with one. The times are those of ROSS's model, in its
// order of operations: now + (-mean·ln u + lookahead).
func (h *lpCLCG4) Handle(p *node.Simproc, events []node.Event) error {
	now, r := p.Now(), h.run
	if now == 0 {
		for range h.start {
			if err := h.send(p, int(h.self), now+(float64(-r.mean*math.Log(h.rng.draw()))+r.lookahead)); err != nil {
				return err
			}
		}
	}
	h.handled += uint64(len(events))
	if r.work.cold > 0 || r.work.hot > 0 {
		if err := r.work.do(int(h.self), now, len(events)); err != nil {
			return err
		}
	}
	for range events {
		target := int(h.self)
		if h.rng.draw() <= r.remote {
			target = int(h.rng.draw() * float64(r.lps))
		}
		if err := h.send(p, target, now+(float64(-r.mean*math.Log(h.rng.draw()))+r.lookahead)); err != nil {
			return err
		}
	}
	return nil
}

// Handle answers every event with one.
func (h *lpDefault) Handle(p *node.Simproc, events []node.Event) error {
	now, r := p.Now(), h.run
	if now == 0 {
		for range h.start {
			if err := h.send(p, int(h.self), now+(float64(r.mean*h.rng.ExpFloat64())+r.lookahead)); err != nil {
				return err
			}
		}
	}
	h.handled += uint64(len(events))
	if r.work.cold > 0 || r.work.hot > 0 {
		if err := r.work.do(int(h.self), now, len(events)); err != nil {
			return err
		}
	}
	for range events {
		target := int(h.self)
		if r.remote > 0 && h.rng.Float64() <= r.remote {
			target = h.rng.IntN(r.lps)
		}
		if err := h.send(p, target, now+(float64(r.mean*h.rng.ExpFloat64())+r.lookahead)); err != nil {
			return err
		}
	}
	return nil
}

// send sends one event. A draw of exactly 0 would make an infinite time, which is
// beyond every end.
func (h *lp) send(p *node.Simproc, target int, at float64) error {
	if target == int(h.self) {
		if at > math.MaxFloat64 {
			return nil
		}
		return p.Schedule(at, h.run.data)
	}
	h.remotely++
	link, err := p.LinkTo(node.Endpoint{Node: target})
	if err != nil || at > math.MaxFloat64 {
		return err
	}
	return p.Send(link, at, h.run.data)
}

// StateVersion is that of State.
func (h *lp) StateVersion() uint32 { return 1 }

func (h *lp) state(c *state.Codec) {
	c.EachUint64(&h.handled, &h.remotely)
}

// State is what the process has counted, and its generator.
func (h *lpDefault) State(_ *node.Simproc, c *state.Codec) {
	h.state(c)
	c.PCG(&h.pcg)
}

// State is what the process has counted, and its generator, which is the replication's and not the seed's: it goes on
// also where random streams begin anew.
func (h *lpCLCG4) State(_ *node.Simproc, c *state.Codec) {
	h.state(c)
	g := &h.rng
	for i, s := range []*uint64{&g.s0, &g.s1, &g.s2, &g.s3} {
		modulus := []uint64{modulus0, modulus1, modulus2, modulus3}[i]
		if c.Uint64(s); *s == 0 || *s >= modulus {
			c.Fail("found %d in a generator, want 1 to %d", *s, modulus-1)
		}
	}
}

// reportBytes is the size of a process's report: events handled, events sent to
// others.
const reportBytes = 16

// Report is what the process has counted.
func (h *lp) Report(*node.Simproc) ([]byte, error) {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, reportBytes), h.handled)
	return binary.LittleEndian.AppendUint64(b, h.remotely), nil
}
