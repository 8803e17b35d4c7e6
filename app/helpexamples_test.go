// SPDX-License-Identifier: Apache-2.0

package app

import (
	"io"
	"strings"
	"testing"

	"github.com/disco-sim/disco/model/phold"
	"github.com/disco-sim/disco/scenario"
	"github.com/urfave/cli/v2"
)

// TestHelpExamples: the help of each command has a command line, and its flags are that command's.
func TestHelpExamples(t *testing.T) {
	registry, err := scenario.NewRegistry(phold.Kind())
	if err != nil {
		t.Fatal(err)
	}
	p := &program{name: "disco-run", stderr: io.Discard, registry: registry}
	used := map[string]bool{"fields": true} // it is there for kinds of package sim
	var walk func(path string, commands []*cli.Command)
	walk = func(path string, commands []*cli.Command) {
		for _, c := range commands {
			at := strings.TrimSpace(path + " " + c.Name)
			used[at] = true
			lines := 0
			for _, line := range strings.Split(c.Description, "\n") {
				_, rest, ok := strings.Cut(line, p.name+" "+at)
				if !ok || rest != "" && rest[0] != ' ' {
					continue
				}
				rest, _, _ = strings.Cut(rest, " >")
				rest, _, _ = strings.Cut(rest, ")")
				rest, _, _ = strings.Cut(rest, "#")
				if lines++; len(c.Subcommands) > 0 {
					continue // of one of them
				}
				if _, err := arrange(p.name, c, strings.Fields(rest)); err != nil {
					t.Errorf("%s: %q: %v", at, line, err)
				}
			}
			if lines == 0 && !c.Hidden { // else it is none for people
				t.Errorf("the help of %s has no example", at)
			}
			walk(at, c.Subcommands)
		}
	}
	walk("", p.commands())
	for at := range helpExamples {
		if !used[at] {
			t.Errorf("there are examples of %s, which is no command", at)
		}
	}
}
