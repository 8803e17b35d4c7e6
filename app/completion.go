// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/internal/inspect"
	"github.com/urfave/cli/v2"
)

// completeCommand is what the scripts of shells call this program with, and the words of the command line behind it;
// the last word is the one that is being written. It prints what that may become, one a line: nothing where it is a
// file.
const completeCommand = "__complete"

// shellScripts are what a shell has to read, by its name. NAME is the program, FUNC a name for a function.
var shellScripts = map[string]string{
	"bash": `# bash completion of NAME: source it, or put it into ~/.local/share/bash-completion/completions/NAME
FUNC() {
    mapfile -t COMPREPLY < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o bashdefault -o default -F FUNC NAME
`,
	"zsh": `#compdef NAME
# zsh completion of NAME: source it behind compinit, or put it into a folder of fpath as _NAME
FUNC() {
    local -a found
    found=("${(@f)$("${words[1]}" __complete "${(@)words[2,$CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[1]}" ]]; then compadd -a found; else _files; fi
}
compdef FUNC NAME
`,
	"fish": `# fish completion of NAME: put it into ~/.config/fish/completions/NAME.fish
function FUNC
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l found ($words[1] __complete $words[2..-1] "$current" 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path "$current"
    end
end
complete -c NAME -f -a '(FUNC)'
`,
}

// shells are the names of those that there are scripts for.
func shells() []string { return []string{"bash", "zsh", "fish"} }

func (p *program) completionCommand() *cli.Command {
	return p.command(cli.Command{
		Name:      "completion",
		Usage:     "prints what a shell reads to complete commands, flags, kinds, examples and runs",
		ArgsUsage: "bash|zsh|fish",
		Description: "source <(" + p.name + " completion bash)   # in this shell, or in ~/.bashrc\n" +
			p.name + " completion zsh > ~/.zfunc/_" + p.name + "   # a folder of fpath\n" +
			p.name + " completion fish > ~/.config/fish/completions/" + p.name + ".fish",
	}, func(c *cli.Context) error {
		script, ok := shellScripts[c.Args().First()]
		if c.NArg() != 1 || !ok {
			return usage("found %q, want one of %s", strings.Join(c.Args().Slice(), " "), quoted(shells()))
		}
		function := "_" + strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
				return r
			}
			return '_'
		}, p.name) + "_complete"
		_, err := strings.NewReplacer("NAME", p.name, "FUNC", function).WriteString(p.stdout, script)
		return err
	})
}

// complete prints what the last of the words may become.
func (p *program) complete(application *cli.App, words []string) error {
	if len(words) == 0 {
		words = []string{""}
	}
	before, word := words[:len(words)-1], words[len(words)-1]
	for _, candidate := range p.candidates(application, before, word) {
		if strings.HasPrefix(candidate, word) {
			fmt.Fprintln(p.stdout, candidate)
		}
	}
	return nil
}

// candidates are what may stand behind some words; nil where it may be a file, or isn't known. A word that begins with
// a dash is a flag.
func (p *program) candidates(application *cli.App, before []string, word string) []string {
	if len(before) == 0 {
		if strings.HasPrefix(word, "-") {
			return []string{"--help", "--version"}
		}
		return append(visible(application.Commands), "help")
	}
	if before[0] == "help" {
		return visible(application.Commands)
	}
	cmd := commandOf(application.Commands, before[0])
	name, rest := before[0], before[1:]
	for cmd != nil && len(cmd.Subcommands) > 0 {
		if len(rest) == 0 {
			if strings.HasPrefix(word, "-") {
				return []string{"--help"}
			}
			return visible(cmd.Subcommands)
		}
		cmd, name, rest = commandOf(cmd.Subcommands, rest[0]), "", rest[1:]
	}
	if cmd == nil {
		return nil
	}
	known := flagsOf(cmd)
	if len(rest) > 0 {
		last, dashed := strings.CutPrefix(rest[len(rest)-1], "--")
		if dashed && known[last] { // its value: none that is joined to it
			return nil
		}
	}
	if strings.HasPrefix(word, "-") {
		return flagNames(cmd)
	}
	return p.arguments(name)
}

// arguments are what may be given to a command beside flags; nil: files.
func (p *program) arguments(command string) (all []string) {
	switch command {
	case "top":
		pids, err := inspect.Runs()
		if err != nil {
			return nil // whoever completes a line can't do anything about it
		}
		for _, pid := range pids {
			all = append(all, strconv.Itoa(pid))
		}
		return all
	case "fields":
		for _, k := range p.registry.Kinds() {
			if k.Fields != nil {
				all = append(all, k.Name)
			}
		}
		return all
	case "schema":
		for _, k := range p.registry.Kinds() {
			all = append(all, k.Name)
		}
		return all
	case "man":
		return visible(p.commands())
	case "completion":
		return shells()
	}
	i := slices.IndexFunc(p.further, func(f Command) bool { return f.Name == command && f.Complete != nil })
	if i < 0 {
		return nil
	}
	return p.further[i].Complete()
}

func commandOf(commands []*cli.Command, name string) *cli.Command {
	i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(name) })
	if i < 0 {
		return nil
	}
	return commands[i]
}

// visible are the names of commands that help lists.
func visible(commands []*cli.Command) (names []string) {
	for _, c := range commands {
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	return names
}

// flagNames are the flags that help lists, in the order of the alphabet.
func flagNames(cmd *cli.Command) []string {
	names := []string{"--help"}
	for _, f := range cmd.VisibleFlags() {
		for _, name := range f.Names() {
			if len(name) > 1 {
				names = append(names, "--"+name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
