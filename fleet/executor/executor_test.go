// SPDX-License-Identifier: Apache-2.0

package executor_test

import (
	"strings"
	"testing"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
)

// TestJobFileName: a machine has the scenario under the name by which a run of the submitter's knows it, since models
// make names of it. One from standard input is a file there, and isn't the same as one with the name "-".
func TestJobFileName(t *testing.T) {
	for file, want := range map[string]string{"a/night.yml": "night.yml", "-": "standard input", "./-": "-",
		"standard input": "standard input", "./-night.yml": "-night.yml"} {
		spec := &fleet.Spec{ID: "e", Steps: []fleet.Step{{File: file, Points: [][]string{{}}, Replications: 1,
			Workers: 1}}}
		j, err := executor.NewJob(spec, fleet.AttemptID{Attempt: 1}, "/parts/e/0.0.0")
		if err != nil || j.File != want {
			t.Errorf("%q: found %+v, %v, want %q", file, j, err, want)
		}
	}
}

// TestJobFiles: files that can't lie below one folder are refused before a machine tries to write them, and those of
// one name with the same bytes aren't.
func TestJobFiles(t *testing.T) {
	text, other := fleet.Digest{SHA256: "a"}, fleet.Digest{SHA256: "b"}
	for _, c := range []struct {
		file  string
		names []string
		want  string
	}{
		{"night.yml", []string{"trace.csv", "data/x.csv", "data/y.csv"}, ""},
		{"night.yml", []string{"./night.yml"}, "two files"},
		{"night.yml", []string{"../x"}, "below the scenario's folder"},
		{"night.yml", []string{"night.yml/x"}, "only one can be there"},
		{"night.yml", []string{"a/b", "a/b/c/d"}, `file "a/b" and the folder`},
		{"night.yml", []string{strings.Repeat("x", 256)}, "at most 255 bytes"},
		{strings.Repeat("x", 255), nil, ""},
		{"night.yml", []string{"a\x00b"}, "NUL"},
		{"..", nil, "scenario's name"},
	} {
		step := fleet.Step{File: c.file, Text: text, Points: [][]string{{}}, Replications: 1, Workers: 1}
		for _, name := range c.names {
			step.Attachments = append(step.Attachments, fleet.Attachment{Name: name, Digest: other})
		}
		spec := &fleet.Spec{ID: "e", Steps: []fleet.Step{step}, Place: "/parts"}
		j, err := executor.NewJob(spec, fleet.AttemptID{Attempt: 1}, "/parts/e/0.0.0")
		switch {
		case c.want == "" && (err != nil || !j.OwnPlace):
			t.Errorf("%q with %q: found %v, %+v", c.file, c.names, err, j)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%q with %q: found %v, want %s", c.file, c.names, err, c.want)
		}
	}
}
