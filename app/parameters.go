// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/scenario"
	"github.com/urfave/cli/v2"
)

// parameter is a field of scenario files as a flag, in programs that have one kind of them.
type parameter struct {
	scenario.Flag
	flag string // its name as a flag
}

// collided stands in front of parameters that have the name of a flag of a command.
const collided = "param-"

// parameters are the flags of the program's only kind; none where it has several. A parameter with the name of a flag
// of any of the commands that have them gets another in all of them: refusing the model instead would mean that a new
// flag of a command breaks models.
func (p *program) parameters() (all []parameter) {
	kinds := p.registry.Kinds()
	if len(kinds) != 1 {
		return nil
	}
	taken := map[string]bool{"help": true, "h": true}
	for _, flags := range [][]cli.Flag{runFlags(), validateFlags(), explainFlags(), verifyFlags()} {
		for _, f := range flags {
			for _, name := range f.Names() {
				taken[name] = true
			}
		}
	}
	for _, f := range kinds[0].Parameters {
		name := f.Name
		for taken[name] {
			name = collided + name
		}
		taken[name] = true
		all = append(all, parameter{f, name})
	}
	return all
}

// parametersAlone reports whether a scenario can be made of flags only.
func (p *program) parametersAlone() bool { return len(p.parameters()) > 0 }

// withParameters completes a command that reads a scenario: its flags, and what its action's errors say of them.
func (p *program) withParameters(c cli.Command, action func(*cli.Context) error) *cli.Command {
	c.ArgsUsage = "FILE"
	if p.parametersAlone() {
		c.ArgsUsage = "[FILE]"
		c.Description = strings.TrimPrefix(c.Description+"\n"+
			"Parameters take the place of what FILE says of them; FILE may be left out.", "\n")
	}
	category := "Parameters of " + p.registry.Kinds()[0].Name
	for _, f := range p.parameters() {
		if f.Switch {
			c.Flags = append(c.Flags, &cli.BoolFlag{Category: category, Name: f.flag, DefaultText: f.Default,
				Usage: f.Usage})
		} else {
			c.Flags = append(c.Flags, textFlag(category, f.flag, f.Default, f.Usage))
		}
	}
	return p.command(c, func(ctx *cli.Context) error { return p.parametersAtFault(ctx, action(ctx)) })
}

// given are the parameters that stand on the command line, as settings of the scenario.
func (p *program) given(c *cli.Context) (flags []string, all []scenario.Setting) {
	for _, f := range p.parameters() {
		if !c.IsSet(f.flag) {
			continue
		}
		value := bytesAsNumber(&f.Flag, c.String(f.flag))
		switch {
		case f.Switch:
			value = strconv.FormatBool(c.Bool(f.flag))
		case f.Text:
			value = strconv.Quote(value) // Go's escapes are among YAML's
		}
		flags, all = append(flags, f.flag), append(all, scenario.Setting{Key: f.Name, Value: value})
	}
	return flags, all
}

// settings reads the parameters and the --set flags of a command.
func (p *program) settings(c *cli.Context) ([]scenario.Setting, error) {
	_, all := p.given(c)
	if err := checkWarmup(c); err != nil {
		return nil, err
	}
	all = append(all, warmupSetting(c)...)
	for _, text := range c.StringSlice("set") {
		s, err := scenario.ParseSetting(text)
		if err != nil {
			return nil, usage("--set: %v", err)
		}
		all = append(all, s)
	}
	return all, nil
}

// checkSettings puts what settings has read into a document. Its errors name the flag.
func (p *program) checkSettings(c *cli.Context, doc *scenario.Document, all []scenario.Setting) error {
	flags, given := p.given(c)
	for i, s := range given {
		if _, err := changed(doc, flags[i], []scenario.Setting{s}); err != nil {
			return err
		}
	}
	_, err := changed(doc, "set", all)
	return err
}

// changed is a document with settings in it. Its errors name the flag.
func changed(doc *scenario.Document, flag string, all []scenario.Setting) (*scenario.Document, error) {
	doc, err := doc.With(all)
	var mistake *scenario.SettingError
	if errors.As(err, &mistake) {
		return nil, usage("--%s: %v", flag, err)
	}
	return doc, err
}

// parametersAtFault converts problems with what parameters have put into a scenario into mistakes in flags.
func (p *program) parametersAtFault(c *cli.Context, err error) error {
	var problems scenario.Problems
	if !errors.As(err, &problems) {
		return err
	}
	set := map[string]string{}
	for _, s := range warmupSetting(c) {
		set[s.Key] = s.Key
	}
	flags, given := p.given(c)
	for i, s := range given {
		set[s.Key] = flags[i]
	}
	if !c.Args().Present() { // there is no file that could have the others
		for _, f := range p.parameters() {
			set[f.Name] = f.flag
		}
	}
	all := make([]error, len(problems))
	some := false
	for i, problem := range problems {
		text, is := atFlag(set, problem)
		some = some || is
		all[i] = usage("%s", text)
	}
	if !some {
		return err
	}
	return errors.Join(all...)
}

// unknownField is what is found where a kind has no field of that name.
const unknownField = "an unknown field"

// atFlag is a problem as one of the flag that has put its field into the scenario.
func atFlag(set map[string]string, problem scenario.Problem) (text string, is bool) {
	for key, flag := range set {
		below, ok := strings.CutPrefix(problem.Field, key)
		if !ok || below != "" && below[0] != '.' && below[0] != '[' {
			continue
		}
		if key == scenario.WarmupField && flag == key && problem.Found == unknownField {
			return "--" + flag + ": found it for a kind of scenario that has no warm-up, want it left out", true
		}
		problem.File, problem.Line, problem.Field = "--"+flag, 0, strings.TrimPrefix(below, ".")
		if problem.Found == "nothing" && below == "" {
			problem.ToDo = "give the flag, or a FILE with the field " + key
		}
		return problem.String(), true
	}
	return problem.String(), false
}

// oneFile is the only argument of a command that reads a scenario; "" where flags alone make one.
func (p *program) oneFile(args []string) (string, error) {
	if len(args) == 0 && p.parametersAlone() {
		return "", nil
	}
	return oneFile(args)
}

// emptyScenario is what flags are put into where there is no file.
func (p *program) emptyScenario() (*scenario.Document, error) {
	return scenario.Parse(commandLine, []byte("model: "+strconv.Quote(p.registry.Kinds()[0].Name)+"\n"))
}

// flagsText says how the fields of a file are spelled as flags.
func (p *program) flagsText() string {
	all := p.parameters()
	if len(all) == 0 {
		return ""
	}
	text := fmt.Sprintf("\nrun, validate, explain and verify have each as a flag, such as --%s, which takes the place "+
		"of the file's.\n", all[0].flag)
	others := slices.DeleteFunc(all, func(f parameter) bool { return f.flag == f.Name })
	for _, f := range others {
		text += fmt.Sprintf("%s is --%s there: the other name is that of a flag of disco.\n", f.Name, f.flag)
	}
	return text
}
