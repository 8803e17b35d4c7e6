// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/graph/frame/parquetfile"
	"github.com/disco-sim/disco/model/devstone"
	"github.com/disco-sim/disco/model/network"
	"github.com/disco-sim/disco/model/phold"
	"github.com/disco-sim/disco/model/queueing"
	"github.com/disco-sim/disco/model/service"
	"github.com/disco-sim/disco/model/supply"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/sim"
	"github.com/disco-sim/disco/sim/dist"
)

// till is a model of package sim with all sorts of statistics.
func till(b *sim.Builder, _ struct{}) {
	b.Nodes("till", 2, func(n *sim.Node) {
		n.Stateless()
		served, wait := n.Counter("served"), n.Tally("wait",
			sim.Unit("s"), sim.Doc("a wait"), sim.Histogram(0, 2, 4), sim.OverTime(4))
		line := n.Gauge("line")
		n.Every(dist.Exponential(1).Named("gap"), func(c *sim.Context) {
			served.Inc()
			wait.Add(c.Draw(dist.Exponential(1).Named("wait")))
			line.Add(1)
		})
	})
}

// outputs are the runs whose files the pages describe, by the heading of their kind.
var outputs = []struct {
	heading string
	kind    scenario.Kind
	args    string
}{
	{"service", service.Kind(),
		"examples/shop.yml --horizon 600 --replications 2 --set rqs_input.avg_active_users.mean=450"},
	{"service", service.Kind(), "examples/mini.yml --horizon 60 --sweep sim_settings.sample_period_s=0.01"},
	{"network", network.Kind(),
		"examples/backbone.yml --horizon 25 --replications 2 --set traffic.bits_per_second=5e6"},
	{"queueing", queueing.Kind(), "examples/jackson.yml"},
	{"supply", supply.Kind(), "examples/supply.yml --horizon 200 --replications 2"},
	{"phold", phold.Kind(), "examples/phold.yml --horizon 3 --set idle=0.25"},
	{"devstone", devstone.Kind(), "examples/devstone.yml"},
	{"models of package sim", sim.Kind("till", till), "till.yml --replications 2"},
}

// TestOutputs: docs/outputs.md has every column of every file with its unit, and no others; docs/series.md has every
// figure with its unit.
func TestOutputs(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates every kind, which takes the race detector ten minutes")
	}
	columns, figures := documentedColumns(t), documentedFigures(t)
	for _, o := range outputs {
		dir := filepath.Join(t.TempDir(), "out")
		args := append([]string{"disco-run", "run", "--transport", "inproc", "--out", dir}, strings.Fields(o.args)...)
		if file := args[6]; file == "till.yml" {
			args[6] = filepath.Join(t.TempDir(), file)
			if err := os.WriteFile(args[6], []byte("model: till\nhorizon: 40\n"), 0o666); err != nil {
				t.Fatal(err)
			}
		} else {
			args[6] = filepath.Join("..", "..", file)
		}
		if o.heading != "phold" && o.heading != "devstone" && !slices.Contains(args, "--sweep") {
			args = append(args, "--records")
		}
		var stdout, stderr bytes.Buffer
		if status := app.Run(args, strings.NewReader(""), &stdout, &stderr, o.kind); status != app.ExitOK {
			t.Fatalf("%v: exit status %d: %s", args, status, stderr.String())
		}
		paths, err := filepath.Glob(filepath.Join(dir, "*.csv"))
		if err != nil || len(paths) < 2 {
			t.Fatalf("%v: %v, files %v", args, err, paths)
		}
		for _, name := range recordColumns(t, dir) {
			if !columns.find(o.heading, "records", name) {
				t.Errorf("%s: docs/outputs.md doesn't have the column %q of records", o.heading, name)
			}
		}
		for _, path := range paths {
			rows := readCSV(t, path)
			table := strings.TrimSuffix(filepath.Base(path), ".csv")
			if table == "sweep" {
				continue // its columns are those of --csv
			}
			for _, name := range rows[0] {
				if !columns.find(o.heading, table, name) {
					t.Errorf("%s: docs/outputs.md doesn't have the column %q of %s", o.heading, name, table)
				}
			}
			if table == "series" && rows[0][0] == "figure" {
				figures.check(t, o.heading, rows[1:])
			}
		}
	}
	columns.unused(t)
	figures.unused(t)
}

// recordColumns are the columns of records.parquet, none where there is no such file.
func recordColumns(t *testing.T, dir string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "records.parquet"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	r, err := parquetfile.Open(bytes.NewReader(text), int64(len(text)))
	if err != nil || r.Rows() == 0 {
		t.Fatalf("%v: %v", dir, err)
	}
	return r.Columns()
}

func readCSV(t *testing.T, path string) [][]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%s: %v, %d rows", path, err, len(rows))
	}
	return rows
}

// entry is columns of a table, or figures of a kind, as a page has them.
type entry struct {
	heading, table, pattern, unit string
	expression                    *regexp.Regexp
	found                         bool
}

type entries []*entry

// column marks the entries of a column.
func (all entries) find(heading, table, name string) (found bool) {
	for _, e := range all {
		if (e.heading == heading || e.table == table && e.heading == "") && e.table == table &&
			e.expression.MatchString(name) {
			e.found, found = true, true
		}
	}
	return found
}

func (all entries) unused(t *testing.T) {
	t.Helper()
	for _, e := range all {
		if !e.found && !strings.Contains(e.pattern, "sampled.") && e.pattern != "no_theory" {
			t.Errorf("%s: no file has %q of %q", e.heading, e.pattern, e.table)
		}
	}
}

var (
	quoted = regexp.MustCompile("`([^`]+)`")
	braces = regexp.MustCompile(`^([^{]*)\{([^}]*)\}(.*)$`)
)

// expand are the texts that a pattern with braces stands for.
func expand(pattern string) (list []string) {
	m := braces.FindStringSubmatch(pattern)
	if m == nil {
		return []string{pattern}
	}
	for _, one := range strings.Split(m[2], ",") {
		list = append(list, expand(m[1]+one+m[3])...)
	}
	return list
}

// rows are the rows of the tables of a page, each with the heading of its part in front.
func pageRows(t *testing.T, page string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	heading := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "### "); ok {
			heading = name
		}
		if strings.HasPrefix(line, "| ") {
			row := strings.Split(strings.Trim(line, "|"), " | ")
			for i := range row {
				row[i] = strings.TrimSpace(row[i])
			}
			rows = append(rows, append([]string{heading}, row...))
		}
	}
	return rows
}

// documentedColumns are those of docs/outputs.md.
func documentedColumns(t *testing.T) (all entries) {
	for _, row := range pageRows(t, "outputs.md") {
		heading, tables := row[0], []string{strings.Fields(row[0] + " x")[0]}
		switch {
		case heading == "" || row[1] == "column" || row[1] == "table":
			continue
		case len(row) == 4:
			tables, row = strings.Split(row[1], ", "), append(row[:1], row[2:]...)
		default:
			heading, tables[0] = "", strings.TrimSuffix(tables[0], ",")
		}
		if row[2] == "" {
			t.Errorf("%s: %s has no unit", heading, row[1])
		}
		for _, table := range tables {
			for _, m := range quoted.FindAllStringSubmatch(row[1], -1) {
				for _, pattern := range expand(m[1]) {
					all = append(all, newEntry(heading, table, pattern, row[2]))
				}
			}
		}
	}
	return all
}

func newEntry(heading, table, pattern, unit string) *entry {
	expression := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*")
	return &entry{heading, table, pattern, unit, regexp.MustCompile("^" + expression + "$"), false}
}

var figure = regexp.MustCompile("`([a-z0-9_]+)` \\(([^)]*)\\)")

// documentedFigures are those of docs/series.md; table is "whole" or "each".
func documentedFigures(t *testing.T) (all entries) {
	for _, row := range pageRows(t, "series.md") {
		if len(row) != 4 || row[1] == "kind" || strings.HasPrefix(row[1], "models") {
			continue
		}
		table := "each"
		if row[2] == "the whole" {
			table = "whole"
		}
		for _, m := range figure.FindAllStringSubmatch(row[3], -1) {
			all = append(all, newEntry(row[1], table, m[1], m[2]))
		}
	}
	return all
}

// check holds the figures of series.csv against the page.
func (all entries) check(t *testing.T, heading string, rows [][]string) {
	t.Helper()
	if strings.HasPrefix(heading, "models") {
		return // these have their own
	}
	var seen []string
	for _, row := range rows {
		table, unit := "each", row[2]
		if row[1] == "" {
			table = "whole"
		}
		if unit == "" {
			unit = "share"
		}
		if key := row[0] + table; slices.Contains(seen, key) {
			continue
		} else {
			seen = append(seen, key)
		}
		i := slices.IndexFunc(all, func(e *entry) bool {
			return e.heading == heading && e.table == table && e.pattern == row[0] && e.unit == unit
		})
		if i < 0 {
			t.Errorf("%s: docs/series.md doesn't have %q of %s in %s", heading, row[0], table, unit)
			continue
		}
		all[i].found = true
	}
}
