// SPDX-License-Identifier: Apache-2.0

package leaktest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/shm"
)

func TestMain(m *testing.M) { Main(m) }

// Everything that a test can leave behind is found, and named by what it is; nothing is
// found when it is gone.
func TestFindsWhatIsLeft(t *testing.T) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	defer func() {
		close(stop)
		<-stopped
	}()
	for _, c := range []struct {
		what, want string
		leave      func(dir string) (remove func())
	}{
		{"nothing", "", func(string) func() { return func() {} }},
		{"goroutine", "leaktest.leaveGoroutine", func(string) func() {
			begun, end, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
			go leaveGoroutine(begun, end, ended)
			<-begun // its stack has no name of its own before
			return func() { close(end); <-ended }
		}},
		{"descriptor", "descriptor", func(string) func() {
			f, err := os.Open("/dev/zero")
			must(t, err)
			return func() { f.Close() }
		}},
		{"mapping", "memfd:disco", func(string) func() {
			s, err := shm.Create(shm.Config{Name: "disco-left", Kind: 'l' | 'e'<<8 | 'f'<<16 | 't'<<24, Size: 4096})
			must(t, err)
			return func() { must(t, s.Close()) }
		}},
		{"process", "process", func(string) func() {
			cmd := exec.Command("sleep", "60")
			must(t, cmd.Start())
			return func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
		}},
		{"process that was not waited for", "in state Z", func(string) func() {
			cmd := exec.Command("true")
			must(t, cmd.Start())
			for !strings.Contains(strings.Join(children(), "\n"), "in state Z") {
			}
			return func() { _ = cmd.Wait() }
		}},
		{"file", "left.txt", func(dir string) func() {
			path := filepath.Join(dir, "left.txt")
			must(t, os.WriteFile(path, nil, 0o666))
			return func() { must(t, os.Remove(path)) }
		}},
	} {
		dir := t.TempDir()
		before, keep := descriptors(), []string{"testing.(*T).Run"}
		remove := c.leave(dir)
		found := strings.Join(leftovers(before, dir, keep), "\n")
		if found == "" != (c.want == "") || !strings.Contains(found, c.want) {
			t.Errorf("%s: found %q, want %q in it", c.what, found, c.want)
		}
		remove()
		if found := leftovers(before, dir, keep); len(found) > 0 {
			t.Errorf("%s: still found when it was gone: %q", c.what, found)
		}
	}
	go func() { defer close(stopped); <-stop }()
	if found := goroutines([]string{"testing.(*T).Run", "TestFindsWhatIsLeft.func"}); len(found) > 0 {
		t.Errorf("a goroutine to keep is found: %q", found)
	}
}

// leaveGoroutine has a name of its own, to be found by.
func leaveGoroutine(begun chan<- struct{}, end, ended chan struct{}) {
	close(begun)
	defer close(ended)
	<-end
}

// What is left makes the tests fail; failed tests keep their status.
func TestStatus(t *testing.T) {
	keep := []string{"testing.(*T).Run"}
	leave := func() int {
		must(t, os.WriteFile(filepath.Join(os.TempDir(), "left"), nil, 0o666))
		return 0
	}
	for what, c := range map[string]struct {
		tests func() int
		want  int
	}{
		"nothing left": {func() int { return 0 }, 0},
		"failed":       {func() int { return 3 }, 3},
		"a file left":  {leave, 1},
		"both":         {func() int { leave(); return 3 }, 3},
	} {
		if got := run(c.tests, keep, 0); got != c.want {
			t.Errorf("%s: status %d, want %d", what, got, c.want)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
