// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/app"
)

// runApp runs a program of the shop and returns what it writes to standard output.
func runApp(t *testing.T, file string, args ...string) string {
	t.Helper()
	type none struct{}
	kind := Kind("shop", func(b *Builder, _ none) { shop(b) })
	path := filepath.Join(t.TempDir(), "shop.yml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, failed bytes.Buffer
	all := append([]string{"shop", "run", path, "--transport", "inproc"}, args...)
	if code := app.Run(all, strings.NewReader(""), &out, &failed, kind); code != 0 {
		t.Fatalf("%v: exit %d\n%s", args, code, failed.String())
	}
	return out.String()
}

// A program's JSON and CSV have the statistics by name, with the same numbers for any workers; so does the table of a
// sweep.
func TestOutput(t *testing.T) {
	const file = "model: shop\nhorizon: 50\nwarmup: 5\n"
	var last string
	for _, workers := range []string{"1", "2", "3"} {
		var out struct {
			Results json.RawMessage `json:"results"`
		}
		text := runApp(t, file, "--workers", workers, "--replications", "3", "--json", "-")
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatal(err)
		}
		if last != "" && string(out.Results) != last {
			t.Errorf("results differ with %s workers", workers)
		}
		last = string(out.Results)
	}
	if !strings.Contains(last, `"paris.till/served"`) {
		t.Error(last)
	}
	rows, err := csv.NewReader(strings.NewReader(runApp(t, file, "--csv", "-"))).ReadAll()
	if err != nil || !slices.Equal(rows[0], tableHead) || len(rows) < 50 {
		t.Errorf("%v %v", err, rows)
	}
	rows, err = csv.NewReader(strings.NewReader(runApp(t, file, "--sweep", "horizon=20,40", "--columns",
		`figures."paris.till/served"`, "--csv", "-"))).ReadAll()
	if err != nil || len(rows) != 3 || rows[0][1] != `figures."paris.till/served"` || rows[1][1] == rows[2][1] {
		t.Errorf("%v %v", err, rows)
	}
}

// A program's `fields` shows what its files consist of, in three formats; wrong ones are refused.
func TestFields(t *testing.T) {
	type params struct {
		Agents int `yaml:"agents" min:"1" default:"2" doc:"who answers"`
	}
	kind := Kind("centre", func(b *Builder, p params) { b.Node("front", func(*Node) {}) })
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{nil, app.ExitOK, "who answers"},
		{[]string{"centre", "--format", "markdown"}, app.ExitOK, "| `agents` |"},
		{[]string{"--format", "schema"}, app.ExitOK, `"minimum": 1`},
		{[]string{"--format", "xml"}, app.ExitUsage, `format: found "xml", want one of "text" "markdown" "schema"`},
		{[]string{"center"}, app.ExitUsage, `found "center", want one of the kinds "centre"`},
	} {
		var out, errs bytes.Buffer
		status := app.Run(append([]string{"centre", "fields"}, c.args...), strings.NewReader(""), &out, &errs, kind)
		if text := out.String() + errs.String(); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%q: status %d, %s\nwant %s", c.args, status, text, c.want)
		}
	}
}
