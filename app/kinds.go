package app

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/scenario"
	"github.com/urfave/cli/v2"
)

// kindCommands are the commands of the kinds that have one: a flag for each field in
// place of FILE.
func (p *program) kindCommands() []*cli.Command {
	var all []*cli.Command
	for _, kind := range p.registry.Commanders() {
		about, fields := kind.Command()
		flags := runFlags()
		for _, f := range fields {
			flags = append(flags, textFlag(groupWhat, f.Name, f.Default, f.Usage))
		}
		all = append(all, p.command(cli.Command{Name: kind.Name(), Usage: about, ArgsUsage: " ", Flags: flags}, func(c *cli.Context) error {
			if c.Args().Present() {
				return usage("found %d arguments (%s), want flags only", c.Args().Len(), quoted(c.Args().Slice()))
			}
			return p.run(c, kind.Name(), func() (*scenario.Document, error) {
				return scenario.Parse("command line", fileOf(c, kind.Name(), fields))
			})
		}))
	}
	return all
}

// fileOf writes the scenario file that the flags mean. It has all fields, also those
// that were not given, so that a sweep finds them.
func fileOf(c *cli.Context, model string, fields []scenario.Flag) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "model: %s\n", model)
	for _, f := range fields {
		value := f.Default
		if c.IsSet(f.Name) {
			value = c.String(f.Name)
		}
		if !plain.MatchString(value) {
			value = strconv.Quote(value) // Go's escapes are among YAML's
		}
		fmt.Fprintf(&b, "%s: %s\n", f.Name, value)
	}
	return []byte(b.String())
}

// plain are values that YAML reads as they stand.
var plain = regexp.MustCompile(`^[A-Za-z0-9_+.-]+$`)
