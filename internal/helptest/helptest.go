// SPDX-License-Identifier: Apache-2.0

// Package helptest holds what the help of every command must have: command lines that are right.
//
// Guarantee: of commands that pass, each has an example, and so has each verb that its usage names; no example has a
// flag, or a flag's value, that its command refuses; help and manual page show all of them.
//
//	helptest.Check(t, group.Commands())
package helptest

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/app"
)

// verbs are the words in lower case of what stands behind a command's name, which no flag begins with.
var verbs = regexp.MustCompile(`(?:^|[\s|\[])([a-z][a-z-]*)`)

// Check holds the examples of commands against what these take. Hidden commands are none for people, and those that
// are programs of their own have theirs there.
func Check(t *testing.T, commands []app.Command) {
	t.Helper()
	checked := 0
	for _, c := range commands {
		if c.Hidden || c.Program != "" {
			if len(c.Examples) > 0 {
				t.Errorf("%s has examples that nobody sees", c.Name)
			}
			continue
		}
		checked++
		t.Run(c.Name, func(t *testing.T) { check(t, commands, &c) })
	}
	if checked == 0 {
		t.Error("there is no command for people")
	}
}

func check(t *testing.T, commands []app.Command, c *app.Command) {
	var missing []string
	for _, m := range verbs.FindAllStringSubmatch(c.ArgsUsage, -1) {
		missing = append(missing, m[1])
	}
	if len(c.Examples) == 0 {
		t.Error("there is no example")
	}
	page := said(t, commands, "man", c.Name)
	for _, line := range c.Examples {
		rest, _, _ := strings.Cut(line, " >")
		rest, _, _ = strings.Cut(rest, " #")
		words := strings.Fields(rest)
		if words[0] != c.Name {
			t.Errorf("%q is one of another command", line)
			continue
		}
		if i := slices.IndexFunc(missing, func(verb string) bool { return slices.Contains(words[1:], verb) }); i >= 0 {
			missing = slices.Delete(missing, i, i+1)
		}
		// Flags are read before the help is shown.
		if help := said(t, commands, append(words, "--help")...); !strings.Contains(help, "   disco-run "+line+"\n") {
			t.Errorf("the help doesn't show %q:\n%s", line, help)
		}
		if !strings.Contains(page, "\ndisco-run "+line+"\n") {
			t.Errorf("the manual page doesn't show %q:\n%s", line, page)
		}
	}
	if len(missing) > 0 {
		t.Errorf("there is no example of %s", strings.Join(missing, ", "))
	}
}

// said is what a command prints that succeeds, as people read it.
func said(t *testing.T, commands []app.Command, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	status := app.RunWith(append([]string{"disco-run"}, args...), strings.NewReader(""), &out, &errs, commands)
	if status != app.ExitOK || errs.Len() > 0 {
		t.Errorf("%q: status %d: %s", args, status, errs.String())
	}
	return strings.NewReplacer(`\-`, "-", `\(aq`, "'", `\&`, "").Replace(out.String())
}
