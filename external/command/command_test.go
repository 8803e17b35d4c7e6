// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/external"
	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func ask(t *testing.T, script, request string, timeout time.Duration) external.Result {
	t.Helper()
	x := external.External{Name: "sh", Ask: Command{Path: "/bin/sh", Args: []string{"-c", script},
		Env: []string{"TWO=2"}, Dir: t.TempDir()}.Ask, Policy: external.Policy{Timeout: timeout, NeedsKey: true}}
	r, err := x.Do(t.Context(), "thekey", []byte(request))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A program gets the request, the key and its environment, and answers on its standard output.
func TestCommand(t *testing.T) {
	for _, c := range []struct{ script, answer, failure string }{
		{"cat", "hello", ""},
		{"echo $DISCO_KEY $TWO", "thekey 2\n", ""},
		{"echo no plan >&2; exit 3", "", "/bin/sh: exit status 3: no plan"},
		{"exit 0", "", ""},
		{"kill -9 $$", "", "/bin/sh: signal: killed"},
		{"head -c 16777216 /dev/zero | wc -c", "16777216\n", ""},
		{"yes | head -c 17000000", "", "found more than 16777216 bytes on its standard output"},
	} {
		r := ask(t, c.script, "hello", 0)
		if string(r.Answer) != c.answer || !strings.Contains(r.Failure, c.failure) ||
			(r.Failure == "") != (c.failure == "") {
			t.Errorf("%s: %.100q, %q; want %q, %q", c.script, r.Answer, r.Failure, c.answer, c.failure)
		}
	}
	x := external.External{Name: "none", Ask: Command{Path: "/none/at/all"}.Ask}
	if r, err := x.Do(t.Context(), "", nil); err != nil || !strings.Contains(r.Failure, "no such file") {
		t.Errorf("%+v, %v", r, err)
	}
}

// A program that takes too long ends with all that it has started.
func TestTimeout(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	began := time.Now()
	r := ask(t, "sleep 3600 & echo $! >"+pid+"; wait", "", 300*time.Millisecond)
	if !strings.Contains(r.Failure, "no answer within 300ms") && !strings.Contains(r.Failure, "deadline exceeded") ||
		time.Since(began) > 20*time.Second {
		t.Fatalf("%q after %v", r.Failure, time.Since(began))
	}
	text, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	for _, digit := range strings.TrimSpace(string(text)) {
		n = 10*n + int(digit-'0')
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if syscall.Kill(n, 0) != nil {
			return
		}
		state, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(text)), "stat"))
		if err != nil || strings.Contains(string(state), ") Z ") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %d is still there", n)
		}
	}
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	path, large, pipe := filepath.Join(dir, "small"), filepath.Join(dir, "large"), filepath.Join(dir, "pipe")
	if err := os.WriteFile(path, []byte("table"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(large, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, external.BytesMax+1); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o666); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{path: "table", large: "found 16777217 bytes", pipe: "no regular file",
		dir: "no regular file", path + "x": "no such file"} {
		x := external.External{Name: "file", Ask: File}
		r, err := x.Do(t.Context(), "", []byte(path))
		if err != nil || !strings.Contains(string(r.Answer)+r.Failure, want) {
			t.Errorf("%s: %q, %q, %v; want %q", path, r.Answer, r.Failure, err, want)
		}
	}
}
