// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/script"
)

// engineMachine answers the commands of testdata/engine. It is a model whose simprocs do
// at each epoch what the script says, on Engines between which nothing moves
// but by command:
//
//	layers x y                     the graph: layers, nodes with their workers, links
//	node a 0 [shared]
//	link a/x b/x 0.5
//	mesh x x 1
//	at a/x 0 send b/x 1 [text]     what a/x does when it is called at epoch 0; also
//	                               schedule, wakeup, hardwakeup, advance
//	check                          levels, or what is wrong
//	start 10                       makes all workers, with horizon 10
//	run 0 [limit]                  lets worker 0 work
//	carry 0 1                      takes events and bound from worker 0 to worker 1
//	bound 0 1 / next 0 / blocked 0 / waiting 0 / stats 0
//	jump                           takes the idle jump, if all are blocked
//	congest 0 1 yes                the lane from 0 to 1 is short of room
//	window 0 2.5 / ahead 0         worker 0 handles nothing at 2.5 or later
//	until 0 2.5                    the leg of worker 0 ends at 2.5
//	reached 0                      how far worker 0 is done
//	event 1 a/x b/x 2.5            an event by hand, to worker 1
type engineMachine struct {
	g         *Graph
	placement []int32
	do        map[SimprocID]map[float64][][]string
	engines   []*Engine
	lanes     map[[2]int][]envelope.Event
	out       strings.Builder
}

func (m *engineMachine) Graph() *Graph { return m.g }

func (m *engineMachine) NewHandler(p *Simproc) (Handler, error) { return &scripted{m}, nil }

type scripted struct{ m *engineMachine }

func (h *scripted) Handle(p *Simproc, events []Event) error {
	fmt.Fprintf(&h.m.out, "%s at %v", p.Name(), p.Now())
	if p.Woken() {
		h.m.out.WriteString(", woken")
	}
	for _, ev := range events {
		fmt.Fprintf(&h.m.out, ", %s#%d", h.m.g.Name(ev.Sender), ev.Number)
		if len(ev.Data) > 0 {
			fmt.Fprintf(&h.m.out, " %q", ev.Data)
		}
	}
	h.m.out.WriteString("\n")
	var first error
	for _, words := range h.m.do[p.ID()][p.Now()] {
		if err := h.act(p, words); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func (h *scripted) act(p *Simproc, words []string) error {
	switch words[0] {
	case "schedule":
		return p.Schedule(number(words[1]), nil)
	case "wakeup":
		return p.Wakeup(number(words[1]))
	case "hardwakeup":
		return p.HardWakeup(number(words[1]))
	case "fail":
		return errors.New(strings.Join(words[1:], " "))
	}
	l, err := p.Link(words[1])
	if err != nil {
		return err
	}
	if words[0] == "advance" {
		return p.AdvancePromise(l, number(words[2]))
	}
	return p.Send(l, number(words[2]), []byte(strings.Join(words[3:], " ")))
}

// SendEvent of a machine's port puts the event into its lane.
type scriptPort struct {
	m    *engineMachine
	self int
}

func (p scriptPort) SendEvent(peer int, ev *envelope.Event) error {
	e := *ev
	e.Data = slices.Clone(ev.Data)
	lane := [2]int{p.self, peer}
	p.m.lanes[lane] = append(p.m.lanes[lane], e)
	return nil
}

func (p scriptPort) SendPromise(int, *envelope.Promise) error { return nil }

func (m *engineMachine) endpoint(name string) Endpoint {
	n, layer, _ := strings.Cut(name, "/")
	return Endpoint{
		Node:    slices.IndexFunc(m.g.Nodes, func(x Node) bool { return x.Name == n }),
		Simproc: slices.Index(m.g.Simprocs, layer),
	}
}

// build answers the commands that describe the scenario.
func (m *engineMachine) build(words []string) bool {
	switch words[0] {
	case "layers":
		m.g = &Graph{Simprocs: words[1:]}
		m.do = map[SimprocID]map[float64][][]string{}
		m.placement, m.engines = nil, nil
	case "node":
		m.g.Nodes = append(m.g.Nodes, Node{Name: words[1], Shared: len(words) > 3})
		m.placement = append(m.placement, int32(worker(words[2])))
	case "link":
		m.g.Links = append(m.g.Links, Link{From: m.endpoint(words[1]), To: m.endpoint(words[2]),
			Lookahead: number(words[3])})
	case "mesh":
		m.g.Meshes = append(m.g.Meshes, Mesh{From: slices.Index(m.g.Simprocs, words[1]), To: slices.Index(m.g.Simprocs,
			words[2]), Lookahead: number(words[3])})
	case "at":
		id := m.g.ID(m.endpoint(words[1]))
		if m.do[id] == nil {
			m.do[id] = map[float64][][]string{}
		}
		epoch := number(words[2])
		m.do[id][epoch] = append(m.do[id][epoch], words[3:])
	default:
		return false
	}
	return true
}

func (m *engineMachine) answer(words []string) string {
	if m.build(words) {
		return "ok"
	}
	answer, err := m.drive(words)
	if err != nil {
		answer += "error: " + err.Error()
	}
	if answer == "" {
		return "ok"
	}
	return answer
}

// drive answers the commands that need Engines.
func (m *engineMachine) drive(words []string) (string, error) {
	switch words[0] {
	case "check":
		return m.check()
	case "start":
		return "", m.start(number(words[1]))
	case "jump":
		return m.jump(), nil
	}
	w := worker(words[1])
	e := m.engines[w]
	switch words[0] {
	case "run":
		return m.run(e, words[2:])
	case "carry":
		return m.carry(w, worker(words[2]))
	case "bound":
		return e.OutBound(worker(words[2])).String(), nil
	case "next":
		return e.Next().String(), nil
	case "blocked":
		return fmt.Sprint(e.Blocked()), nil
	case "waiting":
		return e.Waiting(), nil
	case "stats":
		s := e.Stats()
		return fmt.Sprintf("%d events handled in %d calls, %d pending, %d never", s.Events, s.Activations, e.Pending(),
			s.BeyondHorizon), nil
	case "congest":
		e.SetCongested(worker(words[2]), words[3] == "yes")
		return "", nil
	case "window":
		e.SetWindow(number(words[2]))
		return "", nil
	case "until":
		e.SetUntil(number(words[2]))
		return "", nil
	case "reached":
		return fmt.Sprint(e.Reached()), nil
	case "ahead":
		at, any := e.Ahead()
		return fmt.Sprintf("%v %v", at, any), nil
	case "event":
		from, to := m.endpoint(words[2]), m.endpoint(words[3])
		return "", e.ReceiveEvent(int(m.placement[from.Node]), &envelope.Event{Sender: uint32(m.g.ID(from)),
			Target: uint32(m.g.ID(to)), Epoch: number(words[4])}, 0)
	}
	panic("unknown command " + words[0])
}

func worker(s string) int {
	w, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return w
}

func (m *engineMachine) check() (string, error) {
	if err := m.g.Check(); err != nil {
		return "", err
	}
	levels, err := m.g.Levels()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for id, l := range levels {
		fmt.Fprintf(&b, "%s on level %d\n", m.g.Name(SimprocID(id)), l)
	}
	return b.String(), nil
}

func (m *engineMachine) start(horizon float64) error {
	workers := int(slices.Max(m.placement)) + 1
	m.engines, m.lanes = nil, map[[2]int][]envelope.Event{}
	for w := range workers {
		plan, err := NewPlan(m.g, m.placement, w, workers)
		if err != nil {
			return err
		}
		e, err := NewEngine(plan, Config{Model: m, Seed: 1, Horizon: horizon, Port: scriptPort{m, w}})
		if err != nil {
			return err
		}
		m.engines = append(m.engines, e)
	}
	return nil
}

func (m *engineMachine) run(e *Engine, limit []string) (string, error) {
	m.out.Reset()
	n := math.MaxInt
	if len(limit) > 0 {
		n = worker(limit[0])
	}
	done, err := e.Run(n, math.Inf(1))
	if err == nil && done == 0 {
		m.out.WriteString("nothing can be done\n")
	}
	return m.out.String(), err
}

// carry does what two workers do with their lane: first the events, then the bound.
func (m *engineMachine) carry(from, to int) (string, error) {
	var b strings.Builder
	bound := m.engines[from].OutBound(to)
	for _, ev := range m.lanes[[2]int{from, to}] {
		fmt.Fprintf(&b, "%s to %s at %v\n", m.g.Name(SimprocID(ev.Sender)), m.g.Name(SimprocID(ev.Target)), ev.Epoch)
		if err := m.engines[to].ReceiveEvent(from, &ev, 0); err != nil {
			return b.String(), err
		}
	}
	delete(m.lanes, [2]int{from, to})
	fmt.Fprintf(&b, "then nothing before %v\n", bound)
	return b.String(), m.engines[to].ReceiveBound(from, bound)
}

func (m *engineMachine) jump() string {
	next := Never
	for w, e := range m.engines {
		if !e.Blocked() {
			return fmt.Sprintf("worker %d is not blocked", w)
		}
		next = least(next, e.Next())
	}
	if next == Never {
		return "nothing is pending anywhere: the end"
	}
	for _, e := range m.engines {
		e.Jump(next)
	}
	return "all jump to " + next.String()
}

func TestEngineScripts(t *testing.T) {
	script.Run(t, "testdata/engine/*.txt", func(*testing.T) script.Machine { return (&engineMachine{}).answer })
}
