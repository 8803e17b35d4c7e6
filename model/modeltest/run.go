// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// Config is how a model is run.
type Config struct {
	Seed        uint64
	Replication int
	Workers     int     // engines; 0 is 1
	Placement   []int32 // worker of every node; nil spreads them in turn
	Steps       int     // activations an engine may do before it takes in what its peers sent; 0 is 64
	Resident    int64   // bytes that an engine's nodes may take of memory (node.Resident); 0: no bound

	variant bool // node.Config.SharedFirst
}

// Outcome is what a run has left.
type Outcome struct {
	Hashes      []uint64 // trace hash of every simproc
	Events      uint64   // handled, on all engines
	Activations uint64
	Crossed     uint64 // events that went from one engine to another
	Jumps       int    // idle jumps
	Replication scenario.Replication
}

// Run runs a scenario to its horizon on one engine or several, in this goroutine.
func Run(s scenario.Scenario, cfg Config) (*Outcome, error) {
	c, err := begin(s, &cfg, nil)
	if err != nil {
		return nil, err
	}
	if err := c.run(cfg.Steps); err != nil {
		return nil, err
	}
	return c.outcome(s, cfg)
}

// begin makes the engines, and what cfg leaves open. resume, when not nil, is a state to begin with.
func begin(s scenario.Scenario, cfg *Config, resume *node.Resume) (*engines, error) {
	cfg.Workers, cfg.Steps = max(cfg.Workers, 1), max(cfg.Steps, 0)
	if cfg.Steps == 0 {
		cfg.Steps = 64
	}
	graph, err := scenario.GraphOf(s)
	if err != nil {
		return nil, err
	}
	g, err := node.Compile(graph, nil)
	if err != nil {
		return nil, err
	}
	if cfg.Placement == nil {
		cfg.Placement = make([]int32, g.NumNodes())
		for i := range cfg.Placement {
			cfg.Placement[i] = int32(i % cfg.Workers)
		}
	}
	placed, err := g.Place(cfg.Placement, cfg.Workers)
	if err != nil {
		return nil, err
	}
	c := &engines{lanes: make([][][]packet, cfg.Workers), placement: cfg.Placement, horizon: s.Horizon()}
	for w := range cfg.Workers {
		plan, err := placed.Plan(w, nil)
		if err != nil {
			return nil, err
		}
		out, err := outsideOf(s, cfg.Seed, cfg.Replication)
		if err != nil {
			return nil, err
		}
		n := node.Config{Model: s, Seed: cfg.Seed, Replication: cfg.Replication, Horizon: s.Horizon(),
			Port: &port{c, w}, Resume: resume, Outside: out, SharedFirst: cfg.variant}
		if cfg.Resident > 0 {
			n.Resident = &node.Resident{Bytes: cfg.Resident, File: &memoryFile{}}
		}
		e, err := node.NewEngine(plan, n)
		if err != nil {
			return nil, err
		}
		c.engines = append(c.engines, e)
		c.lanes[w] = make([][]packet, cfg.Workers)
		c.sent = append(c.sent, make([]node.Bound, cfg.Workers))
	}
	return c, nil
}

// memoryFile is a node.StateFile in memory.
type memoryFile struct{ bytes []byte }

// WriteAt writes, and makes the file longer where that is needed.
func (f *memoryFile) WriteAt(b []byte, at int64) (int, error) {
	if more := at + int64(len(b)) - int64(len(f.bytes)); more > 0 {
		f.bytes = append(f.bytes, make([]byte, more)...)
	}
	return copy(f.bytes[at:], b), nil
}

// ReadAt reads what is there.
func (f *memoryFile) ReadAt(b []byte, at int64) (int, error) {
	return bytes.NewReader(f.bytes).ReadAt(b, at)
}

// engines is several engines and what is under way between them.
type engines struct {
	engines   []*node.Engine
	placement []int32 // engine of every node
	horizon   float64
	lanes     [][][]packet   // [from][to], in order
	sent      [][]node.Bound // [from][to]: the last bound put on the lane
	jumps     int
	jumped    node.Bound // the last jump
	raised    bool       // a bound was raised in this round
}

// packet is an event, or a bound where event is nil.
type packet struct {
	event *envelope.Event
	bound node.Bound
}

// port takes the events that engine self sends to others.
type port struct {
	c    *engines
	self int
}

// SendEvent puts a copy of the event on its lane.
func (p *port) SendEvent(to int, ev *envelope.Event) error {
	ev2 := *ev
	ev2.Data, ev2.Headers = bytes.Clone(ev.Data), bytes.Clone(ev.Headers)
	p.c.lanes[p.self][to] = append(p.c.lanes[p.self][to], packet{event: &ev2})
	return nil
}

// SendPromise drops the promise: bounds of whole lanes contain it.
func (p *port) SendPromise(int, *envelope.Promise) error { return nil }

// quietRounds is how many rounds in which nothing but bounds moves are waited for before
// a jump: bounds alone close every gap, but in as many steps as it has lookaheads.
const quietRounds = 50

// run lets every engine take its turn until nothing is left anywhere. When nobody handles
// or sends anything any more, while every engine is blocked, it is a moment to jump.
func (c *engines) run(steps int) error {
	for quiet := 0; ; quiet++ {
		work := 0
		c.raised = false
		for w := range c.engines {
			n, err := c.turn(w, steps)
			if err != nil {
				return err
			}
			work += n
		}
		if work > 0 {
			quiet = 0
			continue
		}
		if c.raised && quiet < quietRounds {
			continue
		}
		next, blocked := node.Never, true
		for _, e := range c.engines {
			blocked = blocked && e.Blocked()
			if b := e.Next(); b.Before(next) {
				next = b
			}
		}
		if !blocked {
			continue
		}
		if next == node.Never {
			return nil
		}
		if !c.jumped.Before(next) {
			return fmt.Errorf("modeltest: deadlock at %v:\n%s", next, c.engines[0].Waiting())
		}
		c.jumped = next
		c.jumps++
		for _, e := range c.engines {
			e.Jump(next)
		}
	}
}

// turn lets one engine take in what was sent to it, work, and send its bounds. It returns
// how much was done, bounds not counted.
func (c *engines) turn(w, steps int) (int, error) {
	e := c.engines[w]
	work := 0
	for from := range c.engines {
		lane := &c.lanes[from][w]
		for _, p := range *lane {
			var err error
			if p.event != nil {
				work++
				err = e.ReceiveEvent(from, p.event, 0)
			} else {
				err = e.ReceiveBound(from, p.bound)
			}
			if err != nil {
				return 0, err
			}
		}
		*lane = (*lane)[:0]
	}
	n, err := e.Run(steps, math.Inf(1))
	for to := range c.engines {
		if b := e.OutBound(to); to != w && c.sent[w][to].Before(b) {
			c.sent[w][to], c.raised = b, true
			c.lanes[w][to] = append(c.lanes[w][to], packet{bound: b})
		}
	}
	return work + n, err
}

func (c *engines) outcome(s scenario.Scenario, cfg Config) (*Outcome, error) {
	o := &Outcome{Jumps: c.jumps, Hashes: make([]uint64, s.Graph().NumSimprocs())}
	o.Replication = scenario.Replication{Index: cfg.Replication, Horizon: s.Horizon(), Reached: s.Horizon(),
		Reports: make([][]byte, len(o.Hashes))}
	for _, e := range c.engines {
		e.Hashes(func(id node.SimprocID, h uint64) { o.Hashes[id] = h })
		st := e.Stats()
		o.Events += st.Events
		o.Activations += st.Activations
		o.Crossed += st.Received
		parts, err := e.Report(s.Horizon())
		if err != nil {
			return nil, err
		}
		for _, part := range parts {
			o.Replication.Reports[part.Simproc] = part.Data
		}
	}
	return o, nil
}

// ComparePlacements runs a scenario on one engine and then on two, three and four, with nodes in
// turn, in blocks, and with engines that exchange events after every activation, and
// fails unless all of it gives the same hash and report of every simproc. Nodes that
// cross are asked for: without any event between engines nothing was shown.
func ComparePlacements(t testing.TB, s scenario.Scenario, seed uint64) *Outcome {
	t.Helper()
	want, err := Run(s, Config{Seed: seed})
	if err != nil {
		t.Fatalf("seed %d, one engine: %v", seed, err)
	}
	nodes := s.Graph().Len()
	for workers := 2; workers <= 4; workers++ {
		blocks := make([]int32, nodes)
		for i := range blocks {
			blocks[i] = int32(i * workers / nodes)
		}
		for name, cfg := range map[string]Config{
			"in turn":         {Seed: seed, Workers: workers},
			"in blocks":       {Seed: seed, Workers: workers, Placement: blocks},
			"in turn, timid":  {Seed: seed, Workers: workers, Steps: 1},
			"in blocks, bold": {Seed: seed, Workers: workers, Placement: blocks, Steps: 100_000},
		} {
			got, err := Run(s, cfg)
			if err == nil {
				err = want.differs(s, got)
			}
			if err != nil {
				t.Fatalf("seed %d, nodes spread over %d engines %s: %v", seed, workers, name, err)
			}
		}
	}
	return want
}

func (o *Outcome) differs(s scenario.Scenario, got *Outcome) error {
	if got.Events != o.Events || got.Activations != o.Activations {
		return fmt.Errorf("%d events in %d calls, with one engine %d in %d", got.Events, got.Activations, o.Events,
			o.Activations)
	}
	for id := range o.Hashes {
		if o.Hashes[id] != got.Hashes[id] {
			return fmt.Errorf("the hash of %s is %x, with one engine %x", s.Graph().Name(node.SimprocID(id)),
				got.Hashes[id], o.Hashes[id])
		}
	}
	if !slices.EqualFunc(o.Replication.Reports, got.Replication.Reports, bytes.Equal) {
		return errors.New("the reports differ from those with one engine")
	}
	return nil
}

// ComparePacked runs a scenario, and over three workers what its kind unpacks of what it packs, and reports where the
// runs differ: nothing may be lost on the way to workers.
func ComparePacked(t testing.TB, k scenario.Kind, s scenario.Packer, seed uint64) {
	t.Helper()
	packed, err := s.Pack(nil)
	if err != nil {
		t.Fatal(err)
	}
	from, err := k.Unpack(packed)
	if err != nil {
		t.Fatal(err)
	}
	if from.Name() != s.Name() || from.Horizon() != s.Horizon() {
		t.Errorf("%s, horizon %v: unpacked as %s, %v", s.Name(), s.Horizon(), from.Name(), from.Horizon())
	}
	want, err := Run(s, Config{Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Run(&unpacked{s, from}, Config{Seed: seed, Workers: 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := want.differs(s, got); err != nil {
		t.Errorf("%s, unpacked: %v", s.Name(), err)
	}
	if want.Events == 0 {
		t.Errorf("%s: no event: such a run compares nothing", s.Name())
	}
}

// unpacked is a scenario whose handlers are made of its packed form.
type unpacked struct {
	scenario.Scenario
	from scenario.Scenario
}

// NewHandler implements node.Model.
func (u *unpacked) NewHandler(p *node.Simproc) (node.Handler, error) { return u.from.NewHandler(p) }

// Summarize runs replications 0 … n-1 on one engine each and summarizes them.
func Summarize(t testing.TB, s scenario.Scenario, seed uint64, n int) scenario.Summary {
	t.Helper()
	all := s.Accumulate()
	for i := range n {
		o, err := Run(s, Config{Seed: seed, Replication: i})
		if err == nil {
			err = all.Add(o.Replication)
		}
		if err != nil {
			t.Fatalf("seed %d, replication %d: %v", seed, i, err)
		}
	}
	sum, err := all.Summary()
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	return sum
}

// Sum makes the results of some replications.
func Sum(s scenario.Scenario, reps ...scenario.Replication) (scenario.Summary, error) {
	all := s.Accumulate()
	for _, r := range reps {
		if err := all.Add(r); err != nil {
			return nil, err
		}
	}
	return all.Summary()
}
