// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// longer is a run that takes a few seconds, so that its progress is seen.
var longer = []string{"run", "../../examples/shop.yml", "--workers", "2", "--horizon", "1500"}

// TestProgressOnTerminal: a terminal shows one line that says how far the run is, no longer than the terminal is wide,
// and takes it away; with off it shows none, and standard error that is no terminal gets none.
func TestProgressOnTerminal(t *testing.T) {
	bin := build(t, "")
	text := onTerminal(t, true, bin, []string{"NO_COLOR=1"}, longer...)
	line := regexp.MustCompile(`^ *[0-9]+ %  [0-9]+ (s|min) left  [0-9.e+]+ of 1500 s  [0-9.]+ ?[kM]? events/s  `)
	seen := 0
	for part := range strings.SplitSeq(text, "\r") {
		shown, rest, drawn := strings.Cut(part, "\x1b[K")
		if !drawn {
			continue
		}
		if n := utf8.RuneCountInString(shown); n >= 60 {
			t.Errorf("%d columns, want less than 60: %q", n, shown)
		}
		if line.MatchString(shown) {
			seen++
		}
		if shown != "" && rest != "" {
			t.Errorf("%q is written behind %q", rest, shown)
		}
	}
	if seen < 2 {
		t.Errorf("progress was shown %d times, want some:\n%q", seen, text)
	}
	if strings.Contains(text[strings.LastIndex(text, "figures"):], "\x1b[K") {
		t.Errorf("progress is shown behind the results:\n%q", text)
	}
	long := slices.Replace(slices.Clone(longer), len(longer)-1, len(longer), "600") // longer than the first line takes
	if text := onTerminal(t, true, bin, []string{"NO_COLOR=1"}, append(long, "--progress", "off")...); strings.
		ContainsRune(text, 0x1b) {
		t.Errorf("with --progress off:\n%q", text)
	}
	var stderr bytes.Buffer
	cmd := exec.Command(bin, long...)
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil || strings.Contains(stderr.String(), "%") {
		t.Errorf("where standard error is no terminal: %v\n%s", err, stderr.String())
	}
}

// TestProgressForPrograms: with json standard error has one object a line, whose figures don't go back, and standard
// output is what it always is.
func TestProgressForPrograms(t *testing.T) {
	bin := build(t, "")
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(bin, append(longer, "--progress", "json", "--json", "-")...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	var results outcome
	if err := json.Unmarshal(stdout.Bytes(), &results); err != nil {
		t.Fatal(err)
	}
	type event struct {
		Event           string
		Share           float64
		SimulatedS      float64 `json:"simulated_s"`
		Events, Workers uint64
	}
	var last event
	found := map[string]int{}
	for line := range strings.Lines(stderr.String()) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		found[e.Event]++
		if e.Event != "progress" {
			continue
		}
		if e.Share < last.Share || e.SimulatedS < last.SimulatedS || e.Events < last.Events || e.Share > 1 ||
			e.Events > results.Events || e.Workers != 2 {
			t.Errorf("found %+v behind %+v, and at the end %d events", e, last, results.Events)
		}
		last = e
	}
	if found["progress"] < 2 || found["doing"] < 2 || last.Events == 0 {
		t.Errorf("found %v, the last %+v, want some of each:\n%s", found, last, stderr.String())
	}
}
