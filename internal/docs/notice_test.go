// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write NOTICE anew")

const noticeHead = `disco
Copyright 2026 The disco authors
Licensed under the Apache License, Version 2.0: see LICENSE.

The programs disco-run, disco-bench, disco-group, disco-graph, disco-view and disco-server contain the following
software of others. The full text of each licence stands in the source of the module. internal/docs compares this list
with what is linked into the programs.
` + noticeGo

const noticeGo = `
Go: runtime and standard library
  BSD-3-Clause
  Copyright 2009 The Go Authors.
`

// A holder's line in the text of a licence: with a year, which the licences' own prose doesn't have.
var copyrightLine = regexp.MustCompile(`(?mi)^[> ]*(copyright\s+(?:\(c\)|©)?\s*[0-9]{4}.*?)\s*$`)

// licences are known by a sentence that no other one has. A text may hold several.
var licences = []struct {
	name     string
	sentence *regexp.Regexp
}{
	{"Apache-2.0", regexp.MustCompile(`Apache License,?\s+Version 2\.0`)},
	{"BSD-3-Clause", regexp.MustCompile(`(?s)Redistributions of source code.*?Neither the name`)},
	{"BSD-2-Clause", regexp.MustCompile(`Redistributions of source code must retain`)},
	{"ISC", regexp.MustCompile(`Permission to use, copy, modify,? and(/or)? distribute this software`)},
	{"MIT", regexp.MustCompile(`Permission is hereby granted, free of charge`)},
}

// licencesOf names the licences whose texts stand in a text.
func licencesOf(text string) (names []string) {
	for _, l := range licences {
		if l.sentence.MatchString(text) && !(l.name == "BSD-2-Clause" && slices.Contains(names, "BSD-3-Clause")) {
			names = append(names, l.name)
		}
	}
	return names
}

// entry is what NOTICE says about the software in a folder.
func entry(t *testing.T, name, dir string) string {
	t.Helper()
	text := ""
	for _, pattern := range []string{"LICENSE*", "NOTICE*"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text += string(data) + "\n"
		}
	}
	names := licencesOf(text)
	if len(names) == 0 {
		t.Fatalf("%s: no licence that is known here in %s: read it, and add it if it fits Apache-2.0", name, dir)
	}
	lines := fmt.Sprintf("\n%s\n  %s\n", name, strings.Join(names, ", "))
	var holders []string
	for _, m := range copyrightLine.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(holders, m[1]) {
			holders = append(holders, m[1])
		}
	}
	if holders == nil {
		holders = []string{"(its licence names no holder)"}
	}
	return lines + "  " + strings.Join(holders, "\n  ") + "\n"
}

// linked adds the modules that the programs of the module in a folder are made of on one architecture, each with its
// folder.
func linked(t *testing.T, modules map[string]string, arch, folder string, programs ...string) {
	t.Helper()
	const format = "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}"
	list := exec.Command("go", append([]string{"list", "-deps", "-f", format}, programs...)...)
	list.Dir, list.Env = filepath.Join("..", "..", folder), append(os.Environ(), "GOARCH="+arch, "CGO_ENABLED=0")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if name, dir, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			modules[name] = dir
		}
	}
}

// TestNotice: NOTICE says of every module that is linked into the programs under which licence it stands and whose it
// is, as the module itself says it, and of no other.
func TestNotice(t *testing.T) {
	modules := map[string]string{}
	for _, arch := range []string{"amd64", "arm64"} {
		linked(t, modules, arch, ".", "./cmd/disco-run", "./cmd/disco-bench", "./cmd/disco-group",
			"./cmd/disco-graph", "./cmd/disco-view")
		linked(t, modules, arch, "cmd/disco-server", ".")
	}
	if len(modules) < 5 {
		t.Fatalf("found %d modules: the search is broken", len(modules))
	}
	// Some distributions keep Go's licence elsewhere.
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := strings.TrimSpace(string(goroot))
	if _, err := os.Stat(filepath.Join(dir, "LICENSE")); err == nil {
		if says := entry(t, "Go: runtime and standard library", dir); says != noticeGo {
			t.Errorf("Go's own licence says %s", says)
		}
	}
	var entries []string
	for name, dir := range modules {
		entries = append(entries, entry(t, name, dir))
	}
	slices.Sort(entries)
	want := noticeHead + strings.Join(entries, "")
	path := filepath.Join("..", "..", "NOTICE")
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	found, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(found) != want {
		t.Errorf("NOTICE isn't\n%s\nread the difference, then: go test ./internal/docs -run TestNotice -update", want)
	}
}

// The searches of TestNotice find what stands in a licence, and nothing else.
func TestLicencesAreKnown(t *testing.T) {
	const bsd = "Redistributions of source code must retain the above copyright\nnotice. "
	for text, want := range map[string]string{
		"Apache License\n   Version 2.0, January 2004": "Apache-2.0",
		bsd + "Neither the name of the holder":         "BSD-3-Clause",
		bsd:                                            "BSD-2-Clause",
		"Permission is hereby granted, free of charge, to any":    "MIT",
		bsd + "Permission is hereby granted, free of charge":      "BSD-2-Clause MIT",
		"GNU GENERAL PUBLIC LICENSE Version 3, 29 June 2007":      "",
		"THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS 2020": "",
	} {
		if found := strings.Join(licencesOf(text), " "); found != want {
			t.Errorf("%q: found %q, want %q", text, found, want)
		}
	}
	for line, want := range map[string]string{
		"Copyright (c) 2012 The Go Authors. All":    "Copyright (c) 2012 The Go Authors. All",
		"> Copyright © 2011 Russ Ross\r":            "Copyright © 2011 Russ Ross",
		"copyright notice, this list of conditions": "",
		"   copyright staring in 2011 when":         "",
	} {
		found := ""
		if m := copyrightLine.FindStringSubmatch(line); m != nil {
			found = m[1]
		}
		if found != want {
			t.Errorf("%q: found the holder %q, want %q", line, found, want)
		}
	}
}
