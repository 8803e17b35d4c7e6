// SPDX-License-Identifier: Apache-2.0

package ci

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// failsOnce is a test that fails at its first run.
func failsOnce(how string) string {
	return `if f, err := os.OpenFile("was-here", os.O_CREATE|os.O_EXCL, 0o600); err == nil { f.Close(); ` + how + ` }`
}

// onlyOnce ends a test, and is another one, which passes at its first run.
const onlyOnce = `
}

func TestOther(t *testing.T) {
	f, err := os.OpenFile("other-was-here", os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil { t.Fatal("it runs again") }
	f.Close()`

// canaries are the tests of the packages of a module.
var canaries = map[string]string{
	"good": "", "bad": `t.Fatal("always")`, "syntax": "+",
	"once": failsOnce(`t.Fatal("late")`), "two": failsOnce(`t.Fatal("late")`), "three": failsOnce(`t.Fatal("late")`),
	"four":   failsOnce(`t.Fatal("late")`),
	"dies":   failsOnce(`panic("late")`),
	"hash":   failsOnce(`t.Errorf("%s: hash %s, want %s", "ring", "00c0ffee00c0ffee", "00c0ffee00c0ffef")`),
	"hashes": failsOnce(`t.Run("part", func(t *testing.T) { t.Error("another hash, or other events") })`),
	"lines":  failsOnce(`t.Error("found:\ntrace hash: 0xc0ffee00c0ff\nwant:\ntrace hash: 0xc0ffee00c0fe")`),
	"field": `type out struct { TraceHash, trace_hash string }
		` + failsOnce(`t.Errorf("%+v, %+v, want an end", out{"00c0ffee00c0ffee", ""}, out{"00c0ffee00c0ffef", "-"})`),
	"early": `println("hashes differ"); t.Run("part", func(t *testing.T) { t.Log("hashes differ") })
		` + failsOnce(`t.Errorf("interrupted %v, hash %q, want hash %s", true, "", "00c0ffee00c0ffee")`),
	"some":   `t.Run("part", func(t *testing.T) { ` + failsOnce(`t.Error("late")`) + ` })` + onlyOnce,
	"leaves": `println("leaktest: beside what failed"); ` + failsOnce(`t.Fatal("late")`) + onlyOnce,
	"long": `for range 3000 { println("noise") }; t.Run("part", func(t *testing.T) { t.Error("wrong") })
		for range 3000 { println("noise") }`,
}

// The script tests again, alone, what may have failed because of what ran beside it, says so, and nothing else.
func TestTestScript(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	script, err := filepath.Abs("test.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		packages, ci string
		ok           bool
		want, never  string
	}{
		{"good", "true", true, "ok  \tm/good", "again"},
		{"good once", "true", true, "FAILED BESIDE OTHERS, PASSED ALONE: --- FAIL: TestIt", "alone: m/good"},
		{"once two", "true", true, "FAILED BESIDE OTHERS, PASSED ALONE: FAIL\tm/two", ""},
		{"some", "true", true, "PASSED ALONE: --- FAIL: TestIt", "it runs again"},
		{"leaves", "true", false, "it runs again", "PASSED ALONE"},
		{"once", "", false, "FAIL\tm/once", "again"},
		{"bad", "true", false, "tested again, alone: m/bad", "PASSED ALONE"},
		{"once bad", "true", false, "tested again", "PASSED ALONE"},
		{"once two three four", "true", false, "FAIL\tm/four", "again"},
		{"hash", "true", false, "ring: hash", "again"},
		{"hashes", "true", false, "another hash", "again"},
		{"lines", "true", false, "trace hash", "again"},
		{"field early", "true", true, "PASSED ALONE: --- FAIL: TestIt", ""},
		{"dies", "true", false, "panic: late", "again"},
		{"once syntax", "true", false, "setup failed", "again"},
		{"bad long", "", false, "", ""},
	} {
		dir := t.TempDir()
		write := func(name, text string) {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("go.mod", "module m\n\ngo 1.26\n")
		for _, p := range strings.Fields(c.packages) {
			write(p+"/it_test.go", "package it\n\nimport (\"os\"; \"testing\")\n\nvar _ = os.Args\n\n"+
				"func TestIt(t *testing.T) {\n"+canaries[p]+"\n}\n")
		}
		cmd := exec.Command("sh", script, "-short")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=", "CI="+c.ci)
		out, err := cmd.CombinedOutput()
		said := string(out)
		if (err == nil) != c.ok || !strings.Contains(said, c.want) || c.never != "" && strings.Contains(said, c.never) {
			t.Errorf("%s, CI=%s: %v, want success %v, %q and not %q:\n%s", c.packages, c.ci, err, c.ok, c.want, c.never,
				said)
		}
		_, end, _ := strings.Cut(said, "==== where it failed\n")
		places, names, found := strings.Cut(end, "==== what failed\n")
		if found == c.ok {
			t.Errorf("%s, CI=%s: success %v, found its end %q", c.packages, c.ci, c.ok, end)
		}
		if c.packages == "bad long" && (!strings.Contains(places, "wrong\n") || len(end) > 10000 ||
			!strings.Contains(places, "always\n") || !strings.Contains(names, "    --- FAIL: TestIt/part (") ||
			!strings.Contains(names, "FAIL\tm/bad\t") || !strings.Contains(names, "FAIL\tm/long\t")) {
			t.Errorf("the end is %d bytes: %q, %q", len(end), places, names)
		}
	}
}
