// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/disco-sim/disco/internal/hazard"
	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/outfile"
	"github.com/disco-sim/disco/internal/partition"
	"github.com/disco-sim/disco/internal/placement"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/scenario"
	"github.com/urfave/cli/v2"
)

func (p *program) verifyCommand() *cli.Command {
	return p.withParameters(cli.Command{
		Name:  "verify",
		Usage: "runs a scenario in many ways and shows the first thing that isn't the same",
		Description: "Runs the scenario in FILE twice on one worker, over 2 and 3 workers, with nodes placed so\n" +
			"that any two of them are apart once, and with other rings. Traces, what every activation did, and\n" +
			"results must be the same. The exit status is 0 where they are, 1 where they aren't.",
		Flags: verifyFlags(),
	}, p.verify)
}

func verifyFlags() []cli.Flag {
	return []cli.Flag{
		textFlag(groupWhat, "seed", "1", "`SEED` of all random numbers"),
		textFlag(groupWhat, "replications", "1", "simulate `R` repetitions in each run"),
		horizonFlag(),
		warmupFlag(),
		setFlag(),
		databaseFlag(),
		textFlag(groupOutput, "json", "none",
			"write what was found to `FILE` as JSON, - for standard output and nothing else there"),
	}
}

// verifier runs one scenario in many ways.
type verifier struct {
	p      *program
	ctx    context.Context
	screen *screen
	config launch.Config
	folder string // for journals
	names  []string
	launch *launch.Launch // of the first run
	title  string         // what is run
	first  *verified      // the run on one worker
	report verification
}

// variant is one way to run the scenario.
type variant struct {
	name     string
	workers  int
	fleeting bool // the memory of events is overwritten behind each call
	pins     *placement.Pins
	method   partition.Method
	tuning   worker.Tuning
}

// verified is what a variant has given.
type verified struct {
	variant variant
	hash    string
	results string
	failed  error
	journal string // path
	seconds float64

	placement []int32 // worker of each node
}

// verification is what verify has found, as JSON.
type verification struct {
	Scenario   string      `json:"scenario"`
	File       string      `json:"file"`
	Agree      bool        `json:"agree"`
	Runs       []verifyRow `json:"runs"`
	Difference *difference `json:"difference"` // null where all agree

	// Doubtful is what the source of a model has that agrees, but needn't always.
	Doubtful []hazard.Finding `json:"doubtful,omitempty"`
}

type verifyRow struct {
	Name      string  `json:"name"`
	Workers   int     `json:"workers"`
	TraceHash string  `json:"trace_hash"` // empty for a run that failed
	Error     string  `json:"error,omitempty"`
	Events    uint64  `json:"events"`
	Seconds   float64 `json:"wall_s"`
}

// verify is the command.
func (p *program) verify(c *cli.Context) error {
	file, err := p.oneFile(c.Args().Slice())
	if err != nil {
		return err
	}
	flags := &values{c: c}
	out := flags.path("json")
	v := &verifier{p: p, config: launch.Config{
		Registry: p.registry, Seed: flags.seed("seed", 1),
		Replications: flags.integer("replications", 1, 1, launch.ReplicationsMax), Horizon: flags.seconds("horizon"),
		Transport: launch.TransportShm, Stall: launch.StallDefault, EndStalled: true,
	}}
	v.config.Files = p.files(c, &v.config)
	if err := flags.err(); err != nil {
		return err
	}
	if v.config.Set, err = p.settings(c); err != nil {
		return err
	}
	if out != "" && out != "-" {
		if err := outfile.Check(out); err != nil {
			return usage("--json: %v", err)
		}
	}
	doc, err := p.read(file)
	if err != nil {
		return err
	}
	if err := p.checkSettings(c, doc, v.config.Set); err != nil {
		return err
	}
	v.config.File, v.config.Text, v.report.File = doc.File(), doc.Text(), doc.File()
	return v.carryOut(out)
}

// errDiffer is the end of a verification that has found something.
var errDiffer = errors.New("the runs don't agree")

// carryOut runs everything and shows what was found.
func (v *verifier) carryOut(out string) (err error) {
	v.screen = newScreen(v.p.terminal, v.p.name)
	defer v.screen.watch()()
	signals := watchSignals(v.screen, v.p.name)
	defer signals.close()
	v.ctx, v.config.Stop, v.config.Doing = signals.ctx, signals.stop, v.screen.doing
	if v.screen.terminal {
		v.config.Progress = v.screen.progress
	}
	if v.folder, err = os.MkdirTemp("", "disco-verify-"); err != nil {
		return fmt.Errorf("a folder for journals: %w", outfile.Error(os.TempDir(), err))
	}
	defer func() { err = errors.Join(err, os.RemoveAll(v.folder)) }()
	if err := v.runAll(); err != nil {
		return signals.cause(err)
	}
	v.screen.end()
	if out != "-" {
		v.show()
	}
	if out != "" {
		if err := v.writeJSON(out); err != nil {
			return err
		}
	}
	if !v.report.Agree {
		return errDiffer
	}
	return nil
}

// writeJSON writes what was found.
func (v *verifier) writeJSON(path string) error {
	text, err := json.MarshalIndent(&v.report, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if path == "-" {
		_, err := v.p.stdout.Write(text)
		return err
	}
	f, err := outfile.Create(path)
	if err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	if _, err := f.Write(text); err != nil {
		f.Abort()
		return fmt.Errorf("--json: %w", outfile.Error(path, err))
	}
	return f.Commit()
}

// runAll runs all variants, up to the first that differs.
func (v *verifier) runAll() error {
	first, err := v.run(variant{name: "1 worker", workers: 1})
	if err != nil {
		return err
	}
	if first.failed != nil {
		return first.failed
	}
	v.first = first
	g := v.launch.Structure()
	v.report.Scenario = v.launch.Scenario().Name()
	for i := range g.NumNodes() {
		v.names = append(v.names, g.NodeName(i))
	}
	for _, next := range v.variants() {
		r, err := v.run(next)
		if err != nil {
			return err
		}
		d, err := v.compare(first, r)
		if err != nil {
			return err
		}
		if d != nil {
			v.report.Difference = d
			return v.explain(d, r)
		}
		v.forget(r)
	}
	v.report.Agree = true
	if s, ok := v.launch.Scenario().(scenario.Sourcer); ok { // others' files also have what only reads the scenario
		files := s.SourceFiles()
		for _, f := range hazard.Find(files) {
			same := func(file string) bool { return filepath.Base(file) == filepath.Base(f.File) }
			if slices.ContainsFunc(files, same) {
				v.report.Doubtful = append(v.report.Doubtful, f)
			}
		}
	}
	return nil
}

// variants are the ways to run a scenario besides the first.
func (v *verifier) variants() []variant {
	small := worker.Tuning{RingBytes: worker.RingBytesMin, InlineMax: 64, BatchMax: 1}
	list := []variant{
		{name: "1 worker again", workers: 1},
		{name: "1 worker, memory of events overwritten behind each call", workers: 1, fleeting: true},
	}
	if len(v.names) == 1 {
		return list
	}
	list = append(list,
		variant{name: "2 workers, nodes in turn", workers: 2, method: partition.RoundRobin},
		variant{name: "2 workers, small rings, looking at them after each call", workers: 2,
			method: partition.RoundRobin, tuning: small},
		variant{name: "2 workers, a thread beside each that takes in", workers: 2, method: partition.RoundRobin,
			tuning: worker.Tuning{Ingress: worker.IngressGoroutine}},
		variant{name: "3 workers, little traffic between them", workers: 3, method: partition.MinCut})
	for digit, weight := 1, 1; weight < len(v.names); digit, weight = digit+1, 3*weight {
		apart := v.placed(func(node int) int { return node / weight % 3 })
		apart.name = fmt.Sprintf("%d workers, placement %d of those that part any two nodes", apart.workers, digit)
		list = append(list, apart)
	}
	return list
}

// placed is a variant in which all nodes have their places. Workers without nodes are left out.
func (v *verifier) placed(workerOf func(node int) int) variant {
	workers, used := make([]int, len(v.names)), map[int]int{}
	for i := range workers {
		w := workerOf(i)
		if _, ok := used[w]; !ok {
			used[w] = len(used)
		}
		workers[i] = used[w]
	}
	return variant{workers: len(used), pins: placement.Of(v.names, workers)}
}

// run runs one variant. What goes wrong with the model is in its result; the error is about everything else.
func (v *verifier) run(how variant) (*verified, error) {
	cfg := v.config
	cfg.Workers, cfg.Pins, cfg.Partition, cfg.Tuning = how.workers, how.pins, how.method, how.tuning
	cfg.Spread = launch.SpreadNodes
	cfg.Journal = &launch.Journal{Fleeting: how.fleeting}
	r := &verified{variant: how, journal: filepath.Join(v.folder, fmt.Sprint(len(v.report.Runs)))}
	cfg.Trace = r.journal
	v.screen.next(how.name+": ", len(v.report.Runs) > 0)
	l, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	if v.launch == nil {
		remark(v.screen, l.Scenario())
		v.launch, v.title = l, describe(l)
	}
	r.placement = l.Placement().Of
	row := verifyRow{Name: how.name, Workers: l.Workers()}
	out, err := simulate(v.ctx, l, cfg.Stop, v.screen)
	var w *launch.WorkerError
	switch {
	case errors.As(err, &w):
		r.failed, row.Error = err, err.Error()
	case err != nil:
		return nil, err
	case out.Interrupted:
		return nil, interruption(l, out)
	default:
		var text strings.Builder
		if err := out.Summary.WriteText(&text); err != nil {
			return nil, err
		}
		r.hash, r.results, r.seconds = out.TraceHash, text.String(), out.WallSeconds+out.SetupSeconds
		row.TraceHash, row.Events, row.Seconds = r.hash, out.Events, r.seconds
	}
	v.report.Runs = append(v.report.Runs, row)
	return r, nil
}

// forget removes the journal of a run.
func (v *verifier) forget(r *verified) { _ = os.Remove(r.journal) } // the folder is removed at the end anyway

// difference is what isn't the same in two runs.
type difference struct {
	Runs  [2]string      `json:"runs"`
	Sides [2]*activation `json:"sides"`           // the first activation that differs; null where a run has none
	Other [2]string      `json:"other,omitempty"` // where no activation differs: a line of the results, or errors
	Cause cause          `json:"cause"`

	failed bool // the second run
}

// compare finds the first difference between two runs; nil where they agree.
func (v *verifier) compare(a, b *verified) (*difference, error) {
	d := &difference{Runs: [2]string{a.variant.name, b.variant.name}}
	if b.failed != nil {
		d.Other, d.failed = [2]string{"the run ends well", b.failed.Error()}, true
		return d, nil
	}
	var err error
	if d.Sides[0], d.Sides[1], err = firstDifference(v.launch.Scenario(), a.journal, b.journal); err != nil {
		return nil, err
	}
	switch {
	case d.Sides[0] != nil || d.Sides[1] != nil:
		d.onlyFirst()
		return d, nil
	case a.results != b.results:
		d.Other = differentLine(a.results, b.results)
		return d, nil
	case a.hash != b.hash:
		d.Other = [2]string{"trace hash " + a.hash, "trace hash " + b.hash}
		return d, nil
	}
	return nil, nil
}

// onlyFirst leaves out the side whose activation comes later than the other's: that run has none then.
func (d *difference) onlyFirst() {
	if d.Sides[0] == nil || d.Sides[1] == nil {
		return
	}
	a, b := epochOf(d.Sides[0]), epochOf(d.Sides[1])
	if a < b {
		d.Sides[1] = nil
	} else if b < a {
		d.Sides[0] = nil
	}
}

func epochOf(a *activation) float64 {
	var epoch float64
	if _, err := fmt.Sscan(a.Epoch, &epoch); err != nil {
		return math.Inf(1)
	}
	return epoch
}

// differentLine is the first line that two texts don't share.
func differentLine(a, b string) [2]string {
	left, right := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range max(len(left), len(right)) {
		var l, r string
		if i < len(left) {
			l = left[i]
		}
		if i < len(right) {
			r = right[i]
		}
		if l != r {
			return [2]string{l, r}
		}
	}
	return [2]string{}
}
