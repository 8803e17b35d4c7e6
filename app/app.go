// SPDX-License-Identifier: Apache-2.0

// Package app is the command line of disco-run, and of every program that runs models of its own: it reads
// arguments and files, runs the scenario with package launch, and shows the results.
//
// Guarantee: a mistake on the command line or in a file ends with exit status 2, a message that says where it is,
// what was found, what is allowed and what to do, and no worker started; a run that fails ends with 1, one that a
// signal has ended with 128 and the signal's number, one that does what it was asked with 0. With --json - standard
// output has one JSON object and nothing else; progress goes to standard error, and only to a terminal. Whatever a
// file, a flag or a worker contains, no control character but newline and tab gets to standard output and standard
// error.
//
//	package main
//
//	import (
//		"example.org/mymodel/pond"
//		"github.com/disco-sim/disco/app"
//	)
//
//	func main() { app.Main(pond.Kind()) }
package app

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/printable"
	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/disco-sim/disco/scenario"
	"github.com/urfave/cli/v2"
)

// Exit statuses.
const (
	ExitOK     = 0
	ExitFailed = 1 // the run failed, or its results could not be written
	// ExitUsage is a mistake on the command line or in a file: nothing was started, or only the first point of a
	// sweep, whose results show whether --columns is right.
	ExitUsage = 2
	// ExitUnmet says that all was done, and that the results aren't as --require and --until want them.
	ExitUnmet = 3

	// ExitSignal plus the signal's number is the status of a run that a signal has ended: 130 for SIGINT (Ctrl-C),
	// 143 for SIGTERM, 129 for SIGHUP.
	ExitSignal = 128
)

// ExitPipe is the status of a program whose reader has closed its end of the pipe after
// reading some of it (`| head -3`): as if SIGPIPE had ended it, in silence.
const ExitPipe = 128 + int(syscall.SIGPIPE)

// Main is the whole of a program's main: it never returns. A file without `model:` is of the first kind. The
// process was started either by a user or, as one of its workers, by a launcher of the same executable.
func Main(kinds ...scenario.Kind) { MainWith(nil, kinds...) }

// MainWith is Main with further commands, such as those of package group.
func MainWith(further []Command, kinds ...scenario.Kind) {
	if launch.IsWorker() {
		registry, err := scenario.NewRegistry(kinds...)
		if err != nil {
			panic(err) // the launcher has the same kinds, and has checked them
		}
		os.Exit(launch.Serve(registry))
	}
	// A closed pipe behind standard output becomes an error of the write, so that the run ends in order, with an
	// exit status of its own. A channel rather than signal.Ignore, because workers would inherit an ignored signal.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(RunWith(os.Args, os.Stdin, os.Stdout, os.Stderr, further, kinds...))
}

// Run is Main in a process that a user started, without ending the process; it returns the exit status. args[0] is
// the program's name. Workers are started from this process's executable, so a test that gets so far must answer to
// launch.IsWorker in its TestMain.
func Run(args []string, stdin io.Reader, stdout, stderr io.Writer, kinds ...scenario.Kind) int {
	return RunWith(args, stdin, stdout, stderr, nil, kinds...)
}

// RunWith is Run with further commands.
func RunWith(args []string, stdin io.Reader, stdout, stderr io.Writer, further []Command,
	kinds ...scenario.Kind) int {
	name := "disco-run"
	if len(args) > 0 {
		name = filepath.Base(args[0])
		args = args[1:]
	}
	outlet := newOutlet(stderr)
	shown, told := printable.NewWriter(stdout), printable.NewWriter(outlet)
	var registry scenario.Registry
	var err error
	if len(kinds) > 0 || len(further) == 0 {
		registry, err = scenario.NewRegistry(kinds...)
	}
	if err != nil {
		fmt.Fprintf(told, "%s: %v\n", name, err)
		return ExitUsage
	}
	p := &program{name: name, registry: registry, stdin: stdin, stdout: &output{w: shown, raw: stdout}, stderr: told,
		terminal: outlet, further: further, raw: stdout,
		noKinds: len(kinds) == 0}
	err = p.dispatch(args)
	begun, failed := p.stdout.state()
	failed = cmp.Or(failed, shown.Flush())
	// A command may check what it writes, or leave that to this place.
	written := err == nil || failed != nil && errors.Is(err, failed)
	if written && begun && errors.Is(failed, syscall.EPIPE) || errors.Is(err, ErrUnread) {
		return ExitPipe // the reader has closed its end, as head does
	}
	if written && failed != nil {
		err = fmt.Errorf("standard output can't be written: %w", failed)
	}
	if err != nil {
		p.complain(err)
	}
	return statusOf(err)
}

// program is one call of Run.
type program struct {
	name     string
	registry scenario.Registry
	stdin    io.Reader
	stdout   *output   // printable, like all output
	stderr   io.Writer // printable
	terminal *outlet   // what stderr writes to, for the line that shows progress
	further  []Command
	raw      io.Writer // standard output as it is
	noKinds  bool      // there is nothing to run, only further commands
	progress string    // --progress, where the command has it and order has read it
}

// output keeps the first error of its writer, so that callers need not check every line. Any goroutine may use it: the
// head of a run with checkpoints is written by the one that leads its workers.
type output struct {
	w     io.Writer  // makes everything printable
	raw   io.Writer  // behind it
	mu    sync.Mutex // guards the rest, and w
	err   error
	begun bool // something was written
}

// state is the first error, and whether something was written.
func (o *output) state() (begun bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.begun, o.err
}

// failed is the first error.
func (o *output) failed() error {
	_, err := o.state()
	return err
}

func (o *output) Write(b []byte) (int, error) { return o.pass(o.w, b) }

// plain writes a text in which everything is printable but the escapes that this program has put there.
func (o *output) plain(text string) (int, error) { return o.pass(o.raw, []byte(text)) }

func (o *output) pass(w io.Writer, b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return 0, o.err
	}
	n, err := w.Write(b)
	o.err = err
	o.begun = o.begun || err == nil && len(b) > 0
	return n, err
}

// dispatch finds the command and runs it.
func (p *program) dispatch(args []string) error {
	application := p.application()
	if len(args) == 0 {
		if p.noKinds {
			return usage("there is no command: `%s --help` lists the commands", p.name)
		}
		return usage("there is no command: `%s run FILE` runs a scenario, `%s --help` lists the commands", p.name,
			p.name)
	}
	if args[0] == workerproc.Command {
		return usage("%s is what %s calls itself to start a worker of a run, and no command for people: use `%s run "+
			"FILE --workers N`", workerproc.Command, p.name, p.name)
	}
	if args[0] == completeCommand {
		return p.complete(application, args[1:])
	}
	if len(args) == 2 && args[0] == "help" && p.programOf(args[1]) != "" {
		args = []string{args[1], "--help"}
	}
	for _, f := range p.further {
		if f.Name == args[0] && f.Program != "" {
			args, err := f.programArgs(args)
			if err != nil {
				return err
			}
			return Become(f.Program, p.name, args)
		}
	}
	for _, cmd := range application.Commands {
		if cmd.HasName(args[0]) {
			return p.start(application, cmd, []string{p.name}, args[1:])
		}
	}
	switch args[0] {
	case "help", "h":
		if len(args) > 1 && application.Command(args[1]) == nil {
			return noCommand(p.name, application.Commands, args[1])
		}
		return application.Run(append([]string{p.name}, args...))
	case "--help", "-help", "-h", "--version", "-version", "-v":
		return application.Run(append([]string{p.name}, args...))
	}
	return noCommand(p.name, application.Commands, args[0])
}

// start runs a command, or one of the commands below it; path is what stands in front of its name.
func (p *program) start(application *cli.App, cmd *cli.Command, path, args []string) error {
	if len(cmd.Subcommands) > 0 && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		path = append(path, cmd.Name)
		for _, below := range cmd.Subcommands {
			if below.HasName(args[0]) {
				return p.start(application, below, path, args[1:])
			}
		}
		return fmt.Errorf("%s: %w", cmd.Name, noCommand(strings.Join(path, " "), cmd.Subcommands, args[0]))
	}
	arranged, err := arrange(strings.Join(path, " "), cmd, args)
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(append(path[1:], cmd.Name), " "), err)
	}
	if wantsHelp(arranged) {
		arranged = []string{"--help"} // the flag parser takes what follows for a topic
	}
	return application.Run(slices.Concat(path, []string{cmd.Name}, arranged))
}

// noCommand is the error of an unknown command; it names a similar one, or says how to list them.
func noCommand(path string, commands []*cli.Command, name string) error {
	names := make([]string, len(commands))
	for i, cmd := range commands {
		names[i] = cmd.Name
	}
	hint := scenario.Suggest(name, names)
	if hint == "" {
		hint = fmt.Sprintf("`%s --help` lists the commands", path)
	}
	return usage("there is no command %q: %s", name, hint)
}

// application is the command line in the form of the flag library.
func (p *program) application() *cli.App {
	return &cli.App{
		Name:      p.name,
		Usage:     "runs simulations over many processes of one machine",
		Version:   Version(),
		Writer:    p.stdout,
		ErrWriter: p.stderr,
		// A comma stands between the values of one --sweep, not between two of them.
		DisableSliceFlagSeparator: true,

		ExitErrHandler: func(*cli.Context, error) {}, // errors are shown by complain
		Commands:       p.commands(),
	}
}

// commands are those of a program with kinds of scenarios, and its further ones.
func (p *program) commands() []*cli.Command {
	if p.noKinds {
		return append(p.furtherCommands(), p.manCommand(), p.versionCommand())
	}
	return p.withExamples("", slices.Concat([]*cli.Command{p.runCommand(), p.validateCommand(), p.explainCommand(),
		p.verifyCommand(), p.initCommand(),
		p.compareCommand(), p.psCommand(), p.topCommand(), p.checkpointsCommand(), p.resumeCommand(), p.mergeCommand(),
		p.replayCommand(), p.submissionCommand(),
		p.schemaCommand(), p.completionCommand(), p.manCommand(), p.versionCommand()},
		p.furtherCommands(), p.fieldsCommand(), p.kindCommands()))
}

// command fills in what all commands have in common. The action's errors get the
// command's name in front.
func (p *program) command(c cli.Command, action func(*cli.Context) error) *cli.Command {
	c.HideHelpCommand = true
	c.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return usage("%s: %v", c.Name, err) }
	c.Action = func(ctx *cli.Context) error {
		err := named(&c, action(ctx))
		p.reportFailed(ctx, err)
		var u *usageError
		if errors.As(err, &u) {
			return fmt.Errorf("%s: %w", cmp.Or(ctx.String(calledFlag), c.Name), err)
		}
		return err
	}
	return &c
}

// calledFlag is the command that somebody has called, where that calls this one: mistakes are told as its own.
const calledFlag = "called"

// named is an error about an option of a run as one about the flag of that name.
func named(c *cli.Command, err error) error {
	var option *scenario.OptionError
	if errors.As(err, &option) {
		return usage("--%s: found %s, want %s", option.Option, option.Found, option.Want)
	}
	if !errors.Is(err, launch.ErrConfig) {
		return err
	}
	name, _, _ := strings.Cut(err.Error(), ":")
	if _, ok := flagsOf(c)[name]; ok {
		return &usageError{"--" + err.Error(), err}
	}
	return err
}

// complain writes an error as text: the program's name in front of its first line; problems of files begin with the
// file and get no name in front.
func (p *program) complain(err error) {
	var problems scenario.Problems
	if errors.As(err, &problems) {
		fmt.Fprintln(p.stderr, problems.Error())
		count := fmt.Sprintf("%d problems", len(problems))
		if len(problems) == 1 {
			count = "1 problem"
		}
		fmt.Fprintf(p.stderr, "%s: %s: nothing was run\n", p.name, count)
		return
	}
	fmt.Fprintf(p.stderr, "%s: %v\n", p.name, err)
}

// statusOf is the exit status for an error.
func statusOf(err error) int {
	var u *usageError
	var problems scenario.Problems
	var ended *interrupted
	var signalled *Ended
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &signalled):
		return ExitSignal + int(signalled.Signal)
	case errors.As(err, &ended):
		return ended.status
	case errors.As(err, &u), errors.As(err, &problems), errors.Is(err, launch.ErrConfig):
		return ExitUsage
	case onlyUnmet(err):
		return ExitUnmet
	}
	return ExitFailed
}
