// SPDX-License-Identifier: Apache-2.0

// Package storeserver starts real servers of metadata stores on free ports of the loopback, kills, stops and restarts
// them, and puts a forwarder between them and their clients that cuts the traffic off.
//
// Guarantee: nothing outlives the process that started it, and [ErrAbsent] says what is missing where a server can't
// be had. Nothing here stands in for a server.
package storeserver

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// ErrAbsent is wrapped by errors that say that a program isn't installed here.
var ErrAbsent = errors.New("isn't installed")

// Need is for tests whose server, or what else it takes, could be had unless there is an error: one that isn't
// installed skips the test, saying so, and every other error fails it.
func Need(t interface {
	Helper()
	Skipf(format string, args ...any)
	Fatal(args ...any)
}, err error) {
	t.Helper()
	if errors.Is(err, ErrAbsent) {
		t.Skipf("SKIPPED: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
}

// ParallelTests is for a package's TestMain: n of its parallel tests run at the same time, unless -parallel says
// otherwise. Tests that start servers wait most of their time for the end of sessions, and not for processors.
func ParallelTests(n int) {
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(fmt.Sprintf("storeserver: %d tests at the same time: %v", n, err)) // not in a test
	}
}

// Process is one server process, which can be started again after its end with what it left in its folder.
type Process struct {
	dir  string // the output goes to output.txt in there
	data string // folder in there with what the server stores
	args []string
	as   *syscall.Credential // nil: as this process

	mu    sync.Mutex
	cmd   *exec.Cmd     // nil before the first start and after Kill
	ended chan struct{} // closed when cmd has ended, by whatever
}

// newProcess doesn't start it.
func newProcess(dir, data string, args ...string) *Process {
	return &Process{dir: dir, data: filepath.Join(dir, data), args: args}
}

// Start starts the process. What it needs until it serves is for the caller to wait for.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		return fmt.Errorf("storeserver: %s runs already", p.args[0])
	}
	output, err := os.OpenFile(filepath.Join(p.dir, "output.txt"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer output.Close()
	cmd := exec.Command(p.args[0], p.args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: p.as}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("storeserver: %w", err)
	}
	p.cmd, p.ended = cmd, make(chan struct{})
	go func(ended chan struct{}) {
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
		close(ended)
	}(p.ended)
	return nil
}

// Wait waits until a process that was started has ended by itself or by a signal, and gives its exit code (-1: a
// signal).
func (p *Process) Wait(ctx context.Context) (code int, err error) {
	p.mu.Lock()
	cmd, ended := p.cmd, p.ended
	p.mu.Unlock()
	select {
	case <-ended:
		return cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("storeserver: %s hasn't ended: %w", cmd.Path, context.Cause(ctx))
	}
}

// Signal sends a signal: SIGSTOP halts the process without closing its connections, SIGCONT lets it go on. One that
// doesn't run takes none.
func (p *Process) Signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(s) // it may have ended by itself
	}
}

// Kill ends the process at once, and waits until it is gone. Calling it again does nothing.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.ended
	p.cmd = nil
}

// Wipe takes away what a server that doesn't run has stored.
func (p *Process) Wipe() error { return os.RemoveAll(p.data) }

// Save makes a copy of what a server that doesn't run has stored, for Restore.
func (p *Process) Save() error {
	return errors.Join(os.RemoveAll(p.data+".saved"), os.CopyFS(p.data+".saved", os.DirFS(p.data)))
}

// Restore puts the copy back.
func (p *Process) Restore() error {
	return errors.Join(os.RemoveAll(p.data), os.CopyFS(p.data, os.DirFS(p.data+".saved")))
}

// Output is the end of what the process wrote, for messages.
func (p *Process) Output() string { return p.outputFrom(0) }

// outputFrom is the end of what was written after the first bytes.
func (p *Process) outputFrom(from int64) string {
	const most = 4 << 10
	f, err := os.Open(filepath.Join(p.dir, "output.txt"))
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, from, size-most), io.SeekStart)
	}
	var text strings.Builder
	_, _ = io.Copy(&text, io.LimitReader(f, most)) // what could be read
	return text.String()
}

// given are the ports that freePorts has returned.
var given sync.Map

// freePorts are ports of the loopback on which nobody listened just now, below those that the kernel hands out: nobody
// gets one by chance while its server is down.
func freePorts(n int) (ports []string, err error) {
	for tries := 0; len(ports) < n; tries++ {
		port := strconv.Itoa(10_000 + rand.IntN(10_000))
		if _, before := given.LoadOrStore(port, true); before && tries < 1000 {
			continue
		}
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		switch {
		case err == nil:
			defer l.Close()
			ports = append(ports, port)
		case tries >= 1000:
			return nil, fmt.Errorf("storeserver: no port from 10000 to 19999 is free: %w", err)
		}
	}
	return ports, nil
}
