// SPDX-License-Identifier: Apache-2.0

package storeserver

import (
	"context"
	"encoding/json"
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
	Need(t, err)
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
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	code, err := s.Wait(ctx)
	// One that starts anew, because this machine was too busy for its elections, ends by the signal itself until it
	// listens to signals again.
	anew := code == -1 && strings.Contains(s.Output(), "starts anew")
	if code != 0 && !anew || err != nil {
		t.Errorf("ended with code %d, %v: %s", code, err, s.Output())
	}
	s.Kill()
}

// TestEtcd: one server, stopped in every way, comes back with its address; its folder is its own.
func TestEtcd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newEtcd(t, dir)
	serves(t, s)
	addr := s.Addr()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		ends(t, s, signal)
		serves(t, s)
	}
	refuses(t, newEtcd(t, dir), "is in use by another disco-server (process ")
	refuses(t, newEtcd(t, filepath.Join(dir, "other"), "--listen", addr),
		"address already in use: end what listens there, or choose another port")
	note, err := os.ReadFile(filepath.Join(dir, "data", "disco-server.json"))
	var remembered struct{ Peer string }
	if err := errors.Join(err, json.Unmarshal(note, &remembered)); err != nil {
		t.Fatal(err)
	}
	refuses(t, newEtcd(t, filepath.Join(dir, "next"), "--listen", remembered.Peer), "also takes the one after")
	listensOn(t, s, addr, remembered.Peer)
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
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	open := filepath.Join(t.TempDir(), "open")
	empty := filepath.Join(t.TempDir(), "empty")
	long := filepath.Join(t.TempDir(), "long")
	for name, mode := range map[string]os.FileMode{file: 0o600, open: 0o644, empty: 0o600, long: 0o600} {
		text := "text\n"
		switch name {
		case empty:
			text = "\n"
		case long:
			text = strings.Repeat("x", 73)
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
		{"want 16 to 8192 MiB", []string{"--quota", "15"}},
		{"want 16 to 8192 MiB", []string{"--quota", "8193"}},
		{"no such file", []string{"--password-file", file + "-"}},
		{"can be read by others", []string{"--password-file", open}},
		{"is empty", []string{"--password-file", empty}},
		{"at most 72", []string{"--password-file", long}},
		{"write debug", []string{"--log-level", "loud"}},
		{"not a directory", []string{"--data", file}},
		{"holds other things", []string{"--data", filepath.Dir(file)}},
	} {
		t.Run(c.want, func(t *testing.T) { refuses(t, newEtcd(t, t.TempDir(), c.flags...), c.want) })
	}
}

// Who joins servers that aren't there says so while it tries, and ends in order by a signal.
func TestEtcdWaitsForOthers(t *testing.T) {
	t.Parallel()
	s := newEtcd(t, t.TempDir(), "--join", "127.0.0.1:1")
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); !strings.Contains(s.Output(), "--join 127.0.0.1:1: no answer for "); {
		if time.Now().After(end) {
			t.Fatalf("it is silent: %q", s.Output())
		}
		time.Sleep(20 * time.Millisecond)
	}
	ends(t, s, syscall.SIGTERM)
}

// A folder of another format, version or program, or a damaged one, is refused and stays as it is.
func TestEtcdFolders(t *testing.T) {
	t.Parallel()
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
		// Detached: a process that another test starts just now may hold a descriptor until its exec.
		defer func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) }()
		refuses(t, newEtcd(t, dir), "make room")
	})
}

// TestEtcds: three servers; one that loses its folder joins again; one with another store's folder doesn't.
func TestEtcds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	newEtcd(t, dir) // or skip
	began := time.Now()
	z, err := StartEtcds(ctx, dir, 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("three servers after %v", time.Since(began))
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
	z.Servers[0].Kill()
	if err := z.Servers[0].Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond) // it waits for the others, and isn't ready
	ends(t, z.Servers[0], syscall.SIGTERM)
}

// TestEtcdJoinsWithThePassword: a store that asks for a password takes no server without it, which says so.
func TestEtcdJoinsWithThePassword(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	right, wrong := filepath.Join(dir, "right"), filepath.Join(dir, "wrong")
	for _, name := range []string{right, wrong} {
		if err := os.WriteFile(name, []byte(filepath.Base(name)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first := newEtcd(t, filepath.Join(dir, "0"), "--password-file", right)
	serves(t, first)
	join := []string{"--join", first.Addr()}
	refuses(t, newEtcd(t, filepath.Join(dir, "1"), join...), "give --password-file")
	refuses(t, newEtcd(t, filepath.Join(dir, "2"), append(join, "--password-file", wrong)...),
		"--password-file isn't that of the store's user root")
	serves(t, newEtcd(t, filepath.Join(dir, "3"), append(join, "--password-file", right)...))
}

// TestEtcdKilledWhileItStarts: wherever its first start was broken off, a server starts the next time.
func TestEtcdKilledWhileItStarts(t *testing.T) {
	t.Parallel()
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

// TestEtcdsJoinAtOnce: of servers that join at the same time each becomes one of three, so that any two of them serve.
func TestEtcdsJoinAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	began := time.Now()
	first := newEtcd(t, filepath.Join(dir, "0"))
	serves(t, first)
	var others []*Etcd
	for _, name := range []string{"1", "2"} {
		s := newEtcd(t, filepath.Join(dir, name), "--join", first.Addr())
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		others = append(others, s)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, s := range others {
		if err := s.Ready(ctx); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("three servers after %v", time.Since(began))
	first.Kill()
	others[0].Kill()
	serves(t, others[0]) // which needs the third
}
