// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// fullPipe is a pipe that nobody reads and into which nothing fits any more.
func fullPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	var err error
	if r, w, err = os.Pipe(); err != nil {
		t.Fatal(err)
	}
	if err := w.SetWriteDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = w.Write(make([]byte, 4096))
	}
	if err := w.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// One signal ends a run whose standard error is full and isn't read, whatever is about to be written there: by the
// launcher, or by workers.
func TestFullStandardError(t *testing.T) {
	for _, trouble := range []string{"", "{node: 0, at: 1, how: print}"} {
		dir := t.TempDir()
		file := filepath.Join(dir, "tiny.yml")
		if err := os.WriteFile(file, []byte(launchtest.Scenario(4, 1e9, trouble)), 0o644); err != nil {
			t.Fatal(err)
		}
		_, full := fullPipe(t)
		l := &launched{t: t, dir: dir}
		l.cmd = exec.Command(os.Args[0], "run", file, "--workers", "2", "--json", "-")
		l.cmd.Env = append(os.Environ(), programEnv+"=1")
		l.cmd.Stdout, l.cmd.Stderr, l.cmd.Dir = &l.stdout, full, dir
		l.simulating(2)
		if err := l.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		l.end()
		said := l.stdout.String()
		if status := l.cmd.ProcessState.ExitCode(); status != 143 || !strings.Contains(said, "\"events\"") {
			t.Errorf("%q: exit status %d, results %q", trouble, status, said)
		}
	}
}

// What was written before hurry waits for its reader; what comes later is lost, until the reader reads on.
func TestOutletHurried(t *testing.T) {
	r, w := io.Pipe()
	o := newOutlet(w)
	first := make(chan error)
	go func() {
		_, err := o.Write([]byte("one "))
		first <- err
	}()
	select {
	case <-first:
		t.Error("a Write that nobody has read has returned")
	case <-time.After(2 * outletTimeout):
	}
	o.hurry()
	if err := <-first; err != nil {
		t.Error(err)
	}
	for range 1000 { // each with outletTimeout, this would take a minute; what is kept stays bounded
		if _, err := o.Write(make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(o.pending); n > 1000 {
		t.Errorf("%d bytes are kept for a reader that doesn't read", n)
	}
	text := make([]byte, 4)
	if _, err := io.ReadFull(r, text); err != nil || string(text) != "one " {
		t.Errorf("%q, %v", text, err)
	}
	go func() {
		defer w.Close()
		for o.full() { // until pass has seen that the reader reads
			time.Sleep(time.Millisecond)
		}
		if _, err := o.Write([]byte("two")); err != nil {
			t.Error(err)
		}
	}()
	if rest, err := io.ReadAll(r); err != nil || !bytes.HasSuffix(rest, []byte("two")) {
		t.Errorf("%q, %v", rest, err)
	}
}

// full reports whether text is lost now.
func (o *outlet) full() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stuck
}

// The error of the writer behind it is that of the Write.
func TestOutletError(t *testing.T) {
	r, w := io.Pipe()
	r.Close()
	o := newOutlet(w)
	for range 2 {
		if n, err := o.Write([]byte("lost")); n != 0 || err != io.ErrClosedPipe {
			t.Errorf("%d, %v", n, err)
		}
	}
}
