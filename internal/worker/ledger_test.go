// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/shm"
)

// These tests know what a run costs: the clock stands still but in handlers, each of which
// takes a time that is its node's, and of all workers one runs at a time, until it waits.
// So what a worker works is its calls times their cost, to the nanosecond, and all the rest
// of the time it waits.

// costKind is a scenario: node i is on worker i, calls take cost[i], and node 0 begins.
//
//	ticks: node 0 calls itself every second and sends to the node after it
//	rally: nodes 0 and 1 send one event back and forth
//	step: there are no links, and node i calls itself every step[i] seconds
type costKind struct {
	cost    []time.Duration
	rally   bool
	payload int
	each    int     // events at a tick
	ahead   float64 // lookahead of the links
	step    []float64
	lead    time.Duration // leadTime of the workers
	at      []float64     // by node: its last call, simulated seconds
	clock   *tableClock
	look    func(n int)    // called in every handler
	boards  []*shm.Segment // of the run, by worker
}

// tableClock is a wall clock that moves when it is told to. The baton orders its uses.
type tableClock struct{ at time.Time }

func (c *tableClock) now() time.Time { return c.at }

func (*costKind) Name() string     { return "cost" }
func (*costKind) Horizon() float64 { return 100 }

func (k *costKind) load(*scenario.Document, scenario.Options) (scenario.Scenario, error) {
	return k, nil
}

func (*costKind) Accumulate() scenario.Accumulator { return nil }

func (k *costKind) Graph() *node.Graph {
	g := &node.Graph{Simprocs: []string{"s"}}
	for i := range k.cost {
		g.Nodes = append(g.Nodes, node.Node{Name: fmt.Sprint("n", i), Work: 1})
		if i+1 < len(k.cost) && k.step == nil {
			g.Links = append(g.Links, node.Link{From: node.Endpoint{Node: i}, To: node.Endpoint{Node: i + 1},
				Lookahead: k.ahead})
			if k.rally {
				g.Links = append(g.Links, node.Link{From: node.Endpoint{Node: i + 1}, To: node.Endpoint{Node: i},
					Lookahead: k.ahead})
			}
		}
	}
	return g
}

func (k *costKind) NewHandler(p *node.Simproc) (node.Handler, error) {
	h := &costHandler{k: k, data: make([]byte, k.payload)}
	for _, to := range []int{p.NodeIndex() + 1, p.NodeIndex() - 1} {
		if to >= 0 && to < len(k.cost) {
			if l, err := p.LinkTo(node.Endpoint{Node: to}); err == nil {
				h.links = append(h.links, l)
			}
		}
	}
	return h, nil
}

type costHandler struct {
	k     *costKind
	links []node.LinkID
	data  []byte
	calls uint64
}

func (h *costHandler) Handle(p *node.Simproc, events []node.Event) error {
	n := p.NodeIndex()
	h.calls++
	h.k.clock.at = h.k.clock.at.Add(h.k.cost[n])
	h.k.at[n] = p.Now()
	if h.k.look != nil {
		h.k.look(n)
	}
	if h.k.step != nil {
		return p.Schedule(p.Now()+h.k.step[n], nil)
	}
	if h.k.rally {
		if n == 0 && p.Now() == 0 || len(events) > 0 {
			return p.Send(h.links[0], p.Now()+1, h.data)
		}
		return nil
	}
	if n > 0 {
		return nil
	}
	for range h.k.each * len(h.links) {
		if err := p.Send(h.links[0], p.Now()+1, h.data); err != nil {
			return err
		}
	}
	return p.Schedule(p.Now()+1, nil)
}

// baton is what the workers of these tests wait with: they run in turns.
type baton struct {
	turns []chan struct{}
	over  []bool
}

type holder struct {
	b     *baton
	index int
}

func (h holder) Idle(work bool) bool {
	if !work && h.b.pass(h.index) {
		<-h.b.turns[h.index]
	}
	return false
}

func (h holder) Stats() shm.WaiterStats { return shm.WaiterStats{} }

// pass lets the next worker run that hasn't ended; false if there is none.
func (b *baton) pass(from int) bool {
	for step := 1; step < len(b.turns); step++ {
		if to := (from + step) % len(b.turns); !b.over[to] {
			b.turns[to] <- struct{}{}
			return true
		}
	}
	return false
}

// costRun runs the scenario, one node on each worker, and returns what the workers say.
func costRun(t *testing.T, k *costKind, tuning Tuning) (stats []Stats, calls []uint64, whole time.Duration) {
	t.Helper()
	workers := len(k.cost)
	k.at = make([]float64, workers)
	kinds, err := scenario.NewRegistry(scenario.Kind{Name: k.Name(), Load: k.load})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Unix(1e9, 0)
	k.clock = &tableClock{began}
	if k.ahead == 0 {
		k.ahead = 1
	}
	all := heapSegments(t, workers, tuning)
	k.boards = all[0].Boards
	placement := make([]int32, workers)
	for i := range placement {
		placement[i] = int32(i)
	}
	b := &baton{over: make([]bool, workers)}
	var teams []*replications
	for w := range workers {
		b.turns = append(b.turns, make(chan struct{}, 1))
		setup := &Setup{Worker: w, Workers: workers, Seed: 1, Tuning: tuning, OneProcess: true}
		all[w].Input = testInput(t, kinds, "model: cost\n", placement, workers)
		r, err := newReplications(setup, kinds, func(*Setup) (Segments, Files, error) { return all[w], Files{}, nil })
		if err != nil {
			t.Fatal(err)
		}
		defer r.close()
		r.cycle.now, r.cycle.waiter = k.clock.now, holder{b, w}
		r.cycle.lead.time = k.lead
		r.sendResults = func(*Results) error { return nil }
		teams = append(teams, r)
	}
	for _, r := range teams {
		if err := r.prepare(&Prepare{}); err != nil {
			t.Fatal(err)
		}
	}
	done, failed := make([]*Done, workers), make(chan error, workers)
	for w, r := range teams {
		go func() {
			<-b.turns[w]
			m, err := r.simulate()
			if err == nil {
				done[w] = m.Done
			}
			b.over[w] = true
			failed <- err
			b.pass(w)
		}()
	}
	b.turns[workers-1] <- struct{}{} // so that it waits for the others from the beginning
	for range workers {
		select {
		case err := <-failed:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(60 * time.Second):
			t.Fatal("the run doesn't end")
		}
	}
	for _, d := range done {
		stats, calls = append(stats, d.Stats), append(calls, d.Activations)
	}
	return stats, calls, k.clock.at.Sub(began)
}

// heapSegments are the segments of so many workers.
func heapSegments(t *testing.T, workers int, tuning Tuning) []Segments {
	t.Helper()
	c := &runner{t: t}
	all := c.segments(workers, tuning)
	t.Cleanup(func() {
		for _, s := range c.segs {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return all
}

func sameSeconds(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// checkShares holds what is true of every run: the shares add up, and each worker works as
// long as its calls take.
func checkShares(t *testing.T, k *costKind, stats []Stats, calls []uint64, whole time.Duration) {
	t.Helper()
	for w, s := range stats {
		if work := float64(calls[w]) * k.cost[w].Seconds(); !sameSeconds(s.WorkingSeconds, work) {
			t.Errorf("worker %d worked for %v s, and its %d calls took %v s", w, s.WorkingSeconds, calls[w], work)
		}
		if sum := s.WorkingSeconds + s.BlockedSeconds + s.RoomSeconds + s.ReportSeconds; !sameSeconds(s.WallSeconds,
			sum) {
			t.Errorf("worker %d: %v s in all, the shares add up to %v s", w, s.WallSeconds, sum)
		}
		if s.WallSeconds > whole.Seconds()+1e-9 || s.ReportSeconds != 0 {
			t.Errorf("worker %d: %v s in all, of which %v s to report; the run took %v", w, s.WallSeconds,
				s.ReportSeconds, whole)
		}
	}
}

const ms = time.Millisecond

// A worker alone never waits, and says nothing to anybody.
func TestSharesAlone(t *testing.T) {
	k := &costKind{cost: []time.Duration{3 * ms}}
	stats, calls, whole := costRun(t, k, Tuning{})
	checkShares(t, k, stats, calls, whole)
	s := stats[0]
	if calls[0] != 100 || whole != 300*ms || s.WallSeconds != s.WorkingSeconds ||
		s != (Stats{WallSeconds: s.WallSeconds, WorkingSeconds: s.WorkingSeconds, CPUSeconds: s.CPUSeconds}) {
		t.Errorf("%d calls in %v: %+v", calls[0], whole, s)
	}
}

// Two workers that play one event back and forth: while one works the other waits. The
// call that ends a wait is no waiting: each is blocked for exactly as long as the other works.
func TestSharesOfARally(t *testing.T) {
	k := &costKind{cost: []time.Duration{2 * ms, 5 * ms}, rally: true}
	stats, calls, whole := costRun(t, k, Tuning{})
	checkShares(t, k, stats, calls, whole)
	if calls[0] != 50 || calls[1] != 51 { // at epoch 0 both are called
		t.Errorf("%d and %d calls", calls[0], calls[1])
	}
	for w, s := range stats {
		other := float64(calls[1-w]) * k.cost[1-w].Seconds()
		if !sameSeconds(s.BlockedSeconds, other) {
			t.Errorf("worker %d was blocked for %v s, the other worked for %v s", w, s.BlockedSeconds, other)
		}
		if s.Sent != 50-uint64(w) || s.Received != 49+uint64(w) || s.RoomSeconds != 0 || s.FullWaits != 0 {
			t.Errorf("worker %d: %+v", w, s)
		}
	}
}

// A pipeline: nothing holds back its first worker, which is told nothing; the second waits
// while there is nothing for it.
func TestSharesOfAPipeline(t *testing.T) {
	k := &costKind{cost: []time.Duration{4 * ms, 1 * ms}, each: 3}
	stats, calls, whole := costRun(t, k, Tuning{BatchMax: 10})
	checkShares(t, k, stats, calls, whole)
	first, second := stats[0], stats[1]
	if calls[0] != 100 || calls[1] != 100 || first.Sent != 3*99 || second.Received != 3*99 || first.Received != 0 ||
		second.Sent != 0 {
		t.Errorf("%d and %d calls, %+v, %+v", calls[0], calls[1], first, second)
	}
	// The first looks at its lanes twice within a lookahead of 1 s, and so promises at each
	// tick: what follows from the next one, at last that nothing more will come.
	if first.Promises != 99 || second.Promises != 0 || first.IdleJumps+second.IdleJumps != 0 {
		t.Errorf("promises and jumps: %+v, %+v", first, second)
	}
	if !sameSeconds(second.BlockedSeconds, first.WorkingSeconds) || !sameSeconds(first.BlockedSeconds,
		second.WorkingSeconds) || first.RoomSeconds+second.RoomSeconds != 0 {
		t.Errorf("blocked for %v s and %v s, worked for %v s and %v s", first.BlockedSeconds, second.BlockedSeconds,
			first.WorkingSeconds, second.WorkingSeconds)
	}
}

// A lane too small for what is sent makes its sender wait for room: not blocked, and not
// working.
func TestSharesOfAFullLane(t *testing.T) {
	k := &costKind{cost: []time.Duration{0, 10 * ms}, each: 40, payload: 100}
	stats, calls, whole := costRun(t, k, Tuning{RingBytes: 1 << 10, BatchMax: 1})
	checkShares(t, k, stats, calls, whole)
	first, second := stats[0], stats[1]
	if first.FullWaits == 0 || second.FullWaits != 0 || second.RoomSeconds != 0 {
		t.Errorf("waits for room: %+v, %+v", first, second)
	}
	// 40 events of 100 bytes are more than four rings: the first waits at every tick.
	if first.FullWaits < 99 || first.RoomSeconds+first.BlockedSeconds < 0.9*second.WorkingSeconds ||
		first.RoomSeconds < 0.5*second.WorkingSeconds {
		t.Errorf("%d waits for room in %v s, blocked for %v s, while the second worked for %v s", first.FullWaits,
			first.RoomSeconds, first.BlockedSeconds, second.WorkingSeconds)
	}
}

// Next to no lookahead: one jump for every event.
func TestJumpsOfARally(t *testing.T) {
	k := &costKind{cost: []time.Duration{ms, ms}, rally: true, ahead: 1e-9}
	stats, calls, whole := costRun(t, k, Tuning{})
	checkShares(t, k, stats, calls, whole)
	if jumps, sent := stats[0].IdleJumps+stats[1].IdleJumps, stats[0].Sent+stats[1].Sent; sent != 99 || jumps != sent {
		t.Errorf("%d jumps for %d events", jumps, sent)
	}
}

// What a board shows while a handler is called: its worker waits for nobody, however long it
// had waited before; the other one does.
func TestBoardShowsWhoWaits(t *testing.T) {
	k := &costKind{cost: []time.Duration{ms, ms}, rally: true}
	looks := 0
	k.look = func(n int) {
		looks++
		for w, board := range k.boards {
			values, err := Numbers(board)
			if err != nil {
				t.Error(err)
			}
			for _, v := range values {
				if v.Name == NumberBlocked && looks > 4 && (v.Count != 0) != (w != n) {
					t.Errorf("look %d, in a call on worker %d: worker %d shows %d", looks, n, w, v.Count)
				}
				if v.Name == NumberRoom && v.Count != 0 {
					t.Errorf("worker %d waits for room", w)
				}
			}
		}
	}
	costRun(t, k, Tuning{})
	if looks < 90 {
		t.Errorf("looked %d times", looks)
	}
}
