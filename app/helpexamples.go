// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// helpExamples are command lines that the help of a command ends with, without the program's name, by the path of the
// command. Further commands of a program have theirs in [Command.Examples].
var helpExamples = map[string][]string{
	"run":                 {"run shop.yml --workers 2", "run shop.yml --replications 30 --out results"},
	"validate":            {"validate shop.yml"},
	"explain":             {"explain shop.yml"},
	"verify":              {"verify shop.yml --horizon 60"},
	"init":                {"init mymodel --from queue"},
	"compare":             {"compare before.json after.json"},
	"ps":                  {"ps"},
	"top":                 {"top", "top 4711"},
	"checkpoints":         {"checkpoints list saved"},
	"checkpoints list":    {"checkpoints list saved"},
	"checkpoints show":    {"checkpoints show saved"},
	"checkpoints verify":  {"checkpoints verify saved"},
	"checkpoints diff":    {"checkpoints diff saved 60 latest"},
	"checkpoints label":   {"checkpoints label saved before-outage --at 60"},
	"checkpoints unlabel": {"checkpoints unlabel saved before-outage"},
	"checkpoints prune":   {"checkpoints prune saved --keep 3"},
	"resume":              {"resume saved --workers 4"},
	"merge":               {"merge first second --json merged.json"},
	"replay":              {"replay saved --until 60", "replay events.trace shop.yml"},
	"version":             {"version"},
	"fields":              {"fields --format markdown"},
}

// withExamples puts examples behind the descriptions of commands; path stands in front of their names. A command of a
// kind of scenario is shown with its workers.
func (p *program) withExamples(path string, commands []*cli.Command) []*cli.Command {
	for _, c := range commands {
		at := strings.TrimSpace(path + " " + c.Name)
		lines := helpExamples[at]
		for _, k := range p.registry.Kinds() {
			if k.Name == at && k.Flags != nil {
				lines = []string{at + " --workers 2"}
			}
		}
		c.Description = p.withLines(c.Description, lines)
		p.withExamples(at, c.Subcommands)
	}
	return commands
}

// withLines is a description with command lines behind it.
func (p *program) withLines(description string, lines []string) string {
	if len(lines) == 0 {
		return description
	}
	if description != "" {
		description += "\n\n"
	}
	return description + p.name + " " + strings.Join(lines, "\n"+p.name+" ")
}
