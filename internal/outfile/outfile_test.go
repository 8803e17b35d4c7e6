// SPDX-License-Identifier: Apache-2.0

package outfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// names lists what is in a directory.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// A file appears whole in Commit and not at all before, with or without unnamed
// files on the file system.
func TestOutputAppearsWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	for i, text := range []string{"first", "second, in its place"} {
		o, err := Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(o, text); err != nil {
			t.Fatal(err)
		}
		if got := names(t, dir); len(got) != i {
			t.Fatalf("before Commit %d there is %v", i, got)
		}
		if err := o.Commit(); err != nil {
			t.Fatal(err)
		}
		o.Abort() // does nothing any more
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Fatalf("the file holds %q (%v), want %q", got, err, text)
		}
	}
	o, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	o.Abort()
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("after Abort there is %v", got)
	}
}

// The same for a file system that has no unnamed files.
func TestOutputWithTemporaryName(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	for _, commit := range []bool{false, true} {
		o := &File{path: path, final: path}
		if err := o.openNamed(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(o, "text"); err != nil {
			t.Fatal(err)
		}
		if !commit {
			o.Abort()
			if got := names(t, dir); len(got) != 0 {
				t.Fatalf("after Abort there is %v", got)
			}
			continue
		}
		if err := o.Commit(); err != nil {
			t.Fatal(err)
		}
		if got := names(t, dir); len(got) != 1 || got[0] != "out" {
			t.Fatalf("after Commit there is %v", got)
		}
	}
}

func TestOutputKeepsWhatItReplaces(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	if err := os.WriteFile(real, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	o, err := Create(link)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(o, "new"); err != nil {
		t.Fatal(err)
	}
	if err := o.Commit(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("the link became %v (%v)", info, err)
	}
	info, err := os.Stat(real)
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the file has mode %v (%v), want 0640 as before", info.Mode(), err)
	}
	if got, _ := os.ReadFile(real); string(got) != "new" {
		t.Errorf("the file holds %q, want %q", got, "new")
	}
}

func TestOutputRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		path, want string
		is         error
	}{
		{dir, dir + " is a directory, want the name of a file", nil},
		{filepath.Join(dir, "no", "out"), filepath.Join(dir, "no", "out") +
			" can't be written: no such file or directory", fs.ErrNotExist},
		{filepath.Join("/proc", "out"), "", nil},
	} {
		err := Check(c.path)
		if err == nil || c.want != "" && err.Error() != c.want || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: error %v, want %q", c.path, err, c.want)
		}
	}
	if err := Check("/dev/null"); err != nil {
		t.Errorf("/dev/null: %v", err)
	}
	o, err := Create("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Commit(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat("/dev/null"); err != nil || info.Mode().IsRegular() {
		t.Fatalf("/dev/null became %v (%v)", info, err)
	}
}

// A symbolic link is followed and stays; one that leads nowhere, or that another user has
// put where everybody may, is refused.
func TestOutputThroughLink(t *testing.T) {
	dir := t.TempDir()
	file, link, nowhere := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "nowhere")
	if err := errors.Join(os.WriteFile(file, []byte("old"), 0o600), os.Symlink("file", link),
		os.Symlink("none", nowhere)); err != nil {
		t.Fatal(err)
	}
	write := func(path string) error {
		o, err := Create(path)
		if err != nil {
			return err
		}
		if _, err := o.Write([]byte("new")); err != nil {
			return err
		}
		return o.Commit()
	}
	if err := write(link); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if target, errLink := os.Readlink(link); err != nil || string(text) != "new" || errLink != nil || target != "file" {
		t.Errorf("the file holds %q (%v), the link leads to %q (%v)", text, err, target, errLink)
	}
	if err := write(nowhere); err == nil || !strings.Contains(err.Error(), "doesn't exist") {
		t.Errorf("through a link that leads nowhere: %v", err)
	}
	const otherUser = 12345
	if err := errors.Join(os.Chmod(dir, 0o777|os.ModeSticky), os.Lchown(link, otherUser, otherUser)); err != nil {
		t.Skipf("links can't be given away: %v", err)
	}
	if err := write(link); err == nil || !strings.Contains(err.Error(), "another user") {
		t.Errorf("through another user's link: %v", err)
	}
}

// A named pipe is written when a process reads it; one without a reader is an error and not
// a wait.
func TestOutputIntoPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(path); err == nil || !strings.Contains(err.Error(), "named pipe that nobody reads") {
		t.Errorf("without a reader: %v", err)
	}
	read := make(chan string)
	go func() {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		read <- string(text)
	}()
	var out *File
	for deadline := time.Now().Add(60 * time.Second); ; {
		var err error
		if out, err = Create(path); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	want := strings.Repeat("x", 1<<20) // more than the pipe holds
	if _, err := out.Write([]byte(want)); err != nil {
		t.Error(err)
	}
	if err := out.Commit(); err != nil {
		t.Error(err)
	}
	if got := <-read; got != want {
		t.Errorf("%d bytes came, want %d", len(got), len(want))
	}
}

// A file that is only to be new leaves what is there, with and without unnamed files, and no other name. Both orders of
// Sync and Commit that a durable file needs work on this file system.
func TestOutputOnlyNew(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	for i, open := range []func(*File) error{(*File).open, (*File).openNamed, (*File).open} {
		o := &File{path: path, final: path}
		if err := open(o); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(o, "text "+string(rune('0'+i))); err != nil {
			t.Fatal(err)
		}
		if err := o.Sync(); err != nil {
			t.Fatal(err)
		}
		err := o.CommitNew()
		if isNew := i == 0; (err == nil) != isNew || !isNew && !errors.Is(err, fs.ErrExist) {
			t.Fatalf("file %d: %v", i, err)
		}
		if err := SyncDir(dir); err != nil {
			t.Fatal(err)
		}
		if got := names(t, dir); len(got) != 1 || got[0] != "out" {
			t.Fatalf("after file %d there is %v", i, got)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "text 0" {
		t.Errorf("the file holds %q (%v), want the first one's text", got, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	o := &File{path: path, final: path}
	if err := o.openNamed(); err != nil {
		t.Fatal(err)
	}
	if err := o.CommitNew(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); len(got) != 1 || got[0] != "out" {
		t.Errorf("with a temporary name there is %v", got)
	}
	if err := SyncDir(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that isn't there: %v", err)
	}
}

// TestLockDir: a directory is one holder's at a time, whom the error names; nothing is put into it.
func TestLockDir(t *testing.T) {
	dir := t.TempDir()
	unlock, err := LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var locked *LockedError
	if _, err := LockDir(dir); !errors.As(err, &locked) || locked.PID != os.Getpid() ||
		locked.Error() != fmt.Sprintf("%s: process %d has it", dir, os.Getpid()) {
		t.Errorf("%v, want *LockedError with this process, %d", err, os.Getpid())
	}
	unlock()
	if unlock, err = LockDir(dir); err != nil {
		t.Fatal(err)
	}
	unlock()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v, want nothing in it", entries, err)
	}
	if _, err := LockDir(dir + "/none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v, want that it isn't there", err)
	}
}
