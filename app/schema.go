// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"strings"

	"github.com/disco-sim/disco/scenario"
	"github.com/urfave/cli/v2"
)

// schemaCommand is for editors, which complete and check files by it.
func (p *program) schemaCommand() *cli.Command {
	return p.command(cli.Command{
		Name:      "schema",
		Usage:     "prints the JSON Schema of a kind of scenario, for editors; without KIND, lists the kinds",
		ArgsUsage: "[KIND]",
		Description: p.name + " schema\n" +
			p.name + " schema " + p.registry.Kinds()[0].Name + " > scenario.json   # then, first line of a file:\n" +
			"# yaml-language-server: $schema=scenario.json",
	}, func(c *cli.Context) error {
		if c.NArg() == 0 {
			for _, k := range p.registry.Kinds() {
				fmt.Fprintln(p.stdout, k.Name)
			}
			return nil
		}
		text := p.registry.Schema(c.Args().First())
		if c.NArg() > 1 || text == nil {
			var names []string
			for _, k := range p.registry.Kinds() {
				names = append(names, k.Name)
			}
			hint := scenario.Suggest(c.Args().First(), names)
			if hint != "" {
				hint = ": " + hint
			}
			return usage("found %s, want one of the kinds %s%s", quoted(c.Args().Slice()),
				strings.Join(names, ", "), hint)
		}
		_, err := p.stdout.Write(text)
		return err
	})
}
