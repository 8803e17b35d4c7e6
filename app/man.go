// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

func (p *program) manCommand() *cli.Command {
	return p.command(cli.Command{
		Name:      "man",
		Usage:     "prints the manual page of this program, or of one command, made of the same texts as --help",
		ArgsUsage: "[COMMAND]",
		Description: p.name + " man > ~/.local/share/man/man1/" + p.name + ".1\n" +
			"man -l <(" + p.name + " man run)",
	}, func(c *cli.Context) error {
		application := p.application()
		if c.Args().Present() {
			name := c.Args().First()
			command := commandOf(application.Commands, name)
			if command == nil {
				return noCommand(p.name, application.Commands, name)
			}
			if c.NArg() > 1 {
				return usage("found %s, want one command, or none for all", quoted(c.Args().Slice()))
			}
			if program := p.programOf(name); program != "" {
				return Become(program, p.name, []string{"man", name})
			}
			application.Commands, application.Usage = []*cli.Command{command}, command.Usage
		}
		_, err := p.stdout.Write([]byte(p.manual(application)))
		return err
	})
}

// manual is the page as input of man(7), of section 1.
func (p *program) manual(application *cli.App) string {
	var b strings.Builder
	title := p.name
	if len(application.Commands) == 1 {
		title += "-" + application.Commands[0].Name
	}
	fmt.Fprintf(&b, ".TH %s 1 \"\" %s \"User Commands\"\n.SH NAME\n%s \\- %s\n", manQuoted(strings.ToUpper(title)),
		manQuoted(p.name+" "+Version()), manText(title), manText(application.Usage))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n.I command\n.RI [ flags ]\n.RI [ arguments ]\n.SH COMMANDS\n",
		manText(p.name))
	writeManual(&b, nil, application.Commands)
	fmt.Fprintf(&b, ".SH \"EXIT STATUS\"\n")
	statuses := []struct{ status, meaning string }{
		{fmt.Sprint(ExitOK), "all was done"},
		{fmt.Sprint(ExitFailed), "the run failed, or its results could not be written"},
		{fmt.Sprint(ExitUsage), "a mistake on the command line or in a file"},
		{fmt.Sprint(ExitUnmet), "all was done, and the results aren't as --require wants them"},
		{fmt.Sprintf("%d + N", ExitSignal), "signal N has ended it"},
	}
	if p.noKinds { // nothing runs here
		statuses[1].meaning = "it failed, or hasn't found all as it should be"
		statuses = slices.Delete(statuses, 3, 4)
	}
	for _, status := range statuses {
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", status.status, manText(status.meaning))
	}
	return b.String()
}

// writeManual writes commands, those below them behind each; path stands in front of their names.
func writeManual(b *strings.Builder, path []string, commands []*cli.Command) {
	for _, c := range commands {
		if c.Hidden {
			continue
		}
		name := strings.Join(append(path[:len(path):len(path)], c.Name), " ")
		fmt.Fprintf(b, ".SS %s\n%s\n", manQuoted(strings.TrimSpace(name+" "+c.ArgsUsage)), manText(c.Usage))
		if c.Description != "" {
			b.WriteString(".PP\n.nf\n" + manText(c.Description) + "\n.fi\n")
		}
		for _, category := range c.VisibleFlagCategories() {
			for _, f := range category.Flags() {
				// Its name and value, and behind the tab what it is for.
				head, text, _ := strings.Cut(fmt.Sprint(f), "\t")
				fmt.Fprintf(b, ".TP\n.B %s\n%s\n", manText(strings.TrimSpace(head)), manText(strings.TrimSpace(text)))
			}
		}
		writeManual(b, append(path[:len(path):len(path)], c.Name), c.Subcommands)
	}
}

// manText is a text as man(7) shows it as it stands.
func manText(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

// manQuoted is a text as one argument of a macro.
func manQuoted(text string) string { return `"` + strings.ReplaceAll(manText(text), `"`, `\(dq`) + `"` }
