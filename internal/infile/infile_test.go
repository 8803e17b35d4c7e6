// SPDX-License-Identifier: Apache-2.0

package infile

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

var kind = Kind{Name: "a list of names", BytesMax: 100}

// TestRefuses: whatever isn't a file ends at once, with its name, what was found and what
// is wanted. Reading a named pipe nobody writes to, or a device without an end, would
// never return.
func TestRefuses(t *testing.T) {
	dir := t.TempDir()
	pipe, socket, large, secret := filepath.Join(dir, "pipe"), filepath.Join(dir, "socket"),
		filepath.Join(dir, "large"), filepath.Join(dir, "secret")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for path, size := range map[string]int{large: 101, secret: 1} {
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(secret, 0); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "no file of that name",
		dir:                        "a directory",
		"/dev/zero":                "a device",
		"/dev/null":                "a device",
		pipe:                       "a named pipe",
		socket:                     "a socket",
		large:                      "a file of 101 bytes",
		large + "/below":           "a file that can't be opened (not a directory)",
		secret:                     "a file without permission to read it",
		"":                         "no file of that name",
	} {
		if path == secret && os.Geteuid() == 0 {
			continue // root may read everything
		}
		_, err := Read(path, kind)
		var e *Error
		if !errors.As(err, &e) || !strings.HasPrefix(err.Error(),
			fmt.Sprintf("%s: found %s, want a list of names", path, want)) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	if _, err := Read(filepath.Join(dir, "none"), kind); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v doesn't unwrap to the system's error", err)
	}
}

// TestReads: a file up to its limit, and a pipe that a shell made.
func TestReads(t *testing.T) {
	full := filepath.Join(t.TempDir(), "full")
	if err := os.WriteFile(full, make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := Read(full, kind); err != nil || len(text) != 100 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	for _, size := range []int{0, 100, 101} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		w.Close()
		text, err := Read(fmt.Sprintf("/dev/fd/%d", r.Fd()), kind)
		if got := len(text); (err == nil) != (size <= 100) || err == nil && got != size {
			t.Errorf("a pipe of %d bytes: %d bytes, %v", size, got, err)
		}
		if want := "more than 100 bytes, want a list of names of at most 100 bytes"; err != nil &&
			!strings.HasSuffix(err.Error(), want) {
			t.Errorf("a pipe of %d bytes: %v, want %s", size, err, want)
		}
		r.Close()
	}
}
