// SPDX-License-Identifier: Apache-2.0

// Package launch runs a simulation over many workers: it reads the scenario, places
// its nodes, creates the shared memory, starts the workers, leads them through the
// replications, supervises them, merges their results, and cleans up after them. It never
// touches an event.
//
// Guarantee: when Run returns, nothing of the run is left: no process, no shared
// memory and no file but those that were asked for, whatever its workers did, and
// files are there whole or not at all. Where it was asked to end, workers that were killed may take the system a
// moment longer, and one that is a goroutine in a model's code ends with that. A worker that dies ends the run within
// one second with an error that names it. A launcher that dies takes its workers with
// it. For one scenario and seed the Outcome's results and trace hash are the same for
// every number of workers, placement, transport and tuning.
//
//	l, err := launch.Prepare(launch.Config{
//		File: "shop.yml", Text: text, Registry: kinds,
//		Workers: 2, Replications: 1,
//	})
//	// ... l.Scenario(), l.Placement()
//	out, err := l.Run(ctx)
//	err = out.Summary.WriteText(os.Stdout)
//
// A program that calls Run must begin its main, before it looks at its arguments,
// with
//
//	if launch.IsWorker() {
//		os.Exit(launch.Serve(kinds))
//	}
//
// because workers are this same executable, started again. Package app does it for
// the programs that leave their command line to it.
package launch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/disco-sim/disco/external"
	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/graphdata"
	"github.com/disco-sim/disco/internal/machine"
	"github.com/disco-sim/disco/internal/partition"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/shm"
)

// IsWorker reports whether a launcher started this process as a worker. Then Serve is
// all that it has to do.
func IsWorker() bool { return workerproc.IsWorker() }

// Serve runs a worker process, from what its launcher handed it to its exit status. The kinds must be those of the
// launcher.
func Serve(reg scenario.Registry) int { return machine.Serve(reg) }

// Launch is a run that is ready to begin: its scenario was read and found good, and
// its nodes have their places. It is used by one goroutine and runs once.
type Launch struct {
	cfg       Config
	input     worker.Input // what every worker reads
	scenario  scenario.Scenario
	structure *node.Structure      // its structure; an Outline, once workers have it in memory
	placement *partition.Partition // of the nodes over the workers of a set
	shards    shards               // in which nodes move
	journal   worker.Journal       // what the trace is to be
	plan      machine.Plan         // the lanes of a set, and its machines
	sets      int                  // of workers

	runID    checkpoint.ID // of a run without checkpoints, for calls of the outside world
	together together

	graphDigest string // of what the scenario has of a database; "": nothing

	footprint footprint
	memory    *memory
	store     *store    // nil: no checkpoints are made or read
	wentOn    time.Time // when the first replication began to be simulated; set behind Run
	refused   bool      // the run was wrongly asked for, and has simulated nothing: nothing of it is kept

	machinesText []string // what was chosen, and why, line by line
	// input for other processes; nil before Run and where there are none
	inputSegment *shm.Segment
	log          *workerproc.LineWriter // what workers write, and remarks
	timeouts     timeouts
	clock        *clock                           // of its phases
	soFar        *soFar                           // nil: there are no results before the end
	onStep       func(s *supervisor, step string) // for tests: see supervisor.onStep
}

// Prepare checks everything that can be checked before anything is started. Its
// errors unwrap to ErrConfig, or are scenario.Problems.
func Prepare(cfg Config) (*Launch, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	defer shm.HugeHeap()() // whoever interrupts waits until it is given back
	heap, times := heapBytes(0), newClock(cfg.Phases)
	doc, s, err := cfg.read()
	if err != nil {
		return nil, err
	}
	if a, ok := s.(scenario.Asker); ok {
		if err := external.CheckAll(a.Externals()); err != nil {
			return nil, badConfig("%s: %w", cfg.File, err)
		}
	}
	graph, err := scenario.GraphOf(s)
	if err != nil {
		return nil, badConfig("%s: %w", cfg.File, err)
	}
	kind := cfg.Registry.Unpacks(doc, s)
	f := newFootprint(&cfg, s, graph, kind != "", heap)
	if err := cfg.checkMemory(f.needs(true, 0, 0)); err != nil {
		return nil, err
	}
	if err := cfg.begin("checking the scenario's nodes and links"); err != nil {
		return nil, err
	}
	times.enter(&times.Compile)
	g, err := node.Compile(graph, cfg.proceed)
	if errors.Is(err, errNotBegun) {
		return nil, err
	} else if err != nil {
		return nil, badConfig("%s: %w", cfg.File, err)
	}
	times.enter(&times.Partition)
	l := &Launch{cfg: cfg, scenario: s, clock: times, runID: newRunID(), log: workerproc.NewLineWriter(cfg.Stderr),
		timeouts: cfg.timeouts(g.NumSimprocs()), input: worker.Input{File: cfg.File, Text: cfg.Text, Set: cfg.Set,
			Attached: doc.Attachments(), Kind: kind}}
	l.together.names, l.together.groups = doc.Together()
	for _, a := range l.input.Attached {
		if a.Name == graphdata.Name {
			l.graphDigest = graphdata.Digest(a.Text)
		}
	}
	if cfg.Replay != nil {
		l.cfg.Legs = &Legs{Next: cfg.Replay.next}
		cfg.Replay.setLevels(g)
	} else if cfg.saves() {
		l.cfg.Legs = &Legs{Next: cfg.Checkpoint.next}
	}
	if (cfg.Rebalance != nil || cfg.SoFar != nil) && l.cfg.Legs == nil {
		l.cfg.Legs = &Legs{Next: func(int, float64) float64 { return math.Inf(1) }}
	}
	if cfg.Journal != nil {
		if l.journal, err = cfg.Journal.selection(g); err != nil {
			return nil, err
		}
	}
	if err := l.place(g); err != nil {
		return nil, err
	}
	f.links = float64(g.NumLinks())
	if cfg.Machines != nil && cfg.Memory == 0 { // else somebody wants to try it
		l.plan.Expect(f.heaps(l.placement.Nodes))
	}
	l.footprint = f
	err = l.checkFits(&f)
	times.enter(nil)
	return l, err
}

// read reads the scenario.
func (cfg *Config) read() (*scenario.Document, scenario.Scenario, error) {
	if err := cfg.begin("reading the scenario"); err != nil {
		return nil, nil, err
	}
	doc, err := scenario.Parse(cfg.File, cfg.Text)
	if err != nil {
		return nil, nil, err
	}
	if doc, err = doc.With(cfg.Set); err != nil {
		return nil, nil, badConfig("set: %w", err)
	}
	if cfg.Attached != nil {
		doc = doc.Attach(cfg.Attached)
	} else if doc, err = cfg.Registry.Attach(doc, cfg.Files); err != nil {
		return nil, nil, err
	}
	s, err := cfg.Registry.Load(doc, scenario.Options{Horizon: cfg.Horizon, Series: cfg.Series})
	var problems scenario.Problems
	var option *scenario.OptionError
	if err != nil && !errors.As(err, &problems) && !errors.As(err, &option) { // a model that can't be built
		err = badConfig("%s: %w", cfg.File, err)
	}
	return doc, s, err
}

// place deals the nodes out to the workers.
func (l *Launch) place(g *node.Structure) error {
	cfg := &l.cfg
	sets, workers := cfg.teams(g.NumNodes())
	if err := cfg.begin("placing %d nodes on %d workers", g.NumNodes(), workers); err != nil {
		return err
	}
	pinned, err := cfg.Pins.Resolve(g, workers)
	if err != nil {
		return err
	}
	placement, machines, err := l.divideTogether(g, partition.Run{Workers: workers, Processors: cfg.Processors,
		Seconds: l.scenario.Horizon() * float64(cfg.wanted())}, pinned)
	if errors.Is(err, errNotBegun) {
		return err
	} else if err != nil {
		return &configError{err}
	}
	placed, err := g.Place(placement.Of, placement.Workers)
	if err != nil {
		return err
	}
	if n := placed.CountLinks(); cfg.Tuning.Sync == worker.SyncLink && n > node.LinksMax {
		return badConfig("sync: found %s, but %d links lead from one worker to another, want at most %d to have "+
			"promises of their own: use %s", worker.SyncLink, n, node.LinksMax, worker.SyncLane)
	}
	l.structure, l.input.Placed, l.placement, l.sets = g, placed, placement, sets
	if cfg.Rebalance != nil {
		if err := l.makeShards(pinned, machines); err != nil {
			return err
		}
	}
	l.plan = machine.NewPlan(machines, l.lanesOfAll(partition.Traffic(g, placement.Of, placement.Workers)),
		cfg.Tuning, cfg.BridgeBytes)
	return nil
}

// checkFits refuses a run that needs more than there is.
func (l *Launch) checkFits(f *footprint) error {
	bytes, segments, err := l.plan.Needs(0, !l.shared())
	if err != nil {
		return &configError{err}
	}
	if l.cfg.Machines != nil {
		bytes, segments = 0, l.plan.Workers() // here are their boards only
	}
	f.workers = l.placement.Workers
	l.memory = newMemory(l, 0)
	input := 0
	if l.shared() {
		input = l.input.Segment().Size
	}
	needs := f.needs(false, input, bytes)
	for _, n := range needs {
		l.memory.expected += n.bytes
	}
	if err := l.cfg.checkMemory(needs); err != nil {
		return err
	}
	if !l.shared() {
		return nil
	}
	return checkFiles(l.plan.Workers(), segments, l.sets)
}

// begin calls Doing, unless Config.Stop asks for an end.
func (cfg *Config) begin(format string, args ...any) error {
	if err := cfg.proceed(); err != nil {
		return err
	}
	cfg.doing(format, args...)
	return nil
}

// doing calls Doing.
func (cfg *Config) doing(format string, args ...any) {
	if cfg.Doing != nil {
		cfg.Doing(fmt.Sprintf(format, args...))
	}
}

// proceed ends long work before the run when Config.Stop asks for it.
func (cfg *Config) proceed() error {
	select {
	case <-cfg.Stop:
		return errNotBegun
	default:
		return nil
	}
}

// Scenario is what was read.
func (l *Launch) Scenario() scenario.Scenario { return l.scenario }

// GraphDigest is that of what the scenario has of a database; "": nothing.
func (l *Launch) GraphDigest() string { return l.graphDigest }

// Attached are the files that the scenario refers to, before the run.
func (l *Launch) Attached() []scenario.Attachment { return l.input.Attached }

// Structure is the scenario's structure.
func (l *Launch) Structure() *node.Structure { return l.structure }

// Placement is which worker will host which node, among the workers that simulate a
// replication together: at most one for each node.
func (l *Launch) Placement() *partition.Partition { return l.placement }

// Set is what was put into the scenario file.
func (l *Launch) Set() []scenario.Setting { return l.cfg.Set }

// Spread is what will be dealt out to the workers: SpreadNodes or SpreadReplications.
func (l *Launch) Spread() string { return l.cfg.Spread }

// Partition is the way in which nodes are dealt out.
func (l *Launch) Partition() partition.Method { return l.cfg.Partition }

// Workers is how many will run: at most one for each node, or for each replication, and none that the placement has
// left without a node.
func (l *Launch) Workers() int { return l.sets * l.placement.Workers }

// threads is how many workers of a set on a machine have nodes, and how many threads each of them has that take in and
// handle events.
func (l *Launch) threads(plan *machine.Plan, on int32) (workers, each int) {
	for w, nodes := range l.placement.Nodes {
		if nodes > 0 && plan.Machine[w] == on {
			workers++
		}
	}
	if l.cfg.Tuning.Ingress == worker.IngressGoroutine {
		return workers, 2
	}
	return workers, 1
}

// crowded tells whether more threads of workers that have nodes, and of a bridge, wait for each other on a
// machine than can run there at once.
func (l *Launch) crowded(plan *machine.Plan, on int32) bool {
	workers, each := l.threads(plan, on)
	return workers*each+plan.BridgeThreads(int(on)) > l.cfg.machineProcessors(on)
}

// Processors is how many of the workers can run at once.
func (l *Launch) Processors() int { return l.cfg.Processors }

// shared reports whether workers are processes.
func (l *Launch) shared() bool { return l.cfg.Transport == TransportShm }

// Transport is the one that will be used.
func (l *Launch) Transport() string { return l.cfg.Transport }

// Tuning is what the knobs are set to, defaults filled in.
func (l *Launch) Tuning() worker.Tuning { return l.cfg.Tuning }

// Run runs a simulation: Prepare and Launch.Run in one.
func Run(ctx context.Context, cfg Config) (*Outcome, error) {
	l, err := Prepare(cfg)
	if errors.Is(err, errNotBegun) {
		return &Outcome{Interrupted: true}, nil
	} else if err != nil {
		return nil, err
	}
	return l.Run(ctx)
}

// note prints a remark that isn't an error.
func (l *Launch) note(text string) { l.log.Line("disco", text) }

// spinsInTurn is the remark that ingress threads which only spin are more than can run at once: each then keeps its
// processor from the others for whole time slices. "": they are not.
func (l *Launch) spinsInTurn() string {
	crowded := func(on int32) bool { return l.crowded(&l.plan, on) }
	if t := l.cfg.Tuning; t.Ingress != worker.IngressGoroutine || t.Wait != shm.ModeSpin.String() ||
		!slices.ContainsFunc(l.plan.Machine, crowded) {
		return ""
	}
	return fmt.Sprintf("--wait spin --ingress goroutine: two threads of each worker spin, more than the %d "+
		"processors: this takes many times as long as --wait adaptive or --ingress duty", l.cfg.Processors)
}

// fewerWorkers is the remark that the scenario or the replications can't be divided among as many workers as were asked
// for, "" where they can. Why the placement uses fewer still is said with the placement.
func (l *Launch) fewerWorkers() string {
	if l.sets*(l.placement.Workers+l.placement.Unused) >= l.cfg.Workers {
		return ""
	}
	if l.cfg.Spread == SpreadReplications {
		what := fmt.Sprintf("are %d replications", l.cfg.wanted())
		if l.cfg.wanted() == 1 {
			what = "is 1 replication"
		}
		return fmt.Sprintf("%d workers were asked for, but there %s to spread: running with %d", l.cfg.Workers, what,
			l.Workers())
	}
	if l.together.most > 0 {
		return fmt.Sprintf("%d workers were asked for, but graph.together makes too few groups of nodes: running "+
			"with %d", l.cfg.Workers, l.placement.Workers)
	}
	nodes := fmt.Sprintf("%d nodes", l.structure.NumNodes())
	if l.structure.NumNodes() == 1 {
		nodes = "1 node"
	}
	return fmt.Sprintf("%d workers were asked for, but the scenario has %s: running with %d",
		l.cfg.Workers, nodes, l.placement.Workers)
}
