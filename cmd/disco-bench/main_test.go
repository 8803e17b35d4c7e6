// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/perf/bench"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// said is what the program prints.
func said(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	status := bench.Execute(append([]string{"disco-bench"}, args...), &out, &errs, commands()...)
	if status != bench.ExitOK {
		t.Errorf("%q: exit status %d: %s", args, status, errs.String())
	}
	return out.String()
}

// TestExamples: the help of each command has command lines, whose flags are that command's.
func TestExamples(t *testing.T) {
	_, list, _ := strings.Cut(said(t, "--help"), "COMMANDS:\n")
	names := regexp.MustCompile(`(?m)^   ([a-z]+)(?:, h)?  `).FindAllStringSubmatch(list, -1)
	if len(names) < len(commands()) {
		t.Fatalf("found %d commands in\n%s", len(names), list)
	}
	for _, m := range names {
		name := m[1]
		if name == "help" {
			continue
		}
		_, text, _ := strings.Cut(said(t, name, "--help"), "DESCRIPTION:\n")
		text, _, _ = strings.Cut(text, "\n\n")
		for _, line := range strings.Split(text, "\n") {
			rest, ok := strings.CutPrefix(strings.TrimSpace(line), "disco-bench "+name)
			if !ok {
				t.Errorf("%s: found %q, want an example", name, line)
			}
			rest, _, _ = strings.Cut(rest, " >")
			said(t, append(append([]string{name}, strings.Fields(rest)...), "--help")...) // flags are read before
		}
	}
}
