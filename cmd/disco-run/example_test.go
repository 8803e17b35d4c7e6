// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/examples"
	"github.com/disco-sim/disco/internal/helptest"
	"github.com/disco-sim/disco/model/devstone"
	"github.com/disco-sim/disco/model/network"
	"github.com/disco-sim/disco/model/phold"
	"github.com/disco-sim/disco/model/queueing"
	"github.com/disco-sim/disco/model/service"
	"github.com/disco-sim/disco/model/supply"
)

// said is what the program prints, and its exit status.
func said(args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = app.RunWith(append([]string{"disco-run"}, args...), strings.NewReader(""), &out, &errs,
		[]app.Command{exampleCommand()}, service.Kind(), network.Kind(), queueing.Kind(), supply.Kind(), phold.Kind(),
		devstone.Kind())
	return status, out.String(), errs.String()
}

// TestExample: each example is listed, printed as its file is, and valid where its files were written to.
func TestExample(t *testing.T) {
	status, list, errs := said("example")
	files, err := filepath.Glob("../../examples/*.yml")
	if err != nil || status != app.ExitOK || strings.Count(list, "\n") != len(files) {
		t.Fatalf("%v, exit status %d, %d examples listed:\n%s%s", err, status, len(files), list, errs)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yml")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains("\n"+list, "\n"+name+" ") {
			t.Errorf("%s isn't listed:\n%s", name, list)
		}
		if status, out, errs := said("example", name); status != app.ExitOK || out != string(text) {
			t.Errorf("%s: exit status %d, %s", name, status, errs)
		}
		dir := filepath.Join(t.TempDir(), "new")
		if status, _, errs := said("example", name, "--to", dir); status != app.ExitOK {
			t.Errorf("%s: exit status %d, %s", name, status, errs)
		}
		if name == "supply-graph" { // it needs a database
			continue
		}
		if status, out, errs := said("validate", filepath.Join(dir, name+".yml")); status != app.ExitOK {
			t.Errorf("%s: exit status %d, %s%s", name, status, out, errs)
		}
		if status, _, errs := said("example", name, "--to", dir); status != app.ExitUsage ||
			!strings.Contains(errs, "exists: remove it") {
			t.Errorf("%s a second time: exit status %d, %s", name, status, errs)
		}
	}
	all, err := examples.List()
	if err != nil || len(all) != len(files) {
		t.Errorf("%d examples, %v, want %d", len(all), err, len(files))
	}
}

// TestExampleRefused: what is asked wrongly ends with status 2, and nothing is written.
func TestExampleRefused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"found no example \"nosuch\"":       {"nosuch"},
		"want one NAME":                     {"shop", "mini"},
		"found --to without a NAME":         {"--to", dir},
		"--to: found nothing":               {"shop", "--to", ""},
		"--to: mkdir " + file:               {"shop", "--to", filepath.Join(file, "x")},
		"there is no flag --too":            {"shop", "--too", dir},
		"found no example \"../../go.mod\"": {"../../go.mod"},
	} {
		if status, out, errs := said(append([]string{"example"}, args...)...); status != app.ExitUsage ||
			!strings.Contains(errs, want) || out != "" {
			t.Errorf("%q: exit status %d, %s%s; want %s", args, status, out, errs, want)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v, want one file", entries, err)
	}
}

// TestExampleExamples: the help of example ends with command lines that are right.
func TestExampleExamples(t *testing.T) { helptest.Check(t, []app.Command{exampleCommand()}) }
