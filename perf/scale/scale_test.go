// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/model/phold"
	"github.com/disco-sim/disco/model/service"
	"github.com/disco-sim/disco/scenario"
)

func load(t *testing.T, text []byte) scenario.Scenario {
	t.Helper()
	registry, err := scenario.NewRegistry(phold.Kind(), service.Kind(), wiredKind())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := scenario.Parse("cell.yml", text)
	if err != nil {
		t.Fatal(err)
	}
	s, err := registry.Load(doc, scenario.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The scenario of every cell has the nodes and links that its row will name.
func TestCells(t *testing.T) {
	for _, curve := range curveNames {
		all := cells(curve, 1e4)
		if len(all) < 4 || !slices.IsSortedFunc(all, func(a, b *cell) int { return a.n - b.n }) {
			t.Errorf("%s: %d cells, want some, smallest first", curve, len(all))
		}
		for _, c := range all {
			for _, events := range []float64{1, 1e6} {
				g := load(t, c.text(events)).Graph()
				nodes, links := g.Len(), len(g.Links)
				if g.EachLink != nil {
					for range g.EachLink {
						links++
					}
				}
				if c.kind == service.KindName { // besides the servers and balancers: front, client, generator, …
					nodes -= 4
				}
				if math.Abs(float64(nodes-c.nodes)) > 4 || c.kind == wiredName && links != c.links {
					t.Errorf("%v: %d nodes, %d links", c, g.Len(), links)
				}
			}
		}
	}
	if last := cells(curveNodes, 1e8); last[len(last)-1].nodes != 1e7 {
		t.Errorf("the largest has %d nodes", last[len(last)-1].nodes)
	}
	if last := cells(curvePending, 1e8); last[len(last)-1].pending != 1e8 {
		t.Errorf("the largest has %d pending events", last[len(last)-1].pending)
	}
}

// No node has two links to the same other one, or one to itself, and results don't depend on the spread.
func TestWired(t *testing.T) {
	for _, p := range []wiredParams{{2, 1, 5}, {10, 9, 5}, {100, 7, 5}} {
		w := newWired(p)
		seen := map[[2]int]bool{}
		for l := range w.eachLink {
			pair := [2]int{l.From.Node, l.To.Node}
			if seen[pair] || pair[0] == pair[1] {
				t.Errorf("%+v: the link %v is there twice, or leads nowhere", p, pair)
			}
			seen[pair] = true
		}
		if len(seen) != p.nodes*p.degree {
			t.Errorf("%+v: %d links", p, len(seen))
		}
		modeltest.ComparePlacements(t, newWired(p), 1)
	}
}

// run runs a command line in a folder and returns its output.
func runCommand(t *testing.T, want int, args ...string) (stdout string) {
	t.Helper()
	var out, problems strings.Builder
	if status := command(context.Background(), args, &out, &problems); status != want {
		t.Fatalf("%v: exit status %d, want %d: %s%s", args, status, want, out.String(), problems.String())
	}
	return out.String() + problems.String()
}

// The whole way: cells are run, rows written, curves drawn; a second call measures nothing again, and one for more
// rounds adds them.
func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "rows.json")
	args := []string{"-curves", "nodes,pending", "-most", "1000", "-events", "20000", "-json", file, "-svg",
		filepath.Join(dir, "c")}
	runCommand(t, 0, append(args, "-rounds", "1")...)
	first, err := readRows(file)
	if err != nil || len(first.Rows) != len(cells(curveNodes, 1000))+len(cells(curvePending, 1000)) {
		t.Fatalf("%d rows, %v", len(first.Rows), err)
	}
	for _, r := range first.Rows {
		if r.Note != "" || r.Rounds != 1 || len(r.Rates) != 1 || r.Rate <= 0 || r.Peak < 1<<20 || r.Load <= 0 ||
			r.Start <= 0 || r.CPUEvent <= 0 || r.PeakBy == "" {
			t.Errorf("%+v", r)
		}
		if wantBare := r.Kind == "phold" && r.Workers == 1; wantBare != (len(r.Ratio) == 3) {
			t.Errorf("%v: ratio %v", &r, r.Ratio)
		}
	}
	for _, name := range []string{"c-nodes.svg", "c-pending.svg"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(text), "phold, 2 workers") || len(text) > 40_000 {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
	}
	out := runCommand(t, 0, append(args, "-rounds", "1")...)
	again, err := readRows(file)
	if err != nil || strings.Contains(out, "workers:") {
		t.Errorf("the second call has measured again: %v %s", err, out)
	}
	for i := range again.Rows {
		if !slices.Equal(again.Rows[i].Rates, first.Rows[i].Rates) {
			t.Errorf("row %d has changed", i)
		}
	}
	runCommand(t, 0, append(args, "-rounds", "2")...)
	if more, err := readRows(file); err != nil || len(more.Rows) != len(first.Rows) || len(more.Rows[0].Rates) != 2 ||
		more.Rows[0].Rates[0] != first.Rows[0].Rates[0] {
		t.Errorf("a further round: %v", err)
	}
	out = runCommand(t, 0, "draw", "-json", file, "-svg", filepath.Join(dir, "d"))
	if !strings.Contains(out, "| 1000 | phold, 2 workers | ") {
		t.Errorf("draw: %s", out)
	}
}

// A run that takes more memory than it may is ended, its row says so, and larger ones aren't tried.
func TestMemoryLimit(t *testing.T) {
	g, err := newGroup(1 << 30)
	if err != nil {
		t.Skip(err)
	}
	g.remove()
	file := filepath.Join(t.TempDir(), "rows.json")
	runCommand(t, 0, "-curves", "pending", "-most", "10000", "-events", "1000", "-memory", "0.002", "-json", file,
		"-rounds", "1")
	doc, err := readRows(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range doc.Rows {
		if want := map[int]string{1000: "of 2.0 MB", 10_000: "neither was the next smaller one"}[r.N]; r.Rounds != 0 ||
			!strings.Contains(r.Note, want) {
			t.Errorf("%d pending: %q, want %q", r.N, r.Note, want)
		}
	}
}

// A run that takes too long is ended, and its processes with it (leaktest looks for them).
func TestTimeLimit(t *testing.T) {
	r, err := newRunner()
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	c := pholdCell(curveNodes, 100, 100, 1, 2)
	m, err := r.do(context.Background(), c.text(1e10), []string{"--workers", "2"}, limits{time.Second, 4 << 30})
	if err == nil || !strings.Contains(err.Error(), "after 1s") {
		t.Errorf("%v, %v", m, err)
	}
}

// What the rows before say about one that is too large.
func TestForecast(t *testing.T) {
	const gb = 1_000_000_000
	next := pholdCell(curveNodes, 1e5, 1e5, 1, 1)
	for _, c := range []struct {
		peak    int64
		elapsed float64
		note    string
		left    time.Duration
		want    string
	}{
		{gb, 1, "", time.Hour, ""},
		{3 * gb, 1, "", time.Hour, "some 30.00 GB, 10 times as much"},
		{gb, 30, "", time.Hour, "some 300 s, 10 times as long"},
		{gb, 5, "", 10 * time.Second, "of 10 s that were left"},
		{gb, 1, "broken", time.Hour, "neither was"},
		{gb, 1, "", 0, "the budget of time"},
	} {
		row := newRow(pholdCell(curveNodes, 1e4, 1e4, 1, 1))
		row.Peak, row.Elapsed, row.Note = c.peak, c.elapsed, c.note
		other := newRow(pholdCell(curveNodes, 1e4, 1e4, 1, 2))
		other.Note = "another line"
		got := forecast(&document{Rows: []cellRow{row, other}}, next, limits{time.Minute, 20 * gb}, c.left)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// PSS counts what this process has.
func TestPss(t *testing.T) {
	if got := pss([]int{os.Getpid()}); got < 1<<20 || got > 1<<35 {
		t.Errorf("%d bytes", got)
	}
	if f := family(os.Getpid()); f[0] != os.Getpid() {
		t.Errorf("%v", f)
	}
}

// Mistakes on the command line end with status 2 and what is wanted.
func TestUsage(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte(`{"rows": [{"n": "x"}]}`), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"want some of nodes", []string{"-curves", "height"}},
		{"want flags only", []string{"nodes"}},
		{"above 0", []string{"-rounds", "0"}},
		{"want rows that scale wrote", []string{"-json", bad}},
		{"draw: want -json", []string{"draw"}},
		{"flag provided but not defined", []string{"-x"}},
	} {
		if out := runCommand(t, exitUsage, c.args...); !strings.Contains(out, c.want) {
			t.Errorf("%v: %s", c.args, out)
		}
	}
}
