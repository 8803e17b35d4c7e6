// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/disco-sim/disco/node"
)

// service is users -> client -> balancer -> servers -> client, as the kind of that name makes it: no link has
// lookahead, and the client's second simproc depends on all others.
func service(servers int, rate float64) *node.Graph {
	g := &node.Graph{Simprocs: []string{"request", "response"}, Nodes: []node.Node{
		{Name: "users", Work: rate}, {Name: "client", Work: 2 * rate}, {Name: "lb", Work: rate}}}
	g.Links = []node.Link{link(0, 1, rate, 0), link(1, 2, rate, 0)}
	for i := range servers {
		each := rate / float64(servers)
		g.Nodes = append(g.Nodes, node.Node{Name: string(rune('A' + i)), Work: 3 * each})
		back := link(3+i, 1, each, 0)
		back.To.Simproc = 1
		g.Links = append(g.Links, link(2, 3+i, each, 0), back)
	}
	return g
}

// network is a ring of routers with shortcuts, and delays that are its lookaheads.
func network(rng *rand.Rand, nodes int, delay, rate float64) *node.Graph {
	g := graph(ones(nodes))
	join := func(a, b int) {
		d := delay * (0.1 + rng.Float64())
		g.Links = append(g.Links, link(a, b, rate, d), link(b, a, rate, d))
	}
	for n := range nodes {
		g.Nodes[n].Work = rate * (1 + 3*rng.Float64())
		join(n, (n+1)%nodes)
		if rng.IntN(3) == 0 {
			join(n, rng.IntN(nodes))
		}
	}
	return g
}

// predictorOf is the predictor of a graph.
func predictorOf(g *node.Graph, run Run) *predictor {
	p, _ := newPredictor(newAssignment(structure(g), run, nil, nil)) // only proceed fails, and there is none
	return p
}

// A lane that carries requests of the users and answers of a server to the client makes the client wait for the server,
// and the server wait for the client: the run has a round of messages for each event. Without that lane, the same
// scenario is a pipeline.
func TestCyclesOfLanes(t *testing.T) {
	g := service(4, 1000)
	p := predictorOf(g, each(8))
	for _, c := range []struct {
		what string
		of   []int32
		want float64
	}{
		{"all in one", []int32{0, 0, 0, 0, 0, 0, 0}, 0},
		{"a pipeline", []int32{0, 0, 1, 2, 2, 3, 3}, 0},
		{"client and servers apart", []int32{0, 0, 0, 1, 1, 2, 2}, 0},
		{"users beside a server", []int32{2, 0, 1, 2, 2, 3, 3}, p.events},
		{"the balancer beside a server", []int32{0, 0, 1, 1, 2, 2, 3}, 0},
	} {
		if _, rounds := p.seconds(c.of, 4); rounds != c.want {
			t.Errorf("%s: %v rounds in a simulated second, want %v", c.what, rounds, c.want)
		}
	}
	g.Epochs = 50
	if _, rounds := predictorOf(g, each(8)).seconds([]int32{2, 0, 1, 2, 2, 3, 3}, 4); rounds != 50 {
		t.Errorf("50 epochs: %v rounds, want 50", rounds)
	}
	g.Epochs = 0
	for i := range g.Links {
		g.Links[i].Lookahead = 0.005
	}
	if _, rounds := predictorOf(g, each(8)).seconds([]int32{2, 0, 1, 2, 2, 3, 3}, 4); rounds != 200 {
		t.Errorf("5 ms of lookahead: %v rounds, want 200", rounds)
	}
}

// However many workers are asked for, a simulated second is predicted to take no longer than over fewer of them, where
// there would be a round of messages for nearly every event; where there wouldn't, at most as many times as long as
// near allows, and then every worker has a node.
func TestMoreWorkersAreNotSlower(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	emptied := 0
	for range 60 {
		g := service(1+rng.IntN(12), 1000)
		if rng.IntN(2) == 0 {
			g = network(rng, 3+rng.IntN(12), math.Pow(10, -rng.Float64()*6), 1000)
		}
		p := predictorOf(g, Run{Processors: 1 + rng.IntN(8), Seconds: 1e9})
		best := math.Inf(1)
		for workers := 1; workers <= min(len(g.Nodes), 8); workers++ {
			p.run.Workers = workers
			made, err := Make(structure(g), p.run, MinCut, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			seconds, rounds := p.seconds(made.Of, workers)
			full := slices.Repeat([]int32{free}, len(g.Nodes))
			minCut(list(structure(g)), Run{}, workers, full, cyclicLinks(list(structure(g)), math.MaxFloat64))
			before, roundsBefore := p.seconds(full, workers)
			leave := !p.everyEvent(roundsBefore) && p.run.near(before, best)
			switch empty := slices.Contains(made.Nodes, 0); {
			case leave && (empty || seconds != before) && p.run.near(before, seconds):
				t.Errorf("%d workers: placed %v, want what the cut alone gives: %v", workers, made.Of, full)
			case !p.run.near(seconds, best) || !leave && seconds > min(before, best)*(1+1e-9):
				t.Errorf("%d workers: %v s, want no more than fewer take, %v s, and the cut alone, %v s",
					workers, seconds, best, before)
			case empty:
				emptied++
				if want := before / seconds; math.Abs(made.Saved/want-1) > 1e-9 {
					t.Errorf("%d workers: saved %v times, want %v", workers, made.Saved, want)
				}
				emptyLast := func(a, b int) int { return min(b, 1) - min(a, 1) }
				if made.Nodes[0] == 0 || !slices.IsSortedFunc(made.Nodes, emptyLast) {
					t.Errorf("%d workers: %v nodes, want the empty ones last", workers, made.Nodes)
				}
			}
			if p.everyEvent(rounds) && workers > 1 {
				t.Errorf("%d workers: %v rounds for %v events, where one worker needs none", workers, rounds, p.events)
			}
			best = min(best, seconds)
		}
	}
	if emptied == 0 {
		t.Error("no worker was left empty: nothing was tested")
	}
}

// The search for cycles over lanes finds what a plain transitive closure finds.
func TestClosesAgainstDumb(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	closed := 0
	for range 400 {
		g, workers, _ := random(rng, 8, 3)
		of := make([]int32, len(g.Nodes))
		for n := range of {
			of[n] = int32(rng.IntN(workers))
		}
		f := newFlow(structure(g), of, workers, &flowSpace{})
		f.merged = f.tooManyClasses()
		for _, most := range []float64{0, 1, 2} {
			got, want := f.closes(most), f.dumbCloses(most)
			if got != want {
				t.Fatalf("cycle over a lane up to %v: %v, want %v: %v placed %v", most, got, want, g, of)
			}
			if got {
				closed++
			}
		}
	}
	if closed == 0 || closed == 1200 {
		t.Errorf("%d of 1200 close: nothing was tested", closed)
	}
}

func (f *flow) dumbCloses(most float64) bool {
	n := f.vertices()
	reach := make([][]bool, n)
	for v := range reach {
		reach[v] = make([]bool, n)
	}
	f.edges(func(from, to int32, lookahead float64) {
		reach[from][to] = from != to && lookahead <= most || reach[from][to]
	})
	for k := range reach {
		for a := range reach {
			for b := range reach {
				reach[a][b] = reach[a][b] || reach[a][k] && reach[k][b]
			}
		}
	}
	for v := f.lanes; v < n; v++ {
		if reach[v][v] {
			return true
		}
	}
	return false
}

// A worker with more classes than the engine tells apart has one bound for all of its simprocs.
func TestTooManyClasses(t *testing.T) {
	const peers = 20
	g := graph(ones(2 * peers)) // pairs, each with a peer of its own before it
	of := make([]int32, 2*peers)
	for i := range peers {
		g.Links = append(g.Links, link(peers+i, i, 1, 0))
		of[peers+i] = int32(1 + i)
	}
	merged := newFlow(structure(g), of, 1+peers, &flowSpace{}).tooManyClasses()
	if merged == nil || !merged[0] || slices.Contains(merged[1:], true) {
		t.Errorf("merged are %v, want worker 0 alone", merged)
	}
	g.Links = g.Links[:node.ClassesMax-1] // and one class of those that nobody reaches
	if merged = newFlow(structure(g), of, 1+peers, &flowSpace{}).tooManyClasses(); merged != nil {
		t.Errorf("merged are %v, want none", merged)
	}
}

// What is found sooner is what is found at leisure, to the bit, where it is below the limit, and no less than that
// elsewhere.
func TestSecondsBelow(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	below, sooner := 0, 0
	for range 300 {
		g := network(rng, 3+rng.IntN(12), math.Pow(10, -rng.Float64()*6), 1000)
		switch rng.IntN(3) {
		case 0:
			g = service(1+rng.IntN(12), 1000)
		case 1:
			g.Meshes = []node.Mesh{{Lookahead: math.Pow(10, -rng.Float64()*6), Rate: 100}}
		}
		g.Epochs = [...]float64{0, 50}[rng.IntN(2)]
		p, workers := predictorOf(g, Run{Processors: 1 + rng.IntN(8), Seconds: 1e9}), 1+rng.IntN(8)
		for range 10 {
			of := make([]int32, len(g.Nodes))
			for n := range of {
				of[n] = int32(rng.IntN(workers))
			}
			want, rounds := p.seconds(of, workers)
			for _, limit := range []float64{want, math.Nextafter(want, math.Inf(1)), want * 2 * rng.Float64()} {
				got, n := p.secondsBelow(of, workers, limit)
				switch {
				case want < limit && (got != want || n != rounds):
					t.Fatalf("%v s in %v rounds below %v s, want %v s in %v: %v placed %v", got, n, limit, want,
						rounds, g, of)
				case want >= limit && got < limit:
					t.Fatalf("%v s below %v s, want no less than that, as it is %v s: %v placed %v", got, limit,
						want, g, of)
				case want < limit:
					below++
				case got != want:
					sooner++
				}
			}
		}
	}
	if below == 0 || sooner == 0 {
		t.Errorf("%d below the limit, %d found sooner: nothing was tested", below, sooner)
	}
}

// Where everybody sends to all others, no placement in which all workers have nodes takes less than the least.
func TestLeastOfMesh(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	close := 0
	for range 2000 {
		g := graph(ones(2 + rng.IntN(20)))
		g.Simprocs = []string{"a", "b"}
		for n := range g.Nodes {
			g.Nodes[n].Work, g.Nodes[n].Shared = 1000*rng.Float64(), rng.IntN(2) == 0
		}
		for range 1 + rng.IntN(3) {
			from := rng.IntN(2)
			g.Meshes = append(g.Meshes, node.Mesh{From: from, To: rng.IntN(1 + from),
				Lookahead: math.Pow(10, 1-rng.Float64()*7), Rate: 100 * rng.Float64()})
		}
		g.Epochs = [...]float64{0, 50}[rng.IntN(2)]
		workers := 1 + rng.IntN(len(g.Nodes))
		p := predictorOf(g, Run{Processors: 1 + rng.IntN(8), Seconds: 1})
		of := make([]int32, len(g.Nodes))
		for i, n := range rng.Perm(len(of)) {
			if of[n] = int32(i); i >= workers {
				of[n] = int32(rng.IntN(workers))
			}
		}
		least := p.leastOfMesh(workers)
		if seconds, _ := p.seconds(of, workers); seconds < least {
			t.Fatalf("%v s over %d workers, want at least %v: %v placed %v", seconds, workers, least, g, of)
		} else if seconds < 1.5*least {
			close++
		}
	}
	if close == 0 {
		t.Error("the least is far below all: it is of no use")
	}
}

// What is left out are workers without nodes, and nodes stay where they are.
func TestLeaveOut(t *testing.T) {
	g := service(12, 1000)
	made, err := Make(structure(g), Run{Workers: 14, Processors: 1, Seconds: 1e9}, MinCut, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	of, nodes, empty := slices.Clone(made.Of), slices.Clone(made.Nodes), slices.Index(made.Nodes, 0)
	if empty < 1 {
		t.Fatalf("nodes %v: no worker was left empty, nothing is tested", made.Nodes)
	}
	for range 2 { // once is enough
		made.LeaveOut()
		if made.Workers != empty || made.Unused != 14-empty || !slices.Equal(made.Nodes, nodes[:empty]) ||
			len(made.Work) != empty || !slices.Equal(made.Of, of) {
			t.Errorf("%d workers, %d unused, nodes %v placed %v; want %d, the others unused, %v placed %v",
				made.Workers, made.Unused, made.Nodes, made.Of, empty, nodes[:empty], of)
		}
	}
}
