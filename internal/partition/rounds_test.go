// SPDX-License-Identifier: Apache-2.0

package partition_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/idle"
	"github.com/disco-sim/disco/internal/partition"
	"github.com/disco-sim/disco/model/devstone"
	"github.com/disco-sim/disco/model/network"
	"github.com/disco-sim/disco/model/phold"
	"github.com/disco-sim/disco/model/queueing"
	"github.com/disco-sim/disco/model/service"
	"github.com/disco-sim/disco/model/supply"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// distant is a run over machines on which everything takes no time but the way from one machine to another, which takes
// a step: real engines, real idle.Leader. How many steps it takes is what a round trip of two steps costs, whatever
// else the test's machine does.
type distant struct {
	engines []*node.Engine
	on      []int32 // machine of each worker
	lanes   [][][]arrival
	said    [][]node.Bound // by sender and receiver
	steps   int
	leader  *idle.Leader
	quiet   []idle.Quiet // what each machine has said last
	known   []bool
	rounds  []uint64 // the newest jump that each machine has taken
	came    [][]uint64
	sent    [][]uint64
	posts   []post
	ended   bool
}

// arrival is an event, or a bound where it is nil, and the step in which it can be taken.
type arrival struct {
	event *envelope.Event
	bound node.Bound
	at    int
}

// post is a quiet frame to the leader, or a jump from it.
type post struct {
	at, machine int
	quiet       *idle.Quiet
	jump        idle.Jump
}

// distantPort takes the events of one worker.
type distantPort struct {
	d    *distant
	self int
}

func (p *distantPort) SendEvent(to int, ev *envelope.Event) error {
	ev2 := *ev
	ev2.Data, ev2.Headers = bytes.Clone(ev.Data), bytes.Clone(ev.Headers)
	d := p.d
	if i, j := d.on[p.self], d.on[to]; i != j {
		d.sent[i][j]++
	}
	d.lanes[p.self][to] = append(d.lanes[p.self][to], arrival{event: &ev2, at: d.arrives(p.self, to)})
	return nil
}

func (p *distantPort) SendPromise(int, *envelope.Promise) error { return nil }

// arrives is when what is sent now can be taken.
func (d *distant) arrives(from, to int) int {
	if d.on[from] != d.on[to] {
		return d.steps + 1
	}
	return d.steps
}

// countSteps runs a scenario with node n on worker of[n] and worker w on machine on[w].
func countSteps(t testing.TB, s node.Model, horizon float64, g *node.Structure, of, on []int32) *distant {
	t.Helper()
	workers, machines := len(on), 0
	for _, m := range on {
		machines = max(machines, int(m)+1)
	}
	placed, err := g.Place(of, workers)
	if err != nil {
		t.Fatal(err)
	}
	d := &distant{on: on, leader: idle.NewLeader(machines), quiet: make([]idle.Quiet, machines),
		known: make([]bool, machines), rounds: make([]uint64, machines)}
	for range machines {
		d.came, d.sent = append(d.came, make([]uint64, machines)), append(d.sent, make([]uint64, machines))
	}
	for w := range workers {
		plan, err := placed.Plan(w, nil)
		if err != nil {
			t.Fatal(err)
		}
		e, err := node.NewEngine(plan, node.Config{Model: s, Seed: 1, Horizon: horizon, Port: &distantPort{d, w}})
		if err != nil {
			t.Fatal(err)
		}
		d.engines = append(d.engines, e)
		d.lanes, d.said = append(d.lanes, make([][]arrival, workers)), append(d.said, make([]node.Bound, workers))
	}
	for ; !d.ended; d.steps++ {
		if err := d.step(); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// step lets all machines do what they can until something must come from another one.
func (d *distant) step() error {
	for again := true; again; {
		again = false
		var later []post
		for _, p := range d.posts {
			switch {
			case p.at > d.steps:
				later = append(later, p)
			case p.quiet != nil:
				if err := d.take(p.machine, p.quiet, &later); err != nil {
					return err
				}
				again = true
			default:
				d.leap(p.machine, p.jump)
				again = true
			}
		}
		d.posts = later
		for w := range d.engines {
			done, err := d.turn(w)
			if err != nil {
				return err
			}
			again = again || done
		}
		for m := 0; m < len(d.quiet) && !again; m++ {
			again = d.look(m) // behind the last turn that did anything: no event is under way on the machine
		}
	}
	return nil
}

// turn takes in what has come to a worker, lets it work, and sends its bounds.
func (d *distant) turn(w int) (done bool, err error) {
	e := d.engines[w]
	for from := range d.engines {
		lane := &d.lanes[from][w]
		for len(*lane) > 0 && (*lane)[0].at <= d.steps {
			a := (*lane)[0]
			*lane, done = (*lane)[1:], true
			if a.event == nil {
				err = e.ReceiveBound(from, a.bound)
			} else if err = e.ReceiveEvent(from, a.event, 0); d.on[from] != d.on[w] {
				d.came[d.on[w]][d.on[from]]++
			}
			if err != nil {
				return done, err
			}
		}
	}
	n, err := e.Run(math.MaxInt, math.Inf(1))
	for to := range d.engines {
		if b := e.OutBound(to); to != w && d.said[w][to].Before(b) {
			d.said[w][to], done = b, true
			d.lanes[w][to] = append(d.lanes[w][to], arrival{bound: b, at: d.arrives(w, to)})
		}
	}
	return done || n > 0, err
}

// look tells the leader that a machine stands still.
func (d *distant) look(m int) bool {
	q := idle.Quiet{Round: d.rounds[m], Epoch: math.Inf(1), Level: node.LevelMax}
	next := node.Never
	for w, e := range d.engines {
		if int(d.on[w]) != m {
			continue
		}
		if !e.Blocked() {
			return false
		}
		if b := e.Next(); b.Before(next) {
			next = b
		}
	}
	q.Epoch, q.Level = next.Epoch, next.Level
	q.In, q.Out = append(q.In, d.came[m]...), append(q.Out, d.sent[m]...)
	if d.known[m] && fmt.Sprint(d.quiet[m]) == fmt.Sprint(q) {
		return false
	}
	d.known[m], d.quiet[m] = true, q
	at := d.steps
	if m != 0 {
		at++
	}
	d.posts = append(d.posts, post{at: at, machine: m, quiet: &q})
	return true
}

func (d *distant) take(m int, q *idle.Quiet, posts *[]post) error {
	j, ok, err := d.leader.Take(m, *q)
	if err != nil || !ok {
		return err
	}
	if d.ended = math.IsInf(j.Epoch, 1); d.ended {
		return nil
	}
	for to := range d.quiet {
		at := d.steps
		if to != 0 {
			at++
		}
		*posts = append(*posts, post{at: at, machine: to, jump: j})
	}
	return nil
}

func (d *distant) leap(m int, j idle.Jump) {
	d.rounds[m] = j.Round
	for w, e := range d.engines {
		if int(d.on[w]) == m {
			e.Jump(node.Bound{Epoch: j.Epoch, Level: j.Level})
		}
	}
}

// scenarioOf reads an example up to a horizon.
func scenarioOf(t testing.TB, file string, horizon float64) (scenario.Scenario, *node.Structure) {
	t.Helper()
	r, err := scenario.NewRegistry(service.Kind(), network.Kind(), queueing.Kind(), phold.Kind(), devstone.Kind(),
		supply.Kind())
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join("..", "..", "examples", file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := scenario.Parse(file, text)
	if err == nil {
		doc, err = r.Attach(doc, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Load(doc, scenario.Options{Horizon: horizon})
	if err != nil {
		t.Fatal(err)
	}
	graph, err := scenario.GraphOf(s)
	if err != nil {
		t.Fatal(err)
	}
	g, err := node.Compile(graph, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s, g
}

// apart is a network whose machines are all a round trip of two steps from each other, so that seconds are steps.
func apart(machines int) *partition.Network {
	n := &partition.Network{}
	for i := range machines {
		n.RoundTrip = append(n.RoundTrip, slices.Repeat([]float64{2}, machines))
		n.SecondsPerByte = append(n.SecondsPerByte, make([]float64, machines))
		n.RoundTrip[i][i] = 0
	}
	return n
}

// fewSteps is what begin and end of a run may take.
const fewSteps = 10

// The steps that real engines take, which nothing of the prediction has to do with, are at most twice as many as are
// predicted, and at least half as many. A model that promises by itself what its links' lookaheads don't say, as that
// of queueing networks does, may take a quarter.
func TestPredictedSteps(t *testing.T) {
	for i, c := range []struct {
		file           string
		horizon, least float64
	}{
		{"shop.yml", 0.05, 0.5}, {"backbone.yml", 0.03, 0.5}, {"phold.yml", 0.8, 0.5}, {"devstone.yml", 3, 0.5},
		{"mini.yml", 5, 0.5}, {"md1.yml", 2, 0.5}, {"jackson.yml", 100, 0.25}, {"supply.yml", 20, 0.5},
	} {
		s, g := scenarioOf(t, c.file, c.horizon)
		for j, method := range partition.Methods() {
			for k, spread := range [][2]int{{2, 2}, {3, 3}, {4, 2}, {9, 3}, {12, 4}} {
				workers, machines := spread[0], spread[1]
				if testing.Short() && (workers > 4 || (i+j+k)%3 != 0) { // any two of the three still meet
					continue
				}
				p, err := partition.Make(g, partition.Run{Workers: min(workers, g.NumNodes()), Processors: workers,
					Seconds: c.horizon}, method, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				on := make([]int32, p.Workers)
				for w := range on {
					on[w] = int32(w * machines / workers)
				}
				holdsSteps(t, fmt.Sprint(c.file, " ", method, " ", spread), s, c.horizon, g, p.Of, on, c.least, 2)
			}
		}
	}
}

// holdsSteps counts steps, and compares them with the prediction: at least and at most so many times as many.
func holdsSteps(t *testing.T, what string, m node.Model, horizon float64, g *node.Structure, of, on []int32, least,
	most float64,
) (ratio float64) {
	t.Helper()
	c, err := partition.Couple(g, of, len(on), nil)
	if err != nil {
		t.Fatal(err)
	}
	predicted := horizon * c.Waiting(apart(int(slices.Max(on))+1), on)
	steps := float64(countSteps(t, m, horizon, g, of, on).steps)
	if steps+fewSteps < least*predicted || steps > most*predicted+fewSteps {
		t.Errorf("%s: %v steps, predicted %.1f", what, steps, predicted)
	}
	return predicted / max(steps, 1)
}

// wanderers are tokens on a random graph: each stays at a node for a while, and takes a random link.
type wanderers struct {
	g      *node.Graph
	tokens int
	stay   float64
	events []float64 // that each node has handled, in all runs
}

func (m *wanderers) Graph() *node.Graph { return m.g }

type wanderer struct {
	m     *wanderers
	rnd   *rand.Rand
	links []node.LinkID
	ahead []float64
}

func (m *wanderers) NewHandler(p *node.Simproc) (node.Handler, error) {
	h := &wanderer{m: m, rnd: rand.New(p.Source("x"))}
	for _, l := range m.g.Links {
		if m.g.ID(l.From) != p.ID() {
			continue
		}
		id, err := p.LinkTo(l.To)
		if err != nil {
			return nil, err
		}
		h.links, h.ahead = append(h.links, id), append(h.ahead, l.Lookahead)
	}
	return h, nil
}

func (h *wanderer) Handle(p *node.Simproc, events []node.Event) error {
	n := len(events)
	h.m.events[p.ID()] += float64(n)
	if p.Now() == 0 {
		n = h.m.tokens
	}
	for range n {
		i := h.rnd.IntN(len(h.links))
		if err := p.Send(h.links[i], p.Now()+h.ahead[i]+h.m.stay*h.rnd.ExpFloat64(), nil); err != nil {
			return err
		}
	}
	return nil
}

// randomWanderers are tokens on a ring with shortcuts.
func randomWanderers(r *rand.Rand) *wanderers {
	nodes := 4 + r.IntN(12)
	g := &node.Graph{Simprocs: []string{"x"}}
	for n := range nodes {
		g.Nodes = append(g.Nodes, node.Node{Name: fmt.Sprint(n)})
		for to := (n + 1) % nodes; ; to = r.IntN(nodes) {
			g.Links = append(g.Links, node.Link{From: node.Endpoint{Node: n}, To: node.Endpoint{Node: to},
				Lookahead: math.Exp2(-6 * r.Float64())})
			if r.IntN(2) == 0 {
				break
			}
		}
	}
	return &wanderers{g: g, tokens: 1 + r.IntN(20), stay: math.Exp2(-6 * r.Float64()), events: make([]float64, nodes)}
}

// Likewise on random graphs, spread over workers and machines at random: in nearly all cases, and in the others there
// are no more than predicted.
func TestPredictedStepsOfRandomGraphs(t *testing.T) {
	const cases, horizon = 100, 20.0
	over := 0
	for i := range cases {
		r := rand.New(rand.NewPCG(uint64(i), 7))
		m := randomWanderers(r)
		nodes, workers := len(m.g.Nodes), 2+r.IntN(3)
		machines := 2 + r.IntN(workers-1)
		of, on := make([]int32, nodes), make([]int32, workers)
		for n := range of {
			if of[n] = int32(n); n >= workers {
				of[n] = int32(r.IntN(workers))
			}
		}
		for w := range on {
			if on[w] = int32(w); w >= machines {
				on[w] = int32(r.IntN(machines))
			}
		}
		countSteps(t, m, horizon, compiled(t, m.g), make([]int32, nodes), []int32{0})
		for n := range m.g.Nodes { // what the scenario says of its rates
			m.g.Nodes[n].Work = m.events[n] / horizon
		}
		if holdsSteps(t, fmt.Sprint("graph ", i), m, horizon, compiled(t, m.g), of, on, 0.3, 1.2) > 2 {
			over++
		}
	}
	if t.Logf("%d of %d graphs took less than half of the steps that were predicted", over, cases); over > cases/20 {
		t.Errorf("%d of %d graphs took less than half of the steps that were predicted", over, cases)
	}
}

func compiled(t testing.TB, g *node.Graph) *node.Structure {
	t.Helper()
	s, err := node.Compile(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
