// SPDX-License-Identifier: Apache-2.0

// Package script runs golden scripts in tests: files of commands, each followed by
// what it must answer.
//
// Guarantee: a script passes only when every command's answer is the text that stands
// under it, to the byte; with -update the answers are written instead, to be reviewed
// as a diff. A script in which no command stands fails.
//
//	script.Run(t, "testdata/queue/*.txt", func(t *testing.T) script.Machine { … })
//
// A script is lines of comment (#), empty lines, and commands:
//
//	event a 2.5
//	----
//	ok
//
// The answer ends at the next empty line.
package script

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the answers of golden scripts instead of checking them")

// Machine answers one command, given as its words. It is made anew for each script.
type Machine func(words []string) (answer string)

// Run runs all scripts that match the pattern, each as a subtest.
func Run(t *testing.T, pattern string, start func(t *testing.T) Machine) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no script matches %s (%v)", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, commands := Replay(string(text), start(t))
			if commands == 0 {
				t.Fatalf("%s has no command", file)
			}
			if got == string(text) {
				return
			}
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Errorf("%s: run with -update and look at the diff\n%s", file, firstDifference(string(text), got))
		})
	}
}

// Replay gives the script back with the machine's answers, and the number of commands.
func Replay(text string, m Machine) (string, int) {
	var out strings.Builder
	commands := 0
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		out.WriteString(line + "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		commands++
		out.WriteString("----\n")
		if a := strings.TrimRight(m(strings.Fields(line)), "\n"); a != "" {
			out.WriteString(a + "\n")
		}
		for i+1 < len(lines) && lines[i+1] != "" {
			i++ // the answer that stands there
		}
	}
	return out.String(), commands
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		a, b := "", ""
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			return fmt.Sprintf("line %d: script says %q, machine says %q", i+1, a, b)
		}
	}
	return "they differ in the number of lines"
}
