// SPDX-License-Identifier: Apache-2.0

package storeserver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// newEtcd makes a server for a test, or skips it where it can't be had.
func newEtcd(t *testing.T, dir string, flags ...string) *Etcd {
	t.Helper()
	s, err := NewEtcd(dir, flags...)
	if errors.Is(err, ErrAbsent) {
		t.Skip("SKIPPED: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

// serves starts a server and waits until it serves.
func serves(t *testing.T, s *Etcd) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := errors.Join(s.Start(), s.Ready(ctx)); err != nil {
		t.Fatal(err)
	}
}

// refuses starts a server, which must end with code 2 and say want.
func refuses(t *testing.T, s *Etcd, want string) {
	t.Helper()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	code, err := s.Wait(t.Context())
	if text := s.outputFrom(s.from); err != nil || code != 2 || !strings.Contains(text, want) ||
		strings.Count(strings.TrimSpace(text), "\n") > 0 {
		t.Errorf("code %d, %v, want 2; %q, want one line with %q", code, err, text, want)
	}
	s.Kill()
}

// ends ends a server by a signal, which must be clean.
func ends(t *testing.T, s *Etcd, signal syscall.Signal) {
	t.Helper()
	s.Signal(signal)
	if code, err := s.Wait(t.Context()); code != 0 || err != nil {
		t.Errorf("ended with code %d, %v: %s", code, err, s.Output())
	}
	s.Kill()
}

// TestEtcd: one server, stopped in every way, comes back with its address; its folder is its own.
func TestEtcd(t *testing.T) {
	dir := t.TempDir()
	s := newEtcd(t, dir)
	serves(t, s)
	addr := s.Addr()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		ends(t, s, signal)
		serves(t, s)
	}
	refuses(t, newEtcd(t, dir), "is in use by another disco-server")
	refuses(t, newEtcd(t, filepath.Join(dir, "other"), "--listen", addr), "address already in use")
	s.Kill()
	serves(t, s)
	if s.Addr() != addr {
		t.Errorf("it serves at %s, before at %s", s.Addr(), addr)
	}
	ends(t, s, syscall.SIGTERM)
	eof := newEtcd(t, filepath.Join(dir, "eof"), "--until-eof") // standard input is empty
	if err := eof.Start(); err != nil {
		t.Fatal(err)
	}
	if code, err := eof.Wait(t.Context()); code != 0 || err != nil {
		t.Errorf("at the end of its input it ended with code %d, %v: %s", code, err, eof.Output())
	}
}

// What a server can't start with is refused in one line that says what to do.
func TestEtcdRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	open := filepath.Join(t.TempDir(), "open")
	empty := filepath.Join(t.TempDir(), "empty")
	for name, mode := range map[string]os.FileMode{file: 0o600, open: 0o644, empty: 0o600} {
		text := "text\n"
		if name == empty {
			text = "\n"
		}
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		want  string
		flags []string
	}{
		{"--data is missing", []string{"--data", ""}},
		{"takes flags only", []string{"more"}},
		{"is no address", []string{"--listen", "2379"}},
		{"is no number", []string{"--listen", "127.0.0.1:70000"}},
		{"names no machine", []string{"--listen", ":2379"}},
		{"names no machine", []string{"--listen", "0.0.0.0:2379"}},
		{"others have to know the port", []string{"--listen", "10.1.2.3:0"}},
		{"nothing protects it", []string{"--listen", "10.1.2.3:2379"}},
		{"belong together", []string{"--cert", file}},
		{"failed to find any PEM data", []string{"--cert", file, "--key", file, "--ca", file}},
		{"is no address", []string{"--join", "127.0.0.1"}},
		{"is this server's own", []string{"--listen", "127.0.0.1:2379", "--join", "127.0.0.1:2379"}},
		{"no such file", []string{"--password-file", file + "-"}},
		{"can be read by others", []string{"--password-file", open}},
		{"is empty", []string{"--password-file", empty}},
		{"write debug", []string{"--log-level", "loud"}},
		{"not a directory", []string{"--data", file}},
		{"holds other things", []string{"--data", filepath.Dir(file)}},
	} {
		t.Run(c.want, func(t *testing.T) { refuses(t, newEtcd(t, t.TempDir(), c.flags...), c.want) })
	}
}

// A folder of another format, version or program, or a damaged one, is refused and stays as it is.
func TestEtcdFolders(t *testing.T) {
	for _, c := range []struct{ want, name, text string }{
		{"is damaged", "disco-server.json", `{"format":`},
		{"knows format 1", "disco-server.json", `{"format":2}`},
		{"which is no version", "disco-server.json", `{"format":1,"etcd":"new"}`},
		{"use one that has etcd 3.99", "disco-server.json", `{"format":1,"etcd":"3.99.1"}`},
		{"use one that has etcd 2.3", "disco-server.json", `{"format":1,"etcd":"2.3.0"}`},
		{"start it with --join again", "disco-server.json", `{"format":1,"etcd":"3.7.0","joined":true}`},
		{"was written by an etcd", "member/x", ""},
		{"has more than 4096 bytes", "disco-server.json", strings.Repeat(" ", 5000)},
	} {
		t.Run(c.want, func(t *testing.T) {
			dir := t.TempDir()
			name := filepath.Join(dir, "data", c.name)
			if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			refuses(t, newEtcd(t, dir), c.want)
			if text, err := os.ReadFile(name); err != nil || string(text) != c.text {
				t.Errorf("the file holds %q now, %v", text, err)
			}
		})
	}
	t.Run("full disk", func(t *testing.T) {
		dir := t.TempDir()
		if err := syscall.Mount("none", dir, "tmpfs", 0, "size=64m"); err != nil {
			t.Skip("SKIPPED: a small disk can't be made here: ", err)
		}
		defer func() { _ = syscall.Unmount(dir, 0) }()
		refuses(t, newEtcd(t, dir), "make room")
	})
}

// TestEtcds: three servers; one that loses its folder joins again; one with another store's folder doesn't.
func TestEtcds(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: servers join 5 s after each other")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	newEtcd(t, dir) // or skip
	z, err := StartEtcds(ctx, dir, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for _, s := range z.Servers { // one of them leads
		addr := s.Addr()
		ends(t, s, syscall.SIGTERM)
		serves(t, s)
		if s.Addr() != addr {
			t.Errorf("it serves at %s, before at %s", s.Addr(), addr)
		}
	}
	lost := z.Servers[2]
	lost.Kill()
	if err := os.RemoveAll(filepath.Join(lost.dir, "data")); err != nil {
		t.Fatal(err)
	}
	again := newEtcd(t, lost.dir, "--listen", lost.addr, "--join", z.Servers[1].addr)
	serves(t, again)
	own := newEtcd(t, filepath.Join(dir, "own"))
	serves(t, own)
	ends(t, own, syscall.SIGTERM)
	refuses(t, newEtcd(t, filepath.Join(dir, "own"), "--join", z.Servers[0].addr), "belongs to another store")
	z.Servers[0].Kill()
	z.Servers[1].Kill()
	serves(t, z.Servers[0]) // a majority again
	ends(t, again, syscall.SIGTERM)
}

// TestEtcdKilledWhileItStarts: wherever its first start was broken off, a server starts the next time.
func TestEtcdKilledWhileItStarts(t *testing.T) {
	for delay := 10 * time.Millisecond; delay < 130*time.Millisecond; delay += 10 * time.Millisecond {
		s := newEtcd(t, filepath.Join(t.TempDir(), "data"))
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(delay)
		s.Kill()
		serves(t, s)
		s.Kill()
	}
}
