// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/newmodule"
)

// initialize calls init and returns its status and what it has written.
func initialize(args ...string) (status int, out string) {
	var b bytes.Buffer
	status = Run(append([]string{"disco-run", "init"}, args...), strings.NewReader(""), &b, &b, launchtest.Kind())
	return status, b.String()
}

// Every template is built, vetted, run over one worker and over two, verified, and passes its test, without a network.
func TestInit(t *testing.T) {
	if testing.Short() {
		t.Skip("builds other modules")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, from := range newmodule.Templates {
		name := "my-" + from
		if status, out := initialize(name, "--from", from, "--disco", root); status != ExitOK ||
			!strings.Contains(out, "cd "+name+"\n    go build\n") {
			t.Fatalf("init %s ends with %d: %s", name, status, out)
		}
		command := func(args ...string) string {
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Dir = name
			cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly -trimpath", "GOWORK=off", "GOPROXY=off",
				"GOTOOLCHAIN=local")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %q: %v\n%s", name, args, err, out)
			}
			return string(out)
		}
		command("go", "vet", "./...")
		command("go", "build", "-buildvcs=false")
		hash := regexp.MustCompile(`trace hash \w+`)
		one := hash.FindString(command("./"+name, "run", name+".yml"))
		if two := hash.FindString(command("./"+name, "run", name+".yml", "--workers", "2")); one == "" || one != two {
			t.Errorf("%s: one worker: %q, two: %q", name, one, two)
		}
		if out := command("./"+name, "verify", name+".yml", "--horizon", "100"); strings.Contains(out, "look at") {
			t.Errorf("%s: verify suspects it:\n%s", name, out)
		}
		out := command("go", "test", "-v")
		if strings.Contains(out, "no snapshot") {
			t.Errorf("%s: its snapshot isn't that of its test:\n%s", name, out)
		}
		_, seed, _ := strings.Cut(out, " with --seed ") // package main has another path in a test
		seed, _, _ = strings.Cut(seed, "\n")
		run := hash.FindString(command("./"+name, "run", name+".yml", "--seed", seed))
		if run == "" || run != hash.FindString(out) {
			t.Errorf("%s: its command has %q, its test another:\n%s", name, run, out)
		}
	}
}

// What init is asked wrongly ends with status 2 and leaves nothing.
func TestInitRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("here", 0o755); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"found 0 arguments, want one NAME": {},
		"found 2 arguments":                {"a", "b"},
		`found the name "A", want`:         {"A"},
		`found the name "a/b", want`:       {"a/b"},
		"here exists":                      {"here"},
		`--from: found "cue", want one of`: {"a", "--from", "cue"},
		"--disco: found no package sim in": {"a", "--disco", "here"},
	} {
		if status, out := initialize(args...); status != ExitUsage || !strings.Contains(out, want) {
			t.Errorf("init %q ends with %d: %s\nwant %s", args, status, out, want)
		}
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) != 1 {
		t.Errorf("%v %v, want what was there", err, entries)
	}
	if status, out := initialize("a"); status != ExitOK || !strings.Contains(out, "v0-test is no release") {
		t.Errorf("init a ends with %d: %s", status, out)
	}
}
