// SPDX-License-Identifier: Apache-2.0

package simtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/infile"
	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/sim"
)

var update = flag.Bool("update", false, "write the snapshots of simtest in testdata anew")

// seed is that of all runs.
const seed = 1

// known are the kinds that worker processes of this test know; nil without Main or Worker.
var known []scenario.Kind

// Main is the whole of a TestMain: this test's executable is also the worker processes of the runs that it starts.
func Main(m *testing.M, kinds ...scenario.Kind) {
	Worker(kinds...)
	os.Exit(m.Run())
}

// Worker is for a TestMain that has more to do: it never returns in a worker process, and does nothing otherwise.
func Worker(kinds ...scenario.Kind) {
	known = kinds
	if workerproc.IsWorker() {
		app.Main(kinds...)
	}
}

// File is a scenario that Load has read.
type File struct {
	scenario.Scenario
	path string
	kind string
}

// Load reads a scenario file with a kind; the test fails where it is wrong. set changes fields of it, each as a flag
// --set does: "agents=3".
func Load(t testing.TB, kind scenario.Kind, path string, set ...string) *File {
	t.Helper()
	doc, err := scenario.ReadFile(path)
	var changes []scenario.Setting
	for _, text := range set {
		change, wrong := scenario.ParseSetting(text)
		changes, err = append(changes, change), errors.Join(err, wrong)
	}
	if err != nil {
		t.Fatal(err)
	}
	if doc, err = doc.With(changes); err != nil {
		t.Fatal(err)
	}
	s, err := kind.Load(kind.Attach(doc, nil), scenario.Options{})
	if err == nil {
		_, err = scenario.GraphOf(s)
	}
	if err != nil {
		t.Fatal(err)
	}
	f := &File{s, path, kind.Name}
	if len(set) > 0 {
		f.path = "" // worker processes would read the file as it is
	}
	return f
}

// Run runs a model, from Load or sim.New, on one worker and spread over two, three and four, with nodes in turn and
// in blocks, with an exchange after each activation and after many; where it can be saved (sim.Saved), in legs, each by
// other workers, which load what those before have saved; over one and two worker processes too where Load has read an
// unchanged file and TestMain is Main. All must give the same, and go test -v shows the trace hash, that of the model's
// command. Where the test has a snapshot, testdata/<name of the test>.txt, hash and results must be those of the
// snapshot, unless it is of another architecture (GOARCH), where sums may be rounded otherwise; go test -update writes
// one.
func Run(t testing.TB, s scenario.Scenario) {
	t.Helper()
	f, _ := s.(*File)
	if f != nil {
		s = f.Scenario
	}
	out := modeltest.ComparePlacements(t, s, seed)
	if err := modeltest.CheckState(s); err != nil {
		t.Logf("not run from checkpoints: %v", err)
	} else {
		modeltest.ResumeEverywhere(t, s, seed)
	}
	sum, err := modeltest.Sum(s, out.Replication)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	hash := fnv.New64a()
	for _, h := range out.Hashes {
		fmt.Fprintf(hash, "%016x", h)
	}
	fmt.Fprintf(&text, "hash %016x of %d events in %d activations\n", hash.Sum64(), out.Events, out.Activations)
	if err := sum.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	snapshot(t, text.String())
	switch {
	case f == nil || f.path == "":
		t.Log("no worker processes: the model isn't that of a file")
	case !knows(f.kind):
		t.Logf("no worker processes: TestMain isn't simtest.Main(m, kind) with the kind of %s", f.kind)
	default:
		f.processes(t, sum, out.Events)
	}
}

func knows(kind string) bool {
	for _, k := range known {
		if k.Name == kind {
			return true
		}
	}
	return false
}

// written is what the last line of a snapshot begins with.
const written = "written on "

// snapshot holds a text against the test's file, where there is one.
func snapshot(t testing.TB, text string) {
	t.Helper()
	on := written + runtime.GOARCH + "\n"
	text += on
	file := filepath.Join("testdata", strings.ReplaceAll(t.Name(), "/", "-")+".txt")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		modeltest.Golden(t, file, text, true)
		return
	}
	old, err := infile.Read(file, infile.Kind{Name: "a snapshot", BytesMax: 8 << 20})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.Logf("no snapshot %s: go test -update writes it", file)
		return
	case err != nil:
		t.Fatal(err)
	case !strings.HasSuffix(string(old), on) && strings.Contains(string(old), "\n"+written):
		t.Logf("the snapshot %s is of another architecture, where sums may be rounded otherwise: not compared", file)
		return
	}
	modeltest.Golden(t, file, text, false)
}

// processes runs the file over worker processes, as a user does.
func (f *File) processes(t testing.TB, sum scenario.Summary, events uint64) {
	t.Helper()
	want, err := json.Marshal(sum)
	if err != nil {
		t.Fatal(err)
	}
	hash := ""
	for _, workers := range []string{"1", "2"} {
		var stdout, stderr bytes.Buffer
		args := []string{"simtest", "run", f.path, "--workers", workers, "--seed", fmt.Sprint(seed), "--json", "-"}
		if status := app.Run(args, strings.NewReader(""), &stdout, &stderr, known...); status != app.ExitOK {
			t.Fatalf("%s: exit status %d\n%s", strings.Join(args[1:], " "), status, stderr.String())
		}
		var d struct {
			Events  uint64          `json:"events"`
			Hash    string          `json:"trace_hash"`
			Results json.RawMessage `json:"results"`
		}
		var got bytes.Buffer
		err := json.Unmarshal(stdout.Bytes(), &d)
		if err == nil {
			err = json.Compact(&got, d.Results)
		}
		if err != nil {
			t.Fatal(err)
		}
		if hash == "" {
			hash = d.Hash
		}
		if d.Hash != hash || d.Events != events || !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s worker processes: trace hash %s, %d events, results\n%s\nwant %s, %d,\n%s", workers, d.Hash,
				d.Events, got.Bytes(), hash, events, want)
		}
	}
	t.Logf("trace hash %s with --seed %d", hash, seed)
}

// Results runs so many replications of a model, in this goroutine, and gives their results. Results.Figure has them
// by name.
func Results(t testing.TB, s scenario.Scenario, replications int) *sim.Results {
	t.Helper()
	return results(t, s, seed, replications)
}

func results(t testing.TB, s scenario.Scenario, seed uint64, replications int) *sim.Results {
	t.Helper()
	if f, ok := s.(*File); ok {
		s = f.Scenario
	}
	r, ok := modeltest.Summarize(t, s, seed, replications).(*sim.Results)
	if !ok {
		t.Fatalf("%s isn't a model of package sim", s.Name())
	}
	return r
}

// Agree fails unless a number that is known to be true lies in the confidence interval of a statistic: of the mean of
// a tally or a gauge, of the amount that a counter counts in a replication. Chance alone keeps it out of one interval
// in twenty: Covers is for several numbers.
func Agree(t testing.TB, r *sim.Results, name string, truth float64) {
	t.Helper()
	low, high := interval(t, r, name)
	t.Logf("%s: from %.6g to %.6g; true is %.6g", name, low, high, truth)
	if !within(low, truth, high) {
		t.Errorf("%s lies between %.6g and %.6g, which %.6g doesn't", name, low, high, truth)
	}
}

const (
	experiments = 20
	coveredMin  = 16 // fewer have a probability of 0.0003 where 19 are expected
)

// Covers is Agree for experiments with seeds 1 to 20, of so many replications each: it fails where the interval of a
// statistic holds the truth in fewer than 16 of them.
func Covers(t testing.TB, s scenario.Scenario, replications int, truths map[string]float64) {
	t.Helper()
	hits := map[string]int{}
	for i := range experiments {
		r := results(t, s, uint64(i)+1, replications)
		for name, truth := range truths {
			if low, high := interval(t, r, name); within(low, truth, high) {
				hits[name]++
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(truths)) {
		t.Logf("%s: %.6g lies in %d of %d intervals", name, truths[name], hits[name], experiments)
		if hits[name] < coveredMin {
			t.Errorf("%s: %.6g lies in %d of %d intervals, want at least %d", name, truths[name], hits[name],
				experiments, coveredMin)
		}
	}
}

// interval is that of a statistic of results.
func interval(t testing.TB, r *sim.Results, name string) (low, high float64) {
	t.Helper()
	s := r.Statistic(name)
	if s == nil {
		names := make([]string, len(r.Statistics))
		for i, s := range r.Statistics {
			names[i] = s.Name
		}
		t.Fatalf("there is no statistic %q: want one of %s", name, strings.Join(names, ", "))
	}
	i, seconds := s.Mean, 1.0
	if s.Rate != nil {
		i, seconds = s.Rate, r.HorizonSeconds-r.WarmupSeconds
	}
	if i == nil || !i.Known() {
		t.Fatalf("%s has no interval: simulate longer, or more replications", name)
	}
	return i.Low * seconds, i.High * seconds
}

// within allows for rounding where an interval has no width.
func within(low, x, high float64) bool {
	rounding := 1e-12 * math.Abs(x)
	return low-rounding <= x && x <= high+rounding
}
