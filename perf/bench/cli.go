// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	front "github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/printable"
	"github.com/disco-sim/disco/internal/table"
	"github.com/urfave/cli/v2"
)

// Exit statuses.
const (
	ExitOK     = 0
	ExitFailed = 1 // a measurement failed or was interrupted, or a result could not be written
	ExitUsage  = 2 // a mistake on the command line; nothing was measured
)

// Command is a command that measures, beside those of this package: its rows, and the jobs in them.
type Command struct {
	Name, Usage string
	Examples    []string // command lines that its help ends with, without the program's name
	Jobs        []Job
	// Specs are the rows for these options, an error a mistake in them. The caller calls release when it has measured
	// the rows.
	Specs func(ctx context.Context, o Options) (specs []Spec, release func(), err error)

	// Flags are further ones. Instead, if it isn't nil, may measure something else that they ask for, and then there
	// are no rows; an error is a mistake in them where it is made by Mistake.
	Flags   []cli.Flag
	Instead func(c *cli.Context, o Options, stdout io.Writer) (done bool, err error)
}

// Mistake is a mistake on the command line, for exit status 2.
func Mistake(format string, args ...any) error { return usagef(format, args...) }

// Main is the whole of disco-bench's main: it never returns. The process was started either by a user, or as the
// other side of a pair.
func Main(more ...Command) {
	if IsWorker() {
		os.Exit(ServeWorker(Jobs(more...)))
	}
	os.Exit(Execute(os.Args, os.Stdout, os.Stderr, more...))
}

// Execute is Main in a process that a user started, without ending the process; it returns the exit status.
func Execute(args []string, stdout, stderr io.Writer, more ...Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	stdout, stderr = printable.NewWriter(stdout), printable.NewWriter(stderr)
	p := &program{ctx: ctx, name: "disco-bench", stdout: stdout, stderr: stderr, more: more}
	if len(args) > 0 {
		p.name = filepath.Base(args[0])
		args = args[1:]
	}
	err := p.dispatch(args)
	if err == nil {
		return ExitOK
	}
	fmt.Fprintf(stderr, "%s: %s\n", p.name, strings.TrimPrefix(err.Error(), "bench: "))
	var u usageError
	if errors.As(err, &u) {
		return ExitUsage
	}
	return ExitFailed
}

// usageError is a mistake on the command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// program is one call of Execute.
type program struct {
	ctx    context.Context
	name   string
	stdout io.Writer
	stderr io.Writer
	more   []Command
}

// commands are those of this package that measure, with a line for the help and its examples.
var commands = []struct {
	name, usage string
	examples    []string
}{
	{"limit", "what the machine does with nothing of disco in between", []string{"limit --rounds 9"}},
	{"latency", "round trips of events", []string{"latency --payload 256 --pin", "latency --wait park --hgrm curves"}},
	{"throughput", "events one way, single and in batches", []string{"throughput --payload 64 --batch 16"}},
	{"wake", "round trips to a side that sleeps", []string{"wake --threads"}},
	{"idle", "what two workers cost that have nothing to do", []string{"idle --time 2s"}},
	{"overcommit", "round trips with twice as many workers as cores", []string{"overcommit --wait adaptive"}},
	{"payload", "large payloads: loaned, and copied in; rate by payload", []string{"payload --payload 1M --ring 16M"}},
	{"ipc", "processes that connect by name: round trips, several senders to one receiver",
		[]string{"ipc --json ipc.json"}},
	{"all", "all of the above", []string{"all --json rows.json --hgrm curves", "all --gobench > new.txt"}},
}

func (p *program) dispatch(args []string) error {
	app := p.application()
	if len(args) > 0 && args[0] == "help" && len(args) > 1 && app.Command(args[1]) == nil {
		return p.noCommand(app, args[1])
	}
	if len(args) == 0 {
		return usagef("there is no command: `%s latency` measures round trips, `%s --help` lists the commands", p.name,
			p.name)
	}
	if args[0] == "--version" || args[0] == "-version" || args[0] == "-v" {
		args = []string{"version"}
	}
	known := app.Command(args[0]) != nil
	if !known && !slices.Contains([]string{"help", "h", "--help", "-help", "-h"}, args[0]) {
		return p.noCommand(app, args[0])
	}
	return app.RunContext(p.ctx, append([]string{p.name}, args...))
}

// noCommand is the error of a missing or unknown command; it lists the commands.
func (p *program) noCommand(app *cli.App, name string) error {
	var names []string
	for _, c := range app.Commands {
		names = append(names, c.Name)
	}
	return usagef("there is no command %q: want one of %s", name, strings.Join(names, ", "))
}

func (p *program) application() *cli.App {
	app := &cli.App{
		Name:  p.name,
		Usage: "measure how fast processes exchange events through disco",
		UsageText: p.name + " COMMAND [FLAG …]\n\nfor example: " + p.name + " latency\n             " + p.name +
			" latency --payload 256 --pin\n             " + p.name + " all --json rows.json --hgrm curves",
		Description: "Every row is measured in turns with a limit of the machine: limit, row, limit, row, …\nOnly " +
			"the ratios of a run mean anything on a machine with neighbours. docs/bench.md has more.",
		Writer:         p.stdout,
		ErrWriter:      p.stderr,
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   func(_ *cli.Context, err error, _ bool) error { return usagef("%w", err) },
		HideVersion:    true,
	}
	for _, c := range p.more {
		app.Commands = append(app.Commands, p.command(c.Name, c.Usage, c.Examples, append(measureFlags(), c.Flags...),
			func(call *cli.Context, o Options) error {
				if c.Instead != nil {
					if done, err := c.Instead(call, o, p.stdout); done || err != nil {
						return err
					}
				}
				return p.measure(call, o)
			}))
	}
	for _, c := range commands {
		flags := measureFlags()
		if c.name == "latency" {
			flags = append(flags, &cli.StringFlag{Name: "read", Value: ReadAll, Usage: "`WHAT` the asking side reads " +
				"of an answer: all, only its number, or echo: that, and what came is sent back"})
		}
		app.Commands = append(app.Commands,
			p.command(c.name, c.usage, c.examples, flags, func(c *cli.Context, o Options) error {
				return p.measure(c, o)
			}))
	}
	plot := append(measureFlags(), &cli.StringFlag{Name: "out", Value: "bench.svg",
		Usage: "write the page to `FILE`, ending in .svg or .html"},
		&cli.StringFlag{Name: "from", Usage: "draw the rows that --json wrote to `FILE`, and the curves that --hgrm " +
			"wrote, instead of measuring"})
	app.Commands = append(app.Commands,
		&cli.Command{Name: "version", Usage: "say which version this is", HideHelpCommand: true,
			Description:  p.lines([]string{"version"}),
			OnUsageError: p.badFlags("version"),
			Action: func(c *cli.Context) error {
				if c.NArg() > 0 {
					return usagef("version: %q is too much: it takes nothing", c.Args().First())
				}
				fmt.Fprintf(p.stdout, "%s %s\n", p.name, front.Version())
				return nil
			}})
	app.Commands = append(app.Commands,
		p.command("plot", "draw every row beside its own limit, and round trips by percentile",
			[]string{"plot --from rows.json --hgrm curves --out rows.svg", "plot --time 20ms --out rows.html"}, plot,
			p.plot))
	return app
}

// size is a flag with a number of bytes, in which K, M and G are understood.
type size struct{ bytes int }

// Set implements cli.Generic.
func (s *size) Set(text string) error {
	n, ok := table.ParseBytes(text, math.MaxInt64-1)
	if !ok {
		return fmt.Errorf("found %q, want a number of bytes (64K, 1M are understood)", text)
	}
	s.bytes = int(n)
	return nil
}

// String implements cli.Generic.
func (s *size) String() string { return strconv.Itoa(s.bytes) }

// sizeOf is what such a flag says.
func sizeOf(c *cli.Context, flag string) int { return c.Generic(flag).(*size).bytes }

func measureFlags() []cli.Flag {
	return []cli.Flag{
		&cli.GenericFlag{Name: "payload", Value: &size{-1}, DefaultText: "each command's own",
			Usage: "`BYTES` of one event's payload"},
		&cli.IntFlag{Name: "batch", DefaultText: "each command's own", Usage: "publish `N` events together"},
		&cli.StringFlag{Name: "wait", DefaultText: "each command's own", Usage: "`HOW` a side waits: spin, yield, " +
			"park or adaptive"},
		&cli.BoolFlag{Name: "pin", Usage: "bind each side to a processor of its own"},
		&cli.IntFlag{Name: "rounds", Value: RoundsLeast, Usage: "measure the limit and the row `N` times, in turns"},
		&cli.BoolFlag{Name: "threads", Usage: "two threads of one process instead of two processes"},
		&cli.DurationFlag{Name: "time", Value: TimeDefault, Usage: "measure for `TIME` in each round"},
		&cli.GenericFlag{Name: "ring", Value: &size{RingDefault}, Usage: "`BYTES` of each ring, a power of two"},
		&cli.StringFlag{Name: "json", Usage: "write all rows as JSON to `FILE`, - for standard output and nothing " +
			"else there"},
		&cli.BoolFlag{Name: "gobench", Usage: "print lines that benchstat reads, one for each round"},
		&cli.StringFlag{Name: "hgrm", Usage: "write the distribution of round trips of each row into `DIR`"},
		&cli.StringFlag{Name: "cpuprofile", Hidden: true, Usage: "write a CPU profile of the leading side to `FILE`"},
	}
}

// lines are command lines of this program.
func (p *program) lines(examples []string) string {
	return p.name + " " + strings.Join(examples, "\n"+p.name+" ")
}

func (p *program) command(name, usage string, examples []string, flags []cli.Flag,
	action func(*cli.Context, Options) error) *cli.Command {
	return &cli.Command{
		Name: name, Usage: usage, Flags: flags, HideHelpCommand: true, Description: p.lines(examples),
		OnUsageError: p.badFlags(name),
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return usagef("%s: %q is too much: it takes flags only", name, c.Args().First())
			}
			o := Options{
				Payload: sizeOf(c, "payload"), Batch: c.Int("batch"), Wait: c.String("wait"), Pin: c.Bool("pin"),
				Rounds: c.Int("rounds"), Threads: c.Bool("threads"), Time: c.Duration("time"), Ring: sizeOf(c, "ring"),
				Read: c.String("read"),
			}
			switch {
			case c.IsSet("payload") && o.Payload < 0:
				return usagef("%s: --payload: found %d, want 0 or more bytes", name, o.Payload)
			case c.IsSet("batch") && o.Batch < 1:
				return usagef("%s: --batch: found %d, want 1 or more events", name, o.Batch)
			}
			if err := o.Validate(); err != nil {
				return usagef("%s: %w", name, err)
			}
			return action(c, o)
		},
	}
}

// badFlags adds where the flags of a command are listed.
func (p *program) badFlags(name string) cli.OnUsageErrorFunc {
	return func(_ *cli.Context, err error, _ bool) error {
		// The flag package has no error value of its own for this.
		if flag, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); unknown {
			return usagef("%s: there is no flag --%s: `%s %s --help` lists the flags", name, flag, p.name, name)
		}
		return usagef("%s: %w: `%s %s --help` lists the flags", name, err, p.name, name)
	}
}

// measure runs one of the measuring commands.
func (p *program) measure(c *cli.Context, o Options) error {
	specs, release, err := p.specs(c.Command.Name, o)
	if err != nil {
		return err
	}
	defer release()
	out, err := newOutput(c, p.stdout)
	if err != nil {
		return err
	}
	defer out.close()
	stop, err := profile(c.String("cpuprofile"))
	if err != nil {
		return err
	}
	defer stop()
	if out.text {
		fmt.Fprintf(p.stdout, "%s\n", Conditions(o))
	}
	rows, err := p.rows(specs, o, func(r *Row) {
		if out.text {
			WriteText(p.stdout, r)
		}
	})
	if err != nil {
		return err
	}
	return out.write(rows)
}

// specs are the rows of a command.
func (p *program) specs(command string, o Options) (specs []Spec, release func(), err error) {
	for _, c := range p.more {
		if c.Name == command {
			if specs, release, err = c.Specs(p.ctx, o); err != nil {
				err = usagef("%s: %w", command, err)
			}
			return specs, release, err
		}
	}
	specs, err = SpecsOf(command, o)
	return specs, func() {}, err
}

// rows measures all specs with one fleet.
func (p *program) rows(specs []Spec, o Options, done func(*Row)) ([]Row, error) {
	pairs, arenaBytes, err := Needs(specs, o)
	if err != nil {
		return nil, err
	}
	f, err := NewFleet(FleetConfig{
		Processes: !o.Threads, Pairs: pairs, ArenaBytes: arenaBytes,
		Jobs: Jobs(p.more...), Stderr: p.stderr,
	})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var rows []Row
	for _, s := range specs {
		row, err := Measure(p.ctx, f, s, o.Rounds)
		if err != nil {
			return nil, err
		}
		done(&row)
		rows = append(rows, row)
	}
	return rows, nil
}
