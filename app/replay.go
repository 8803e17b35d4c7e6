// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/disco-sim/disco/internal/infile"
	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/outfile"
	"github.com/disco-sim/disco/internal/tracefile"
	"github.com/disco-sim/disco/scenario"
	"github.com/urfave/cli/v2"
)

// replayCommand runs a scenario beside the trace of an earlier run.
func (p *program) replayCommand() *cli.Command {
	return p.command(cli.Command{
		Name:  "replay",
		Usage: "runs a scenario again and shows the first thing that isn't as it was",
		Description: "DIR is what --checkpoint-to named, of a run that was begun with --replayable, and may\n" +
			"have been stopped or killed. Runs it again, from its begin or from one of its checkpoints, with any\n" +
			"number of workers, and compares each call of a handler, and at its checkpoints the state of each\n" +
			"node.\n" +
			"TRACE is what `run FILE --trace TRACE` wrote. Runs the scenario in FILE as that did, and\n" +
			"compares what is handled with the trace, record by record. The exit status is 0 where they are\n" +
			"equal, 1 where they aren't: then the first difference is shown.",
		ArgsUsage: "DIR, or TRACE FILE",
		Flags:     replayFlags(),
	}, func(c *cli.Context) error {
		if c.NArg() == 1 {
			return p.replayDir(c, c.Args().First())
		}
		return p.replay(c)
	})
}

// replayFlags are those of both forms.
func replayFlags() []cli.Flag {
	flags := slices.DeleteFunc(runFlags(), func(f cli.Flag) bool {
		c, ok := f.(cli.CategorizableFlag)
		return !ok || !slices.Contains([]string{groupWhere, groupTuning, groupMachines}, c.GetCategory()) ||
			slices.Contains([]string{"compare", "legs"}, f.Names()[0])
	})
	return append(flags,
		textFlag(groupWhat, "seed", "1", "with TRACE: `SEED` of all random numbers"),
		textFlag(groupWhat, "replications", "1", "with TRACE: as many repetitions as the traced run had, `R`"),
		horizonFlag(), setFlag(), databaseFlag(),
		textFlag(groupWhat, "at", "the begin", "with DIR: begin with the checkpoints of `WHICH` epoch: "+newest+
			", a label, an epoch in simulated seconds, or at least 8 digits of a check"),
		textFlag(groupWhat, "until", "the end of the journal", "with DIR: end at so many simulated `SECONDS`"),
		&cli.BoolFlag{Category: groupWhat, Name: "other-build", DisableDefaultText: true,
			Usage: "with DIR: go on though this isn't the program that has made the checkpoints"})
}

// replayer runs a scenario beside a trace.
type replayer struct {
	p      *program
	ctx    context.Context
	screen *screen
	config launch.Config
	folder string         // of what is recorded now
	launch *launch.Launch // of the last run
	title  string         // what is run
}

// errReplay is the end of a replay that has found something.
var errReplay = errors.New("the replay isn't as the trace")

// traceKind is what the first argument is; it is read as a stream.
var traceKind = infile.Kind{Name: "a trace, as --trace writes it"}

// replay is the command.
func (p *program) replay(c *cli.Context) (err error) {
	if c.NArg() != 2 {
		return usage("found %s, want DIR of a run with checkpoints, or a trace and the file of its scenario",
			count(c.NArg(), "argument"))
	}
	path, flags := c.Args().Get(0), &values{c: c}
	if info, err := os.Stat(path); err == nil && info.IsDir() || schemeForm.MatchString(path) {
		return usage("found %s and %s, want DIR alone, which has its scenario: `%s replay %s`", path,
			c.Args().Get(1), p.name, path)
	}
	r := &replayer{p: p, config: launch.Config{
		Registry: p.registry, Seed: flags.seed("seed", 1),
		Workers:      flags.integer("workers", 1, 1, launch.WorkersMax),
		Replications: flags.integer("replications", 1, 1, launch.ReplicationsMax), Horizon: flags.seconds("horizon"),
		Transport: launch.TransportShm, Stall: launch.StallDefault, EndStalled: true,
	}}
	r.config.Files = p.files(c, &r.config)
	if err := flags.err(); err != nil {
		return err
	}
	if r.config.Set, err = p.settings(c); err != nil {
		return err
	}
	doc, err := p.read(c.Args().Get(1))
	if err != nil {
		return err
	}
	if err := p.checkSettings(c, doc, r.config.Set); err != nil {
		return err
	}
	r.config.File, r.config.Text = doc.File(), doc.Text()
	if err := checkTrace(path); err != nil { // before anything is simulated
		return err
	}
	return r.carryOut(path)
}

// checkTrace reads the first record of a trace.
func checkTrace(path string) error {
	return readTrace(path, func(t *traceText) error {
		_, err := t.next()
		return err
	})
}

// readTrace opens a trace, compressed or not.
func readTrace(path string, do func(t *traceText) error) error {
	f, err := infile.Open(path, traceKind)
	if err != nil {
		return usage("%v", err)
	}
	defer f.Close()
	text, err := tracefile.Reader(path, f)
	if err != nil {
		return usage("%s can't be read: %v: want a trace, compressed as its name says", path, err)
	}
	defer text.Close()
	return do(newTraceText(path, text))
}

// carryOut runs, compares and shows.
func (r *replayer) carryOut(path string) (err error) {
	r.screen = newScreen(r.p.terminal, r.p.name)
	defer r.screen.watch()()
	signals := watchSignals(r.screen, r.p.name)
	defer signals.close()
	r.ctx, r.config.Stop, r.config.Doing = signals.ctx, signals.stop, r.screen.doing
	if r.screen.terminal {
		r.config.Progress = r.screen.progress
	}
	if r.folder, err = os.MkdirTemp("", "disco-replay-"); err != nil {
		return fmt.Errorf("a folder for the replay: %w", outfile.Error(os.TempDir(), err))
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.folder)) }()
	now := filepath.Join(r.folder, "trace")
	if err := r.run(now, nil); err != nil {
		return signals.cause(err)
	}
	var was, is *traceRecord
	var shared int
	err = readTrace(path, func(a *traceText) error {
		return readTrace(now, func(b *traceText) (err error) {
			was, is, shared, err = firstOther(a, b)
			return err
		})
	})
	if err != nil {
		return err
	}
	var got *activation
	if is != nil {
		if got, err = r.activation(is); err != nil {
			return signals.cause(err)
		}
	}
	r.screen.end()
	fmt.Fprintf(r.p.stdout, "%s\n\n", r.title)
	if was == nil && is == nil {
		fmt.Fprintf(r.p.stdout, "equal: %s compared\n", count(shared, "record"))
		return nil
	}
	showReplay(r.p.stdout, was, is, got, shared)
	return errReplay
}

// run runs the scenario with a trace, or a journal, at a path.
func (r *replayer) run(path string, j *launch.Journal) error {
	cfg := r.config
	cfg.Trace, cfg.Journal = path, j
	r.screen.next("", false)
	l, err := prepare(cfg)
	if err != nil {
		return err
	}
	r.launch, r.title = l, describe(l) // before it runs, which forgets the links
	out, err := simulate(r.ctx, l, cfg.Stop, r.screen)
	if err == nil && out.Interrupted {
		err = interruption(l, out)
	}
	return err
}

// activation runs again for the call of a handler that a record belongs to, with what it got and did. nil: it isn't
// there again, so the model isn't deterministic.
func (r *replayer) activation(rec *traceRecord) (*activation, error) {
	path := filepath.Join(r.folder, "journal")
	until := cmp.Or(rec.epoch, math.SmallestNonzeroFloat64) // 0 would be the whole run
	if err := r.run(path, &launch.Journal{From: rec.epoch, Until: until}); err != nil {
		return nil, err
	}
	return callIn(path, r.launch.Scenario(), rec)
}

// callIn finds the call of a handler that a record belongs to in a journal; nil: there is none.
func callIn(path string, s scenario.Scenario, rec *traceRecord) (found *activation, err error) {
	err = eachActivation(path, s, func(a *activation) (more bool) {
		same := a.Replication == "" || a.Replication == fmt.Sprint(rec.replication)
		if same && a.Simproc == rec.simproc && epochOf(a) == rec.epoch {
			found = a
		}
		return found == nil
	})
	return found, err
}

// eachActivation calls yield for each activation of a journal, until that says that no more is wanted. The last one
// that it got is explained.
func eachActivation(path string, s scenario.Scenario, yield func(*activation) (more bool)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	j := newJournal(f, s)
	for {
		a, err := j.read()
		if a == nil || err != nil {
			return err
		}
		if !yield(a) {
			j.explain(a)
			return nil
		}
	}
}

// showReplay writes the first difference.
func showReplay(w io.Writer, was, is *traceRecord, got *activation, shared int) {
	at := cmp.Or(was, is)
	fmt.Fprintf(w, "DIFFERENT behind %s: %s at %v s, replication %d\n", count(shared, "equal record"),
		at.simproc, at.epoch, at.replication)
	for _, side := range []struct {
		name string
		rec  *traceRecord
	}{{"trace ", was}, {"replay", is}} {
		text := "no such record"
		if side.rec != nil {
			text = side.rec.text
		}
		fmt.Fprintf(w, "in the %s  %s\n", side.name, text)
	}
	switch {
	case is == nil:
	case got == nil:
		fmt.Fprintf(w, "a second replay has nothing of that: see `verify`\n")
	default:
		fmt.Fprintf(w, "the whole activation in the replay, %s at %s s\n", got.Simproc, got.Epoch)
		showActivation(w, got)
	}
}
