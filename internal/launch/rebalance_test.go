// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/partition"
	"github.com/disco-sim/disco/internal/placement"
	"github.com/disco-sim/disco/internal/race"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/shard"
)

// anywhere moves any shards anywhere: also all of a worker's, and back.
type anywhere struct{ rnd *rand.Rand }

func (a anywhere) Moves(s *shard.State) (moves []shard.Move) {
	to := a.rnd.IntN(s.Workers)
	for i := range s.Owner {
		if s.Fixed[i] || a.rnd.IntN(3) > 0 {
			continue
		}
		if a.rnd.IntN(4) > 0 {
			to = a.rnd.IntN(s.Workers)
		}
		if s.Stays(i) && s.Far(s.Owner[i], to) {
			continue
		}
		moves = append(moves, shard.Move{Shard: i, To: to})
	}
	return moves
}

// moving has a run look at each end of a leg whether something is to move, and move anything.
func moving(cfg *Config, seed uint64, mean float64) *ends {
	e := &ends{}
	cfg.Legs = e.legs(seed, mean)
	cfg.Rebalance = &Rebalance{Shards: 64, Every: 1, Strategy: anywhere{rand.New(rand.NewPCG(seed, 9))}}
	return e
}

// checkMoved checks that much has moved.
func checkMoved(t *testing.T, out *Outcome, rounds int) {
	t.Helper()
	if m := out.Moves; m != nil && m.Fixed == m.Shards {
		rounds = 0
	}
	if m := out.Moves; m == nil || len(m.Rounds) < rounds {
		t.Errorf("found %+v, want at least %d rounds", m, rounds)
		return
	}
	for i, r := range out.Moves.Rounds {
		if r.Version != uint64(i)+1 || r.Shards < 1 || r.Nodes < r.Shards || r.Bytes < 1 || r.Pause <= 0 ||
			!(r.Before > 0 && r.Before <= 1 && r.After > 0 && r.After <= 1) {
			t.Errorf("round %d: %+v", i, r)
		}
	}
}

// A run whose nodes move at ends of legs gives what one gives whose nodes stay, trace included.
func TestRebalance(t *testing.T) {
	want := ""
	for i, transport := range append(transports(), over2, over3) {
		for k, sync := range []string{worker.SyncLane, worker.SyncLink} {
			cfg := config(transport, 3, launchtest.Scenario(6, 30, ""))
			cfg.Replications, cfg.Spread, cfg.Partition, cfg.Tuning.Sync = 2, SpreadNodes, "", sync
			cfg.Trace = filepath.Join(t.TempDir(), "trace")
			if (i+k)%2 == 1 {
				cfg.Tuning.Ingress = worker.IngressGoroutine
			}
			if want == "" {
				out, err := run(t, cfg)
				if err != nil {
					t.Fatal(err)
				}
				want = text(t, out) + readTrace(t, cfg.Trace)
			}
			moving(&cfg, uint64(i), 1)
			out, err := run(t, cfg)
			if err != nil {
				t.Fatal(err)
			}
			if got := text(t, out) + readTrace(t, cfg.Trace); got != want {
				t.Errorf("%s, %s: found\n%s, want\n%s", transport, sync, got, want)
			}
			checkMoved(t, out, 20)
			checkCrossed(t, out, machinesOf(transport) > 1)
		}
	}
	nothingLeft(t, t.TempDir())
}

// So do all kinds of models, with the smallest rings too.
func TestRebalanceOfKinds(t *testing.T) {
	for i, c := range examples {
		cfg := example(t, c.file, c.horizon, c.set)
		want, err := run(t, cfg)
		if err != nil {
			t.Fatal(err)
		}
		for j, transport := range append(transports(), over2, over3) {
			if testing.Short() && (i+j)%3 != 0 {
				continue
			}
			// Any two of example, transport, workers, sync and rings meet.
			cfg.Workers, cfg.Transport = 2+(i+j)%3, transport
			sync := []string{worker.SyncLane, worker.SyncLink}[(i+j)%2]
			cfg.Tuning, cfg.BridgeBytes = worker.Tuning{Sync: sync}, 0
			if (i+j/2)%2 == 0 {
				cfg.Tuning, cfg.BridgeBytes = smallest, 1
				cfg.Tuning.Sync = sync
			}
			moving(&cfg, uint64(i+j), c.horizon/30)
			out, err := run(t, cfg)
			if err != nil {
				if strings.Contains(err.Error(), "can't be saved") {
					t.Logf("%s: %v", c.file, err)
					continue
				}
				t.Fatalf("%s, %d workers, %s, %s: %v", c.file, cfg.Workers, transport, sync, err)
			}
			if out.TraceHash != want.TraceHash || out.Events != want.Events {
				t.Errorf("%s, %d workers, %s, %s: another hash, or other events", c.file, cfg.Workers, transport, sync)
			}
			checkMoved(t, out, 5)
		}
	}
}

// Where all nodes stay, workers sample nothing, no leg ends for a look, and the outcome says that all stay.
func TestNothingMoves(t *testing.T) {
	cfg := config(TransportInproc, 2, launchtest.Scenario(4, 30, ""))
	cfg.Spread, cfg.Partition = SpreadNodes, ""
	moving(&cfg, 1, 1)
	for _, stay := range []bool{false, true} {
		l, err := Prepare(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ws := &workerSet{launch: l, plan: l.planOf(0), rebalancing: l.newRebalancing()}
		if shards := ws.setup(0).Setup.Shards; (shards == nil) != stay {
			t.Errorf("all stay: %v; a worker is told of shards %v", stay, shards)
		}
		out, err := run(t, cfg)
		if err != nil {
			t.Fatal(err)
		}
		m := out.Moves
		if m == nil || m.Shards < 2 || (m.Fixed == m.Shards) != stay || (m.Looks == 0) != stay {
			t.Errorf("all stay: %v; found %+v", stay, m)
		}
		var names []string
		for n := range l.structure.NumNodes() {
			names = append(names, l.structure.NodeName(n))
		}
		cfg.Pins = placement.Of(names, []int{0, 0, 1, 1})
	}
}

// badMoves is a strategy with one move.
type badMoves shard.Move

func (m badMoves) Moves(*shard.State) []shard.Move { return []shard.Move{shard.Move(m)} }

// A move that can't be made ends the run, with what is wrong with it.
func TestBadMoves(t *testing.T) {
	for _, every := range []time.Duration{0, 1} {
		for m, want := range map[shard.Move]string{
			{Shard: 0, To: 99}:   "found a move of shard 0 to worker 99, want 0 to 1",
			{Shard: 0, To: -1}:   "found a move of shard 0 to worker -1, want 0 to 1",
			{Shard: 9999, To: 0}: "found a move of shard 9999, want 0 to ",
			{Shard: -1, To: 0}:   "found a move of shard -1, want 0 to ",
		} {
			cfg := config(TransportInproc, 2, launchtest.Scenario(4, 30, ""))
			cfg.Spread, cfg.Partition = SpreadNodes, ""
			moving(&cfg, 1, 1)
			cfg.Rebalance.Every, cfg.Rebalance.Strategy = every, badMoves(m)
			l, err := Prepare(cfg)
			if err != nil {
				t.Fatal(err)
			}
			ws := &workerSet{launch: l, plan: l.planOf(0), supervisor: &supervisor{}, rebalancing: l.newRebalancing()}
			ws.rebalancing.due.Store(true)
			if _, err := ws.rebalance(t.Context(), 0, 1, nil); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("every %v, %+v: found %v, want %q", every, m, err, want)
			}
		}
	}
}

// With checkpoints between the moves, a run goes on from any of them, and moves nodes again.
func TestRebalanceAndResume(t *testing.T) {
	for i, transport := range append(transports(), over2) {
		checkResumes(t, transport, func(cfg *Config) {
			cfg.Rebalance = &Rebalance{Shards: 6, Every: 1, Strategy: anywhere{rand.New(rand.NewPCG(uint64(i), 9))}}
		}, func(out *Outcome) { checkMoved(t, out, 10) })
	}
}

// Nodes that were put on workers by name stay there, and so do those with a short link to another worker; nodes with
// one between them move together.
func TestDivideShards(t *testing.T) {
	g := &node.Graph{Simprocs: []string{"p"}}
	for i := range 12 {
		g.Nodes = append(g.Nodes, node.Node{Name: fmt.Sprint(i)})
	}
	link := func(from, to int, lookahead float64) {
		g.Links = append(g.Links, node.Link{From: node.Endpoint{Node: from}, To: node.Endpoint{Node: to},
			Lookahead: lookahead})
	}
	link(0, 2, 0.1) // together
	link(2, 4, 0.5)
	link(1, 3, 1) // as long as that between workers
	link(9, 5, 0.1)
	link(6, 10, 0.2) // from one worker to another
	link(0, 5, 2)
	structure, err := node.Compile(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &partition.Partition{Workers: 2, Of: []int32{0, 0, 0, 0, 0, 1, 0, 0, 1, 1, 1, 1}, Lookahead: 1}
	grouped := divideShards(structure, p, map[int]int32{7: 0}, [][]int{{}, {1, 4}, {8, 11, 9}, {3, 10}}, 8)
	if want := []uint32{0, 0, 0, 1, 0, 2, 1, 1, 2, 2, 3, 2}; !slices.Equal(grouped.of, want) {
		t.Errorf("shards of nodes in groups are %v, want %v", grouped.of, want)
	}
	s := divideShards(structure, p, map[int]int32{7: 0}, nil, 8)
	if want := []uint32{0, 1, 0, 1, 0, 3, 2, 2, 4, 3, 5, 4}; !slices.Equal(s.of, want) {
		t.Errorf("shards of nodes are %v, want %v", s.of, want)
	}
	if want := []int{0, 0, 0, 1, 1, 1}; !slices.Equal(s.owners, want) {
		t.Errorf("owners are %v, want %v", s.owners, want)
	}
	if want := []bool{false, false, true, false, false, true}; !slices.Equal(s.fixed, want) {
		t.Errorf("fixed are %v, want %v", s.fixed, want)
	}
	for _, c := range []struct {
		least float64
		near  []bool
	}{
		{0.2, []bool{false, false, false, false, false, false}},
		{1, []bool{false, false, true, false, false, true}},
		{math.Inf(1), []bool{true, false, true, true, false, true}},
	} {
		if s.keepNear(structure, c.least); !slices.Equal(s.near, c.near) {
			t.Errorf("links between machines of %v: near are %v, want %v", c.least, s.near, c.near)
		}
	}
}

// Nodes move where next to nothing may stay in memory, too: those that stay on a worker stay in its file, and those
// that leave it are read from there.
func TestRebalanceAndResident(t *testing.T) {
	for i, c := range examples {
		cfg := example(t, c.file, c.horizon, c.set)
		want, err := run(t, cfg)
		if err != nil {
			t.Fatal(err)
		}
		for j, transport := range append(transports(), over2) {
			if testing.Short() && (i+j)%4 != 0 {
				continue
			}
			// Any two of example, transport, workers, sync and memory meet.
			cfg.Workers, cfg.Transport = 2+(i+j)%3, transport
			cfg.Tuning = worker.Tuning{Sync: []string{worker.SyncLane, worker.SyncLink}[(i+j)%2]}
			cfg.Tuning.Resident = []int64{1, 4 << 10}[(i/2+j)%2]
			moving(&cfg, uint64(i+j), c.horizon/30)
			out, err := run(t, cfg)
			if err != nil {
				t.Fatalf("%s, %d workers, %s: %v", c.file, cfg.Workers, transport, err)
			}
			if out.TraceHash != want.TraceHash || out.Events != want.Events {
				t.Errorf("%s, %d workers, %s: another hash, or other events", c.file, cfg.Workers, transport)
			}
			checkMoved(t, out, 5)
			if cfg.Tuning.Resident == 1 { // a few small nodes fit into 4 KiB
				checkLeft(t, out)
			}
		}
	}
	checkResumes(t, transports()[0], func(cfg *Config) {
		cfg.Tuning.Resident = 1
		cfg.Rebalance = &Rebalance{Shards: 6, Every: 1, Strategy: anywhere{rand.New(rand.NewPCG(1, 9))}}
	}, func(out *Outcome) { checkMoved(t, out, 10); checkLeft(t, out) })
	nothingLeft(t, t.TempDir())
}

// checkCrossed checks that nodes have gone to other machines, and have not where there are none.
func checkCrossed(t *testing.T, out *Outcome, several bool) {
	t.Helper()
	crossed := 0
	for _, r := range out.Moves.Rounds {
		crossed += r.Crossed
	}
	if crossed > 0 != several {
		t.Errorf("%d shards went to another machine, want some: %v", crossed, several)
	}
}

// Payloads of 1 MiB move in several parts, through the smallest rings and windows, whether they lie in the memory of
// the worker that has sent them, in that of a bridge, or not.
func TestRebalanceOfLargePayloads(t *testing.T) {
	horizon, rounds := 8.0, 5
	switch {
	case race.Enabled:
		horizon, rounds = 2, 1 // where each byte that is copied is looked at it takes seven times as long
	case testing.Short():
		horizon, rounds = 4, 2
	}
	cfg := config(TransportShm, 3, launchtest.Scenario(6, horizon, "")+"payload: 1048576\n")
	cfg.Replications, cfg.Spread, cfg.Partition = 1, SpreadNodes, ""
	want, err := run(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		transport, sync string
		rings           int // bytes
	}{
		{TransportShm, worker.SyncLane, smallest.RingBytes}, {TransportShm, worker.SyncLink, smallest.RingBytes},
		{over2, worker.SyncLane, 0}, {over3, worker.SyncLink, 0}, {over2, worker.SyncLink, smallest.RingBytes},
	} {
		if race.Enabled && i > 2 {
			continue
		}
		cfg.Transport, cfg.Tuning, cfg.BridgeBytes = c.transport, smallest, 1
		cfg.Tuning.Sync, cfg.Tuning.RingBytes = c.sync, c.rings
		moving(&cfg, uint64(i), 0.5)
		out, err := run(t, cfg)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		if out.TraceHash != want.TraceHash || out.Events != want.Events {
			t.Errorf("%+v: another hash, or other events", c)
		}
		checkMoved(t, out, rounds)
		most := int64(0)
		for _, r := range out.Moves.Rounds {
			most = max(most, r.Bytes)
		}
		if most <= loadBytes {
			t.Errorf("%+v: at most %d bytes moved in a round, want more than one part of %d", c, most, loadBytes)
		}
	}
	nothingLeft(t, t.TempDir())
}
