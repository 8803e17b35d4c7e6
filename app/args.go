// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	tables "github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/scenario"
	"github.com/urfave/cli/v2"
)

// arrange puts the arguments of a command into the order that the flag parser needs: flags first, then "--", then
// the rest. Users write flags behind the file as often as before it, and the parser stops at the first argument
// that is no flag.
//
// Unknown flags, flags without their value and flags given twice are refused here,
// with more help than the parser's own message has.
func arrange(program string, cmd *cli.Command, args []string) ([]string, error) {
	known := flagsOf(cmd)
	var flags, rest []string
	seen := make(map[string]bool)
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			rest = append(rest, args[i+1:]...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			rest = append(rest, arg)
			continue
		}
		name, value, joined := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		takesValue, ok := known[name]
		if !ok {
			return nil, unknownFlag(program+" "+cmd.Name, arg, name, known)
		}
		if seen[name] && !repeats(cmd, name) {
			return nil, usage("--%s is given twice: give it once", name)
		}
		if joined && !takesValue && value != "true" && value != "false" {
			return nil, usage("--%s: found the value %q, want the flag alone, or true or false", name, value)
		}
		seen[name] = true
		flags = append(flags, arg)
		if takesValue && !joined {
			if i+1 == len(args) {
				return nil, usage("--%s has no value: write --%s VALUE", name, name)
			}
			i++
			value = args[i]
			if isFlag(known, value) {
				return nil, usage("--%s has no value: the flag %.80s stands behind it; write --%s VALUE, or "+
					"--%s=%.80s where that is the value", name, value, name, name, value)
			}
			flags = append(flags, value)
		}
		if want := wanted(cmd, name, value); want != "" {
			return nil, usage("--%s: found %.80q, want %s", name, value, want)
		}
	}
	return append(append(flags, "--"), rest...), nil
}

// isFlag reports whether an argument is one of a command's flags. A negative number is none, nor are flags for another
// program, such as --slurm-args takes.
func isFlag(known map[string]bool, arg string) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	_, is := known[name]
	return is && strings.HasPrefix(arg, "-")
}

// wanted is what a flag wants where it can't take a value, or "".
func wanted(cmd *cli.Command, name, value string) (want string) {
	i := slices.IndexFunc(cmd.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
	if i < 0 {
		return "" // help
	}
	var err error
	switch cmd.Flags[i].(type) {
	case *cli.DurationFlag:
		want = "a time such as 500ms, 10s or 1m30s"
		_, err = time.ParseDuration(value)
	case *cli.IntFlag:
		want = "a whole number"
		_, err = strconv.ParseInt(value, 0, 64)
	case *cli.Float64Flag:
		want = "a number"
		_, err = strconv.ParseFloat(value, 64)
	}
	if err == nil {
		return ""
	}
	return want
}

// wantsHelp reports whether arranged arguments ask for a command's help.
func wantsHelp(arranged []string) bool {
	for _, arg := range arranged {
		switch arg {
		case "--":
			return false
		case "--help", "-help", "-h":
			return true
		}
	}
	return false
}

// flagsOf reports which flags a command has, and whether they take a value.
func flagsOf(cmd *cli.Command) map[string]bool {
	known := map[string]bool{"help": false, "h": false}
	for _, f := range cmd.Flags {
		_, isBool := f.(*cli.BoolFlag)
		for _, name := range f.Names() {
			known[name] = !isBool
		}
	}
	return known
}

// repeats reports whether a flag may be given several times.
func repeats(cmd *cli.Command, name string) bool {
	for _, f := range cmd.Flags {
		slice, many := f.(*cli.StringSliceFlag)
		counted, isBool := f.(*cli.BoolFlag)
		if many && slice.Name == name || isBool && counted.Count != nil && counted.Name == name {
			return true
		}
	}
	return false
}

func unknownFlag(command, arg, name string, known map[string]bool) error {
	if slices.ContainsFunc(machineFlags(), func(f cli.Flag) bool { return f.Names()[0] == name }) {
		return usage("there is no flag %s: only `run`, `resume`, and commands of models, have several "+
			"machines", arg)
	}
	var names []string
	for n := range known {
		if len(n) > 1 {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	if hint := scenario.Suggest(name, names); hint != "" {
		hint = strings.Replace(hint, "did you mean ", "did you mean --", 1)
		return usage("there is no flag %s: %s", arg, hint)
	}
	return usage("there is no flag %s: `%s --help` lists them", arg, command)
}

// usageError is a mistake on the command line.
type usageError struct {
	text  string
	cause error // why, for programs that try it again elsewhere; nil: it would be the same there
}

func (e *usageError) Error() string { return e.text }
func (e *usageError) Unwrap() error { return e.cause }

func usage(format string, args ...any) error {
	return &usageError{text: fmt.Sprintf(format, args...)}
}

// oneFile is the only argument of a command that reads a scenario.
func oneFile(args []string) (string, error) {
	switch {
	case len(args) == 0 || args[0] == "":
		return "", usage("there is no FILE: want the path of a scenario file, or - for standard input")
	case len(args) > 1:
		return "", usage("found %s (%s), want one FILE: put names with spaces in quotes",
			tables.Plural(len(args), "argument"), quoted(args))
	}
	return args[0], nil
}

func quoted(args []string) string {
	const shown = 5
	var b strings.Builder
	for i, a := range args {
		if i == shown {
			b.WriteString(" …")
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%q", a)
	}
	return b.String()
}
