// SPDX-License-Identifier: Apache-2.0

package outdir

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// written writes an output with a table, and returns what stands in the way.
func written(dir, table, result string) error {
	d, err := Open(dir)
	if err != nil {
		return err
	}
	w := d.Begin("1.2.3")
	defer w.Abort()
	t, err := w.Table(table, []Column{{Name: "a", Type: Int}, {Name: "b, c", Type: Text}, {Name: "x", Type: Number},
		{Name: "yes", Type: Bool}})
	if err != nil {
		return err
	}
	if err := errors.Join(t.Row([]any{int64(-3), "a \"b\"\n", 0.1, true}), t.Row([]any{nil, nil, nil, nil}),
		t.Row([]any{int64(1) << 60, "", 1e300, false}), w.Scenario([]byte("model: x\n"))); err != nil {
		return err
	}
	return w.Result(func(out io.Writer) error {
		_, err := io.WriteString(out, result)
		return err
	})
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func content(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestOutput: what is written, and that another output takes its place as a whole.
func TestOutput(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	if err := written(dir, "first", `{"results": {"n": 3}}`); err != nil {
		t.Fatal(err)
	}
	want := []string{"first.csv", "first.parquet", "output.json", "result.json", "scenario.yml", "summary.csv",
		"summary.parquet"}
	if got := names(t, dir); !reflect.DeepEqual(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	if got, want := content(t, dir, "first.csv"), "a,\"b, c\",x,yes\n-3,\"a \"\"b\"\"\n\",0.1,true\n,,,\n"+
		"1152921504606846976,\"\",1e+300,false\n"; got != want {
		t.Errorf("found %q, want %q", got, want)
	}
	if err := written(dir, "second", `{"results": 7}`); err != nil {
		t.Fatal(err)
	}
	want = []string{"output.json", "result.json", "scenario.yml", "second.csv", "second.parquet"}
	if got := names(t, dir); !reflect.DeepEqual(got, want) {
		t.Errorf("after another output: %v, want %v", got, want)
	}
}

// TestRefused: directories with other things in them are refused, and nothing is changed there.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a file": {map[string]string{"notes.txt": "x"}, "isn't empty and has no output.json"},
		"one more": {map[string]string{"output.json": `{"format":1,"files":["a.csv"]}`, "b.csv": ""},
			`found "b.csv"`},
		"other format": {map[string]string{"output.json": `{"format":2,"files":[]}`}, "found format 2, want 1"},
		"no list":      {map[string]string{"output.json": "[]"}, "isn't the list of an earlier run's files"},
		"elsewhere":    {map[string]string{"output.json": `{"format":1,"files":["../a.csv"]}`}, `it lists "../a.csv"`},
		"hidden":       {map[string]string{"output.json": `{"format":1,"files":[".csv"]}`}, `it lists ".csv"`},
		"no output":    {map[string]string{"output.json": `{"format":1,"files":["go.mod"]}`}, `it lists "go.mod"`},
		"huge":         {map[string]string{"output.json": strings.Repeat(" ", 2<<20)}, "at most 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range c.files {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			err := written(dir, "t", "{}")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("found %v, want %q", err, c.want)
			}
			if got := names(t, dir); len(got) != len(c.files) {
				t.Errorf("found %v afterwards", got)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file); err == nil || !strings.Contains(err.Error(), "can't be read as a directory") {
		t.Errorf("a file: %v", err)
	}
	if _, err := Open(filepath.Join(file, "sub")); err == nil {
		t.Error("a directory in a file was opened")
	}
}

// TestInterrupted: whatever the commit of an output has come to when it ends, there is no result.json beside files of
// another output, and the directory can be written to again.
func TestInterrupted(t *testing.T) {
	for step := range 12 {
		dir := t.TempDir()
		if err := written(dir, "first", `{"results": {"n": 3}}`); err != nil {
			t.Fatal(err)
		}
		d, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		w := d.Begin("1.2.3")
		steps := step
		w.killed = func() bool { steps--; return steps < 0 }
		if _, err = w.Table("second", []Column{{Name: "a", Type: Int}}); err != nil {
			t.Fatal(err)
		}
		err = w.Result(func(out io.Writer) error { _, err := io.WriteString(out, "{}"); return err })
		list := names(t, dir)
		whole := slices.Contains(list, ResultFile)
		first := slices.Contains(list, "first.csv")
		if errors.Is(err, errKilled) && whole && (content(t, dir, ResultFile) == "{}") == first {
			t.Errorf("killed at step %d, found %v with the result %s", step, list, content(t, dir, ResultFile))
		}
		if err == nil && !whole || !errors.Is(err, errKilled) && err != nil {
			t.Errorf("step %d: %v, found %v", step, err, list)
		}
		if err == nil && step < 8 {
			t.Errorf("only %d steps", step)
		}
		if err := written(dir, "third", "{}"); err != nil {
			t.Errorf("killed at step %d: %v", step, err)
		}
		if got := names(t, dir); !reflect.DeepEqual(got, []string{"output.json", "result.json", "scenario.yml",
			"third.csv", "third.parquet"}) {
			t.Errorf("killed at step %d, then written: found %v", step, got)
		}
	}
}

// TestAborted: an output that fails leaves nothing.
func TestAborted(t *testing.T) {
	dir := t.TempDir()
	for _, err := range []error{
		written(dir, "t", `{"results": `), written(dir, "t", `{"results": {"a" 3}}`), written(dir, "t", `[]`),
		written(dir, "../t", `{}`),
	} {
		if err == nil {
			t.Error("it was written")
		}
	}
	if got := names(t, dir); len(got) > 0 {
		t.Errorf("found %v", got)
	}
}

// TestTables: which tables a result has.
func TestTables(t *testing.T) {
	dir := t.TempDir()
	if err := written(dir, "first", `{"a": {"x": [1, {}]}, "results": {
		"n": 3, "text": "a,b", "yes": true, "none": null, "big": 123456789012345678901234567890,
		"latency_s": {"mean": 0.5, "deep": {"p": 1, "q": [1]}},
		"boxes": {"b 1": {"n": 1, "x": 1, "of": {"y": 2, "z": null}, "list": [1, 2]},
			"b 2": {"n": 2, "x": 1.5, "more": "m", "each": {"i": {"v": 1}, "j": {"v": 2}}}},
		"rows": [{"n": 1, "mixed": 1}, {"mixed": "two"}, 3, [4], {"n": null}],
		"first": [{"a": 1}], "what/": [{"a": 1}], "empty": [], "object": {}
	}, "z": 1}`); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"summary.csv": "n,text,yes,big,latency_s.mean,latency_s.deep.p\n" +
			"3,\"a,b\",true,1.2345678901234568e+29,0.5,1\n",
		"boxes.csv": "id,n,x,of.y,more\nb 1,1,1,2,\nb 2,2,1.5,,m\n",
		"rows.csv":  "n,mixed\n1,1\n,two\n,\n",
	} {
		if got := content(t, dir, file); got != want {
			t.Errorf("%s: found %q, want %q", file, got, want)
		}
	}
	if list := names(t, dir); len(list) != 2+2+1+3*2 || !strings.HasPrefix(content(t, dir, "first.csv"), "a,\"b") {
		t.Errorf("found %v", list)
	}
}

// TestColumns: a row with very many fields has as many columns as fit, and the others are in result.json.
func TestColumns(t *testing.T) {
	dir := t.TempDir()
	result := `{"results": {"rows": [{` + strings.Repeat(`"a": 1, `, 3)
	for i := range 2000 {
		result += `"c` + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + strings.Repeat("y", i/26) + `": 1, `
	}
	if err := written(dir, "t", result+`"z": 1}]}}`); err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(content(t, dir, "rows.csv"), "\n")
	if n := strings.Count(head, ",") + 1; n != columnsMax {
		t.Errorf("found %d columns, want %d", n, columnsMax)
	}
}
