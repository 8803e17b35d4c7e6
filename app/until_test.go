// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/launch/launchtest"
	untilrule "github.com/disco-sim/disco/internal/until"
)

// runTiny runs the tiny model in this process.
func runTiny(args ...string) (status int, stdout, stderr string) {
	return said(append([]string{"run", "tiny.yml", "--transport", "inproc", "--crash-dir", "none"}, args...)...)
}

// TestUntil: what --until ends is the run of as many replications, with any number of workers; what is narrow enough at
// once has the first sample, what isn't ends with exit status 3 and all results.
func TestUntil(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("tiny.yml", []byte(launchtest.Scenario(4, 20, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	type results struct {
		Replications int
		Hash         string `json:"trace_hash"`
		Until        *struct {
			Least, Most, Replications int
			Reached                   bool
			Precisions                []struct {
				Interval struct {
					Mean, Low, High float64
					Half            float64 `json:"half_width"`
					Samples         int
				}
				Reached bool
			}
		}
		Figures []figureRow
		Results json.RawMessage
	}
	read := func(want int, args ...string) (r results) {
		t.Helper()
		status, out, errs := runTiny(append(args, "--json", "-")...)
		if err := json.Unmarshal([]byte(out), &r); err != nil || status != want {
			t.Fatalf("%q: %d, want %d: %v, %s", args, status, want, err, errs)
		}
		return r
	}
	wanted := func(r results, count int, reached bool) {
		t.Helper()
		u := r.Until
		if r.Replications != count || u == nil || u.Replications != count || u.Reached != reached ||
			u.Least != untilrule.Least ||
			len(u.Precisions) == 0 || len(r.Figures) == 0 || len(r.Figures[0].Values) != count || r.Hash == "" {
			t.Errorf("%+v, want %d replications, reached %v", r, count, reached)
		}
	}
	wide := read(ExitOK, "--until", "handled ± 50 %")
	wanted(wide, untilrule.Least, true)
	few := read(ExitUnmet, "--until", "handled +- 1e-9", "--replications", "35")
	wanted(few, 35, false)
	narrow := read(ExitOK, "--until", "handled+-0.3%", "--until", " by_node.0 +/- 5%")
	wanted(narrow, narrow.Replications, true)
	if narrow.Replications <= untilrule.Least || narrow.Replications == untilrule.Most {
		t.Errorf("%d replications: neither few nor all", narrow.Replications)
	}
	for _, p := range narrow.Until.Precisions {
		i := p.Interval
		if !p.Reached || i.Samples != narrow.Replications || !(i.Half > 0 && i.Half <= 0.05*i.Mean) {
			t.Errorf("%+v", p)
		}
	}
	for _, args := range [][]string{
		{"--until", "handled+-0.3%", "--until", "by_node.0 ± 5 %", "--workers", "3"},
		{"--until", "handled+-0.3%", "--until", "by_node.0 ± 5 %", "--workers", "3", "--spread", "nodes"},
		{"--until", "handled+-0.3%", "--until", "by_node.0 ± 5 %", "--replications", "300", "--workers", "2"},
	} {
		again := read(ExitOK, args...)
		if again.Hash != narrow.Hash || string(again.Results) != string(narrow.Results) {
			t.Errorf("%q: %d replications, %s, want %d, %s", args, again.Replications, again.Hash, narrow.Replications,
				narrow.Hash)
		}
	}
	plain := read(ExitOK, "--replications", strconv.Itoa(narrow.Replications))
	if plain.Hash != narrow.Hash || string(plain.Results) != string(narrow.Results) || plain.Until != nil {
		t.Errorf("%s with --replications, want %s", plain.Hash, narrow.Hash)
	}
	status, out, _ := runTiny("--until", "handled ± 50 %")
	if line := "handled ± 50 %: reached after 30 replications: "; status != ExitOK || !strings.Contains(out, line) ||
		!strings.Contains(out, "at most 1000 replications") {
		t.Errorf("%d: %s\nwant %q in it", status, out, line)
	}
}

// TestUntilRefuses: what can't be, exit status 2 and what is allowed.
func TestUntilRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("tiny.yml", []byte(launchtest.Scenario(4, 20, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--until", "handled"}, `--until: found "handled", want FIGURE ± WIDTH`},
		{[]string{"--until", "± 2 %"}, "want FIGURE ± WIDTH"},
		{[]string{"--until", "handled ± -2"}, "want a finite number > 0"},
		{[]string{"--until", "handled ± 0 %"}, "want a finite number > 0"},
		{[]string{"--until", "handled ± nan"}, "want a finite number > 0"},
		{[]string{"--until", "handled ± inf %"}, "want a finite number > 0"},
		{[]string{"--until", "handled ± two"}, "want a finite number > 0"},
		{[]string{"--until", "handled ± 100 %"}, "want less than 100 %"},
		{[]string{"--until", "handles ± 2 %"}, "no figure handles: did you mean handled?"},
		{[]string{"--until", "zebra ± 2 %"}, "no figure zebra: there are handled, "},
		{[]string{"--until", "handled ± 2 %", "--replications", "1"}, "found --replications 1, want at least 30"},
		{[]string{"--until", "handled ± 2 %", "--sweep", "nodes=2,4"}, "found it with --sweep"},
		{[]string{"--until", "handled ± 2 %", "--compare"}, "found it with --compare"},
		{[]string{"--until", "handled ± 2 %", "--checkpoint-to", "dir"}, "found it with --checkpoint-to"},
	} {
		status, _, errs := runTiny(c.args...)
		if status != ExitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%q: %d, want %d with %q: %s", c.args, status, ExitUsage, c.want, errs)
		}
	}
}

// TestUntilGoesBack: a run that has gone back to its begin is looked at anew.
func TestUntilGoesBack(t *testing.T) {
	u := &until{}
	u.rule.Wanted = []untilrule.Precision{{Figure: "x", Width: 0.5}}
	for range 2 {
		for i := range untilrule.Least {
			if u.enough() {
				t.Fatalf("enough before replication %d", i)
			}
			u.look(i, []cell{{"x", strconv.Itoa(i % 2), true, false}})
		}
		if !u.enough() || u.row(100).Replicated != untilrule.Least ||
			u.row(100).Precisions[0].Interval.N != untilrule.Least {
			t.Fatalf("%+v", u.row(100))
		}
		u.look(0, []cell{{"x", "1", true, false}}) // it goes back
	}
}
