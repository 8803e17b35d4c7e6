// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tutorial is the page that TestTutorial follows.
const tutorial = "docs/tutorial.md"

// step is a file that the tutorial has written, or commands that it has typed and what they print.
type step struct {
	file     string
	text     string
	commands []string
	want     []string // blocks of lines, with … for any others
}

// steps reads the tutorial: a block that begins with ```language name is a file, an indented line a command, and a
// block that begins with ``` alone stands in what the commands before it print.
func steps(page string) (all []step) {
	var last *step
	add := func(s step) {
		all = append(all, s)
		last = &all[len(all)-1]
	}
	in, text := "", ""
	for line := range strings.Lines(page) {
		switch mark, fence := strings.CutPrefix(strings.TrimSpace(line), "```"); {
		case fence && in == "":
			in, text = "output"+mark, ""
		case fence:
			if _, name, file := strings.Cut(in, " "); file {
				add(step{file: name, text: text})
			} else if last != nil {
				last.want = append(last.want, text)
			}
			in = ""
		case in != "":
			text += line
		case strings.HasPrefix(line, "    "):
			if last == nil || last.file != "" || last.want != nil {
				add(step{})
			}
			last.commands = append(last.commands, strings.TrimSpace(line))
		}
	}
	return all
}

// TestTutorial follows the tutorial to the letter, in a home of its own: its files are written, its commands are run,
// and what they print is what the page shows.
func TestTutorial(t *testing.T) {
	if testing.Short() {
		t.Skip("builds another module")
	}
	dir, home := built(t), t.TempDir()
	page, err := os.ReadFile(filepath.Join(dir, tutorial))
	if err != nil {
		t.Fatal(err)
	}
	files, blocks := 0, 0
	at := dir
	env := append(goFolders(t), "HOME="+home, "GOWORK=off")
	for _, s := range steps(string(page)) {
		if s.file != "" {
			files++
			if err := os.WriteFile(filepath.Join(at, s.file), []byte(s.text), 0o666); err != nil {
				t.Fatal(err)
			}
			continue
		}
		line := strings.Join(s.commands, "\n")
		status, out := shell(t, at, "set -e\n"+line, env...)
		if status != 0 {
			t.Fatalf("%s\nends with %d:\n%s", line, status, tail(out))
		}
		at = filepath.Join(home, "post") // where the first commands go
		for _, want := range s.want {
			blocks++
			shows(t, tutorial, want, out)
		}
	}
	if files < 5 || blocks < 8 {
		t.Errorf("%s has %d files and shows %d times what is printed: the search is broken", tutorial, files, blocks)
	}
}

// shows holds what a page shows, lines with … for any others, against what was printed.
func shows(t *testing.T, page, sample, out string) {
	t.Helper()
	for part := range strings.SplitSeq(sample, "…\n") {
		_, after, found := strings.Cut("\n"+out, "\n"+strings.TrimSuffix(part, "\n")+"\n")
		if !found && part != "" {
			t.Errorf("%s shows\n%s\nwhich isn't, there, in\n%s", page, part, out)
		}
		out = after
	}
}

// TestComparedModel builds and runs the model of docs/compare.md.
func TestComparedModel(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	dir := clone(t)
	page, err := os.ReadFile(filepath.Join(dir, "docs/compare.md"))
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, "examples/compared")
	if err := os.Mkdir(at, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, s := range steps(string(page)) {
		if s.file != "" {
			if err := os.WriteFile(filepath.Join(at, s.file), []byte(s.text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, style := range []string{"server", "functions"} {
		line := "go run ./examples/compared run examples/compared/mm1.yml --horizon 10000 --set style=" + style
		status, out := shell(t, dir, line)
		if status != 0 || !strings.Contains(out, "till/waited") {
			t.Errorf("%s ends with %d:\n%s", line, status, tail(out))
		}
	}
}
