// SPDX-License-Identifier: Apache-2.0

package leaktest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// halvesEnv is a folder in which the tests of halves note that they have run. Of those named there one fails.
const halvesEnv = "DISCO_TEST_HALVES"

// ran notes which process runs a test.
func ran(t *testing.T) {
	t.Helper()
	dir := os.Getenv(halvesEnv)
	if dir == "" {
		t.Skip("TestHalves runs it")
	}
	if _, err := os.Stat(filepath.Join(dir, "fails-"+t.Name())); err == nil {
		t.Fatal("it fails")
	}
	must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint("ran-", t.Name(), "-", os.Getpid())), nil, 0o666))
}

func TestHalfOfThem(t *testing.T) { ran(t) }

// TestHalfIsKilled: a half that ends in another way than tests do counts as if something was left behind, so that all
// is tested again.
func TestHalfIsKilled(t *testing.T) {
	if os.Getenv(halvesEnv) != "" {
		return // it is run by itself
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	must(t, err)
	defer out.Close()
	status, err := halves([]string{"/bin/sh", "-c", "kill -9 $$"}, "x", "", out)
	must(t, err)
	text, err := os.ReadFile(out.Name())
	must(t, err)
	if status == 0 || !strings.Contains(string(text), "leaktest: of the two processes") {
		t.Errorf("status %d: %s", status, text)
	}
}

func TestRestOfThem(t *testing.T) { ran(t) }

// TestHalves: each test is run once, by one of two processes, both are said to have failed, and what they have read is
// in one log.
func TestHalves(t *testing.T) {
	if os.Getenv(halvesEnv) != "" {
		return // it runs itself
	}
	for _, fails := range []string{"", "TestHalfOfThem", "TestRestOfThem"} {
		dir := t.TempDir()
		t.Setenv(halvesEnv, dir)
		must(t, os.WriteFile(filepath.Join(dir, "fails-"+fails), nil, 0o666))
		out, err := os.Create(filepath.Join(dir, "out"))
		must(t, err)
		defer out.Close()
		log := filepath.Join(dir, "log")
		status, err := halves([]string{os.Args[0], "-test.v"}, "^TestHalf", log, out)
		must(t, err)
		text, err := os.ReadFile(out.Name())
		must(t, err)
		said := string(text)
		const one = "of the two processes"
		if status == 0 != (fails == "") || fails != "" && !strings.Contains(said, "--- FAIL: "+fails) ||
			strings.Contains(said, one) != (fails != "") || strings.Contains(said, "leaktest: "+one) {
			t.Errorf("%q fails: status %d: %s", fails, status, said)
		}
		processes := map[string]bool{}
		for _, name := range []string{"TestHalfOfThem", "TestRestOfThem"} {
			found, err := filepath.Glob(filepath.Join(dir, "ran-"+name+"-*"))
			must(t, err)
			if len(found) != 1 && name != fails || strings.Count(said, "=== RUN   "+name+"\n") != 1 {
				t.Errorf("%q fails: %s ran %d times: %s", fails, name, len(found), said)
			}
			for _, f := range found {
				processes[f[strings.LastIndexByte(f, '-'):]] = true
			}
		}
		if fails != "" {
			continue
		}
		if len(processes) != 2 {
			t.Errorf("%d processes: %s", len(processes), said)
		}
		text, err = os.ReadFile(log)
		must(t, err)
		lines := strings.Split(string(text), "\n")
		if lines[0]+"\n" != logHead || strings.Count(string(text), logHead) != 1 ||
			!strings.Contains(string(text), "fails-TestHalfOfThem\n") ||
			!strings.Contains(string(text), "fails-TestRestOfThem\n") || strings.Count(string(text), "\nchdir /") < 2 {
			t.Errorf("the log of both is\n%s", text)
		}
	}
}
