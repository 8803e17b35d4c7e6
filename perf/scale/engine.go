// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/disco-sim/disco/internal/heap"
	"github.com/disco-sim/disco/internal/speedup"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// engineName is the kind of scenario that simulates disco's own workers on a machine with a core for each: a node is a
// worker, a link is a lane, an event is what a worker has made visible to a peer: events of PHOLD and a promise. Its
// workers do what those of internal/worker do in a pass: look at all lanes, handle what is safe (at most a batch, and
// half of the lookahead), publish.
const engineName = "engine"

// costs are what was measured, in nanoseconds.
type costs struct {
	Event   float64 // handling one event, everything within one worker
	Peers   float64 // more for handling one event, where there are peers: bounds to heed
	Send    float64 // one event to another worker, more than to oneself
	Receive float64 // one event of another worker
	Pass    float64 // one pass of the duty cycle, without peers
	Peer    float64 // for each peer in a pass: looking at its lane and its promise, publishing one
	FarPeer float64 // the same for a peer of another group of cores
	Wake    float64 // the end of a wait, beside the pass that ends it
	Latency float64 // until a peer sees what was published
	Far     float64 // the same between groups of cores
}

// engineParams are the parameters of a file.
type engineParams struct {
	workers   int
	near      int // workers that are near to each other: 0 to near-1, near to 2*near-1, …
	pending   int // events of PHOLD for each worker
	lookahead float64
	remote    float64
	warm, end float64 // seconds of PHOLD: what is measured
	costs
}

// fields of costs in the file, in the order of pointers.
var costFields = []string{"event_ns", "peers_ns", "send_ns", "receive_ns", "pass_ns", "peer_ns", "far_peer_ns",
	"wake_ns", "latency_ns", "far_ns"}

func (c *costs) pointers() []*float64 {
	return []*float64{&c.Event, &c.Peers, &c.Send, &c.Receive, &c.Pass, &c.Peer, &c.FarPeer, &c.Wake, &c.Latency,
		&c.Far}
}

func (p engineParams) yaml() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "model: %s\nworkers: %d\nnear: %d\npending: %d\nlookahead: %g\nremote: %g\nwarm: %g\nend: %g\n",
		engineName, p.workers, p.near, p.pending, p.lookahead, p.remote, p.warm, p.end)
	for i, value := range p.pointers() {
		fmt.Fprintf(&b, "%s: %g\n", costFields[i], *value)
	}
	return []byte(b.String())
}

func engineKind() scenario.Kind {
	return scenario.Kind{Name: engineName, Load: scenario.Loader(loadEngine, newEngine)}
}

func loadEngine(doc *scenario.Document, _ scenario.Options) (engineParams, error) {
	r := scenario.NewReader(doc)
	root := r.Root(append([]string{"model", "workers", "near", "pending", "lookahead", "remote", "warm", "end"},
		costFields...)...)
	root.Field("model").Word(engineName)
	p := engineParams{
		workers:   root.Field("workers").Int(scenario.Between(1, 10_000)),
		near:      root.Field("near").Int(scenario.AtLeast(1)),
		pending:   root.Field("pending").Int(scenario.Between(1, 1e8)),
		lookahead: root.Field("lookahead").Float(scenario.MoreThan(0).AtMost(1)),
		remote:    root.Field("remote").Float(scenario.Between(0, 1)),
		warm:      root.Field("warm").Float(scenario.AtLeast(0)),
		end:       root.Field("end").Float(scenario.MoreThan(0)),
	}
	for i, value := range p.pointers() {
		*value = root.Field(costFields[i]).Float(scenario.Between(0, 1e9))
	}
	if p.end <= p.warm {
		root.Field("end").Refuse(fmt.Sprintf("%g", p.end), "more than warm", "")
	}
	if p.Pass <= 0 {
		root.Field("pass_ns").Refuse(fmt.Sprintf("%g", p.Pass), "more than 0", "a pass that takes no time never ends")
	}
	if p.Latency <= 0 || p.Far < p.Latency {
		root.Field("far_ns").Refuse(fmt.Sprintf("%g", p.Far), "at least latency_ns, which is above 0", "")
	}
	return p, r.Err()
}

// engine is a scenario of the kind.
type engine struct {
	engineParams
	graph *node.Graph
}

func newEngine(p engineParams) *engine {
	e := &engine{p, &node.Graph{Simprocs: []string{"worker"}, Nodes: make([]node.Node, p.workers)}}
	for i := range e.graph.Nodes {
		e.graph.Nodes[i] = node.Node{Name: fmt.Sprintf("w%d", i), Work: 1}
	}
	if p.workers > 1 {
		e.graph.Meshes = []node.Mesh{{Lookahead: p.Latency * 1e-9}}
	}
	return e
}

// Name is for people.
func (e *engine) Name() string { return engineName }

// Horizon is far beyond the moment at which the last worker has come to the end.
func (e *engine) Horizon() float64 { return 1e6 }

// Graph is the workers, each with a lane to every other one.
func (e *engine) Graph() *node.Graph { return e.graph }

// NewHandler makes one worker.
func (e *engine) NewHandler(p *node.Simproc) (node.Handler, error) {
	w := &engineWorker{engineParams: &e.engineParams, self: p.NodeIndex(), rnd: rand.New(p.Source("engine")),
		bounds: make([]float64, e.workers), links: make([]node.LinkID, e.workers), out: make([][]byte, e.workers)}
	w.bounds[w.self] = math.Inf(1)
	for i := range w.links {
		if i != w.self {
			var err error
			if w.links[i], err = p.LinkTo(node.Endpoint{Node: i}); err != nil {
				return nil, err
			}
		}
	}
	for range e.pending {
		// What is left of a time between two events, at a moment long after the start.
		left := w.next(0)
		if w.rnd.Float64() < w.lookahead {
			left = w.rnd.Float64() * w.lookahead
		}
		w.set.Push(left, struct{}{})
	}
	return w, nil
}

// engineWorker is one simulated worker. Times of PHOLD are seconds; times of the simulated machine are epochs.
type engineWorker struct {
	*engineParams
	self  int
	rnd   *rand.Rand
	links []node.LinkID
	out   [][]byte // what the pass under way has for a peer: events

	set      heap.Heap[struct{}] // PHOLD's pending events
	arrived  []float64           // events of peers, not looked at yet
	bounds   []float64           // what peers have promised
	limiting int                 // the peer with the least
	promised float64
	busy     float64 // epoch at which the pass under way ends
	blocked  bool

	waited, since float64
	warmAt, endAt float64 // epochs at which this worker had nothing more before warm, before end
	measured      uint64  // events between warm and end
}

func (w *engineWorker) next(now float64) float64 {
	return now + w.lookahead + w.rnd.ExpFloat64()*(1-w.lookahead)
}

// Handle takes in what has become visible, and begins a pass where none is under way and there is reason for one.
func (w *engineWorker) Handle(p *node.Simproc, events []node.Event) error {
	now := p.Now()
	reason := !w.blocked
	for i := range events {
		from := int(events[i].Sender) // a worker has one simproc
		data := events[i].Data
		w.bounds[from] = math.Float64frombits(binary.LittleEndian.Uint64(data))
		reason = reason || from == w.limiting || len(data) > 8
		for data = data[8:]; len(data) > 0; data = data[8:] {
			w.arrived = append(w.arrived, math.Float64frombits(binary.LittleEndian.Uint64(data)))
		}
	}
	if now < w.busy || !reason {
		return nil
	}
	if w.blocked {
		w.blocked = false
		w.waited += now - w.since
		return w.pass(p, now, w.Wake)
	}
	return w.pass(p, now, 0)
}

// least is the earliest that this worker knows of: pending, or still to come from a peer.
func (w *engineWorker) least() float64 {
	return min(w.first(), w.bounds[w.limiting])
}

func (w *engineWorker) first() float64 {
	if w.set.Len() == 0 {
		return math.Inf(1)
	}
	return w.set.First().Key
}

// pass is one turn of the duty cycle, which begins now; wake is what it costs that it is the first after a wait.
func (w *engineWorker) pass(p *node.Simproc, now, wake float64) error {
	cost := wake + w.turn() + w.Receive*float64(len(w.arrived))
	received := len(w.arrived)
	for _, at := range w.arrived {
		w.set.Push(at, struct{}{})
	}
	w.arrived = w.arrived[:0]
	w.limiting = w.self
	for i, b := range w.bounds {
		if b < w.bounds[w.limiting] {
			w.limiting = i
		}
	}
	handled, sent := w.work()
	cost += w.event()*float64(handled) + w.Send*float64(sent)
	if handled == 0 && received == 0 && w.least()+w.lookahead <= w.promised {
		w.blocked, w.since = true, now
		return nil
	}
	w.busy = now + cost*1e-9
	w.note()
	if err := w.publish(p); err != nil {
		return err
	}
	return p.Wakeup(w.busy)
}

// event is what it costs to handle one event.
func (p *engineParams) event() float64 {
	if p.workers == 1 {
		return p.Event
	}
	return p.Event + p.Peers
}

// turn is what a pass costs that finds nothing.
func (p *engineParams) turn() float64 {
	near := min(p.workers, p.near)
	return p.Pass + p.Peer*float64(near-1) + p.FarPeer*float64(p.workers-near)
}

// batchMax is the default of run's --batch.
const batchMax = speedup.BatchMax

// work handles a batch.
func (w *engineWorker) work() (handled, sent int) {
	limit := min(w.bounds[w.limiting], w.first()+w.lookahead/2, w.end)
	if w.first() < w.warm {
		limit = min(limit, w.warm) // what is measured begins with a pass
	}
	for handled < batchMax && w.first() < limit {
		at, _ := w.set.Pop()
		handled++
		if at >= w.warm {
			w.measured++
		}
		to := w.self
		if w.rnd.Float64() < w.remote {
			to = w.rnd.IntN(w.workers)
		}
		if at = w.next(at); to == w.self {
			w.set.Push(at, struct{}{})
			continue
		}
		sent++
		if len(w.out[to]) == 0 {
			w.out[to] = make([]byte, 8, 64)
		}
		w.out[to] = binary.LittleEndian.AppendUint64(w.out[to], math.Float64bits(at))
	}
	return handled, sent
}

// note keeps when the worker has passed the two ends of what is measured.
func (w *engineWorker) note() {
	if w.warmAt == 0 && w.least() >= w.warm {
		w.warmAt = w.busy
	}
	if w.endAt == 0 && w.least() >= w.end {
		w.endAt = w.busy
	}
}

// publish makes events and promise visible to the peers, a latency after the pass.
func (w *engineWorker) publish(p *node.Simproc) error {
	promise := w.least() + w.lookahead
	var bare [8]byte
	binary.LittleEndian.PutUint64(bare[:], math.Float64bits(promise))
	for i, link := range w.links {
		data := w.out[i]
		if i == w.self || promise <= w.promised && len(data) == 0 {
			continue
		}
		if len(data) == 0 {
			data = bare[:]
		}
		copy(data, bare[:])
		latency := w.Latency
		if i/w.near != w.self/w.near {
			latency = w.Far
		}
		if err := p.Send(link, w.busy+latency*1e-9, data); err != nil {
			return err
		}
		w.out[i] = w.out[i][:0]
	}
	w.promised = promise
	return nil
}

// Report is when the worker was at the ends of what is measured, how long it has waited, and its events.
func (w *engineWorker) Report(*node.Simproc) (b []byte, err error) {
	for _, x := range []float64{w.warmAt, w.endAt, w.waited, float64(w.measured)} {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b, nil
}

// Accumulate puts the workers together.
func (e *engine) Accumulate() scenario.Accumulator { return &engineTotal{} }

// engineTotal is the simulated machine: the results.
type engineTotal struct {
	Events  float64 `json:"events"`       // of PHOLD
	Seconds float64 `json:"seconds"`      // on the simulated machine
	Rate    float64 `json:"events_per_s"` // on the simulated machine
	Waiting float64 `json:"waiting"`      // share of the workers' time
}

// Add reads the reports of one replication.
func (t *engineTotal) Add(rep scenario.Replication) error {
	began, ended, waited := 0.0, 0.0, 0.0
	for i, r := range rep.Reports {
		var x [4]float64
		if len(r) != 8*len(x) {
			return fmt.Errorf("engine: the report of worker %d has %d bytes, want %d", i, len(r), 8*len(x))
		}
		for k := range x {
			x[k] = math.Float64frombits(binary.LittleEndian.Uint64(r[8*k:]))
		}
		if x[1] <= 0 {
			return fmt.Errorf("engine: worker %d has not come to the end", i)
		}
		began, ended = max(began, x[0]), max(ended, x[1])
		waited += x[2]
		t.Events += x[3]
	}
	t.Seconds += ended - began
	t.Rate = t.Events / t.Seconds
	t.Waiting = waited / ended / float64(len(rep.Reports))
	return nil
}

// Summary is the machine's rate.
func (t *engineTotal) Summary() (scenario.Summary, error) {
	if !(t.Seconds > 0) {
		return nil, errors.New("engine: nothing was measured: take a later end")
	}
	return t, nil
}

// WriteText writes the rate.
func (t *engineTotal) WriteText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%.0f events in %g s: %.0f events/s; workers wait for %.1f %% of the time\n", t.Events,
		t.Seconds, t.Rate, 100*t.Waiting)
	return err
}
