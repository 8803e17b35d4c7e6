// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/race"
	"github.com/disco-sim/disco/internal/seed"
)

// resultsOf are results with so many figures of so many replications, drawn from a normal distribution; the first are
// greater by shift.
func resultsOf(rnd *rand.Rand, figures, replications, shifted int, shift float64, seed uint64) *resultsFile {
	f := &resultsFile{Seed: seed, Replications: replications, of: map[string][]float64{}}
	for i := range figures {
		row := figureRow{Name: fmt.Sprint("figure", i)}
		for range replications {
			x := 100 + rnd.NormFloat64()
			if i < shifted {
				x += shift
			}
			row.Values = append(row.Values, figureValue(x))
		}
		f.Figures = append(f.Figures, row)
		f.add(row.Name, row.Values)
	}
	return f
}

// Where nothing differs, no more than one comparison in twenty says that anything does, however many figures there are;
// where something does, it is found.
func TestCompareErrsSeldom(t *testing.T) {
	if race.Enabled {
		t.Skip("arithmetic in one goroutine")
	}
	const experiments = 400
	rnd := rand.New(rand.NewPCG(seed.Of(t), 1))
	for _, c := range []struct {
		method      string
		repsA, repB int
		seedB       uint64
	}{{methodWelch, 5, 9, 2}, {methodPaired, 6, 6, 1}} {
		false1, missed := 0, 0
		for range experiments {
			d := &comparedFigures{}
			if err := d.compare(resultsOf(rnd, 40, c.repsA, 0, 0, 1), resultsOf(rnd, 40, c.repB, 0, 0, c.seedB),
				""); err != nil {
				t.Fatal(err)
			}
			if d.Method != c.method {
				t.Fatalf("method is %s, want %s", d.Method, c.method)
			}
			if d.Differ > 0 {
				false1++
			}
			d = &comparedFigures{}
			if err := d.compare(resultsOf(rnd, 40, c.repsA, 0, 0, 1), resultsOf(rnd, 40, c.repB, 3, 20, c.seedB),
				""); err != nil {
				t.Fatal(err)
			}
			for i, row := range d.Figures[:3] {
				if !row.Differs || row.Name != fmt.Sprint("figure", i) {
					missed++
				}
			}
		}
		// 0.05 of the experiments and four standard errors.
		if most := experiments*0.05 + 4*math.Sqrt(experiments*0.05*0.95); float64(false1) > most || missed > 0 {
			t.Errorf("%s: %d of %d say that something differs, want at most %.0f; %d differences missed", c.method,
				false1, experiments, most, missed)
		}
	}
}

// Welch's interval and p, of numbers worked out by hand: means 3 and 6, variances 2.5 and 10 of five each, so a
// standard error of √2.5, 5.882 degrees of freedom, and t = 1.897 (p = 0.1075).
func TestCompareWelch(t *testing.T) {
	d := &comparedFigures{Method: methodWelch}
	row, ok := d.row("x", []float64{1, 2, 3, 4, 5}, []float64{2, 4, math.NaN(), 6, 8, 10})
	if !ok || math.Abs(row.Difference.Mean-3) > 1e-12 || row.P == nil || math.Abs(*row.P-0.1075) > 5e-4 ||
		math.Abs(row.Difference.HalfWidth-2.459*math.Sqrt(2.5)) > 5e-3 {
		t.Errorf("found %+v, %v, p %v", row, ok, *row.P)
	}
	d.Method = methodPaired
	row, ok = d.row("x", []float64{1, 2, 3}, []float64{2, 4, 6}) // differences 1, 2, 3
	if !ok || row.Difference.Mean != 2 || math.Abs(row.Difference.HalfWidth-4.3027/math.Sqrt(3)) > 1e-3 {
		t.Errorf("found %+v, %v", row, ok)
	}
	if _, ok := d.row("x", []float64{1, 2, 3}, []float64{1, 2, 3}); ok {
		t.Error("what is the same differs")
	}
	if row, ok = d.row("x", []float64{1, 2}, []float64{3, 4}); !ok || *row.P != 0 || row.Difference.HalfWidth != 0 {
		t.Errorf("the same difference in each replication: found %+v", row)
	}
	if row, ok = d.row("x", []float64{1}, []float64{3}); !ok || row.P != nil || row.Difference.Known() {
		t.Errorf("one replication: found %+v", row)
	}
}

// TestCompareFiles: results of runs, and files that are none.
func TestCompareFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("tiny.yml", []byte(launchtest.Scenario(4, 20, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (status int, stdout, stderr string) {
		var out, errs bytes.Buffer
		status = Run(append([]string{"disco-run"}, args...), strings.NewReader(""), &out, &errs, launchtest.Kind())
		return status, out.String(), errs.String()
	}
	for name, args := range map[string]string{"one": "", "two": "--replications 4",
		"other": "--replications 4 --seed 2", "more": "--replications 4 --set nodes=5", "sweep": "--sweep nodes=2,3"} {
		line := strings.Fields("run tiny.yml --transport inproc " + args + " --json " + name + ".json")
		if status, _, said := run(line...); status != ExitOK {
			t.Fatalf("%v: %d: %s", line, status, said)
		}
	}
	for name, text := range map[string]string{"text": "x", "empty": "{}", "none": `{"results":null}`,
		"cut": `{"results":{"a":1},"interrupted":true}`, "going": `{"results":{"a":1},"so_far":true}`,
		"stranger": `{"results":{"a":1}}`,
		"huge":     `{"results":{"a":1},"figures":[{"name":"handled","values":[1e308,-1e308]}]}`} {
		if err := os.WriteFile(name+".json", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"two.json two.json", ExitOK, "the trace hash is the same"},
		{"two.json two.json", ExitOK, "\n0 of "},
		{"two.json other.json", ExitOK, "independent replications (Welch)"},
		{"two.json more.json", ExitFailed, "replication by replication"},
		{"two.json more.json", ExitFailed, "1 figure only in B, such as by_node.4"},
		{"two.json more.json --tolerance 1000%", ExitFailed, "the results differ: 1 figure in one of them only"},
		{"two.json more.json --tolerance 1000% --figures *", ExitOK, "0 of "},
		{"two.json more.json --figures handled", ExitFailed, "\nhandled"},
		{"two.json more.json --figures handles", ExitUsage, "did you mean handled?"},
		{"one.json two.json", ExitFailed, "one value of each"},
		{"one.json one.json", ExitOK, "\n0 of "},
		{"two.json more.json --tolerance x", ExitUsage, "--tolerance: found \"x\", want a finite share"},
		{"two.json", ExitUsage, "want two with results"},
		{"two.json sweep.json", ExitUsage, "sweep.json: found the JSON of a sweep"},
		{"two.json text.json", ExitUsage, "text.json: found no JSON of results"},
		{"two.json empty.json", ExitUsage, "empty.json: found no results in it"},
		{"two.json none.json", ExitUsage, "none.json: found no results in it"},
		{"two.json cut.json", ExitUsage, "cut.json: found a run that was interrupted"},
		{"two.json going.json", ExitUsage, "going.json: found a run that goes on, or whose process was killed, want"},
		{"two.json stranger.json", ExitUsage, "have no figure of one name"},
		{"two.json huge.json", ExitUsage, "huge.json: found 1e+308 as a value of the figure handled"},
		{"two.json missing.json", ExitUsage, "missing.json: "},
	} {
		status, stdout, stderr := run(append([]string{"compare"}, strings.Fields(c.args)...)...)
		if status != c.status || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("compare %s: %d, want %d with %q:\n%s%s", c.args, status, c.status, c.want, stdout, stderr)
		}
	}
	status, stdout, _ := run("compare", "two.json", "more.json", "--json", "-")
	var d comparedFigures
	if err := json.Unmarshal([]byte(stdout), &d); err != nil || status != ExitFailed || d.Differ == 0 ||
		len(d.OnlyB) != 1 || d.Method != methodPaired {
		t.Errorf("%d: %+v, %v", status, d, err)
	}
	if _, err := os.Stat(filepath.Join(".", "disco-crash")); err == nil {
		t.Error("it has left a post-mortem")
	}
}

// TestRequire: results that aren't as they are to be are exit status 3, and nothing else is.
func TestRequire(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"tiny.yml": launchtest.Scenario(4, 20, ""),
		"fails.yml": launchtest.Scenario(4, 20, "{node: 2, at: 5, how: error}")} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		file, args string
		status     int
		want       string
	}{
		{"tiny.yml", "--require handled>100", ExitOK, ""},
		{"tiny.yml", "--require handled>=1e9 --require by_node.0>0", ExitUnmet, "1 of 2 requirements not met: " +
			"handled >= 1e+09: it is "},
		{"tiny.yml", "--require handled<1e9 --replications 2", ExitOK, ""},
		{"tiny.yml", "--require handles<1", ExitUsage, "no figure handles: did you mean handled?"},
		{"tiny.yml", "--require handled=1", ExitUsage, "--require: found \"handled=1\", want FIGURE"},
		{"tiny.yml", "--require handled<nan", ExitUsage, "want a finite number"},
		{"tiny.yml", "--require trace_hash<1", ExitUsage, "and no number"},
		{"tiny.yml", "--sweep nodes=2,4 --require by_node.0<0", ExitUnmet, "2 of 2 requirements not met"},
		{"tiny.yml", "--sweep nodes=2,4 --require by_node.0>0", ExitOK, ""},
		{"tiny.yml", "--sweep nodes=2,4 --require by_node.3>0", ExitUsage, "no figure by_node.3 with nodes=2"},
		{"tiny.yml", "--require handled>1e9 --json /dev/full", ExitFailed, "1 of 1 requirement not met"},
		{"fails.yml", "--require handled>1e9", ExitFailed, "tiny"},
	} {
		var out, errs bytes.Buffer
		args := append([]string{"disco-run", "run", c.file, "--transport", "inproc", "--crash-dir", "none"},
			strings.Fields(c.args)...)
		status := Run(args, strings.NewReader(""), &out, &errs, launchtest.Kind())
		if status != c.status || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s %s: %d, want %d with %q: %s", c.file, c.args, status, c.status, c.want, errs.String())
		}
	}
	var out, errs bytes.Buffer
	status := Run([]string{"disco-run", "run", "tiny.yml", "--transport", "inproc", "--json", "-", "--require",
		"handled < 7"}, strings.NewReader(""), &out, &errs, launchtest.Kind())
	var d struct{ Requirements []requirementRow }
	if err := json.Unmarshal(out.Bytes(), &d); err != nil || status != ExitUnmet || len(d.Requirements) != 1 ||
		d.Requirements[0].Met || d.Requirements[0].Value < 7 || d.Requirements[0].Require != "handled < 7" {
		t.Errorf("%d: %+v, %v", status, d, err)
	}
}
