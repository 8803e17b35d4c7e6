// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	tables "github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/scenario"
	"github.com/urfave/cli/v2"
)

// kindCommands are the commands of the kinds that have one: a flag for each field in
// place of FILE.
func (p *program) kindCommands() []*cli.Command {
	var all []*cli.Command
	for _, kind := range p.registry.Kinds() {
		fields := kind.Flags
		if len(fields) == 0 {
			continue
		}
		flags := runFlags()
		for _, f := range fields {
			flags = append(flags, textFlag(groupWhat, f.Name, f.Default, f.Usage))
		}
		all = append(all, p.command(cli.Command{Name: kind.Name, Usage: kind.Usage, ArgsUsage: " ", Flags: flags},
			func(c *cli.Context) error {
				if c.Args().Present() {
					return usage("found %s (%s), want flags only", tables.Plural(c.Args().Len(), "argument"),
						quoted(c.Args().Slice()))
				}
				return flagsAtFault(fields, p.run(c, kind.Name, func() (*scenario.Document, error) {
					return scenario.Parse(commandLine, fileOf(c, kind.Name, fields))
				}))
			}))
	}
	return all
}

// commandLine is the name of the file that flags make.
const commandLine = "command line"

// flagsAtFault converts problems of that file into what they are for the user: mistakes in flags.
func flagsAtFault(fields []scenario.Flag, err error) error {
	var problems scenario.Problems
	if !errors.As(err, &problems) {
		return err
	}
	all := make([]error, len(problems))
	for i, p := range problems {
		text := p.String()
		at := slices.IndexFunc(fields, func(f scenario.Flag) bool { return f.Name == p.Field })
		if at >= 0 && p.File == commandLine {
			p.File, p.Line, p.Field = "--"+p.Field, 0, ""
			if fields[at].Bytes && p.Want != "" {
				p.Want += " (64K, 1M are understood)"
			}
			text = p.String()
		}
		all[i] = usage("%s", text)
	}
	return errors.Join(all...)
}

// fileOf writes the scenario file that corresponds to the flags. It has all fields, also those that were not given,
// so that a sweep finds them.
func fileOf(c *cli.Context, model string, fields []scenario.Flag) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "model: %s\n", model)
	for _, f := range fields {
		value := f.Default
		if c.IsSet(f.Name) {
			value = bytesAsNumber(&f, c.String(f.Name))
		}
		if value == "" || strings.Trim(value, plain) != "" {
			value = strconv.Quote(value) // Go's escapes are among YAML's
		}
		fmt.Fprintf(&b, "%s: %s\n", f.Name, value)
	}
	return []byte(b.String())
}

// bytesAsNumber is the value of a flag as a file has it: a number of bytes without its unit. What isn't one stays, for
// the kind to refuse.
func bytesAsNumber(f *scenario.Flag, value string) string {
	if !f.Bytes {
		return value
	}
	if n, ok := tables.ParseBytes(value, math.MaxInt64-1); ok && n < math.MaxInt64 {
		return strconv.FormatInt(n, 10)
	}
	return value
}

// plain are the characters of values that YAML reads as they stand.
const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+.-"
