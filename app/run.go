// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/outdir"
	"github.com/disco-sim/disco/internal/outfile"
	"github.com/disco-sim/disco/internal/partition"
	"github.com/disco-sim/disco/internal/placement"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/scenario"
	"github.com/urfave/cli/v2"
)

// Groups of flags in the help, which shows them in the order of the alphabet.
const (
	groupWhat   = "Experiment"
	groupOutput = "Output"
	groupWhere  = "Spread (speed, never results)"
	groupTuning = "Tuning (speed, never results)"
	groupWatch  = "When something is wrong"

	groupMachines = "Several machines (speed, never results)"
)

func (p *program) runCommand() *cli.Command {
	return p.withParameters(cli.Command{
		Name:  "run",
		Usage: "runs a scenario and shows its results",
		Description: "Reads the scenario in FILE (- for standard input), runs it and prints its results.\n" +
			"Flags may stand before and behind FILE.",
		Flags: append(runFlags(), horizonFlag(), warmupFlag(), databaseFlag(), graphFilesOption()),
	}, func(c *cli.Context) error {
		file, err := p.oneFile(c.Args().Slice())
		if err != nil {
			return err
		}
		return p.run(c, cmp.Or(file, commandLine), func() (*scenario.Document, error) { return p.read(file) })
	})
}

func horizonFlag() cli.Flag {
	return textFlag(groupWhat, "horizon", "the scenario's own", "simulated `SECONDS` at which a run ends")
}

func textFlag(category, name, value, usage string) cli.Flag {
	return &cli.StringFlag{Category: category, Name: name, DefaultText: value, Usage: usage}
}

// runFlags are the flags of everything that runs a scenario.
func runFlags() []cli.Flag {
	return append(slices.Concat(machineFlags(), checkpointFlags(), rebalanceFlags(), externalFlags(),
		fileFlags(), liveFlags()),
		textFlag(groupWhat, "seed", "1", "`SEED` of all random numbers"),
		textFlag(groupWhat, "replications", "1", "repeat the experiment `R` times, each with its own random numbers"),
		onlyFlag(), sweepFlag(), setFlag(), tablesFlag(), progressFlag(),
		requireFlag(), untilFlag(), figureFlag(),
		textFlag(groupOutput, "columns", "those that differ; all in --csv",
			"`NAMES` of the columns of the table of a sweep, with commas between; * stands for any text"),
		textFlag(groupWhere, "workers", "1; with --machines one for each slot",
			fmt.Sprintf("`N` workers, 1 to %d; more than CPUs are slower, not faster", launch.WorkersMax)),
		textFlag(groupWhere, "transport", launch.TransportShm,
			"`HOW`: shm, workers are processes that share memory; inproc, goroutines of this one"),
		textFlag(groupWhere, "spread", "by itself", "`WHAT` is dealt out to the workers: nodes, all work on each "+
			"replication together; replications, each does whole ones"),
		textFlag(groupWhere, "partition", string(partition.MinCut), "`HOW` nodes are dealt out: mincut, little "+
			"traffic between workers; block, in the scenario's order; round-robin"),
		textFlag(groupWhere, "placement", "automatic",
			"`FILE` with one line \"node: worker\" for each node that is to be on a certain worker, 0 for the first"),
		textFlag(groupWhere, "processors", "those that this process may use",
			"place nodes as for a machine on which `N` workers run at once"),
		&cli.BoolFlag{Category: groupWhere, Name: "compare", DisableDefaultText: true,
			Usage: fmt.Sprintf("run it on one worker too, %d times each in turn, and show how many times faster N "+
				"workers are", compareRounds)},
		textFlag(groupOutput, "json", "none",
			"write the results to `FILE` as JSON, - for standard output and nothing else there"),
		&cli.BoolFlag{Category: groupOutput, Name: "phases", DisableDefaultText: true,
			Usage: "show how long each phase of the run took, from reading the scenario to adding up its results"},
		textFlag(groupOutput, "csv", "none",
			"write the table of a sweep, or of a run of a model of package sim, to `FILE` as CSV, - for standard "+
				"output and nothing else there"),
		textFlag(groupOutput, "trace", "none",
			"write every handled event to `FILE`, one a line in total order; .gz and .zst are compressed"),
		textFlag(groupWatch, "print", "nothing", "at the end, or when the run fails, show what a node got "+
			"and did, `WHAT`: node=NAME[,from=SECONDS][,until=SECONDS][,file=FILE], else on standard error"),
		textFlag(groupOutput, "crash-dir", "this folder", "write what the workers were at to a file in `DIR` when "+
			"one of them dies or the run can't go on; none for nowhere"),
		textFlag(groupOutput, "cpuprofile", "none", "write a CPU profile of each worker into `DIR`"),
		textFlag(groupTuning, "ring-bytes", "by what it carries, at most "+bytesText(worker.RingBytesDefault),
			"`BYTES` of the ring between two workers, a power of two"),
		textFlag(groupTuning, "inline-max", bytesText(worker.InlineMaxDefault)+", or an eighth of the ring",
			"largest payload that travels inside the ring, in `BYTES`"),
		textFlag(groupTuning, "pool-bytes", bytesText(worker.PoolBytesDefault)+", all together at most "+
			bytesText(worker.AllPoolBytes),
			"at most `BYTES` of one worker's pool for larger payloads"),
		textFlag(groupTuning, "resident", "all are", "`BYTES` that nodes in memory may take, of all workers "+
			"together: those that have been idle longest leave it for a temporary file in TMPDIR"),
		textFlag(groupTuning, "batch", fmt.Sprint(worker.BatchMaxDefault),
			"at most `N` handler calls between two looks at the lanes"),
		textFlag(groupTuning, "ingress", worker.IngressDuty,
			"`HOW` events are taken in: duty, by the worker between batches; goroutine, on a thread beside"),
		textFlag(groupTuning, "sync", worker.SyncLane, "`WHAT` workers promise each other about: lane, everything "+
			"that one sends another; link, each link between two simprocs"),
		textFlag(groupTuning, "wait", "adaptive",
			"what a worker without work does, `HOW`: adaptive, spin, yield or park"),
		textFlag(groupWatch, "memory", "what there is", "`BYTES` that the run may take; one that is expected to take "+
			"more is refused, one that comes near is ended, at a checkpoint"),
		textFlag(groupWatch, "stall", launch.StallDefault.String(), "`TIME` on the wall, such as 90s or 5m, without "+
			"progress in simulated time after which the run says what every worker waits for; 0: never"),
		textFlag(groupWatch, "on-stall", stallReport,
			"`WHAT` then: report, and go on; end, with exit status 1. A proved deadlock always ends"),
		&cli.BoolFlag{Category: groupTuning, Name: "huge-pages", DisableDefaultText: true,
			Usage: "try 2 MiB pages for lanes and pools, and say which ones there are"},
		&cli.StringFlag{Category: groupTuning, Name: "legs", Hidden: true, Usage: "stop all workers at each multiple " +
			"of so many simulated `SECONDS`, and go on: a test of legs"},
		&cli.BoolFlag{Category: groupTuning, Name: "pin", DisableDefaultText: true, Usage: "bind each worker to a " +
			"CPU of its own"},
	)
}

func sweepFlag() cli.Flag {
	return &cli.StringSliceFlag{Category: groupWhat, Name: "sweep", DefaultText: "none",
		Usage: "run once for each value of a field, `KEY=A,B,C`, such as " +
			"topology_graph.nodes.servers.web-1.server_resources.cpu_cores=1,2,4; several --sweep make a grid"}
}

func tablesFlag() cli.Flag {
	return textFlag(groupOutput, "tables", "none", "show further tables behind the first screen: `NAMES` with commas "+
		"between, or "+tablesAll+"; the screen says which there are")
}

// setFlag is a flag of all commands that read a scenario.
func setFlag() cli.Flag {
	return &cli.StringSliceFlag{Category: groupWhat, Name: "set", DefaultText: "none", Usage: "put a value into the " +
		"scenario, `KEY=VALUE`, such as topology_graph.nodes.servers.web-1.server_resources.cpu_cores=2; may be " +
		"given several times"}
}

// order is what the command line asks for.
type order struct {
	config  launch.Config
	file    string
	json    string
	out     string      // a directory; "": none
	outDir  *outdir.Dir // it, when it was looked at
	report  string
	web     string // addresses, "": nothing is served
	metrics string
	live    bool
	seen    *live    // it is seen while it goes on; nil: it isn't
	records *records // nil: what is simulated isn't recorded
	csv     string
	columns string
	pins    string
	sweeps  []string

	requires []requirement
	exports  []string   // figures of the results that the JSON gives by name
	until    *until     // nil: all replications are simulated
	named    []string   // figures that JSON has of each replication, and no others; nil: all
	warmup   *warmupRow // that was found; nil: it was given, or there is none

	tables    []string // that are shown beside the first screen
	progress  string   // progressLine and so on
	headLines int      // that the head of the first screen has taken

	compare bool
	phases  bool
	print   *printing // nil: nothing

	externals externals
	elsewhere *elsewhere // nil: on this machine
	saving    *saving    // nil: no checkpoints
	whatIf    *whatIf    // nil: the run goes on from no other one's checkpoint
	merging   *merging   // nil: the run simulates
	recover   int        // how often a run may go back behind the death of a worker
}

// quiet reports whether standard output is for another program.
func (o *order) quiet() bool { return o.json == "-" || o.csv == "-" }

// run is the command: check everything, run, show. file names what read reads, in the
// results.
func (p *program) run(c *cli.Context, file string, read func() (*scenario.Document, error)) error {
	o, err := p.order(c, file, "")
	if err != nil {
		return err
	}
	doc, err := read()
	if err != nil {
		return err
	}
	o.config.File, o.config.Text = doc.File(), doc.Text()
	if err := p.checkSettings(c, doc, o.config.Set); err != nil {
		return err
	}
	if err := o.checkFiles(); err != nil {
		return err
	}
	if o.saving != nil {
		end, err := o.saving.open(c.Context, p)
		if err != nil {
			return err
		}
		return errors.Join(p.perform(o, doc), end())
	}
	return p.perform(o, doc)
}

// perform does what the flags ask for, with the scenario that was read.
func (p *program) perform(o *order, doc *scenario.Document) error {
	if o.pins != "" {
		var problems scenario.Problems
		var err error
		if o.config.Pins, err = placement.Read(o.pins); errors.As(err, &problems) {
			return err
		} else if err != nil {
			return usage("--%v", err)
		}
	}
	if o.outDir != nil {
		unlock, err := o.outDir.Lock()
		if err != nil {
			return usage("--out: %v", err)
		}
		defer unlock()
	}
	screen := newScreen(p.terminal, p.name)
	screen.show(o.progress, &o.config)
	defer screen.watch()()
	o.config.Stderr, o.config.Doing = screen, screen.doing
	failed := p.underSignals(o, doc, screen)
	o.seen.end(failed)
	return failed
}

// underSignals does it while signals end it.
func (p *program) underSignals(o *order, doc *scenario.Document, screen *screen) (err error) {
	signals := watchSignals(screen, p.name)
	defer signals.close()
	o.config.Stop = signals.stop
	if o.saving != nil {
		if !o.saving.config.EndsOnly {
			o.saving.config.Now = signals.asked
		}
		o.config.Checkpoint = &o.saving.config
	}
	if o.seen, err = p.beginLive(o, screen); err != nil {
		return err
	}
	return signals.cause(p.carryOut(signals.ctx, o, doc, screen))
}

// carryOut runs what the order asks for.
func (p *program) carryOut(ctx context.Context, o *order, doc *scenario.Document, screen *screen) (failed error) {
	end, err := o.join(screen)
	if err != nil {
		return err
	}
	defer end()
	endAnswers, err := o.externals.open(o, screen)
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, endAnswers()) }()
	if o.print != nil {
		return p.printed(ctx, o, screen)
	}
	if len(o.sweeps) > 0 {
		return p.sweep(ctx, o, doc, screen)
	}
	return p.once(ctx, o, screen, nil)
}

// printed is once with the journal of a node behind it.
func (p *program) printed(ctx context.Context, o *order, screen *screen) (err error) {
	end, err := o.startPrint(p.stderr)
	if err != nil {
		return err
	}
	var s scenario.Scenario
	defer func() { err = errors.Join(err, end(s)) }()
	return p.once(ctx, o, screen, &s)
}

// once runs the scenario once, or compares; what was read goes to read, where that isn't nil.
func (p *program) once(ctx context.Context, o *order, screen *screen, read *scenario.Scenario) (
	failed error) {
	o.config.LastThere = true
	defer o.wantRecords()()
	var ready func()
	o.config.Ready = func() { ready() }
	each := o.figures()
	l, err := prepare(o.config)
	screen.clear()
	if err != nil {
		return err
	}
	if l, o.warmup, err = o.settle(ctx, &o.config, l, screen); err != nil {
		return err
	}
	each.begin(l.Scenario())
	if read != nil {
		*read = l.Scenario()
	}
	if err := o.checkKind(l.Scenario()); err != nil {
		return err
	}
	remark(screen, l.Scenario())
	if err := o.checkStored(l); err != nil {
		return err
	}
	if o.saving != nil {
		if err := o.saving.begin(ctx, o, l); err != nil {
			return err
		}
		defer func() { failed = o.saving.withdraw(failed) }()
	}
	ready = p.head(l, o)
	if o.saving == nil {
		ready()
	} // else a handler that can't be saved is refused first
	if p.stdout.failed() != nil {
		return nil // standard output is closed; Run reports it
	}
	var out *launch.Outcome
	var times *comparison
	if o.compare {
		out, times, err = compare(ctx, o.config, l, screen)
	} else {
		out, err = simulateBy(ctx, o.simulation(l, screen), o.config.Stop, screen)
	}
	full := (*launch.MemoryError)(nil)
	if errors.As(err, &full) {
		err = fmt.Errorf("%w\n%s", err, o.withMore(p.name, full, out))
	}
	if bad := o.until.bad(); out == nil || bad != nil {
		return errors.Join(bad, err)
	}
	if len(out.Replications) == 0 { // no results: whatever is in the files for them stays
		if full == nil {
			err = errors.Join(interruption(l, out), err)
		}
		return err
	}
	screen.end()
	ready() // where all had ended before
	defer o.seen.output(time.Now())
	return errors.Join(p.show(o, cmp.Or(out.Launch, l), out, times, each), err)
}

// show writes the results of a run; times is nil where nothing was compared.
func (p *program) show(o *order, l *launch.Launch, out *launch.Outcome, times *comparison, each *figures) error {
	var failed []error
	d := newDocument(o, l, out)
	d.Figures, d.NoFigures = each.rows(), each.lacking()
	if err := d.couple(l, out); err != nil {
		failed = append(failed, err)
	}
	d.add(times)
	row := &sweepRow{document: d}
	required := o.required(row)
	if !o.quiet() {
		if err := p.report(o, l, out, d); err != nil {
			failed = append(failed, err)
		}
		if o.phases {
			p.phases(out)
		}
	}
	if o.json != "" {
		if err := p.writeJSON(o, l, d); err != nil {
			failed = append(failed, err)
		}
	}
	if o.outDir != nil {
		failed = append(failed, p.writeOut(o, o.beginOut(o.outDir), l, out, d))
	}
	o.seen.writeLast(l, out, d)
	if o.report != "" && out.Summary != nil {
		failed = append(failed, p.writePage(o, l, out, d))
	}
	if o.csv != "" && out.Summary != nil {
		text, err := encodeCSV(l.Scenario().(scenario.Tabular).Table(out.Summary))
		if err == nil {
			err = p.write("--csv", o.csv, (&jsonText{before: text}).writeTo)
		}
		failed = append(failed, err)
	}
	failed = append(failed, required)
	if err := errors.Join(failed...); err != nil || !out.Interrupted || out.Full || o.merging != nil {
		return errors.Join(err, o.saving.none(out.Checkpoints, &o.config), unmet(*row), d.Until.unreached())
	}
	if c := d.Checkpoints; c != nil && c.Made > 0 {
		return fmt.Errorf("%w; `%s resume %s` goes on", interruption(l, out), p.name, c.Dir)
	}
	return interruption(l, out)
}

// withMore says how a run goes on, or is begun again, whose memory was used up.
func (o *order) withMore(name string, e *launch.MemoryError, out *launch.Outcome) string {
	s, more := o.saving, 2*e.Limit>>20
	switch {
	case s == nil || out == nil || s.resumed == nil && (out.Checkpoints == nil || out.Checkpoints.Made == 0):
		return fmt.Sprintf("Want more memory (--memory %dM where there is as much), or a smaller scenario; with "+
			"--checkpoint-to DIR it ends at a checkpoint, to go on from there", more)
	case e.Machine != "":
		return fmt.Sprintf("`%s resume %s --machines FILE --workers N` goes on where that machine has as much as %d "+
			"MB, or there are more machines", name, s.address, more)
	}
	return fmt.Sprintf("`%s resume %s --memory %dM` goes on where there is as much; over several machines with "+
		"--machines FILE --workers N", name, s.address, more)
}

// interruption is the error that says how far an interrupted run came.
func interruption(l *launch.Launch, out *launch.Outcome) error {
	if len(out.Replications) == 0 {
		return fmt.Errorf("%w before anything was simulated", errInterrupted)
	}
	last := out.Replications[len(out.Replications)-1]
	if !last.Interrupted {
		return fmt.Errorf("%w after %s: the results are about these", errInterrupted,
			count(len(out.Replications), "replication"))
	}
	text := fmt.Sprintf("at %.6g of %.6g simulated seconds", last.Reached, l.Scenario().Horizon())
	if last.Index > 0 {
		text += fmt.Sprintf(" of replication %d", last.Index)
	}
	return fmt.Errorf("%w %s: the results are about what was simulated up to there", errInterrupted, text)
}

// order reads the flags; resumes is where the checkpoints of a run are that goes on, "" for one that begins.
func (p *program) order(c *cli.Context, file, resumes string) (*order, error) {
	v := &values{c: c}
	o := &order{file: file, json: v.path("json"), csv: v.path("csv"), out: v.path("out"), report: v.path("report"),
		columns: v.text("columns", "names of columns with commas between"), pins: v.path("placement"),
		sweeps: c.StringSlice("sweep"), compare: c.Bool("compare"),
		phases: c.Bool("phases"), requires: v.requirements(), until: v.until(), named: c.StringSlice("figure"),
		web: v.listen("web"), metrics: v.listen("metrics"), live: c.Bool("live")}
	o.config = launch.Config{
		Registry:     p.registry,
		Workers:      v.integer("workers", 1, 1, launch.WorkersMax),
		Processors:   v.integer("processors", 0, 1, processorsMax),
		Seed:         v.seed("seed", 1),
		Replications: v.replications(o.until),
		Horizon:      v.seconds("horizon"),
		Transport:    v.word("transport", launch.TransportShm, launch.TransportInproc),
		Spread:       v.word("spread", launch.SpreadNodes, launch.SpreadReplications),
		Partition: partition.Method(v.word("partition", string(partition.MinCut), string(partition.Block),
			string(partition.RoundRobin))),
		Trace:      v.path("trace"),
		Perfetto:   v.path("trace-perfetto"),
		CrashDir:   v.crashDir("crash-dir"),
		Profiles:   v.path("cpuprofile"),
		Memory:     int64(v.size("memory", 1, math.MaxInt, false)),
		Stall:      v.duration("stall", launch.StallDefault),
		EndStalled: v.word("on-stall", stallReport, stallEnd) == stallEnd,
		Tuning: worker.Tuning{
			RingBytes: v.size("ring-bytes", worker.RingBytesMin, worker.RingBytesMax, true),
			InlineMax: v.size("inline-max", 1, worker.RingBytesMax/8, false),
			PoolBytes: v.size("pool-bytes", 1, worker.PoolBytesMax, false),
			Ingress:   v.word("ingress", worker.IngressDuty, worker.IngressGoroutine),
			Sync:      v.word("sync", worker.SyncLane, worker.SyncLink),
			Wait:      v.word("wait", "adaptive", "spin", "yield", "park"),
			BatchMax:  v.integer("batch", worker.BatchMaxDefault, 1, worker.BatchMaxMax),
			Pin:       c.Bool("pin"),
			HugePages: c.Bool("huge-pages"),
			Resident:  int64(v.size("resident", 1, math.MaxInt, false)),
		},
	}
	o.config.Only = v.only(o.config.Replications)
	o.tables, o.progress = v.names("tables"), v.word("progress", progressLine, progressJSON, progressOff)
	p.progress = o.progress
	o.config.Files, o.config.Series = p.files(c, &o.config), o.out != "" || o.report != "" || o.web != ""
	if c.Bool("records") {
		o.records = &records{}
	}
	v.inlineFitsRing(o.config.Tuning)
	if o.config.Tuning.Resident > 0 && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(worker.CollectPercent) // memory is short here, too
	}
	if every := v.seconds("legs"); every > 0 {
		o.config.Legs = launch.LegsEvery(every)
	}
	o.config.Rebalance = v.rebalance()
	o.config.BridgeBytes = v.size("bridge-bytes", bridgeBytesLeast, bridgeBytesMost, false)
	o.elsewhere = v.elsewhere(p, file, o.config.Workers)
	o.saving = v.saving(resumes)
	o.externals = externals{record: v.path("external-record"), from: v.path("external-from"),
		sync: c.Bool("external-sync")}
	o.recover = v.integer("recover", 0, 0, launch.RecoveriesMax)
	var err, bad error
	if what := v.text("print", "node=NAME"); what != "" {
		o.print, bad = parsePrint(what)
	}
	o.config.Set, err = p.settings(c)
	return o, errors.Join(v.err(), bad, err)
}

// checkFiles checks that results can be written, and that no file is named for two things.
func (o *order) checkFiles() error {
	named := []struct{ flag, path string }{
		{"FILE", o.file}, {"--placement", o.pins}, {"--json", o.json}, {"--csv", o.csv}, {"--print", o.printFile()},
		{"--report", o.report}, {"--trace", o.config.Trace}, {"--out", o.out},
		{"--trace-perfetto", o.config.Perfetto},
	}
	for i, a := range named {
		for _, b := range named[:i] {
			if a.path != "" && b.path != "" && a.path != "-" && i >= 2 && sameFile(a.path, b.path) {
				return usage("%s and %s both name %s: give them different files", b.flag, a.flag, a.path)
			}
		}
	}
	if o.report == "-" {
		return usage("--report: found -, want the name of a file")
	}
	if o.config.Trace == "-" {
		return usage("--trace: found -, want the name of a file: /dev/stdout is one")
	}
	if o.config.Perfetto == "-" || isStdout(o.config.Perfetto) {
		return usage("--trace-perfetto: found %s, want the name of a file", o.config.Perfetto)
	}
	if o.quiet() && o.config.Trace != "" && isStdout(o.config.Trace) {
		return usage("--trace %s: standard output is for the results already: name a file", o.config.Trace)
	}
	for _, out := range named[2:6] {
		if out.path != "" && out.path != "-" {
			if err := outfile.Check(out.path); err != nil {
				return usage("%s: %v", out.flag, err)
			}
		}
	}
	if o.records != nil && o.out == "" {
		return usage("--records: found it without --out, want --out DIR: the file is there")
	}
	if o.out != "" {
		var err error
		if o.outDir, err = outdir.Open(o.out); err != nil {
			return usage("--out: %v", err)
		}
	}
	if err := cmp.Or(o.checkMachines(), o.checkUntil(), o.checkSaving(), o.externals.check(o),
		o.checkLive()); err != nil {
		return err
	}
	return o.checkSweep()
}

// isStdout reports whether a path is another name of standard output.
func isStdout(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	stdout, err := os.Stdout.Stat()
	return err == nil && os.SameFile(info, stdout)
}

// sameFile reports whether two paths name one regular file, whether it exists or not.
func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if errA == nil && errB == nil {
		return os.SameFile(infoA, infoB) && infoA.Mode().IsRegular()
	}
	absA, errA := filepath.Abs(a)
	absB, errB := filepath.Abs(b)
	return errA == nil && errB == nil && absA == absB
}

// horizonMost is no less than any simulated time.
const horizonMost = math.MaxFloat64

// processorsMax is more than any machine has.
const processorsMax = 1 << 16

// The values of --on-stall.
const (
	stallReport = "report"
	stallEnd    = "end"
)
