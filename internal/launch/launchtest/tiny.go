// SPDX-License-Identifier: Apache-2.0

// Package launchtest has a tiny model for tests of what runs models: tokens that
// wander around a ring of nodes, and on demand one node that gets into trouble.
//
// Guarantee: without trouble the model is deterministic and exact: every token that
// is handled before the horizon is counted once, and all nodes together handle as
// many whatever the spread.
//
//	model: tiny
//	horizon: 10        # simulated seconds
//	nodes: 6           # in the ring
//	tokens: 2          # that each of them starts with
//	payload: 16        # bytes of every event
//	trouble: {node: 2, at: 5, how: panic}
package launchtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/state"
)

// Lookahead of all links, simulated seconds.
const Lookahead = 0.1

// Kinds of trouble, from when on the troubled node handles something at or after the
// given time.
const (
	Panic = "panic" // the handler panics
	Fail  = "error" // the handler returns an error
	Exit  = "exit"  // the process exits with status 3, after a line on standard error
	Kill  = "kill"  // the process kills itself
	Stop  = "stop"  // the process stops itself, as Ctrl-Z would
	Hang  = "hang"  // the handler never returns, after a line on standard error
	Slow  = "slow"  // every call takes a millisecond
	Print = "print" // it writes to standard output and standard error, once
	Nan   = "nan"   // its results hold a NaN
	Late  = "late"  // another goroutine panics soon after the last report
	Zero  = "zero"  // the process exits with status 0
	Load  = "load"  // reading the scenario takes an hour
	Child = "child" // it starts a process of its own that would live for an hour, once

	Flood     = "flood"     // every call takes a millisecond, and leaves a hundred events for near the horizon
	Alloc     = "alloc"     // the handler allocates until something stops it
	Goroutine = "goroutine" // another goroutine sends while the handler runs
	Keep      = "keep"      // the handler reads what it got in an earlier call
	Claim     = "claim"     // the process is killed while the handler sends
	Mute      = "mute"      // its handler can't be saved

	KeepWrite   = "keep-write"   // the handler writes into what it got in an earlier call
	Write       = "write"        // the handler writes into what it gets
	LateSend    = "late-send"    // a goroutine sends after the handler has returned
	PanicMake   = "panic-make"   // there is a panic where the handler is made
	PanicReport = "panic-report" // there is a panic where it reports
	Nil         = "nil"          // the handler uses a nil map of its own
)

// Kind is the kind "tiny".
func Kind() scenario.Kind { return scenario.Kind{Name: "tiny", Load: load} }

func load(doc *scenario.Document, opt scenario.Options) (scenario.Scenario, error) {
	r := scenario.NewReader(doc)
	root := r.Root("horizon", "nodes", "tokens", "payload", "trouble", "asking")
	t := &Tiny{
		horizon: root.Field("horizon").Float(scenario.MoreThan(0)),
		nodes:   root.Field("nodes").Int(scenario.Between(1, 1_000_000)),
		tokens:  root.Field("tokens").IntOr(2, scenario.Between(0, 1000)),
		payload: root.Field("payload").IntOr(16, scenario.Between(8, 1<<20)),
		trouble: -1,
	}
	t.asking.read(root.Field("asking"))
	if v := root.Field("trouble"); v.Present() {
		s := v.Section("node", "at", "how")
		t.trouble = s.Field("node").Int(scenario.Between(0, 1_000_000))
		t.at = s.Field("at").Float(scenario.AtLeast(0))
		t.how = s.Field("how").Word(hows()...)
	}
	if opt.Horizon > 0 {
		t.horizon = opt.Horizon
	}
	if t.how == Load {
		time.Sleep(time.Hour)
	}
	return t, r.Err()
}

func hows() []string {
	return append([]string{Panic, Fail, Exit, Kill, Stop, Hang, Slow, Print, Nan, Late, Zero, Load, Child, Flood, Alloc,
		Goroutine, Keep, Claim, Mute, KeepWrite, Write, LateSend, PanicMake, PanicReport, Nil}, GarbleWhat...)
}

// Tiny is a loaded scenario.
type Tiny struct {
	horizon float64
	nodes   int
	tokens  int
	payload int
	trouble int // node that gets into trouble; -1: none
	at      float64
	how     string
	asking  asking
}

// Name implements scenario.Scenario.
func (t *Tiny) Name() string { return "tiny" }

// Horizon implements scenario.Scenario.
func (t *Tiny) Horizon() float64 { return t.horizon }

// Graph implements node.Model: every node has links to the two after it.
func (t *Tiny) Graph() *node.Graph {
	g := &node.Graph{Simprocs: []string{"token"}}
	for i := range t.nodes {
		g.Nodes = append(g.Nodes, node.Node{Name: fmt.Sprintf("n%d", i), Work: 1})
		for _, to := range t.next(i) {
			g.Links = append(g.Links, node.Link{From: node.Endpoint{Node: i}, To: node.Endpoint{Node: to},
				Lookahead: Lookahead})
		}
	}
	return g
}

// next lists the nodes that i sends to.
func (t *Tiny) next(i int) []int {
	switch t.nodes {
	case 1:
		return nil
	case 2:
		return []int{1 - i}
	}
	return []int{(i + 1) % t.nodes, (i + 2) % t.nodes}
}

// NewHandler implements node.Model.
func (t *Tiny) NewHandler(p *node.Simproc) (node.Handler, error) {
	if t.how == PanicMake && p.NodeIndex() == t.trouble {
		panic("tiny: no token fits")
	}
	way := p.Source("way")
	h := &handler{tiny: t, way: way, random: rand.New(way), data: make([]byte, t.payload),
		troubled: p.NodeIndex() == t.trouble}
	for _, to := range t.next(p.NodeIndex()) {
		l, err := p.LinkTo(node.Endpoint{Node: to})
		if err != nil {
			return nil, err
		}
		h.links = append(h.links, l)
	}
	if t.asking.file != "" {
		var err error
		if h.oracle, err = p.ExternalNamed("oracle"); err != nil {
			return nil, err
		}
	}
	return h, nil
}

type handler struct {
	tiny     *Tiny
	way      rand.Source // of random
	random   *rand.Rand
	links    []node.LinkID
	data     []byte
	handled  uint64
	begun    bool
	troubled bool
	hung     bool // it has said so
	kept     []byte
	oracle   node.ExternalID
	asked    float64 // seconds for which it has asked
}

// Handle implements node.Handler: every token goes on to itself or to one of the
// nodes after this one.
func (h *handler) Handle(p *node.Simproc, events []node.Event) error {
	if h.troubled && p.Now() >= h.tiny.at {
		if err := h.getIntoTrouble(p, events); err != nil {
			return err
		}
	}
	count := len(events)
	if !h.begun {
		h.begun = true
		count += h.tiny.tokens
	}
	h.handled += uint64(len(events))
	if err := h.askOutside(p); err != nil {
		return err
	}
	for range count {
		binary.LittleEndian.PutUint64(h.data, h.random.Uint64())
		at := p.Now() + Lookahead + h.random.ExpFloat64()*0.05
		way := h.random.IntN(len(h.links) + 1)
		var err error
		if way == len(h.links) {
			err = p.Schedule(at, h.data)
		} else {
			err = p.Send(h.links[way], at, h.data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// StateVersion is that of State.
func (h *handler) StateVersion() uint32 { return 1 }

// CheckState implements node.StateChecker.
func (h *handler) CheckState(*node.Simproc) error {
	if h.troubled && h.tiny.how == Mute {
		return errors.New("it is mute")
	}
	return nil
}

// AtState, where it isn't nil, is called when a node's state is saved or loaded. A test's process sets it at its begin.
var AtState func(loading bool)

// State is what the node has counted, and its generator. Trouble that comes once doesn't come again. What a troubled
// node has kept of others' memory isn't saved: that is its fault.
func (h *handler) State(_ *node.Simproc, c *state.Codec) {
	if AtState != nil {
		AtState(c.Loading())
	}
	c.Source(h.way)
	c.Uint64(&h.handled)
	c.Bool(&h.begun)
	c.Bool(&h.troubled)
	c.Float(&h.asked)
}

func (h *handler) getIntoTrouble(p *node.Simproc, events []node.Event) error {
	if strings.HasPrefix(h.tiny.how, Garble) {
		return garble(h.tiny.how, h.random)
	}
	switch h.tiny.how {
	case Panic:
		panic("tiny: a token broke")
	case Fail:
		return errors.New("tiny: a token is lost")
	case Exit:
		fmt.Fprintln(os.Stderr, "tiny: going home")
		os.Exit(3)
	case Zero:
		os.Exit(0)
	case Child:
		h.troubled = false
		return exec.Command("sleep", "3600").Start()
	case Kill:
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case Stop:
		h.troubled = false
		return syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	case Hang:
		if !h.hung { // each later call hangs, too
			fmt.Fprintln(os.Stderr, "tiny: hanging")
		}
		h.hung = true
		hangs()
	case Slow:
		time.Sleep(time.Millisecond)
	case Print:
		h.troubled = false
		fmt.Println("tiny: said to standard output")
		fmt.Fprintln(os.Stderr, "tiny: said to standard error")
	case Flood:
		clear(h.data) // it isn't saved
		time.Sleep(time.Millisecond)
		for range 100 {
			if at := p.Horizon() - Lookahead/2; p.Now() < at {
				if err := p.Schedule(at, h.data); err != nil {
					return err
				}
			}
		}
	case Alloc:
		return allocate()
	case Goroutine:
		h.troubled = false
		done := make(chan error)
		go func() { done <- p.Schedule(p.Now()+Lookahead, h.data) }()
		return <-done
	case LateSend:
		go func() {
			for p.Schedule(p.Horizon(), h.data) == nil {
				time.Sleep(time.Millisecond)
			}
		}()
		h.troubled = false
	case Nil:
		(*handler)(nil).handled++
	case Keep, KeepWrite, Write:
		return h.keep(events)
	case Claim:
		return h.dieSending(p)
	}
	return nil
}

// Report implements node.Reporter.
func (h *handler) Report(*node.Simproc) ([]byte, error) {
	if h.troubled && h.tiny.how == Late {
		time.AfterFunc(20*time.Millisecond, func() { panic("tiny: broke when all was done") })
	}
	if h.tiny.how == PanicReport && h.troubled {
		panic("tiny: the tokens can't be counted")
	}
	return binary.LittleEndian.AppendUint64(nil, h.handled), nil
}

// Summary is the results.
type Summary struct {
	Handled  uint64    `json:"handled"` // by all nodes, in all replications
	ByNode   []uint64  `json:"by_node"` // in all replications
	Reached  []float64 `json:"reached"` // by replication
	Strange  float64   `json:"strange"` // 0; NaN with the trouble that asks for it
	Complete bool      `json:"complete"`
}

// Accumulate implements scenario.Scenario.
func (t *Tiny) Accumulate() scenario.Accumulator {
	s := Summary{ByNode: make([]uint64, t.nodes), Complete: true}
	if t.how == Nan {
		zero := 0.0
		s.Strange = zero / zero
	}
	return &sum{results: s}
}

// sum implements scenario.Accumulator.
type sum struct{ results Summary }

func (t *sum) Summary() (scenario.Summary, error) { return &t.results, nil }

func (t *sum) Add(r scenario.Replication) error {
	s := &t.results
	s.Reached = append(s.Reached, r.Reached)
	s.Complete = s.Complete && r.Reached == r.Horizon
	for id, part := range r.Reports {
		if len(part) != 8 {
			return fmt.Errorf("tiny: %d bytes from simproc %d, want 8", len(part), id)
		}
		n := binary.LittleEndian.Uint64(part)
		s.Handled += n
		s.ByNode[id] += n
	}
	return nil
}

// WriteText implements scenario.Summary.
func (s *Summary) WriteText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%d tokens handled\n", s.Handled)
	return err
}

// Scenario is the text of a scenario file. trouble may be empty, or e.g.
// "{node: 2, at: 5, how: panic}".
func Scenario(nodes int, horizon float64, trouble string) string {
	text := fmt.Sprintf("model: tiny\nhorizon: %g\nnodes: %d\n", horizon, nodes)
	if trouble != "" {
		text += "trouble: " + trouble + "\n"
	}
	return text
}

// released is closed, and made anew, to let the handlers go on that hang. The clock in
// hangs keeps the Go runtime from calling it a deadlock.
var (
	releasing sync.Mutex
	released  = make(chan struct{}) // guarded by releasing
)

func hangs() {
	releasing.Lock()
	end := released
	releasing.Unlock()
	for clock := time.NewTicker(time.Hour); ; {
		select {
		case <-clock.C:
		case <-end:
			clock.Stop()
			return
		}
	}
}

// Release lets the handlers of this process that hang return: a test whose workers are
// goroutines can't end them otherwise.
func Release() {
	releasing.Lock()
	defer releasing.Unlock()
	close(released)
	released = make(chan struct{})
}
