// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// asked is a line, at the end of whose last word the tab key is pressed, and what has to be among the answers; nothing
// else where only is set.
type asked struct {
	line []string
	want []string
	only bool
}

func lines() []asked {
	return []asked{
		{[]string{"expl"}, []string{"explain"}, true},
		{[]string{""}, []string{"run", "validate", "top", "completion", "help"}, false},
		{[]string{"run", "--ho"}, []string{"--horizon"}, true},
		{[]string{"run", "x.yml", "--checkpoint-"}, []string{"--checkpoint-at", "--checkpoint-ends",
			"--checkpoint-every", "--checkpoint-most", "--checkpoint-to"}, true},
		{[]string{"run", "--seed", "1", "--hor"}, []string{"--horizon"}, true},
		{[]string{"checkpoints", "ver"}, []string{"verify"}, true},
		{[]string{"checkpoints", "verify", "--lo"}, []string{"--load"}, true},
		{[]string{"example", "sh"}, []string{"shop"}, true},
		{[]string{"example", ""}, []string{"backbone", "phold"}, false},
		{[]string{"phold", "--look"}, []string{"--lookahead"}, true},
		{[]string{"completion", ""}, []string{"bash", "fish", "zsh"}, true},
		{[]string{"help", "explai"}, []string{"explain"}, true},
		{[]string{"run", "scen"}, []string{"scenario of mine.yml"}, true}, // a file, by the shell
		{[]string{"run", "--placement", "scen"}, []string{"scenario of mine.yml"}, true},
	}
}

// What shells read has them complete commands, those below them, flags, examples, runs and files.
func TestCompletion(t *testing.T) {
	bin := build(t, "")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "scenario of mine.yml"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		t.Run(shell, func(t *testing.T) {
			if _, err := exec.LookPath(shell); err != nil {
				t.Skipf("NOT TESTED: %s isn't installed", shell)
			}
			for _, a := range append(lines(), runUnderWay(t, bin)) {
				got := completed(t, shell, bin, dir, a.line)
				for _, want := range a.want {
					if !slices.Contains(got, want) {
						t.Errorf("%q: got %q, want %q among them", a.line, got, want)
					}
				}
				if a.only && len(got) != len(a.want) {
					t.Errorf("%q: got %q, want only %q", a.line, got, a.want)
				}
			}
		})
	}
}

// runUnderWay starts a run, whose process `top` is to be completed with.
func runUnderWay(t *testing.T, bin string) asked {
	t.Helper()
	cmd := exec.Command(bin, "phold", "--end", "1e6")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	pid := strconv.Itoa(cmd.Process.Pid)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		out, err := exec.Command(bin, "__complete", "top", "").Output()
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(strings.Fields(string(out)), pid) {
			return asked{[]string{"top", pid[:len(pid)-1]}, []string{pid}, false}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the run of process %s isn't there after a minute: %s", pid, out)
		}
	}
}

// completed is what a shell makes of a line. For bash it is what its own function and its fall-back to files give.
func completed(t *testing.T, shell, bin, dir string, line []string) []string {
	t.Helper()
	var script string
	switch shell {
	case "bash":
		script = `set -e; source <("$0" completion bash)
COMP_WORDS=("$0" "$@"); COMP_CWORD=$#
_disco_run_complete
if [ ${#COMPREPLY[@]} -eq 0 ]; then complete -p disco-run | grep -q -- '-o default'; compgen -f -- "${@: -1}"
else printf '%s\n' "${COMPREPLY[@]}"; fi`
	case "zsh":
		script = `compdef() { :; }; compadd() { print -l -- $found; }; _files() { print -l -- ${words[$CURRENT]}*(N); }
source <("$0" completion zsh); words=("$0" "$@"); CURRENT=${#words}; _disco_run_complete`
	case "fish":
		script = `$argv[1] completion fish | source; complete -C (string join ' ' -- disco-run $argv[2..-1])`
	}
	args := append([]string{"-c", script, bin}, line...)
	if shell == "fish" {
		args = append([]string{"-c", script}, append([]string{bin}, line...)...)
	}
	cmd := exec.Command(shell, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), fmt.Sprintf("PATH=%s:%s", filepath.Dir(bin), os.Getenv("PATH")))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s, %q: %v: %s", shell, line, err, stderr.String())
	}
	var all []string
	for text := range strings.Lines(string(out)) {
		text, _, _ = strings.Cut(strings.TrimSuffix(text, "\n"), "\t")
		if text != "" {
			all = append(all, text)
		}
	}
	return all
}
