// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/scenario"
	"github.com/urfave/cli/v2"
)

const (
	// pilotDefault is how long the pilot may simulate.
	pilotDefault = time.Second
	// eventUnmeasured is what an event takes one worker, in nanoseconds, where no pilot has shown it: what
	// internal/partition places nodes with.
	eventUnmeasured = 100
)

// explainedWorkers are the numbers of workers that explain looks at.
var explainedWorkers = []int{1, 2, 4, 8}

func (p *program) explainCommand() *cli.Command {
	return p.withParameters(cli.Command{
		Name:  "explain",
		Usage: "says what a run would take, and what more workers would bring, before it runs",
		Description: "Nodes, links, the least lookahead and where it comes from, events, memory, and for\n" +
			"1, 2, 4 and 8 workers how nodes would be divided, how many times as fast they would\n" +
			"be, and what limits them. Events and their speed come of a pilot: the scenario is\n" +
			"simulated on one worker for a second, or to its end where that comes first.",
		Flags: explainFlags(),
	}, p.explain)
}

func explainFlags() []cli.Flag {
	return append(validateFlags(),
		textFlag(groupWhat, "seed", "1", "`SEED` of the pilot's random numbers"),
		textFlag(groupWhat, "pilot", pilotDefault.String(), "`TIME` on the wall that the pilot may simulate; 0: "+
			"there is none, and events are what the scenario's rates say"),
		storeJSONFlag())
}

// explanation is what explain says, as JSON.
type explanation struct {
	Scenario  string             `json:"scenario"`
	File      string             `json:"file"`
	Set       []scenario.Setting `json:"set,omitempty"`
	Version   string             `json:"version"`
	Horizon   float64            `json:"horizon_s"`
	Nodes     int                `json:"nodes"`
	Simprocs  int                `json:"simprocs_per_node"`
	Links     int                `json:"links"`
	Meshes    int                `json:"meshes"`
	Lookahead *leastRow          `json:"least_lookahead"` // null: there are no links

	Events         float64   `json:"events"`                   // expected; 0: not known
	EventsBy       string    `json:"events_by"`                // whole, pilot, rates, or empty
	EventsPerSec   float64   `json:"events_per_simulated_s"`   // expected
	RatesPerSecond float64   `json:"by_rates_per_simulated_s"` // what nodes and links say; 0: nothing
	EventNanos     float64   `json:"event_ns"`                 // of one worker
	Measured       bool      `json:"event_ns_measured"`        // in the pilot
	Pilot          *pilotRow `json:"pilot,omitempty"`          // null: there was none
	Available      int64     `json:"memory_available_bytes"`   // on this machine
	Processors     int       `json:"processors"`               // that a run could use here
	Workers        []teamRow `json:"workers"`                  // for each number of them
	Unknown        []string  `json:"unknown"`                  // what can't be said beforehand, in sentences
	busiest        string    // the node that expects most of the work
	busiestShare   float64   // of all
}

// leastRow is a least lookahead and where it comes from.
type leastRow struct {
	Seconds float64 `json:"lookahead_s"`
	From    string  `json:"from"` // empty: a mesh, everybody to everybody
	To      string  `json:"to"`
	Links   int     `json:"links"` // that have it
}

// pilotRow is what the pilot has done.
type pilotRow struct {
	Reached float64 `json:"reached_s"`
	Events  uint64  `json:"events"`
	Wall    float64 `json:"wall_s"`
	CPU     float64 `json:"cpu_s"`   // of its worker, while it simulated
	Whole   bool    `json:"whole"`   // it has come to the horizon
	Changed bool    `json:"changed"` // its second half had events at another rate than the first
	late    float64 // events in a simulated second, of the later half where it is known
}

// explain is the command.
func (p *program) explain(c *cli.Context) error {
	file, err := p.oneFile(c.Args().Slice())
	if err != nil {
		return err
	}
	flags := &values{c: c}
	path := flags.jsonPath()
	limit := flags.duration("pilot", pilotDefault)
	pilot := newPilot(limit)
	cfg := launch.Config{Registry: p.registry, Horizon: flags.seconds("horizon"), Seed: flags.seed("seed", 1),
		Workers: 1, Replications: 1, Transport: launch.TransportShm, Stall: launch.StallDefault, EndStalled: true,
		Ready: pilot.begin, Progress: pilot.look, Stop: pilot.stop}
	cfg.Files = p.files(c, &cfg)
	if err := flags.err(); err != nil {
		return err
	}
	if cfg.Set, err = p.settings(c); err != nil {
		return err
	}
	doc, err := p.read(file)
	if err != nil {
		return err
	}
	if err := p.checkSettings(c, doc, cfg.Set); err != nil {
		return err
	}
	cfg.File, cfg.Text = doc.File(), doc.Text()
	return p.explained(&cfg, pilot, limit > 0, path)
}

// explained prepares the run, lets the pilot run, and shows what is known then.
func (p *program) explained(cfg *launch.Config, pilot *pilot, runs bool, path string) (err error) {
	screen := newScreen(p.terminal, p.name)
	defer screen.watch()()
	cfg.Stderr, cfg.Doing = screen, screen.doing
	signals := watchSignals(screen, p.name)
	defer signals.close()
	defer func() { err = signals.cause(err) }()
	defer pilot.endWith(signals.stop)()
	l, err := prepare(*cfg)
	screen.clear()
	if err != nil {
		return err
	}
	e := newExplanation(cfg, l)
	rates, err := eventRate(l)
	if err != nil {
		return err
	}
	e.RatesPerSecond = rates
	teams := make([]*launch.Expectation, len(explainedWorkers))
	for i, n := range explainedWorkers {
		if teams[i], err = l.Expect(n); err != nil {
			return err
		}
		e.Workers, e.Available = append(e.Workers, e.team(l, n, teams[i])), teams[i].Available
	}
	switch a, asks := l.Scenario().(scenario.Asker); {
	case !runs:
	case asks && len(a.Externals()) > 0:
		e.unknown("how many events there are: handlers ask the outside world, which a pilot doesn't do for nothing")
	default:
		out, err := simulate(signals.ctx, l, pilot.stop, screen)
		screen.clear()
		if err != nil {
			return fmt.Errorf("the pilot: %w", err)
		}
		if signals.first.Load() != 0 {
			return fmt.Errorf("%w in the pilot", errInterrupted)
		}
		e.Pilot = pilot.row(out)
	}
	e.conclude()
	for i, t := range teams {
		e.predict(&e.Workers[i], t)
	}
	if path != "-" {
		w := p.paper()
		w.write(w.explained(e))
	}
	return p.writeStoreJSON(path, e)
}

func newExplanation(cfg *launch.Config, l *launch.Launch) *explanation {
	g := l.Structure()
	e := &explanation{Scenario: l.Scenario().Name(), File: cfg.File, Set: l.Set(), Version: Version(),
		Horizon: l.Scenario().Horizon(), Nodes: g.NumNodes(), Simprocs: len(g.Simprocs()), Links: g.NumLinks(),
		Meshes: len(g.Meshes()), Lookahead: leastOf(g), Processors: l.Processors(),
		Workers: []teamRow{}, Unknown: []string{}}
	sum, most := 0.0, -1
	for n := range g.NumNodes() {
		if sum += g.Work(n); g.Work(n) > 0 && (most < 0 || g.Work(n) > g.Work(most)) {
			most = n
		}
	}
	if most >= 0 && !math.IsInf(sum, 1) {
		e.busiest, e.busiestShare = g.NodeName(most), g.Work(most)/sum
	}
	if settles(l.Scenario()) {
		e.unknown("how long the run is: warmup: auto simulates a pilot replication first, as long as another one")
	}
	return e
}

func (e *explanation) unknown(format string, args ...any) {
	e.Unknown = append(e.Unknown, fmt.Sprintf(format, args...))
}

// conclude works out how many events there will be, and says what isn't known.
func (e *explanation) conclude() {
	e.EventNanos = eventUnmeasured
	pilot := e.Pilot
	switch {
	case pilot != nil && pilot.Whole:
		e.EventsBy, e.Events = "whole", float64(pilot.Events)
	case pilot != nil && pilot.Reached > 0 && pilot.Events > 0:
		e.EventsBy, e.Events = "pilot", float64(pilot.Events)+pilot.late*(e.Horizon-pilot.Reached)
		if pilot.Changed {
			e.unknown("how many events there are to within a fifth: their rate changed while the pilot ran; a longer " +
				"--pilot sees more")
		}
	case e.RatesPerSecond > 0:
		e.EventsBy, e.Events = "rates", e.RatesPerSecond*e.Horizon
	default:
		e.unknown("how many events there are: the scenario states no rates, and no pilot has handled one")
	}
	e.Events = finite(e.Events)
	e.EventsPerSec = e.Events / e.Horizon
	if pilot != nil && pilot.Events > 0 && pilot.Wall > 0 {
		// On a machine that does other things meanwhile, that time isn't the events'. Garbage is collected on other
		// processors, where these are free: that doesn't hold events up.
		seconds := pilot.Wall
		if pilot.CPU > 0 {
			seconds = min(seconds, pilot.CPU)
		}
		e.EventNanos, e.Measured = seconds*1e9/float64(pilot.Events), true
	} else {
		e.unknown("how long an event takes: %d ns are taken for it", eventUnmeasured)
	}
	if e.busiest == "" && e.Nodes > 1 {
		e.unknown("how much each node does: the scenario doesn't state it, so all count alike")
	}
}

// pilot is a run that ends when it has simulated for a while.
type pilot struct {
	limit time.Duration
	stop  chan struct{}
	once  sync.Once

	mu    sync.Mutex
	timer *time.Timer
	seen  []launch.Progress // in the order of time
}

func newPilot(limit time.Duration) *pilot { return &pilot{limit: limit, stop: make(chan struct{})} }

// seenMax bounds what look keeps: five a second.
const seenMax = 10_000

func (t *pilot) end() { t.once.Do(func() { close(t.stop) }) }

// begin is called when the workers are ready.
func (t *pilot) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer == nil {
		t.timer = time.AfterFunc(t.limit, t.end)
	}
}

func (t *pilot) look(at launch.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.seen) < seenMax {
		t.seen = append(t.seen, at)
	}
}

// endWith ends it when stop is closed, too; done frees what that takes.
func (t *pilot) endWith(stop <-chan struct{}) (done func()) {
	over := make(chan struct{})
	go func() {
		select {
		case <-stop:
			t.end()
		case <-over:
		}
	}()
	return func() {
		close(over)
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.timer != nil {
			t.timer.Stop()
		}
	}
}

// changedShare is from which difference on between its halves a pilot is said to have changed.
const changedShare = 0.2

// row is what it has done.
func (t *pilot) row(out *launch.Outcome) *pilotRow {
	r := &pilotRow{Events: out.Events, Wall: out.WallSeconds}
	for i := range out.Workers {
		r.CPU += out.Workers[i].CPUSeconds
	}
	if len(out.Replications) > 0 {
		r.Reached = out.Replications[0].Reached
	}
	r.Whole = !out.Interrupted
	if r.Reached > 0 {
		r.late = float64(r.Events) / r.Reached
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// The look nearest to its half, where there is one that is far enough from both ends.
	at := slices.IndexFunc(t.seen, func(p launch.Progress) bool { return p.Now >= r.Reached/4 })
	if at < 0 || !(t.seen[at].Now < r.Reached*3/4) || r.Whole {
		return r
	}
	for k := at; k < len(t.seen) && t.seen[k].Now <= r.Reached/2; k++ {
		at = k
	}
	half := t.seen[at]
	if early := float64(half.Events) / half.Now; early > 0 && uint64(half.Events) <= r.Events {
		r.late = (float64(r.Events) - float64(half.Events)) / (r.Reached - half.Now)
		r.Changed = math.Abs(r.late-early) > changedShare*early
	}
	return r
}
