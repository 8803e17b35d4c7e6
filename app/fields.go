// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"

	"github.com/disco-sim/disco/scenario"
	"github.com/urfave/cli/v2"
)

// fieldsCommand shows what the files of a kind consist of. Programs have it that have a kind with Fields.
func (p *program) fieldsCommand() []*cli.Command {
	kinds := p.registry.Kinds()
	kinds = slices.DeleteFunc(slices.Clone(kinds), func(k scenario.Kind) bool { return k.Fields == nil })
	if len(kinds) == 0 {
		return nil
	}
	command := p.command(cli.Command{
		Name:      "fields",
		Usage:     "shows what a scenario file consists of: fields, units, defaults, what is allowed",
		ArgsUsage: "[KIND]",
		Flags: []cli.Flag{textFlag(groupWhat, "format", scenario.FieldsText, "`FORMAT`: "+scenario.FieldsText+", "+
			scenario.FieldsMarkdown+", or "+scenario.FieldsSchema+", a JSON Schema for editors")},
	}, func(c *cli.Context) error {
		return p.fields(kinds, c.Args().Slice(), c.String("format"))
	})
	return []*cli.Command{command}
}

func (p *program) fields(kinds []scenario.Kind, args []string, format string) error {
	if format == "" {
		format = scenario.FieldsText
	}
	formats := []string{scenario.FieldsText, scenario.FieldsMarkdown, scenario.FieldsSchema}
	if !slices.Contains(formats, format) {
		return usage("format: found %q, want one of %s", format, quoted(formats))
	}
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.Name
	}
	kind := 0
	if len(args) > 0 {
		kind = slices.Index(names, args[0])
	}
	if len(args) > 1 || kind < 0 {
		return usage("found %s, want one of the kinds %s", quoted(args), quoted(names))
	}
	text := kinds[kind].Fields(format)
	if format == scenario.FieldsText {
		text = append(text, p.flagsText()...)
	}
	_, err := p.stdout.Write(text)
	return err
}
