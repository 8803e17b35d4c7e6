// SPDX-License-Identifier: Apache-2.0

package beside

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/helptest"
	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/disco-sim/disco/model/phold"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// TestMissing: a test's program has no others beside it, and every command that needs one, as does a run over machines,
// says what is missing and how to get it of this build. Nothing has started then: it is a wrong use.
func TestMissing(t *testing.T) {
	t.Setenv("PATH", "")
	for args, want := range map[string]string{
		"server --data x": "disco-server isn't there", "graph list": "disco-graph isn't there",
		"web out": "disco-view isn't there", "man web": "disco-view isn't there", "help web": "disco-view isn't there",
		"store get a":            "disco-group isn't there",
		"cluster --no-such-flag": "disco-group isn't there", "agent": "disco-group isn't there",
		"machines x":                    "disco-group isn't there",
		"phold --machines x --insecure": "disco-group isn't there",
		"certs init a":                  "disco-group isn't there",
		"server":                        "there is no --data", "server x --data y": `found the argument "x"`,
		"server --port 1": "no flag --port",
	} {
		var out, err bytes.Buffer
		status := app.RunWith(append([]string{"disco-run"}, strings.Fields(args)...), strings.NewReader(""), &out,
			&err,
			Commands(), phold.Kind())
		missing := strings.Contains(want, "isn't there")
		if !strings.Contains(err.String(), want) || out.Len() > 0 || status != app.ExitUsage ||
			missing && !(strings.Contains(err.String(), "make build") &&
				strings.Contains(err.String(), "(version "+app.Version()+")")) {
			t.Errorf("%s: %d %q %q; want %q", args, status, out.String(), err.String(), want)
		}
	}
}

// TestInPath: a program that isn't beside this one is taken from PATH.
func TestInPath(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, groupProgram)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", "")
	if got, err := workerproc.Beside(groupProgram); err != nil || got == path {
		t.Errorf("without PATH: %q %v", got, err)
	}
	t.Setenv("PATH", folder)
	if got, err := workerproc.Beside(groupProgram); err != nil || got != path {
		t.Errorf("%q %v, want %s", got, err, path)
	}
}

// TestServerFlags: the command has every flag of the program, and hands each on.
func TestServerFlags(t *testing.T) {
	program, err := storeserver.ServerProgram()
	storeserver.Need(t, err)
	help, err := exec.Command(program, "--help").CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	var theirs, ours, given []string
	for _, m := range regexp.MustCompile(`(?m)^  -([a-z-]+)`).FindAllSubmatch(help, -1) {
		if name := string(m[1]); name != "version" { // disco-run has its own
			theirs = append(theirs, name)
		}
	}
	values := map[string]string{"quota": "17", "until-eof": "true"} // of flags that aren't text
	for _, f := range serverFlags() {
		name := f.Names()[0]
		ours = append(ours, name)
		value := values[name]
		if value == "" {
			value = "some text"
		}
		given = append(given, "--"+name+"="+value)
	}
	slices.Sort(theirs)
	if slices.Sort(ours); !slices.Equal(theirs, ours) || len(ours) == 0 {
		t.Errorf("disco-server has the flags %q, and `disco-run server` hands on %q", theirs, ours)
	}
	command := serverCommand()
	command.Run = func(c *app.Call) error {
		if got := serverArgs(c); !slices.Equal(got, given) {
			t.Errorf("of %q this is handed on: %q", given, got)
		}
		return nil
	}
	var out, errs bytes.Buffer
	status := app.RunWith(append([]string{"disco-run", "server"}, given...), strings.NewReader(""), &out, &errs,
		[]app.Command{command})
	if status != app.ExitOK {
		t.Errorf("status %d: %s", status, errs.String())
	}
}

// TestExamples: the help of each command ends with command lines that are right.
func TestExamples(t *testing.T) { helptest.Check(t, Commands()) }
