// SPDX-License-Identifier: Apache-2.0

package storeserver

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/disco-sim/disco/internal/infile"
	"github.com/disco-sim/disco/internal/procfs"
)

// Postgres is a server of PostgreSQL on a Unix socket, which anybody may use who may enter its folder.
type Postgres struct{ *Process }

// ordinary is who the server runs as where this process is root: it refuses to run as that.
const ordinary = 65534

// StartPostgres makes a database and starts its server in a folder of their own, and waits until it serves. Where this
// process is root the server is user 65534, who may not enter the folders of tests: so the folder is in /tmp.
func StartPostgres(ctx context.Context) (*Postgres, error) {
	initdb, err := postgresProgram("initdb")
	if err != nil {
		return nil, err
	}
	server, err := postgresProgram("postgres")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("/tmp", "disco-pg-")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	// What it shares between processes is in its folder, so that one that is killed leaves nothing elsewhere.
	s := &Postgres{newProcess(dir, "data", server, "-D", data, "-k", dir, "-c", "listen_addresses=", "-c",
		"fsync=off", "-c", "dynamic_shared_memory_type=mmap")}
	if err := s.begin(ctx, initdb, data); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Postgres) begin(ctx context.Context, initdb, data string) error {
	if os.Geteuid() == 0 {
		s.as = &syscall.Credential{Uid: ordinary, Gid: ordinary}
		if err := os.Chown(s.dir, ordinary, ordinary); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, initdb, "-D", data, "-U", "test", "--auth=trust", "--no-sync", "--encoding=UTF8",
		"--locale=C")
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: s.as}
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("storeserver: initdb: %w: %s", err, text)
	}
	if err := s.Start(); err != nil {
		return err
	}
	return s.Ready(ctx)
}

// Ready waits until the server takes connections, which it says in its file of locks, or has ended. One that was killed
// has left such a file, with another process.
func (s *Postgres) Ready(ctx context.Context) error {
	s.mu.Lock()
	own := fmt.Appendf(nil, "%d\n", s.cmd.Process.Pid)
	s.mu.Unlock()
	for {
		lock, err := infile.Read(filepath.Join(s.data, "postmaster.pid"), lockFile)
		if err == nil && bytes.HasPrefix(lock, own) && bytes.Contains(lock, []byte("\nready")) {
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("storeserver: postgres has ended: %s", s.Output())
		case <-ctx.Done():
			return fmt.Errorf("storeserver: postgres doesn't serve: %w\n%s", context.Cause(ctx), s.Output())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// URL is what a client dials; options follow a ? if there are any.
func (s *Postgres) URL() string { return "postgres:///postgres?user=test&host=" + s.dir }

// CPUSeconds is the processor time of all its processes so far, of those that have ended too.
func (s *Postgres) CPUSeconds() (sum float64) {
	server, children := s.processes()
	if stat, err := procfs.Stat(server); err == nil {
		sum = stat.CPUSeconds + stat.OfEnded
	}
	for _, pid := range children {
		if stat, err := procfs.Stat(pid); err == nil {
			sum += stat.CPUSeconds
		}
	}
	return sum
}

// processes are the server, 0 where it doesn't run, and those that it has started.
func (s *Postgres) processes() (server int, children []int) {
	s.mu.Lock()
	if s.cmd != nil {
		server = s.cmd.Process.Pid
	}
	s.mu.Unlock()
	all, _ := procfs.Processes()
	for _, pid := range all {
		if stat, err := procfs.Stat(pid); err == nil && server > 0 && stat.Parent == server {
			children = append(children, pid)
		}
	}
	return server, children
}

// Kill ends the server and all its processes at once. One that serves a client would go on with what it does, and end
// when it waits for its client the next time.
func (s *Postgres) Kill() {
	s.Signal(syscall.SIGSTOP) // it starts no others meanwhile
	_, children := s.processes()
	for _, pid := range children {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended by itself
	}
	s.Process.Kill()
}

// closeMost is how long a server may take to end by itself.
const closeMost = 10 * time.Second

// Close ends the server, and takes away its folder.
func (s *Postgres) Close() {
	s.mu.Lock()
	runs := s.cmd != nil
	s.mu.Unlock()
	if runs { // of one that is killed a segment of shared memory is left
		ctx, cancel := context.WithTimeout(context.Background(), closeMost)
		defer cancel()
		s.Signal(syscall.SIGCONT)
		s.Signal(syscall.SIGQUIT)
		_, _ = s.Wait(ctx) // else it is killed
	}
	s.Kill()
	_ = os.RemoveAll(s.dir) // no one else has it
}

// postgresProgram is a program of PostgreSQL: in PATH, or where Debian has those of its newest version.
func postgresProgram(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("PostgreSQL's %s %w (Debian: postgresql)", name, ErrAbsent)
	}
	return slices.MaxFunc(found, func(a, b string) int { return versionOf(a) - versionOf(b) }), nil
}

// lockFile has the server's process, and whether it takes connections.
var lockFile = infile.Kind{Name: "postgres's file of locks", BytesMax: 4 << 10}

func versionOf(path string) int {
	v, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // none: an early one
	return v
}
