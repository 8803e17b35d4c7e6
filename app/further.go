// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"
)

// Command is a command that a program has besides those of all. Its flags may stand anywhere among its arguments;
// those that are unknown, given twice or without their value are refused before Run is called.
type Command struct {
	Name, Usage, ArgsUsage, Description string
	Hidden                              bool // from the list of commands
	Flags                               []cli.Flag

	// Examples are command lines that its help ends with, without the program's name.
	Examples []string

	// Program, if it isn't "", is a program beside this one that is the command: it gets all arguments, the
	// command's name first, and all else but Name and Usage is its own, also its manual page.
	Program string

	// Self, if it isn't "", is the flag by which Program gets the path of this program, unless it is among the
	// arguments.
	Self string

	// Complete, if it isn't nil, gives what may be its argument, for shells that complete it; else they do with files.
	Complete func() []string

	// Run does the command. An error made by [Usage] ends with status 2, any other one with 1; one that wraps an
	// [Ended] with that signal's status.
	Run func(c *Call) error
}

// Call is one call of a command.
type Call struct {
	*cli.Context // flags, and arguments in order

	Program        string // its name, for messages
	Stdin          io.Reader
	Stdout, Stderr io.Writer // printable: control characters are shown, not sent
	Terminal       bool      // Stdout is one
	raw            io.Writer // Stdout as it is
}

// Redraws tells whether what Stdout shows can be drawn anew: it is a terminal, and one that knows escapes.
func (c *Call) Redraws() bool { return c.Terminal && !isDumb() }

// isDumb tells whether the terminal is one that shows escapes instead of doing what they say.
func isDumb() bool { return os.Getenv("TERM") == "dumb" }

// Clear empties the terminal behind Stdout, so that what is written next stands on top. Where it can't be drawn anew
// it does nothing.
func (c *Call) Clear() {
	if c.Redraws() {
		_, _ = io.WriteString(c.raw, "\x1b[H\x1b[2J") // an error shows at the next write, too
	}
}

// Size is how many columns and lines the terminal behind Stdout has; 0 where it is none, or can't be asked.
func (c *Call) Size() (width, height int) {
	if file, isFile := c.raw.(*os.File); c.Terminal && isFile {
		if width, height, err := term.GetSize(int(file.Fd())); err == nil {
			return width, height
		}
	}
	return 0, 0
}

// Unread tells whether the other end of Stdout has been closed, as head does: a command that writes only now and then
// should look, and end with [ErrUnread].
func (c *Call) Unread() bool {
	file, isFile := c.raw.(*os.File)
	return isFile && workerproc.Unread(file)
}

// ErrUnread ends a command without a word, with the status [ExitPipe].
var ErrUnread = errors.New("what reads the output has ended")

// Become makes this process one of a program that lies in the folder of this one or, where none does, in one of those
// of the environment's PATH. It returns only an error.
func Become(program, name string, args []string) error {
	path, err := workerproc.Beside(program)
	if err != nil {
		return err
	}
	return missing(path, workerproc.Become(path, append([]string{name}, args...)))
}

// missing is a program of disco's that can't be used, so that nothing was started, and how to get it.
func missing(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return usage("%s isn't there, nor in PATH: `make build` in a checkout of disco makes it together with this "+
			"program (version %s): put both into one folder, of one build on all machines, since others are refused",
			path, Version())
	}
	return usage("%s: %v", path, err)
}

// programOf is the program that is a command, or "".
func (p *program) programOf(command string) string {
	i := slices.IndexFunc(p.further, func(f Command) bool { return f.Name == command })
	if i < 0 {
		return ""
	}
	return p.further[i].Program
}

// programArgs are the arguments for a command that is a program of its own.
func (c *Command) programArgs(args []string) ([]string, error) {
	given := slices.ContainsFunc(args, func(arg string) bool {
		flag, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		return flag == c.Self && strings.HasPrefix(arg, "-")
	})
	if c.Self == "" || given {
		return args, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("the path of this program: %w", err)
	}
	return slices.Insert(slices.Clone(args), 1, "--"+c.Self+"="+self), nil
}

// Usage is an error that is a mistake on the command line: it should say where, what was found, what is allowed and
// what to do.
func Usage(format string, args ...any) error { return usage(format, args...) }

// IsUsage tells whether an error is one that [Usage] has made.
func IsUsage(err error) bool {
	var u *usageError
	return errors.As(err, &u)
}

// Ended is the cause of a context that a signal has ended.
type Ended struct{ Signal syscall.Signal }

// Error names the signal.
func (e *Ended) Error() string { return "ended by " + e.Signal.String() }

// Interruptible gives a context that the first SIGINT, SIGTERM or SIGHUP ends, with an *[Ended] as its cause, and a
// function that undoes it. A second one, unless it follows so closely
// that both are meant as one, ends the process at once.
func (c *Call) Interruptible() (ctx context.Context, undo func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	in, done := make(chan os.Signal, 2), make(chan struct{})
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(in, s)
		}
	}
	go func() {
		defer close(done)
		var first time.Time
		for s := range in {
			number := s.(syscall.Signal)
			switch {
			case first.IsZero():
				first = time.Now()
				cancel(&Ended{number})
			case time.Since(first) > sameSignal:
				os.Exit(ExitSignal + int(number))
			}
		}
	}()
	return ctx, func() {
		signal.Stop(in)
		close(in)
		<-done
		cancel(nil)
	}
}

// furtherCommands are the program's further commands in the form of the flag library.
func (p *program) furtherCommands() (all []*cli.Command) {
	for _, f := range p.further {
		text, examples := f.Description, f.Examples
		if f.Program != "" {
			text, examples = "Its manual page is that of "+f.Program+":", []string{"man " + f.Name}
		}
		all = append(all, p.command(cli.Command{Name: f.Name, Usage: f.Usage, ArgsUsage: f.ArgsUsage,
			Description: p.withLines(text, examples), Flags: f.Flags, Hidden: f.Hidden}, func(c *cli.Context) error {
			file, isFile := p.raw.(*os.File)
			return f.Run(&Call{Context: c, Program: p.name, Stdin: p.stdin, Stdout: p.stdout, Stderr: p.stderr,
				Terminal: isFile && term.IsTerminal(int(file.Fd())), raw: p.raw})
		}))
	}
	return all
}
