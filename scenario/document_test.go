// SPDX-License-Identifier: Apache-2.0

package scenario_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/scenario"
)

// TestReadFile: what is wrong with a path is said in words, with the system's error
// behind it.
func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good.yml")
	if err := os.WriteFile(good, []byte("a: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	doc, err := scenario.ReadFile(good)
	if err != nil || doc.File() != good || string(doc.Text()) != "a: 1\n" {
		t.Errorf("got %v, %v", doc, err)
	}
	missing := filepath.Join(dir, "missing.yml")
	if _, err := scenario.ReadFile(missing); !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(), missing+": found no file of that name") {
		t.Errorf("missing file: %v", err)
	}
	if _, err := scenario.ReadFile(dir); err == nil || !strings.Contains(err.Error(), "found a directory") {
		t.Errorf("directory: %v", err)
	}
	if _, err := scenario.ReadFile(filepath.Join(good, "below")); err == nil ||
		!strings.Contains(err.Error(), "below") {
		t.Errorf("a path through a file: %v", err)
	}
	if err := os.Chmod(good, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := scenario.ReadFile(good); os.Geteuid() != 0 &&
		(!errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "without permission to read it")) {
		t.Errorf("no permission: %v", err)
	}
	if os.Geteuid() == 0 {
		t.Log("root may read everything: the message for a file without permission is not tested")
	}
	// A device that never ends must not be read for ever.
	if _, err := os.Stat("/dev/zero"); err == nil {
		if _, err := scenario.ReadFile("/dev/zero"); err == nil || !strings.Contains(err.Error(), "found a device") {
			t.Errorf("a device without an end: %v", err)
		}
	}
}

// TestUnreadable: text that is no YAML, or not one document of it, is refused with
// the line at which it goes wrong.
func TestUnreadable(t *testing.T) {
	for _, c := range []struct {
		text, want string
	}{
		{"", "t.yml: found nothing but white space and comments, want a scenario"},
		{"# only\n\n  # comments\n", "t.yml: found nothing but white space and comments"},
		{"a: 1\n---\nb: 2\n", "t.yml:2: found a second document (after ---), want one document a file"},
		{"a: 1\n---\n---\n", "t.yml:2: found a second document"},
		{"a: [1, 2\nb: 3\n", "t.yml:1: found no YAML: did not find expected ',' or ']'"},
		{"a: 1\n b: 2\n", "t.yml:2: found no YAML: mapping values are not allowed"},
		{"\ta: 1", "t.yml:1:1: found a tab in the indentation, want spaces; YAML indents with spaces only"},
		{"a:\n\tb: 1\n", "t.yml:2:1: found a tab in the indentation"},
		{"a:\n  b: 1\n\tc: 2\n", "t.yml:3:1: found a tab in the indentation"},
		{"a:\n  b: 1\n  \tc: 2\n", "t.yml:3:3: found a tab in the indentation"},
		{"a:\n  - x\n\t- y\n", "t.yml:3:1: found a tab in the indentation"},
		{"a:\n\t- x\n\t- y\n", "t.yml:2:1: found a tab in the indentation"},
		{"a:\n  b:\n  \t  c: 1\n", "t.yml:3:3: found a tab in the indentation"},
		{"a: 1\n-\tb: [\n", "t.yml:2: found no YAML"},
		{"x: 1\ny: 2\nz: \"abc\nq: 1\n", "t.yml:3: found no YAML: found unexpected end of stream"},
		{"a: 1\nb: *nope\nc: 2\n", "t.yml:2: found no YAML: unknown anchor 'nope' referenced"},
		{"r: 1\ns:\n  - a\n  b: 1\nt: 4\n", "t.yml:4: found no YAML: did not find expected '-' indicator"},
		{"x:\n  y: 1\n z: 2\n\n# more\n\nt: 5", "t.yml:3: found no YAML: did not find expected key"},
		{"- a\nb: 1\n", "t.yml:2: found no YAML: did not find expected '-' indicator"},
		{"a: 1\nb: {c: 1,\n  d: 2,\n  e: }}\nf: 1\n", "t.yml:2: found no YAML"},
		{"a: 1\na\n", "t.yml:2: found no YAML: could not find expected ':'"},
		{"a: 1\n--- [\n", "t.yml:2: found no YAML"},
		{"a: 1\nb: caf\xe9\n", "t.yml:2:7: found byte 0xe9, which is not UTF-8"},
		{"a: 1\nb: ü\x00\n", "t.yml:2:5: found the control character U+0000"},
		{"\xff\xfea\x00", "t.yml:1:1: found byte 0xff, which is not UTF-8"},
	} {
		_, err := scenario.Parse("t.yml", []byte(c.text))
		var problems scenario.Problems
		if !errors.As(err, &problems) || len(problems) != 1 || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q:\ngot  %v\nwant %s…", c.text, err, c.want)
		}
	}
}

// nested is a file of one list inside of another, n deep.
func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// laughs is the well-known file of aliases of aliases: 10 to the power n values.
func laughs(n int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), i-1)
	}
	return b.String()
}

// TestLimits: files at their limits are read, files beyond them are refused before
// they cost anything.
func TestLimits(t *testing.T) {
	start := time.Now()
	for name, c := range map[string]struct{ text, want string }{
		"depth": {nested(scenario.DepthMax), ""},
		"too deep": {nested(scenario.DepthMax + 1),
			fmt.Sprintf("t.yml:1:%d: found lists and mappings nested more than 64 deep", scenario.DepthMax+1)},
		"much too deep": {nested(9_000), "nested more than 64 deep"},
		"no end":        {strings.Repeat("[", 1<<20), "exceeded max depth"},
		"deep by alias": {"a: &a " + nested(40) + "\nb: " + strings.Repeat("[", 22) + "*a" + strings.Repeat("]", 22),
			""},
		"deeper by alias": {"a: &a " + nested(40) + "\nb: " + strings.Repeat("[", 24) + "*a" + strings.Repeat("]", 24),
			"with what *a stands for"},
		"size": {"a: 1\n" + strings.Repeat("#", scenario.FileBytesMax-5), ""},
		"too large": {"a: 1\n" + strings.Repeat("#", scenario.FileBytesMax-4),
			"more than 8 MiB, want at most 8388608 bytes"},
		"million":          {laughs(5), ""},
		"ten million":      {laughs(7), "more than 2000000 values"},
		"billions":         {laughs(60), "more than 2000000 values"},
		"alias of itself":  {"a: &a [1, *a]", "t.yml:1:11: found the alias *a inside of what it stands for"},
		"merge of itself":  {"a: &a\n  <<: *a\n", "t.yml:2:7: found the alias *a inside of what it stands for"},
		"alias in a cycle": {"a: &a { b: &b { c: *a }, d: *b }", "found the alias *a inside"},
		"alias as a key":   {"a: &a x\n*a : 2\n", ""},
	} {
		_, err := scenario.Parse("t.yml", []byte(c.text))
		if c.want == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want …%s…", name, err, c.want)
		}
	}
	if d := time.Since(start); d > 30*time.Second {
		t.Errorf("the limits took %v", d)
	}
}
